//! The profile file: made at the first sample, mapped whole, given space step by step, never truncated by us.
//!
//! No descriptor stays open: the program may close or reuse any number. Space comes through the mapping instead
//! (MADV_POPULATE_WRITE), which reports a full file system as an error where a store would be SIGBUS.

mod create;
mod end;
mod name;

use super::meter::Meters;
use crate::config::Config;
use crate::families;
use crate::sys::{self, Identity, permit};
use crate::text::Text;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{self, AtomicBool, AtomicUsize, Ordering::*};
pub use create::NURSERY_BYTES;
use name::ProcessStat;
#[cfg(fuzzing)]
pub use name::start_ticks_in;
use ramson_format::atomic::{AtomicU32, AtomicU64};
use ramson_format::{
    COMMAND_BYTES, EXE_BYTES, Header, Health, KINDS, MAGIC, PAGE_BYTES, REGIONS, RegionKind,
    RegionPlan, VERSION, flags,
};

/// Regions grow by what they have, but by no more than this at once.
const MAX_STEP_BYTES: u64 = 1 << 20;
/// Times that one growth is tried.
const GROW_ATTEMPTS: usize = 3;
/// Other threads may take the space that one has just made; so many times in a row only if there is none.
const RESERVE_ATTEMPTS: usize = 64;

/// A mapped profile file. All zero is "none".
pub struct ProfileFile {
    base: AtomicU64,
    regions: [Place; REGIONS],
    /// As in the header; kept here too, so that nobody's store into the file leads us out of it.
    pub committed: [AtomicU64; REGIONS],
    /// For removal after a normal exit; empty for a memfd.
    path: Text,
    identity: Identity,
    /// The profile is memory of this process only: space is there without asking.
    is_private: AtomicBool,
    mapped_bytes: atomic::AtomicU64,
    /// The cycle counter at the latest look at the file's end.
    looked_at_cycles: AtomicU64,
    pub meters: Meters,
}

/// Place of a region, as in the header; no store into the file leads us out of it.
struct Place {
    offset: atomic::AtomicU64,
    capacity: atomic::AtomicU64,
}

/// How many entries a region has that is filled from the front, as the header has it.
pub trait Count {
    /// Adds `entries` if there are no more than `most` then. Returns the count before; as an error if they are too many.
    fn raise(&self, entries: u64, most: u64) -> Result<u64, u64>;
}

impl Count for AtomicU64 {
    fn raise(&self, entries: u64, most: u64) -> Result<u64, u64> {
        let raised = |count: u64| count.checked_add(entries).filter(|&end| end <= most);
        self.fetch_update(AcqRel, Relaxed, raised)
    }
}

impl Count for AtomicU32 {
    fn raise(&self, entries: u64, most: u64) -> Result<u64, u64> {
        let raised = |count: u32| {
            let end = count as u64 + entries;
            if end <= most { end.try_into().ok() } else { None }
        };
        self.fetch_update(AcqRel, Relaxed, raised).map(u64::from).map_err(u64::from)
    }
}

impl ProfileFile {
    /// Who this process is, as far as it takes system calls to know.
    fn introduce(&self, stat: &ProcessStat) {
        let header = self.header();
        header.process_start_ticks.store(stat.start_ticks, Relaxed);
        header.comm.iter().zip(sys::thread_name()).for_each(|(to, word)| to.store(word, Relaxed));
        fill::<COMMAND_BYTES>(&header.command, &header.command_bytes, |to| {
            read_file(c"/proc/self/cmdline", to)
        });
    }

    /// The rest of the header, except times. Changes nothing where it has been filled already.
    fn fill_header(&self, config: &Config, pid: u32, backing_flag: u32) {
        let header = self.header();
        header.pid.store(pid, Relaxed);
        let interval_bytes = config.interval_bytes.unwrap_or(0);
        let _ = header.interval_bytes.compare_exchange(0, interval_bytes, Relaxed, Relaxed);
        header.run_id.store(config.run_id, Relaxed);
        header.exit_status.store(-1, Relaxed);
        header.inside.store(families::outcome(), Relaxed);
        let keep = if config.keep { flags::KEEP } else { 0 };
        header.flags.fetch_or(keep | backing_flag, Relaxed);
        let exe_bytes = executable_bytes();
        header.exe_bytes.store(exe_bytes as u32, Relaxed);
        for (to, word) in header.exe.iter().zip(&EXECUTABLE).take(exe_bytes.div_ceil(8)) {
            to.store(word.load(Relaxed), Relaxed);
        }
        header.stack_count.fetch_max(KINDS.len() as u32, Relaxed);
        header.version.store(VERSION, Relaxed);
        header.magic.store(u64::from_le_bytes(MAGIC), Release);
    }

