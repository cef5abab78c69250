//! The profile file's layout, as `FORMAT.md` specifies it: shared by the writer in the program and the readers outside.
//!
//! Writers use these structs in place, through a shared mapping; readers copy bytes and take fields at
//! `core::mem::offset_of!` of the same structs, so both sides have one definition.
#![cfg_attr(not(loom), no_std)]
#![forbid(unsafe_code)]

mod address;
mod allocator;
pub mod atomic;
pub mod control;
mod end;
mod failure;
mod freed;
mod health;
mod kind;
pub mod members;
mod plan;
mod root;
pub mod settings;

pub use address::{LookupAddress, ReturnAddress};
pub use allocator::{
    Allocator, AllocatorKind, Inside, MEMBER_STATES, MOST_ALLOCATORS, MemberState, allocator_check,
};
pub use end::{CGROUP_BYTES, END_BYTES, END_OFFSET, End, Way};
pub use failure::{Failure, failure_check};
pub use freed::{Freed, MAX_RECENT_FREES, NO_STACK, freed_check, max_recent_frees};
pub use health::{HEALTH, Health};
pub use kind::{KINDS, Kind};
pub use plan::{RegionPlan, plan};
pub use root::{ROOT_BYTES, ROOT_OFFSET, ROOT_PATH_BYTES, Root};

use atomic::{AtomicI32, AtomicU32, AtomicU64};

/// The first eight bytes of every profile file.
pub const MAGIC: [u8; 8] = *b"\x89RMSN\r\n\x1a";
/// The only version that this crate describes.
pub const VERSION: u32 = 4;
/// The header's length, and the alignment of every region.
pub const PAGE_BYTES: u64 = 4096;
/// Default length of a file; bounds everything in it.
pub const DEFAULT_FILE_BYTES: u64 = 64 << 20;
/// Smallest and largest length that a user may ask for.
pub const FILE_BYTES_RANGE: (u64, u64) = (1 << 20, 4 << 30);
/// The governor's bound unless another one is asked for, in millionths of the CPU time.
pub const DEFAULT_MAX_OVERHEAD_PPM: u32 = 10_000;
/// Smallest and largest bound that a user may ask for (0 is none).
pub const MAX_OVERHEAD_PPM_RANGE: (u32, u32) = (10, 900_000);
/// Longest recorded stack.
pub const MAX_DEPTH: usize = 128;
/// Values of the commit words of stacks and mappings: begun, and committed.
pub const BEGUN: u32 = 1;
/// See `BEGUN`.
pub const COMMITTED: u32 = 2;
/// Live key of a slot that is being written or removed.
pub const KEY_RESERVED: u64 = 1;
/// Live key of a slot that nothing will be moved to any more, until it is free again.
pub const KEY_CANCELLED: u64 = 2;
/// Bit of a live key from which on the family stands; below is the address.
pub const KEY_FAMILY_SHIFT: u32 = 58;
/// The family of the malloc that libramson is in front of.
pub const PRELOADED_FAMILY: u8 = 0;
/// Family of the blocks that Go's runtime sampled.
pub const GO_FAMILY: u8 = 63;
/// `Mapping::epoch_to` while it is mapped.
pub const EPOCH_OPEN: u32 = u32::MAX;
/// Number of lifetime buckets of a stack.
pub const LIFETIME_BUCKETS: usize = 32;
/// Bucket 0 ends at 2^(this + 1) ns.
pub const LIFETIME_SHIFT: u32 = 16;
/// The program's own anonymous mappings of at least so many bytes are extents; others are not
/// recorded.
pub const EXTENT_LEAST_BYTES: u64 = 1 << 20;
/// Slots of the first live segment; each further segment has twice as many as the one before.
pub const LIVE_FIRST_SEGMENT: u64 = 512;

/// Values of `Header::state`.
pub mod state {
    /// The header is not complete.
    pub const MAKING: u32 = 0;
    /// The process records.
    pub const RECORDING: u32 = 1;
    /// Recording ended; `off_reason` says why.
    pub const OFF: u32 = 2;
    /// The process exited through `exit` or `_exit`.
    pub const EXITED: u32 = 3;
}

