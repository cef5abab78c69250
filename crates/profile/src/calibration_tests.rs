//! Simulations of the calibration, with fixed seeds: a row and the rest of a profile, and an allocator that knows their sum.

use super::tests::Random;
use super::*;

const INTERVAL: u64 = 512 * 1024;
const TRIALS: usize = 4000;
/// Of 4,000 trials, 95% are covered within 1%, as 4 standard errors are 1.4%.
const COVERAGE: std::ops::RangeInclusive<f64> = 0.93..=0.97;

/// Allocations of one size.
#[derive(Clone, Copy)]
struct Blocks {
    count: u64,
    size: u64,
}

impl Blocks {
    /// As many as have so many samples on average.
    fn with_samples(samples: f64, size: u64) -> Self {
        Self { count: (samples / sampling_probability(size, INTERVAL)).round() as u64, size }
    }

    fn bytes(self) -> f64 {
        (self.count * self.size) as f64
    }

    fn estimate(self, random: &mut Random) -> Estimate {
        let p = sampling_probability(self.size, INTERVAL);
        let one = Estimate::of_sample(self.size, 1.0 / p, SampleUnit::Bytes);
        let recorded = random.recorded(self.count, p) as f64;
        Estimate::new(one.value * recorded, one.variance * recorded)
    }
}

/// A row before and after the calibration, in all trials.
struct Rows {
    truth: f64,
    sampled: Vec<Estimate>,
    calibrated: Vec<Estimate>,
    totals: Vec<Estimate>,
}

/// The allocator's total is off by a normal error of this deviation.
fn simulate(row: Blocks, rest: Blocks, deviation: f64, seed: u64) -> Rows {
    let mut random = Random(seed);
    let mut rows = Rows { truth: row.bytes(), sampled: vec![], calibrated: vec![], totals: vec![] };
    for _ in 0..TRIALS {
        let [one, other] = [row, rest].map(|blocks| blocks.estimate(&mut random));
        let angle = std::f64::consts::TAU * random.unit();
        let normal = (-2.0 * random.unit().ln()).sqrt() * angle.cos();
        let total =
            Estimate::new(row.bytes() + rest.bytes() + deviation * normal, deviation.powi(2));
        let samples = [one, other].into_iter();
        let Some(calibration) = Calibration::by(samples, total, INTERVAL) else { continue };
        let [calibrated, rest] = [one, other].map(|estimate| calibration.of(estimate));
        rows.sampled.push(one);
        rows.calibrated.push(calibrated);
        rows.totals.push(calibrated + rest);
    }
    rows
}

impl Rows {
    fn coverage(&self, of: &[Estimate]) -> f64 {
        let covers = |one: &&Estimate| (one.value - self.truth).abs() <= one.half_width_95();
        of.iter().filter(covers).count() as f64 / of.len() as f64
    }

    fn mean_half_width(of: &[Estimate]) -> f64 {
        of.iter().map(|one| one.half_width_95()).sum::<f64>() / of.len() as f64
    }
}

/// Sizes with p from 0.002 to 0.98, samples from 30 on.
#[test]
fn calibrated_interval_covers_the_truth() {
    for (number, (row, rest, deviation)) in [
        ((30.0, 1024), (30.0, 1024), 0.0),
        ((30.0, 1024), (300.0, 100 << 10), 0.0),
        ((300.0, 1024), (30.0, 1 << 20), 0.0),
        ((60.0, 2 << 20), (60.0, 16 << 10), 0.0),
        ((100.0, 1024), (100.0, 1024), 2e6),
        ((100.0, 1024), (1000.0, 1024), 2e7),
    ]
    .into_iter()
    .enumerate()
    {
        let [row, rest] = [row, rest].map(|(samples, size)| Blocks::with_samples(samples, size));
        let rows = simulate(row, rest, deviation, 38 + number as u64);
        let coverage = rows.coverage(&rows.calibrated);
        assert!(COVERAGE.contains(&coverage), "{number}: {coverage}");
        // Less than 1 in 1,000 totals is further away than 4 standard deviations.
        assert!(rows.calibrated.len() > TRIALS - TRIALS / 1000, "{number}");
        let [before, after] = [&rows.sampled, &rows.calibrated].map(|of| Rows::mean_half_width(of));
        assert!(after < before, "{number}: {after} {before}");
    }
}

