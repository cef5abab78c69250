//! Live samples and extents of one moment: which of those before are gone, and the new ones.

use crate::coder::{Bit, Coder, model};
use crate::difference::{Damaged, change, sound};
use crate::numbers::{Choice, Number, Signed};
use crate::state::{Block, State};
use ramson_profile::sampling_probability;

/// What FORMAT.md allows.
pub const MOST_STACKS: u64 = 1 << 20;
/// As many live samples as fit in the largest profile file.
const MOST_BLOCKS: u64 = 1 << 26;
/// Threads of which a new sample is likely to be.
const RECENT_THREADS: usize = 64;

/// How many blocks of each stack came and went.
#[derive(Debug, Default)]
pub struct Flow {
    pub new: Vec<u32>,
    pub gone: Vec<u32>,
}

/// What was learnt of blocks.
#[derive(Clone, Debug)]
pub struct Models {
    /// Live samples of one moment.
    most_blocks: u64,
    /// By how many of its stack's are still there, and by age.
    gone: [Vec<Bit>; 4],
    count: Number,
    time: Signed,
    address: Signed,
    low_address: Vec<Bit>,
    stack: Choice,
    /// Of a stack whose blocks have all had one size; of another; of a new one.
    size: [Signed; 3],
    /// The last ones, the newest first.
    threads: Vec<u32>,
    thread: Number,
    other_thread: Number,
    weight: Signed,
    flags: Vec<Bit>,
}

impl Default for Models {
    fn default() -> Models {
        Models::within(MOST_BLOCKS)
    }
}

impl Models {
    pub fn within(most_blocks: u64) -> Models {
        Models {
            most_blocks,
            gone: Default::default(),
            count: Default::default(),
            time: Default::default(),
            address: Default::default(),
            low_address: Vec::new(),
            stack: Default::default(),
            size: Default::default(),
            threads: Vec::new(),
            thread: Default::default(),
            other_thread: Default::default(),
            weight: Default::default(),
            flags: Vec::new(),
        }
    }

    pub fn walk(
        &mut self,
        coder: &mut impl Coder,
        state: &mut State,
        now: &State,
    ) -> Result<Flow, Damaged> {
        let mut flow = Flow::default();
        let (gone, new) = compare(&state.blocks, now);
        self.walk_gone(coder, state, &gone, &mut flow)?;
        let count = self.count.code(coder, new.len() as u64);
        if count.saturating_add(state.blocks.len() as u64) > self.most_blocks {
            return Err(Damaged);
        }
        let mut last = Block { monotonic_ns: state.last_ns(), ..Block::default() };
        for index in 0..count {
            let block = new.get(index as usize).copied().copied().unwrap_or_default();
            last = self.walk_new(coder, state, &last, &block)?;
            *model(&mut flow.new, last.stack as usize) += 1;
            state.blocks.push(last);
        }
        state.blocks.sort_by_key(Block::key);
        Ok(flow)
    }

    fn walk_gone(
        &mut self,
        coder: &mut impl Coder,
        state: &mut State,
        gone: &[bool],
        flow: &mut Flow,
    ) -> Result<(), Damaged> {
        let mut live: Vec<u32> = Vec::new();
        state.blocks.iter().for_each(|block| *model(&mut live, block.stack as usize) += 1);
        let (now_ns, mut gone) = (state.last_ns(), gone.iter());
        let counters = &state.counters;
        state.blocks.retain(|block| {
            let stack = block.stack as usize;
            let allocated = counters.get(stack).map_or(0, |counters| counters.sampled_objects);
            let freed_part = (allocated / u64::from(live[stack])).max(1).ilog2().min(6) / 2;
            let age = now_ns.saturating_sub(block.monotonic_ns).max(1).ilog2();
            let models = &mut self.gone[freed_part as usize];
            let is_gone = gone.next() == Some(&true);
            let is_gone = coder.bit(model(models, age as usize), is_gone);
            if is_gone {
                *model(&mut flow.gone, stack) += 1;
            }
            !is_gone
        });
        sound(coder)
    }

