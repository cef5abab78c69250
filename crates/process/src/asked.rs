//! Kinds of questions to a worker that reads another user's process. Whoever asks checks the answer: the worker may be in the owner's hands.

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
pub const GO_HEAP: u8 = 0x4c;
pub const GO_COLLECTOR: u8 = 0x4d;
pub const GO_GOROUTINES: u8 = 0x4e;
/// A process has no more addresses.
pub const MOST_BYTES: u64 = 1 << 47;
