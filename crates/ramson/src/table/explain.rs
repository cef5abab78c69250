//! The finding for people: what the memory is, a sentence for each cause, then what to do, then the sum, what pins free memory
//! and a map of the heap. The details contain everything that takes knowledge of the allocator.

use super::{columns, cut_all, explain_details, pins, push_prose, push_terms, size};
use ramson_analysis::explain::Finding;
use ramson_process::Term;
use ramson_process::allocators::Missing;
use ramson_process::glibc::{Cell, HeapMap};
use ramson_profile::SampleUnit;
use ramson_profile::format::{format_amount, format_bytes, format_per_hour, format_percent};
use std::fmt::Write;

/// Columns of bar and map where there is no terminal to ask.
const USUAL_COLUMNS: usize = 80;
const MOST_MAP_LINES: usize = 4;
/// From all live to all free, by the share that is free.
const SHADES: [(f64, char); 4] = [(0.1, '█'), (0.5, '▓'), (0.9, '▒'), (1.0, '░')];

/// Least share of what a control group uses that is told where it is no process's own memory.
const OTHERS_SHARE: f64 = 0.1;

/// Least share of RSS that is free from which on the places of free memory are shown.
const LEAST_SHARE: f64 = 0.05;

/// How much is shown.
#[derive(Clone, Copy)]
pub struct Shown {
    /// Sites that pin free memory; 0: all.
    pub rows: usize,
    /// The allocator's settings, every part of RSS and the arenas, with an explanation of their terms.
    pub details: bool,
}

pub fn text(finding: &Finding, shown: Shown) -> String {
    let mut out = String::new();
    push_prose(&mut out, "", &title(finding));
    out.push('\n');
    pins::push_causes(&mut out, finding.causes.iter().map(|cause| cause.sentence.clone()));
    if let Some(Err(refusal)) = &finding.asked {
        push_prose(&mut out, "not asked: ", refusal);
    }
    for missing in [&finding.detached, &finding.early_ends].into_iter().flatten() {
        push_prose(&mut out, "not complete: ", missing);
    }
    let advice = finding.advice.iter().map(|advice| (String::new(), advice));
    pins::push_advice(&mut out, advice, shown.details);
    out.push('\n');
    if shown.details {
        push_terms(&mut out, "", &finding.rss.line(), 2);
    }
    out.push_str(&bar(finding));
    if shown.details {
        explain_details::push_details(&mut out, finding);
    }
    // If next to nothing is free, nothing is pinned that is worth a table.
    let free = finding.rss.term(Term::Free).value;
    let is_worth_it = shown.details || free > LEAST_SHARE * finding.rss.bytes as f64;
    if let Some(statistics) = finding.statistics.as_ref().ok().filter(|_| is_worth_it) {
        pins::push_pins(&mut out, finding, shown.rows);
        push_map(&mut out, &statistics.map);
    }
    if !shown.details {
        let more =
            "--details shows every part of RSS, the arenas, and the figures behind the advice";
        push_prose(&mut out, "", more);
    }
    cut_all(out.lines().map(str::to_owned))
}

