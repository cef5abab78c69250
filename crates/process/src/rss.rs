//! RSS in parts that add up to it: the one classification, which every command shows.

use crate::allocators::{Allocators, Missing};
use crate::areas::{self, Area, Backing, without};
use crate::asked::MOST_BYTES;
use crate::details::Details;
use crate::glibc::{Arena, Effort, Statistics};
use crate::go_memory::{Collector, parts, without_arenas};
use crate::identify::base_name;
use crate::memory::{Memory, Presence};
use crate::part::{Part, Term};
use crate::process_memory::ProcessMemory;
use crate::sight::Sight;
use crate::smaps::{Areas, read_areas};
use crate::stacks::{Stacks, stack_pointers};
use crate::variables::begins_with_variables;
use crate::{clock, forked, rights, stat, text, their_rss, watched};
use borsh::{BorshDeserialize, BorshSerialize};
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};
use std::{iter, ops};

/// Times that everything is read again because it changed meanwhile.
const MOST_TRIES: u32 = 3;
/// CPU time, in ns, after which no other try begins …
const MOST_READING_NS: u64 = 1_000_000_000;
/// … nor after this time, which passes sooner on a machine with more to do than processors.
const MOST_READING_TIME: Duration = Duration::from_millis(500);
/// Share of RSS, or number of bytes, that may change without another try.
const STILL_SHARE: f64 = 0.01;
const STILL_BYTES: i64 = 256 << 10;
/// Share of RSS that half the interval of a survey may take. A piece that changes while it is walked may be cut short, and stand for much.
const NARROW_SHARE: f64 = 0.1;

/// More than this below an area is memory that the program keeps for later, and no guard.
const MOST_GUARD_BYTES: u64 = 1 << 20;

/// The bytes of each part, in the order of `Part::ALL`.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
struct Parts([i64; Part::ALL.len()]);

impl Default for Parts {
    fn default() -> Self {
        Self([0; Part::ALL.len()])
    }
}

/// RSS in parts, and what stands beside it. Bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Explained {
    /// Resident bytes that the kernel counts: the sum of the parts.
    pub rss: u64,
    /// It changed faster than its parts can be read: they are of other moments than the total.
    pub is_unsettled: bool,
    parts: Parts,
    /// Proportional: each shared page divided by how often it is mapped (Pss).
    pub pss: u64,
    /// On pages that nobody else has mapped.
    pub private: u64,
    /// Not resident.
    pub swap: u64,
    /// Anonymous memory in transparent huge pages.
    pub anonymous_huge: u64,
    /// Not part of RSS.
    pub hugetlb: u64,
}

impl Explained {
    /// The bytes of a part.
    pub fn part(&self, part: Part) -> i64 {
        self.parts.0[part as usize]
    }

    /// Whether its numbers can be added up.
    pub(crate) fn is_possible(&self) -> bool {
        let own = [self.rss, self.pss, self.private, self.swap, self.anonymous_huge, self.hugetlb];
        own.into_iter().chain(self.parts.0.map(i64::unsigned_abs)).all(|bytes| bytes <= MOST_BYTES)
    }

    /// The bytes of a term: the sum of its parts.
    pub fn term(&self, term: Term) -> i64 {
        let of_term = Part::ALL.iter().filter(|(_, _, of)| *of == term);
        of_term.map(|&(part, ..)| self.part(part)).sum()
    }

    /// Moves what an allocator says of itself out of the anonymous memory, in this order, as far as there is any.
    pub fn divide_anonymous(&mut self, parts: &[(Part, u64)]) {
        self.transfer(Part::Held, Part::Anonymous, self.part(Part::Held));
        self.take_anonymous(parts);
    }

    /// Moves the parts of a Go program's memory out of the anonymous memory. Zeros in its huge pages are in one of them, and what it has
    /// freed lazily is not free in its arenas once more.
    fn divide_go(&mut self, parts: &[(Part, u64)]) {
        self.transfer(Part::Padding, Part::Anonymous, self.part(Part::Padding));
        let lazy = self.part(Part::LazyFree).max(0) as u64;
        let less = |&(part, bytes): &(Part, u64)| match part {
            Part::GoFree => (part, bytes.saturating_sub(lazy)),
            _ => (part, bytes),
        };
        self.take_anonymous(&parts.iter().map(less).collect::<Vec<_>>());
    }

    fn take_anonymous(&mut self, parts: &[(Part, u64)]) {
        for &(part, bytes) in parts {
            let moved = self.part(Part::Anonymous).max(0).min(bytes.min(i64::MAX as u64) as i64);
            self.transfer(Part::Anonymous, part, moved);
        }
    }

