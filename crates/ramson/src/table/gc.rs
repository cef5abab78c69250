//! A Go program's collections as text: the answer, the stacks that make the collector work, and the last collections.

use super::stacks::names;
use super::{Table, most, or_dash, percent, push_prose, push_rest, size};
use ramson_analysis::gc::{Collection, Gc};
use ramson_analysis::stack_table::StackTable;
use ramson_profile::format::{format_amount, format_bytes, format_duration, format_error};
use ramson_profile::{Estimate, SampleUnit, printable, short_name};

/// The largest stack is named in the answer if it has this share.
const LARGE_SHARE: f64 = 0.1;
/// From this share on, the others are not worth a word.
const NEARLY_ALL: f64 = 0.995;
/// Columns of a bar.
const BAR: usize = 20;

pub fn text(gc: &Gc, rows: usize) -> String {
    head(gc) + &rest(gc, rows)
}

/// The answer.
pub fn head(gc: &Gc) -> String {
    let mut out = String::new();
    push_prose(&mut out, "", &answer(gc));
    if let Some(line) = heap(gc) {
        push_prose(&mut out, "", &line);
    }
    if gc.bad_lines > 0 {
        let lines = if gc.bad_lines == 1 { "line" } else { "lines" };
        push_prose(
            &mut out,
            "",
            &format!("{} {lines} about collections could not be read", gc.bad_lines),
        );
    }
    out
}

/// The stacks and the last collections, at most so many rows of each.
pub fn rest(gc: &Gc, rows: usize) -> String {
    let mut out = String::new();
    match (&gc.allocated, &gc.no_stacks) {
        (Some(table), _) => push_stacks(&mut out, gc, table, rows),
        (None, Some(why)) => {
            push_prose(&mut out, "", &format!("which stacks allocate is not known: {why}"))
        }
        (None, None) => {}
    }
    push_collections(&mut out, gc, rows);
    out
}

/// `server (pid 4711), go1.26.8: 10.8 collections a minute (2 in 11 s), 4.1 of them due to main.open, which allocates 38% (±3.0%) of all`.
fn answer(gc: &Gc) -> String {
    let mut line = printable(&gc.origin).into_owned();
    if let Some(pid) = gc.pid {
        line += &format!(" (pid {pid})");
    }
    if let Some(collector) = &gc.collector {
        line += &format!(", {}", collector.version);
    }
    let window = format_duration((gc.seconds * 1e9) as u64);
    if gc.collections.is_empty() {
        let last = match gc.last_ago_ns() {
            Some(ago) => format!("the last one ended {} ago", format_duration(ago)),
            None => "and none before".into(),
        };
        return format!("{line}: no collection in {window}; {last}");
    }
    let count = gc.collections.len();
    let often = if gc.seconds > 0.0 {
        format!("{} collections a minute ({count} in {window})", number(gc.per_minute()))
    } else {
        format!("{count} collection")
    };
    line += &format!(": {often}");
    let largest = gc.allocated.as_ref().zip(gc.largest.as_ref()).and_then(|(table, largest)| {
        let share = share(largest.value, table.total);
        let of = number(share.value * gc.per_minute());
        let name = short_name(&largest.function.name);
        (share.value >= LARGE_SHARE)
            .then(|| format!(", {of} of them due to {name}, which allocates {}", share_text(share)))
    });
    line + &largest.unwrap_or_default()
}