/// `server (pid 4711): RSS 80.0 MiB, live growing by 6.00 MiB/h (±0.50 MiB); glibc 2.36 (…); 12.0 MiB (9.4%) left of the limit of 128 MiB of
/// cgroup /a`.
fn title(finding: &Finding) -> String {
    let rss = size(finding.rss.bytes);
    let mut title = format!("{} (pid {}): RSS {rss}", finding.name, finding.pid);
    let grows = finding.leaks.as_ref().and_then(|leaks| {
        let suspects = Some(leaks.bytes_per_hour()).filter(|_| !leaks.growing.is_empty());
        suspects.or(leaks.totals.live_per_hour)
    });
    if let Some(rate) = grows {
        let _ = write!(title, ", live growing by {}", format_per_hour(rate));
    }
    let allocators = &finding.allocators;
    let other = allocators.other.as_ref().map(|(_, found)| found);
    let is_of_glibc = finding.statistics.is_ok();
    let known =
        if is_of_glibc { allocators.glibc.as_ref() } else { other.or(allocators.glibc.as_ref()) };
    let is_known = !matches!(finding.statistics, Err(Missing::Denied { .. }));
    if let Some(collector) = &finding.go {
        let _ = write!(title, "; {}", collector.version);
    } else if let Some(found) = known.filter(|_| is_known) {
        let _ = write!(title, "; {}", found.name);
    }
    let hugetlb = finding.rss.explained.hugetlb;
    if hugetlb > 0 {
        let _ = write!(title, "; {} of huge pages (hugetlbfs) in addition to RSS", size(hugetlb));
    }
    if let Some(limit) = &finding.limit {
        let left = limit.left_bytes();
        let _ = write!(
            title,
            "; {} ({}) left of the limit of {} of cgroup {}",
            size(left),
            format_percent(left as f64, limit.limit_bytes as f64),
            size(limit.limit_bytes),
            limit.group,
        );
        let others = [
            (limit.shared_memory_bytes, "shared memory and tmpfs"),
            (limit.page_cache_bytes, "page cache, which the kernel takes back"),
        ];
        for (bytes, what) in others {
            if bytes as f64 >= OTHERS_SHARE * limit.used_bytes as f64 && bytes > 0 {
                let _ = write!(
                    title,
                    "; of the {} used, {} is {what}",
                    size(limit.used_bytes),
                    size(bytes)
                );
            }
        }
    }
    title
}

/// One character a share: live, free in the allocator, the program's mmaps, the largest other term, everything else.
fn bar(finding: &Finding) -> String {
    let columns = columns().unwrap_or(USUAL_COLUMNS).min(USUAL_COLUMNS);
    let is_held =
        finding.rss.term(Term::Free).value == 0.0 && finding.rss.term(Term::Held).value > 0.0;
    let free = if is_held { Term::Held } else { Term::Free };
    let mut kinds = vec![('█', Term::Live), ('░', free), ('▒', Term::Mmap)];
    let bytes = |term| finding.rss.term(term).value;
    let others = Term::ALL.map(|(term, _)| term);
    let others = others.into_iter().filter(|term| kinds.iter().all(|(_, kind)| kind != term));
    kinds.extend(others.max_by(|&a, &b| bytes(a).total_cmp(&bytes(b))).map(|term| ('▓', term)));
    let rss = finding.rss.bytes.max(1) as f64;
    let cells =
        |term| (finding.rss.term(term).value.max(0.0) / rss * columns as f64).round() as usize;
    let shares = kinds.iter().flat_map(|&(c, term)| vec![c; cells(term)]);
    let bar: String = shares.chain(std::iter::repeat('·')).take(columns).collect();
    let shown = kinds.iter().filter(|&&(_, term)| cells(term) > 0);
    let text = |&(c, term): &(char, Term)| {
        // What is live is the same figure as above the bar.
        let live = finding.live.filter(|_| term == Term::Live && finding.rss.is_live_resident());
        let bytes = live.map_or_else(
            || format_bytes(bytes(term)),
            |live| format_amount(live, SampleUnit::Bytes),
        );
        format!("{c} {} {bytes}", finding.rss.word(term))
    };
    let shown: Vec<&(char, Term)> = shown.collect();
    let rest = finding.rss.bytes as f64 - shown.iter().map(|(_, term)| bytes(*term)).sum::<f64>();
    let rest = format!("· everything else {}", format_bytes(rest.max(0.0)));
    let legend: Vec<String> = shown.into_iter().map(text).chain([rest]).collect();
    let mut out = format!("{bar}\n");
    push_terms(&mut out, "", &legend.join("  "), 0);
    out
}

/// The heap by address: how much of each part is free.
fn push_map(out: &mut String, map: &HeapMap) {
    let all: u64 = map.cells.iter().map(|cell| cell.bytes).sum();
    if all == 0 {
        return;
    }
    let columns = columns().unwrap_or(USUAL_COLUMNS).max(1);
    let together = map.cells.len().div_ceil(columns * MOST_MAP_LINES).max(1);
    let parts: Vec<char> = map.cells.chunks(together).map(character).collect();
    let legend = format!(
        "one character per {} of addresses:",
        size((map.cell_bytes * together as u64).min(all)),
    );
    out.push('\n');
    push_prose(out, "heap map, ", &legend);
    let shades =
        "█ live (at most 10% free)  ▓ at most half free  ▒ at most 90% free  ░ free  · not in RSS";
    push_prose(out, "", shades);
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
