//! The first lines of a report: the RSS line, what the profile is of, and what it does not hold.

use super::{Table, command, or_dash, push_prose, push_terms, size};
use ramson_analysis::MmapSums;
use ramson_analysis::members::{Row, RowGrowth, Sum, unprofiled_text};
use ramson_analysis::report::Report;
use ramson_analysis::rss::{Rss, live_text};
use ramson_analysis::summary::{ForeignSummary, Subject, Summary};
use ramson_process::clock::unix_ns;
use ramson_profile::format::{
    format_bytes, format_duration, format_estimate, format_local_time, format_objects,
    format_relative_error,
};
use ramson_profile::{SampleType, SampleUnit, printable};
use ramson_source::Past;
use std::fmt::Write;

/// A Go program that was looked at for a shorter time was looked at once.
const LEAST_FOLLOWED_NS: u64 = 500_000_000;
/// Memory that the program mapped itself is pointed at from this share of RSS on.
const LEAST_MMAP_SHARE: f64 = 0.1;
/// Processes that get a line.
const MOST_ROWS: usize = 20;

/// How much a heading says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// RSS and live memory.
    Totals,
    /// The largest terms of RSS.
    Terms,
    /// Every term of RSS, and how the process was sampled.
    All,
}

/// With an empty line at the end. The defects of each of several are in its own heading.
pub fn heading(subject: &Subject, defects: &[String], detail: Detail) -> String {
    let mut out = match subject {
        Subject::Recording(summary) => of_recording(summary, detail),
        Subject::Foreign(summary) => of_foreign(summary),
        Subject::Sum(sum) => return of_sum(sum, detail == Detail::All),
    };
    defects.iter().for_each(|defect| push_prose(&mut out, "not complete: ", defect));
    out.push('\n');
    out
}

fn of_sum(sum: &Sum, has_details: bool) -> String {
    let live = live_text(sum.live);
    let running = sum.rows.iter().filter(|row| row.age_ns.is_some()).count();
    let all = match sum.past_unix_ns {
        Some(time_ns) => format!("at {}", format_local_time(time_ns)),
        None => "in all".into(),
    };
    let mut out = String::new();
    if let Some(rss) = &sum.rss {
        push_prose(&mut out, "", &really_used(rss, running));
    }
    let first = match (&sum.rss, sum.rss_bytes) {
        (Some(rss), _) if has_details => rss.line(),
        (Some(rss), _) => rss.short_line(),
        (None, Some(bytes)) => format!("RSS {} {all}; live {live}", size(bytes)),
        (None, None) => format!("RSS not known; live {live}"),
    };
    push_terms(&mut out, "", &first, 2);
    let of_running = if running == 0 {
        String::new()
    } else if running == sum.rows.len() {
        " of running processes".into()
    } else {
        format!(", {running} of them of running processes; the RSS line is about these")
    };
    push_prose(&mut out, "", &format!("{} profiles{of_running}", sum.rows.len()));
    push_mmap(&mut out, &sum.mmap, sum.live.value, false);
    if let Some(missing) = unprofiled_text(sum.unprofiled) {
        push_prose(&mut out, "not complete: ", &missing);
    }
    out.push('\n');
    push_rows(&mut out, &sum.rows);
    out.push('\n');
    out
}

/// What several processes use together, and what the sum of their RSS makes of it.
pub fn really_used(rss: &Rss, count: usize) -> String {
    format!(
        "{count} processes use {} together (Pss); the sum of their RSS, {}, counts shared pages once for each process",
        size(rss.pss),
        size(rss.bytes)
    )
}

/// The column of what grows, if any of them does.
pub fn growth_column<'a>(mut rows: impl Iterator<Item = &'a Row>) -> &'static str {
    if rows.any(|row| row.growth.live_per_hour.is_some()) { "|grows by:>12@80" } else { "" }
}

/// `12.0 MiB/h`, `–` if it does not grow, `?` if that is not known yet.
pub fn growth_of(growth: RowGrowth) -> String {
    match growth.live_per_hour {
        None if growth.is_undecided => "?".into(),
        rate => or_dash(rate.map(|rate| format!("{}/h", format_bytes(rate.value)))),
    }
}

/// Says what `?` is, if it is shown.
pub fn push_growth_legend<'a>(
    table: &mut Table,
    growth: &str,
    mut rows: impl Iterator<Item = &'a Row>,
) {
    if !growth.is_empty() && rows.any(|row| row.growth.is_undecided) {
        table.line_across("?: not known yet whether it grows");
    }
}