    /// The header. Only after `create` has mapped the file.
    #[inline]
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is page-aligned, its first page was populated, and it stays: `leave` replaces it, and before the program takes it away
        // `process::end_recording` sends everybody out. A thread that stays inside longer, or a raw munmap, breaks that
        // (docs/internals/edge-cases.md).
        unsafe { &*(self.base.load(Relaxed) as *const Header) }
    }

    /// Returns the addresses at which the file is mapped.
    pub fn mapped(&self) -> Range<u64> {
        let base = self.base.load(Relaxed);
        base..base + self.mapped_bytes.load(Relaxed)
    }

    /// Whether it is memory of this process only.
    #[inline]
    pub fn is_private(&self) -> bool {
        self.is_private.load(Relaxed)
    }

    /// Adds to a health counter.
    #[inline]
    pub fn count(&self, counter: Health, addend: u64) {
        if addend != 0 {
            self.header().health[counter as usize].fetch_add(addend, Relaxed);
        }
    }

    /// Adds one to a health counter and returns what it was.
    #[inline]
    pub fn count_one(&self, counter: Health) -> u64 {
        self.header().health[counter as usize].fetch_add(1, Relaxed)
    }

    /// Entry `index` of a region whose entries are `T`, if its space is there.
    #[inline]
    pub fn entry<T>(&self, kind: RegionKind, index: u64) -> Option<&T> {
        debug_assert_eq!(size_of::<T>() as u64, kind.entry_bytes());
        self.slice(kind, index, 1)?.first()
    }

    /// `N` entries from `first`, if the space of all is there.
    #[inline]
    pub fn entries<T, const N: usize>(&self, kind: RegionKind, first: u64) -> Option<&[T; N]> {
        self.slice(kind, first, N)?.try_into().ok()
    }

    /// `count` entries from `first`, if the space of all is there.
    #[inline]
    pub fn slice<T>(&self, kind: RegionKind, first: u64, count: usize) -> Option<&[T]> {
        if first.checked_add(count as u64)? > self.committed(kind) {
            return None;
        }
        let offset = self.offset(kind) + first * kind.entry_bytes();
        let start = (self.base.load(Relaxed) + offset) as *const T;
        // SAFETY: below `committed` the space is allocated and inside the mapping, which stays (see `header`); entries are atomics, valid as zeroes.
        Some(unsafe { core::slice::from_raw_parts(start, count) })
    }

    /// Makes sure that a region has space for `entries`, with some to spare.
    pub fn grow(&self, kind: RegionKind, entries: u64) -> bool {
        let committed = self.committed(kind);
        if entries <= committed {
            return true;
        }
        let step = committed.min(MAX_STEP_BYTES / kind.entry_bytes());
        let roomy = entries.max(committed + step).min(self.capacity(kind));
        self.grow_to(kind, entries.max(roomy))
    }

    /// Gives a region space for exactly `target` entries. Any number of threads may do this at once.
    pub fn grow_to(&self, kind: RegionKind, target: u64) -> bool {
        let region = self.header().region(kind);
        let plan = self.plan(kind);
        let committed = self.committed(kind);
        if target <= committed {
            return true;
        }
        if target > plan.capacity {
            return false;
        }
        let start = (plan.offset + committed * kind.entry_bytes()) & !(PAGE_BYTES - 1);
        let end = (plan.offset + target * kind.entry_bytes()).next_multiple_of(PAGE_BYTES);
        let address = (self.base.load(Relaxed) + start) as *const u8;
        let populate = || sys::give_space(address, (end - start) as usize);
        // A busy file system may refuse once; a full one goes on refusing.
        if !self.is_private() && !(0..GROW_ATTEMPTS).any(|_| populate().is_ok()) {
            self.count(Health::GrowFailures, 1);
            return false;
        }
        self.committed[kind as usize].fetch_max(target, Release);
        region.committed.fetch_max(target, Release);
        true
    }

    /// Takes the next `entries` of a region that is filled from the front, and has `count` by now; the first one's index.
    pub fn reserve(&self, kind: RegionKind, count: &impl Count, entries: u64) -> Option<u64> {
        for _ in 0..RESERVE_ATTEMPTS {
            match count.raise(entries, self.committed(kind)) {
                Ok(first) => return Some(first),
                Err(present) => self.grow(kind, present.saturating_add(entries)).then_some(())?,
            }
        }
        None
    }

    /// Entries of a region whose space is there.
    pub fn committed(&self, kind: RegionKind) -> u64 {
        // Pairs with the release in `grow_to`.
        self.committed[kind as usize].load(Acquire)
    }

    /// Entries that a region can ever hold.
    pub fn capacity(&self, kind: RegionKind) -> u64 {
        self.regions[kind as usize].capacity.load(Relaxed)
    }

    #[inline]
    fn offset(&self, kind: RegionKind) -> u64 {
        self.regions[kind as usize].offset.load(Relaxed)
    }

    fn plan(&self, kind: RegionKind) -> RegionPlan {
        RegionPlan { offset: self.offset(kind), capacity: self.capacity(kind) }
    }

    /// Copies `length` bytes into the strings region and returns their offset there.
    pub fn add_string(&self, length: usize, bytes: impl Iterator<Item = u8>) -> Option<u32> {
        let used = &self.header().string_bytes;
        let first = self.reserve(RegionKind::Strings, used, length as u64)?;
        let offset = self.offset(RegionKind::Strings) + first;
        let start = (self.base.load(Relaxed) + offset) as *mut u8;
        for (index, byte) in bytes.take(length).enumerate() {
            // SAFETY: the range below `committed` was just reserved for us alone.
            unsafe { start.add(index).write(byte) };
        }
        Some(first as u32)
    }

    /// Removes the file's name, if it has one and nobody gave that name to another file.
    pub fn unlink(&self) {
        if let Some(path) = self.path.as_c_str().filter(|path| !path.is_empty())
            && sys::identity_of(path, sys::AT_SYMLINK_NOFOLLOW) == Ok(self.identity)
        {
            let _ = sys::unlink(path);
        }
    }
}

