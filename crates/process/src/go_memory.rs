//! The memory of a Go program by the runtime's own books: which pages of its arenas are in which span (runtime/mheap.go of Go 1.21 to 1.27), and what
//! the collector knows (runtime/mgcpacer.go, mstats.go).

use crate::areas::{Area, Backing};
use crate::asked::MOST_BYTES;
use crate::blocks::{Blocks, words_in};
use crate::clock::{monotonic_ns, unix_ns};
use crate::go_variables::Runtime;
use crate::memory::{Memory, PAGE_BYTES, Presence, half_word_at, word_at};
use crate::part::Part;
use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;

/// Bytes of an arena, and of a page of the runtime's.
const ARENA_BYTES: u64 = 64 << 20;
const GO_PAGE_BYTES: u64 = 8192;
/// Added to an address before it is divided into arenas (arenaBaseOffset), so that negative ones are below.
const ARENA_OFFSET: u64 = 1 << 47;
/// Pages that are looked at: a heap of 64 GiB.
const MOST_PAGES: u64 = 8 << 20;
/// Memory of spans' descriptions is read in pieces of this size; at most MOST_PIECES are kept.
const PIECE_BYTES: u64 = PAGE_BYTES;
const MOST_PIECES: usize = 16 << 10;
/// Bytes of a description that matter.
const SPAN_BYTES: usize = 120;
/// States of a span: of objects, and of stacks or work buffers.
const IN_USE: u8 = 1;
const MANUAL: u8 = 2;

/// What the collector knows. Bytes.
#[derive(
    Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, BorshSerialize, BorshDeserialize,
)]
pub struct Collector {
    /// `go1.26.8`.
    pub version: String,
    /// GOGC as it is in force; negative: off.
    pub percent: i32,
    /// GOMEMLIMIT as it is in force; `None`: there is none.
    pub limit: Option<u64>,
    /// Live at the end of the last collection.
    pub live: u64,
    /// The same, and allocated since.
    pub in_use: u64,
    /// Of its arenas, returned to the kernel (heapReleased).
    pub released: u64,
    /// The size of the heap at which the next collection is to end by GOGC; `None`: GOGC is off.
    pub goal: Option<u64>,
    /// Collections since the start.
    pub collections: u32,
    /// Those of them that the program asked for.
    pub forced: u32,
    /// When the last one ended; nanoseconds since 1970, 0 before the first.
    pub last_unix_ns: u64,
    /// CPU time of the last collection that goroutines had to give before they could allocate; null: the next collection runs already.
    pub assist_ns: Option<u64>,
    /// Mean bytes from one sample of the heap profile to the next; 0: it is off.
    pub interval: u64,
}

/// Offsets that differ between versions.
pub(crate) struct Offsets {
    /// Of the list of spans in an arena's description.
    spans: u64,
    /// In a span's description: how many objects are in use, its state, bytes of an object.
    allocated: usize,
    state: usize,
    object_bytes: usize,
    /// In the statistics: bytes of one of the three parts, and where the totals follow.
    part_bytes: u64,
    totals: u64,
    pub collections: u64,
}

impl Offsets {
    /// Where the pauses of the last collections are, and behind them their ends.
    pub fn pauses(&self) -> u64 {
        const BEHIND_TOTALS: u64 = 64;
        self.totals + BEHIND_TOTALS
    }

    pub fn of(runtime: &Runtime) -> Self {
        let minor = runtime.minor();
        let [allocated, state, object_bytes] =
            if minor < 22 { [104, 107, 112] } else { [96, 99, 104] };
        let [part_bytes, totals, collections] =
            if minor < 25 { [1176, 3544, 7704] } else { [1168, 3520, 7680] };
        // Pointers' bits were before it.
        let spans = if minor < 22 { 1_064_960 } else { 0 };
        Self { spans, allocated, state, object_bytes, part_bytes, totals, collections }
    }
}