/// Bits of `Header::flags`.
pub mod flags {
    /// The file stays after a normal exit.
    pub const KEEP: u32 = 1;
    /// No directory could be written: the profile lives in a memfd and dies with the process.
    pub const MEMFD: u32 = 2;
    /// Cycles cannot be converted to time.
    pub const UNSTEADY_CYCLES: u32 = 4;
    /// The profile is private memory of the process and dies with it.
    pub const PRIVATE: u32 = 8;
    /// The program installed a seccomp filter: no space is added any more.
    pub const CONFINED: u32 = 16;
    /// Set by a reader: its extents are without the holes that the process had unmapped.
    pub const CLIPPED: u32 = 64;
    /// Recording began in a process that was running already: what it had allocated before is not known.
    pub const ATTACHED: u32 = 128;
    /// Sampling was switched off, and not on again.
    pub const PAUSED: u32 = 256;
    /// With `ATTACHED`: hooks are in place.
    pub const HOOKED: u32 = 512;
    /// Set by a reader: it read the samples out of a Go program, in which no library was.
    pub const GO: u32 = 1024;
}

/// Bits of `Stack::flags`.
pub mod stack_flags {
    /// The stack was deeper than `MAX_DEPTH`.
    pub const CUT: u32 = 1;
    /// The walk ended before the outermost frame.
    pub const INCOMPLETE: u32 = 2;
    /// `Kind::Mmap`.
    pub const MMAP: u32 = 4;
    /// The stack is one of Go's runtime: each function has an address of its own, also those that are inlined.
    pub const GO: u32 = 8;
}

/// Bits of `LiveSample::flags`; a block of the heap has none.
pub mod live_flags {
    /// An extent: anonymous memory that the program mapped itself. Its address is its start.
    pub const EXTENT: u32 = 1;
    /// Mapped without any access (PROT_NONE): address space, not memory.
    pub const RESERVED: u32 = 2;
    /// MAP_SHARED.
    pub const SHARED: u32 = 4;
}

/// Indices of the region directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RegionKind {
    /// `Stack` entries.
    Stacks = 0,
    /// u64 lookup addresses.
    Frames = 1,
    /// u64 addresses of live samples.
    LiveKeys = 2,
    /// `LiveSample` entries, parallel to the keys.
    LiveSamples = 3,
    /// `Mapping` entries.
    Mappings = 4,
    /// Bytes.
    Strings = 5,
    /// `Freed` entries, a ring.
    RecentFrees = 6,
    /// `Allocator` entries.
    Allocators = 7,
}

/// Rows of the region directory.
pub const REGIONS: usize = 8;

/// All kinds, in directory order.
pub const REGION_KINDS: [RegionKind; REGIONS] = [
    RegionKind::Stacks,
    RegionKind::Frames,
    RegionKind::LiveKeys,
    RegionKind::LiveSamples,
    RegionKind::Mappings,
    RegionKind::Strings,
    RegionKind::RecentFrees,
    RegionKind::Allocators,
];

impl RegionKind {
    /// Bytes of one entry.
    pub const fn entry_bytes(self) -> u64 {
        match self {
            RegionKind::Stacks => size_of::<Stack>() as u64,
            RegionKind::Frames | RegionKind::LiveKeys => 8,
            RegionKind::RecentFrees => size_of::<Freed>() as u64,
            RegionKind::Allocators => size_of::<Allocator>() as u64,
            RegionKind::LiveSamples => size_of::<LiveSample>() as u64,
            RegionKind::Mappings => size_of::<Mapping>() as u64,
            RegionKind::Strings => 1,
        }
    }

    /// The number that stands in `Region::kind`.
    pub const fn code(self) -> u32 {
        self as u32 + 1
    }

    /// Returns the offset of its row of the directory in the header, in bytes.
    pub const fn row(self) -> usize {
        core::mem::offset_of!(Header, regions) + self as usize * size_of::<Region>()
    }
}

