//! Which allocations become samples, and what one sample stands for: Poisson sampling by bytes.
//!
//! A thread's countdown is drawn from the exponential distribution with mean T, the sampling interval. Allocating s bytes
//! takes s off; a borrow makes the allocation a sample. The exponential distribution has no memory, so every allocation of
//! size s is sampled with probability p(s) = 1 − e^(−s/T), whatever came before, and stands for 1/p objects and s/p bytes.

use ramson_format::control::LOOK_BYTES;

/// Default sampling interval.
pub const DEFAULT_INTERVAL_BYTES: u64 = 512 << 10;
/// A countdown that no program exhausts: "off".
pub const PARKED: u64 = u64::MAX >> 1;
/// The countdown of a thread that is busy with a sample. Small, so that a thread that left a slow path by siglongjmp soon
/// comes by again.
pub const BUSY: u64 = 64 << 10;
/// Steps in which a mean draw is used up, where steps are made: what is lost in recovery against the cost of a visit.
const STEPS_PER_INTERVAL: u64 = 8;

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
/// countdown, and s > ⌊X⌋ holds for a whole s exactly if s > X does. An interval of 1 or less samples
/// whatever takes something off the countdown: all but malloc(0).
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
/// `interval_bytes` is the one that the countdown was drawn with, which need not be the one in force now.
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

/// How much of a draw goes into the countdown at once. At each step the thread asks whether the interval has changed, long before a large
/// draw is used up: often while the governor holds the interval above `configured_bytes`.
#[inline]
pub fn step_bytes(interval_bytes: u64, configured_bytes: u64) -> u64 {
    if interval_bytes <= configured_bytes {
        return LOOK_BYTES;
    }
    (interval_bytes / STEPS_PER_INTERVAL).max(configured_bytes).min(LOOK_BYTES)
}

/// In how many steps a mean draw is used up, 0 where steps are not made.
pub fn steps(interval_bytes: u64, configured_bytes: u64) -> u64 {
    interval_bytes / step_bytes(interval_bytes, configured_bytes).max(1)
}

