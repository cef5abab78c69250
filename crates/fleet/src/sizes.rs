//! Sizes of samples that were taken and freed between two looks. The profile knows of them, by stack, how many there were, the sum of their
//! sizes and the objects that they stand for. Sizes are chosen that have the same sums:
//!
//! - The number and the sum of the sizes are exact. So are one size, and two.
//! - The objects that they stand for differ by less than one step: that of one sample that is a byte larger, T / (a·(a + 1)) for the
//!   smallest size a and an interval T. It is more only if no sizes with these sums exist.
//! - Bytes are nearly T + s/2 for a sample of size s below T, and s above, so that an equal sum of sizes is nearly an equal sum of
//!   bytes. `tests/fleet` measures the rest.

use ramson_profile::sampling_probability;
use std::collections::BTreeMap;

/// Sums of floats differ by rounding.
const ROUNDED: f64 = 1.0 - 1e-12;

/// Sizes, and how many samples have each; ascending.
pub type Sizes = Vec<(u64, u64)>;

/// Objects that a sample of so many bytes stands for.
pub fn objects(size: u64, interval: u64) -> f64 {
    1.0 / sampling_probability(size.max(1), interval)
}

/// The interval with which samples were taken that stand for so many objects, `most` at most: a busy program's changes by itself. With the
/// larger one equal sizes, which stand for the fewest objects, would stand for too many; then it is the one with which they fit.
pub fn fitting_interval(count: u64, sum: u64, standing_for: f64, most: u64) -> u64 {
    let mean = sum / count.max(1);
    let enough = standing_for * ROUNDED;
    first(1, most, |interval| count as f64 * objects(mean, interval) >= enough)
}

/// `count` sizes with this sum that stand for so many objects.
pub fn with_sums(count: u64, sum: u64, standing_for: f64, interval: u64) -> Sizes {
    if count == 0 {
        return Vec::new();
    }
    let of = |small: u64, size: u64, larger: u64| Split { count, sum, small, size, larger };
    let is_enough = |split: Split| split.objects(interval) >= standing_for * ROUNDED;
    // Half of them are small, or more if a few large ones have most of the sum.
    let half = count / 2;
    let small = first(half, count - 1, |small| is_enough(of(small, 1, 0)));
    if small == 0 {
        return of(0, 1, 0).sizes();
    }
    // The larger they are, the fewer objects: the first size at which it is too few.
    let mean = (sum / count).max(1);
    let too_few = first(1, mean + 1, |size| !is_enough(of(small, size, 0)));
    let size = too_few.saturating_sub(1).max(1);
    let most = if size < mean { small } else { 0 };
    let larger = first(0, most, |larger| !is_enough(of(small, size, larger)));
    let nearest = [larger.saturating_sub(1), larger].map(|larger| of(small, size, larger));
    let distance = |split: &Split| (split.objects(interval) - standing_for).abs();
    let [one, other] = nearest;
    if distance(&one) <= distance(&other) { one.sizes() } else { other.sizes() }
}