    /// `last`: the one before it in this difference.
    fn walk_new(
        &mut self,
        coder: &mut impl Coder,
        state: &State,
        last: &Block,
        block: &Block,
    ) -> Result<Block, Damaged> {
        let time = self.time.code(coder, change(block.monotonic_ns, last.monotonic_ns));
        let low = coder.bits(&mut self.low_address, 4, block.address);
        let high = self.address.code(coder, change(block.address >> 4, last.address >> 4));
        let high = (last.address >> 4).wrapping_add_signed(high);
        let stack = self.stack.code(coder, block.stack);
        if u64::from(stack) >= MOST_STACKS {
            return Err(Damaged);
        }
        let (model, expected) = self.expected_size(state, stack);
        let size = self.size[model].code(coder, change(block.size, expected));
        let size = expected.wrapping_add_signed(size);
        let tid = self.walk_thread(coder, block.tid)?;
        let expected = expected_weight(size, state.interval_bytes());
        let weight = i64::from(block.inverse_probability.to_bits()).wrapping_sub(expected);
        let weight = expected.wrapping_add(self.weight.code(coder, weight));
        let weight = u32::try_from(weight).map(f32::from_bits).map_err(|_| Damaged)?;
        if !weight.is_finite() || weight < 1.0 {
            return Err(Damaged);
        }
        let flags = coder.bits(&mut self.flags, 3, u64::from(block.flags));
        sound(coder)?;
        Ok(Block {
            monotonic_ns: last.monotonic_ns.wrapping_add_signed(time),
            address: high << 4 | low,
            size,
            stack,
            tid,
            inverse_probability: weight,
            flags: flags as u32,
        })
    }

    /// Which model is used, and the mean size of the stack's blocks.
    fn expected_size(&self, state: &State, stack: u32) -> (usize, u64) {
        match state.counters.get(stack as usize) {
            Some(counters) if counters.sampled_objects > 0 => {
                let size = counters.sampled_bytes / counters.sampled_objects;
                let is_one_size = size.wrapping_mul(counters.sampled_objects);
                (usize::from(is_one_size != counters.sampled_bytes), size)
            }
            _ => (2, 0),
        }
    }

    fn walk_thread(&mut self, coder: &mut impl Coder, tid: u32) -> Result<u32, Damaged> {
        let place = self.threads.iter().position(|&recent| recent == tid);
        let place = place.unwrap_or(self.threads.len()) as u64;
        let place = usize::try_from(self.thread.code(coder, place)).map_err(|_| Damaged)?;
        let tid = match self.threads.get(place) {
            Some(&tid) => {
                self.threads.remove(place);
                tid
            }
            None => self.other_thread.code(coder, u64::from(tid)) as u32,
        };
        self.threads.insert(0, tid);
        self.threads.truncate(RECENT_THREADS);
        Ok(tid)
    }
}

/// Which of those before are gone, in their order, and which are new.
fn compare<'a>(before: &[Block], now: &'a State) -> (Vec<bool>, Vec<&'a Block>) {
    let (mut gone, mut new) = (vec![false; before.len()], Vec::new());
    let mut old = before.iter().zip(&mut gone).peekable();
    for block in &now.blocks {
        while let Some((_, is_gone)) = old.next_if(|(old, _)| old.key() < block.key()) {
            *is_gone = true;
        }
        match old.next_if(|(old, _)| old.key() == block.key()) {
            Some((same, _)) if same == block => {}
            Some((_, is_gone)) => {
                *is_gone = true;
                new.push(block);
            }
            None => new.push(block),
        }
    }
    old.for_each(|(_, is_gone)| *is_gone = true);
    (gone, new)
}

fn expected_weight(size: u64, interval: u64) -> i64 {
    let weight = (1.0 / sampling_probability(size.max(1), interval)) as f32;
    i64::from(weight.to_bits())
}
