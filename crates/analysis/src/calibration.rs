//! Live bytes by two witnesses: the profile, which estimates them call path by call path, and glibc, which knows their total
//! (docs/sampling.md#calibration).

use crate::extents::{self, lost};
use crate::rss::Rss;
use ramson_format::{Kind, flags};
use ramson_process::glibc::Statistics;
use ramson_process::rss::Reading;
use ramson_process::{Part, clock};
use ramson_profile::{Estimate, NORMAL_QUANTILE_975};
use ramson_reader::{Counting, Snapshot};
use ramson_source::Opened;
use serde::Serialize;

/// A total that is further from the sum of the estimates, in standard deviations, has memory that the profile did not see.
const MOST_DEVIATIONS: f64 = 4.0;
/// If nothing is uncertain: part of the total that may be missing, as blocks are a little larger than their requests tell.
const MOST_ROUNDED: f64 = 0.01;

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
    opened.iter_mut().map(Rss::of_opened).collect()
}

/// How the live bytes of a snapshot are to be counted, by the reading of its process's memory that followed it; if they cannot be calibrated, why.
pub fn calibrate(
    snapshot: &Snapshot,
    reading: &Reading,
    has_other: bool,
) -> Result<Counting, Calibration> {
    if !is_whole(snapshot) || reading.is_forked {
        return Err(Calibration::NotWhole);
    }
    let statistics = reading.statistics.as_ref().ok().filter(|_| !has_other);
    let moved = reading.explained.part(Part::Moved) as f64;
    let total = statistics.and_then(|it| total(it, moved)).ok_or(Calibration::NoTotal)?;
    let sum = extents::live_heap_as(snapshot, Counting::Usable);
    let slope = slope(sum, total, snapshot.header.interval_bytes);
    let (slope, known) = slope.ok_or(Calibration::NotSeen)?;
    Ok(Counting::Calibrated { slope, known, until_ns: clock::monotonic_ns() })
}

/// Whether everything that the process allocated was to be a sample.
fn is_whole(snapshot: &Snapshot) -> bool {
    let header = &snapshot.header;
    header.flags & (flags::ATTACHED | flags::PAUSED) == 0
        && header.until_monotonic_ns == 0
        && header.unsampled_ns == 0
        && lost(snapshot, Kind::Heap) == 0
}

/// Usable bytes that glibc has handed out. What changed while they were read is an error, too.
fn total(statistics: &Statistics, moved_bytes: f64) -> Option<Estimate> {
    let deviation = statistics.live_half_width_95_bytes() / NORMAL_QUANTILE_975;
    let variance = deviation.powi(2) + moved_bytes.powi(2);
    Some(Estimate::new(statistics.allocated_bytes()? as f64, variance))
}

/// Returns the slope of the regression and the known part of the error, for each unit of variance; `None`: the total is too far away.
fn slope(sum: Estimate, total: Estimate, interval_bytes: u64) -> Option<(f64, f64)> {
    let gap = total.value - sum.value;
    let variance = sum.variance + total.variance;
    if variance == 0.0 {
        return (gap.abs() <= MOST_ROUNDED * total.value).then_some((0.0, 0.0));
    }
    // One sample more or less: small blocks of which none was sampled have a variance that is not estimated.
    let unsampled = (interval_bytes as f64).powi(2);
    let is_far = gap.abs() > MOST_DEVIATIONS * (variance + unsampled).sqrt();
    (!is_far).then(|| (gap / variance, 1.0 / variance.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_is_that_of_the_regression() {
        let sum = Estimate::new(1000.0, 30.0 * 30.0);
        let total = Estimate::new(1100.0, 40.0 * 40.0);
        let (slope, known) = slope(sum, total, 1).unwrap();
        assert_eq!((slope, known), (100.0 / 2500.0, 1.0 / 50.0));
        let calibrated = ramson_profile::Calibration { slope, known }.of(sum);
        assert_eq!(calibrated.value, 1036.0);
        // 30² · 40² / (30² + 40²).
        assert!((calibrated.error_variance() - 576.0).abs() < 1e-9, "{calibrated:?}");
    }

    #[test]
    fn distant_total_calibrates_nothing() {
        let sum = Estimate::new(1000.0, 30.0 * 30.0);
        for (total, is_near) in [(1118.0, true), (1122.0, false), (882.0, true), (878.0, false)] {
            assert_eq!(slope(sum, Estimate::exact(total), 1).is_some(), is_near, "{total}");
        }
        // Of small blocks, none was sampled.
        assert!(slope(sum, Estimate::exact(1122.0), 100).is_some());
    }

    #[test]
    fn recording_of_everything_has_no_slope() {
        let sum = Estimate::exact(1000.0);
        assert_eq!(slope(sum, Estimate::exact(1009.0), 1), Some((0.0, 0.0)));
        assert_eq!(slope(sum, Estimate::exact(1011.0), 1), None);
    }
}
