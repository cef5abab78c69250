//! Allocators inside the executable or a library, whose functions have hooks of their own.

use crate::atomic::{AtomicU8, AtomicU32, AtomicU64};
use crate::mix;

/// Room for the states of functions.
pub const MEMBER_STATES: usize = 208;
/// Allocators that a process tells apart; their families are numbered from 1.
pub const MOST_ALLOCATORS: usize = 32;

/// One allocator; entry n is of family n + 1.
#[repr(C)]
#[derive(Debug)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Allocator {
    pub commit: AtomicU32,
    pub kind: AtomicU32,
    pub object: AtomicU64,
    pub samples: AtomicU64,
    pub missed_frees: AtomicU64,
    pub path_offset: AtomicU32,
    pub path_bytes: AtomicU32,
    pub check: AtomicU64,
    pub states: [AtomicU8; MEMBER_STATES],
}

/// Values of `Allocator::kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "most are the names of allocators")]
pub enum AllocatorKind {
    /// Functions with the C library's names that are no allocator known by name.
    Other = 1,
    Jemalloc = 2,
    Mimalloc = 3,
    /// That of gperftools.
    Tcmalloc = 4,
    Snmalloc = 5,
    /// The other tcmalloc, with other size classes.
    GoogleTcmalloc = 6,
}

impl AllocatorKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Other,
        Self::Jemalloc,
        Self::Mimalloc,
        Self::Tcmalloc,
        Self::Snmalloc,
        Self::GoogleTcmalloc,
    ];

    /// The opposite of `as u32`.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u32 == number)
    }

    /// As users know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "malloc",
            Self::Jemalloc => "jemalloc",
            Self::Mimalloc => "mimalloc",
            Self::Tcmalloc | Self::GoogleTcmalloc => "tcmalloc",
            Self::Snmalloc => "snmalloc",
        }
    }
}

/// Outcome of writing hooks into allocators inside objects, in `Header::inside`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Inside {
    /// Nobody asked for them.
    #[default]
    Off = 0,
    /// Objects of the start were looked at, and later ones are.
    Followed = 1,
    /// Objects of the start were looked at; the loader does not tell of later ones.
    AtStart = 2,
    /// None: a second thread was there when ramson began.
    SecondThread = 3,
    /// None: there is no /proc.
    NoProc = 4,
    /// None: a seccomp filter was there when ramson began.
    Filtered = 5,
}

impl Inside {
    /// All of them, by number.
    pub const ALL: [Self; 6] = [
        Self::Off,
        Self::Followed,
        Self::AtStart,
        Self::SecondThread,
        Self::NoProc,
        Self::Filtered,
    ];

    /// The opposite of `as u64`; a number that is none of them is as good as none.
    pub fn of(number: u64) -> Self {
        usize::try_from(number).ok().and_then(|at| Self::ALL.get(at)).copied().unwrap_or_default()
    }
}

/// What became of a function of an allocator. Its number is the byte in `Allocator::states`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum MemberState {
    /// The object has no such function.
    #[default]
    Absent = 0,
    /// Its calls are counted.
    Hooked = 1,
    /// It is another name of a function in the list.
    Alias = 2,
    /// Its first instruction can be neither undone nor run twice.
    FirstInstruction = 3,
    /// An instruction that would have to move is not known or cannot be moved.
    Unmovable = 4,
    /// It has no room for a jump.
    TooShort = 5,
    /// A jump of its own, or of another function of the allocator, leads into what would have to move.
    JumpInto = 6,
    /// What is in memory is not what its file says, as where a debugger has set a breakpoint.
    Differs = 7,
    /// A short jump of it leads to another function of the allocator, which would count the call once more.
    ShortJump = 8,
    /// The kernel did not let it be written to, or there is no room for code near it.
    NotWritten = 9,
    /// The allocator's usual functions to free or move blocks could not be hooked.
    WithoutFrees = 10,
}

impl MemberState {
    /// All of them, by number.
    pub const ALL: [Self; 11] = [
        Self::Absent,
        Self::Hooked,
        Self::Alias,
        Self::FirstInstruction,
        Self::Unmovable,
        Self::TooShort,
        Self::JumpInto,
        Self::Differs,
        Self::ShortJump,
        Self::NotWritten,
        Self::WithoutFrees,
    ];

    /// The opposite of `as u8`.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// Check of an allocator; over its kind, its object, path_offset | path_bytes << 32, and its states, eight to a word.
pub fn allocator_check(kind: u32, object: u64, path: u64, states: &[u8; MEMBER_STATES]) -> u64 {
    let facts = [kind as u64, object, path];
    let hash = facts.iter().fold(0x616c_6c6f, |hash, &word| mix(hash, word));
    states.chunks(8).fold(hash, |hash, bytes| {
        let word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | byte as u64);
        mix(hash, word)
    })
}
