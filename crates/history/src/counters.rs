//! Counters of stacks.
//!
//! Whole numbers come back as they were. The weighted counters of a stack grow with its samples: what n samples of their mean size add at the
//! sampling interval of that moment is predicted, and the rest is kept in steps of 1/96 (values) or 1/24 (variances) of what one sample adds. A
//! rest smaller than half a step is left out, and becomes part of the next difference: no counter is wrong by more than half a step, however
//! long the chain, and half a step more for each level that took it over.

use crate::blocks::{Flow, MOST_STACKS};
use crate::coder::{Bit, Coder};
use crate::difference::{Damaged, change, sound};
use crate::numbers::Signed;
use crate::state::{Counters, State};
use ramson_format::LIFETIME_BUCKETS;
use ramson_profile::{Estimate, SampleUnit, sampling_probability};

/// Of up to so many frees, how many are where is learnt as it is; of more, as a difference from what is expected.
const FEW_FREES: u64 = 8;
/// Lower bounds of the part of the frees that is in some buckets, of 512; each part between two has its own models.
const PARTS: [usize; 14] = [0, 1, 5, 15, 40, 90, 160, 256, 352, 422, 472, 497, 507, 511];
/// Which of them, by the part.
const PART_OF: [u8; 513] = {
    let mut part_of = [0; 513];
    let (mut part, mut at) = (0, 0);
    while at < part_of.len() {
        while part + 1 < PARTS.len() && PARTS[part + 1] <= at {
            part += 1;
        }
        part_of[at] = part as u8;
        at += 1;
    }
    part_of
};
/// So many frees of any stack are taken for what is not known of one.
const PRIOR_FREES: f64 = 4.0;

/// What was learnt of counters.
#[derive(Clone, Debug)]
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
    few: Vec<[[Bit; 2 * FEW_FREES as usize]; FEW_FREES as usize]>,
    /// By the spread that is expected.
    many: Vec<Signed>,
    /// Frees of all stacks.
    lifetimes: [u64; LIFETIME_BUCKETS],
}

impl Default for Models {
    fn default() -> Self {
        Self {
            stacks: Signed::default(),
            objects: [vec![Signed::default(); 64], vec![Signed::default(); 64]],
            bytes: Default::default(),
            weighted: Default::default(),
            is_odd: Bit::default(),
            odd: Signed::default(),
            freed: Default::default(),
            few: vec![Default::default(); PARTS.len()],
            many: vec![Signed::default(); 64],
            lifetimes: Default::default(),
        }
    }
}

impl Models {
    pub fn walk<C: Coder>(
        &mut self,
        coder: &mut C,
        state: &mut State,
        now: Option<&State>,
        flow: &Flow,
    ) -> Result<(), Damaged> {
        let before = state.counters.len() as u64;
        let more = now.map_or(0, |now| change(now.counters.len() as u64, before));
        let count = before.wrapping_add_signed(self.stacks.code(coder, more));
        if count > MOST_STACKS {
            return Err(Damaged);
        }
        state.counters.resize(count as usize, Counters::default());
        let mut all =
            All { interval_bytes: state.interval_bytes(), parts: [0.0; LIFETIME_BUCKETS] };
        for (number, stack) in state.counters.iter_mut().enumerate() {
            let of = |counts: &[u32]| i64::from(counts.get(number).copied().unwrap_or(0));
            let moved = Moved { new: of(&flow.new), gone: of(&flow.gone) };
            if number % 64 == 0 {
                all.parts = parts_of(&self.lifetimes);
            }
            let now = now.map(|now| &now.counters[number]);
            self.walk_stack(coder, stack, now, &moved, &all)?;
            sound(coder)?;
        }
        Ok(())
    }

    fn walk_stack<C: Coder>(
        &mut self,
        coder: &mut C,
        stack: &mut Counters,
        now: Option<&Counters>,
        moved: &Moved,
        all: &All,
    ) -> Result<(), Damaged> {
        let before = (stack.sampled_objects, stack.sampled_bytes);
        let seen = before.0.max(1).ilog2() as usize;
        let model = &mut self.objects[usize::from(moved.new > 0)][seen];
        let more = |now: &Counters| change(now.sampled_objects, before.0);
        let short = model.code(coder, now.map_or(0, |now| more(now).wrapping_sub(moved.new)));
        let more = short.wrapping_add(moved.new);
        let objects = before.0.wrapping_add_signed(more);
        let is_odd = now.is_some_and(|now| {
            let is_less = |(&now, &before): (&u64, &u64)| change(now, before) < 0;
            let mut buckets = now.lifetimes.iter().zip(&stack.lifetimes);
            more == 0 && now.sampled_bytes != before.1 || buckets.any(is_less)
        });
        let is_odd = coder.bit(&mut self.is_odd, is_odd);
        let mut bytes = before.1;
        if more != 0 || is_odd {
            let (model, expected) = expected_bytes(before, objects);
            let rest = now.map_or(0, |now| change(now.sampled_bytes, expected));
            bytes = expected.wrapping_add_signed(self.bytes[model].code(coder, rest));
        }
        if (objects, bytes) != before {
            self.walk_weighted(coder, stack, now, (objects, bytes), all.interval_bytes);
        }
        (stack.sampled_objects, stack.sampled_bytes) = (objects, bytes);
        let lifetimes = now.map(|now| &now.lifetimes);
        if is_odd {
            self.walk_odd_lifetimes(coder, stack, lifetimes);
            return Ok(());
        }
        let expected = short.wrapping_add(moved.gone);
        self.walk_lifetimes(coder, stack, lifetimes, expected, all)
    }