/// One row of the region directory.
#[repr(C)]
#[derive(Debug)]
pub struct Region {
    /// From the start of the file; a multiple of `PAGE_BYTES`.
    pub offset: AtomicU64,
    /// Entries that the region can ever hold.
    pub capacity: AtomicU64,
    /// Entries whose space is allocated. Stored with release after the space is there.
    pub committed: AtomicU64,
    /// Bytes of one entry.
    pub entry_bytes: AtomicU32,
    /// `RegionKind::code`.
    pub kind: AtomicU32,
}

/// Bytes 0–4095 of the file; `FORMAT.md` has the meaning of each field.
#[repr(C)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
#[derive(Debug)]
pub struct Header {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub state: AtomicU32,
    pub off_reason: AtomicU32,
    pub pid: AtomicU32,
    pub interval_bytes: AtomicU64,
    pub start_monotonic_ns: AtomicU64,
    pub start_realtime_ns: AtomicU64,
    pub process_start_ticks: AtomicU64,
    pub last_monotonic_ns: AtomicU64,
    pub run_id: AtomicU64,
    pub exit_status: AtomicI32,
    pub flags: AtomicU32,
    pub epoch: AtomicU32,
    pub stack_count: AtomicU32,
    pub frame_count: AtomicU64,
    pub mapping_count: AtomicU32,
    pub string_bytes: AtomicU32,
    pub exe_bytes: AtomicU32,
    pub command_bytes: AtomicU32,
    pub comm: [AtomicU64; 2],
    pub regions: [Region; REGIONS],
    pub until_monotonic_ns: AtomicU64,
    pub attached_monotonic_ns: AtomicU64,
    pub interval_orders: AtomicU64,
    pub unsampled_ns: AtomicU64,
    pub resumed_monotonic_ns: AtomicU64,
    pub processes: AtomicU64,
    pub inside: AtomicU64,
    pub reserved: [AtomicU64; 2],
    pub configured_interval_bytes: AtomicU64,
    pub max_overhead_ppm: AtomicU32,
    pub interval_changes: AtomicU32,
    pub start_cycles: AtomicU64,
    pub start_cycles_ns: AtomicU64,
    pub last_cycles: AtomicU64,
    pub last_cycles_ns: AtomicU64,
    pub cpu_ns: AtomicU64,
    pub exe: [AtomicU64; EXE_BYTES / 8],
    pub command: [AtomicU64; COMMAND_BYTES / 8],
    pub health: [AtomicU64; 64],
    pub unused: [AtomicU64; 112],
    pub failure: Failure,
    pub abort: Failure,
}

impl Header {
    /// A row of the region directory.
    #[inline]
    pub const fn region(&self, kind: RegionKind) -> &Region {
        &self.regions[kind as usize]
    }
}

/// Offset of the latest failed allocation in the header, in bytes.
pub const FAILURE_OFFSET: u64 = core::mem::offset_of!(Header, failure) as u64;
/// Offset of the latest abort without memory in the header, in bytes.
pub const ABORT_OFFSET: u64 = core::mem::offset_of!(Header, abort) as u64;
/// Room for the executable's path.
pub const EXE_BYTES: usize = 512;
/// Room for the arguments.
pub const COMMAND_BYTES: usize = 1024;

/// One distinct stack with its counters. Floats are stored as their bits.
#[repr(C)]
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Stack {
    pub commit: AtomicU32,
    pub depth: AtomicU32,
    pub hash: AtomicU64,
    pub first_frame: AtomicU64,
    pub epoch: AtomicU32,
    pub flags: AtomicU32,
    pub sampled_alloc_objects: AtomicU64,
    pub sampled_alloc_bytes: AtomicU64,
    pub sampled_freed_objects: AtomicU64,
    pub sampled_freed_bytes: AtomicU64,
    pub unsampled_alloc_objects: AtomicU64,
    pub unsampled_alloc_space: AtomicU64,
    pub unsampled_freed_objects: AtomicU64,
    pub unsampled_freed_space: AtomicU64,
    pub alloc_objects_variance: AtomicU64,
    pub alloc_space_variance: AtomicU64,
    pub first_monotonic_ns: AtomicU64,
    pub reserved: AtomicU64,
    pub lifetimes: [AtomicU32; LIFETIME_BUCKETS],
}

