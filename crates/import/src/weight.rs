//! What the numbers of a sampled foreign profile stand for, and how certain they are.
//!
//! All sampling formats have the same sampler as ramson: Poisson by bytes, so an allocation of size s is recorded with
//! probability p = 1 − e^(−s/T). Raw text holds n recorded objects of one mean size s̄; each stands for 1/p(s̄). Sources:
//! jemalloc's `jeprof`, `AdjustSamples` with sampling algorithm 2; gperftools' `pprof`, the same; google/pprof,
//! `scaleHeapSample`; Go's runtime/pprof, the same before it writes protobuf. jemalloc ≥ 5.3 with `prof_unbias` (the
//! default) skews the counts it writes so that this formula gives its unbiased estimate back.
//!
//! The variance (see `ramson_profile::Estimate`) of n objects of size s is n·(1 − p)/p²·x², with x = 1 or s. Where
//! one record mixes sizes, s̄ makes it an approximation, for s̄ ≪ T a close one: it is then T times the bytes, whatever
//! the sizes.

use ramson_profile::Estimate;

/// Objects and bytes of one record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    pub objects: f64,
    pub bytes: f64,
}

/// How the numbers of a file came about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// Every allocation is in it.
    Exact,
    /// Poisson by bytes, with this mean.
    Interval(u64),
    /// The file does not say.
    Unknown,
}

impl Sampling {
    /// Of a mean interval in bytes; 1 and less mean that every allocation was recorded.
    pub fn of_interval(bytes: u64) -> Sampling {
        if bytes <= 1 { Sampling::Exact } else { Sampling::Interval(bytes) }
    }

    /// Objects and bytes of a record with raw values.
    pub fn weigh(self, raw: Pair) -> [Estimate; 2] {
        let weight = self.inverse_probability(raw).unwrap_or(1.0);
        self.of_weighted(Pair { objects: raw.objects * weight, bytes: raw.bytes * weight })
    }

    /// Objects and bytes of a record whose values are weighted already.
    pub fn of_weighted(self, pair: Pair) -> [Estimate; 2] {
        let mean = mean_size(pair);
        // n recorded objects stand for N = n/p, so that n·(1 − p)/p² = N·(1/p − 1).
        let variance = match self {
            Sampling::Exact => 0.0,
            Sampling::Unknown => f64::NAN,
            Sampling::Interval(_) if pair.objects == 0.0 && pair.bytes == 0.0 => 0.0,
            Sampling::Interval(_) => match self.inverse_probability(pair) {
                Some(weight) => pair.objects.abs() * (weight - 1.0),
                None => f64::NAN,
            },
        };
        [
            Estimate { value: pair.objects, variance },
            Estimate { value: pair.bytes, variance: variance * mean * mean },
        ]
        .map(|estimate| match estimate.value {
            0.0 => Estimate::default(),
            _ => estimate,
        })
    }

    /// 1/p of the mean size; `None` where there is no size to tell it from.
    fn inverse_probability(self, pair: Pair) -> Option<f64> {
        let Sampling::Interval(interval) = self else { return None };
        let mean = mean_size(pair);
        let is_size = mean.is_finite() && mean >= 1.0;
        // 1 − e^(−x) loses all digits for a small x; expm1 keeps them.
        is_size.then(|| -1.0 / (-mean / interval as f64).exp_m1())
    }
}

fn mean_size(pair: Pair) -> f64 {
    pair.bytes / pair.objects
}
