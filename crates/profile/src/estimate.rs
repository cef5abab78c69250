//! How certain a sampled number is: Horvitz–Thompson estimates, their variance and their 95% interval.
//!
//! Derivation. The sampler puts points on the stream of allocated bytes, on average one per T bytes, with exponential
//! gaps; an allocation is recorded if at least one point falls into it. Gaps have no memory, so each allocation of size
//! s is recorded independently with probability p(s) = 1 − e^(−s/T). Let x be what one allocation counts (1 object, or
//! s bytes) and I ∈ {0, 1} say whether it was recorded. Then x·I/p has the mean x: the sum over recorded allocations
//! of x/p is unbiased. Its variance is Σ over *all* allocations of x²·(1 − p)/p; since only recorded ones are known, and
//! each stands for 1/p, Σ over *recorded* allocations of x²·(1 − p)/p² estimates that variance, again without bias.

use borsh::{BorshDeserialize, BorshSerialize};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub};

/// 97.5% quantile of the standard normal distribution: half of a two-sided 95% interval, in standard deviations.
pub const NORMAL_QUANTILE_975: f64 = 1.959964;

/// A total that is further from the sum of the estimates, in standard deviations, has memory that the profile did not see.
const MOST_DEVIATIONS: f64 = 4.0;
/// If nothing is uncertain: part of the total that may be missing, as blocks are a little larger than their requests tell.
const MOST_ROUNDED: f64 = 0.01;
/// A part of a variance that is smaller is none.
const ROUNDING_ERROR: f64 = 1e-9;
/// With fewer samples, the distribution of an estimate is too skewed for an interval.
const FEW_SAMPLES: f64 = 10.0;
/// By the number of samples, from 0: the mean of a Poisson distribution of which so few come in 5% of cases.
const POISSON_UPPER_95: [f64; 11] =
    [2.996, 4.744, 6.296, 7.754, 9.154, 10.513, 11.842, 13.148, 14.435, 15.705, 16.962];

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleUnit {
    /// Allocations.
    Objects,
    /// Requested bytes.
    Bytes,
}

/// A number that was estimated from samples: the Horvitz–Thompson sum and the variance of that sum.
/// The derivation is at the head of this file. Units are those of the sample type (bytes or objects).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Unbiased estimate. Negative only in a diff; NaN if the profile's source does not count this.
    pub value: f64,
    /// Estimated variance of `value`, in squared units; 0 where every allocation was recorded, NaN if the profile's source
    /// does not say how it sampled, infinite where records were lost: `value` is then of those that are left, and no sum with
    /// it is more certain.
    pub variance: f64,
    /// Error that a calibration has removed (docs/internals/sampling.md), as the root of a variance: the variance that is left is
    /// `variance` − `known`². 0 without a calibration. Adds up as values do over parts of one calibrated profile.
    pub known: f64,
}

/// How the estimates of a profile are corrected by a total that is known better than their sum (docs/internals/sampling.md).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calibration {
    /// What is added to an estimate for each unit of its variance: (B − E)/(V + V_B).
    pub slope: f64,
    /// What becomes known of the error for each unit of its variance: 1/√(V + V_B), with V corrected.
    pub known: f64,
}

/// `{"value": int, "half_width_95": int}`; null for what is not known. If records were lost, also `"at_least": true`.
impl Serialize for Estimate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let integer = |number: f64| number.is_finite().then_some(number as i64);
        let mut object = serializer.serialize_struct("Estimate", 3)?;
        object.serialize_field("value", &integer(self.value.round()))?;
        // Up, so that a small uncertainty does not read as certainty.
        object.serialize_field("half_width_95", &integer(self.half_width_95().ceil()))?;
        if self.is_part() {
            object.serialize_field("at_least", &true)?;
        }
        object.end()
    }
}

/// Writes the bits: a value that is not known is no number, which borsh refuses.
impl BorshSerialize for Estimate {
    fn serialize<W: Write>(&self, out: &mut W) -> io::Result<()> {
        BorshSerialize::serialize(&[self.value, self.variance, self.known].map(f64::to_bits), out)
    }
}

