//! A series as a picture of characters: live bytes as bars of blocks, above them what the allocator has free and the rest of RSS, marks below.

use super::cut;
use ramson_analysis::timeline::{Mark, Point};
use ramson_profile::format::{format_bytes, format_local_time};
use std::fmt::Write;

/// Lines of the picture; each shows eight levels of live bytes.
const HEIGHT: usize = 8;
/// Columns of the numbers at the left, with the line after them.
const MARGIN: usize = 11;
const LEAST_WIDTH: usize = 20;
const MOST_WIDTH: usize = 200;
/// Live bytes of a part of a line, in eighths.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const FREE: char = '▒';
const REST: char = '░';
/// Marks whose names are written out.
const MOST_NAMES: usize = 5;

/// Values that a column shows, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bar {
    live: f64,
    /// Live and free.
    taken: f64,
    rss: f64,
}

/// The picture, `columns` wide, with what free memory is called; `None` of less than two moments or of nothing.
pub fn chart(curve: &[Point], marks: &[Mark], free: &str, columns: usize) -> Option<String> {
    let (first, last) = (curve.first()?.time_unix_ns, curve.last()?.time_unix_ns);
    let width = columns.saturating_sub(MARGIN).clamp(LEAST_WIDTH, MOST_WIDTH);
    let bars = bars(curve, width);
    let highest = bars.iter().flatten().map(|bar| bar.live.max(bar.rss)).fold(0.0, f64::max);
    if first == last || highest <= 0.0 {
        return None;
    }
    let mut out = String::new();
    for line in (0..HEIGHT).rev() {
        let label = match line {
            _ if line + 1 == HEIGHT => format_bytes(highest),
            _ if 2 * line == HEIGHT => format_bytes(highest / 2.0),
            _ => String::new(),
        };
        let letters = bars.iter().map(|bar| bar.map_or(' ', |bar| bar.letter(line, highest)));
        let text: String = letters.collect();
        let _ = writeln!(out, "{label:>9} │{}", text.trim_end());
    }
    let _ = writeln!(out, "{:>9} └{}", "0 B", axis(marks, first, last, width));
    let times = [first, last].map(format_local_time);
    let is_wide = times.iter().map(|time| time.chars().count()).sum::<usize>() < width;
    let time = |time: &String| time.split('T').next_back().unwrap_or_default().to_owned();
    let [from, to] = if is_wide { times } else { times.each_ref().map(time) };
    let room = (width + 1).saturating_sub(from.chars().count());
    let _ = writeln!(out, "{:10}{from}{to:>room$}", "");
    let has_free = curve.iter().any(|point| point.free.is_some());
    let free = if has_free { format!("  {FREE} {free} the allocator") } else { String::new() };
    let legend = format!("{:10}█ live{free}  ░ the rest of RSS{}", "", names(marks));
    let _ = writeln!(out, "{}", cut(&legend, Some(columns.max(MARGIN + LEAST_WIDTH))));
    Some(out)
}

/// A value for each column: the largest of its moments, else that of the moment before, except where snapshots are missing.
fn bars(curve: &[Point], width: usize) -> Vec<Option<Bar>> {
    let mut bars: Vec<Option<Bar>> = vec![None; width];
    let ends = curve.first().zip(curve.last());
    let ends = ends.map_or((0, 0), |(first, last)| (first.time_unix_ns, last.time_unix_ns));
    let mut before: Option<(usize, Bar)> = None;
    let mut free = None;
    for point in curve {
        // It is not read each time.
        free = point.free.or(free.filter(|_| !point.is_after_gap));
        let column = column_of(point.time_unix_ns, ends, width);
        let rss = point.rss.unwrap_or(0) as f64;
        let taken = (point.live + free.unwrap_or(0.0)).min(rss);
        let bar = Bar { live: point.live, taken, rss };
        if let Some((from, bar)) = before.filter(|_| !point.is_after_gap) {
            bars[from..column].iter_mut().for_each(|empty| *empty = empty.or(Some(bar)));
        }
        let there = bars[column].unwrap_or_default();
        let most = Bar {
            live: bar.live.max(there.live),
            taken: bar.taken.max(there.taken),
            rss: bar.rss.max(there.rss),
        };
        bars[column] = Some(most);
        before = Some((column, bar));
    }
    bars
}

