//! The verdict on one stack, in words, with the evidence that it rests on.

use crate::bursts::LEAST_SAMPLES;
use crate::growth::Growth;
use crate::history::{Ages, StackHistory};
use crate::lasting::Lasting;
use crate::paused::Paused;
use crate::persistence::Persistence;
use crate::survival::Survival;
use ramson_profile::format::{format_bytes, format_duration};
use ramson_profile::{Estimate, SampleUnit};
use serde::Serialize;
use std::fmt;

/// Built once: this share of the live samples …
const BUILT_SHARE: f64 = 0.9;
/// … was allocated in a time, since when this many times as long passed.
const QUIET_TIMES: u64 = 2;
/// With fewer samples that says nothing by itself. (1/3)^10 is the chance for a steady leak.
const LEAST_BUILT: usize = 10;
/// What nobody can tell from a leak yet.
const FILLING: &str = "a cache that is still filling looks the same";
/// A few samples will do if they are all from this first part of the recording.
const START_SHARE: u64 = 10;
const LEAST_AT_START: usize = 3;

/// Verdict on the memory of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Leak suspect: memory that grew old is kept, and becomes more.
    Growing,
    /// Cache or pool: memory is freed or replaced, or has stopped growing, but late.
    Plateau,
    /// Built once; nothing was added since.
    BuiltOnce,
    /// Freed soon.
    Churn,
    /// Too few samples, or too little time.
    NotEnoughData,
}

/// How to judge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Least lifetime, in ns: memory that lives for less on average is churn, and a stack that was observed for less is not judged.
    pub min_age_ns: u64,
    /// How many stacks are judged together.
    pub stacks: usize,
}

/// The verdict on one stack, and its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// Verdict in one word.
    pub verdict: Verdict,
    /// Why, as one sentence.
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
    /// Samples of the settled age: how many were kept and freed, and whether more come. Null if observed for too short a time.
    pub persistence: Option<Persistence>,
    /// Per hour; `None` if observed for too short a time, or if nothing is kept.
    pub growth: Option<Growth>,
    /// For a leak suspect, how long it has been growing like this at least, in ns: its growth per hour is that of this time.
    pub growing_for_ns: Option<u64>,
    /// For a stack that was a leak suspect until some time ago; null if it is one, or if the pause is longer than it had grown.
    pub paused: Option<Paused>,
    /// For a stack that cannot be judged yet, ns until a leak would show at the rate so far; null if it does not grow, or that cannot be told.
    pub judged_in_ns: Option<u64>,
}

/// Evidence from a history, and the verdict with the reason for it.
struct Evidence {
    verdict: Verdict,
    reason: String,
    persistence: Option<Persistence>,
    growth: Option<Growth>,
    growing_for_ns: Option<u64>,
    judged_in_ns: Option<u64>,
}

impl Verdict {
    /// All, worst first.
    pub const ALL: [Verdict; 5] = [
        Verdict::Growing,
        Verdict::Plateau,
        Verdict::BuiltOnce,
        Verdict::Churn,
        Verdict::NotEnoughData,
    ];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Growing => "leak suspect",
            Verdict::Plateau => "cache or pool",
            Verdict::BuiltOnce => "built once",
            Verdict::Churn => "short-lived",
            Verdict::NotEnoughData => "not enough data yet",
        })
    }
}

/// Judges one stack, or several that were joined. Memory allocated in one go does not deny a leak that goes on next to it.
pub fn judge(history: &StackHistory, settings: &Settings) -> Finding {
    let mut shown = Evidence::of(history, settings);
    if !matches!(shown.verdict, Verdict::Growing | Verdict::NotEnoughData) {
        let later = history.since_last_burst();
        let later = later.and_then(|since| Evidence::since(history, &since, settings));
        shown = later.unwrap_or(shown);
    }
    let Evidence { verdict, reason, persistence, growth, growing_for_ns, judged_in_ns } = shown;
    Finding {
        verdict,
        reason,
        inuse_space: history.inuse(SampleUnit::Bytes),
        inuse_objects: history.inuse(SampleUnit::Objects),
        samples: history.live.len() as u64,
        ages: history.ages(),
        survival: Survival::of(history),
        growth,
        growing_for_ns,
        paused: (verdict != Verdict::Growing).then(|| Paused::of(history, settings)).flatten(),
        persistence,
        judged_in_ns,
    }
}