impl BorshDeserialize for Estimate {
    fn deserialize_reader<R: Read>(input: &mut R) -> io::Result<Self> {
        let bits = <[u64; 3]>::deserialize_reader(input)?;
        let [value, variance, known] = bits.map(f64::from_bits);
        Ok(Self { value, variance, known })
    }
}

impl JsonSchema for Estimate {
    fn schema_name() -> Cow<'static, str> {
        "Estimate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "In 95 of 100 cases the true value lies within value ± half_width_95; null: not known. \
                            at_least: records were lost, and the true value is this or more.",
            "type": "object",
            "properties": {
                "value": { "type": ["integer", "null"] },
                "half_width_95": { "type": ["integer", "null"] },
                "at_least": { "const": true },
            },
            "required": ["value", "half_width_95"],
        })
    }
}

/// Probability that an allocation of `size_bytes` is recorded at a sampling interval of `interval_bytes`:
/// 1 − e^(−s/T). 1 at an interval of 0 or 1, whatever the size. libramson records no allocation of 0 bytes, at any interval.
pub fn sampling_probability(size_bytes: u64, interval_bytes: u64) -> f64 {
    if interval_bytes <= 1 {
        return 1.0;
    }
    // 1 − e^(−x) loses all digits for a small x; expm1 keeps them.
    -(-(size_bytes as f64) / interval_bytes as f64).exp_m1()
}

impl Estimate {
    /// An estimate that no calibration has corrected.
    pub const fn new(value: f64, variance: f64) -> Estimate {
        Estimate { value, variance, known: 0.0 }
    }

    /// A number that was counted, not estimated.
    pub fn exact(value: f64) -> Estimate {
        Estimate::new(value, 0.0)
    }

    /// The variance of the error that is left.
    pub fn error_variance(self) -> f64 {
        let left = self.variance - self.known * self.known;
        // Sums in another order differ in their last bits. Unlike max, clamp keeps NaN.
        if left < ROUNDING_ERROR * self.variance { 0.0 } else { left.clamp(0.0, f64::INFINITY) }
    }

    /// The same with an error of its own: what a calibration made known of it is no longer told apart. Sums with estimates
    /// of other calibrations are then not more certain than they should be.
    pub fn settled(self) -> Estimate {
        Estimate::new(self.value, self.error_variance())
    }

    /// The same of records of which some were lost: the whole is this or more.
    pub fn as_part(self) -> Estimate {
        Estimate { variance: f64::INFINITY, ..self }
    }

    /// Whether records were lost, so that the value is of those that are left.
    pub fn is_part(self) -> bool {
        self.variance == f64::INFINITY
    }

    /// `factor` times as much, in the unit of the value.
    pub fn scaled(self, factor: f64) -> Estimate {
        let variance = factor * factor * self.variance;
        Estimate { value: factor * self.value, variance, known: factor * self.known }
    }

    /// The contribution of one recorded allocation of `size_bytes`. `inverse_probability` is 1/p ≥ 1, the weight in
    /// objects. With w = 1/p: value w·x, variance (1 − p)/p²·x² = w·(w − 1)·x², where x is 1 object or s bytes.
    pub fn of_sample(size_bytes: u64, inverse_probability: f64, unit: SampleUnit) -> Estimate {
        let counted = match unit {
            SampleUnit::Objects => 1.0,
            SampleUnit::Bytes => size_bytes as f64,
        };
        Estimate {
            value: inverse_probability * counted,
            variance: inverse_probability * (inverse_probability - 1.0) * counted * counted,
            known: 0.0,
        }
    }

    /// Half the width of the 95% interval, 1.959964 standard deviations of the error, in the unit of `value`. The normal approximation needs
    /// some tens of samples; below that the true coverage is lower. A sum with no sample has the width 0, which says
    /// nothing; one of unknown variance has the width NaN.
    pub fn half_width_95(self) -> f64 {
        NORMAL_QUANTILE_975 * self.error_variance().sqrt()
    }

    /// Of one sample: what it stands for beyond itself.
    fn excess(self) -> f64 {
        if self.variance == 0.0 { 0.0 } else { self.variance / self.value }
    }

    /// How many samples it rests on, if all are of small blocks; more for large blocks, which are more certain. NaN or infinite where
    /// nothing is uncertain.
    fn samples(self) -> f64 {
        self.value * self.value / self.variance
    }