    /// Moves bytes of one part to another.
    pub fn transfer(&mut self, from: Part, to: Part, bytes: i64) {
        self.add(from, -bytes);
        self.add(to, bytes);
    }

    /// Makes `rss` the sum; what the parts have more or less than that has changed meanwhile.
    fn settle(&mut self, rss: u64, is_settled: bool) {
        self.add(Part::Moved, rss as i64 - self.rss as i64);
        self.rss = rss;
        self.is_unsettled = !is_settled;
    }

    fn add(&mut self, part: Part, bytes: i64) {
        self.parts.0[part as usize] += bytes;
    }
}

/// Sums up several processes.
impl<'a> iter::Sum<&'a Self> for Explained {
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum.rss += one.rss;
            sum.is_unsettled |= one.is_unsettled;
            sum.parts.0.iter_mut().zip(one.parts.0).for_each(|(sum, bytes)| *sum += bytes);
            sum.pss += one.pss;
            sum.private += one.private;
            sum.swap += one.swap;
            sum.anonymous_huge += one.anonymous_huge;
            sum.hugetlb += one.hugetlb;
            sum
        })
    }
}

/// Whether an area is ramson's: the library and the anonymous memory right behind it, the profile file, and anonymous memory that is
/// neither to be dumped nor to become huge pages, as the page filter and the tables are.
pub fn is_ramsons(area: &Area, previous: Option<&Area>, profile: Option<&str>) -> bool {
    let is_unnamed = area.path.is_empty();
    let follows_library = previous.is_some_and(|last| last.end == area.start && is_library(last));
    is_library(area)
        || Some(area.path.as_str()) == profile
        || area.path.starts_with("/memfd:ramson")
        || is_unnamed
            && (follows_library
                || area.is_not_dumped && area.is_never_huge && !SHADOW.contains(&area.start))
}

/// Address range of AddressSanitizer's shadow on x86-64, which is neither dumped nor huge either.
const SHADOW: ops::Range<u64> = 0x7fff_8000..0x1000_7fff_8000;

fn is_library(area: &Area) -> bool {
    base_name(&area.path) == "libramson.so"
}

/// Facts about a process in addition to its areas.
#[derive(Default)]
pub struct Known<'a> {
    /// The allocator's statistics, read at about the same time.
    pub statistics: Option<&'a Statistics>,
    /// Memory that the program mapped itself, by address.
    pub extents: &'a [ops::Range<u64>],
    /// Addresses of blocks that live, in their order.
    pub blocks: &'a [u64],
    /// Those among them that no statistics tell of: an allocator inside an object has made them.
    pub blocks_inside: &'a [u64],
    /// It was forked by a process of the same program, which still runs.
    pub is_child: bool,
    /// Anonymous memory of the process that forked it, by address.
    pub parents: Vec<ops::Range<u64>>,
    /// ramson's file in this process.
    pub profile: Option<&'a str>,
    /// Facts seen in its memory.
    pub sight: Sight,
    /// The threads' stack pointers, ascending.
    pub stack_pointers: Vec<u64>,
    /// Devices of the file systems in memory that it has mounted.
    pub tmpfs_devices: HashSet<u64>,
    /// Its memory, whose pages are asked for the resident bytes of a part of an area; `None` if it may not be read.
    pub memory: Option<&'a dyn Memory>,
}

impl Known<'_> {
    /// Whether an area is a stack: the first thread's, one that the C library made, or one that a thread is on and that has a guard below. A
    /// thread may also be on a piece of a heap.
    pub(crate) fn is_stack(&self, area: &Area, previous: Option<&Area>) -> bool {
        let next = self.stack_pointers.partition_point(|&pointer| pointer < area.start);
        let has_pointer = self.stack_pointers.get(next).is_some_and(|&next| next < area.end);
        let is_guard = |below: &Area| {
            below.end == area.start
                && below.permissions.starts_with(b"---")
                && below.end - below.start <= MOST_GUARD_BYTES
        };
        area.path == "[stack]"
            || self.sight.stacks.areas.binary_search(&area.start).is_ok()
            || has_pointer && (area.grows_down || previous.is_some_and(is_guard))
    }

    /// Returns the resident bytes of a part of an area, estimated by its share of the addresses if the pages cannot be asked.
    pub(crate) fn resident_bytes(&self, area: &Area, part: ops::Range<u64>) -> u64 {
        if part == (area.start..area.end) {
            return area.rss;
        }
        let presence = self.memory.and_then(|memory| Presence::of(memory, part.start, part.end));
        match presence {
            Some(presence) => presence.resident_bytes(part.start, part.end),
            None => {
                let share = (part.end - part.start) as f64 / (area.end - area.start) as f64;
                (area.rss as f64 * share) as u64
            }
        }
    }
}

