//! One moment as its difference from an earlier one, in columns.
//!
//! Whole numbers and live samples come back as they were (a weight as an f32). The weighted counters of a stack grow with its samples: what n
//! samples of their mean size add at the sampling interval of that moment is predicted, and the rest is kept in steps of 1/32 (values)
//! or 1/8 (variances) of what one sample adds. A rest smaller than half a step is left out, and becomes part of the next difference:
//! no counter is ever wrong by more than half a step, however long the chain.

use crate::columns::{Damaged, Reader, Writer};
use crate::state::{Block, Counters, State};
use ramson_profile::{Estimate, SampleUnit, sampling_probability};
use std::io;

const NUMBERS: usize = 0;
const STACKS: usize = 1;
const OBJECTS: usize = 2;
const BYTES: usize = 3;
const WEIGHTED: usize = 4;
const LIFETIMES: usize = 8;
const GONE: usize = 9;
const TIMES: usize = 10;
const ADDRESSES: usize = 11;
const SIZES: usize = 12;
const BLOCK_STACKS: usize = 13;
const THREADS: usize = 14;
const WEIGHTS: usize = 15;
const FLAGS: usize = 16;
const COLUMNS: usize = 17;

/// What FORMAT.md allows.
const MOST_STACKS: u64 = 1 << 20;

/// The bytes, and the state that will be read from them: the weighted counters are not quite the same.
pub fn encode(before: &State, now: &State) -> io::Result<(Vec<u8>, State)> {
    let mut out = Writer::new(COLUMNS);
    out.push(NUMBERS, now.numbers.len() as u64);
    for (index, &number) in now.numbers.iter().enumerate() {
        out.push_signed(NUMBERS, change(number, before.numbers.get(index).copied().unwrap_or(0)));
    }
    let counters = encode_counters(&mut out, before, now);
    encode_blocks(&mut out, before, now);
    let stored = State { numbers: now.numbers.clone(), counters, blocks: now.blocks.clone() };
    Ok((out.finish()?, stored))
}

/// The state that `encode` was given with the same `before`.
pub fn decode(before: State, bytes: &[u8]) -> Result<State, Damaged> {
    let mut from = Reader::new(bytes, COLUMNS)?;
    let count = bounded(from.next(NUMBERS)?, from.most(NUMBERS))?;
    let mut numbers = Vec::with_capacity(count);
    for index in 0..count {
        let earlier = before.numbers.get(index).copied().unwrap_or(0);
        numbers.push(earlier.wrapping_add_signed(from.next_signed(NUMBERS)?));
    }
    let mut now = State { numbers, ..State::default() };
    let interval = now.interval_bytes();
    now.counters = decode_counters(&mut from, before.counters, interval)?;
    now.blocks = decode_blocks(&mut from, &before.blocks, interval)?;
    Ok(now)
}

fn change(now: u64, before: u64) -> i64 {
    now.wrapping_sub(before) as i64
}

fn bounded(count: u64, most: usize) -> Result<usize, Damaged> {
    usize::try_from(count).ok().filter(|&count| count <= most).ok_or(Damaged)
}

/// What one sample of this mean size adds to the weighted counters.
fn unit(objects: u64, bytes: u64, interval: u64) -> [f64; 4] {
    let size = (bytes / objects.max(1)).max(1);
    let weight = 1.0 / sampling_probability(size, interval);
    let of = |unit| Estimate::of_sample(size, weight, unit);
    let (objects, space) = (of(SampleUnit::Objects), of(SampleUnit::Bytes));
    [objects.value, space.value, objects.variance, space.variance]
}

/// What the sampled bytes come to if the new samples have the mean size of the earlier ones.
fn expected_bytes(before: &Counters, objects: u64) -> u64 {
    let added = u128::from(objects.saturating_sub(before.sampled_objects));
    let size = u128::from(before.sampled_bytes) / u128::from(before.sampled_objects.max(1));
    before.sampled_bytes.wrapping_add((added * size) as u64)
}

