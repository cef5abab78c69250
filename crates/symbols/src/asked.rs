//! Kinds of questions to a worker that reads what another user owns. Whoever asks checks the answer: the worker may be in the owner's hands.

pub(crate) const NAMES: u8 = 0x12;
pub(crate) const COMPILED_NAMES: u8 = 0x13;
pub(crate) const ADDRESS: u8 = 0x14;