/// The files of which some is mapped as code.
pub(crate) fn binaries(areas: &[Area]) -> HashSet<&str> {
    let is_code = |area: &&Area| area.inode != 0 && area.permissions[2] == b'x';
    areas.iter().filter(is_code).map(|area| area.path.as_str()).collect()
}

/// Divides the areas of one reading of smaps.
pub fn explain(areas: &[Area], known: &Known) -> Explained {
    let binaries = binaries(areas);
    let mut explained = Explained::default();
    let mut previous: Option<&Area> = None;
    let has_library = areas.iter().any(is_library);
    for area in areas {
        explained.rss += area.rss;
        explained.pss += area.pss;
        explained.private += area.rss.saturating_sub(area.shared);
        explained.swap += area.swap;
        explained.anonymous_huge += area.anonymous_huge;
        explained.hugetlb += area.hugetlb;
        let rss = area.rss as i64;
        let anonymous = area.anonymous as i64;
        let is_ramsons = has_library && is_ramsons(area, previous, known.profile);
        match area.backing() {
            Backing::Anonymous => {
                let rest = if is_ramsons {
                    Part::Ramson
                } else if known.is_stack(area, previous) {
                    Part::Stacks
                } else if begins_with_variables(area, previous) {
                    // The zeroed part of a library's variables has no file.
                    Part::Data
                } else {
                    Part::Anonymous
                };
                divide(&mut explained, area, rest, known);
            }
            _ if is_ramsons => explained.add(Part::Ramson, rss),
            Backing::Kernel => explained.add(Part::Kernel, rss),
            backing => {
                let is_shmem =
                    backing == Backing::Shmem || known.tmpfs_devices.contains(&area.device);
                // Private pages are no file's any more. Shared memory counts as such, whether this process mapped it or inherited it.
                let (private, shared) = if is_shmem {
                    (Part::Anonymous, Part::Shmem)
                } else if binaries.contains(area.path.as_str()) {
                    (Part::Data, Part::Code)
                } else {
                    (Part::Anonymous, Part::Files)
                };
                explained.add(private, anonymous);
                explained.add(shared, rss - anonymous);
            }
        }
        previous = Some(area);
    }
    if let Some(statistics) = known.statistics {
        add_statistics(&mut explained, statistics);
    }
    explained
}

/// Adds what of an anonymous area lies outside the allocator's ranges to `rest`; these follow from the statistics. The kernel
/// joins areas that touch, so that blocks of the allocator may lie behind a library's variables, or beside a stack.
fn divide(explained: &mut Explained, area: &Area, rest: Part, known: &Known) {
    let mut covered = 0;
    let mut resident = 0;
    let ranges = known.statistics.map_or(&[][..], |statistics| &statistics.ranges);
    let first = ranges.partition_point(|range| range.end <= area.start);
    for range in ranges[first..].iter().take_while(|range| range.start < area.end) {
        let (start, end) = (range.start.max(area.start), range.end.min(area.end));
        covered += end - start;
        resident += range.presence.resident_bytes(start, end);
    }
    let outside = area.rss as i64 - resident as i64;
    let uncovered = (area.end - area.start - covered) as i64;
    let mut elsewhere = outside.clamp(0, uncovered);
    explained.add(Part::Moved, outside - elsewhere);
    let mut take = |part, bytes: u64| {
        let taken = (bytes as i64).min(elsewhere);
        explained.add(part, taken);
        elsewhere -= taken;
    };
    if rest != Part::Ramson {
        take(Part::LazyFree, area.lazy_free);
    }
    if known.is_child && (known.statistics.is_none() || covered == 0) && rest != Part::Ramson {
        take(Part::Inherited, area.shared);
    }
    if matches!(rest, Part::Anonymous | Part::Stacks) {
        take(Part::Padding, known.sight.padding_of(area));
    }
    // The kernel joins what the program maps with a library's variables, too.
    if matches!(rest, Part::Anonymous | Part::Data) {
        take(Part::Extents, ranges_in(area, known.extents, known));
        take(Part::Stacks, ranges_in(area, &known.sight.stacks.given, known));
        take(Part::ThreadLocals, ranges_in(area, &known.sight.stacks.thread_locals, known));
    }
    if rest == Part::Stacks {
        let Stacks { ended, thread_locals, .. } = &known.sight.stacks;
        take(Part::EndedStacks, ranges_in(area, ended, known));
        take(Part::ThreadLocals, ranges_in(area, thread_locals, known));
    }
    if rest == Part::Anonymous {
        take(Part::Copied, ranges_in(area, &known.parents, known));
    }
    // An allocator's area may lie right behind a library's variables, and be one with them.
    let block = first_block(area, known);
    let end = match rest {
        Part::Anonymous => block.map(|_| area.start),
        Part::Data => known.sight.end_of_variables(area).into_iter().chain(block).min(),
        Part::Ramson => known.sight.end_of_variables(area),
        _ => None,
    };
    let own = end.map_or(elsewhere, |end| {
        (known.resident_bytes(area, area.start..end) as i64).min(elsewhere)
    });
    explained.add(rest, own);
    let part = if block.is_some() { Part::Held } else { Part::Anonymous };
    explained.add(part, elsewhere - own);
}

