//! What somebody outside asks of the process, and its answer, as FORMAT.md has them under "Requests".

use crate::atomic::{AtomicU32, AtomicU64};
use crate::mix;

/// From the start of the file.
pub const REQUEST_OFFSET: u64 = 2560;
/// A deadline further ahead than this is none.
pub const MOST_PATIENCE_NS: u64 = 60_000_000_000;

/// The words of whoever asks, but for `number`, which the process sets to 0 when it has dealt with the request. What is asked for is
/// always the same: that the allocator gives back what it keeps free.
#[repr(C)]
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Request {
    pub number: AtomicU64,
    pub deadline_ns: AtomicU64,
    pub check: AtomicU64,
    pub reserved: [AtomicU64; 5],
}

/// The process's words, on a cache line of their own.
#[repr(C)]
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Answer {
    pub taken: AtomicU64,
    pub looks: AtomicU64,
    pub outcome: AtomicU32,
    pub tid: AtomicU32,
    pub held_ns: AtomicU64,
    pub done: AtomicU64,
    pub reserved: [AtomicU64; 3],
}

/// Both, from `REQUEST_OFFSET` on.
#[repr(C)]
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Requests {
    pub request: Request,
    pub answer: Answer,
}

/// Check of a request over its other words; never 0, as the words of an older file are.
pub fn request_check(number: u64, deadline_ns: u64) -> u64 {
    mix(mix(0x7472_696d, number), deadline_ns) | 1
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This function was called and has returned.
    Called(Function),
    /// It was taken too late.
    Expired,
    /// It will not be served.
    Refused(Reason),
}

/// What gives kept memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Function {
    /// Of glibc.
    MallocTrim = 1,
    /// Of jemalloc: `arena.4096.purge`.
    Mallctl = 2,
    /// Of gperftools' tcmalloc.
    ReleaseFreeMemory = 3,
}

/// Why a thread that came by did not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// It was on a coroutine's stack, or on a signal's.
    Stack = 1,
    /// Its stack had too little room left.
    Room = 2,
    /// Its stack could not be followed to the outermost frame by unwind tables, or through a signal handler only.
    Frames = 3,
    /// It was inside of the allocator, or of fork.
    Inside = 4,
    /// A lock of the allocator was not seen free.
    Locked = 5,
    /// The C library's arenas were not found.
    Arenas = 6,
    /// No function of this allocator gives memory back on behalf of all threads.
    Allocator = 7,
    /// There is a filter of system calls.
    Confined = 8,
}

const FUNCTIONS: [Function; 3] =
    [Function::MallocTrim, Function::Mallctl, Function::ReleaseFreeMemory];
const REASONS: [Reason; 8] = [
    Reason::Stack,
    Reason::Room,
    Reason::Frames,
    Reason::Inside,
    Reason::Locked,
    Reason::Arenas,
    Reason::Allocator,
    Reason::Confined,
];
const EXPIRED: u32 = 16;
const REFUSED: u32 = 32;

impl Outcome {
    /// As it stands in the file.
    pub const fn code(self) -> u32 {
        match self {
            Self::Called(function) => function as u32,
            Self::Expired => EXPIRED,
            Self::Refused(reason) => REFUSED + reason as u32,
        }
    }

    /// `None` for what this version does not know.
    pub fn of(code: u32) -> Option<Self> {
        let called = FUNCTIONS.iter().map(|&function| Self::Called(function));
        let refused = REASONS.iter().map(|&reason| Self::Refused(reason));
        called.chain([Self::Expired]).chain(refused).find(|outcome| outcome.code() == code)
    }
}

/// Times that threads came by a request and did not serve it, and why the latest did not: `Answer::looks`, which belongs to the
/// request of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looks {
    /// So many.
    pub count: u32,
    /// Of the latest.
    pub reason: Option<Reason>,
}

const COUNT_BITS: u32 = 24;
const NUMBER_SHIFT: u32 = 32;

impl Looks {
    /// Those at the request `number`.
    pub fn of(word: u64, number: u64) -> Self {
        if word >> NUMBER_SHIFT != number & u32::MAX as u64 {
            return Self { count: 0, reason: None };
        }
        let code = (word as u32) >> COUNT_BITS;
        let reason = REASONS.iter().copied().find(|&reason| reason as u32 == code);
        Self { count: word as u32 & ((1 << COUNT_BITS) - 1), reason }
    }

    /// The word with one more.
    pub fn one_more(self, number: u64, reason: Reason) -> u64 {
        let count = (self.count + 1).min((1 << COUNT_BITS) - 1);
        number << NUMBER_SHIFT | (reason as u64) << COUNT_BITS | count as u64
    }
}