/// What is expected of the weighted counters, and the steps in which the rest is kept.
fn prediction(before: &Counters, objects: u64, bytes: u64, interval: u64) -> [(f64, f64); 4] {
    let added_objects = objects.saturating_sub(before.sampled_objects);
    let added = unit(added_objects, bytes.saturating_sub(before.sampled_bytes), interval);
    let each = unit(objects, bytes, interval);
    std::array::from_fn(|index| {
        let expected = before.weighted[index] + added_objects as f64 * added[index];
        let parts = if index < 2 { 32.0 } else { 8.0 };
        // Where every allocation is recorded there is no variance, and a step may not be 0.
        let step = (each[index] / parts).max(expected.abs() * 1e-12).max(1e-6);
        (expected, step)
    })
}

fn encode_counters(out: &mut Writer, before: &State, now: &State) -> Vec<Counters> {
    let mut stored = before.counters.clone();
    stored.resize(now.counters.len(), Counters::default());
    let interval = now.interval_bytes();
    out.push(STACKS, now.counters.len() as u64);
    let mut next = 0;
    for (number, (stored, now)) in stored.iter_mut().zip(&now.counters).enumerate() {
        let is_same = stored.sampled_objects == now.sampled_objects
            && stored.sampled_bytes == now.sampled_bytes
            && stored.lifetimes == now.lifetimes;
        if is_same {
            continue;
        }
        out.push(STACKS, (number - next) as u64);
        next = number + 1;
        out.push_signed(OBJECTS, change(now.sampled_objects, stored.sampled_objects));
        let expected = expected_bytes(stored, now.sampled_objects);
        out.push_signed(BYTES, change(now.sampled_bytes, expected));
        let expected = prediction(stored, now.sampled_objects, now.sampled_bytes, interval);
        for (index, (expected, step)) in expected.into_iter().enumerate() {
            let steps = ((now.weighted[index] - expected) / step).round() as i64;
            out.push_signed(WEIGHTED + index, steps);
            stored.weighted[index] = expected + steps as f64 * step;
        }
        let changed =
            || stored.lifetimes.iter().zip(now.lifetimes).map(|(&old, new)| change(new, old));
        out.push(LIFETIMES, changed().filter(|&change| change != 0).count() as u64);
        for (bucket, change) in changed().enumerate().filter(|&(_, change)| change != 0) {
            out.push(LIFETIMES, bucket as u64);
            out.push_signed(LIFETIMES, change);
        }
        stored.sampled_objects = now.sampled_objects;
        stored.sampled_bytes = now.sampled_bytes;
        stored.lifetimes = now.lifetimes;
    }
    stored
}

fn decode_counters(
    from: &mut Reader,
    mut counters: Vec<Counters>,
    interval: u64,
) -> Result<Vec<Counters>, Damaged> {
    let count = from.next(STACKS)?;
    if count > MOST_STACKS {
        return Err(Damaged);
    }
    counters.resize(count as usize, Counters::default());
    let mut next = 0;
    while from.most(STACKS) > 0 {
        let number = usize::try_from(from.next(STACKS)?).ok().and_then(|gap| gap.checked_add(next));
        let number = number.filter(|&number| number < counters.len()).ok_or(Damaged)?;
        next = number + 1;
        let stack = &mut counters[number];
        let objects = stack.sampled_objects.wrapping_add_signed(from.next_signed(OBJECTS)?);
        let expected = expected_bytes(stack, objects);
        let bytes = expected.wrapping_add_signed(from.next_signed(BYTES)?);
        let expected = prediction(stack, objects, bytes, interval);
        for (index, (expected, step)) in expected.into_iter().enumerate() {
            stack.weighted[index] = expected + from.next_signed(WEIGHTED + index)? as f64 * step;
        }
        for _ in 0..from.next(LIFETIMES)? {
            let bucket = usize::try_from(from.next(LIFETIMES)?).map_err(|_| Damaged)?;
            let count = stack.lifetimes.get_mut(bucket).ok_or(Damaged)?;
            *count = count.wrapping_add_signed(from.next_signed(LIFETIMES)?);
        }
        stack.sampled_objects = objects;
        stack.sampled_bytes = bytes;
    }
    Ok(counters)
}

