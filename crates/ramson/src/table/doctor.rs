//! The finding for people: one line, one bar, then the tables.

use super::{Table, columns, cut_all, pins, push_prose, size};
use ramson_analysis::doctor::Finding;
use ramson_analysis::rss::live_text;
use ramson_process::allocators::{Allocator, Missing};
use ramson_process::glibc::{Arena, Cell, HeapMap, Statistics};
use ramson_process::{Part, Term};
use ramson_profile::format::{format_bytes, format_objects, format_percent, format_share};
use std::fmt::Write;

/// Width of the bar where there is no terminal to ask.
const BAR_COLUMNS: usize = 80;
/// Arenas with a line of their own.
const MOST_ARENAS: usize = 12;
const MOST_MAP_LINES: usize = 4;
/// From all in use to all free, by the share that is free.
const SHADES: [(f64, char); 4] = [(0.1, '█'), (0.5, '▓'), (0.9, '▒'), (1.0, '░')];

const NAMES: [(Part, &str); 21] = [
    (Part::Live, "live, by the allocator's statistics"),
    (Part::Top, "free at the end of the heap"),
    (Part::FreePages, "free whole pages (ramson trim returns these)"),
    (Part::FreeChunks, "free, but on pages that still hold live blocks"),
    (Part::Fastbins, "free in fastbins"),
    (Part::Tcaches, "free in thread caches"),
    (Part::Metadata, "allocator metadata"),
    (Part::Held, "in the allocator's areas, beyond live blocks: free, metadata, or rounding"),
    (Part::Inherited, "its parent's memory, shared copy on write"),
    (Part::Extents, "mmap: what the program mapped itself"),
    (Part::Stacks, "stacks"),
    (Part::Code, "code of binaries"),
    (Part::Data, "variables of binaries (.data, .bss)"),
    (Part::Files, "files"),
    (Part::Shmem, "shared memory"),
    (Part::Kernel, "kernel (vdso)"),
    (Part::Ramson, "ramson"),
    (Part::Anonymous, "other anonymous: not malloc's"),
    (Part::Padding, "huge-page padding: zeros in transparent huge pages"),
    (Part::NotWalked, "in arenas, not walked"),
    (Part::Moved, "changed during measurement"),
];

pub fn text(finding: &Finding, rows: usize) -> String {
    let mut out = String::new();
    push_prose(&mut out, "", &finding.rss.line());
    let _ = writeln!(out, "{}", bar(finding));
    let _ = writeln!(out, "{} (pid {})", finding.name, finding.pid);
    push_allocator(&mut out, finding);
    push_limit(&mut out, finding);
    push_parts(&mut out, finding);
    if let Ok(statistics) = &finding.statistics {
        push_arenas(&mut out, statistics);
        push_map(&mut out, &statistics.map);
        pins::push_pins(&mut out, finding, rows);
    }
    pins::push_advice(&mut out, finding.advice.iter().map(|advice| (String::new(), advice)));
    cut_all(out.lines().map(str::to_owned))
}

/// One character a share: live, free in the allocator, the program's mmaps, everything else.
fn bar(finding: &Finding) -> String {
    let columns = columns().unwrap_or(BAR_COLUMNS).min(BAR_COLUMNS);
    let is_held =
        finding.rss.term(Term::Free).value == 0.0 && finding.rss.term(Term::Held).value > 0.0;
    let free = if is_held { Term::Held } else { Term::Free };
    let kinds = [('█', Term::Live), ('░', free), ('▒', Term::Mmap)];
    let rss = finding.rss.bytes.max(1) as f64;
    let cells =
        |term| (finding.rss.term(term).value.max(0.0) / rss * columns as f64).round() as usize;
    let shares = kinds.iter().flat_map(|&(c, term)| vec![c; cells(term)]);
    let bar: String = shares.chain(std::iter::repeat('·')).take(columns).collect();
    let legend = kinds.iter().map(|&(c, term)| format!("{c} {}", finding.rss.word(term)));
    format!("{bar}\n{}  · everything else", legend.collect::<Vec<_>>().join("  "))
}

