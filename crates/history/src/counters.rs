//! Counters of stacks.
//!
//! Whole numbers come back as they were. The weighted counters of a stack grow with its samples: what n samples of their mean size add at the
//! sampling interval of that moment is predicted, and the rest is kept in steps of 1/96 (values) or 1/24 (variances) of what one sample adds. A
//! rest smaller than half a step is left out, and becomes part of the next difference: no counter is wrong by more than half a step, however
//! long the chain, and half a step more for each level that took it over.

use crate::blocks::{Flow, MOST_STACKS};
use crate::coder::{Bit, Coder, model};
use crate::difference::{Damaged, change, sound};
use crate::numbers::Signed;
use crate::state::{Counters, State};
use ramson_format::LIFETIME_BUCKETS;
use ramson_profile::{Estimate, SampleUnit, sampling_probability};

/// Of up to so many frees, how many are where is learnt as it is; of more, as a difference from what is expected.
const FEW_FREES: u64 = 8;
/// Lower bounds of the part of the frees that is in some buckets, of 512; each part between two has its own models.
const PARTS: [usize; 14] = [0, 1, 5, 15, 40, 90, 160, 256, 352, 422, 472, 497, 507, 511];
/// So many frees of any stack are taken for what is not known of one.
const PRIOR_FREES: f64 = 4.0;

/// What was learnt of counters, and what is known of all stacks.
#[derive(Clone, Debug, Default)]
pub struct Models {
    stacks: Signed,
    /// New samples that are not live, by whether others are, and by how many the stack has had.
    objects: [Vec<Signed>; 2],
    /// Of a stack that had none; whose samples had one size; of another.
    bytes: [Signed; 3],
    /// By whether all samples have one size, or so it seems.
    weighted: [[Signed; 4]; 2],
    is_odd: Bit,
    odd: Signed,
    /// By whether any are expected.
    freed: [Signed; 2],
    /// By the part that is expected, and of how many.
    few: [[Vec<Bit>; FEW_FREES as usize + 1]; PARTS.len()],
    /// By the spread that is expected.
    many: Vec<Signed>,
    /// Frees of all stacks.
    lifetimes: [u64; LIFETIME_BUCKETS],
    /// What part of them is in each bucket, a little in all.
    parts: [f64; LIFETIME_BUCKETS],
    interval_bytes: u64,
}

impl Models {
    pub fn walk(
        &mut self,
        coder: &mut impl Coder,
        state: &mut State,
        now: &State,
        flow: &Flow,
    ) -> Result<(), Damaged> {
        let before = state.counters.len() as u64;
        let more = self.stacks.code(coder, change(now.counters.len() as u64, before));
        let count = before.wrapping_add_signed(more);
        if count > MOST_STACKS {
            return Err(Damaged);
        }
        self.interval_bytes = state.interval_bytes();
        state.counters.resize(count as usize, Counters::default());
        let none = Counters::default();
        for (number, stack) in state.counters.iter_mut().enumerate() {
            if number % 64 == 0 {
                self.parts = parts_of(&self.lifetimes);
            }
            let of = |counts: &[u32]| i64::from(counts.get(number).copied().unwrap_or(0));
            let now = now.counters.get(number).unwrap_or(&none);
            self.walk_stack(coder, stack, now, of(&flow.new), of(&flow.gone))?;
            sound(coder)?;
        }
        Ok(())
    }

    /// Of its blocks, so many are new and so many gone.
    fn walk_stack(
        &mut self,
        coder: &mut impl Coder,
        stack: &mut Counters,
        now: &Counters,
        new: i64,
        gone: i64,
    ) -> Result<(), Damaged> {
        let before = (stack.sampled_objects, stack.sampled_bytes);
        let seen = before.0.max(1).ilog2() as usize;
        let short = model(&mut self.objects[usize::from(new > 0)], seen)
            .code(coder, change(now.sampled_objects, before.0).wrapping_sub(new));
        let more = short.wrapping_add(new);
        let objects = before.0.wrapping_add_signed(more);
        let is_less = |(&now, &before): (&u64, &u64)| change(now, before) < 0;
        let is_odd = more == 0 && now.sampled_bytes != before.1
            || now.lifetimes.iter().zip(&stack.lifetimes).any(is_less);
        let is_odd = coder.bit(&mut self.is_odd, is_odd);
        let mut bytes = before.1;
        if more != 0 || is_odd {
            let (model, expected) = expected_bytes(before, objects);
            let rest = self.bytes[model].code(coder, change(now.sampled_bytes, expected));
            bytes = expected.wrapping_add_signed(rest);
        }
        if (objects, bytes) != before {
            self.walk_weighted(coder, stack, now, objects, bytes);
        }
        (stack.sampled_objects, stack.sampled_bytes) = (objects, bytes);
        if is_odd {
            for bucket in 0..LIFETIME_BUCKETS {
                let more = change(now.lifetimes[bucket], stack.lifetimes[bucket]);
                let more = self.odd.code(coder, more) as u64;
                self.add_frees(stack, bucket, more);
            }
            return Ok(());
        }
        self.walk_lifetimes(coder, stack, now, short.wrapping_add(gone))
    }

    fn add_frees(&mut self, stack: &mut Counters, bucket: usize, more: u64) {
        for lifetimes in [&mut stack.lifetimes, &mut self.lifetimes] {
            lifetimes[bucket] = lifetimes[bucket].wrapping_add(more);
        }
    }

