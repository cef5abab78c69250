//! Explains RSS in plain words: a sentence for each cause that accounts for a part worth a word, the largest first.

use super::cause::{Cause, least};
use super::finding::Finding;
use super::go;
use super::leaks::Leaks;
use super::named;
use super::words::{amount, measured, sentence, site, size};
use crate::rss::Before;
use crate::suspects::Totals;
use ramson_process::allocators::Missing;
use ramson_process::glibc::{Arena, Statistics};
use ramson_process::identify::AllocatorKind;
use ramson_process::{Part, Term};
use ramson_profile::Estimate;
use ramson_profile::format::{format_bytes, format_per_hour};

/// A trim that returns less of what is free returns next to nothing.
const NEXT_TO_NOTHING: f64 = 0.05;

/// The phrase has names in it.
const BY_NAME: &str = "";

/// Parts that one phrase explains.
const OTHERS: [(&str, &[Part], &str); 24] = [
    (
        "mmap",
        &[Part::Extents],
        "is memory that the program mapped itself, without malloc (ramson report PID --kind mmap)",
    ),
    ("unseen", &[Part::Unseen], BY_NAME),
    ("go_live", &[Part::GoLive], BY_NAME),
    ("go_not_collected", &[Part::GoUncollected], BY_NAME),
    ("go_unused", &[Part::GoUnused], "is room among Go's objects, for more of the same sizes"),
    ("go_free", &[Part::GoFree], BY_NAME),
    ("go_stacks", &[Part::GoStacks], "is stacks of goroutines"),
    (
        "go_runtime",
        &[Part::GoRuntime],
        "is Go's runtime's own: what describes the heap, the profile, and the collector's buffers",
    ),
    (
        "inherited",
        &[Part::Inherited],
        "is its parent's memory, shared until either of them writes to it",
    ),
    (
        "copied",
        &[Part::Copied],
        "was its parent's memory, and was copied since the fork, because one of the two wrote to it",
    ),
    (
        "freed_lazily",
        &[Part::LazyFree],
        "was freed lazily (MADV_FREE): the kernel takes it back when it needs memory",
    ),
    ("variables", &[Part::Data], BY_NAME),
    ("files", &[Part::Code, Part::Files], BY_NAME),
    ("shared", &[Part::Shmem], BY_NAME),
    ("stacks", &[Part::Stacks], "is stacks of threads"),
    ("ended_stacks", &[Part::EndedStacks], BY_NAME),
    (
        "thread_locals",
        &[Part::ThreadLocals],
        "is thread-local variables, of which each thread has its own",
    ),
    (
        "huge_pages",
        &[Part::Padding],
        "is zeros in transparent huge pages: never touched, or cleared in advance by a runtime",
    ),
    (
        "metadata",
        &[Part::Metadata],
        "is allocator metadata: what the allocator itself needs to manage the blocks",
    ),
    (
        "not_walked",
        &[Part::NotWalked],
        "is in the allocator's areas and could not be read: it changed meanwhile, or is swapped out",
    ),
    ("ramson", &[Part::Ramson], "is ramson's own: its library, tables and profile file"),
    ("kernel", &[Part::Kernel], "belongs to the kernel (vdso)"),
    (
        "changed",
        &[Part::Moved],
        "changed during the measurement; run \"ramson explain\" again for a better figure",
    ),
    ("other", &[Part::Anonymous], BY_NAME),
];

/// The largest first; what grows counts as all that is live, and is said before the rest of that. Never empty.
pub fn causes(finding: &Finding) -> Vec<Cause> {
    let rss = finding.rss.bytes;
    let mut all: Vec<Cause> = growing(finding).into_iter().collect();
    all.extend([live(finding), free(finding), held(finding)].into_iter().flatten());
    all.extend(OTHERS.iter().filter_map(|other| of_parts(finding, other)));
    let size = |cause: &Cause| match cause.cause {
        "growing" => cause.bytes.value.max(finding.rss.term(Term::Live).value),
        _ => cause.bytes.value,
    };
    all.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let told = all.iter().filter(|cause| cause.bytes.value >= least(rss) as f64).count();
    all.truncate(told.max(1));
    all
}

/// Live memory that the leak analysis calls growing.
fn growing(finding: &Finding) -> Option<Cause> {
    let leaks = finding.leaks.as_ref()?;
    let first = leaks.growing.first()?;
    let bytes = leaks.live();
    let more = match leaks.growing.len() {
        1 => String::new(),
        2 => " and 1 more call site".into(),
        count => format!(" and {} more call sites", count - 1),
    };
    let sentence = format!(
        "{} is live and growing by {}, allocated by {}{more}. {}",
        amount(bytes, finding.rss.bytes),
        format_per_hour(leaks.bytes_per_hour()),
        site(&first.frames),
        sentence(&first.reason),
    );
    Some(Cause { cause: "growing", bytes, sentence })
}