fn push_allocator(out: &mut String, finding: &Finding) {
    let mut push = |label: &str, prose: &str| push_prose(out, label, prose);
    let allocators = &finding.allocators;
    let (glibc, other) =
        (allocators.glibc.as_ref(), allocators.other.as_ref().map(|(_, found)| found));
    let named = |found: &Allocator| format!("{}  {}", found.name, found.origin);
    let is_unknown = matches!(finding.statistics, Err(Missing::Denied { .. }));
    let (first, second) = if finding.statistics.is_ok() || is_unknown {
        (glibc, other)
    } else {
        (other.or(glibc), None)
    };
    if let Some(found) = first {
        push("allocator  ", &named(found));
    }
    match second {
        Some(found) if is_unknown => push("       or  ", &named(found)),
        Some(found) => {
            let what = "; what it may hold counts as other anonymous";
            push("beside it  ", &(named(found) + what));
        }
        None => {}
    }
    for (name, value) in &allocators.settings {
        push("started    ", &format!("with {name}={value}"));
    }
    match (&finding.statistics, &finding.asked) {
        (Ok(statistics), _) => push("settings   ", &parameters(statistics)),
        (Err(_), Some(Ok(asked))) => {
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
            push("it reports ", &figures.collect::<Vec<_>>().join(", "));
        }
        (Err(why), asked) => {
            if let Some(Err(refusal)) = asked {
                push("not asked  ", refusal);
            }
            push("not known  ", &why.to_string());
        }
    }
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

fn push_limit(out: &mut String, finding: &Finding) {
    if let Some(limit) = &finding.limit {
        let left = limit.limit_bytes.saturating_sub(limit.used_bytes);
        let _ = writeln!(
            out,
            "limit      {} of cgroup {}, {} in use, {} ({}) left",
            size(limit.limit_bytes),
            limit.group,
            size(limit.used_bytes),
            size(left),
            format_percent(left as f64, limit.limit_bytes as f64),
        );
    }
}

fn push_parts(out: &mut String, finding: &Finding) {
    let explained = &finding.rss.explained;
    let rss = explained.rss;
    out.push('\n');
    let mut table = Table::new(out, "bytes:>10|share:>8|part of RSS");
    for (part, name) in NAMES {
        let bytes = explained.part(part);
        if bytes == 0 {
            continue;
        }
        // Without statistics, an allocator's memory cannot be told from the program's.
        let name = match (part, finding.live) {
            (Part::Live, Some(live)) if finding.is_divided() => {
                format!("{name}; by the profile {}", live_text(live))
            }
            (Part::Live, Some(live)) => format!("live, by the profile: {}", live_text(live)),
            (Part::Anonymous, Some(_)) if !finding.is_divided() => {
                "other anonymous, not divided: free in the allocator, its metadata, the program's own".into()
            }
            (Part::Anonymous, None) if !finding.is_divided() => "other anonymous, not divided".into(),
            _ => name.to_owned(),
        };
        table.row([format_bytes(bytes as f64), format_percent(bytes as f64, rss as f64), name]);
    }
    let beside = [
        ("RSS", rss),
        ("page tables (not part of RSS)", finding.page_tables.unwrap_or(0)),
        ("swapped out (not part of RSS)", explained.swap),
        ("hugetlbfs (not part of RSS)", explained.hugetlb),
        ("of the above in transparent huge pages", explained.anonymous_huge),
    ];
    for (name, bytes) in beside.into_iter().filter(|&(_, bytes)| bytes > 0) {
        table.row([size(bytes), String::new(), name.to_owned()]);
    }
}

fn push_arenas(out: &mut String, statistics: &Statistics) {
    let mut arenas: Vec<(usize, &Arena)> = statistics.arenas.iter().enumerate().collect();
    arenas.sort_by_key(|(_, arena)| std::cmp::Reverse(arena.free_bytes()));
    out.push('\n');
    let heads = "arena:>5|threads:>7|heaps:>5|taken:>10|in use:>10|free:>10|releasable:>10|fastbins:>10|\
                 tcaches:>10|largest:>10|frag:>7";
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
            "surveyed: read {} of {}, chosen at random (95 % intervals: live ±{}, free ±{}, releasable ±{}); --exact reads everything",
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
            "blocks that malloc mapped: {} were found where it counts {}; {}",
            format_objects(found as f64),
            format_objects(all as f64),
            if found < all {
                "the others count as other anonymous"
            } else {
                "it changed meanwhile, or some of them are memory of the program's"
            }
        ));
    }
    if statistics.arenas.iter().any(|arena| arena.fastbins.is_cut || arena.tcaches.is_cut) {
        push("fastbins, tcaches: at least; a list could not be followed to its end");
    }
}

/// The heap by address: how much of each part is in use.
fn push_map(out: &mut String, map: &HeapMap) {
    let all: u64 = map.cells.iter().map(|cell| cell.bytes).sum();
    if all == 0 {
        return;
    }
    let columns = columns().unwrap_or(BAR_COLUMNS).clamp(1, BAR_COLUMNS);
    let together = map.cells.len().div_ceil(columns * MOST_MAP_LINES).max(1);
    let parts: Vec<char> = map.cells.chunks(together).map(character).collect();
    let legend = format!(
        "one character per {}: █ in use  ▓ more than half  ▒ less  ░ free  · not resident",
        size((map.cell_bytes * together as u64).min(all)),
    );
    out.push('\n');
    push_prose(out, "heap map, ", &legend);
    for line in parts.chunks(columns) {
        out.extend(line);
        out.push('\n');
    }
}

fn character(cells: &[Cell]) -> char {
    let resident: u64 = cells.iter().map(|cell| cell.resident_bytes).sum();
    let free: f64 = cells.iter().map(|cell| cell.free_bytes).sum();
    if resident == 0 {
        return '·';
    }
    let share = free / resident as f64;
    SHADES.iter().find(|(most, _)| share <= *most).map_or('░', |&(_, shade)| shade)
}