fn push_rows(out: &mut String, rows: &[Row]) {
    let growth = growth_column(rows.iter());
    let heads = format!("pid:>10|private:>10|RSS:>10|live:>10|±:>8@70{growth}|age:>10@100|command");
    let mut table = Table::new(out, &heads);
    for row in rows.iter().take(MOST_ROWS) {
        let first = [
            or_dash(row.pid.map(|pid| pid.to_string())),
            or_dash(row.private.map(size)),
            or_dash(row.rss.map(size)),
            or_dash(row.live.map(|live| format_bytes(live.value))),
            or_dash(row.live.map(format_relative_error)),
        ];
        let growth = (!growth.is_empty()).then(|| growth_of(row.growth));
        let last = [or_dash(row.age_ns.map(format_duration)), command(row)];
        table.row(first.into_iter().chain(growth).chain(last));
    }
    if rows.len() > MOST_ROWS {
        table.line_across(&format!("{:>10} more; --json has all", rows.len() - MOST_ROWS));
    }
    push_growth_legend(&mut table, growth, rows.iter());
}

fn of_recording(summary: &Summary, detail: Detail) -> String {
    let has_details = detail == Detail::All;
    let live = live_text(summary.live);
    let figures = match (&summary.history, &summary.rss, summary.is_running) {
        (Some(past), ..) => past_line(past, &live),
        (None, Some(rss), _) if summary.has_go && detail != Detail::Totals => {
            let line = if has_details { rss.line() } else { rss.short_line() };
            let what = match summary.is_of_go {
                true if summary.live.value > rss.bytes as f64 => {
                    ", not all of it resident: what was never written to is not"
                }
                true => "",
                false => " in both",
            };
            format!("{line}; live {live}{what}")
        }
        (None, Some(rss), _) if has_details => rss.line(),
        (None, Some(rss), _) if detail == Detail::Totals => {
            format!("RSS {}, live {live}", size(rss.bytes))
        }
        (None, Some(rss), _) => rss.short_line(),
        (None, None, true) => format!("RSS not readable; live {live}"),
        (None, None, false) => summary.rss_and_live.clone(),
    };
    let profiled = format_duration(summary.profiled_ns);
    let fate = match (&summary.history, summary.is_running) {
        (Some(past), _) => past_fate(past, &format_duration(summary.known_ns)),
        (None, true) if summary.is_attached_again && !summary.is_of_go => {
            let first = format_duration(summary.known_ns);
            format!("recorded for {profiled} (first {first} ago)")
        }
        (None, true) if summary.is_of_go => {
            let of = match summary.go_as_of_ago_ns {
                Some(ago_ns) => format!("of {} ago", format_duration(ago_ns)),
                None => "before the second collection".into(),
            };
            let is_new = summary.profiled_ns < LEAST_FOLLOWED_NS;
            let followed =
                if is_new { String::new() } else { format!(", followed for {profiled}") };
            format!("Go's own heap profile {of}{followed}")
        }
        (None, true) => format!("recorded for {profiled}"),
        (None, false) => summary.fate.clone(),
    };
    let pid = match summary.sum_of {
        None => format!(" (pid {})", summary.pid),
        Some(_) => String::new(),
    };
    let mut out = String::new();
    push_terms(&mut out, "", &format!("{}{pid}, {fate}: {figures}", summary.name), 2);
    if has_details {
        let (samples, live_samples) = summary.samples;
        let [samples, live_samples] = [samples as f64, live_samples as f64].map(format_objects);
        let line = format!("interval {}, {samples} samples, {live_samples} live", summary.interval);
        push_terms(&mut out, "", &line, 2);
    }
    if let Some(line) = summary.coverage.as_ref().and_then(|coverage| coverage.line()) {
        push_prose(&mut out, "", &line);
    }
    let rss = summary.rss.as_ref().map_or(0, |rss| rss.bytes);
    if has_details || summary.mmap.mapped.value >= LEAST_MMAP_SHARE * rss as f64 {
        push_mmap(&mut out, &summary.mmap, summary.live.value, summary.has_go);
    }
    out
}

/// Instead of a table that has no rows.
pub fn nothing_sampled(report: &Report) -> String {
    if report.kinds.is_mmap() {
        return "no mappings of 1 MiB or more".into();
    }
    let summary = match &report.subject {
        Subject::Recording(summary) => summary,
        Subject::Foreign(summary) if summary.stacks.0 == 0 => return "no stacks in it".into(),
        Subject::Foreign(summary) => {
            let has_allocated = summary.sample_types.contains(&SampleType::AllocSpace);
            let next =
                if has_allocated { ". --count allocated shows what was allocated" } else { "" };
            return format!("nothing in it is {}{next}", report.sample_type.word());
        }
        Subject::Sum(_) => return "nothing sampled yet".into(),
    };
    let ago = summary.ended_ago_ns.map(|ns| format!(" {} ago", format_duration(ns)));
    let Some(ago) = ago else { return "nothing sampled yet".into() };
    match summary.samples.0 {
        0 => format!("nothing was sampled; sampling ended{ago}"),
        samples => format!(
            "none of the {} samples is live; sampling ended{ago}. --count allocated shows what was allocated",
            format_objects(samples as f64)
        ),
    }
}

