//! A chain of moments, each as its difference from the one before: what the models (`numbers`) find probable takes next to no bytes. The models
//! begin with the chain and learn along it, so the differences of a chain are read in their order.
//!
//! The order within one: the header's numbers, blocks (`blocks`), counters of stacks (`counters`). Whoever comes later expects what those
//! before it have told.

use crate::blocks;
use crate::coder::{Coder, Decoder, Encoder, model};
use crate::counters;
use crate::numbers::{Number, Signed};
use crate::state::State;
use ramson_format::mix;

/// Of the header; what FORMAT.md has, and room for more.
const MOST_NUMBERS: u64 = 256;

/// The bytes are not what a `Trail` wrote after the same ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// The last moment of a chain as it will be read, and what was learnt on the way there.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    pub state: State,
    count: Number,
    numbers: Vec<Signed>,
    blocks: blocks::Models,
    counters: counters::Models,
}

impl Trail {
    /// One that refuses moments with more live samples.
    pub fn within(most_blocks: u64) -> Trail {
        Trail { blocks: blocks::Models::within(most_blocks), ..Trail::default() }
    }

    /// Goes on to this moment. The state is then what will be read from the bytes: the weighted counters are not quite the same.
    pub fn append(&mut self, now: &State) -> Vec<u8> {
        let mut encoder = Encoder::new();
        // An encoder refuses nothing.
        let _ = self.walk(&mut encoder, now);
        let mut bytes = encoder.finish();
        let check = check(&bytes);
        bytes.extend(check);
        bytes
    }

    /// Goes on to the moment that was appended. After an error, the state is of no use.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Damaged> {
        let (bytes, read) = bytes.split_last_chunk().ok_or(Damaged)?;
        if check(bytes) != *read {
            return Err(Damaged);
        }
        self.walk(&mut Decoder::new(bytes), &State::default())
    }

    /// A decoder does not look at `now`.
    fn walk(&mut self, coder: &mut impl Coder, now: &State) -> Result<(), Damaged> {
        let count = self.count.code(coder, now.numbers.len() as u64);
        if count > MOST_NUMBERS {
            return Err(Damaged);
        }
        self.state.numbers.resize(count as usize, 0);
        for (index, number) in self.state.numbers.iter_mut().enumerate() {
            let change = change(now.numbers.get(index).copied().unwrap_or(0), *number);
            let model = model(&mut self.numbers, index);
            *number = number.wrapping_add_signed(model.code(coder, change));
        }
        let flow = self.blocks.walk(coder, &mut self.state, now)?;
        self.counters.walk(coder, &mut self.state, now, &flow)?;
        sound(coder)
    }
}

/// From one number to another, whichever is larger.
pub fn change(now: u64, before: u64) -> i64 {
    now.wrapping_sub(before) as i64
}

/// Damaged bytes give any numbers: whoever follows them asks this once in a while.
pub fn sound(coder: &impl Coder) -> Result<(), Damaged> {
    if coder.is_sound() { Ok(()) } else { Err(Damaged) }
}

fn check(bytes: &[u8]) -> [u8; 2] {
    let hash = bytes.iter().fold(bytes.len() as u64, |hash, &byte| mix(hash, u64::from(byte)));
    (hash as u16).to_le_bytes()
}

#[cfg(test)]
#[path = "difference_tests.rs"]
mod tests;