    /// Whether it rests on fewer samples than an interval needs: `upper_bound_95` says more.
    pub fn has_few_samples(self) -> bool {
        self.samples() < FEW_SAMPLES
    }

    /// What the true value exceeds in 5 of 100 cases, of an estimate with few samples.
    pub fn upper_bound_95(self) -> f64 {
        let samples = self.samples().clamp(0.0, FEW_SAMPLES);
        let (below, part) = (samples.floor() as usize, samples.fract());
        let bound = |count: usize| POISSON_UPPER_95[count.min(POISSON_UPPER_95.len() - 1)];
        let upper = bound(below) + part * (bound(below + 1) - bound(below));
        // A calibration leaves less of the error.
        let left = (self.error_variance() / self.variance).sqrt();
        self.value + (upper - samples) * (self.variance / self.value) * left
    }

    /// Whether 0 lies outside the 95% interval: in a diff, whether the change is more than noise. False for exactly 0
    /// and where nothing is known of the variance.
    pub fn is_significant(self) -> bool {
        self.value.abs() > self.half_width_95()
    }

    /// Neither a value nor an uncertainty: nothing was recorded here.
    pub fn is_nothing(self) -> bool {
        self.value == 0.0 && self.variance == 0.0
    }
}

impl Calibration {
    /// By a `total` that is known apart from the `samples`; `None`: their sum is so far from it that memory is missing from it.
    /// `interval_bytes` is the sampling interval.
    pub fn by(
        samples: impl Iterator<Item = Estimate>,
        total: Estimate,
        interval_bytes: u64,
    ) -> Option<Self> {
        let mut sum = Estimate::default();
        let mut covariance = 0.0;
        for sample in samples {
            sum += sample;
            covariance += sample.variance * sample.excess();
        }
        let gap = total.value - sum.value;
        let variance = sum.variance + total.variance;
        if variance == 0.0 {
            return (gap.abs() <= MOST_ROUNDED * total.value).then(Self::default);
        }
        // One sample more or less: small blocks of which none was sampled have a variance that is not estimated.
        let unsampled = (interval_bytes as f64).powi(2);
        if gap.abs() > MOST_DEVIATIONS * (variance + unsampled).sqrt() {
            return None;
        }
        let slope = gap / variance;
        let corrected = (sum.variance + slope * covariance).max(0.0) + total.variance;
        Some(Self { slope, known: if corrected > 0.0 { corrected.sqrt().recip() } else { 0.0 } })
    }

    /// Corrects the estimate of one sample: its value, and its variance, which is an estimate, too.
    pub fn of(self, sample: Estimate) -> Estimate {
        let variance = sample.variance * (1.0 + self.slope * sample.excess()).max(0.0);
        Estimate {
            value: sample.value + self.slope * sample.variance,
            variance,
            known: self.known * variance,
        }
    }
}

impl Add for Estimate {
    type Output = Estimate;
    fn add(self, other: Estimate) -> Estimate {
        Estimate {
            value: self.value + other.value,
            variance: self.variance + other.variance,
            known: self.known + other.known,
        }
    }
}

impl AddAssign for Estimate {
    fn add_assign(&mut self, other: Estimate) {
        *self = *self + other;
    }
}

/// Difference of two estimates from different samples: variances add. Two snapshots of one process share the samples
/// that live in both; for these the true variance is smaller, so the interval is wide rather than wrong.
impl Sub for Estimate {
    type Output = Estimate;
    fn sub(self, other: Estimate) -> Estimate {
        self + -other
    }
}

/// What is taken away has an error of its own, settled before.
impl Neg for Estimate {
    type Output = Estimate;
    fn neg(self) -> Estimate {
        Estimate { value: -self.value, ..self.settled() }
    }
}

impl Sum for Estimate {
    fn sum<I: Iterator<Item = Estimate>>(estimates: I) -> Estimate {
        // Not `fold` from the float identity −0.0: an empty sum reads as plain 0.
        estimates.fold(Estimate::default(), Add::add)
    }
}

#[cfg(test)]
#[path = "calibration_tests.rs"]
mod calibration_tests;
#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
