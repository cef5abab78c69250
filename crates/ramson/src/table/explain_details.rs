//! Details that take knowledge of the allocator: its settings, every part of RSS, its arenas, and what the words mean.

use super::{Table, push_prose, size};
use ramson_analysis::explain::Finding;
use ramson_analysis::rss::live_text;
use ramson_process::Part;
use ramson_process::allocators::{Allocator, Missing};
use ramson_process::glibc::{Arena, Statistics};
use ramson_process::go_memory::Collector;
use ramson_profile::SampleUnit;
use ramson_profile::format::{
    format_bytes, format_half_width, format_objects, format_percent, format_share,
};
use std::fmt::Write;

/// Arenas with a line of their own.
const MOST_ARENAS: usize = 12;

/// Each word that only those know who know the allocator, once; the second half is of arenas.
const TERMS: [(&str, &str); 7] = [
    (
        "allocator metadata",
        "sizes in front of live blocks, headers of heaps and arenas: what the allocator needs to manage them",
    ),
    (
        "end of the heap",
        "the free memory after the last block of an arena; malloc returns that of the main arena once it exceeds the trim threshold",
    ),
    (
        "fastbins",
        "lists of small freed blocks that malloc keeps for reuse and does not merge into larger ones before a trim",
    ),
    (
        "thread caches, tcaches",
        "lists of freed blocks that a thread keeps for itself; no trim empties them",
    ),
    (
        "mmap threshold",
        "malloc maps and unmaps each block of this size or more separately; smaller ones come from arenas. Dynamic: \
         freeing such a block raises this and the trim threshold",
    ),
    (
        "arena",
        "a heap of malloc's; threads are spread over several, so that they do not wait for each other. Heaps: the ranges of addresses it is made of",
    ),
    (
        "columns",
        "taken: from the kernel. In use and free: as mallinfo2 counts them. Releasable: what malloc_trim(0) returns. Largest: the largest free block. \
      Frag: the share of the arena's resident blocks that is free, on pages that still hold live blocks",
    ),
];
/// Number of terms, from the first on, that do not belong to glibc's arenas.
const TERMS_OF_ALL: usize = 1;

const NAMES: [(Part, &str); 34] = [
    (Part::Live, "live, by the allocator's statistics"),
    (Part::Unseen, "live by the allocator's count, and not in the profile"),
    (Part::Top, "free at the end of the heap"),
    (Part::FreePages, "free whole pages (ramson trim returns these)"),
    (Part::FreeChunks, "free, but on pages that still hold live blocks"),
    (Part::Fastbins, "free in fastbins"),
    (Part::Tcaches, "free in thread caches"),
    (Part::Metadata, "allocator metadata"),
    (Part::Held, "in the allocator's areas, beyond live blocks: free, metadata, or rounding"),
    (Part::InsidePages, "free whole pages of the allocator inside (ramson trim returns these)"),
    (Part::InsideChunks, "free in the allocator inside, but on pages that still hold live blocks"),
    (Part::GoLive, "Go: live at the end of the last collection"),
    (Part::GoUncollected, "Go: allocated or dead since, not collected yet"),
    (Part::GoUnused, "Go: room among objects"),
    (Part::GoFree, "Go: free, not returned yet"),
    (Part::GoStacks, "Go: stacks of goroutines"),
    (Part::GoRuntime, "Go: the runtime's own"),
    (Part::Inherited, "its parent's memory, shared copy on write"),
    (Part::Copied, "its parent's memory, copied since the fork"),
    (Part::LazyFree, "freed lazily (MADV_FREE): the kernel takes it back"),
    (Part::Extents, "mmap: what the program mapped itself"),
    (Part::Stacks, "stacks"),
    (Part::EndedStacks, "stacks of threads that ended and were not joined"),
    (Part::ThreadLocals, "thread-local variables"),
    (Part::Code, "code of binaries"),
    (Part::Data, "variables of binaries (.data, .bss)"),
    (Part::Files, "files"),
    (Part::Shmem, "shared memory"),
    (Part::Kernel, "kernel (vdso)"),
    (Part::Ramson, "ramson"),
    (Part::Anonymous, "other anonymous memory"),
    (Part::Padding, "huge-page padding: zeros in transparent huge pages"),
    (Part::NotWalked, "in arenas, not walked"),
    (Part::Moved, "changed during measurement"),
];

pub fn push_details(out: &mut String, finding: &Finding) {
    out.push('\n');
    push_allocator(out, finding);
    push_parts(out, finding);
    if let Ok(statistics) = &finding.statistics {
        push_arenas(out, statistics);
    }
    push_terms(out, finding);
}

