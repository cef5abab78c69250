//! Estimates from a random part of each stratum, and how certain they are.
//!
//! From the N pieces of a stratum, n are drawn without replacement. The quantity estimated for each piece is its remainder e = y − B·x, where x
//! is what the piece has resident and B = Σy/Σx over the arena: the total is B·X + Σ N·ē, its variance Σ N²·(1 − n/N)·s²/n (Cochran, Sampling
//! Techniques, 5.3 and 7.8). The degrees of freedom are Satterthwaite's. A piece that is unlike all that were drawn may be among the others: the
//! largest remainder, a page at least, counts once more.

use crate::memory::PAGE_BYTES;
use borsh::{BorshDeserialize, BorshSerialize};
use std::iter::Sum;
use std::ops::Add;

/// 97.5% quantile of the standard normal distribution.
const NORMAL_QUANTILE_975: f64 = 1.959964;
/// Seed of the draw: the same heap yields the same figures.
const SEED: u64 = 0x5EED;

/// How uncertain an estimate is. The sum of the spreads of independent estimates is the spread of their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct Spread {
    /// Sum of the strata's variances.
    variance: f64,
    /// Each stratum's variance squared, by its degrees of freedom.
    doubt: f64,
    /// For what was not drawn.
    unseen: f64,
}

impl Add for Spread {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            variance: self.variance + other.variance,
            doubt: self.doubt + other.doubt,
            unseen: self.unseen + other.unseen,
        }
    }
}

impl Sum for Spread {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}

impl Spread {
    /// Returns the spread of a stratum of `count` pieces, of which those with these remainders were drawn.
    pub fn of_stratum(
        count: usize,
        remainders: impl ExactSizeIterator<Item = f64> + Clone,
    ) -> Self {
        let (all, drawn) = (count as f64, remainders.len() as f64);
        if remainders.len() < 2 || remainders.len() >= count {
            return Self::default();
        }
        let mean = remainders.clone().sum::<f64>() / drawn;
        let squares: f64 = remainders.map(|value| (value - mean).powi(2)).sum();
        let variance = all * all * (1.0 - drawn / all) * squares / (drawn - 1.0) / drawn;
        Self { variance, doubt: variance * variance / (drawn - 1.0), unseen: 0.0 }
    }

    /// One piece more that is as far off as the furthest of `drawn`, of `all` pieces.
    pub fn of_unseen(all: usize, drawn: usize, furthest: f64) -> Self {
        let (all, drawn) = (all as f64, drawn as f64);
        let each = furthest.max(PAGE_BYTES as f64) * all / drawn.max(1.0);
        let unseen = (1.0 - drawn / all.max(1.0)).max(0.0) * each * each;
        Self { unseen, ..Self::default() }
    }

    /// Returns the spread of an estimate that may be off by `bytes` either way, however many pieces were drawn.
    pub fn of_count(bytes: f64) -> Self {
        Self { unseen: bytes * bytes, ..Self::default() }
    }

    /// Half the width of the 95% interval.
    pub fn half_width_95(self) -> f64 {
        let freedom = if self.doubt > 0.0 { self.variance.powi(2) / self.doubt } else { f64::MAX };
        student_quantile_975(freedom) * (self.variance + self.unseen).sqrt()
    }

    /// The wider of two.
    pub fn max(self, other: Self) -> Self {
        if other.half_width_95() > self.half_width_95() { other } else { self }
    }
}

/// 97.5% quantile of Student's t (Abramowitz and Stegun, 26.7.5; within 1% from 3 degrees of freedom on).
fn student_quantile_975(freedom: f64) -> f64 {
    let n = freedom;
    let z = NORMAL_QUANTILE_975;
    match n {
        ..2.0 => 12.706,
        2.0..3.0 => 4.303,
        _ => {
            z + (z.powi(3) + z) / (4.0 * n)
                + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
                + (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z)
                    / (384.0 * n.powi(3))
        }
    }
}

/// Random numbers: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
pub struct Draw(u64);

impl Draw {
    pub fn new() -> Self {
        Self(SEED)
    }

    /// Less than `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(word ^ word >> 31) * bound as u128) >> 64) as usize
    }

    /// Every order is as likely as any other.
    pub fn shuffle(&mut self, items: &mut [usize]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}
