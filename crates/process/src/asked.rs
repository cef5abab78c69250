//! Questions to a worker that reads another user's process. Whoever asks checks the answer: the worker may be in the owner's hands.

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Request};

pub const RSS: u8 = 0x40;
pub const MAPPINGS: u8 = 0x41;
pub const BYTES: u8 = 0x42;
pub const BESIDE: u8 = 0x43;
pub const SEARCH: u8 = 0x44;
pub const PEEK: u8 = 0x45;
pub const RUNS: u8 = 0x46;
pub const AREAS: u8 = 0x47;
pub const PIECE: u8 = 0x49;
pub const DIRECTORY: u8 = 0x4a;
pub const STATISTICS: u8 = 0x4b;
/// A process has no more addresses.
pub const MOST_BYTES: u64 = 1 << 47;

/// Asks, and waits for the answer.
pub fn ask<T: BorshDeserialize>(
    by: &Apart,
    kind: u8,
    question: &impl BorshSerialize,
) -> Result<T, Failure> {
    let body = borsh::to_vec(question).map_err(|_| Failure::BadAnswer)?;
    let answer = by.ask(&Request { kind, body: &body, files: &[] })?;
    borsh::from_slice(&answer).map_err(|_| Failure::BadAnswer)
}