fn push_allocator(out: &mut String, finding: &Finding) {
    let mut push = |label: &str, prose: &str| push_prose(out, label, prose);
    let allocators = &finding.allocators;
    let glibc = allocators.glibc.as_ref();
    let other = allocators.other.as_ref().map(|(_, found)| found);
    let named = |found: &Allocator| format!("{}  {}", found.name, found.origin);
    let is_unknown = matches!(finding.statistics, Err(Missing::Denied { .. }));
    let (first, second) = if finding.statistics.is_ok() || is_unknown {
        (glibc, other)
    } else {
        (other.or(glibc), None)
    };
    if let Some(collector) = &finding.go {
        push("allocator  ", &go(collector));
    }
    if let Some(found) = first {
        push(if finding.go.is_some() { "also       " } else { "allocator  " }, &named(found));
    }
    if let (Ok(_), Some(inside)) = (&finding.statistics, &finding.inside) {
        push("also       ", &named(inside));
    }
    match second {
        Some(_) if finding.inside.is_some() => {}
        Some(found) if is_unknown => push("       or  ", &named(found)),
        Some(found) => {
            let what = "; memory that it holds counts as other anonymous";
            push("also       ", &(named(found) + what));
        }
        None => {}
    }
    for (name, value) in &allocators.settings {
        push("started    ", &format!("with {name}={value}"));
    }
    if let Ok(statistics) = &finding.statistics {
        push("settings   ", &parameters(statistics));
    }
    match (&finding.statistics, &finding.asked) {
        (_, Some(Ok(asked))) => {
            let question = format!(
                "{} on thread {} ({}), which was stopped for {:.1} ms",
                asked.function,
                asked.tid,
                asked.thread,
                asked.stopped.as_secs_f64() * 1e3,
            );
            push("asked      ", &question);
            let figures =
                asked.figures.iter().map(|(name, bytes)| format!("{name} {}", size(*bytes)));
            push("statistics ", &figures.collect::<Vec<_>>().join(", "));
        }
        (missing, asked) => {
            if let Some(Err(refusal)) = asked {
                push("not asked  ", refusal);
            }
            if let Err(why) = missing
                && finding.go.is_none()
            {
                push("not known  ", &why.to_string());
            }
        }
    }
}

/// `Go's (go1.27.0): GOGC=100, GOMEMLIMIT 512 MiB; 30.1 MiB live when the last of 17 collections ended (1 asked for); goal 60.2 MiB`.
fn go(collector: &Collector) -> String {
    let Collector { version, percent, limit, live, goal, collections, forced, .. } = collector;
    let percent = if *percent < 0 { "off".into() } else { percent.to_string() };
    let limit = limit.map_or("no GOMEMLIMIT".into(), |limit| format!("GOMEMLIMIT {}", size(limit)));
    let forced = if *forced > 0 { format!(" ({forced} asked for)") } else { String::new() };
    let live = match collections {
        0 => "no collection yet".into(),
        _ => {
            format!("{} live when the last of {collections} collections ended{forced}", size(*live))
        }
    };
    let goal = goal.map_or(String::new(), |goal| format!("; goal {}", size(goal)));
    format!("Go's ({version}): GOGC={percent}, {limit}; {live}{goal}")
}

fn parameters(statistics: &Statistics) -> String {
    let parameters = &statistics.parameters;
    let moves = if parameters.has_dynamic_thresholds { "dynamic" } else { "fixed" };
    format!(
        "mmap threshold {}, trim threshold {} ({moves}); {}; tcache: {} of a size up to {}",
        size(parameters.mmap_threshold_bytes),
        size(parameters.trim_threshold_bytes),
        match (parameters.arena_max, parameters.arenas_a_core) {
            (0, 1) => "up to one arena per core, at least 8".into(),
            (0, most) => format!("up to {most} arenas per core"),
            (most, _) => format!("up to {most} arenas"),
        },
        parameters.tcache_count,
        size(parameters.tcache_max_bytes),
    )
}

