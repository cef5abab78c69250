//! The object at an address. Since glibc 2.35 the loader tells (`_dl_find_object`), without a lock; before, its list of objects does.
//!
//! Objects that were there at the start are never unloaded, and neither are their entries of the list. The others follow them, and another thread
//! may free any of these at any moment, so the kernel copies them: it stops at memory that is gone, where a load would fault. If the kernel must
//! not be asked (`sys::permit`), these objects are not found.
//!
//! `dl_iterate_phdr` would take the loader's lock, for which a sample must not wait, and `/proc/self/maps` takes ten times as long.

use super::elf::Elf;
use crate::resolve::{self, FoundObject, LinkMap};
use crate::{startup, sys};
use core::ptr;

/// More objects than a program loads after its start.
const MAX_LATER: usize = 1 << 14;
/// The words of `LinkMap`.
const ENTRY_WORDS: usize = size_of::<LinkMap>() / 8;

/// The object at `address`. `None` for other code.
pub fn object_at(address: u64) -> Option<FoundObject> {
    if resolve::loader_finds_objects() {
        return resolve::object_at(address);
    }
    Start { executable: startup::executable_start(), last: startup::last_object() }.search(address)
}

/// All of an object of which the loader has found a part: one segment of an executable that has gaps between its segments.
pub fn whole(found: &FoundObject) -> FoundObject {
    let executable = resolve::objects().next().map_or(ptr::null(), ptr::from_ref);
    if !ptr::eq(executable, found.link_map) {
        return *found;
    }
    let mut whole =
        object_with(startup::executable_start(), executable, found.start).unwrap_or(*found);
    // The loader may round it up.
    whole.end = whole.end.max(found.end);
    whole
}

/// Whether the code at `address` is of an allocator: of a library that defines malloc. An allocator in the executable is not one that we see, so
/// what it maps is the program's own.
pub fn is_of_allocator(address: u64) -> bool {
    // SAFETY: the object's code called us, so it is loaded, and so is its record with the name.
    let object = object_at(address).and_then(|found| unsafe { found.link_map.as_ref() });
    object.is_some_and(|object| {
        // SAFETY: as above; the loader gives every object a name, the executable an empty one.
        let is_executable = unsafe { object.name.is_null() || *object.name == 0 };
        !is_executable && resolve::defines(object, c"malloc")
    })
}

/// Facts from the start: where the executable begins, and which entry of the loader's list was the last.
pub(super) struct Start {
    pub executable: u64,
    pub last: *const LinkMap,
}

impl Start {
    #[cold]
    pub fn search(&self, address: u64) -> Option<FoundObject> {
        self.object_of_start(address).or_else(|| self.later_object(address))
    }

    fn object_of_start(&self, address: u64) -> Option<FoundObject> {
        // An object's addresses begin at 0, so its bias is where it begins; except the executable, which is the first.
        let start = |(index, entry): (usize, &LinkMap)| match index {
            0 => self.executable,
            _ => entry.bias as u64,
        };
        let entries = resolve::objects_until(self.last).enumerate();
        let starts = entries.map(|(index, entry)| (start((index, entry)), entry));
        let below = starts.filter(|&(start, _)| start <= address);
        let (start, entry) = below.max_by_key(|&(start, _)| start)?;
        object_with(start, entry, address)
    }

    fn later_object(&self, address: u64) -> Option<FoundObject> {
        let pid = sys::process_id();
        let mut before = self.last;
        // SAFETY: null, or the entry of an object that is never unloaded.
        let mut next = unsafe { before.as_ref() }?.next;
        let mut closest: Option<(u64, *const LinkMap)> = None;
        for _ in 0..MAX_LATER {
            if next.is_null() {
                break;
            }
            let mut entry = [[0u8; 8]; ENTRY_WORDS];
            let range = [next as usize, size_of::<LinkMap>()];
            let bytes = entry.as_flattened_mut();
            if sys::read_own_memory(pid, &[range], bytes) < bytes.len() {
                return None;
            }
            let [bias, _, _, following, previous] = entry.map(u64::from_le_bytes);
            // Another thread is changing the list, or has freed this entry: the next walk finds the object.
            if previous != before as u64 {
                return None;
            }
            if bias <= address && closest.is_none_or(|(start, _)| start < bias) {
                closest = Some((bias, next));
            }
            before = next;
            next = following as *const LinkMap;
        }
        let (start, entry) = closest?;
        object_with(start, entry, address)
    }
}

/// The object that begins at `start`, if `address` lies in it.
fn object_with(start: u64, entry: *const LinkMap, address: u64) -> Option<FoundObject> {
    let elf = Elf::at(start)?;
    let end = elf.end()?;
    let unwind_header = elf.unwind_header().unwrap_or(0);
    (start..end).contains(&address).then(|| FoundObject::new(start, end, entry, unwind_header))
}
