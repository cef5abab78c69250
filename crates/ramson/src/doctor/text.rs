//! The finding for people: one line, one bar, then the tables.

use super::advice::Advice;
use super::examine::Finding;
use super::{map, reasons};
use crate::rss::live_text;
use crate::text;
use ramson_allocator::glibc::{Arena, Books};
use ramson_allocator::{Explained, Part};
use ramson_profile::format::{format_bytes, format_objects, format_percent, format_share};
use std::fmt::Write;

/// Width of the bar where there is no terminal to ask.
const BAR_COLUMNS: usize = 80;
/// Arenas with a line of their own.
const MOST_ARENAS: usize = 12;

/// What each part is called.
const NAMES: [(Part, &str); 18] = [
    (Part::Live, "live, by the allocator's books"),
    (Part::Top, "kept free: top of arenas"),
    (Part::FreePages, "kept free: whole pages"),
    (Part::FreeChunks, "kept free: in pages in use"),
    (Part::Fastbins, "kept free: fastbins"),
    (Part::Tcaches, "kept free: tcaches"),
    (Part::Metadata, "the allocator's own"),
    (Part::NotWalked, "in arenas, not walked"),
    (Part::Anonymous, "other anonymous: the program's mmaps"),
    (Part::Padding, "huge-page padding: zeros in transparent huge pages"),
    (Part::Data, "variables (.data, .bss)"),
    (Part::Stacks, "stacks"),
    (Part::FilesPrivate, "files, private"),
    (Part::FilesShared, "files, shared"),
    (Part::Shmem, "shared memory"),
    (Part::Ramson, "ramson"),
    (Part::Kernel, "the kernel's"),
    (Part::Moved, "moved while it was looked at"),
];

/// The whole text.
pub fn table(finding: &Finding, advice: &[Advice], top: usize) -> String {
    let explained = &finding.explained;
    let mut out = line(explained, finding.is_divided());
    let _ = writeln!(out, "\n{}", bar(explained));
    let _ = writeln!(out, "{} (pid {})", finding.name, finding.pid);
    push_allocator(&mut out, finding);
    push_limit(&mut out, finding);
    push_parts(&mut out, finding);
    if let Ok(books) = &finding.books {
        push_arenas(&mut out, books);
        map::push(&mut out, &books.map);
        reasons::push_pins(&mut out, finding, top);
    }
    reasons::push_advice(&mut out, advice);
    let columns = text::columns();
    out.lines().fold(String::new(), |all, line| all + &text::cut(line, columns) + "\n")
}

/// `RSS 2.00 GiB = live … + kept free … + …`, adding up to RSS.
fn line(explained: &Explained, is_divided: bool) -> String {
    use Part::*;
    let groups: [(&str, &[Part]); 6] = [
        ("allocator's own", &[Metadata]),
        ("own mmaps", &[Anonymous, Padding]),
        ("stacks", &[Stacks]),
        ("files", &[Data, FilesPrivate, FilesShared]),
        ("shared memory", &[Shmem]),
        ("other", &[NotWalked, Ramson, Kernel, Moved]),
    ];
    let bytes = |bytes: i64| format_bytes(bytes as f64);
    let mut terms = Vec::new();
    if is_divided {
        terms.push(format!("live {}", bytes(explained.part(Live))));
        terms.push(format!("kept free {}", bytes(explained.kept_free())));
    }
    for (name, parts) in groups {
        let name = if is_divided || name != "own mmaps" { name } else { "anonymous" };
        let sum: i64 = parts.iter().map(|&part| explained.part(part)).sum();
        if sum != 0 {
            terms.push(format!("{name} {}", bytes(sum)));
        }
    }
    format!("RSS {} = {}", format_bytes(explained.rss as f64), terms.join(" + "))
}