/// `40.1 MiB live after the last collection; 80.2 MiB before it; goal 82.0 MiB; GOGC=100; median pause 0.1 ms, longest 0.3 ms; …`.
fn heap(gc: &Gc) -> Option<String> {
    let last = |of: fn(&Collection) -> Option<u64>| gc.collections.iter().rev().find_map(of);
    let mut parts = Vec::new();
    if let Some(live) = last(|one| one.live_bytes) {
        parts.push(format!("{} live after the last collection", size(live)));
    }
    if let Some(before) = last(|one| one.before_bytes) {
        parts.push(format!("{} before it", size(before)));
    }
    let settings = gc.collector.as_ref().map(|collector| {
        let percent = collector.percent;
        let gogc = if percent < 0 { "GOGC=off".into() } else { format!("GOGC={percent}") };
        let limit =
            collector.limit.map_or(String::new(), |limit| format!(", GOMEMLIMIT {}", size(limit)));
        gogc + &limit
    });
    if let Some(goal) = last(|one| one.goal_bytes) {
        parts.push(format!("goal {}", size(goal)));
    }
    parts.extend(settings);
    if let Some(released) = last(|one| one.released_bytes).filter(|&bytes| bytes > 0) {
        parts.push(format!("{} returned to the kernel", size(released)));
    }
    if let Some(assist) = assist(gc) {
        parts.push(assist);
    }
    if let Some((middle, longest)) = gc.pauses_ns() {
        let [middle, longest] = [middle, longest].map(pause);
        parts.push(format!("median pause {middle}, longest {longest}"));
    }
    if let Some(share) = gc.cpu_share {
        // A trace has whole percents.
        let is_whole = gc.pid.is_none();
        let share = if is_whole { format!("{:.0}%", share * 100.0) } else { percent(share, 1.0) };
        parts.push(format!("collector {share} of the available CPU time since the start"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// `assist 1.20 ms of CPU time in each collection`.
fn assist(gc: &Gc) -> Option<String> {
    let known: Vec<u64> = gc.collections.iter().filter_map(|one| one.assist_ns).collect();
    let mean = known.iter().sum::<u64>() / (known.len().max(1) as u64);
    (mean > 0).then(|| format!("assist {} of CPU time in each collection", pause(mean)))
}

fn push_stacks(out: &mut String, gc: &Gc, table: &StackTable, rows: usize) {
    if table.rows.is_empty() {
        push_prose(out, "", "no allocation was sampled");
        return;
    }
    out.push('\n');
    let heads = "allocated/s:>11|share:>7|±:>8@60|collections/min:>15@80|allocated by";
    let mut lines = Table::new(out, heads);
    let room = lines.room();
    let seconds = gc.allocated_in_seconds.max(f64::MIN_POSITIVE);
    let shown = || table.rows.iter().take(most(rows));
    for row in shown() {
        let value = row.value;
        let a_second = Estimate::new(value.value / seconds, value.variance / (seconds * seconds));
        lines.row([
            format_amount(a_second, SampleUnit::Bytes),
            percent(value.value, table.total.value),
            format_error(value, SampleUnit::Bytes),
            number(share(value, table.total).value * gc.per_minute()),
            names(&row.frames, room),
        ]);
    }
    let rest = table.total.value - shown().map(|row| row.value.value).sum::<f64>();
    if rest > table.total.value / 1e6 {
        lines.line_across(&format!(
            "{:>11} {:>7}  in other stacks; -n 0 shows all",
            format_bytes(rest / seconds),
            percent(rest, table.total.value)
        ));
    }
}

fn push_collections(out: &mut String, gc: &Gc, rows: usize) {
    let count = gc.collections.len();
    if count == 0 {
        return;
    }
    out.push('\n');
    let shown = if rows == 0 { count } else { rows.min(count) };
    let last = &gc.collections[count - shown..];
    let largest = |one: &Collection| one.before_bytes.max(one.goal_bytes).max(one.live_bytes);
    let largest = last.iter().filter_map(largest).max();
    let end_ns = last.last().map_or(0, |one| one.end_ns);
    let heads = "collection:>10|before:>10|live:>10|goal:>10|pause:>8|earlier:>8@80|█ live ▒ collected · goal";
    let mut table = Table::new(out, heads);
    for one in last {
        let forced = if one.is_forced == Some(true) { "  forced" } else { "" };
        table.row([
            format!("#{}", one.number),
            or_dash(one.before_bytes.map(size)),
            or_dash(one.live_bytes.map(size)),
            or_dash(one.goal_bytes.map(size)),
            pause(one.pause_ns),
            format_duration(end_ns.saturating_sub(one.end_ns)),
            bar(one, largest.unwrap_or(0)) + forced,
        ]);
    }
    push_rest(out, count, shown, " collections");
}

/// The heap as one line.
fn bar(one: &Collection, largest: u64) -> String {
    let share = |bytes: u64| (bytes as f64 / largest.max(1) as f64).min(1.0);
    let cells = |bytes: u64| (share(bytes) * BAR as f64).round() as usize;
    let [live, before, goal] =
        [one.live_bytes, one.before_bytes, one.goal_bytes].map(|bytes| bytes.map_or(0, cells));
    let cell = |index: usize| match index {
        _ if index < live => '█',
        _ if index < before => '▒',
        _ => '·',
    };
    (0..live.max(before).max(goal)).map(cell).collect()
}

/// The part of a stack in all allocations, of which it is itself a part.
fn share(of: Estimate, all: Estimate) -> Estimate {
    let share = of.value / all.value.max(f64::MIN_POSITIVE);
    let others = (all.variance - of.variance).max(0.0);
    let variance = (1.0 - share).powi(2) * of.variance + share.powi(2) * others;
    Estimate::new(share, variance / all.value.max(f64::MIN_POSITIVE).powi(2))
}

/// `38% (±3.0%) of all`.
fn share_text(share: Estimate) -> String {
    if share.value > NEARLY_ALL {
        return "nearly all".into();
    }
    let half_width = share.half_width_95() * 100.0;
    format!("{:.0}% (±{half_width:.1}%) of all", share.value * 100.0)
}

/// `0.12 ms`, also of less than a millisecond.
fn pause(ns: u64) -> String {
    match ns {
        ..10_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format_duration(ns),
    }
}

/// `4.1`, `10.8`, `120`.
fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_has_the_interval_of_a_part_of_the_whole() {
        let share = share(Estimate::new(40.0, 16.0), Estimate::new(100.0, 52.0));
        assert!((share.value - 0.4).abs() < 1e-9);
        // (0.6² · 16 + 0.4² · 36) / 100².
        assert!((share.variance - (5.76 + 5.76) / 1e4).abs() < 1e-9);
        assert_eq!(share_text(share), "40% (±6.7%) of all");
        assert_eq!(share_text(Estimate::exact(1.0)), "nearly all");
    }

    #[test]
    fn bar_has_live_collected_and_goal() {
        let one = Collection {
            live_bytes: Some(10),
            before_bytes: Some(15),
            goal_bytes: Some(20),
            ..Collection::default()
        };
        assert_eq!(bar(&one, 20), "██████████▒▒▒▒▒·····");
        assert_eq!(bar(&Collection::default(), 0), "");
        assert_eq!(bar(&Collection { live_bytes: Some(10), ..one }, 5).chars().count(), BAR);
    }
}
