//! A chain of moments, each as its difference from the one before: what the moment before makes probable takes few bits.
//! docs/internals/history-format.md has the layout.
//!
//! Whole numbers come back as they were. The weighted counters of a stack grow with its samples: what n samples of their mean size add at the
//! sampling interval of that moment is predicted, and the rest is kept in steps of 1/96 (values) or 1/24 (variances) of what one sample adds. A
//! rest smaller than half a step is left out, and becomes part of the next difference: no counter is wrong by more than half a step, however
//! long the chain, and half a step more for each level that took it over.

use crate::columns::{Column, Columns, Damaged, Read, Written, unpack};
use crate::state::{Block, Counters, State};
use ramson_format::LIFETIME_BUCKETS;
use ramson_profile::{Estimate, SampleUnit, sampling_probability};

/// Most numbers of a header: those that FORMAT.md has, and room for more.
const MOST_NUMBERS: u64 = 256;
/// Most stacks that FORMAT.md allows.
const MOST_STACKS: u64 = 1 << 20;
/// As many live samples as fit in the largest profile file.
const MOST_BLOCKS: u64 = 1 << 26;
/// Unpacked, a block has fewer bytes and all counters together have fewer.
const MOST_BLOCK_BYTES: u64 = 64;
const MOST_COUNTER_BYTES: u64 = 256 << 20;

/// The last moment of a chain as it will be read.
#[derive(Clone, Debug)]
pub struct Trail {
    pub state: State,
    /// Live samples of one moment.
    most_blocks: u64,
}

impl Default for Trail {
    fn default() -> Trail {
        Trail::within(MOST_BLOCKS)
    }
}

impl Trail {
    /// One that refuses moments with more live samples.
    pub fn within(most_blocks: u64) -> Trail {
        Trail { state: State::default(), most_blocks }
    }

    /// Goes on to this moment. The state is then what will be read from the bytes: the weighted counters are not quite the same.
    pub fn append(&mut self, now: &State) -> Vec<u8> {
        let mut columns = Written::default();
        // Nothing that was taken from a profile is refused.
        let _ = self.walk(&mut columns, now);
        columns.finish()
    }

    /// Goes on to the moment that was appended. After an error, the state is of no use.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Damaged> {
        let most_bytes = self.most_blocks * MOST_BLOCK_BYTES + MOST_COUNTER_BYTES;
        let bytes = unpack(bytes, most_bytes)?;
        self.walk(&mut Read::new(&bytes)?, &State::default())
    }

    /// Who reads does not look at `now`.
    fn walk(&mut self, columns: &mut impl Columns, now: &State) -> Result<(), Damaged> {
        walk_numbers(columns, &mut self.state.numbers, &now.numbers)?;
        let flow = self.walk_blocks(columns, now)?;
        walk_counters(columns, &mut self.state, now, &flow)
    }

    fn walk_blocks(&mut self, columns: &mut impl Columns, now: &State) -> Result<Flow, Damaged> {
        let state = &mut self.state;
        let mut flow = Flow::default();
        let (gone, new) = compare(&state.blocks, now);
        walk_gone(columns, &mut state.blocks, &gone, &mut flow)?;
        let count = columns.number(Column::NewFlags, new.len() as u64)?;
        if count.saturating_add(state.blocks.len() as u64) > self.most_blocks {
            return Err(Damaged);
        }
        let mut last = Block { monotonic_ns: state.last_ns(), ..Block::default() };
        for index in 0..count {
            let block = new.get(index as usize).copied().copied().unwrap_or_default();
            last = walk_new(columns, state, &last, &block)?;
            flow.of(last.stack).new += 1;
            state.blocks.push(last);
        }
        state.blocks.sort_by_key(Block::key);
        Ok(flow)
    }
}

fn walk_numbers(
    columns: &mut impl Columns,
    numbers: &mut Vec<u64>,
    now: &[u64],
) -> Result<(), Damaged> {
    let count = columns.number(Column::Header, now.len() as u64)?;
    if count > MOST_NUMBERS {
        return Err(Damaged);
    }
    numbers.resize(count as usize, 0);
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = columns.change(Column::Header, *number, now.get(index).copied().unwrap_or(0))?;
    }
    Ok(())
}

/// How many blocks of each stack came and went.
#[derive(Debug, Default)]
struct Flow(Vec<StackFlow>);

#[derive(Clone, Copy, Debug, Default)]
struct StackFlow {
    new: u64,
    gone: u64,
}

impl Flow {
    fn of(&mut self, stack: u32) -> &mut StackFlow {
        let stack = stack as usize;
        if self.0.len() <= stack {
            self.0.resize(stack + 1, StackFlow::default());
        }
        &mut self.0[stack]
    }
}

