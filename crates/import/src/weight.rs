//! Meaning of the numbers of a sampled foreign profile, and how certain they are.
//!
//! All sampling formats have the same sampler as ramson: Poisson by bytes, so an allocation of size s is recorded with
//! probability p = 1 − e^(−s/T). Raw text holds n recorded objects of one mean size s̄; each stands for 1/p(s̄). Sources:
//! jemalloc's `jeprof`, `AdjustSamples` with sampling algorithm 2; gperftools' `pprof`, the same; google/pprof,
//! `scaleHeapSample`; Go's runtime/pprof, the same before it writes protobuf. jemalloc ≥ 5.3 with `prof_unbias` (the
//! default) skews the counts it writes so that this formula gives its unbiased estimate back.
//!
//! The variance (see `ramson_profile::Estimate`) of n objects of size s is n·(1 − p)/p²·x², with x = 1 or s. If one
//! record mixes sizes, s̄ makes the variance an approximation, for s̄ ≪ T a close one: the variance is then T times the
//! bytes, whatever the sizes.

use ramson_profile::Estimate;

/// Objects and bytes of one record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    pub objects: f64,
    pub bytes: f64,
}

/// Objects and bytes of a record with raw values, one of `interval_bytes` on average: 1 if every allocation is recorded,
/// 0 if the file does not say.
pub fn weigh(interval_bytes: u64, raw: Pair) -> [Estimate; 2] {
    let weight = inverse_probability(interval_bytes, raw).unwrap_or(1.0);
    let weighted = Pair { objects: raw.objects * weight, bytes: raw.bytes * weight };
    of_weighted(interval_bytes, weighted)
}

/// Objects and bytes of a record whose values are weighted already.
pub fn of_weighted(interval_bytes: u64, pair: Pair) -> [Estimate; 2] {
    let mean = mean_size(pair);
    // n recorded objects stand for N = n/p, so that n·(1 − p)/p² = N·(1/p − 1).
    let variance = match interval_bytes {
        1 => 0.0,
        0 => f64::NAN,
        _ if pair.objects == 0.0 && pair.bytes == 0.0 => 0.0,
        _ => match inverse_probability(interval_bytes, pair) {
            Some(weight) => pair.objects.abs() * (weight - 1.0),
            None => f64::NAN,
        },
    };
    [Estimate::new(pair.objects, variance), Estimate::new(pair.bytes, variance * mean * mean)].map(
        |estimate| match estimate.value {
            0.0 => Estimate::default(),
            _ => estimate,
        },
    )
}

/// 1/p of the mean size; `None` where there is no size to tell it from, or no need.
fn inverse_probability(interval_bytes: u64, pair: Pair) -> Option<f64> {
    let mean = mean_size(pair);
    let is_size = interval_bytes > 1 && mean.is_finite() && mean >= 1.0;
    // 1 − e^(−x) loses all digits for a small x; expm1 keeps them.
    is_size.then(|| -1.0 / (-mean / interval_bytes as f64).exp_m1())
}

fn mean_size(pair: Pair) -> f64 {
    pair.bytes / pair.objects
}