impl Evidence {
    fn of(history: &StackHistory, settings: &Settings) -> Self {
        let persistence = Persistence::of(history, settings.min_age_ns);
        let growth = persistence.and_then(|seen| Growth::of(history, &seen, settings));
        let (verdict, reason) = match &persistence {
            None => too_young(history, settings),
            Some(seen) => conclusion(history, seen, growth.as_ref(), settings),
        };
        let is_undecided = verdict == Verdict::NotEnoughData;
        let judged_in_ns = is_undecided.then(|| judged_in_ns(history, settings)).flatten();
        let growing_for_ns =
            persistence.filter(|_| verdict == Verdict::Growing).map(|seen| seen.began_ns);
        Self { verdict, reason, persistence, growth, growing_for_ns, judged_in_ns }
    }

    /// Returns the evidence since a burst, if that is a leak or may become one.
    fn since(all: &StackHistory, since: &StackHistory, settings: &Settings) -> Option<Self> {
        let mut evidence = Self::of(since, settings);
        let burst = all.inuse(SampleUnit::Bytes).value - since.inuse(SampleUnit::Bytes).value;
        let (first, rest) = evidence.reason.split_at_checked(1)?;
        evidence.reason = format!(
            "Apart from {} allocated in one go: {}{rest}",
            format_bytes(burst),
            first.to_lowercase()
        );
        let is_one = match evidence.verdict {
            Verdict::Growing => true,
            Verdict::NotEnoughData => {
                evidence.persistence.is_none_or(|seen| seen.may_show_growth())
            }
            _ => false,
        };
        is_one.then_some(evidence)
    }
}

impl Finding {
    /// Whether it is a leak suspect.
    pub fn is_growing(&self) -> bool {
        self.verdict == Verdict::Growing
    }

    /// Returns whether a stack that cannot be judged yet may be a leak: it has enough samples, and may still show growth.
    pub(crate) fn may_leak(&self) -> bool {
        self.verdict == Verdict::NotEnoughData
            && self.samples >= LEAST_SAMPLES as u64
            && self.persistence.is_none_or(|seen| seen.may_show_growth())
    }
}

/// How much longer until what lasts would be called a leak at the rate so far.
fn judged_in_ns(history: &StackHistory, settings: &Settings) -> Option<u64> {
    Lasting::of_all(history)?.judged_in_ns(history.observed_ns(), settings.min_age_ns)
}

fn too_young(history: &StackHistory, settings: &Settings) -> (Verdict, String) {
    let reason = format!(
        "First seen {} ago; nothing is judged before {} (--min-age).",
        format_duration(history.observed_ns()),
        format_duration(settings.min_age_ns)
    );
    (Verdict::NotEnoughData, reason)
}