    fn walk_weighted<C: Coder>(
        &mut self,
        coder: &mut C,
        stack: &mut Counters,
        now: Option<&Counters>,
        (objects, bytes): (u64, u64),
        interval: u64,
    ) {
        let is_one_size = (bytes / objects.max(1)).wrapping_mul(objects) == bytes
            && (stack.sampled_objects == 0
                || bytes / objects.max(1) == stack.sampled_bytes / stack.sampled_objects);
        let models = &mut self.weighted[usize::from(is_one_size)];
        let expected = prediction(stack, objects, bytes, interval);
        for (index, (expected, step)) in expected.into_iter().enumerate() {
            let rest = now.map_or(0.0, |now| now.weighted[index] - expected);
            let steps = models[index].code(coder, (rest / step).round() as i64);
            stack.weighted[index] = expected + steps as f64 * step;
        }
    }

    fn walk_odd_lifetimes<C: Coder>(
        &mut self,
        coder: &mut C,
        stack: &mut Counters,
        now: Option<&[u64; LIFETIME_BUCKETS]>,
    ) {
        for (bucket, count) in stack.lifetimes.iter_mut().enumerate() {
            let more = now.map_or(0, |now| change(now[bucket], *count));
            let more = self.odd.code(coder, more);
            *count = count.wrapping_add_signed(more);
            self.lifetimes[bucket] = self.lifetimes[bucket].wrapping_add_signed(more);
        }
    }

    /// First how many were freed; then, of those, how many are in the lower half of the buckets, and so on within each half.
    fn walk_lifetimes<C: Coder>(
        &mut self,
        coder: &mut C,
        stack: &mut Counters,
        now: Option<&[u64; LIFETIME_BUCKETS]>,
        expected: i64,
        all: &All,
    ) -> Result<(), Damaged> {
        let mut more = [0; LIFETIME_BUCKETS];
        if let Some(now) = now {
            let pairs = now.iter().zip(&stack.lifetimes);
            more.iter_mut()
                .zip(pairs)
                .for_each(|(more, (now, old))| *more = now.wrapping_sub(*old));
        }
        let freed = more.iter().fold(0, |sum: u64, &more| sum.wrapping_add(more)) as i64;
        let model = &mut self.freed[usize::from(expected != 0)];
        let freed = expected.wrapping_add(model.code(coder, freed.wrapping_sub(expected)));
        if freed == 0 {
            return Ok(());
        }
        let freed = u64::try_from(freed).map_err(|_| Damaged)?;
        let frees = stack.lifetimes.iter().zip(&all.parts);
        let (mut sum, mut below) = (0.0, [0.0; LIFETIME_BUCKETS + 1]);
        for (below, (&count, part)) in below[1..].iter_mut().zip(frees) {
            sum += count as f64 + PRIOR_FREES * part;
            *below = sum;
        }
        self.walk_halves(coder, &below, &mut more, 0, freed)?;
        for (bucket, more) in more.into_iter().enumerate() {
            stack.lifetimes[bucket] = stack.lifetimes[bucket].wrapping_add(more);
            self.lifetimes[bucket] = self.lifetimes[bucket].wrapping_add(more);
        }
        Ok(())
    }

    /// `more` are some of the buckets, the first of them `first`; `below` says how many frees are expected in those before each.
    fn walk_halves<C: Coder>(
        &mut self,
        coder: &mut C,
        below: &[f64; LIFETIME_BUCKETS + 1],
        more: &mut [u64],
        first: usize,
        freed: u64,
    ) -> Result<(), Damaged> {
        if freed == 0 || more.len() == 1 {
            more.fill(freed);
            return Ok(());
        }
        let middle = first + more.len() / 2;
        let part = (below[middle] - below[first]) / (below[first + more.len()] - below[first]);
        let (lower, upper) = more.split_at_mut(more.len() / 2);
        let number = lower.iter().fold(0, |sum: u64, &more| sum.wrapping_add(more));
        let number = self.walk_part(coder, part, freed, number);
        let rest = freed.checked_sub(number).ok_or(Damaged)?;
        self.walk_halves(coder, below, lower, first, number)?;
        self.walk_halves(coder, below, upper, middle, rest)
    }

    /// How many of those freed are where, as far as one knows, this part of them is.
    fn walk_part<C: Coder>(&mut self, coder: &mut C, part: f64, freed: u64, number: u64) -> u64 {
        if freed <= FEW_FREES {
            let part = PART_OF[((part * 512.0) as usize).min(512)];
            let models = &mut self.few[part as usize][freed as usize - 1];
            return coder.bits(models, freed.ilog2() + 1, number);
        }
        let expected = freed as f64 * part;
        let spread = (expected * (1.0 - part)).max(0.0) as u64;
        let model = &mut self.many[(spread + 1).ilog2() as usize];
        let expected = expected.round() as u64;
        expected.wrapping_add_signed(model.code(coder, change(number, expected)))
    }
}

/// How many blocks of one stack came and went.
struct Moved {
    new: i64,
    gone: i64,
}

/// What is known of all stacks.
struct All {
    interval_bytes: u64,
    /// What part of the frees is in each bucket, a little in all.
    parts: [f64; LIFETIME_BUCKETS],
}

fn parts_of(lifetimes: &[u64; LIFETIME_BUCKETS]) -> [f64; LIFETIME_BUCKETS] {
    const LEAST: f64 = 1.0 / 64.0;
    let sum = lifetimes.iter().fold(0, |sum: u64, &count| sum.wrapping_add(count)) as f64;
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