fn column_of(time_ns: u64, (first, last): (u64, u64), width: usize) -> usize {
    let share = time_ns.saturating_sub(first) as f64 / (last - first).max(1) as f64;
    ((share * width as f64) as usize).min(width - 1)
}

impl Bar {
    /// Character that a line shows of this bar; the lowest line is 0.
    fn letter(self, line: usize, highest: f64) -> char {
        let lines = |bytes: f64| bytes / highest * HEIGHT as f64 - line as f64;
        let eighths = (lines(self.live) * 8.0).round().clamp(0.0, 8.0) as usize;
        match EIGHTHS[eighths] {
            ' ' if lines(self.taken) >= 0.5 => FREE,
            ' ' if lines(self.rss) >= 0.5 => REST,
            block => block,
        }
    }
}

fn axis(marks: &[Mark], first: u64, last: u64, width: usize) -> String {
    let mut axis = vec!['─'; width];
    for mark in marks {
        axis[column_of(mark.time_unix_ns, (first, last), width)] = '▲';
    }
    axis.into_iter().collect()
}

/// `  ▲ deploy, rollback`
fn names(marks: &[Mark]) -> String {
    let names: Vec<&str> = marks.iter().take(MOST_NAMES).map(|mark| mark.name.as_str()).collect();
    match marks.len() {
        0 => String::new(),
        count if count > names.len() => format!("  ▲ {}, …", names.join(", ")),
        _ => format!("  ▲ {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;

    fn point(second: u64, live: f64, rss: f64) -> Point {
        let time_unix_ns = 1_800_000_000_000_000_000 + second * 1_000_000_000;
        let rss = Some((rss * MIB) as u64);
        Point { time_unix_ns, rss, live: live * MIB, free: None, is_after_gap: false }
    }

    #[test]
    fn bars_and_marks_are_placed() {
        let curve: Vec<Point> =
            (0..=20).map(|at| point(at, at as f64 * 2.0, 20.0 + at as f64 * 3.0)).collect();
        let time_unix_ns = curve[10].time_unix_ns;
        let marks = [Mark { name: "deploy".into(), time_unix_ns }];
        let text = chart(&curve, &marks, "free in", 31).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            " 80.0 MiB │                   ░",
            "          │               ░░░░░",
            "          │            ░░░░░░░░",
            " 40.0 MiB │         ░░░░░░░░░░░",
            "          │     ░░░░░░░░░░░▂▃▅█",
            "          │  ░░░░░░░░░▂▃▅▆█████",
            "          │░░░░░░▂▃▅▆██████████",
            "          │░▂▃▅▆███████████████",
            "      0 B └──────────▲─────────",
        ];
        assert_eq!(lines[..9], expected);
        assert!(text.lines().all(|line| line.chars().count() <= 31), "{text}");
    }

    #[test]
    fn free_is_drawn_where_known() {
        let mut curve = [point(0, 20.0, 80.0), point(10, 20.0, 80.0)];
        let unknown = chart(&curve, &[], "free in", 80).unwrap();
        assert!(!unknown.contains('▒') && unknown.contains("█ live  ░ the rest"), "{unknown}");
        curve.iter_mut().for_each(|point| point.free = Some(30.0 * MIB));
        let text = chart(&curve, &[], "free in", 60).unwrap();
        let first = |line: &str| line.chars().nth(MARGIN).unwrap_or(' ');
        let column: String = text.lines().take(HEIGHT).map(first).collect();
        assert_eq!(column, "░░░▒▒▒██");
        assert!(text.contains("█ live  ▒ free in the allocator  ░ the rest of RSS"), "{text}");
    }

    #[test]
    fn missing_snapshots_are_a_gap() {
        let mut curve = vec![point(0, 8.0, 8.0), point(10, 8.0, 8.0)];
        let is_there = |curve: &[Point]| bars(curve, 20).iter().filter(|bar| bar.is_some()).count();
        assert_eq!(is_there(&curve), 20);
        curve[1].is_after_gap = true;
        assert_eq!(is_there(&curve), 2);
    }

    #[test]
    fn single_moment_has_no_chart() {
        let of = |curve: &[Point]| chart(curve, &[], "free in", 80);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[point(1, 1.0, 1.0)]), None);
        assert_eq!(of(&[point(1, 0.0, 0.0), point(2, 0.0, 0.0)]), None);
    }
}
