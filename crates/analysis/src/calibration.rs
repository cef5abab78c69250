//! Live bytes by two witnesses: the profile, which estimates them call path by call path, and glibc, which knows their total
//! (docs/internals/sampling.md#calibration).

use crate::extents::{self, lost};
use crate::rss::Rss;
use ramson_format::{Kind, PRELOADED_FAMILY, flags};
use ramson_process::glibc::Statistics;
use ramson_process::rss::Reading;
use ramson_process::{Part, clock};
use ramson_profile::{self as profile, Estimate, NORMAL_QUANTILE_975};
use ramson_reader::{Counting, Snapshot};
use ramson_source::Opened;
use serde::Serialize;

/// Whether the live bytes of a process are calibrated, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Calibration {
    /// The sum of the call paths is the allocator's total.
    Calibrated,
    /// No total is known: the allocator is not glibc's, or its statistics cannot be read in full.
    NoTotal,
    /// The profile does not have all that the program allocated: it was attached to, forked or not sampled for a time, or samples were
    /// lost.
    NotWhole,
    /// The allocator's total is too far from the profile's sum.
    NotSeen,
    /// The answer is about several processes.
    Several,
}

/// Calibrates the live bytes of all sources that can be; returns the RSS of each that runs.
pub fn calibrate_all(opened: &mut [Opened]) -> Vec<Option<Rss>> {
    let is_one_of_many = opened.len() > 1;
    opened.iter_mut().map(|one| Rss::of_opened(one, is_one_of_many)).collect()
}

/// How the live bytes of a snapshot are to be counted, by the reading of its process's memory that followed it; if they cannot be calibrated, why. Also returns the allocator's total.
pub fn calibrate(
    snapshot: &Snapshot,
    reading: &Reading,
    has_other: bool,
) -> Result<(Counting, Estimate), Calibration> {
    if !is_whole(snapshot) || reading.is_forked {
        return Err(Calibration::NotWhole);
    }
    let statistics = reading.statistics.as_ref().ok().filter(|_| !has_other);
    let moved = reading.explained.part(Part::Moved) as f64;
    let total = statistics.and_then(|it| total(it, moved)).ok_or(Calibration::NoTotal)?;
    let samples =
        extents::live(snapshot, Some(Kind::Heap)).filter(|live| live.family == PRELOADED_FAMILY);
    let samples = samples.map(|live| live.sampled());
    let by = profile::Calibration::by(samples, total, snapshot.header.interval_bytes);
    let profile::Calibration { slope, known } = by.ok_or(Calibration::NotSeen)?;
    Ok((Counting::Calibrated { slope, known, until_ns: clock::monotonic_ns() }, total))
}

/// Whether everything that the process allocated was to be a sample.
fn is_whole(snapshot: &Snapshot) -> bool {
    let header = &snapshot.header;
    header.flags & (flags::ATTACHED | flags::PAUSED) == 0
        && header.until_monotonic_ns == 0
        && header.unsampled_ns == 0
        && lost(snapshot, Kind::Heap) == 0
}

/// Usable bytes that glibc has handed out. What was not walked, or changed while they were read, is an error, too.
fn total(statistics: &Statistics, moved_bytes: f64) -> Option<Estimate> {
    let (bytes, of_not_walked) = statistics.allocated_bytes()?;
    let of_survey = statistics.live_half_width_95_bytes() / NORMAL_QUANTILE_975;
    let variance = of_survey.powi(2) + of_not_walked.powi(2) + moved_bytes.powi(2);
    Some(Estimate::new(bytes, variance))
}