impl Collector {
    /// Reads it.
    pub fn of(memory: &impl Memory, runtime: &Runtime) -> Option<Self> {
        const LIMIT: u64 = 8;
        const GOAL: u64 = 72;
        const IN_USE: u64 = 104;
        const LIVE: u64 = 152;
        const ASSIST: u64 = 192;
        const BEGAN: u64 = 224;
        const RELEASED: u64 = 280;
        const LAST: u64 = 48;
        let memory = Blocks::of(memory);
        let offsets = Offsets::of(runtime);
        let word = |base: u64, offset| memory.words::<1>(base.checked_add(offset)?).map(|[it]| it);
        let of = |offset| word(runtime.controller, offset);
        let collections = word(runtime.statistics, offsets.collections)?;
        let percent = of(0)? as i32;
        let last_unix_ns = word(runtime.statistics, offsets.totals + LAST)?;
        let began_ago_ns = monotonic_ns().saturating_sub(of(BEGAN)?);
        let is_at_rest = unix_ns().saturating_sub(began_ago_ns) <= last_unix_ns;
        Some(Self {
            version: runtime.version.clone(),
            percent,
            limit: Some(of(LIMIT)?).filter(|&limit| limit < i64::MAX as u64),
            live: of(LIVE)?,
            in_use: of(IN_USE)?,
            released: of(RELEASED)?,
            goal: Some(of(GOAL)?).filter(|_| percent >= 0),
            collections: collections as u32,
            forced: (collections >> 32) as u32,
            last_unix_ns,
            assist_ns: Some(of(ASSIST)?).filter(|_| is_at_rest),
            interval: word(runtime.interval, 0)?,
        })
    }

    /// Whether its numbers can be added up.
    pub(crate) fn is_possible(&self) -> bool {
        self.live <= MOST_BYTES && self.in_use <= MOST_BYTES
    }
}

/// Resident bytes of the heap and of what is around it, in the order in which they are to be taken out of the anonymous memory.
pub fn parts(
    memory: &impl Memory,
    runtime: &Runtime,
    collector: &Collector,
    areas: &[Area],
) -> Option<Vec<(Part, u64)>> {
    let mut heap = Heap::of(memory, runtime)?;
    let is_anonymous = |area: &&Area| area.backing() == Backing::Anonymous && area.rss > 0;
    for area in areas.iter().filter(is_anonymous) {
        heap.add(area.start, area.end)?;
    }
    let statistics = Blocks::of(memory);
    let offsets = Offsets::of(runtime);
    let total = |offset: u64| {
        let parts = (0..3).map(|part| {
            let at = runtime.statistics.wrapping_add(part * offsets.part_bytes + offset);
            statistics.words::<1>(at).map_or(0, |[bytes]| bytes)
        });
        // Each part is a difference to the one before.
        parts.fold(0, u64::wrapping_add)
    };
    const WORK_BUFFERS: u64 = 32;
    let work = total(WORK_BUFFERS).min(heap.manual);
    // Stacks of threads, spans, caches, the profile's buckets, the collector's, others.
    let own: [u64; 6] = statistics.words(runtime.statistics.wrapping_add(offsets.totals))?;
    let own: u64 = own.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes));
    let objects = heap.objects_bytes.max(1) as f64;
    let live = (collector.live as f64 / objects).min(1.0) * heap.objects as f64;
    Some(vec![
        (Part::GoLive, live as u64),
        (Part::GoUncollected, heap.objects - live as u64),
        (Part::GoUnused, heap.unused),
        (Part::GoStacks, heap.manual - work),
        (Part::GoFree, heap.free),
        (Part::GoRuntime, work.saturating_add(own)),
    ])
}

/// Memory that a program mapped, without the arenas of its Go runtime: a profile contains the arenas, too, if the runtime maps them through the C library.
pub fn without_arenas(
    memory: &impl Memory,
    runtime: &Runtime,
    extents: &[Range<u64>],
) -> Vec<Range<u64>> {
    let heap = Heap::of(memory, runtime);
    let is_arena = |extent: &Range<u64>| heap.as_ref().is_some_and(|it| it.has(extent.start));
    extents.iter().filter(|extent| !is_arena(extent)).cloned().collect()
}

/// The pages of arenas, as they are added up. All in resident bytes, except objects_bytes.
struct Heap<'a, M> {
    memory: &'a M,
    /// Address of the list of arenas.
    arenas: u64,
    offsets: Offsets,
    pieces: HashMap<u64, Vec<u8>>,
    left: u64,
    objects_bytes: u64,
    objects: u64,
    unused: u64,
    manual: u64,
    free: u64,
}

/// A span that is in use.
struct Span {
    end: u64,
    is_manual: bool,
    /// How much of it is objects.
    objects_share: f64,
}

impl<'a, M: Memory> Heap<'a, M> {
    fn of(memory: &'a M, runtime: &Runtime) -> Option<Self> {
        let mut arenas = [0; 8];
        memory.read(runtime.arenas, &mut arenas).then_some(())?;
        Some(Self {
            memory,
            arenas: word_at(&arenas, 0)?,
            offsets: Offsets::of(runtime),
            pieces: HashMap::new(),
            left: MOST_PAGES,
            objects_bytes: 0,
            objects: 0,
            unused: 0,
            manual: 0,
            free: 0,
        })
    }