fn live(finding: &Finding) -> Option<Cause> {
    let resident = finding.rss.term(Term::Live);
    let live = finding.live.unwrap_or(resident);
    let growing = finding.leaks.as_ref().map(Leaks::live).unwrap_or_default();
    let value = live.value - growing.value;
    if value <= 0.0 {
        return None;
    }
    let bytes = Estimate { value, ..live };
    let growth = match &finding.leaks {
        None if finding.has_sampling_ended => {
            "Whether it grows is not known: sampling has ended".into()
        }
        None => "Whether it grows is not known without a profile".into(),
        Some(leaks) if !leaks.growing.is_empty() => "It is not known to grow".into(),
        Some(Leaks { totals: Totals { live_per_hour: Some(rate), .. }, .. }) => {
            format!("Live memory as a whole grows by {}", format_per_hour(*rate))
        }
        Some(_) if finding.is_growth_undecided() => {
            "It is too early to tell whether it grows".into()
        }
        Some(Leaks { limit: Some(limit), .. }) => format!("No leak was found; {limit:#}"),
        Some(_) => {
            "Whether it grows is not known: the recording is too short, or samples were lost".into()
        }
    };
    let more = if growing.value > 0.0 { " more" } else { "" };
    let (live, of_it) = if finding.rss.is_live_resident() {
        (amount(bytes, finding.rss.bytes), String::new())
    } else {
        (measured(bytes), format!(", {} resident", amount(resident, finding.rss.bytes)))
    };
    let sentence = if finding.detached.is_some() {
        format!(
            "{live}{more} was live at the detach{of_it}: what the program has freed since is not known."
        )
    } else {
        format!("{live}{more} is live{of_it}: the program has not freed it. {growth}.")
    };
    Some(Cause { cause: "live", bytes, sentence })
}

/// Clause for free memory in thread caches; empty if the allocator has none or does not report it.
fn in_caches(finding: &Finding) -> String {
    match finding.part(Part::Tcaches) {
        0 => String::new(),
        _ => format!(", and {} is in thread caches", part_text(finding, Part::Tcaches)),
    }
}

/// Memory that the program freed and the allocator has not returned.
fn free(finding: &Finding) -> Option<Cause> {
    let bytes = finding.rss.term(Term::Free);
    if bytes.value <= 0.0 {
        return None;
    }
    let why = match &finding.statistics {
        Ok(statistics) => of_glibc(finding, statistics, bytes.value),
        Err(_) => by_figures(finding, bytes.value, Part::FreePages, Part::FreeChunks),
    };
    let sentence = format!(
        "{} is free memory that the program gave back to {}; {why}.",
        amount(bytes, finding.rss.bytes),
        finding.rss.allocator,
    );
    Some(Cause { cause: "free", bytes, sentence })
}

/// Why an allocator that was asked has not returned it, and what a trim would return.
fn by_figures(finding: &Finding, free: f64, pages: Part, chunks: Part) -> String {
    let pages_text = part_text(finding, pages);
    let is_nearly_all = finding.part(chunks) as f64 > (1.0 - NEXT_TO_NOTHING) * free;
    let chunks_text = if is_nearly_all { "nearly all".into() } else { part_text(finding, chunks) };
    let is_without_caches = is_nearly_all || pages != Part::FreePages;
    let caches = if is_without_caches { String::new() } else { in_caches(finding) };
    format!(
        "{chunks_text} of it shares pages with live blocks and cannot be returned{caches}. A trim would return at most {pages_text}"
    )
}

/// Why glibc has not returned it, and what a trim would return.
fn of_glibc(finding: &Finding, statistics: &Statistics, free: f64) -> String {
    let releasable = finding.releasable().unwrap_or_default();
    let is_most = |part: Part| finding.part(part) as f64 > free / 2.0;
    let main_top = statistics.arenas.first().map_or(0, |arena: &Arena| arena.top.resident_bytes);
    let trim = statistics.parameters.trim_threshold_bytes as f64;
    let why = if is_most(Part::FreeChunks) && releasable.value < NEXT_TO_NOTHING * free {
        "malloc cannot return it because nearly every 4-KiB page of it still holds a live block"
            .into()
    } else if is_most(Part::FreeChunks) {
        let scattered = part_text(finding, Part::FreeChunks);
        format!(
            "malloc cannot return {scattered} of it, because it is on pages that still hold live blocks"
        )
    } else if is_most(Part::Tcaches) {
        "most of it is in per-thread caches, which malloc_trim does not empty".into()
    } else if is_most(Part::Top) && main_top as f64 > free / 2.0 {
        format!(
            "it is at the end of the heap, which malloc trims only when more than {} is free there",
            format_bytes(trim)
        )
    } else if is_most(Part::Top) {
        "most of it is at the ends of threads' heaps, which malloc_trim does not shorten".into()
    } else if is_most(Part::Fastbins) && releasable.value < NEXT_TO_NOTHING * free {
        "it is in small blocks, beside live ones".into()
    } else if is_most(Part::Fastbins) {
        "it is in small blocks, which malloc merges only during a trim".into()
    } else {
        "malloc keeps it for reuse".into()
    };
    format!("{why}. malloc_trim would return {}", measured(releasable))
}