/// Which of the blocks before are gone, by their index, and which are new.
fn compare<'a>(before: &[Block], now: &'a State) -> (Vec<u64>, Vec<&'a Block>) {
    let mut gone = Vec::new();
    let mut new = Vec::new();
    let mut old = (0..).zip(before).peekable();
    for block in &now.blocks {
        while let Some((index, _)) = old.next_if(|(_, old)| old.key() < block.key()) {
            gone.push(index);
        }
        match old.next_if(|(_, old)| old.key() == block.key()) {
            Some((_, same)) if same == block => {}
            Some((index, _)) => {
                gone.push(index);
                new.push(block);
            }
            None => new.push(block),
        }
    }
    gone.extend(old.map(|(index, _)| index));
    (gone, new)
}

/// An index that is kept as how many are skipped, from the first that it may be.
fn walk_index(
    columns: &mut impl Columns,
    column: Column,
    first: u64,
    index: Option<&u64>,
) -> Result<u64, Damaged> {
    let skipped = index.map_or(0, |index| index.wrapping_sub(first));
    first.checked_add(columns.number(column, skipped)?).ok_or(Damaged)
}

fn walk_gone(
    columns: &mut impl Columns,
    blocks: &mut Vec<Block>,
    gone: &[u64],
    flow: &mut Flow,
) -> Result<(), Damaged> {
    let count = columns.number(Column::Gone, gone.len() as u64)?;
    let mut is_gone = vec![false; blocks.len()];
    // The first that may be gone.
    let mut next = 0;
    for place in 0..count {
        let index = walk_index(columns, Column::Gone, next, gone.get(place as usize))?;
        let block = blocks.get(index as usize).ok_or(Damaged)?;
        is_gone[index as usize] = true;
        flow.of(block.stack).gone += 1;
        next = index + 1;
    }
    let mut is_gone = is_gone.into_iter();
    blocks.retain(|_| is_gone.next() == Some(false));
    Ok(())
}

/// `last`: the one before it in this difference.
fn walk_new(
    columns: &mut impl Columns,
    state: &State,
    last: &Block,
    block: &Block,
) -> Result<Block, Damaged> {
    // The lowest four bits of an address hardly change, and neither does the family above it.
    let key = |block: &Block| block.key.rotate_right(4);
    let monotonic_ns = columns.change(Column::NewTime, last.monotonic_ns, block.monotonic_ns)?;
    let key = columns.change(Column::NewAddress, key(last), key(block))?;
    let stack = columns.number(Column::NewStack, block.stack.into())?;
    if stack >= MOST_STACKS {
        return Err(Damaged);
    }
    let size = columns.change(Column::NewSize, mean_size(state, stack), block.size)?;
    let tid = columns.change(Column::NewThread, last.tid.into(), block.tid.into())?;
    let expected = 1.0 / sampling_probability(size.max(1), state.interval_bytes());
    let weight = block.inverse_probability.to_bits();
    let weight =
        columns.change(Column::NewWeight, (expected as f32).to_bits().into(), weight.into())?;
    let weight = u32::try_from(weight).map(f32::from_bits).map_err(|_| Damaged)?;
    if !weight.is_finite() || weight < 1.0 {
        return Err(Damaged);
    }
    Ok(Block {
        monotonic_ns,
        key: key.rotate_left(4),
        size,
        stack: stack as u32,
        tid: tid as u32,
        inverse_probability: weight,
        flags: columns.number(Column::NewFlags, block.flags.into())? as u32,
    })
}

/// Mean size of the samples that a stack has had, in bytes.
fn mean_size(state: &State, stack: u64) -> u64 {
    let counters = state.counters.get(stack as usize);
    counters.map_or(0, |counters| counters.sampled_bytes / counters.sampled_objects.max(1))
}

fn walk_counters(
    columns: &mut impl Columns,
    state: &mut State,
    now: &State,
    flow: &Flow,
) -> Result<(), Damaged> {
    let before = state.counters.len() as u64;
    let count = columns.change(Column::Stack, before, now.counters.len() as u64)?;
    if count > MOST_STACKS {
        return Err(Damaged);
    }
    state.counters.resize(count as usize, Counters::default());
    let pairs = (0..).zip(state.counters.iter().zip(&now.counters));
    let changed: Vec<u64> = pairs
        .filter(|(_, (before, now))| !before.has_counts_of(now))
        .map(|(number, _)| number)
        .collect();
    let interval_bytes = state.interval_bytes();
    let mut next = 0;
    for place in 0..columns.number(Column::Stack, changed.len() as u64)? {
        let number = walk_index(columns, Column::Stack, next, changed.get(place as usize))?;
        let stack = state.counters.get_mut(number as usize).ok_or(Damaged)?;
        let now = now.counters.get(number as usize).unwrap_or(&NONE);
        let flow = flow.0.get(number as usize).copied().unwrap_or_default();
        walk_stack(columns, stack, now, flow, interval_bytes)?;
        next = number + 1;
    }
    Ok(())
}