fn push_parts(out: &mut String, finding: &Finding) {
    let explained = &finding.rss.explained;
    let rss = explained.rss;
    out.push('\n');
    let mut table = Table::new(out, "bytes:>10|±:>10|share:>8|part of RSS");
    for (part, name) in NAMES {
        let bytes = explained.part(part);
        if bytes == 0 {
            continue;
        }
        // Without statistics, an allocator's memory cannot be told from the program's.
        let name = match (part, finding.live) {
            (Part::Live, Some(live)) if finding.is_divided() => {
                format!("{name}; of {} in all", live_text(live))
            }
            (Part::Live, Some(live)) => format!("live; {} in all", live_text(live)),
            (Part::Anonymous, Some(_)) if !finding.is_divided() => {
                "other anonymous, not divided: free in the allocator, its metadata, the program's own".into()
            }
            (Part::Anonymous, None) if !finding.is_divided() => "other anonymous, not divided".into(),
            _ => name.to_owned(),
        };
        let estimate = finding.part_estimate(part);
        let error = if estimate.half_width_95() > 0.0 {
            format_half_width(estimate, SampleUnit::Bytes).replace('±', "")
        } else {
            String::new()
        };
        let share = format_percent(bytes as f64, rss as f64);
        table.row([format_bytes(bytes as f64), error, share, name]);
    }
    let beside = [
        ("RSS", rss),
        ("page tables (not part of RSS)", finding.page_tables.unwrap_or(0)),
        ("swapped out (not part of RSS)", explained.swap),
        ("hugetlbfs (not part of RSS)", explained.hugetlb),
        ("of the above in transparent huge pages", explained.anonymous_huge),
    ];
    for (name, bytes) in beside.into_iter().filter(|&(_, bytes)| bytes > 0) {
        table.row([size(bytes), String::new(), String::new(), name.to_owned()]);
    }
}

fn push_arenas(out: &mut String, statistics: &Statistics) {
    let mut arenas: Vec<(usize, &Arena)> = statistics.arenas.iter().enumerate().collect();
    arenas.sort_by_key(|(_, arena)| std::cmp::Reverse(arena.free_bytes()));
    out.push('\n');
    let heads = "arena:>5|threads:>7|heaps:>5@90|taken:>10|in use:>10|free:>10|releasable:>10|\
                 fastbins:>10@110|tcaches:>10@110|largest:>10@110|frag:>7";
    let mut table = Table::new(out, heads);
    for (index, arena) in arenas.iter().take(MOST_ARENAS) {
        let name = if arena.is_main { "main".into() } else { index.to_string() };
        table.row([
            name,
            arena.threads.to_string(),
            arena.heaps.to_string(),
            size(arena.system_bytes),
            size(arena.in_use.bytes - arena.fastbins.bytes.min(arena.in_use.bytes)),
            size(arena.free_bytes()),
            size(arena.releasable_bytes()),
            size(arena.fastbins.bytes),
            size(arena.tcaches.bytes),
            size(arena.largest_free_bytes),
            format_share(arena.fragmentation()).replace(' ', ""),
        ]);
    }
    if let Some(rest) = arenas.get(MOST_ARENAS..).filter(|rest| !rest.is_empty()) {
        let free = rest.iter().map(|(_, arena)| arena.free_bytes()).sum();
        let _ = writeln!(out, "{:>5} {} more arenas, {} free", "", rest.len(), size(free));
    }
    push_doubts(out, statistics);
}

fn push_doubts(out: &mut String, statistics: &Statistics) {
    let mut push = |doubt: &str| push_prose(out, "", doubt);
    if statistics.is_surveyed() {
        push(&format!(
            "surveyed: read {} of {}, chosen at random (95% intervals: live ±{}, free ±{}, releasable ±{}); --exact reads everything",
            size(statistics.read_bytes),
            size(statistics.sum(|arena| arena.system_bytes)),
            format_bytes(statistics.live_half_width_95_bytes()),
            format_bytes(statistics.half_width_95_bytes()),
            format_bytes(statistics.releasable_half_width_95_bytes()),
        ));
    }
    let share = statistics.not_walked_share();
    if share > 0.0 {
        push(&format!(
            "not walked: {} of the arenas, because the program changed them meanwhile, they are swapped out, or they lie outside the heap",
            format_share(share)
        ));
    }
    let (found, all) = (statistics.mapped.chunks, statistics.parameters.mapped_chunks);
    if !statistics.has_all_mapped {
        push(&format!(
            "blocks that malloc mapped: {} were found, malloc counts {}; {}",
            format_objects(found as f64),
            format_objects(all as f64),
            if found < all {
                "the others count as other anonymous"
            } else {
                "the number changed meanwhile, or some of them are the program's own mappings"
            }
        ));
    }
    if statistics.arenas.iter().any(|arena| arena.fastbins.is_cut || arena.tcaches.is_cut) {
        push("fastbins, tcaches: these or more, because a list could not be followed to its end");
    }
}

fn push_terms(out: &mut String, finding: &Finding) {
    let shown = if finding.statistics.is_ok() { TERMS.len() } else { TERMS_OF_ALL };
    out.push('\n');
    for (term, meaning) in &TERMS[..shown] {
        push_prose(out, &format!("{term}: "), meaning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_row() {
        for (part, name, _) in Part::ALL {
            assert!(NAMES.iter().any(|(named, _)| *named == part), "{name}");
        }
    }
}