/// 48 MiB in blocks of 8 MiB, each a sample, and 16 MiB in blocks of 1 KiB: all of the error is the small ones', and known.
#[test]
fn only_uncertain_row_is_corrected() {
    let row = Blocks { count: 16 << 10, size: 1024 };
    let rest = Blocks { count: 6, size: 8 << 20 };
    let rows = simulate(row, rest, 0.0, 3);
    for (sampled, calibrated) in rows.sampled.iter().zip(&rows.calibrated) {
        assert!((calibrated.value / rows.truth - 1.0).abs() < 1e-5, "{calibrated:?}");
        assert!(calibrated.half_width_95() < 0.01 * sampled.half_width_95());
    }
    let share = Rows::mean_half_width(&rows.sampled) / rows.truth;
    assert!((0.30..0.38).contains(&share), "{share}");
}

/// The sum of the rows is the allocator's total, as certain as that.
#[test]
fn rows_add_up_to_the_total() {
    let blocks = Blocks::with_samples(200.0, 1024);
    let rows = simulate(blocks, blocks, 0.0, 5);
    for total in &rows.totals {
        assert!((total.value - 2.0 * rows.truth).abs() < 1.0, "{total:?}");
        assert!(total.half_width_95() < 1e-3 * total.value, "{total:?}");
    }
    // With a survey that is as uncertain as the estimates, half of the variance is left.
    let sum = Estimate::new(1e6, 8.0);
    let calibrated = by(sum, Estimate::new(1e6 + 4.0, 8.0), 1).unwrap().of(sum);
    assert_eq!(calibrated.value, 1e6 + 2.0);
    assert!((calibrated.error_variance() - 4.0).abs() < 1e-4, "{calibrated:?}");
}

fn by(sum: Estimate, total: Estimate, interval_bytes: u64) -> Option<Calibration> {
    Calibration::by([sum].into_iter(), total, interval_bytes)
}

#[test]
fn distant_total_calibrates_nothing() {
    let sum = Estimate::new(1000.0, 30.0 * 30.0);
    for (total, is_near) in [(1118.0, true), (1122.0, false), (882.0, true), (878.0, false)] {
        let found = by(sum, Estimate::exact(total), 1);
        assert_eq!(found.is_some(), is_near, "{total}");
    }
    // Of small blocks, none may have been sampled.
    assert!(by(sum, Estimate::exact(1122.0), 100).is_some());
    // Everything was recorded.
    let none = Some(Calibration::default());
    assert_eq!(by(Estimate::exact(1000.0), Estimate::exact(1009.0), 1), none);
    assert_eq!(by(Estimate::exact(1000.0), Estimate::exact(1011.0), 1), None);
}

/// Rows with fewer than 10 samples, of one size or of two, corrected or not.
#[test]
fn upper_bound_holds_where_samples_are_few() {
    for (number, (samples, size)) in
        [(1.0, 1024), (2.0, 1024), (4.0, 64 << 10), (7.0, 1024), (7.0, 300 << 10)]
            .into_iter()
            .enumerate()
    {
        for (rest, deviation) in [(30.0, 0.0), (1000.0, 0.0), (1000.0, 3e7)] {
            let row = Blocks::with_samples(samples, size);
            let rest = Blocks::with_samples(rest, 1024);
            let rows = simulate(row, rest, deviation, 70 + number as u64);
            for of in [&rows.sampled, &rows.calibrated] {
                let fails = |one: &&Estimate| {
                    let is_row = one.variance > 0.0;
                    is_row && one.has_few_samples() && one.upper_bound_95() < rows.truth
                };
                let failed = of.iter().filter(fails).count() as f64 / TRIALS as f64;
                // 0.35% is a standard error.
                assert!(failed < 0.06, "{samples} samples of {size} B: {failed}");
            }
        }
    }
}
