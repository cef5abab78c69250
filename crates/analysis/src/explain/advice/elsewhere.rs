//! Memory that is not free in the allocator: live, mapped, shared, of files, and the padding of huge pages.

use super::growth;
use super::saving::{Advice, Needs, Saving};
use crate::explain::finding::Finding;
use crate::explain::leaks::Leaks;
use crate::explain::named;
use crate::explain::words::size;
use crate::owners;
use ramson_process::{Part, text};
use ramson_profile::format::format_percent;

/// A part with this share of RSS or more is the main part of the process's memory.
const MAIN_SHARE: f64 = 0.5;

const LAZY: &str = "nothing to do: the kernel takes it back when it needs memory";
const FILES: &str = "nothing to do: the kernel takes back pages that it can read again from their files when it needs memory";
const SHARED: &str = "nothing to do: the memory is shared, and counts in the RSS of each process that has touched it (Pss in smaps divides it)";
const UNRECORDED: &str =
    "ask the program's runtime what is in it: ramson has not recorded what mapped it";

pub fn padding(finding: &Finding) -> Option<Advice> {
    let bytes = finding.part(Part::Padding);
    let huge = size(finding.rss.explained.anonymous_huge);
    let zeros = size(bytes);
    (bytes > 0).then(|| Advice {
        cause: "thp",
        needs: Needs::Restart,
        action: if are_asked_for() {
            "turn off huge pages there: the program asks for them itself (madvise). Switch that off in it (Java: without \
             -XX:+UseTransparentHugePages; jemalloc: thp:never), or start it with prctl(PR_SET_THP_DISABLE)"
        } else {
            "turn off huge pages there: write madvise to /sys/kernel/mm/transparent_hugepage/enabled, or use \
             MADV_NOHUGEPAGE or prctl(PR_SET_THP_DISABLE) in the program"
        }
        .into(),
        evidence: format!(
            "{huge} in transparent huge pages, of which {zeros} are zeros: never touched, or cleared in advance"
        ),
        risk: "more page faults and TLB misses",
        // The program may have written zeros.
        saving: Saving::at_most(finding.part_estimate(Part::Padding)),
    })
}

/// Whether only programs that ask for huge pages get them.
fn are_asked_for() -> bool {
    let enabled = text::read("/sys/kernel/mm/transparent_hugepage/enabled");
    !enabled.unwrap_or_default().contains("[always]")
}

pub fn ended_threads(finding: &Finding) -> Option<Advice> {
    let bytes = finding.part(Part::EndedStacks);
    let whose = finding.ended_function.as_ref();
    let whose = whose.map_or("they".into(), |name| format!("those that start in {name}"));
    (bytes > 0).then(|| Advice {
        cause: "ended_stacks",
        needs: Needs::Code,
        action: format!("join the threads once they have ended, or detach them: {whose} keep their stacks until then"),
        evidence: format!("{} threads have ended and were not joined", finding.details.ended_threads),
        risk: "requires a code change",
        saving: Saving::expected(bytes, 0.0),
    })
}

/// Tells how to see what mapped memory. Memory that was mapped before recording began has no stack, nor has what a run time maps for its
/// own heap in small pieces or by raw system calls.
fn mapped(finding: &Finding, elsewhere: u64) -> (Needs, String) {
    let is_recorded = finding.live.is_some() && finding.rss.before.is_none();
    let extents = finding.part(Part::Extents);
    if extents <= elsewhere
        && let Some(owner) = &finding.owner
    {
        let how = owners::how_to_see(owner, finding.pid);
        return (
            Needs::Command,
            how.map_or_else(|| UNRECORDED.into(), |how| format!("see what is in it: {how}")),
        );
    }
    if extents > elsewhere || is_recorded && extents > 0 {
        (
            Needs::Command,
            format!("see what mapped it: ramson report {} --kind mmap", finding.object),
        )
    } else if is_recorded {
        (Needs::Command, UNRECORDED.into())
    } else {
        (
            Needs::Restart,
            "to see what maps it, start the program under ramson: ramson run -- COMMAND, later ramson report PID --kind mmap".into(),
        )
    }
}

/// Whether most of RSS is the parent's memory, shared or copied.
pub fn is_of_parent(finding: &Finding) -> bool {
    let bytes = finding.part(Part::Inherited) + finding.part(Part::Copied);
    bytes as f64 >= MAIN_SHARE * finding.rss.bytes as f64
}

