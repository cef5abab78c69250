//! Content of a profile file at one moment.

use crate::apart::{read_end, read_frames, read_root, write_end, write_frames, write_root};
use crate::defect::Defect;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_format::{
    AllocatorKind, End, Kind, LIFETIME_BUCKETS, LookupAddress, MemberState, Root, flags,
};

/// The header's facts. Times in ns; see FORMAT.md for each.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Header {
    pub state: u32,
    pub off_reason: u32,
    pub pid: u32,
    pub interval_bytes: u64,
    pub start_monotonic_ns: u64,
    pub start_realtime_ns: u64,
    pub process_start_ticks: u64,
    pub last_monotonic_ns: u64,
    pub run_id: u64,
    pub exit_status: i32,
    pub flags: u32,
    pub configured_interval_bytes: u64,
    pub max_overhead_ppm: u32,
    pub interval_changes: u32,
    pub until_monotonic_ns: u64,
    pub attached_monotonic_ns: u64,
    pub interval_orders: u64,
    pub unsampled_ns: u64,
    pub resumed_monotonic_ns: u64,
    pub start_cycles: u64,
    pub start_cycles_ns: u64,
    pub last_cycles: u64,
    pub last_cycles_ns: u64,
    pub cpu_ns: u64,
    pub processes: u64,
    pub inside: u64,
    /// Facts about the end that were told from outside when the process was gone.
    #[borsh(serialize_with = "write_end", deserialize_with = "read_end")]
    pub end: Option<Box<End>>,
    /// The process's root directory, as a reader with another root directory told it.
    #[borsh(serialize_with = "write_root", deserialize_with = "read_root")]
    pub root: Option<Box<Root>>,
    /// Allocations that are known to have failed: those that were to be samples.
    pub failures: u64,
    pub last_failure: Option<Box<FailedAllocation>>,
    /// Calls of abort while the kernel refused memory, and what it refused.
    pub aborts: u64,
    pub last_abort: Option<Box<FailedAllocation>>,
    /// Bytes of the file that are allocated.
    pub committed_bytes: u64,
    pub comm: String,
    pub exe: String,
    pub command: Vec<String>,
    /// In the order of `ramson_format::HEALTH`.
    pub health: Vec<u64>,
}

/// The latest allocation that is known to have failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct FailedAllocation {
    pub size: u64,
    pub monotonic_ns: u64,
    /// Index into `Snapshot::stacks`.
    pub stack: usize,
    pub tid: u32,
}

/// One executable range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub file_offset: u64,
    pub bias: u64,
    pub epochs: std::ops::Range<u32>,
    pub path: String,
    pub build_id: Vec<u8>,
}

/// An allocator inside the executable or a library.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Allocator {
    /// Number in `LiveSample::family`.
    pub family: u8,
    /// Number of `AllocatorKind`.
    pub kind: u32,
    /// Where its object begins in memory.
    pub object: u64,
    /// The object's file.
    pub path: String,
    /// Samples of it.
    pub samples: u64,
    /// Those at whose address another one was live, whose free was not seen.
    pub missed_frees: u64,
    /// What became of each function, by its number in `ramson_format::members::MEMBERS`.
    pub states: Vec<u8>,
}

impl Allocator {
    /// `jemalloc in polars.abi3.so`; `None` if no calls of it are counted.
    pub fn hooked_name(&self) -> Option<String> {
        let is_hooked = self.states.contains(&(MemberState::Hooked as u8));
        let kind = AllocatorKind::of(self.kind).unwrap_or(AllocatorKind::Other);
        is_hooked.then(|| format!("{} in {}", kind.name(), object_name(&self.path)))
    }
}

/// An object that has an allocator inside, as people call it; the path is empty for the executable.
pub fn object_name(path: &str) -> &str {
    match path.rsplit('/').next() {
        Some("") | None => "the executable",
        Some(name) => name,
    }
}

/// One distinct stack. `sampled_*` are raw, the others weighted.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Stack {
    /// Leaf first; empty for the overflow stack.
    #[borsh(serialize_with = "write_frames", deserialize_with = "read_frames")]
    pub frames: Vec<LookupAddress>,
    pub epoch: u32,
    pub flags: u32,
    pub sampled_alloc_objects: u64,
    pub sampled_alloc_bytes: u64,
    pub sampled_freed_objects: u64,
    pub sampled_freed_bytes: u64,
    pub alloc_objects: f64,
    pub alloc_space: f64,
    pub freed_objects: f64,
    pub freed_space: f64,
    pub alloc_objects_variance: f64,
    pub alloc_space_variance: f64,
    pub first_monotonic_ns: u64,
    pub lifetimes: [u64; LIFETIME_BUCKETS],
}

