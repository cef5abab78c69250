//! The answer in short: whether anything leaks, and how sure that is.

use super::functions::Moment;
use super::suspect::Suspect;
use super::totals::Totals;
use crate::members::RowGrowth;
use ramson_leaks::{DetectionLimit, Verdict};
use ramson_profile::Estimate;
use serde::Serialize;

/// Undecided functions that hold less than this share of the live bytes leave the answer as it is.
pub(super) const SMALL_SHARE: f64 = 0.01;

/// Why it cannot be told whether anything leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CannotTell {
    /// The profile does not say which blocks are live.
    LiveNotKnown,
    /// Samples were lost: a leak may be among these.
    SamplesLost,
    /// The recording is not older than `--min-age`.
    TooShort,
    /// Functions that hold 1% of live memory or more were leak suspects until a short time ago.
    Paused,
    /// All that is live grows, though no function does by itself.
    TotalGrows,
    /// Functions that hold 1% of live memory or more cannot be judged yet.
    Undecided,
    /// Too few samples are live to find a leak.
    TooFewSamples,
}

/// Facts beside the findings on which an answer depends.
pub struct Circumstances {
    /// Which leak would not show yet, if nothing was lost.
    pub limit: Option<DetectionLimit>,
    /// How fast the process grows as a whole.
    pub totals: Totals,
    /// `--min-age`, in ns.
    pub min_age_ns: u64,
    /// The profile says which blocks are live.
    pub is_live_known: bool,
    /// Samples were lost.
    pub is_part: bool,
    /// How long ago sampling ended.
    pub sampling_ended_ns: Option<u64>,
}

/// Whether anything leaks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Answer {
    /// How many findings are leak suspects.
    pub leak_suspects: usize,
    /// Their growth per hour, in bytes.
    pub growth_per_hour: Estimate,
    /// How fast the process grows as a whole, whatever its functions do.
    pub totals: Totals,
    /// All findings.
    pub findings: usize,
    /// How many of them cannot be judged yet.
    pub undecided: usize,
    /// The share of all live bytes that these hold, 0 to 1.
    pub undecided_share: f64,
    /// How much longer until the largest of these is as old as `min_age_ns`, and the largest that grows can be judged; null if neither takes
    /// time.
    pub judged_in_ns: Option<u64>,
    /// `--min-age`, in ns: functions that were first seen later than that are not judged.
    pub min_age_ns: u64,
    /// Whether more can still be learnt: a process runs, and is sampled.
    pub is_running: bool,
    /// Nanoseconds since sampling of a running process ended; the answer is as of then.
    pub sampling_ended_ns: Option<u64>,
    /// The smallest leak since the recording began that would have been found by now; null if none would. One that began later may be
    /// larger, and not found yet.
    pub limit: Option<DetectionLimit>,
    /// Without a leak suspect: why nobody can tell whether there is a leak; null if there is none above the limit, but for one that began later.
    pub cannot_tell: Option<CannotTell>,
}

impl Answer {
    /// Answers from findings that are sorted with the largest first.
    pub fn of(suspects: &[Suspect], of: &Moment, with: Circumstances) -> Self {
        let growing = || suspects.iter().filter(|it| it.is_growing());
        let undecided =
            || suspects.iter().filter(|it| it.finding.verdict == Verdict::NotEnoughData);
        let growth = growing().filter_map(|it| it.finding.growth.as_ref());
        let answer = Self {
            leak_suspects: growing().count(),
            growth_per_hour: growth.map(|growth| growth.per_hour).sum(),
            totals: with.totals.clone(),
            findings: suspects.len(),
            undecided: undecided().count(),
            // Not sum(), which is -0.0 of nothing.
            undecided_share: undecided().fold(0.0, |share, it| share + it.share),
            judged_in_ns: judged_in_ns(undecided(), with.min_age_ns),
            min_age_ns: with.min_age_ns,
            is_running: of.is_running,
            sampling_ended_ns: with.sampling_ended_ns,
            limit: with.limit.filter(|_| with.is_live_known && !with.is_part),
            cannot_tell: None,
        };
        let samples = suspects.iter().map(|it| it.finding.samples).sum();
        let paused = suspects.iter().filter(|it| it.finding.paused.is_some());
        let has_paused = paused.fold(0.0, |share, it| share + it.share) >= SMALL_SHARE;
        Self { cannot_tell: answer.cannot_tell(samples, has_paused, &with), ..answer }
    }

    /// The growth of a process in a row of a table.
    pub fn row_growth(&self) -> RowGrowth {
        let suspects = (self.leak_suspects > 0).then_some(self.growth_per_hour);
        RowGrowth::of(self.totals.live_per_hour, suspects, self.cannot_tell.is_some())
    }

    fn cannot_tell(
        &self,
        samples: u64,
        has_paused: bool,
        with: &Circumstances,
    ) -> Option<CannotTell> {
        match self.limit {
            _ if self.leak_suspects > 0 => None,
            _ if !with.is_live_known => Some(CannotTell::LiveNotKnown),
            _ if with.is_part => Some(CannotTell::SamplesLost),
            None => Some(CannotTell::TooShort),
            Some(_) if has_paused => Some(CannotTell::Paused),
            Some(_) if self.totals.live_per_hour.is_some() => Some(CannotTell::TotalGrows),
            Some(_) if self.undecided_share >= SMALL_SHARE => Some(CannotTell::Undecided),
            Some(limit) => {
                (samples < u64::from(limit.samples)).then_some(CannotTell::TooFewSamples)
            }
        }
    }
}

/// The longer of two times: until the largest of these can be judged at all, and until the largest that grows can.
fn judged_in_ns<'a>(
    mut undecided: impl Iterator<Item = &'a Suspect> + Clone,
    min_age_ns: u64,
) -> Option<u64> {
    let young_ns = undecided.clone().next().map(|it| min_age_ns.saturating_sub(it.first_seen_ns));
    let growing_ns = undecided.find_map(|it| it.finding.judged_in_ns);
    young_ns.filter(|&ns| ns > 0).max(growing_ns)
}