/// One character a share: live, kept free, the program's mmaps, everything else.
fn bar(explained: &Explained) -> String {
    let columns = text::columns().unwrap_or(BAR_COLUMNS).min(BAR_COLUMNS);
    let kinds = [
        ('█', explained.part(Part::Live), "live"),
        ('░', explained.kept_free(), "kept free"),
        ('▒', explained.part(Part::Anonymous), "own mmaps"),
    ];
    let cells = |bytes: i64| {
        (bytes.max(0) as f64 / explained.rss.max(1) as f64 * columns as f64).round() as usize
    };
    let mut bar: String = kinds.iter().flat_map(|&(c, bytes, _)| vec![c; cells(bytes)]).collect();
    let missing = columns.saturating_sub(bar.chars().count());
    bar.extend(vec!['·'; missing]);
    let bar: String = bar.chars().take(columns).collect();
    let legend = kinds.iter().map(|(character, _, name)| format!("{character} {name}"));
    format!("{bar}\n{}  · everything else", legend.collect::<Vec<_>>().join("  "))
}

fn push_allocator(out: &mut String, finding: &Finding) {
    let allocators = &finding.allocators;
    let other = allocators.other.as_ref().map(|(_, found)| found);
    let (first, second) = match &finding.books {
        Ok(_) => (allocators.glibc.as_ref(), other),
        Err(_) => (other.or(allocators.glibc.as_ref()), None),
    };
    if let Some(found) = first {
        let _ = writeln!(out, "allocator  {}  {}", found.name, found.origin);
    }
    if let Some(found) = second {
        let _ = writeln!(
            out,
            "beside it  {}  {}; what it may hold counts as the program's mmaps",
            found.name, found.origin
        );
    }
    for (name, value) in &allocators.settings {
        let _ = writeln!(out, "started    with {name}={value}");
    }
    match &finding.books {
        Ok(books) => push_parameters(out, books),
        Err(why) => push_asked(out, finding, why),
    }
}

/// What the allocator says of itself, or why that is not known.
fn push_asked(out: &mut String, finding: &Finding, why: &str) {
    match &finding.asked {
        Some(Ok(asked)) => {
            let figure =
                |(name, bytes): &(&str, u64)| format!("{name} {}", format_bytes(*bytes as f64));
            let figures: Vec<String> = asked.figures.iter().map(figure).collect();
            let called = &asked.called;
            let _ = writeln!(
                out,
                "asked      {} on thread {} ({}), which was stopped for {:.1} ms\nit says    {}",
                asked.function,
                called.tid,
                called.name,
                called.stopped.as_secs_f64() * 1e3,
                figures.join(", "),
            );
        }
        Some(Err(refusal)) => {
            let _ = writeln!(out, "not asked  {refusal}\nnot known  {why}");
        }
        None => {
            let _ = writeln!(out, "not known  {why}");
        }
    }
}

fn push_parameters(out: &mut String, books: &Books) {
    let parameters = &books.parameters;
    let size = |bytes: u64| format_bytes(bytes as f64);
    let moves =
        if parameters.has_dynamic_thresholds { "moving with what is freed" } else { "fixed" };
    let _ = writeln!(
        out,
        "in force   mmap threshold {}, trim threshold {} ({moves}); arenas at most {}; tcache: {} of a size up to {}",
        size(parameters.mmap_threshold_bytes),
        size(parameters.trim_threshold_bytes),
        match parameters.arena_max {
            0 => "8 a core".into(),
            most => most.to_string(),
        },
        parameters.tcache_count,
        size(parameters.tcache_max_bytes),
    );
}

fn push_limit(out: &mut String, finding: &Finding) {
    if let Some(limit) = &finding.limit {
        let left = limit.limit_bytes.saturating_sub(limit.used_bytes);
        let _ = writeln!(
            out,
            "limit      {} of cgroup {}, {} in use, {} ({}) left",
            format_bytes(limit.limit_bytes as f64),
            limit.group,
            format_bytes(limit.used_bytes as f64),
            format_bytes(left as f64),
            format_percent(left as f64, limit.limit_bytes as f64),
        );
    }
}

