//! The flags of `ramson leaks`, and the gate for CI.

use super::filters::{FilterFlags, FrameFlags};
use super::source::SourcesFlags;
use super::values::parse_size;
use clap::Args;
use ramson_analysis::question;
use ramson_analysis::suspects::{Answer, Suspects};
use ramson_leaks::Slope;
use ramson_profile::format::format_bytes;
use std::iter;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Each function of the program is one finding: leak suspect (old memory is kept, and more keeps coming), cache or pool, built once, short-lived, or not enough data yet. A suspect is evidence, not proof: a cache that is still filling looks like a leak. docs/explanation/leaks.md has the method, and how often it is right.

If RSS or live memory as a whole grows faster than the suspects, a line before the answer says so. To measure the growth of RSS, pass --window, or keep a history (ramson history). If there is no leak suspect, the answer says which leak would show by now: of what rate, if it began with the recording. A leak that began later needs more time, or a higher rate.

Exit status: 3 if a gate of --fail-on found a leak, 4 if \"unknown\" is among the gates and a leak may be hidden. Reasons: which blocks are live is not known, the recording is not older than --min-age, samples were lost, live memory as a whole grows but no single function does, functions with 1% of live memory or more cannot be judged yet, too few samples are live to find a leak, or a leak at the gate's rate would not show yet, even if it began with the recording.

Examples:
  ramson leaks redis-server
  ramson leaks 4711 --window 10m
  ramson mark 4711 deploy; sleep 3600; ramson leaks 4711 --since deploy --baseline deploy
  ramson leaks test.ramson --min-age 5s --suppressions known.txt --fail-on growing,unknown
  ramson leaks 4711 --show '^my::'        # judge functions of my:: only")]
pub struct LeaksFlags {
    #[command(flatten)]
    pub source: SourcesFlags,
    /// Memory that lives for less than this on average is short-lived; a function first seen more
    /// recently is not judged yet (ms, s, m, h or d)
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = question::time)]
    pub min_age: u64,
    /// Measure growth: read the profile, wait for this time (--min-age or longer), and read it again
    #[arg(long, value_name = "TIME", value_parser = question::time)]
    pub window: Option<u64>,
    /// Measure growth since a mark, or since a copy of the profile was made
    #[arg(long, value_name = "MARK|FILE", conflicts_with = "window")]
    pub since: Option<String>,
    /// Hide stacks that were growing already in this profile: a mark, or another process's profile
    #[arg(long, value_name = "MARK|FILE")]
    pub baseline: Option<String>,
    /// Hide stacks that match a line "leak:PATTERN" of FILE (LeakSanitizer's syntax)
    #[arg(long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
    /// Findings to show; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub rows: usize,
    /// Exit with 3 if there is a leak suspect (growing), or growth above a rate (10MiB/h). The rate is
    /// that of all suspects together, or with --window that of memory outside malloc. Exit with 4 if
    /// it is too early to tell (unknown). Separate several with commas
    #[arg(long, value_name = "GATE", value_parser = parse_gate, value_delimiter = ',')]
    pub fail_on: Vec<Gate>,
    #[command(flatten)]
    pub filters: FilterFlags,
    #[command(flatten)]
    pub frames: FrameFlags,
    /// Show the evidence for each finding, also for functions that are not suspects
    #[arg(short, long)]
    pub verbose: bool,
    /// For several processes, judge each by itself instead of all together
    #[arg(long)]
    pub each: bool,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// A finding that fails a run of CI.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    /// Any leak suspect.
    Growing,
    /// More than these bytes per hour, with the lower ends of the intervals.
    BytesPerHour(u64),
    /// There may be a leak that could not be found.
    Unknown,
}

/// What is said of goroutines that become more.
fn goroutines(found: &Suspects) -> Option<String> {
    let first = found.goroutines.first()?;
    Some(format!("goroutines become more: {} that {}", first.grown, first.place.phrase()))
}

impl Gate {
    /// The finding that tripped the gate.
    pub fn finding(&self, found: &Suspects) -> Option<String> {
        let count = found.growing().count();
        let at_least = found.growth_at_least();
        let suspects = if count == 1 { "suspect" } else { "suspects" };
        let finding =
            format!("{count} leak {suspects}, growing by {}/h or more", format_bytes(at_least));
        match *self {
            Gate::Growing if count == 0 => goroutines(found),
            Gate::Growing => Some(finding),
            Gate::BytesPerHour(most) => {
                let outside = outside_at_least(found);
                let finding = if outside > most as f64 {
                    format!("memory outside malloc grows by {}/h or more", format_bytes(outside))
                } else {
                    finding
                };
                (at_least.max(outside) > most as f64)
                    .then(|| format!("{finding}: more than {}/h", format_bytes(most as f64)))
            }
            Gate::Unknown => None,
        }
    }

    /// Whether a leak that trips it may be there and could not be found.
    pub fn cannot_tell(&self, found: &Suspects) -> bool {
        let Answer { cannot_tell, limit, .. } = &found.answer;
        let hides = |most: u64| limit.is_none_or(|limit| limit.bytes_per_hour > most as f64);
        cannot_tell.is_some() || matches!(*self, Gate::BytesPerHour(most) if hides(most))
    }
}

/// How fast memory that malloc does not know grows in one process, if that was measured: the lower end of the interval.
fn outside_at_least(found: &Suspects) -> f64 {
    let each = found.processes.iter().map(|each| &each.answer);
    let slopes = iter::once(found).chain(each).filter_map(|it| it.answer.totals.outside_malloc);
    let rates = slopes.filter(Slope::is_growth).map(|slope| slope.bytes_per_hour);
    rates.map(|rate| rate.value - rate.half_width_95()).fold(0.0, f64::max)
}

fn parse_gate(text: &str) -> Result<Gate, String> {
    match text {
        "growing" => return Ok(Gate::Growing),
        "unknown" => return Ok(Gate::Unknown),
        _ => {}
    }
    let size = text.strip_suffix("/h").and_then(parse_size);
    size.map(Gate::BytesPerHour)
        .ok_or_else(|| "growing, unknown, or a size per hour as in 10MiB/h".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_is_verdict_or_rate() {
        assert_eq!(parse_gate("growing"), Ok(Gate::Growing));
        assert_eq!(parse_gate("unknown"), Ok(Gate::Unknown));
        assert_eq!(parse_gate("10MiB/h"), Ok(Gate::BytesPerHour(10 << 20)));
        for wrong in ["", "churn", "10MiB", "/h", "5%/h"] {
            assert!(parse_gate(wrong).is_err(), "{wrong}");
        }
    }
}
