//! Asks an allocator for its statistics, by its own function, on a thread of the process that is stopped for that.

use crate::apart;
use crate::inside::{Inside, MALLCTL, Other};
use crate::outside::{self, Callee, NOTHING, refused};
use ramson_apart::for_process;
use ramson_inject::{Argument, Called, Step};
use ramson_process::allocators::{Allocators, Figures};
use ramson_process::identify::AllocatorKind;
use ramson_process::{PAGE_BYTES, Part, read_smaps};
use ramson_source::{Failure, Target, gone};

/// Statistics of jemalloc 5, as mallctl(3) names them.
const JEMALLOC: [&str; 8] = [
    "stats.allocated",
    "stats.active",
    "stats.metadata",
    "stats.resident",
    "stats.mapped",
    "stats.retained",
    DIRTY,
    MUZZY,
];
/// Pages of all arenas (MALLCTL_ARENAS_ALL of jemalloc 5) that a purge returns: kept, and freed by MADV_FREE.
const DIRTY: &str = "stats.arenas.4096.pdirty";
const MUZZY: &str = "stats.arenas.4096.pmuzzy";
/// Statistics of gperftools' tcmalloc (gperftools/malloc_extension.h).
const TCMALLOC: [&str; 7] = [
    "generic.current_allocated_bytes",
    "generic.heap_size",
    "tcmalloc.pageheap_free_bytes",
    "tcmalloc.pageheap_unmapped_bytes",
    "tcmalloc.central_cache_free_bytes",
    "tcmalloc.transfer_cache_free_bytes",
    "tcmalloc.current_total_thread_cache_bytes",
];
/// Stands where a figure goes, and stays where the allocator does not know it.
const UNKNOWN: u64 = u64::MAX;
const WORD_BYTES: usize = 8;

/// The name, where the figure goes, and for `mallctl` its size.
const QUESTION: [Argument; 3] =
    [Argument::Data(2 * WORD_BYTES), Argument::Data(0), Argument::Data(WORD_BYTES)];
/// `mallctl("epoch")` with any number, a word: what is told afterwards is counted anew.
const REFRESH: Step = Step {
    function: 0,
    arguments: &[
        Argument::Data(WORD_BYTES),
        Argument::Word(0),
        Argument::Word(0),
        Argument::Data(0),
        Argument::Word(WORD_BYTES as u64),
    ],
    data: b"\x01\0\0\0\0\0\0\0epoch\0",
    condition: None,
};

/// Asks the allocator that is not the C library's.
pub fn ask(target: &Target) -> Result<Figures, Failure> {
    match for_process(target.pid) {
        Some(by) => apart::ask(&by, target),
        None => ask_here(target, Inside::of(target)),
    }
}

/// The same, by this process.
pub fn ask_here(target: &Target, inside: Option<Inside>) -> Result<Figures, Failure> {
    let process = outside::open(target)?;
    let areas = read_smaps(target.pid).map_err(|_| gone(target))?;
    let allocators = Allocators::of(target.pid, &areas);
    let Some(other) = Other::of(&allocators, inside) else {
        return Err(refused(target, "its allocator is not known", NOTHING));
    };
    let (functions, names): (&[&'static str], &[&'static str]) = match other.kind {
        AllocatorKind::Jemalloc => (&MALLCTL, &JEMALLOC),
        AllocatorKind::Tcmalloc => (&["MallocExtension_GetNumericProperty"], &TCMALLOC),
        AllocatorKind::Mimalloc | AllocatorKind::Musl | AllocatorKind::InProgram => {
            let why =
                format!("{} has no function that returns its statistics as numbers", other.name);
            return Err(refused(target, &why, NOTHING));
        }
    };
    let function = functions[0];
    let is_mallctl = other.kind == AllocatorKind::Jemalloc;
    let questions: Vec<Vec<u8>> = names.iter().map(|name| question(name)).collect();
    let arguments = &QUESTION[..if is_mallctl { 3 } else { 2 }];
    let callee = Callee::open(target, process, areas, allocators)?;
    let address = other.function(&callee, functions).ok_or_else(|| {
        refused(target, &format!("{} has no {function} by its symbols", other.name), NOTHING)
    })?;
    let first = is_mallctl.then_some(Step { function: address, ..REFRESH });
    let ask = |data| Step { function: address, arguments, data, condition: None };
    let steps: Vec<Step> =
        first.into_iter().chain(questions.iter().map(|data| ask(data))).collect();
    let called = callee.call(&steps, None, false)?;
    let answers = called.data.iter().skip(usize::from(is_mallctl)).map(|data| word(data));
    let figures = names.iter().copied().zip(answers).filter(|&(_, answer)| answer != UNKNOWN);
    let figures: Vec<_> = figures.map(in_bytes).collect();
    let parts = parts(other.kind, &figures).ok_or_else(|| {
        refused(target, &format!("{} was built without statistics", other.name), NOTHING)
    })?;
    let Called { tid, name: thread, stopped, .. } = called;
    Ok(Figures { function, figures, parts, tid, thread, stopped })
}