/// The first number from `from` on that `is_it`, as are all after it; `to` if none before is.
fn first(mut from: u64, mut to: u64, is_it: impl Fn(u64) -> bool) -> u64 {
    while from < to {
        let middle = from + (to - from) / 2;
        if is_it(middle) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    from
}

/// `small` of them have a size, `larger` of these a byte more, and the others share the rest of the sum.
#[derive(Clone, Copy)]
struct Split {
    count: u64,
    sum: u64,
    small: u64,
    size: u64,
    larger: u64,
}

impl Split {
    fn sizes(self) -> Sizes {
        let large = self.count - self.small;
        let rest = self.sum.saturating_sub(self.small * self.size + self.larger);
        let (each, more) = (rest / large, rest % large);
        let all = [
            (self.size, self.small - self.larger),
            (self.size + 1, self.larger),
            (each, large - more),
            (each + 1, more),
        ];
        let mut sizes = BTreeMap::new();
        for (size, n) in all.into_iter().filter(|&(_, n)| n > 0) {
            *sizes.entry(size).or_default() += n;
        }
        sizes.into_iter().collect()
    }

    fn objects(self, interval: u64) -> f64 {
        self.sizes().iter().map(|&(size, n)| n as f64 * objects(size, interval)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 512 << 10;

    #[test]
    fn smaller_interval_than_the_last_is_found() {
        for (size, interval) in [(100, 64 << 10), (5000, 200_000), (300_000, INTERVAL)] {
            let standing_for = 40.0 * objects(size, interval);
            let found = fitting_interval(40, 40 * size, standing_for, INTERVAL);
            assert!(found.abs_diff(interval) <= 1, "{found} {interval}");
            assert_eq!(with_sums(40, 40 * size, standing_for, found), [(size, 40)]);
        }
        // Sizes that differ stand for more objects than equal ones: no smaller interval is needed.
        let standing_for = 20.0 * objects(100, INTERVAL) + 20.0 * objects(9000, INTERVAL);
        assert_eq!(fitting_interval(40, 20 * 9100, standing_for, INTERVAL), INTERVAL);
    }

    fn sums(sizes: &[(u64, u64)]) -> (u64, u64, f64, f64) {
        let of = |term: fn(u64) -> f64| {
            sizes.iter().map(|&(size, n)| n as f64 * term(size)).sum::<f64>()
        };
        let bytes = of(|size| size as f64 * objects(size, INTERVAL));
        let count = sizes.iter().map(|&(_, n)| n).sum();
        let sum = sizes.iter().map(|&(size, n)| size * n).sum();
        (count, sum, of(|size| objects(size, INTERVAL)), bytes)
    }

    fn chosen(sizes: &[(u64, u64)]) -> Sizes {
        let (count, sum, standing_for, _) = sums(sizes);
        with_sums(count, sum, standing_for, INTERVAL)
    }

    #[test]
    fn one_and_two_sizes_are_exact() {
        for size in [1, 8, 4096, 1 << 20, 1 << 40] {
            assert_eq!(chosen(&[(size, 1)]), [(size, 1)]);
            assert_eq!(chosen(&[(size, 7)]), [(size, 7)]);
        }
        for (one, other) in [(16, 24), (16, 5000), (100, 101), (64, 1 << 20), (1, 1 << 30)] {
            assert_eq!(chosen(&[(one, 1), (other, 1)]), [(one, 1), (other, 1)]);
        }
        assert!(with_sums(0, 0, 0.0, INTERVAL).is_empty());
    }

    #[test]
    fn sums_of_any_sizes_are_kept() {
        // Pseudorandom sizes from 8 bytes to 1 MiB, evenly by their logarithm.
        let mut seed = 1_u64;
        let mut size = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (8.0 * 2_f64.powf((seed >> 40) as f64 / (1 << 24) as f64 * 17.0)) as u64
        };
        let (mut worst, mut all) = (0.0_f64, [0.0; 2]);
        for number in 0..2000 {
            let sizes: Sizes = (0..3 + number % 40).map(|_| (size(), 1)).collect();
            let (count, sum, standing_for, bytes) = sums(&sizes);
            let found = chosen(&sizes);
            let (found_count, found_sum, found_objects, found_bytes) = sums(&found);
            assert_eq!((found_count, found_sum), (count, sum));
            assert!(found.len() <= 4);
            let smallest = found[0].0 as f64;
            let step = INTERVAL as f64 / (smallest * (smallest + 1.0));
            assert!((found_objects - standing_for).abs() <= step, "{sizes:?}: {found:?}");
            worst = worst.max((found_bytes / bytes - 1.0).abs());
            all = [all[0] + bytes, all[1] + found_bytes];
        }
        assert!(worst < 0.08, "{worst}");
        assert!((all[1] / all[0] - 1.0).abs() < 0.01, "{all:?}");
    }
}