/// The first block in the area that the allocator has made, where its statistics do not tell.
fn first_block(area: &Area, known: &Known) -> Option<u64> {
    let blocks = if known.statistics.is_none() { known.blocks } else { known.blocks_inside };
    let first = blocks.partition_point(|&block| block < area.start);
    blocks.get(first).copied().filter(|&block| block < area.end)
}

/// Resident bytes of ranges, ascending and apart, as far as they are in an area.
fn ranges_in(area: &Area, ranges: &[ops::Range<u64>], known: &Known) -> u64 {
    let first = ranges.partition_point(|range| range.end <= area.start);
    let within = ranges[first..].iter().take_while(|range| range.start < area.end);
    let bytes = |range: &ops::Range<u64>| {
        known.resident_bytes(area, range.start.max(area.start)..range.end.min(area.end))
    };
    within.map(bytes).sum::<u64>().min(area.rss)
}

fn add_statistics(explained: &mut Explained, statistics: &Statistics) {
    let mut add = |part, bytes: u64| explained.add(part, bytes as i64);
    let sum = |part: fn(&Arena) -> u64| statistics.sum(part);
    let scattered = sum(Arena::scattered_bytes);
    add(Part::Top, sum(|arena| arena.top.resident_bytes));
    add(Part::FreePages, sum(|arena| arena.free.resident_bytes) - scattered);
    add(Part::FreeChunks, scattered);
    add(Part::Fastbins, sum(|arena| arena.fastbins.bytes));
    add(Part::Tcaches, sum(|arena| arena.tcaches.resident_bytes));
    let metadata = sum(|arena| arena.metadata_bytes + arena.tcache_metadata_bytes);
    add(Part::Metadata, metadata + statistics.chunk_metadata_bytes());
    add(Part::NotWalked, sum(|arena| arena.not_walked_resident_bytes));
    add(Part::Live, statistics.live_resident_bytes());
    // Bytes about which the two readings do not agree.
    let all: i64 = explained.parts.0.iter().sum();
    explained.add(Part::Moved, explained.rss as i64 - all);
}

/// A process's memory as it was read at one moment.
pub struct Reading {
    /// RSS in parts, by one reading of smaps.
    pub explained: Explained,
    /// Names and counts behind the parts.
    pub details: Details,
    /// The C library's statistics, or why they were not read.
    pub statistics: Result<Statistics, Missing>,
    /// Its memory, for looking further.
    pub memory: Option<ProcessMemory>,
    /// It was forked, and has not started another program: some of its memory may be from before that.
    pub is_forked: bool,
    /// What the collector of a Go program knows.
    pub go: Option<Collector>,
}

/// How a process is to be read.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// How the allocator's statistics are read.
    pub effort: Effort,
    /// ramson's file in this process.
    pub profile: Option<&'a str>,
    /// Memory that the program mapped itself, by address.
    pub extents: &'a [ops::Range<u64>],
    /// Addresses of blocks that live, in their order.
    pub blocks: &'a [u64],
    /// Those among them that an allocator inside an object has made.
    pub blocks_inside: &'a [u64],
    /// One of many processes: read once, without the kernel's totals before and after, which take as long together.
    pub is_one_of_many: bool,
}

