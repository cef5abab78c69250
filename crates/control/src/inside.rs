//! Allocators other than the C library's: in a library of their own, or inside the executable or another library, where their functions
//! may have a prefix and need not be exported.

use crate::outside::Callee;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_format as format;
use ramson_process::allocators::Allocators;
use ramson_process::identify::AllocatorKind;
use ramson_source::Target;

/// jemalloc's function for statistics and orders, and those by which it is known behind a prefix.
pub const MALLCTL: [&str; 3] = ["mallctl", "mallctlbymib", "mallctlnametomib"];

/// One inside an object that the profile tells of.
#[derive(Clone, Copy, BorshSerialize, BorshDeserialize)]
pub struct Inside {
    is_jemalloc: bool,
    /// Where its object begins in memory.
    object: u64,
}

impl Inside {
    /// The one that is asked and trimmed.
    pub fn of(target: &Target) -> Option<Self> {
        let allocator = target.profile.as_ref()?.snapshot.asked_allocator()?;
        let is_jemalloc = allocator.kind == format::AllocatorKind::Jemalloc as u32;
        Some(Self { is_jemalloc, object: allocator.object })
    }
}

/// One whose functions may be called.
pub struct Other {
    pub kind: AllocatorKind,
    /// For people.
    pub name: String,
    place: Place,
}

enum Place {
    /// The path of its library, which exports its functions.
    Library(String),
    /// The path of the executable that it is linked into.
    Executable(String),
    /// An address of its object.
    Object(u64),
}

impl Other {
    /// The one that replaces malloc, that which the profile tells of, or one that is known to be linked into the executable.
    pub fn of(allocators: &Allocators, inside: Option<Inside>) -> Option<Self> {
        let Some(inside) = inside.filter(|_| !allocators.is_replaced()) else {
            let (kind, found) = allocators.other.as_ref()?;
            let (name, path) = (found.name.clone(), found.path.clone());
            let (kind, place) = match (kind, &*name) {
                (AllocatorKind::InProgram, "tcmalloc") => {
                    (AllocatorKind::Tcmalloc, Place::Executable(path))
                }
                (AllocatorKind::InProgram, "mimalloc") => {
                    (AllocatorKind::Mimalloc, Place::Executable(path))
                }
                // One that is not known by name may be jemalloc, too.
                (AllocatorKind::InProgram, _) => (AllocatorKind::Jemalloc, Place::Executable(path)),
                (&kind, _) => (kind, Place::Library(path)),
            };
            return Some(Self { kind, name, place });
        };
        Some(Self::inside(inside))
    }

    pub fn inside(inside: Inside) -> Self {
        let (kind, name) = if inside.is_jemalloc {
            (AllocatorKind::Jemalloc, "jemalloc")
        } else {
            (AllocatorKind::Tcmalloc, "tcmalloc")
        };
        Self { kind, name: name.into(), place: Place::Object(inside.object) }
    }

    /// The address of the first of these functions, which all are its own.
    pub fn function(&self, callee: &Callee, names: &[&str]) -> Option<u64> {
        match &self.place {
            Place::Library(path) => callee.function(names.first()?, |area| area.path == *path),
            Place::Executable(path) => callee.function_inside(names, |area| area.path == *path),
            Place::Object(address) => {
                let object = callee.areas.iter().find(|area| area.contains(*address))?;
                let file = (object.device, object.inode);
                callee.function_inside(names, |area| (area.device, area.inode) == file)
            }
        }
    }
}