/// The functions and figures that are asked for, by what another process says of them.
pub fn known(name: &str) -> Option<&'static str> {
    let functions = ["mallctl", "MallocExtension_GetNumericProperty"];
    let mut all = functions.into_iter().chain(JEMALLOC).chain(TCMALLOC);
    all.find(|known| *known == name)
}

/// Room for a figure, its size in bytes, and its name.
fn question(name: &str) -> Vec<u8> {
    let words = [UNKNOWN, WORD_BYTES as u64].map(u64::to_le_bytes);
    [words.as_flattened(), name.as_bytes(), b"\0"].concat()
}

fn word(data: &[u8]) -> u64 {
    data.first_chunk().map_or(UNKNOWN, |&word| u64::from_le_bytes(word))
}

/// Converts a figure that the allocator counts in pages to bytes.
fn in_bytes((name, answer): (&'static str, u64)) -> (&'static str, u64) {
    let unit = if [DIRTY, MUZZY].contains(&name) { PAGE_BYTES } else { 1 };
    (name, answer.saturating_mul(unit))
}

/// The parts of RSS by the allocator's figures; `None` if it did not tell the first of them.
fn parts(kind: AllocatorKind, figures: &[(&str, u64)]) -> Option<Vec<(Part, u64)>> {
    let known = |name: &str| figures.iter().find(|(known, _)| *known == name).map(|found| found.1);
    let figure = |name: &str| known(name).unwrap_or(0);
    if kind == AllocatorKind::Tcmalloc {
        return Some(vec![
            (Part::FreePages, figure("tcmalloc.pageheap_free_bytes")),
            (Part::Live, known("generic.current_allocated_bytes")?),
            (Part::Tcaches, figure("tcmalloc.current_total_thread_cache_bytes")),
            (
                Part::FreeChunks,
                figure("tcmalloc.central_cache_free_bytes")
                    + figure("tcmalloc.transfer_cache_free_bytes"),
            ),
        ]);
    }
    let allocated = known("stats.allocated")?;
    let resident = figure("stats.resident");
    let active = figure("stats.active");
    // Not what is left of the resident bytes without active ones and metadata: to 5.2 it counts less as metadata than is resident of it.
    // Muzzy pages are no part of either: the kernel counts them as freed lazily, or has taken them.
    let unused = figure(DIRTY);
    let metadata = resident.saturating_sub(active + unused).max(figure("stats.metadata"));
    Some(vec![
        (Part::FreePages, unused),
        (Part::Live, allocated),
        (Part::FreeChunks, active.saturating_sub(allocated)),
        (Part::Metadata, metadata),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jemalloc_parts_add_up_to_resident() {
        let figures = [
            ("stats.allocated", 60),
            ("stats.active", 100),
            ("stats.metadata", 7),
            ("stats.resident", 150),
            ("stats.retained", 1000),
            (DIRTY, 30),
            (MUZZY, 5),
        ];
        let parts = parts(AllocatorKind::Jemalloc, &figures).unwrap();
        assert_eq!(parts.iter().map(|(_, bytes)| bytes).sum::<u64>(), 150);
        assert_eq!((parts[0], parts[3]), ((Part::FreePages, 30), (Part::Metadata, 20)));
        assert_eq!(super::parts(AllocatorKind::Jemalloc, &figures[1..]), None);
    }

    #[test]
    fn answer_has_room_before_name() {
        let data = question("stats.active");
        assert_eq!((word(&data), word(&data[8..])), (UNKNOWN, 8));
        assert_eq!(&data[16..], b"stats.active\0");
    }
}
