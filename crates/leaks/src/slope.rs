//! How fast a figure of the whole process grows, from looks at it: a straight line through them.

use crate::growth::NS_PER_HOUR;
use ramson_profile::Estimate;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// With fewer looks the error of the line is not known.
const LEAST_LOOKS: usize = 4;
/// Quantile of the normal distribution for 95%, which turns a variance into what is printed.
const Z_95: f64 = 1.959_964;
/// Looks that follow each other closely are alike, as far as this at most.
const MOST_ALIKE: f64 = 0.9;

/// The growth of a figure between the first look and the last one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Slope {
    /// Bytes per hour. Its interval says how well a straight line fits; null if there were fewer than four looks.
    pub bytes_per_hour: Estimate,
    /// Time between the first look and the last one.
    pub window_ns: u64,
    /// How many looks there were.
    pub looks: usize,
}

impl Slope {
    /// The least squares line through looks, each a time in ns and a figure in bytes; `None` if all are of one time. The variance counts
    /// that the distances of consecutive looks from the line are correlated, and that it was estimated from few looks (Student).
    pub fn of(looks: &[(u64, f64)]) -> Option<Self> {
        let first_ns = looks.iter().map(|look| look.0).min()?;
        let window_ns = looks.iter().map(|look| look.0).max()? - first_ns;
        let points =
            looks.iter().map(|&(at_ns, bytes)| ((at_ns - first_ns) as f64 / NS_PER_HOUR, bytes));
        let points: Vec<(f64, f64)> = points.collect();
        let mean =
            |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
        let (hours, bytes) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|point| (point.0 - hours).powi(2)).sum();
        if spread <= 0.0 {
            return None;
        }
        let product: f64 = points.iter().map(|point| (point.0 - hours) * (point.1 - bytes)).sum();
        let value = product / spread;
        let rests = points.iter().map(|point| point.1 - bytes - value * (point.0 - hours));
        let variance = variance(&rests.collect::<Vec<f64>>(), spread);
        let bytes_per_hour = Estimate { value, variance, known: 0.0 };
        Some(Self { bytes_per_hour, window_ns, looks: looks.len() })
    }

    /// Whether it grows for sure: 0 is below the interval.
    pub fn is_growth(&self) -> bool {
        self.looks >= LEAST_LOOKS && self.bytes_per_hour.value > self.bytes_per_hour.half_width_95()
    }
}

/// Variance of a slope with these distances from the line.
fn variance(rests: &[f64], spread: f64) -> f64 {
    if rests.len() < LEAST_LOOKS {
        return 0.0;
    }
    let freedom = (rests.len() - 2) as f64;
    let squares: f64 = rests.iter().map(|rest| rest * rest).sum();
    let products: f64 = rests.windows(2).map(|pair| pair[0] * pair[1]).sum();
    // Few looks make the correlation seem smaller than it is, by (1 + 4r)/n (Kendall 1954).
    let seen = if squares > 0.0 { products / squares } else { 0.0 };
    let alike = (seen + (1.0 + 4.0 * seen) / rests.len() as f64).clamp(0.0, MOST_ALIKE);
    let quantile =
        StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |it| it.inverse_cdf(0.975));
    squares / freedom / spread * (1.0 + alike) / (1.0 - alike) * (quantile / Z_95).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Deterministic noise of standard deviation 1, roughly normal: a sum of twelve uniform numbers.
    fn noise(state: &mut u64) -> f64 {
        let mut uniform = || {
            *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (*state >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }

    #[test]
    fn slope_of_a_line_is_exact() {
        let looks: Vec<(u64, f64)> =
            (0..10).map(|at| (at * SECOND, 5.0 + 2.0 * at as f64)).collect();
        let slope = Slope::of(&looks).unwrap();
        assert!((slope.bytes_per_hour.value - 7200.0).abs() < 1e-6 && slope.is_growth());
        assert!(slope.bytes_per_hour.half_width_95() < 1e-3);
        assert_eq!((slope.window_ns, slope.looks), (9 * SECOND, 10));
        assert_eq!(Slope::of(&looks[..1]), None);
        assert!(!Slope::of(&looks[..3]).unwrap().is_growth(), "its error is not known");
    }

    /// The interval holds the true slope in 95% of runs, also where consecutive looks are alike, as in a sawtooth of a garbage collector.
    #[test]
    fn interval_covers_true_slope() {
        let mut state = 7;
        for (alike, least, most) in [(0.0, 0.93, 0.99), (0.6, 0.85, 0.99)] {
            let mut covered = 0;
            for _ in 0..2000 {
                let mut rest = 0.0;
                let mut look = |at: u64| {
                    rest = alike * rest + noise(&mut state);
                    (at * SECOND, 3.0 * at as f64 + 20.0 * rest)
                };
                let looks: Vec<(u64, f64)> = (0..16).map(&mut look).collect();
                let slope = Slope::of(&looks).unwrap().bytes_per_hour;
                covered += usize::from((slope.value - 3.0 * 3600.0).abs() <= slope.half_width_95());
            }
            let share = covered as f64 / 2000.0;
            assert!((least..=most).contains(&share), "{alike}: {share}");
        }
    }
}