const NONE: Counters = Counters {
    sampled_objects: 0,
    sampled_bytes: 0,
    weighted: [0.0; 4],
    lifetimes: [0; LIFETIME_BUCKETS],
};

fn walk_stack(
    columns: &mut impl Columns,
    stack: &mut Counters,
    now: &Counters,
    flow: StackFlow,
    interval_bytes: u64,
) -> Result<(), Damaged> {
    let before = (stack.sampled_objects, stack.sampled_bytes);
    let expected = before.0.wrapping_add(flow.new);
    let objects = columns.change(Column::Objects, expected, now.sampled_objects)?;
    let expected = expected_bytes(before, objects);
    let bytes = columns.change(Column::Bytes, expected, now.sampled_bytes)?;
    if (objects, bytes) != before {
        let prediction = prediction(stack, objects, bytes, interval_bytes);
        for (index, (expected, step)) in prediction.into_iter().enumerate() {
            let steps = ((now.weighted[index] - expected) / step).round() as i64;
            let steps = columns.change(WEIGHTED[index], 0, steps as u64)? as i64;
            stack.weighted[index] = expected + steps as f64 * step;
        }
    }
    (stack.sampled_objects, stack.sampled_bytes) = (objects, bytes);
    let freed = objects.wrapping_sub(before.0).wrapping_sub(flow.new).wrapping_add(flow.gone);
    walk_lifetimes(columns, stack, now, freed)
}

const WEIGHTED: [Column; 4] = [
    Column::WeightedObjects,
    Column::WeightedBytes,
    Column::ObjectsVariance,
    Column::BytesVariance,
];

/// `freed`: how many are expected in all buckets together.
fn walk_lifetimes(
    columns: &mut impl Columns,
    stack: &mut Counters,
    now: &Counters,
    mut freed: u64,
) -> Result<(), Damaged> {
    let is_changed = |bucket: &usize| now.lifetimes[*bucket] != stack.lifetimes[*bucket];
    let changed: Vec<usize> = (0..LIFETIME_BUCKETS).filter(is_changed).collect();
    for place in 0..columns.number(Column::Buckets, changed.len() as u64)? {
        let bucket = changed.get(place as usize).copied().unwrap_or(0);
        let bucket = columns.number(Column::Bucket, bucket as u64)? as usize;
        let count = stack.lifetimes.get_mut(bucket).ok_or(Damaged)?;
        let more =
            columns.change(Column::Freed, freed, now.lifetimes[bucket].wrapping_sub(*count))?;
        *count = count.wrapping_add(more);
        freed = freed.wrapping_sub(more);
    }
    Ok(())
}

/// Values and variances that one sample of this mean size adds to the weighted counters.
pub fn unit(objects: u64, bytes: u64, interval_bytes: u64) -> [f64; 4] {
    let size = (bytes / objects.max(1)).max(1);
    let weight = 1.0 / sampling_probability(size, interval_bytes);
    let of = |unit| Estimate::of_sample(size, weight, unit);
    let objects = of(SampleUnit::Objects);
    let space = of(SampleUnit::Bytes);
    [objects.value, space.value, objects.variance, space.variance]
}

/// Sampled bytes if the new samples have the mean size of the earlier ones.
fn expected_bytes((before, bytes): (u64, u64), objects: u64) -> u64 {
    let added = u128::from(objects.saturating_sub(before));
    let size = u128::from(bytes) / u128::from(before.max(1));
    bytes.wrapping_add((added * size) as u64)
}

/// Expected values of the weighted counters, and the steps in which the rest is kept.
fn prediction(before: &Counters, objects: u64, bytes: u64, interval_bytes: u64) -> [(f64, f64); 4] {
    let added_objects = objects.saturating_sub(before.sampled_objects);
    let added = unit(added_objects, bytes.saturating_sub(before.sampled_bytes), interval_bytes);
    let each = unit(objects, bytes, interval_bytes);
    std::array::from_fn(|index| {
        let expected = before.weighted[index] + added_objects as f64 * added[index];
        let parts = if index < 2 { 96.0 } else { 24.0 };
        // There is no variance if every allocation is recorded, and a step may not be 0.
        let step = (each[index] / parts).max(expected.abs() * 1e-12).max(1e-6);
        (expected, step)
    })
}

#[cfg(test)]
#[path = "difference_tests.rs"]
mod tests;
