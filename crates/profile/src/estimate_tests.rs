//! Simulations with a fixed seed; every bound is stated in standard errors (sigmas).

use super::*;

const INTERVAL: u64 = 512 * 1024;
const TRIALS: usize = 2000;

/// SplitMix64: enough for a simulation, and the same on every machine.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1].
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// How many of `count` allocations are recorded, each with probability `p`: steps from one recorded allocation to
    /// the next by geometric gaps.
    pub fn recorded(&mut self, count: u64, p: f64) -> u64 {
        let log_missed = (-p).ln_1p();
        let mut position = 0u64;
        let mut recorded = 0;
        loop {
            let gap = (self.unit().ln() / log_missed).floor();
            position = position.saturating_add(gap as u64).saturating_add(1);
            if position > count {
                return recorded;
            }
            recorded += 1;
        }
    }
}

struct Outcome {
    mean: f64,
    standard_error: f64,
    coverage: f64,
    mean_variance: f64,
}

/// Runs `TRIALS` profiles of a stack that made the allocations (count, size), and compares with the truth.
fn simulate(allocations: &[(u64, u64)], unit: SampleUnit, seed: u64) -> Outcome {
    let truth: f64 = allocations.iter().map(|&(count, size)| exact(count, size, unit)).sum();
    let mut random = Random(seed);
    let mut estimates = Vec::with_capacity(TRIALS);
    for _ in 0..TRIALS {
        let mut estimate = Estimate::default();
        for &(count, size) in allocations {
            let p = sampling_probability(size, INTERVAL);
            let one = Estimate::of_sample(size, 1.0 / p, unit);
            let recorded = random.recorded(count, p) as f64;
            estimate += Estimate::new(one.value * recorded, one.variance * recorded);
        }
        estimates.push(estimate);
    }
    let n = TRIALS as f64;
    let mean = estimates.iter().map(|e| e.value).sum::<f64>() / n;
    let spread = estimates.iter().map(|e| (e.value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let covered = estimates.iter().filter(|e| (e.value - truth).abs() <= e.half_width_95()).count();
    Outcome {
        mean,
        standard_error: (spread / n).sqrt(),
        coverage: covered as f64 / n,
        mean_variance: estimates.iter().map(|e| e.variance).sum::<f64>() / n,
    }
}

fn exact(count: u64, size: u64, unit: SampleUnit) -> f64 {
    match unit {
        SampleUnit::Objects => count as f64,
        SampleUnit::Bytes => (count * size) as f64,
    }
}

/// The mean lies within 3 standard errors of the truth, and 93–97% of the intervals contain it: ± 4.1 sigmas of the
/// binomial with p = 0.95 and n = 2000.
fn assert_unbiased_and_covered(allocations: &[(u64, u64)], seed: u64) {
    for unit in [SampleUnit::Objects, SampleUnit::Bytes] {
        let truth: f64 = allocations.iter().map(|&(count, size)| exact(count, size, unit)).sum();
        let outcome = simulate(allocations, unit, seed);
        let sigmas = (outcome.mean - truth) / outcome.standard_error;
        assert!(sigmas.abs() < 3.0, "{unit:?}: mean is {sigmas:.2} standard errors off");
        assert!(
            (0.93..=0.97).contains(&outcome.coverage),
            "{unit:?}: 95% intervals cover {:.2}%",
            100.0 * outcome.coverage
        );
    }
}

#[test]
fn interval_sized_allocations_are_unbiased() {
    assert_unbiased_and_covered(&[(500, INTERVAL)], 1);
}

#[test]
fn double_interval_allocations_are_unbiased() {
    assert_unbiased_and_covered(&[(500, 2 * INTERVAL)], 2);
}

#[test]
fn half_interval_allocations_are_unbiased() {
    assert_unbiased_and_covered(&[(500, INTERVAL / 2)], 3);
}

#[test]
fn mixed_allocations_are_unbiased() {
    assert_unbiased_and_covered(&[(32 << 20, 16), (16, 32 << 20)], 4);
}

/// True variance: count·(1 − p)/p·s². The mean estimate of it over 2000 trials of 500 allocations has a relative
/// standard error of √((1 − p)/(p·500·2000)) ≤ 0.13%; 1% is more than 7 of these.
#[test]
fn the_estimated_variance_is_itself_unbiased() {
    for (seed, size) in [(5, INTERVAL), (6, 2 * INTERVAL), (7, INTERVAL / 2)] {
        let p = sampling_probability(size, INTERVAL);
        let truth = 500.0 * (1.0 - p) / p * (size as f64).powi(2);
        let outcome = simulate(&[(500, size)], SampleUnit::Bytes, seed);
        let ratio = outcome.mean_variance / truth;
        assert!((ratio - 1.0).abs() < 0.01, "size {size}: ratio {ratio}");
    }
}

#[test]
fn small_probability_keeps_its_digits() {
    // Not a power of two: for such, even 1 − e^(−x) is right.
    let interval = 1_000_000_000_007;
    let p = sampling_probability(16, interval);
    let expected = 16.0 / interval as f64;
    assert!((p / expected - 1.0).abs() < 1e-10, "{p}");
}

#[test]
fn smallest_interval_records_exactly() {
    for interval in [0, 1] {
        for size in [0, 1, 16, u64::MAX] {
            let p = sampling_probability(size, interval);
            assert_eq!(p, 1.0);
            let estimate = Estimate::of_sample(size, 1.0 / p, SampleUnit::Bytes);
            assert_eq!(estimate, Estimate::exact(size as f64));
        }
    }
    assert_eq!(sampling_probability(0, 2), 0.0);
    assert_eq!(sampling_probability(u64::MAX, 2), 1.0);
}

#[test]
fn sample_variance_follows_formula() {
    let p: f64 = 0.25;
    let bytes = Estimate::of_sample(10, 1.0 / p, SampleUnit::Bytes);
    assert_eq!(bytes, Estimate::new(40.0, (1.0 - p) / (p * p) * 100.0));
    let objects = Estimate::of_sample(10, 1.0 / p, SampleUnit::Objects);
    assert_eq!(objects, Estimate::new(4.0, (1.0 - p) / (p * p)));
}

#[test]
fn variances_add_in_differences() {
    let a = Estimate::new(10.0, 4.0);
    let b = Estimate::new(3.0, 5.0);
    assert_eq!(a + b, Estimate::new(13.0, 9.0));
    assert_eq!(a - b, Estimate::new(7.0, 9.0));
    assert_eq!(-a, Estimate::new(-10.0, 4.0));
    assert_eq!([a, b].into_iter().sum::<Estimate>(), a + b);
}

#[test]
fn change_within_interval_is_insignificant() {
    let sigma = Estimate::new(0.0, 25.0);
    assert!((sigma.half_width_95() - 9.79982).abs() < 1e-9);
    assert!(!Estimate { value: 9.79, ..sigma }.is_significant());
    assert!(Estimate { value: -9.81, ..sigma }.is_significant());
    assert!(Estimate::exact(1.0).is_significant());
    assert!(!Estimate::exact(0.0).is_significant());
}
