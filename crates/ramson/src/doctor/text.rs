//! The finding for people: one line, one bar, then the tables.

use super::advice::Advice;
use super::ask::Asked;
use super::examine::Finding;
use super::{map, reasons};
use crate::rss::live_text;
use crate::text;
use ramson_process::allocators::{Found, Missing};
use ramson_process::glibc::{Arena, Books};
use ramson_process::{Explained, Part};
use ramson_profile::format::{
    format_bytes, format_objects, format_percent, format_relative_error, format_share,
};
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
    let columns = text::columns();
    let mut out = String::new();
    text::push_prose(&mut out, "", &line(finding), columns);
    let _ = writeln!(out, "{}", bar(&finding.explained));
    let _ = writeln!(out, "{} (pid {})", finding.name, finding.pid);
    push_allocator(&mut out, finding, columns);
    push_limit(&mut out, finding);
    push_parts(&mut out, finding);
    if let Ok(books) = &finding.books {
        push_arenas(&mut out, books, columns);
        map::push(&mut out, &books.map);
        reasons::push_pins(&mut out, finding, top, columns);
    }
    reasons::push_advice(&mut out, advice, columns);
    out.lines().fold(String::new(), |all, line| all + &text::cut(line, columns) + "\n")
}

/// RSS as a sum.
fn line(finding: &Finding) -> String {
    use Part::*;
    let groups: [(&str, &[Part]); 6] = [
        ("allocator's own", &[Metadata]),
        ("own mmaps", &[Anonymous, Padding]),
        ("stacks", &[Stacks]),
        ("files", &[Data, FilesPrivate, FilesShared]),
        ("shared memory", &[Shmem]),
        ("other", &[NotWalked, Ramson, Kernel, Moved]),
    ];
    let (explained, is_divided) = (&finding.explained, finding.is_divided());
    let bytes = |bytes: i64| format_bytes(bytes as f64);
    let mut terms = Vec::new();
    if is_divided {
        terms.push(format!("live {}", bytes(explained.part(Live))));
        terms.push(format!("kept free {}", bytes(explained.kept_free())));
    } else if let Some(live) = finding.live {
        let error = match live.value {
            0.0 => String::new(),
            _ => format!(" ({})", format_relative_error(live)),
        };
        terms.push(format!("live {}{error}", bytes(explained.part(Live))));
    }
    for (name, parts) in groups {
        let name = match name {
            "own mmaps" if !is_divided && finding.live.is_some() => "other anonymous",
            "own mmaps" if !is_divided => "anonymous",
            _ => name,
        };
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

fn push_allocator(out: &mut String, finding: &Finding, columns: Option<usize>) {
    let mut push = |label: &str, prose: &str| text::push_prose(out, label, prose, columns);
    let allocators = &finding.allocators;
    let (glibc, other) =
        (allocators.glibc.as_ref(), allocators.other.as_ref().map(|(_, found)| found));
    let named = |found: &Found| format!("{}  {}", found.name, found.origin);
    let is_unknown = matches!(finding.books, Err(Missing::Denied { .. }));
    let (first, second) =
        if finding.books.is_ok() || is_unknown { (glibc, other) } else { (other.or(glibc), None) };
    if let Some(found) = first {
        push("allocator  ", &named(found));
    }
    match second {
        Some(found) if is_unknown => push("       or  ", &named(found)),
        Some(found) => {
            let what = "; what it may hold counts as the program's mmaps";
            push("beside it  ", &(named(found) + what));
        }
        None => {}
    }
    for (name, value) in &allocators.settings {
        push("started    ", &format!("with {name}={value}"));
    }
    match (&finding.books, &finding.asked) {
        (Ok(books), _) => push("in force   ", &parameters(books)),
        (Err(_), Some(Ok(asked))) => {
            push("asked      ", &question(asked));
            push("it says    ", &answer(asked));
        }
        (Err(why), asked) => {
            if let Some(Err(refusal)) = asked {
                push("not asked  ", refusal);
            }
            push("not known  ", &why.to_string());
        }
    }
}

fn question(asked: &Asked) -> String {
    let called = &asked.called;
    format!(
        "{} on thread {} ({}), which was stopped for {:.1} ms",
        asked.function,
        called.tid,
        called.name,
        called.stopped.as_secs_f64() * 1e3,
    )
}

fn answer(asked: &Asked) -> String {
    let figure = |(name, bytes): &(&str, u64)| format!("{name} {}", format_bytes(*bytes as f64));
    asked.figures.iter().map(figure).collect::<Vec<_>>().join(", ")
}

fn parameters(books: &Books) -> String {
    let parameters = &books.parameters;
    let size = |bytes: u64| format_bytes(bytes as f64);
    let moves =
        if parameters.has_dynamic_thresholds { "moving with what is freed" } else { "fixed" };
    format!(
        "mmap threshold {}, trim threshold {} ({moves}); arenas at most {}; tcache: {} of a size up to {}",
        size(parameters.mmap_threshold_bytes),
        size(parameters.trim_threshold_bytes),
        match (parameters.arena_max, parameters.arenas_a_core) {
            (0, 1) => "one a core or 8".into(),
            (0, most) => format!("{most} a core"),
            (most, _) => most.to_string(),
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
        // Without books, an allocator's memory cannot be told from the program's.
        let name = match (part, finding.live) {
            (Part::Live, Some(live)) if finding.is_divided() => {
                format!("{name}; by the profile {}", live_text(live))
            }
            (Part::Live, Some(live)) => format!("live, by the profile: {}", live_text(live)),
            (Part::Anonymous, Some(_)) if !finding.is_divided() => {
                "anonymous, not divided: kept free, the allocator's own, the program's mmaps".into()
            }
            (Part::Anonymous, None) if !finding.is_divided() => "anonymous, not divided".into(),
            _ => name.to_owned(),
        };
        let _ = writeln!(
            out,
            "{:>10} {:>8}  {name}",
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
}

fn push_arenas(out: &mut String, books: &Books, columns: Option<usize>) {
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
    push_doubts(out, books, columns);
}

/// What of the books is not sure.
fn push_doubts(out: &mut String, books: &Books, columns: Option<usize>) {
    let mut push = |doubt: &str| text::push_prose(out, "", doubt, columns);
    if books.is_surveyed() {
        push(&format!(
            "in use and free ±{} (95 %): a part of the pages was read; --exact reads all",
            format_bytes(books.half_width_95_bytes()),
        ));
    }
    let share = books.not_walked_share();
    if share > 0.0 {
        push(&format!(
            "not walked: {} of the arenas, because the program changed them meanwhile, they are swapped out, or they lie outside the heap",
            format_share(share)
        ));
    }
    let (found, all) = (books.mapped.chunks, books.parameters.mapped_chunks);
    if !books.has_all_mapped {
        push(&format!(
            "blocks that malloc mapped: {} were found where it counts {}; {}",
            format_objects(found as f64),
            format_objects(all as f64),
            if found < all {
                "the others count as the program's mmaps"
            } else {
                "it changed meanwhile, or some of them are memory of the program's"
            }
        ));
    }
    if books.arenas.iter().any(|arena| arena.fastbins.is_cut || arena.tcaches.is_cut) {
        push("fastbins, tcaches: at least; a list could not be followed to its end");
    }
}
