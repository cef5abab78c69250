//! Which function of which library gives memory back: that of the allocator whose memory it is.

use crate::outside::{Callee, NOTHING, patiently, refused};
use ramson_inject::{Argument, Step};
use ramson_process::allocators::Allocator;
use ramson_process::glibc::{Effort, LibraryData, MOST_WALKED_BYTES, Statistics};
use ramson_process::identify::{self, AllocatorKind};
use ramson_source::Failure;

/// A function that can be called.
pub struct Lever {
    pub name: &'static str,
    pub step: Step<'static>,
    /// Bytes that it would give back, where that can be told.
    pub gain: Option<u64>,
    /// Everything that was looked at is in use.
    pub returns_nothing: bool,
    /// Data that show the locks that the function takes: glibc's.
    pub locks: Option<LibraryData>,
}

/// Purge of all arenas: 4096 is MALLCTL_ARENAS_ALL of jemalloc 5.
const PURGE: Step =
    Step { arguments: &[Argument::Data(0)], data: b"arena.4096.purge\0", ..NO_ARGUMENTS };
/// All of them are 0.
const NO_ARGUMENTS: Step = Step::new(0, &[]);

/// The lever of the allocator that has the memory; why there is none, if so.
pub fn find(callee: &Callee) -> Result<Lever, Failure> {
    let Callee { target, areas, allocators, memory, .. } = callee;
    let statistics = || allocators.statistics(memory, areas, Effort::Survey(MOST_WALKED_BYTES));
    let statistics = if allocators.other.is_none() { patiently(statistics) } else { statistics() };
    let (kind, found) = match (&allocators.other, statistics) {
        (_, Ok(statistics)) => return malloc_trim(callee, &statistics),
        (Some(other), Err(_)) => other,
        (None, Err(why)) => return Err(refused(target, &why.to_string(), NOTHING)),
    };
    other(callee, *kind, &found.path).ok_or_else(|| {
        refused(target, &format!("its allocator is {}", found.name), &own_lever(found))
    })
}

fn malloc_trim(callee: &Callee, statistics: &Statistics) -> Result<Lever, Failure> {
    let Callee { target, areas, allocators, memory, .. } = callee;
    if statistics.sum(|arena| arena.system_bytes) == 0 {
        return Err(refused(target, "malloc's arenas are empty", "There is nothing to return"));
    }
    let name = "malloc_trim";
    let address = callee
        .function(name, identify::is_libc)
        .ok_or_else(|| refused(target, "its C library has no malloc_trim", NOTHING))?;
    // Chunks in fastbins are joined to larger ones first.
    let gain = statistics.sum(|arena| arena.releasable_bytes() + arena.fastbins.bytes);
    let is_all_read = statistics.sum(|arena| arena.not_walked_bytes) == 0
        && statistics.releasable_half_width_95_bytes() == 0.0;
    let data = identify::data_of_libc(areas);
    let version = allocators.version.unwrap_or_default();
    let locks = patiently(|| LibraryData::read(memory, &data, version))
        .map_err(|why| refused(target, &why, NOTHING))?;
    let step = Step { function: address, ..NO_ARGUMENTS };
    let returns_nothing = gain == 0 && is_all_read;
    Ok(Lever { name, step, gain: Some(gain), returns_nothing, locks: Some(locks) })
}

fn other(callee: &Callee, kind: AllocatorKind, path: &str) -> Option<Lever> {
    let (name, step) = match kind {
        AllocatorKind::Jemalloc | AllocatorKind::InProgram => ("mallctl", PURGE),
        AllocatorKind::Tcmalloc => ("MallocExtension_ReleaseFreeMemory", NO_ARGUMENTS),
        // mi_collect works on the calling thread's memory, and runs a function that the program may have registered for it.
        AllocatorKind::Mimalloc | AllocatorKind::Musl => return None,
    };
    let address = callee.function(name, |area| area.path == path)?;
    let step = Step { function: address, ..step };
    Some(Lever { name, step, gain: None, returns_nothing: false, locks: None })
}

/// Returns what the user can do instead.
fn own_lever(allocator: &Allocator) -> String {
    match allocator.returning() {
        Some(variables) => format!(
            "It has no function that ramson can call to return memory of all threads: start the program with {variables}"
        ),
        None => "It has no function that ramson can call to return memory".into(),
    }
}
