//! Questions to a worker that reads what another user owns. Whoever asks checks the answer: the worker may be in the owner's hands.

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Request};

pub(crate) const NAMES: u8 = 0x12;
pub(crate) const COMPILED_NAMES: u8 = 0x13;
pub(crate) const ADDRESS: u8 = 0x14;

/// Asks, and waits for the answer.
pub(crate) fn ask<T: BorshDeserialize>(
    by: &Apart,
    kind: u8,
    question: &impl BorshSerialize,
) -> Result<T, Failure> {
    let body = borsh::to_vec(question).map_err(|_| Failure::BadAnswer)?;
    let answer = by.ask(&Request { kind, body: &body, files: &[] })?;
    borsh::from_slice(&answer).map_err(|_| Failure::BadAnswer)
}
