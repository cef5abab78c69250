//! `ramson timeline`: what the history of a process has, moment by moment.

use crate::failure::Failure;
use crate::history::{self, Found, time_of, unreadable};
use crate::text;
use clap::Args;
use ramson_history::{Moment, Span, Triggers, When};
use ramson_profile::format::{
    format_bytes, format_duration, format_local_time, format_objects, format_relative_error,
};
use std::fmt::Write;

#[derive(Args)]
#[command(after_help = "\
Columns: RSS and live bytes of the moment, the 95 % interval of live in percent, what was allocated per second since the moment before,
live samples, and why the moment was kept. A line in parentheses says where there was no snapshot for more than twice its interval: the
recorder did not run, or was kept from taking one.

Examples:
  ramson timeline name:redis-server
  ramson timeline 4711@-2h..-1h --csv > series.csv
  ramson timeline history.db -n 0")]
pub struct TimelineOptions {
    /// A process ID, name:NAME, or a history; with a range as in SRC@-2h..-1h only that
    #[arg(value_name = "SRC")]
    pub source: String,
    /// Comma-separated values: every moment, bytes as integers
    #[arg(long)]
    pub csv: bool,
    /// Rows to show: those kept for a reason first, then evenly over time; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 40)]
    pub rows: usize,
}

pub fn timeline(options: &TimelineOptions) -> Result<(), Failure> {
    let (base, span) = history::split(&options.source);
    let (from, to) = match span {
        None => (When::At(0), When::Last),
        Some(Span::Range(from, to)) => (from, to),
        Some(Span::Moment(_)) => {
            return Err(Failure::usage(format!(
                "{}: one moment is no series. Pass a range as in {base}@-2h..-1h",
                options.source
            )));
        }
    };
    let found = history::find(base, &to)?;
    let from_ns = match &from {
        When::Ago(_) | When::At(_) => time_of(&from),
        _ => found.start_of(&options.source, &from)?,
    };
    let series = found.history.series(found.process.id, from_ns, found.moment.time_ns);
    let series = series.map_err(|error| unreadable(&found.path, &error))?;
    if series.is_empty() {
        return Err(Failure::usage(format!(
            "{}: the range ends before it begins. Exchange its ends",
            options.source
        )));
    }
    let out = if options.csv { csv(&series) } else { table(&found, &series, options.rows) };
    text::print(&out)
}

fn csv(series: &[Moment]) -> String {
    let mut out = String::from(
        "time_unix_ns,rss_bytes,live_bytes,live_half_width_95,live_samples,allocated_bytes,triggers\n",
    );
    for moment in series {
        let rss = moment.rss.map_or(String::new(), |rss| rss.to_string());
        let _ = writeln!(
            out,
            "{},{rss},{},{},{},{},{}",
            moment.time_ns,
            moment.live.value,
            moment.live.half_width_95().ceil(),
            moment.live_samples,
            moment.allocated,
            moment.triggers.to_string().replace(',', " "),
        );
    }
    out
}

fn table(found: &Found, series: &[Moment], rows: usize) -> String {
    let shown = chosen(series, rows);
    let mut out = format!(
        "{} (pid {}): {} moments in {}\n\n{:<19} {:>10} {:>10} {:>7} {:>12} {:>8}  why\n",
        found.process.name,
        found.process.pid,
        series.len(),
        found.path.display(),
        "time",
        "RSS",
        "live",
        "±",
        "allocated/s",
        "samples"
    );
    let mut before: Option<&Moment> = None;
    for moment in &shown {
        if let Some(gaps) = before.and_then(|before| gaps(series, before, moment)) {
            let _ = writeln!(out, "{}", text::cut(&gaps, text::columns()));
        }
        let rate = before.map_or("–".into(), |before| {
            let seconds = (moment.time_ns - before.time_ns) as f64 / 1e9;
            format_bytes(moment.allocated.saturating_sub(before.allocated) as f64 / seconds)
        });
        let line = format!(
            "{:<19} {:>10} {:>10} {:>7} {rate:>12} {:>8}  {}",
            format_local_time(moment.time_ns),
            moment.rss.map_or("–".into(), |rss| format_bytes(rss as f64)),
            format_bytes(moment.live.value),
            format_relative_error(moment.live),
            format_objects(moment.live_samples as f64),
            moment.triggers,
        );
        let _ = writeln!(out, "{}", text::cut(&line, text::columns()));
        before = Some(moment);
    }
    if shown.len() < series.len() {
        let _ = writeln!(out, "({} more moments; -n 0 shows all)", series.len() - shown.len());
    }
    out
}

/// Where the recorder took nothing between two moments, though it should have more than one interval before the next: it was kept from it, or did not run.
fn gaps(series: &[Moment], from: &Moment, to: &Moment) -> Option<String> {
    let part = series.iter().skip_while(|moment| moment.time_ns < from.time_ns);
    let part: Vec<&Moment> = part.take_while(|moment| moment.time_ns <= to.time_ns).collect();
    let (mut count, mut longest_ns) = (0, 0);
    let mut every_ns = from.every_ns;
    for pair in part.windows(2) {
        let away_ns = pair[1].time_ns - pair[0].time_ns;
        // A mark has no interval of its own, and where one level begins after another, the coarser one counts.
        every_ns = [pair[0], pair[1]]
            .map(|moment| moment.every_ns)
            .into_iter()
            .max()
            .filter(|&ns| ns > 0)
            .unwrap_or(every_ns);
        let slack_ns = (every_ns / 10).max(1_500_000_000);
        if every_ns > 0 && away_ns > every_ns.saturating_mul(2).saturating_add(slack_ns) {
            count += 1;
            longest_ns = longest_ns.max(away_ns);
        }
    }
    let longest = format_duration(longest_ns);
    match count {
        0 => None,
        1 => Some(format!("                    (no snapshot for {longest})")),
        _ => Some(format!("                    ({count} times no snapshot, for up to {longest})")),
    }
}

/// At most so many: marks and ends, and the others evenly over the series.
fn chosen(series: &[Moment], rows: usize) -> Vec<&Moment> {
    if rows == 0 || series.len() <= rows {
        return series.iter().collect();
    }
    let always = Triggers::MARK.and(Triggers::EXIT).and(Triggers::DEATH).and(Triggers::PRESSURE);
    let special = series.iter().filter(|moment| moment.triggers.has(always)).count().min(rows);
    let (mut special_left, even) = (special, rows - special);
    let mut is_shown = vec![false; series.len()];
    for row in 0..even {
        is_shown[row * (series.len() - 1) / (even - 1).max(1)] = true;
    }
    let shown = series.iter().zip(is_shown).filter(|(moment, is_shown)| {
        let is_special = special_left > 0 && !is_shown && moment.triggers.has(always);
        special_left -= usize::from(is_special);
        *is_shown || is_special
    });
    shown.map(|(moment, _)| moment).collect()
}