fn conclusion(
    history: &StackHistory,
    seen: &Persistence,
    growth: Option<&Growth>,
    settings: &Settings,
) -> (Verdict, String) {
    if seen.shows_growth() {
        return match growth.filter(|growth| is_contradiction(growth, history, seen, settings)) {
            Some(growth) => (
                Verdict::Plateau,
                format!("Did not grow in the last {}.", format_duration(growth.window_ns)),
            ),
            None => (Verdict::Growing, growing(history, seen)),
        };
    }
    if let Some(reason) = built_once(history, settings) {
        return (Verdict::BuiltOnce, reason);
    }
    let turned_over_ns = history
        .mean_lifetime_of_freed_ns()
        .filter(|_| history.freed_samples() >= history.live.len() as u64);
    let is_left_young = history.ages().is_none_or(|ages| ages.p50_ns < settings.min_age_ns);
    match turned_over_ns.map(|mean_ns| (mean_ns, format_duration(mean_ns))) {
        Some((mean_ns, mean)) if mean_ns >= settings.min_age_ns => {
            (Verdict::Plateau, format!("Freed or replaced after {mean} on average."))
        }
        Some((_, mean)) if is_left_young => match young_leak(history, settings) {
            Some(lasting) => (Verdict::NotEnoughData, lasts(&mean, &lasting)),
            None => (Verdict::Churn, format!("Short-lived: freed after {mean} on average.")),
        },
        _ if seen.is_scarce() => (Verdict::NotEnoughData, scarce(seen)),
        Some((_, mean)) => (
            Verdict::Plateau,
            format!(
                "Most is freed after {mean} on average; the rest is older and does not keep growing."
            ),
        ),
        None if !seen.is_steady => {
            (Verdict::Plateau, "It grew, and has slowed down or stopped.".into())
        }
        None => (
            Verdict::Plateau,
            format!(
                "Of {} sampled blocks older than {}, {} were freed.",
                seen.kept + seen.freed,
                format_duration(seen.settled_ns),
                seen.freed
            ),
        ),
    }
}

/// Returns the memory that lasts, if it may be a young leak: one that shows before as much time again has passed.
fn young_leak(history: &StackHistory, settings: &Settings) -> Option<Lasting> {
    let lasting = Lasting::of_all(history)?;
    let observed_ns = history.observed_ns();
    let wait_ns = lasting.judged_in_ns(observed_ns, settings.min_age_ns)?;
    (wait_ns <= observed_ns).then_some(lasting)
}

/// As much as they say all the same.
fn scarce(seen: &Persistence) -> String {
    let reached = seen.kept + seen.freed;
    let settled = format_duration(seen.settled_ns);
    let (samples, are) = if reached == 1 { ("sample", "is") } else { ("samples", "are") };
    match (reached, seen.freed) {
        (0, _) => format!("None of its samples is older than {settled}."),
        (_, 0) => format!(
            "Only {reached} {samples} {are} older than {settled}; {} are needed to call it a leak.",
            seen.least_kept()
        ),
        (_, freed) => format!(
            "Only {reached} {samples} became older than {settled}, of which {freed} {} freed: too few to tell.",
            if freed == 1 { "was" } else { "were" }
        ),
    }
}

fn lasts(mean: &str, lasting: &Lasting) -> String {
    let [from, oldest] = [lasting.from_ns, lasting.to_ns].map(format_duration);
    format!(
        "Most is freed after {mean} on average, but what is older than {from} is kept, since {oldest} ago: too early to tell."
    )
}

fn growing(history: &StackHistory, seen: &Persistence) -> String {
    let since = format_duration(seen.began_ns);
    if history.freed_samples() == 0 {
        return format!("Nothing allocated here in the last {since} has been freed ({FILLING}).");
    }
    let settled = format_duration(seen.settled_ns);
    match seen.freed {
        0 => format!(
            "Blocks older than {settled} are not freed, and more were added throughout the last {since} ({FILLING})."
        ),
        freed => format!(
            "Of {} sampled blocks older than {settled} only {freed} {} freed, and more were added throughout the last {since} ({FILLING}).",
            seen.kept + freed,
            if freed == 1 { "was" } else { "were" },
        ),
    }
}

/// Two snapshots deny what the ages promise.
fn is_contradiction(
    growth: &Growth,
    history: &StackHistory,
    seen: &Persistence,
    settings: &Settings,
) -> bool {
    Growth::of_kept(history, seen, settings).is_some_and(|promised| growth.denies(&promised))
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
            "Allocated within {}; almost nothing in the {} since.",
            format_duration(built - first),
            format_duration(quiet_ns)
        )
    })
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
