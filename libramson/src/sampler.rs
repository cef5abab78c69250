//! Which allocations become samples, and what one sample stands for: Poisson sampling by bytes.
//!
//! A thread's countdown is drawn from the exponential distribution with mean T, the sampling interval. Allocating s bytes
//! takes s off; a borrow makes the allocation a sample. The exponential distribution has no memory, so every allocation of
//! size s is sampled with probability p(s) = 1 − e^(−s/T), whatever came before, and stands for 1/p objects and s/p bytes.

/// Default sampling interval.
pub const DEFAULT_INTERVAL_BYTES: u64 = 512 << 10;
/// A countdown that no program exhausts: "off".
pub const PARKED: u64 = u64::MAX >> 1;
/// Largest interval; beyond it draws could reach `PARKED`.
pub const MAX_INTERVAL_BYTES: u64 = 1 << 50;

/// A random state that follows `state` (xorshift64; never 0 if `state` is not).
#[inline]
pub const fn next_random(state: u64) -> u64 {
    let state = state ^ (state << 13);
    let state = state ^ (state >> 7);
    state ^ (state << 17)
}

/// Spreads a seed over all bits (the finalizer of splitmix64) and keeps it off 0.
#[inline]
pub const fn seed(entropy: u64) -> u64 {
    let mixed = (entropy ^ (entropy >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) | 1
}

/// The next countdown: ⌊X⌋ with X exponential of mean `interval_bytes`. An allocation is sampled if its size exceeds the
/// countdown, and s > ⌊X⌋ holds for a whole s exactly if s > X does. An interval of 1 or less samples everything.
#[inline]
pub fn draw_countdown(random: u64, interval_bytes: u64) -> u64 {
    if interval_bytes <= 1 {
        return 0;
    }
    // xorshift's high bits, multiplied, are the good ones; the half keeps u off 0.
    let bits = random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
    let uniform = (bits as f64 + 0.5) * (1.0 / (1u64 << 53) as f64);
    (-libm::log(uniform) * interval_bytes as f64) as u64
}

/// 1/p(s): the number of objects that a sample of `size` bytes stands for; `size` times it is the number of bytes.
#[inline]
pub fn inverse_probability(size: u64, interval_bytes: u64) -> f64 {
    if interval_bytes <= 1 {
        return 1.0;
    }
    let ratio = size as f64 / interval_bytes as f64;
    if ratio > 40.0 {
        return 1.0;
    }
    1.0 / -libm::expm1(-ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `count` allocations of `size` to one countdown, as the hooks do, and returns the number sampled.
    fn sampled(random: &mut u64, countdown: &mut u64, size: u64, count: u64, interval: u64) -> u64 {
        let mut samples = 0;
        for _ in 0..count {
            let (rest, due) = countdown.overflowing_sub(size);
            *countdown = rest;
            if due {
                samples += 1;
                *random = next_random(*random);
                *countdown = draw_countdown(*random, interval);
            }
        }
        samples
    }

    fn start(seed_number: u64, interval: u64) -> (u64, u64) {
        let random = next_random(seed(seed_number));
        (random, draw_countdown(random, interval))
    }

    #[test]
    fn the_mean_estimate_is_within_three_standard_errors_of_the_truth_for_every_size() {
        const T: u64 = 512 << 10;
        for size in [1, 8, 100, 4096, T / 16, T / 2, T, 2 * T, 8 * T, 64 << 20] {
            let count = (64 * T / size).clamp(64, 1 << 22);
            let runs = if count > 1 << 20 { 24 } else { 400 };
            let truth = (size * count) as f64;
            let estimates: Vec<f64> = (0..runs)
                .map(|run| {
                    let (mut random, mut countdown) = start(run * 7919 + size, T);
                    let n = sampled(&mut random, &mut countdown, size, count, T);
                    n as f64 * size as f64 * inverse_probability(size, T)
                })
                .collect();
            let mean = estimates.iter().sum::<f64>() / runs as f64;
            let variance =
                estimates.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (runs - 1) as f64;
            let error = (variance / runs as f64).sqrt();
            assert!(
                (mean - truth).abs() <= 3.0 * error + 1e-9 * truth,
                "size {size}: {mean} instead of {truth}, standard error {error}"
            );
        }
    }

    #[test]
    fn the_interval_covers_the_truth_in_93_to_97_of_100_runs() {
        const T: u64 = 512 << 10;
        for size in [100, 4096, T / 16, T / 2, T, 2 * T] {
            let count = 200 * T / size + 300;
            let runs = if count > 1 << 18 { 600 } else { 4000 };
            let inverse = inverse_probability(size, T);
            let covered = (0..runs)
                .filter(|run| {
                    let (mut random, mut countdown) = start(run * 104_729 + size, T);
                    let n = sampled(&mut random, &mut countdown, size, count, T) as f64;
                    // Var = Σ (1 − p)/p² = Σ (1/p)(1/p − 1), in objects².
                    let half_width = 1.96 * (n * inverse * (inverse - 1.0)).sqrt();
                    (n * inverse - count as f64).abs() <= half_width
                })
                .count();
            let share = covered as f64 / runs as f64;
            // Two sigmas of a share of 0.95 over 600 runs are 0.018; over 4,000 runs 0.007.
            let slack = if runs == 600 { 0.018 } else { 0.007 };
            assert!((0.93 - slack..=0.97 + slack).contains(&share), "size {size}: {share}");
        }
    }

    #[test]
    fn mixed_sizes_and_an_interval_that_changes_midway_stay_unbiased() {
        let runs = 600;
        let (mut objects, mut bytes) = (Vec::new(), Vec::new());
        for run in 0..runs {
            let (mut random, mut countdown) = start(run + 1, 512 << 10);
            let (mut o, mut b) = (0.0, 0.0);
            for (interval, size, count) in
                [(512 << 10, 16, 1 << 20), (512 << 10, 1 << 20, 16), (64 << 10, 300, 1 << 16)]
            {
                let n = sampled(&mut random, &mut countdown, size, count, interval) as f64;
                o += n * inverse_probability(size, interval);
                b += n * size as f64 * inverse_probability(size, interval);
            }
            objects.push(o);
            bytes.push(b);
        }
        let true_objects = ((1 << 20) + 16 + (1 << 16)) as f64;
        let true_bytes = ((16u64 << 20) + (16 << 20) + (300 << 16)) as f64;
        for (values, truth) in [(objects, true_objects), (bytes, true_bytes)] {
            let mean = values.iter().sum::<f64>() / runs as f64;
            let variance =
                values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (runs - 1) as f64;
            // The first draw after the change still has the old interval's mean: allow 3 standard errors.
            let error = (variance / runs as f64).sqrt();
            assert!((mean - truth).abs() <= 3.0 * error, "{mean} {truth} {error}");
        }
    }

    #[test]
    fn an_interval_of_one_samples_every_allocation_with_weight_one() {
        assert_eq!(draw_countdown(12345, 1), 0);
        assert_eq!(inverse_probability(1, 1), 1.0);
        assert_eq!(inverse_probability(1 << 40, 512 << 10), 1.0);
    }
}