fn read_file(path: &CStr, buffer: &mut [u8]) -> usize {
    sys::open_to_read(path).map_or(0, |file| file.read(buffer))
}

/// Path of the executable. Inherited by forked children, for which it is the same.
static EXECUTABLE: [atomic::AtomicU64; EXE_BYTES / 8] =
    [const { atomic::AtomicU64::new(0) }; EXE_BYTES / 8];
static EXECUTABLE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Length of the path in `EXECUTABLE`, which the first process to ask puts there.
fn executable_bytes() -> usize {
    match EXECUTABLE_BYTES.load(Acquire) {
        0 => learn_executable(),
        known => known,
    }
}

/// The path of the executable.
pub fn executable() -> impl Iterator<Item = u8> {
    let bytes = executable_bytes();
    EXECUTABLE.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).take(bytes)
}

/// Apart, so that only who asks needs room for it on the program's stack.
#[cold]
#[inline(never)]
fn learn_executable() -> usize {
    let mut path = [0; EXE_BYTES];
    let bytes = ask_for_executable(&mut path);
    for (to, word) in EXECUTABLE.iter().zip(path.as_chunks().0) {
        to.store(u64::from_le_bytes(*word), Relaxed);
    }
    EXECUTABLE_BYTES.store(bytes, Release);
    bytes
}

fn ask_for_executable(target: &mut [u8]) -> usize {
    if permit::is_full() {
        return sys::read_link(c"/proc/self/exe", target).unwrap_or(0);
    }
    // The loader does not read links; but the first mapping of a process is its executable's.
    let length = read_file(c"/proc/self/maps", target);
    let text = target.get(..length).unwrap_or_default();
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let first = line.iter().position(|&byte| byte == b'/').unwrap_or(line.len());
    let end = line.len();
    target.copy_within(first..end, 0);
    if let Some(rest) = target.get_mut(end - first..) {
        rest.fill(0);
    }
    end - first
}

/// Fills a text of the header, and its length. The buffer is gone from the program's stack before the next one comes.
#[inline(never)]
fn fill<const BYTES: usize>(
    to: &[AtomicU64],
    length: &AtomicU32,
    read: impl Fn(&mut [u8; BYTES]) -> usize,
) {
    let mut text = [0u8; BYTES];
    length.store(read(&mut text) as u32, Relaxed);
    for (word, bytes) in to.iter().zip(text.as_chunks().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
}