/// Nothing if the program maps nothing itself. Where that is more than what is live, both belong together.
fn push_mmap(out: &mut String, mmap: &MmapSums, live_bytes: f64, has_go: bool) {
    if mmap.extents == 0 && mmap.reserved.value == 0.0 {
        return;
    }
    let reserved = format_bytes(mmap.reserved.value);
    let mut line = match mmap.extents {
        // The mmap part of RSS is smaller mappings, or memory that was reserved and used since.
        0 => format!("no extents of 1 MiB or more; {reserved} reserved (mapped PROT_NONE)"),
        extents => format!(
            "mmap {} in {} extent{}, touched or not, {}: {}",
            format_bytes(mmap.mapped.value),
            format_objects(extents as f64),
            if extents == 1 { "" } else { "s" },
            if has_go { "Go's arenas among them" } else { "beside live" },
            if mmap.mapped.value > live_bytes && !has_go {
                "--kind all shows both"
            } else {
                "--kind mmap"
            },
        ),
    };
    if mmap.extents > 0 && mmap.reserved.value > 0.0 {
        line += &format!("; plus {reserved} reserved (mapped PROT_NONE)");
    }
    if !mmap.without_holes {
        line += "; holes that the program unmapped inside an extent still count";
    }
    push_prose(out, "", &line);
}

fn past_line(past: &Past, live: &str) -> String {
    let ago = format_duration(unix_ns().saturating_sub(past.time_ns));
    let rss = past.rss.map_or("unknown".into(), size);
    format!("RSS {rss} at {} ({ago} ago); live {live}", format_local_time(past.time_ns))
}

fn past_fate(past: &Past, profiled: &str) -> String {
    match past.from_ns {
        None => format!("as it was after {profiled}"),
        Some(from_ns) => format!(
            "allocated since {}; live as of {}",
            format_local_time(from_ns),
            format_local_time(past.time_ns)
        ),
    }
}

fn of_foreign(summary: &ForeignSummary) -> String {
    let mut out = format!("RSS not recorded in {} profiles", summary.format);
    if let Some(live) = summary.live {
        let _ = write!(out, "; live {}", format_estimate(live, SampleUnit::Bytes));
    }
    let _ = write!(out, "\n{}", printable(&summary.origin));
    if !summary.command.is_empty() {
        let _ = write!(out, " ({})", printable(&summary.command));
    }
    let _ = match summary.interval_bytes {
        // Some tell their variance all the same.
        0 if summary.live.is_some_and(|live| live.variance.is_finite()) => write!(out, ": sampled"),
        0 => write!(out, ": sampling unknown"),
        1 => write!(out, ": not sampled"),
        interval => write!(out, ": interval {}", size(interval)),
    };
    let (count, is_labelled) = summary.stacks;
    let stacks = if count == 1 { "stack" } else { "stacks" };
    let split = if is_labelled { " (split by label)" } else { "" };
    let _ = writeln!(out, ", {} {stacks}{split}", format_objects(count as f64));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_profile::Estimate;

    #[test]
    fn rows_show_growth_where_any_grows() {
        let row = |pid, live_per_hour| {
            let growth = RowGrowth::of(live_per_hour, None, pid == 9);
            Row { pid: Some(pid), growth, ..Row::default() }
        };
        let text = |rows: &[Row]| {
            let mut out = String::new();
            push_rows(&mut out, rows);
            out
        };
        let steady = text(&[row(7, None), row(8, None)]);
        assert!(!steady.contains("grows by"), "{steady}");
        let grown = text(&[row(7, None), row(8, Some(Estimate::exact(12_582_912.0)))]);
        let lines: Vec<&str> = grown.lines().collect();
        assert!(lines[0].contains("   grows by "), "{grown}");
        assert!(!lines[1].contains("/h") && lines[2].contains(" 12.0 MiB/h "), "{grown}");
        assert!(!grown.contains('?'), "{grown}");
        let young = text(&[row(9, None), row(8, Some(Estimate::exact(12_582_912.0)))]);
        let lines: Vec<&str> = young.lines().collect();
        assert!(lines[1].contains(" ? "), "{young}");
        assert_eq!(lines[3], "?: not known yet whether it grows");
    }
}