fn push_parts(out: &mut String, finding: &Finding) {
    let explained = &finding.explained;
    let rss = explained.rss as f64;
    let _ = writeln!(out, "\n{:>10} {:>8}  part of RSS", "bytes", "share");
    for (part, name) in NAMES {
        let bytes = explained.part(part);
        if bytes == 0 {
            continue;
        }
        let profile = finding.live.filter(|_| part == Part::Live);
        let profile =
            profile.map_or(String::new(), |live| format!("; by the profile {}", live_text(live)));
        // Without books, an allocator's memory cannot be told from the program's.
        let name = match part {
            Part::Anonymous if !finding.is_divided() => "anonymous, not divided",
            _ => name,
        };
        let _ = writeln!(
            out,
            "{:>10} {:>8}  {name}{profile}",
            format_bytes(bytes as f64),
            format_percent(bytes as f64, rss),
        );
    }
    let _ = writeln!(out, "{:>10} {:>8}  RSS", format_bytes(rss), "");
    let beside = [
        ("page tables, beside RSS", finding.page_tables.unwrap_or(0)),
        ("swapped out, beside RSS", explained.swap),
        ("hugetlbfs, beside RSS", explained.hugetlb),
        ("of the above in transparent huge pages", explained.anonymous_huge),
    ];
    for (name, bytes) in beside.into_iter().filter(|&(_, bytes)| bytes > 0) {
        let _ = writeln!(out, "{:>10} {:>8}  {name}", format_bytes(bytes as f64), "");
    }
    if let (Err(_), Some(live)) = (&finding.books, finding.live) {
        let _ = writeln!(out, "{:>10} {:>8}  live by the profile: {}", "", "", live_text(live));
    }
}

fn push_arenas(out: &mut String, books: &Books) {
    let mut arenas: Vec<(usize, &Arena)> = books.arenas.iter().enumerate().collect();
    arenas.sort_by_key(|(_, arena)| std::cmp::Reverse(arena.free_bytes()));
    let _ = writeln!(
        out,
        "\n{:>5} {:>7} {:>5} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>7}",
        "arena",
        "threads",
        "heaps",
        "taken",
        "in use",
        "free",
        "trim gives",
        "fastbins",
        "tcaches",
        "largest",
        "frag"
    );
    let size = |bytes: u64| format_bytes(bytes as f64);
    for (index, arena) in arenas.iter().take(MOST_ARENAS) {
        let name = if arena.is_main { "main".into() } else { index.to_string() };
        let _ = writeln!(
            out,
            "{name:>5} {:>7} {:>5} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>7}",
            arena.threads,
            arena.heaps,
            size(arena.system_bytes),
            size(arena.in_use.bytes - arena.fastbins.bytes.min(arena.in_use.bytes)),
            size(arena.free_bytes()),
            size(arena.releasable_bytes()),
            size(arena.fastbins.bytes),
            size(arena.tcaches.bytes),
            size(arena.largest_free_bytes),
            format_share(arena.fragmentation()).replace(' ', ""),
        );
    }
    if let Some(rest) = arenas.get(MOST_ARENAS..).filter(|rest| !rest.is_empty()) {
        let free = rest.iter().map(|(_, arena)| arena.free_bytes()).sum();
        let _ = writeln!(out, "{:>5} {} more arenas, {} free", "", rest.len(), size(free));
    }
    push_doubts(out, books);
}

/// What of the books is not sure.
fn push_doubts(out: &mut String, books: &Books) {
    if books.is_surveyed() {
        let _ = writeln!(
            out,
            "in use and free ±{} (95 %): a part of the pages was read; --exact reads all",
            format_bytes(books.half_width_95_bytes()),
        );
    }
    let share = books.not_walked_share();
    if share > 0.0 {
        let _ = writeln!(
            out,
            "not walked: {} of the arenas, because the program changed them meanwhile, they are swapped out, or they lie outside the heap",
            format_share(share)
        );
    }
    let (found, all) = (books.mapped.chunks, books.parameters.mapped_chunks);
    if (found, books.mapped.bytes) != (all, books.parameters.mapped_bytes) {
        let _ = writeln!(
            out,
            "mapped chunks: {} of {} were found; the others count as the program's mmaps",
            format_objects(found as f64),
            format_objects(all as f64),
        );
    }
    if books.arenas.iter().any(|arena| arena.fastbins.is_cut) {
        let _ = writeln!(out, "fastbins: at least; a list could not be followed to its end");
    }
}