/// The parent's profile has the stacks.
fn inherited(finding: &Finding) -> (Needs, String) {
    let parent = finding.details.parent.unwrap_or_default();
    (Needs::Command, format!("see what the parent allocated: ramson explain {parent}"))
}

/// Shared memory that nobody else has is the program's own.
fn shared(finding: &Finding) -> (Needs, String) {
    let first = finding.details.shared_memory.first();
    // ZGC's heap.
    let java = first.filter(|one| one.path.starts_with("/memfd:java_heap"));
    if let Some(how) = java.and_then(|_| owners::how_to_see("the Java heap", finding.pid)) {
        return (Needs::Command, format!("see what is in the Java heap: {how}"));
    }
    match first.filter(|_| named::has_own_shared_memory(finding)) {
        Some(one) => (Needs::Code, format!("check in the program what it keeps in {}", one.path)),
        None => (Needs::Nothing, SHARED.into()),
    }
}

/// A leak was looked for, one would have shown, and the whole does not grow either.
fn has_found_no_leak(finding: &Finding) -> bool {
    finding.leaks.as_ref().is_some_and(|leaks| {
        leaks.growing.is_empty() && leaks.limit.is_some() && leaks.totals.live_per_hour.is_none()
    }) && !finding.is_growth_undecided()
}

/// Advises about the part that is most of RSS, if one part is.
pub fn main_part(finding: &Finding) -> Option<Advice> {
    let rss_bytes = finding.rss.bytes;
    let sum = |parts: &[Part]| -> u64 { parts.iter().map(|&part| finding.part(part)).sum() };
    let recorded = |command: &str| {
        let command = command.replace("PID", &finding.object);
        match finding.live {
            Some(_) => format!("ramson {command}"),
            None => format!("ramson attach {}, later ramson {command}", finding.object),
        }
    };
    let elsewhere = if finding.statistics.is_ok() { sum(&[Part::Anonymous]) } else { 0 };
    let live = if finding.detached.is_some() {
        "of RSS was live at the detach"
    } else {
        "of RSS is live: the program has not freed it"
    };
    let candidates = [
        (
            "leaks",
            sum(&[Part::Live]),
            live,
            (
                Needs::Command,
                match has_found_no_leak(finding) {
                    true => format!("see what is live: {}", recorded("report PID")),
                    false => format!("check for a leak: {}", recorded("leaks PID")),
                },
            ),
        ),
        (
            "files",
            sum(&[Part::Code, Part::Files]),
            "is code and mapped files",
            (Needs::Nothing, FILES.into()),
        ),
        ("freed_lazily", sum(&[Part::LazyFree]), "was freed lazily", (Needs::Nothing, LAZY.into())),
        (
            "variables",
            sum(&[Part::Data]),
            "is variables of binaries",
            (
                Needs::Code,
                "make the largest variables smaller, or allocate them when they are needed".into(),
            ),
        ),
        (
            "inherited",
            sum(&[Part::Inherited, Part::Copied]),
            "is its parent's memory, shared or copied since the fork",
            inherited(finding),
        ),
        ("shared", sum(&[Part::Shmem]), "is shared memory", shared(finding)),
        (
            "mmaps",
            sum(&[Part::Extents]) + elsewhere,
            "was mapped by the program itself, not by malloc",
            mapped(finding, elsewhere),
        ),
    ];
    let is_main = |bytes: u64| bytes as f64 >= MAIN_SHARE * rss_bytes as f64;
    let (cause, bytes, what, (needs, action)) =
        candidates.into_iter().find(|found| is_main(found.1))?;
    let is_growing = |leaks: &Leaks| !leaks.growing.is_empty();
    // A leak has its own advice, which comes first, and so has a limit that others fill.
    let has_own =
        finding.leaks.as_ref().is_some_and(is_growing) || growth::is_limit_filled(finding);
    if cause == "leaks" && has_own {
        return None;
    }
    let share = format_percent(bytes as f64, rss_bytes as f64);
    Some(Advice {
        cause,
        needs,
        action,
        evidence: format!("{} ({share}) {what}", size(bytes)),
        risk: "none",
        saving: None,
    })
}