fn expected_weight(size: u64, interval: u64) -> i64 {
    let weight = (1.0 / sampling_probability(size.max(1), interval)) as f32;
    i64::from(weight.to_bits())
}

fn encode_blocks(out: &mut Writer, before: &State, now: &State) {
    let interval = now.interval_bytes();
    let mut old = before.blocks.iter().enumerate().peekable();
    let (mut next_gone, mut time, mut address, mut tid) = (0, 0, 0, 0);
    let mut gone = |index: usize, out: &mut Writer| {
        out.push(GONE, (index - next_gone) as u64);
        next_gone = index + 1;
    };
    for block in &now.blocks {
        while let Some((index, _)) = old.next_if(|(_, old)| old.key() < block.key()) {
            gone(index, out);
        }
        if let Some((index, same)) = old.next_if(|(_, old)| old.key() == block.key()) {
            if same == block {
                continue;
            }
            gone(index, out);
        }
        out.push_signed(TIMES, change(block.monotonic_ns, time));
        out.push_signed(ADDRESSES, change(block.address, address));
        out.push(SIZES, block.size);
        out.push(BLOCK_STACKS, u64::from(block.stack));
        out.push_signed(THREADS, i64::from(block.tid) - tid);
        let weight = i64::from(block.inverse_probability.to_bits());
        out.push_signed(WEIGHTS, weight - expected_weight(block.size, interval));
        out.push(FLAGS, u64::from(block.flags));
        (time, address, tid) = (block.monotonic_ns, block.address, i64::from(block.tid));
    }
    old.for_each(|(index, _)| gone(index, out));
}

fn decode_blocks(
    from: &mut Reader,
    before: &[Block],
    interval: u64,
) -> Result<Vec<Block>, Damaged> {
    let mut kept = Vec::with_capacity(before.len());
    let mut next = 0usize;
    while from.most(GONE) > 0 {
        let gap = usize::try_from(from.next(GONE)?).map_err(|_| Damaged)?;
        let index = next.checked_add(gap).filter(|&index| index < before.len()).ok_or(Damaged)?;
        kept.extend_from_slice(&before[next..index]);
        next = index + 1;
    }
    kept.extend_from_slice(&before[next..]);
    let (mut time, mut address, mut tid) = (0u64, 0u64, 0i64);
    while from.most(TIMES) > 0 {
        time = time.wrapping_add_signed(from.next_signed(TIMES)?);
        address = address.wrapping_add_signed(from.next_signed(ADDRESSES)?);
        let size = from.next(SIZES)?;
        tid = tid.wrapping_add(from.next_signed(THREADS)?);
        let weight = expected_weight(size, interval).wrapping_add(from.next_signed(WEIGHTS)?);
        let weight = u32::try_from(weight).map(f32::from_bits).map_err(|_| Damaged)?;
        if !weight.is_finite() || weight < 1.0 {
            return Err(Damaged);
        }
        kept.push(Block {
            monotonic_ns: time,
            address,
            size,
            stack: u32::try_from(from.next(BLOCK_STACKS)?).map_err(|_| Damaged)?,
            tid: u32::try_from(tid).map_err(|_| Damaged)?,
            inverse_probability: weight,
            flags: u8::try_from(from.next(FLAGS)?).map_err(|_| Damaged)?,
        });
    }
    kept.sort_unstable_by_key(Block::key);
    Ok(kept)
}

#[cfg(test)]
#[path = "difference_tests.rs"]
mod tests;