/// One sampled allocation that is live, or one extent; its address is the key at the same index.
#[repr(C)]
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct LiveSample {
    pub size: AtomicU64,
    pub inverse_probability: AtomicU64,
    pub monotonic_ns: AtomicU64,
    pub stack: AtomicU32,
    pub tid: AtomicU32,
    pub check: AtomicU64,
    pub flags: AtomicU32,
    pub number: AtomicU32,
}

/// One file-backed executable range.
#[repr(C)]
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Mapping {
    pub commit: AtomicU32,
    pub build_id_bytes: AtomicU32,
    pub start: AtomicU64,
    pub end: AtomicU64,
    pub file_offset: AtomicU64,
    pub bias: AtomicU64,
    pub epoch_from: AtomicU32,
    pub epoch_to: AtomicU32,
    pub path_offset: AtomicU32,
    pub path_bytes: AtomicU32,
    pub build_id: [AtomicU64; 4],
    pub check: AtomicU64,
    pub reserved: [AtomicU64; 4],
}

/// First slot and number of slots of live segment `segment`.
pub const fn live_segment(segment: u32) -> (u64, u64) {
    (LIVE_FIRST_SEGMENT * ((1 << segment) - 1), LIVE_FIRST_SEGMENT << segment)
}

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// One round of the hash that all checks use: multiply to 128 bits and fold.
#[inline(always)]
pub const fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word) as u128 * MULTIPLIER as u128;
    (product as u64) ^ ((product >> 64) as u64) ^ hash.rotate_left(23)
}

/// Hash of a stack; never 0.
#[inline]
pub fn stack_hash(
    kind: Kind,
    epoch: u32,
    frames: impl ExactSizeIterator<Item = LookupAddress>,
) -> u64 {
    let seed = 0x7261_6d73_6f6e + kind as u64;
    let mut hash = mix(seed, epoch as u64 | (frames.len() as u64) << 32);
    for LookupAddress(frame) in frames {
        hash = mix(hash, frame);
    }
    hash | 1
}

/// The live key of a block at `address`. `family` numbers the functions that allocate and free it: blocks of two families may begin at one
/// address, as one allocator may get its memory from another.
#[inline(always)]
pub const fn live_key(address: u64, family: u8) -> u64 {
    address | (family as u64) << KEY_FAMILY_SHIFT
}

/// The address in a live key.
#[inline(always)]
pub const fn address_of(key: u64) -> u64 {
    key & ((1 << KEY_FAMILY_SHIFT) - 1)
}

/// The family in a live key.
#[inline(always)]
pub const fn family_of(key: u64) -> u8 {
    (key >> KEY_FAMILY_SHIFT) as u8
}

/// Check of a live sample; `words` are its key, size, inverse_probability, monotonic_ns,
/// stack | tid << 32 and flags | number << 32.
#[inline]
pub fn live_check(words: &[u64; 6]) -> u64 {
    words.iter().fold(0x6c69_7665, |hash, &word| mix(hash, word))
}

/// Check of a mapping; `words` are start, end, file_offset, bias, epoch_from, path_offset | path_bytes << 32,
/// build_id_bytes and the four words of the build ID.
pub fn mapping_check(words: &[u64; 11]) -> u64 {
    words.iter().fold(0x6d61_7070, |hash, &word| mix(hash, word))
}

/// The lifetime bucket of a freed sample.
#[inline]
pub const fn lifetime_bucket(lifetime_ns: u64) -> usize {
    let log2 = 63 - (lifetime_ns | 1).leading_zeros();
    let bucket = log2.saturating_sub(LIFETIME_SHIFT) as usize;
    if bucket < LIFETIME_BUCKETS { bucket } else { LIFETIME_BUCKETS - 1 }
}

#[cfg(test)]
mod tests;
