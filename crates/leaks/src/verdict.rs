//! The verdict on one stack, in words, with the evidence that it rests on.

use crate::growth::Growth;
use crate::history::{Ages, StackHistory};
use crate::persistence::Persistence;
use crate::survival::Survival;
use ramson_profile::format::format_duration;
use ramson_profile::{Estimate, SampleUnit};
use serde::Serialize;
use std::fmt;

/// Built once: this share of the live samples …
const BUILT_SHARE: f64 = 0.9;
/// … was allocated in a time, since when this many times as long passed.
const QUIET_TIMES: u64 = 2;
/// With fewer samples that says nothing by itself. (1/3)^10 is the chance for a steady leak.
const LEAST_BUILT: usize = 10;
/// A few samples will do if they are all from this first part of the recording.
const START_SHARE: u64 = 10;
const LEAST_AT_START: usize = 3;

/// What a stack's memory seems to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// What grew old is kept, and becomes more.
    Growing,
    /// It is freed or replaced, or has stopped to grow, but late.
    Plateau,
    /// Built once; nothing was added since.
    StartUp,
    /// Freed soon.
    Churn,
    /// Too few samples, or too little time.
    NotEnoughData,
}

/// How to judge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// What lives for less on average is churn; nothing observed for less is judged.
    pub min_age_ns: u64,
    /// How many stacks are judged together.
    pub stacks: usize,
}

/// The verdict on one stack, and its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// In one word.
    pub verdict: Verdict,
    /// Why, as a clause.
    pub reason: String,
    /// Live bytes.
    pub inuse_space: Estimate,
    /// Live objects.
    pub inuse_objects: Estimate,
    /// Live samples, raw.
    pub samples: u64,
    /// How old the live bytes are.
    pub ages: Option<Ages>,
    /// The survival curve; `None` where nothing was recorded.
    pub survival: Option<Survival>,
    /// What became of the settled; `None` if observed for too short a time.
    pub persistence: Option<Persistence>,
    /// Per hour; `None` if observed for too short a time.
    pub growth: Option<Growth>,
}

impl Verdict {
    /// All, worst first.
    pub const ALL: [Verdict; 5] = [
        Verdict::Growing,
        Verdict::Plateau,
        Verdict::StartUp,
        Verdict::Churn,
        Verdict::NotEnoughData,
    ];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Growing => "growing without bound",
            Verdict::Plateau => "cache or pool (plateau)",
            Verdict::StartUp => "start-up",
            Verdict::Churn => "churn",
            Verdict::NotEnoughData => "not enough data yet",
        })
    }
}

/// Judges one stack.
pub fn judge(history: &StackHistory, settings: &Settings) -> Finding {
    let persistence = Persistence::of(history, settings.min_age_ns);
    let growth = persistence.and_then(|seen| Growth::of(history, &seen, settings.stacks));
    let (verdict, reason) = verdict(history, persistence.as_ref(), growth.as_ref(), settings);
    Finding {
        verdict,
        reason,
        inuse_space: history.inuse(SampleUnit::Bytes),
        inuse_objects: history.inuse(SampleUnit::Objects),
        samples: history.live.len() as u64,
        ages: history.ages(),
        survival: Survival::of(history),
        persistence,
        growth,
    }
}

fn verdict(
    history: &StackHistory,
    persistence: Option<&Persistence>,
    growth: Option<&Growth>,
    settings: &Settings,
) -> (Verdict, String) {
    let Some(seen) = persistence else {
        let reason = format!(
            "first seen {} ago; nothing is judged before {}",
            format_duration(history.observed_ns()),
            format_duration(settings.min_age_ns)
        );
        return (Verdict::NotEnoughData, reason);
    };
    if seen.shows_growth() {
        return match growth.filter(|growth| is_contradiction(growth, history, seen, settings)) {
            Some(growth) => (
                Verdict::Plateau,
                format!("did not grow in the last {}", format_duration(growth.window_ns)),
            ),
            None => (Verdict::Growing, growing(history, seen)),
        };
    }
    if let Some(reason) = built_once(history, settings) {
        return (Verdict::StartUp, reason);
    }
    let freed = history.freed_samples();
    let mean_ns = history.mean_lifetime_ns() as u64;
    let is_turned_over = freed >= history.live.len() as u64;
    if is_turned_over && mean_ns < settings.min_age_ns {
        return (Verdict::Churn, format!("a byte lives {} on average", format_duration(mean_ns)));
    }
    if is_turned_over {
        return (
            Verdict::Plateau,
            format!("freed or replaced after {} on average", format_duration(mean_ns)),
        );
    }
    if seen.is_scarce() {
        return (Verdict::NotEnoughData, scarce(seen));
    }
    if !seen.is_steady {
        return (Verdict::Plateau, "grows less than it did, or not any more".into());
    }
    let reached = seen.kept + seen.freed;
    let reason = format!(
        "of {reached} samples that became older than {}, {} were freed",
        format_duration(seen.settled_ns),
        seen.freed
    );
    (Verdict::Plateau, reason)
}

/// As much as they say all the same.
fn scarce(seen: &Persistence) -> String {
    let (reached, settled) = (seen.kept + seen.freed, format_duration(seen.settled_ns));
    match (reached, seen.freed) {
        (0, _) => format!("none of its samples became older than {settled}"),
        (_, 0) => format!(
            "{reached} of its samples became older than {settled}, none was freed: {} would tell a leak",
            seen.least_kept()
        ),
        _ => format!(
            "{reached} of its samples became older than {settled}, {} were freed: too few",
            seen.freed
        ),
    }
}

fn growing(history: &StackHistory, seen: &Persistence) -> String {
    if history.freed_samples() == 0 {
        return format!(
            "none of its samples was ever freed in {}; a cache that still fills looks the same",
            format_duration(seen.horizon_ns)
        );
    }
    format!(
        "of {} samples that became older than {}, {} were freed; it became more all through the last {}",
        seen.kept + seen.freed,
        format_duration(seen.settled_ns),
        if seen.freed == 0 { "none".into() } else { seen.freed.to_string() },
        format_duration(seen.horizon_ns)
    )
}

/// Two snapshots show far less growth than the ages promise.
fn is_contradiction(
    growth: &Growth,
    history: &StackHistory,
    seen: &Persistence,
    settings: &Settings,
) -> bool {
    let promised = Growth::of_kept(history, seen, settings.stacks);
    growth.is_measured
        && promised.is_some_and(|promised| growth.interval().1 < promised.interval().0 / 2.0)
}

/// Nearly all that is live came in one go, long ago.
fn built_once(history: &StackHistory, settings: &Settings) -> Option<String> {
    let mut times: Vec<u64> = history.live.iter().map(|block| block.time_ns).collect();
    times.sort_unstable();
    let first = *times.first()?;
    let built =
        times[((times.len() as f64 * BUILT_SHARE).ceil() as usize).clamp(1, times.len()) - 1];
    let quiet_ns = history.now_ns.saturating_sub(built);
    let recorded_ns = history.now_ns.saturating_sub(history.start_ns);
    let is_quiet = quiet_ns >= settings.min_age_ns && quiet_ns / QUIET_TIMES >= built - first;
    let is_at_start = quiet_ns >= recorded_ns / START_SHARE * (START_SHARE - 1);
    let is_enough = times.len() >= LEAST_BUILT || is_at_start && times.len() >= LEAST_AT_START;
    (is_quiet && is_enough).then(|| {
        format!(
            "built within {}, hardly anything added in the last {}",
            format_duration(built - first),
            format_duration(quiet_ns)
        )
    })
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