/// One sampled allocation that was live.
#[derive(Clone, Copy, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct LiveSample {
    pub address: u64,
    pub size: u64,
    pub inverse_probability: f64,
    pub monotonic_ns: u64,
    /// Index into `Snapshot::stacks`.
    pub stack: usize,
    pub tid: u32,
    /// Number of the functions that allocated it, as in the key.
    pub family: u8,
}

/// Anonymous memory that the program mapped itself, as far as it is still there: one mapping, or a
/// part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Extent {
    pub start: u64,
    pub bytes: u64,
    pub monotonic_ns: u64,
    /// Index into `Snapshot::stacks`.
    pub stack: usize,
    pub tid: u32,
    pub is_reserved: bool,
    pub is_shared: bool,
}

/// One sampled block that was freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Freed {
    pub number: u64,
    pub address: u64,
    pub size: u64,
    pub alloc_monotonic_ns: u64,
    pub free_monotonic_ns: u64,
    /// Index into `Snapshot::stacks`.
    pub alloc_stack: usize,
    /// The same; `None` if it is not known.
    pub free_stack: Option<usize>,
    pub alloc_tid: u32,
    pub free_tid: u32,
}

/// An immutable copy of a profile file at one moment.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct Snapshot {
    /// Facts that the process told of itself.
    pub header: Header,
    /// In the order in which they were met.
    pub mappings: Vec<Mapping>,
    /// Allocators inside objects, in the order of their families.
    pub allocators: Vec<Allocator>,
    /// Distinct stacks; the first are the overflow stacks, at each `Kind::overflow_stack`.
    pub stacks: Vec<Stack>,
    /// Samples not freed.
    pub live: Vec<LiveSample>,
    /// By address; none overlaps another. As the program left them, holes included, unless
    /// `clip_extents` was called.
    pub extents: Vec<Extent>,
    /// The latest sampled blocks that were freed, the latest first.
    pub freed: Vec<Freed>,
    /// How many of those the file can hold; 0: none are remembered.
    pub max_freed: u64,
    /// Parts that were not whole.
    pub defects: Vec<Defect>,
    /// Not of the file: the moment that Go's samples are as of which were added to those of the file.
    #[borsh(skip)]
    pub go_as_of_ns: Option<u64>,
    /// Not of the file: whoever asks for live bytes chooses.
    #[borsh(skip)]
    pub counting: Counting,
}

/// How the bytes of live samples are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Counting {
    /// As the program may use them: requests are rounded up as the allocator does.
    #[default]
    Usable,
    /// As the program asked for them.
    Requested,
    /// Usable bytes, corrected by the allocator's own total (docs/internals/sampling.md). Of samples until then.
    Calibrated {
        /// What is added for each unit of a sample's variance.
        slope: f64,
        /// What becomes known of the error for each unit of its variance.
        known: f64,
        /// Moment of the total, on the clock of the profile.
        until_ns: u64,
    },
}

impl Header {
    /// Key that tells a profile from all others: process, the start of the recording, and its number.
    pub fn identity(&self) -> (u32, u64, u64) {
        (self.pid, self.start_realtime_ns, self.run_id)
    }

    /// A time of the profile's clock in nanoseconds since 1970.
    pub fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        let after_start_ns = monotonic_ns.saturating_sub(self.start_monotonic_ns);
        self.start_realtime_ns.saturating_add(after_start_ns)
    }
}

impl Stack {
    /// The overflow stack of `kind`, without samples.
    pub fn overflow(kind: Kind) -> Self {
        Self { flags: kind.stack_flags(), ..Self::default() }
    }

    /// Which kind of memory was allocated there.
    pub fn kind(&self) -> Kind {
        Kind::of_stack(self.flags)
    }
}

impl Snapshot {
    /// The moment that Go's own samples are as of, if it is known.
    pub fn go_now_ns(&self) -> Option<u64> {
        let is_of_go = self.header.flags & flags::GO != 0;
        self.go_as_of_ns.or(is_of_go.then_some(self.header.last_monotonic_ns))
    }

    /// The mapping that was at `address` for stacks of `epoch`.
    pub fn mapping_at(&self, address: LookupAddress, epoch: u32) -> Option<usize> {
        self.mappings.iter().position(|mapping| {
            (mapping.start..mapping.end).contains(&address.0) && mapping.epochs.contains(&epoch)
        })
    }

    /// The allocator inside an object that can be asked for its statistics: of several, the one with most live bytes.
    pub fn asked_allocator(&self) -> Option<&Allocator> {
        const ASKED: [u32; 2] = [AllocatorKind::Jemalloc as u32, AllocatorKind::Tcmalloc as u32];
        let all = self.allocators.iter().filter(|it| ASKED.contains(&it.kind) && it.samples > 0);
        let live = |family| -> f64 {
            let own = self.live.iter().filter(|sample| sample.family == family);
            own.map(|sample| sample.size as f64 * sample.inverse_probability).sum()
        };
        all.max_by(|a, b| live(a.family).total_cmp(&live(b.family)))
    }
}
