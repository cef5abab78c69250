//! Which function of which library gives memory back: that of the allocator whose memory it is.

use crate::inside::{Inside, MALLCTL, Other};
use crate::outside::{Callee, NOTHING, patiently, refused};
use ramson_inject::{Argument, Step};
use ramson_process::allocators::Allocator;
use ramson_process::glibc::{Effort, LibraryData, MOST_WALKED_BYTES, Statistics};
use ramson_process::identify::{self, AllocatorKind};
use ramson_source::Failure;

/// A function that can be called.
pub struct Lever {
    pub name: &'static str,
    pub steps: Vec<Step<'static>>,
    /// Bytes that it would give back, where that can be told.
    pub gain: Option<u64>,
    /// It would give back hardly anything: no more than so many bytes. Only where that is known, and few beside what the allocator has.
    pub at_most: Option<u64>,
    /// Data that show the locks that the function takes: glibc's.
    pub locks: Option<LibraryData>,
    /// There are no others.
    pub are_locks_seen: bool,
}

/// A smaller part of its memory is not worth the time for which malloc_trim stops the process: it looks at every free chunk.
const LITTLE_PART: u64 = 1000;
/// Purge of all arenas: 4096 is MALLCTL_ARENAS_ALL of jemalloc 5.
const PURGE: Step =
    Step { arguments: &[Argument::Data(0)], data: b"arena.4096.purge\0", ..NO_ARGUMENTS };
/// All of them are 0.
const NO_ARGUMENTS: Step = Step::new(0, &[]);

/// The lever of the allocator that has the memory; why there is none, if so. One inside an object may have a part of it.
pub fn find(callee: &Callee, inside: Option<Inside>) -> Result<Lever, Failure> {
    let Callee { target, areas, allocators, memory, .. } = callee;
    let statistics = || allocators.statistics(memory, areas, Effort::Survey(MOST_WALKED_BYTES));
    let statistics = if allocators.other.is_none() { patiently(statistics) } else { statistics() };
    let of_inside = || other(callee, &Other::inside(inside?));
    match (&allocators.other, statistics) {
        (_, Ok(statistics)) => match (malloc_trim(callee, &statistics), of_inside()) {
            (trim, None) => trim,
            (Ok(trim), Some(purge)) if trim.at_most.is_none() => Ok(trim.and(purge)),
            (_, Some(purge)) => Ok(purge),
        },
        (Some((_, found)), Err(_)) => {
            let lever = Other::of(allocators, inside).and_then(|of| other(callee, &of));
            lever.ok_or_else(|| {
                refused(target, &format!("its allocator is {}", found.name), &own_lever(found))
            })
        }
        (None, Err(why)) => of_inside().ok_or_else(|| refused(target, &why.to_string(), NOTHING)),
    }
}

impl Lever {
    /// Both, one after the other.
    fn and(self, purge: Self) -> Self {
        let steps = [self.steps, purge.steps].concat();
        Self { name: "malloc_trim and mallctl", steps, gain: None, are_locks_seen: false, ..self }
    }
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
    let is_all_read = statistics.sum(|arena| arena.not_walked_bytes) == 0;
    let at_most = statistics.releasable_half_width_95_bytes() as u64;
    let is_little = at_most <= statistics.sum(|arena| arena.system_bytes) / LITTLE_PART;
    let data = identify::data_of_libc(areas);
    let version = allocators.version.unwrap_or_default();
    let locks = patiently(|| LibraryData::read(memory, &data, version))
        .map_err(|why| refused(target, &why, NOTHING))?;
    Ok(Lever {
        name,
        steps: vec![Step { function: address, ..NO_ARGUMENTS }],
        gain: Some(gain),
        at_most: Some(at_most).filter(|_| gain == 0 && is_all_read && is_little),
        locks: Some(locks),
        are_locks_seen: true,
    })
}

fn other(callee: &Callee, other: &Other) -> Option<Lever> {
    let (functions, step): (&[&'static str], _) = match other.kind {
        AllocatorKind::Jemalloc => (&MALLCTL, PURGE),
        AllocatorKind::Tcmalloc => (&["MallocExtension_ReleaseFreeMemory"], NO_ARGUMENTS),
        // mi_collect works on the calling thread's memory, and runs a function that the program may have registered for it.
        AllocatorKind::Mimalloc | AllocatorKind::Musl | AllocatorKind::InProgram => return None,
    };
    let steps = vec![Step { function: other.function(callee, functions)?, ..step }];
    Some(Lever {
        name: functions[0],
        steps,
        gain: None,
        at_most: None,
        locks: None,
        are_locks_seen: false,
    })
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