/// Reads and explains a process's memory, again if too much changed meanwhile. `allocators` are found if they are `None`.
pub fn read(
    pid: u32,
    allocators: &mut Option<Allocators>,
    request: &Request,
) -> io::Result<Reading> {
    if let Some(by) = watched::owner_of(pid)? {
        return their_rss::read_rss(&by, pid, allocators, request);
    }
    let memory = ProcessMemory::open(pid).map_err(|error| denied(pid, &error));
    let parent = forked::parent(pid);
    let (begin_ns, begin) = (clock::thread_cpu_ns(), Instant::now());
    let mut tries = 0;
    loop {
        tries += 1;
        let Areas { all: areas, rss, is_settled } = read_areas(pid, request.is_one_of_many)?;
        if areas.iter().all(|area| area.rss == 0) {
            return Err(ErrorKind::NotFound.into());
        }
        let allocators = allocators.get_or_insert_with(|| Allocators::of(pid, &areas));
        let statistics = match &memory {
            Err(why) => Err(why.clone()),
            Ok(_) if forked::is_mostly_shared(&areas, parent) => Err(forked::missing(parent)),
            // Memory that the program mapped itself may look like blocks that malloc mapped.
            Ok(memory) => {
                let searched = without(&areas, request.extents);
                allocators.statistics(memory, &searched, request.effort)
            }
        };
        let memory_read = memory.as_ref().ok();
        let runtime = allocators.go.as_ref().zip(memory_read);
        let own = runtime.map(|(runtime, memory)| without_arenas(memory, runtime, request.extents));
        let known = Known {
            statistics: statistics.as_ref().ok(),
            extents: own.as_deref().unwrap_or(request.extents),
            blocks: request.blocks,
            blocks_inside: request.blocks_inside,
            is_child: parent.is_some(),
            parents: parent.map_or(Vec::new(), forked::anonymous_memory),
            profile: request.profile,
            sight: memory_read.map(|memory| Sight::of(memory, &areas)).unwrap_or_default(),
            stack_pointers: stack_pointers(pid),
            tmpfs_devices: tmpfs_devices(pid),
            memory: memory_read.map(|memory| memory as &dyn Memory),
        };
        let mut explained = explain(&areas, &known);
        let go = runtime.and_then(|(runtime, memory)| {
            let collector = Collector::of(memory, runtime)?;
            let parts = parts(memory, runtime, &collector, &areas)?;
            explained.divide_go(&parts);
            Some(collector)
        });
        let is_good = is_still_and_narrow(&explained, statistics.as_ref().ok());
        explained.settle(rss, is_settled);
        let has_taken_long = clock::thread_cpu_ns() - begin_ns > MOST_READING_NS
            || begin.elapsed() > MOST_READING_TIME;
        let is_last = request.is_one_of_many || tries == MOST_TRIES || has_taken_long;
        if is_good || !is_settled || is_last {
            let details = Details { parent, ..Details::of(&areas, &known) };
            let is_forked = forked::is_forked(pid);
            return Ok(Reading {
                explained,
                details,
                statistics,
                memory: memory.ok(),
                is_forked,
                go,
            });
        }
    }
}

/// Whether little changed while it was read, so that another try would not tell more.
fn is_still_and_narrow(explained: &Explained, statistics: Option<&Statistics>) -> bool {
    let share = |of_rss: f64| explained.rss as f64 * of_rss;
    let moved = explained.part(Part::Moved).abs();
    let half_width = |of: &Statistics| of.live_half_width_95_bytes().max(of.half_width_95_bytes());
    let widest = statistics.map_or(0.0, half_width);
    moved <= STILL_BYTES.max(share(STILL_SHARE) as i64) && widest <= share(NARROW_SHARE)
}

/// The file systems of this kind that a process has mounted, by their devices. Its paths are not asked: that might act, or wait.
fn tmpfs_devices(pid: u32) -> HashSet<u64> {
    watched::mounts(pid).lines().filter_map(tmpfs_device).collect()
}

/// `36 35 0:33 / /mnt rw,noatime shared:1 - tmpfs none rw`.
fn tmpfs_device(mount: &str) -> Option<u64> {
    let (of_mount, of_system) = mount.split_once(" - ")?;
    let device = of_mount.split(' ').nth(2)?;
    of_system.starts_with("tmpfs ").then(|| areas::device(device))?
}

fn denied(pid: u32, error: &io::Error) -> Missing {
    match error.kind() {
        ErrorKind::PermissionDenied => Missing::Denied {
            why: format!("ramson may not read its memory{}", rights::scope()),
            next: rights::next_step(pid),
        },
        _ => Missing::Refused(format!("its memory cannot be read: {error}")),
    }
}

/// Page tables, which no process's RSS contains; bytes.
pub fn page_tables(pid: u32) -> Option<u64> {
    stat::bytes(&text::read(format!("/proc/{pid}/status")).ok()?, "VmPTE")
}