    /// Adds the pages of an area that are in arenas.
    fn add(&mut self, start: u64, end: u64) -> Option<()> {
        let mut at = start;
        while at < end {
            let arena_start = at - at % ARENA_BYTES;
            let arena_end = end.min(arena_start + ARENA_BYTES);
            if let Some(description) = self.description(at) {
                self.add_arena(description, arena_start, at, arena_end)?;
            }
            at = arena_end;
        }
        Some(())
    }

    fn has(&self, address: u64) -> bool {
        self.description(address).is_some()
    }

    /// The description of the arena that contains an address.
    fn description(&self, address: u64) -> Option<u64> {
        let number = address.wrapping_add(ARENA_OFFSET) / ARENA_BYTES;
        let description = self.word(self.arenas.wrapping_add(number.wrapping_mul(8)));
        description.filter(|&it| it != 0)
    }

    fn add_arena(&mut self, description: u64, arena: u64, start: u64, end: u64) -> Option<()> {
        let presence = Presence::of(self.memory, start, end)?;
        let first = (start - arena) / GO_PAGE_BYTES;
        let count = (end - arena).div_ceil(GO_PAGE_BYTES) - first;
        self.left = self.left.checked_sub(count)?;
        let mut spans = vec![0; 8 * count as usize];
        let list = description.wrapping_add(self.offsets.spans + 8 * first);
        self.memory.read(list, &mut spans).then_some(())?;
        let mut at = start;
        while at < end {
            let index = (at - arena) / GO_PAGE_BYTES - first;
            let span = word_at(&spans, 8 * index as usize).filter(|&span| span != 0);
            match span.and_then(|span| self.span_at(span, at)) {
                Some(span) => {
                    let to = span.end.min(end);
                    let resident = presence.resident_bytes(at, to);
                    if span.is_manual {
                        self.manual += resident;
                    } else {
                        // It may go on in the next arena.
                        let of_objects = (resident as f64 * span.objects_share) as u64;
                        self.objects_bytes += ((to - at) as f64 * span.objects_share) as u64;
                        self.objects += of_objects;
                        self.unused += resident - of_objects;
                    }
                    at = to;
                }
                None => {
                    let to = (at - at % GO_PAGE_BYTES + GO_PAGE_BYTES).min(end);
                    self.free += presence.resident_bytes(at, to);
                    at = to;
                }
            }
        }
        Some(())
    }

    /// The span described there, if it is in use and contains this address: pages of free memory may still lead to one that is elsewhere now.
    fn span_at(&mut self, description: u64, address: u64) -> Option<Span> {
        const START: usize = 24;
        const PAGES: usize = 32;
        let bytes = self.bytes(description)?;
        let start = word_at(&bytes, START)?;
        let length = word_at(&bytes, PAGES)?.checked_mul(GO_PAGE_BYTES)?;
        let end = start.checked_add(length)?;
        let Offsets { allocated, state, object_bytes, .. } = self.offsets;
        let state = *bytes.get(state)?;
        let is_it = (start..end).contains(&address) && [IN_USE, MANUAL].contains(&state);
        let allocated = u64::from(half_word_at(&bytes, allocated)? & 0xffff);
        let objects_bytes = allocated.saturating_mul(word_at(&bytes, object_bytes)?);
        let objects_share = (objects_bytes as f64 / length.max(1) as f64).min(1.0);
        is_it.then_some(Span { end, is_manual: state == MANUAL, objects_share })
    }

    fn bytes(&mut self, address: u64) -> Option<[u8; SPAN_BYTES]> {
        let piece = address - address % PIECE_BYTES;
        let offset = (address - piece) as usize;
        if self.pieces.len() >= MOST_PIECES {
            self.pieces.clear();
        }
        let memory = self.memory;
        let known = self.pieces.entry(piece).or_insert_with(|| {
            let mut bytes = vec![0; PIECE_BYTES as usize];
            if memory.read(piece, &mut bytes) { bytes } else { Vec::new() }
        });
        let mut bytes = [0; SPAN_BYTES];
        match known.get(offset..offset + SPAN_BYTES) {
            Some(there) => bytes.copy_from_slice(there),
            None => self.memory.read(address, &mut bytes).then_some(())?,
        }
        Some(bytes)
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.read(address, &mut bytes).then(|| words_in::<1>(&bytes)[0])
    }
}