/// Memory of an allocator whose statistics are not read.
fn held(finding: &Finding) -> Option<Cause> {
    let bytes = finding.rss.term(Term::Held);
    let allocator = finding.rss.holder();
    if finding.rss.is_inside_divided() {
        let why = by_figures(finding, bytes.value, Part::InsidePages, Part::InsideChunks);
        let amount = amount(bytes, finding.rss.bytes);
        return Some(Cause {
            cause: "free",
            bytes,
            sentence: format!(
                "{amount} is free memory that the program gave back to {allocator}; {why}."
            ),
        });
    }
    (bytes.value > 0.0).then(|| Cause {
        cause: "held",
        bytes,
        sentence: format!(
            "{} is held by {allocator}{}.{}",
            amount(bytes, finding.rss.bytes),
            match finding.rss.before {
                Some(Before::Fork) => {
                    " beyond the live blocks, which may include memory inherited from its parent"
                }
                Some(_) => ": allocated before the attach, not seen by ramson, or free",
                None => " beyond the live blocks",
            },
            next_question(finding),
        ),
    })
}

fn of_parts(finding: &Finding, other: &(&'static str, &[Part], &str)) -> Option<Cause> {
    let &(cause, parts, phrase) = other;
    let named = named::phrase(finding, cause).or_else(|| go::phrase(finding, cause));
    let phrase = named.as_deref().unwrap_or(phrase);
    let bytes = match parts {
        &[part] => finding.part_estimate(part),
        parts => Estimate::exact(parts.iter().map(|&part| finding.part(part)).sum::<u64>() as f64),
    };
    let start = amount(bytes, finding.rss.bytes);
    let sentence = match cause {
        "other" if !finding.is_divided() => undivided(finding, &start),
        "other" => format!("{start} is other anonymous memory: {}.", owner(finding)),
        _ => {
            format!("{start} {}.", phrase.replace("PID", &finding.pid.to_string()))
        }
    };
    (bytes.value > 0.0).then_some(Cause { cause, bytes, sentence })
}

/// Anonymous memory, where the allocator's part of it is not known.
fn undivided(finding: &Finding, start: &str) -> String {
    match &finding.statistics {
        Err(Missing::Unreadable(kind)) if *kind != AllocatorKind::InProgram => {
            let may_be = match &finding.owner {
                Some(owner) => format!(": {owner} or"),
                None => ", which may include".into(),
            };
            let blocks = if finding.live.is_some() && finding.rss.before.is_none() {
                "free memory and metadata"
            } else {
                "live blocks, free memory and metadata"
            };
            let allocator = &finding.rss.allocator;
            let next = next_question(finding);
            format!("{start} is anonymous memory{may_be} {allocator}'s {blocks}.{next}")
        }
        Err(_) if finding.owner.is_some() => {
            format!("{start} is anonymous memory: {}.", owner(finding))
        }
        Err(missing) => {
            let why = missing.to_string();
            format!(
                "{start} is anonymous memory that cannot be broken down: {}.",
                why.trim_end_matches('.')
            )
        }
        Ok(_) => format!("{start} is other anonymous memory."),
    }
}

/// Whose memory it most likely is: only the run time knows what is in it.
fn owner(finding: &Finding) -> String {
    let written = finding.details.written.first();
    if let Some(file) = written.filter(|file| file.bytes * 2 > finding.part(Part::Anonymous)) {
        return format!(
            "{} of it are pages of {} that the program has changed in its private mapping",
            size(file.bytes),
            file.path
        );
    }
    match &finding.owner {
        Some(owner) if finding.allocators.inside().is_some() => owner.clone(),
        Some(owner) => format!("most likely {owner}"),
        None => "a runtime's heap, another allocator, or mappings that were not recorded".into(),
    }
}

/// How to learn how much of it is free.
fn next_question(finding: &Finding) -> String {
    match finding.askable().filter(|_| finding.asked.is_none()) {
        Some(allocator) => format!(
            " Only {allocator} knows how much of it is free: ramson explain --ask {}.",
            finding.pid
        ),
        None => String::new(),
    }
}

fn part_text(finding: &Finding, part: Part) -> String {
    measured(finding.part_estimate(part))
}