    fn walk_weighted(
        &mut self,
        coder: &mut impl Coder,
        stack: &mut Counters,
        now: &Counters,
        objects: u64,
        bytes: u64,
    ) {
        let is_one_size = (bytes / objects.max(1)).wrapping_mul(objects) == bytes
            && (stack.sampled_objects == 0
                || bytes / objects.max(1) == stack.sampled_bytes / stack.sampled_objects);
        let models = &mut self.weighted[usize::from(is_one_size)];
        let expected = prediction(stack, objects, bytes, self.interval_bytes);
        for (index, (expected, step)) in expected.into_iter().enumerate() {
            let rest = now.weighted[index] - expected;
            let steps = models[index].code(coder, (rest / step).round() as i64);
            stack.weighted[index] = expected + steps as f64 * step;
        }
    }

    /// First how many were freed; then, of those, how many are in the lower half of the buckets, and so on within each half.
    fn walk_lifetimes(
        &mut self,
        coder: &mut impl Coder,
        stack: &mut Counters,
        now: &Counters,
        expected: i64,
    ) -> Result<(), Damaged> {
        let mut more: [u64; LIFETIME_BUCKETS] = std::array::from_fn(|bucket| {
            now.lifetimes[bucket].wrapping_sub(stack.lifetimes[bucket])
        });
        let freed = sum(&more) as i64;
        let model = &mut self.freed[usize::from(expected != 0)];
        let freed = expected.wrapping_add(model.code(coder, freed.wrapping_sub(expected)));
        if freed == 0 {
            return Ok(());
        }
        let freed = u64::try_from(freed).map_err(|_| Damaged)?;
        let (mut sum, mut below) = (0.0, [0.0; LIFETIME_BUCKETS + 1]);
        for bucket in 0..LIFETIME_BUCKETS {
            sum += stack.lifetimes[bucket] as f64 + PRIOR_FREES * self.parts[bucket];
            below[bucket + 1] = sum;
        }
        self.walk_halves(coder, &below, &mut more, freed)?;
        for (bucket, more) in more.into_iter().enumerate() {
            self.add_frees(stack, bucket, more);
        }
        Ok(())
    }

    /// `more` are some of the buckets; `below` says how many frees are expected in those before each, and before their end.
    fn walk_halves(
        &mut self,
        coder: &mut impl Coder,
        below: &[f64],
        more: &mut [u64],
        freed: u64,
    ) -> Result<(), Damaged> {
        if freed == 0 || more.len() == 1 {
            more.fill(freed);
            return Ok(());
        }
        let middle = more.len() / 2;
        let part = (below[middle] - below[0]) / (below[more.len()] - below[0]);
        let (lower, upper) = more.split_at_mut(middle);
        let number = self.walk_part(coder, part, freed, sum(lower));
        let rest = freed.checked_sub(number).ok_or(Damaged)?;
        self.walk_halves(coder, below, lower, number)?;
        self.walk_halves(coder, &below[middle..], upper, rest)
    }

    /// How many of those freed are where, as far as one knows, this part of them is.
    fn walk_part(&mut self, coder: &mut impl Coder, part: f64, freed: u64, number: u64) -> u64 {
        if freed <= FEW_FREES {
            let part = (part * 512.0) as usize;
            let part = PARTS.partition_point(|&least| least <= part) - 1;
            return coder.bits(&mut self.few[part][freed as usize], freed.ilog2() + 1, number);
        }
        let expected = freed as f64 * part;
        let spread = (expected * (1.0 - part)).max(0.0) as u64;
        let model = model(&mut self.many, (spread + 1).ilog2() as usize);
        let expected = expected.round() as u64;
        expected.wrapping_add_signed(model.code(coder, change(number, expected)))
    }
}

fn sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, &count| sum.wrapping_add(count))
}

fn parts_of(lifetimes: &[u64; LIFETIME_BUCKETS]) -> [f64; LIFETIME_BUCKETS] {
    const LEAST: f64 = 1.0 / 64.0;
    let sum = sum(lifetimes) as f64;
    lifetimes.map(|count| (count as f64 + LEAST) / (sum + LEAST * LIFETIME_BUCKETS as f64))
}

/// What one sample of this mean size adds to the weighted counters.
pub fn unit(objects: u64, bytes: u64, interval: u64) -> [f64; 4] {
    let size = (bytes / objects.max(1)).max(1);
    let weight = 1.0 / sampling_probability(size, interval);
    let of = |unit| Estimate::of_sample(size, weight, unit);
    let (objects, space) = (of(SampleUnit::Objects), of(SampleUnit::Bytes));
    [objects.value, space.value, objects.variance, space.variance]
}

/// What the sampled bytes come to if the new samples have the mean size of the earlier ones, and which model is for the rest.
fn expected_bytes((before, bytes): (u64, u64), objects: u64) -> (usize, u64) {
    let added = u128::from(objects.saturating_sub(before));
    let size = u128::from(bytes) / u128::from(before.max(1));
    let model = match before {
        0 => 0,
        _ if size * u128::from(before) == u128::from(bytes) => 1,
        _ => 2,
    };
    (model, bytes.wrapping_add((added * size) as u64))
}

/// What is expected of the weighted counters, and the steps in which the rest is kept.
fn prediction(before: &Counters, objects: u64, bytes: u64, interval: u64) -> [(f64, f64); 4] {
    let added_objects = objects.saturating_sub(before.sampled_objects);
    let added = unit(added_objects, bytes.saturating_sub(before.sampled_bytes), interval);
    let each = unit(objects, bytes, interval);
    std::array::from_fn(|index| {
        let expected = before.weighted[index] + added_objects as f64 * added[index];
        let parts = if index < 2 { 96.0 } else { 24.0 };
        // Where every allocation is recorded there is no variance, and a step may not be 0.
        let step = (each[index] / parts).max(expected.abs() * 1e-12).max(1e-6);
        (expected, step)
    })
}
