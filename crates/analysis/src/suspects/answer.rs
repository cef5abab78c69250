//! The answer in short: whether anything leaks, and how sure that is.

use super::functions::Moment;
use super::suspect::Suspect;
use ramson_leaks::Verdict;
use ramson_profile::Estimate;
use serde::Serialize;

/// Whether anything leaks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Answer {
    /// How many findings are leak suspects.
    pub leak_suspects: usize,
    /// Their growth per hour, in bytes.
    pub growth_per_hour: Estimate,
    /// All findings.
    pub findings: usize,
    /// How many of them cannot be judged yet.
    pub undecided: usize,
    /// The share of all live bytes that these hold, 0 to 1.
    pub undecided_share: f64,
    /// How much longer until the largest of these can be judged, if that can be told.
    pub judged_in_ns: Option<u64>,
    /// Whether more can still be learnt: a process runs, and is sampled.
    pub is_running: bool,
    /// Sampling of a process that runs ended so long ago; the answer is as of then.
    pub sampling_ended_ns: Option<u64>,
}

impl Answer {
    /// Of findings with the largest first.
    pub fn of(suspects: &[Suspect], of: &Moment) -> Self {
        let growing = || suspects.iter().filter(|it| it.is_growing());
        let undecided =
            || suspects.iter().filter(|it| it.finding.verdict == Verdict::NotEnoughData);
        let growth = growing().filter_map(|it| it.finding.growth.as_ref());
        Self {
            leak_suspects: growing().count(),
            growth_per_hour: growth.map(|growth| growth.per_hour).sum(),
            findings: suspects.len(),
            undecided: undecided().count(),
            // Not sum(), which is -0.0 of nothing.
            undecided_share: undecided().fold(0.0, |share, it| share + it.share),
            judged_in_ns: undecided().next().and_then(|it| it.finding.judged_in_ns),
            is_running: of.is_running,
            sampling_ended_ns: None,
        }
    }
}