/// Returns the rest of a draw after an allocation before which `countdown` bytes were left until the next step, and `beyond` bytes after it;
/// `borrowed` is the countdown as that allocation left it. `None`: the draw is used up, the allocation is a sample.
#[inline]
pub fn rest_of_draw(borrowed: u64, beyond: u64) -> Option<u64> {
    beyond.checked_sub(borrowed.wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_format::control::LOOK_BYTES_PAUSED;

    /// A thread's sampler, as the hooks drive it.
    struct Sampler {
        random: u64,
        countdown: u64,
        beyond: u64,
        drawn_with: u64,
        configured: u64,
    }

    /// Sums over samples: estimated objects and bytes.
    #[derive(Clone, Copy, Default)]
    struct Sums {
        samples: u64,
        objects: f64,
        bytes: f64,
    }

    impl Sampler {
        fn new(number: u64, interval: u64) -> Self {
            let random = next_random(seed(number));
            let countdown = draw_countdown(random, interval);
            Self { random, countdown, beyond: 0, drawn_with: interval, configured: interval }
        }

        fn draw(&mut self, interval: u64) -> u64 {
            self.random = next_random(self.random);
            self.drawn_with = interval;
            draw_countdown(self.random, interval)
        }

        fn put(&mut self, bytes: u64) {
            let step = step_bytes(self.drawn_with, self.configured);
            self.countdown = bytes.min(step);
            self.beyond = bytes.saturating_sub(step);
        }

        /// Makes `count` allocations of `size` while `interval` is in force.
        fn feed(&mut self, size: u64, count: u64, interval: u64) -> Sums {
            let mut sums = Sums::default();
            for _ in 0..count {
                let (rest, is_due) = self.countdown.overflowing_sub(size);
                self.countdown = rest;
                if !is_due {
                    continue;
                }
                if self.drawn_with == 0 {
                    // Sampling was off: this allocation is the first of a new draw.
                    let first = self.draw(interval);
                    if let Some(rest) = first.checked_sub(size) {
                        self.put(rest);
                        continue;
                    }
                    let inverse = inverse_probability(size, interval);
                    sums.samples += 1;
                    sums.objects += inverse;
                    sums.bytes += inverse * size as f64;
                    let next = self.draw(interval);
                    self.put(next);
                } else if let Some(rest) = rest_of_draw(rest, self.beyond) {
                    let is_same = self.drawn_with == interval;
                    let left = if is_same { rest } else { self.draw(interval) };
                    self.put(left);
                } else {
                    let inverse = inverse_probability(size, self.drawn_with);
                    sums.samples += 1;
                    sums.objects += inverse;
                    sums.bytes += inverse * size as f64;
                    let next = self.draw(interval);
                    self.put(next);
                }
            }
            sums
        }
    }

    impl Sampler {
        /// As `feed`; adds the estimated bytes, their variance and the true bytes.
        fn feed_counting(&mut self, size: u64, count: u64, interval: u64, sums: &mut [f64; 3]) {
            for _ in 0..count {
                // One at a time: what a sample stands for depends on the interval of its draw.
                let drawn_with = self.drawn_with;
                let sampled = self.feed(size, 1, interval);
                if sampled.samples == 1 {
                    let of = if drawn_with == 0 { interval } else { drawn_with };
                    let inverse = inverse_probability(size, of);
                    sums[0] += sampled.bytes;
                    sums[1] += inverse * (inverse - 1.0) * (size * size) as f64;
                }
                if self.drawn_with != 0 {
                    sums[2] += size as f64;
                }
            }
        }

        /// Makes allocations while sampling is off: at the end of what was drawn, the thread takes note of that.
        fn pass(&mut self, size: u64, count: u64) {
            for _ in 0..count {
                let (rest, is_due) = self.countdown.overflowing_sub(size);
                self.countdown = rest;
                if is_due {
                    self.countdown = LOOK_BYTES_PAUSED;
                    self.beyond = 0;
                    self.drawn_with = 0;
                }
            }
        }
    }

    /// Mean of the values, and the standard error of the mean.
    fn mean_and_error(values: &[f64]) -> (f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance =
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, (variance / count).sqrt())
    }

    #[test]
    fn mean_estimate_is_unbiased() {
        const T: u64 = 512 << 10;
        for size in [1, 8, 100, 4096, T / 16, T / 2, T, 2 * T, 8 * T, 64 << 20] {
            let count = (64 * T / size).clamp(64, 1 << 22);
            let runs = if count > 1 << 20 { 24 } else { 400 };
            let truth = (size * count) as f64;
            let estimates: Vec<f64> = (0..runs)
                .map(|run| Sampler::new(run * 7919 + size, T).feed(size, count, T).bytes)
                .collect();
            let (mean, error) = mean_and_error(&estimates);
            assert!(
                (mean - truth).abs() <= 3.0 * error + 1e-9 * truth,
                "size {size}: {mean} instead of {truth}, standard error {error}"
            );
        }
    }

    #[test]
    fn interval_covers_truth() {
        const T: u64 = 512 << 10;
        for size in [100, 4096, T / 16, T / 2, T, 2 * T] {
            let count = 200 * T / size + 300;
            let runs = if count > 1 << 18 { 600 } else { 4000 };
            let inverse = inverse_probability(size, T);
            let covered = (0..runs)
                .filter(|run| {
                    let sums = Sampler::new(run * 104_729 + size, T).feed(size, count, T);
                    // Var = Σ (1 − p)/p² = Σ (1/p)(1/p − 1), in objects².
                    let half_width =
                        1.96 * (sums.samples as f64 * inverse * (inverse - 1.0)).sqrt();
                    (sums.objects - count as f64).abs() <= half_width
                })
                .count();
            let share = covered as f64 / runs as f64;
            // Two sigmas of a share of 0.95 over 600 runs are 0.018; over 4,000 runs 0.007.
            let slack = if runs == 600 { 0.018 } else { 0.007 };
            assert!((0.93 - slack..=0.97 + slack).contains(&share), "size {size}: {share}");
        }
    }

    /// Over many samplers, the estimates of `plan` (interval in force, size, count) are the truth within 3 standard errors.
    fn assert_unbiased(plan: &[(u64, u64, u64)], samplers: impl Iterator<Item = Sampler>) {
        let mut objects = Vec::new();
        let mut bytes = Vec::new();
        for mut sampler in samplers {
            let feed =
                |&(interval, size, count): &(u64, u64, u64)| sampler.feed(size, count, interval);
            let parts: Vec<_> = plan.iter().map(feed).collect();
            objects.push(parts.iter().map(|sums| sums.objects).sum::<f64>());
            bytes.push(parts.iter().map(|sums| sums.bytes).sum::<f64>());
        }
        let true_objects: u64 = plan.iter().map(|(_, _, count)| count).sum();
        let true_bytes: u64 = plan.iter().map(|(_, size, count)| size * count).sum();
        for (values, truth) in [(objects, true_objects), (bytes, true_bytes)] {
            let (mean, error) = mean_and_error(&values);
            assert!((mean - truth as f64).abs() <= 3.0 * error, "{mean} {truth} {error}");
        }
    }

    #[test]
    fn changed_interval_stays_unbiased() {
        let plan = [
            (512 << 10, 16, 1 << 20),
            (512 << 10, 1 << 20, 16),
            (64 << 10, 300, 1 << 16),
            (1 << 20, 5000, 3000),
        ];
        assert_unbiased(&plan, (0..600).map(|run| Sampler::new(run + 1, 512 << 10)));
    }

    #[test]
    fn stepped_draws_stay_unbiased() {
        const CONFIGURED: u64 = 64 << 10;
        // Interval in force, size, count: large draws that are given up at a step, blocks larger than a step, and steps of both kinds.
        let plan = [
            (64 << 10, 100, 4000),
            (16 << 20, 100, 40_000),
            (16 << 20, 3 << 20, 40),
            (1 << 20, 5000, 2000),
            (64 << 10, 20_000, 200),
            (4 << 20, 70_000, 300),
        ];
        assert_unbiased(&plan, (0..1500).map(|run| Sampler::new(run * 31 + 7, CONFIGURED)));
    }

    /// A minute in which the interval changes every second, and sampling goes off and on: four threads, each with its own sampler.
    /// Allocations while sampling is off, and until a thread looks again, count on neither side.
    #[test]
    fn changing_interval_covers_truth() {
        const RUNS: u64 = 600;
        const SIZES: [u64; 4] = [2000, 9000, 70_000, 600_000];
        const INTERVALS: [Option<u64>; 7] = [
            Some(512 << 10),
            Some(64 << 10),
            None,
            Some(4 << 20),
            Some(200_000),
            Some(1 << 20),
            Some(30_000),
        ];
        let mut covered = 0;
        for run in 0..RUNS {
            let mut sums = [0.0; 3];
            for (thread, size) in (0..).zip(SIZES) {
                let mut sampler = Sampler::new(run * 4 + thread + 1, 512 << 10);
                for second in 0..60 {
                    let count = (24 << 20) / size + 1;
                    match INTERVALS[second % INTERVALS.len()] {
                        None => sampler.pass(size, count),
                        Some(interval) => sampler.feed_counting(size, count, interval, &mut sums),
                    }
                }
            }
            let [estimate, variance, truth] = sums;
            assert!(truth > 0.3 * 4.0 * 60.0 * 24e6);
            covered += u64::from((estimate - truth).abs() <= 1.96 * f64::sqrt(variance));
        }
        let share = covered as f64 / RUNS as f64;
        // Two sigmas of a share of 0.95 over 600 runs are 0.018.
        assert!((0.93 - 0.018..=0.97 + 0.018).contains(&share), "{share}");
    }

    #[test]
    fn step_ends_before_large_draw() {
        assert_eq!(step_bytes(4096, 4096), LOOK_BYTES);
        assert_eq!(step_bytes(16 << 30, 4096), LOOK_BYTES);
        assert_eq!(step_bytes(8192, 4096), 4096);
        assert_eq!(step_bytes(1 << 20, 4096), 1 << 17);
        // 10 bytes were left until the step, and 100 after it.
        let borrowed = |size: u64| 10u64.wrapping_sub(size);
        assert_eq!(rest_of_draw(borrowed(11), 100), Some(99));
        assert_eq!(rest_of_draw(borrowed(110), 100), Some(0));
        assert_eq!(rest_of_draw(borrowed(111), 100), None);
        assert_eq!(rest_of_draw(borrowed(11), 0), None);
    }

    #[test]
    fn interval_of_one_samples_everything() {
        assert_eq!(draw_countdown(12345, 1), 0);
        assert_eq!(inverse_probability(1, 1), 1.0);
        assert_eq!(inverse_probability(1 << 40, 512 << 10), 1.0);
    }
}
