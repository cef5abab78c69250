//! The profile file: made at the first sample, mapped whole, given space step by step, never truncated by us.
//!
//! No descriptor stays open: the program may close or reuse any number. Space comes through the mapping instead
//! (MADV_POPULATE_WRITE), which reports a full file system as an error where a store would be SIGBUS.

use crate::config::Config;
use crate::sys::{self, AT_FDCWD, EEXIST, Errno, File, Identity};
use crate::text::{PATH_BYTES, Text, parse_number};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use ramson_format::{
    COMMAND_BYTES, EXE_BYTES, FILE_BYTES_RANGE, Header, Health, LIVE_FIRST_SEGMENT, MAGIC, Mapping,
    PAGE_BYTES, REGION_KINDS, RegionKind, RegionPlan, VERSION, flags, plan,
};

/// Entries that every region has from the start, in the order of `REGION_KINDS`.
const FIRST_ENTRIES: [u64; 6] = [128, 4096, LIVE_FIRST_SEGMENT, LIVE_FIRST_SEGMENT, 64, 8192];
/// Regions grow by what they have, but by no more than this at once.
const MAX_STEP_BYTES: u64 = 1 << 20;
/// Times that one growth is tried.
const GROW_ATTEMPTS: usize = 3;
/// Other threads may take the space that one has just made; so many times in a row only if there is none.
pub const RESERVE_ATTEMPTS: usize = 64;

/// A mapped profile file. All zero is "none".
pub struct ProfileFile {
    base: AtomicU64,
    regions: [RegionPlan; 6],
    /// As in the header; kept here too, so that nobody's store into the file leads us out of it.
    committed: [AtomicU64; 6],
    /// For removal after a normal exit; empty for a memfd.
    path: Text,
    identity: Identity,
}

impl ProfileFile {
    /// Makes and maps the file, everything but the header's state. False: there is no place for it.
    pub fn create(&mut self, config: &Config, pid: u32) -> bool {
        let file_bytes = config.file_bytes.min(sys::file_size_limit()) & !(PAGE_BYTES - 1);
        if file_bytes < FILE_BYTES_RANGE.0 {
            return false;
        }
        let start_ticks = process_start_ticks();
        self.path = Text::new();
        let opened = self.open(config, pid, start_ticks);
        if let Some(file) = &opened {
            self.remember(file);
        }
        let is_on_disk = opened.as_ref().is_some_and(|file| self.map(file, file_bytes).is_some());
        let is_memfd = !is_on_disk;
        if is_memfd {
            if opened.is_some() {
                self.unlink();
            }
            self.path = Text::new();
            let mapped = sys::memfd(c"ramson").ok().and_then(|file| self.map(&file, file_bytes));
            if mapped.is_none() {
                return false;
            }
        }
        self.fill_header(config, pid, start_ticks, is_memfd);
        true
    }

    /// Opens a new file where the user asked for it, else in the directory of profiles.
    fn open(&mut self, config: &Config, pid: u32, start_ticks: u64) -> Option<File> {
        if let Some(output) = &config.output {
            self.path = *output;
            let file = self.open_new().or_else(|errno| {
                if errno != EEXIST {
                    return Err(errno);
                }
                self.path.push(b".").push_number(pid as u64);
                self.open_new()
            });
            return file.ok();
        }
        let directory = directory_path(config);
        let path = directory.as_c_str()?;
        // It may exist; what counts is whether it is ours.
        let _ = sys::make_directory(path, 0o700);
        let is_default = config.directory.is_none();
        let no_follow = if is_default { sys::O_NOFOLLOW } else { 0 };
        let open_flags = sys::O_RDONLY | sys::O_DIRECTORY | sys::O_CLOEXEC | no_follow;
        let opened = sys::open_at(AT_FDCWD, path, open_flags, 0).ok()?;
        let owner = opened.owner().ok()?;
        if is_default && (owner.uid != sys::user_id() || owner.mode & 0o077 != 0) {
            return None;
        }
        let mut name = Text::new();
        name.push_number(pid as u64).push(b"-").push_number(start_ticks).push(b".ramson");
        self.path = directory;
        self.path.push(b"/").push(name.as_c_str()?.to_bytes());
        match self.open_new() {
            // The same process before it called exec: that image has ended well.
            Err(EEXIST) => {
                let _ = sys::unlink_at(&opened, name.as_c_str()?);
                self.open_new().ok()
            }
            file => file.ok(),
        }
    }

    /// Keeps what `unlink` needs: the path from the root, as the program may change its directory, and which file it is.
    fn remember(&mut self, file: &File) {
        self.identity = file.identity().unwrap_or_default();
        let mut link = Text::new();
        link.push(b"/proc/self/fd/").push_number(file.number());
        let mut target = [0u8; PATH_BYTES];
        let length = link.as_c_str().and_then(|link| sys::read_link(link, &mut target).ok());
        let absolute = target.get(..length.unwrap_or(0)).unwrap_or_default();
        if absolute.starts_with(b"/") && absolute.len() < PATH_BYTES {
            self.path = Text::new();
            self.path.push(absolute);
        }
    }

    fn open_new(&self) -> Result<File, Errno> {
        const NAME_TOO_LONG: Errno = Errno(36);
        let open_flags =
            sys::O_RDWR | sys::O_CREAT | sys::O_EXCL | sys::O_CLOEXEC | sys::O_NOFOLLOW;
        sys::open_at(AT_FDCWD, self.path.as_c_str().ok_or(NAME_TOO_LONG)?, open_flags, 0o600)
    }

    /// Sets the length, allocates the first entries of every region, maps.
    fn map(&mut self, file: &File, file_bytes: u64) -> Option<()> {
        file.set_length(file_bytes).ok()?;
        self.regions = plan(file_bytes);
        const NO_SPACE: [i32; 3] = [28, 122, 27];
        let is_full =
            |result: Result<(), Errno>| result.is_err_and(|errno| NO_SPACE.contains(&errno.0));
        if is_full(file.allocate(0, PAGE_BYTES)) {
            return None;
        }
        for (index, kind) in REGION_KINDS.iter().enumerate() {
            let bytes = FIRST_ENTRIES[index] * kind.entry_bytes();
            if is_full(file.allocate(self.regions[index].offset, bytes)) {
                return None;
            }
        }
        let base = file.map_shared(file_bytes).ok()?;
        self.base.store(base as u64, Relaxed);
        let _ = sys::advise(base, file_bytes as usize, sys::MADV_DONTDUMP);
        let _ = sys::advise(base, file_bytes as usize, sys::MADV_RANDOM);
        if sys::advise(base, PAGE_BYTES as usize, sys::MADV_POPULATE_WRITE).is_err() {
            return self.map_without_populate(file, file_bytes);
        }
        let header = self.header();
        for (region, (plan, kind)) in
            header.regions.iter().zip(self.regions.iter().zip(REGION_KINDS))
        {
            region.offset.store(plan.offset, Relaxed);
            region.capacity.store(plan.capacity, Relaxed);
            region.entry_bytes.store(kind.entry_bytes() as u32, Relaxed);
            region.kind.store(kind.code(), Relaxed);
        }
        let first = |kind: RegionKind| FIRST_ENTRIES[kind as usize];
        REGION_KINDS.iter().all(|&kind| self.grow(kind, first(kind))).then_some(())
    }

    /// Before Linux 5.14 space cannot be asked for through the mapping: all of it at once, or none.
    #[cold]
    fn map_without_populate(&mut self, file: &File, file_bytes: u64) -> Option<()> {
        file.allocate(0, file_bytes).ok()?;
        let header = self.header();
        for (region, (plan, kind)) in
            header.regions.iter().zip(self.regions.iter().zip(REGION_KINDS))
        {
            region.offset.store(plan.offset, Relaxed);
            region.capacity.store(plan.capacity, Relaxed);
            region.committed.store(plan.capacity, Relaxed);
            self.committed[kind as usize].store(plan.capacity, Relaxed);
            region.entry_bytes.store(kind.entry_bytes() as u32, Relaxed);
            region.kind.store(kind.code(), Relaxed);
        }
        Some(())
    }

    fn fill_header(&self, config: &Config, pid: u32, start_ticks: u64, is_memfd: bool) {
        let header = self.header();
        header.pid.store(pid, Relaxed);
        header.interval_bytes.store(config.interval_bytes.unwrap_or(0), Relaxed);
        header.start_realtime_ns.store(sys::clock_ns(0), Relaxed);
        header.process_start_ticks.store(start_ticks, Relaxed);
        header.run_id.store(config.run_id, Relaxed);
        header.exit_status.store(-1, Relaxed);
        let keep = if config.keep { flags::KEEP } else { 0 };
        let memfd = if is_memfd { flags::MEMFD } else { 0 };
        header.flags.store(keep | memfd, Relaxed);
        header.comm.iter().zip(sys::thread_name()).for_each(|(to, word)| to.store(word, Relaxed));
        let mut exe = [0u8; EXE_BYTES];
        let exe_bytes = sys::read_link(c"/proc/self/exe", &mut exe).unwrap_or(0);
        store_bytes(&header.exe, &exe);
        header.exe_bytes.store(exe_bytes as u32, Relaxed);
        let mut command = [0u8; COMMAND_BYTES];
        let command_bytes = read_file(c"/proc/self/cmdline", &mut command);
        store_bytes(&header.command, &command);
        header.command_bytes.store(command_bytes as u32, Relaxed);
        header.stack_count.store(1, Relaxed);
        header.version.store(VERSION, Relaxed);
        header.magic.store(u64::from_le_bytes(MAGIC), Release);
    }

    /// The header. Only after `create` has mapped the file.
    #[inline]
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is page-aligned, never unmapped, and its first page was populated.
        unsafe { &*(self.base.load(Relaxed) as *const Header) }
    }

    /// Adds to a health counter.
    #[inline]
    pub fn count(&self, counter: Health, addend: u64) {
        if addend != 0 {
            self.header().health[counter as usize].fetch_add(addend, Relaxed);
        }
    }

    /// Entry `index` of a region whose entries are `T`, if its space is there.
    #[inline]
    pub fn entry<T>(&self, kind: RegionKind, index: u64) -> Option<&T> {
        debug_assert_eq!(size_of::<T>() as u64, kind.entry_bytes());
        let entries: &[T; 1] = self.entries(kind, index)?;
        Some(&entries[0])
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
        let offset = self.regions[kind as usize].offset + first * kind.entry_bytes();
        let start = (self.base.load(Relaxed) + offset) as *const T;
        // SAFETY: below `committed` the space is allocated and inside the mapping; entries are atomics, valid as zeroes.
        Some(unsafe { core::slice::from_raw_parts(start, count) })
    }

    /// A mapping's entry.
    pub fn mapping(&self, index: u32) -> Option<&Mapping> {
        self.entry(RegionKind::Mappings, index as u64)
    }

    /// Makes sure that a region has space for `entries`, with some to spare.
    pub fn grow(&self, kind: RegionKind, entries: u64) -> bool {
        let committed = self.committed(kind);
        if entries <= committed {
            return true;
        }
        let step = committed.min(MAX_STEP_BYTES / kind.entry_bytes());
        let roomy = entries.max(committed + step).min(self.regions[kind as usize].capacity);
        self.grow_to(kind, entries.max(roomy))
    }

    /// Gives a region space for exactly `target` entries. Any number of threads may do this at once.
    pub fn grow_to(&self, kind: RegionKind, target: u64) -> bool {
        let region = &self.header().regions[kind as usize];
        let plan = self.regions[kind as usize];
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
        let populate = || sys::advise(address, (end - start) as usize, sys::MADV_POPULATE_WRITE);
        // A busy file system may refuse once; a full one goes on refusing.
        if !(0..GROW_ATTEMPTS).any(|_| populate().is_ok()) {
            self.count(Health::GrowFailures, 1);
            return false;
        }
        self.committed[kind as usize].fetch_max(target, Release);
        region.committed.fetch_max(target, Release);
        true
    }

    /// Takes the next index of a region that is filled from the front; `count` is the header's count for it.
    pub fn reserve(&self, kind: RegionKind, count: &AtomicU32) -> Option<u32> {
        for _ in 0..RESERVE_ATTEMPTS {
            if !self.grow(kind, count.load(Relaxed) as u64 + 1) {
                return None;
            }
            let committed = self.committed(kind);
            let reserved = count.fetch_update(AcqRel, Relaxed, |count| {
                ((count as u64) < committed).then_some(count + 1)
            });
            if let Ok(first) = reserved {
                return Some(first);
            }
        }
        None
    }

    /// Entries of a region whose space is there.
    pub fn committed(&self, kind: RegionKind) -> u64 {
        // Pairs with the release in `grow_to`.
        self.committed[kind as usize].load(Acquire)
    }

    /// Copies `bytes` into the strings region and returns their offset there.
    pub fn add_string(&self, bytes: &[u8]) -> Option<u32> {
        let used = &self.header().string_bytes;
        let length = bytes.len() as u32;
        let first = self.reserve_string(used, length)?;
        let offset = self.regions[RegionKind::Strings as usize].offset + first as u64;
        let to = (self.base.load(Relaxed) + offset) as *mut u8;
        // SAFETY: the range below `committed` was just reserved for us alone.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Some(first)
    }

    fn reserve_string(&self, used: &AtomicU32, length: u32) -> Option<u32> {
        for _ in 0..RESERVE_ATTEMPTS {
            if !self.grow(RegionKind::Strings, used.load(Relaxed) as u64 + length as u64) {
                return None;
            }
            let committed = self.committed(RegionKind::Strings);
            let reserved = used.fetch_update(AcqRel, Relaxed, |used| {
                used.checked_add(length).filter(|&end| end as u64 <= committed)
            });
            if let Ok(first) = reserved {
                return Some(first);
            }
        }
        None
    }

    /// Removes the file's name, if it has one and nobody gave that name to another file.
    pub fn unlink(&self) {
        if let Some(path) = self.path.as_c_str().filter(|path| !path.is_empty())
            && sys::identity_of(path) == Ok(self.identity)
        {
            let _ = sys::unlink(path);
        }
    }
}

fn directory_path(config: &Config) -> Text {
    config.directory.unwrap_or_else(|| {
        let mut path = Text::new();
        path.push(b"/var/tmp/ramson-").push_number(sys::user_id() as u64);
        path
    })
}

fn read_file(path: &CStr, buffer: &mut [u8]) -> usize {
    let opened = sys::open_at(AT_FDCWD, path, sys::O_RDONLY | sys::O_CLOEXEC, 0);
    opened.map_or(0, |file| file.read(buffer))
}

/// Field 22 of /proc/self/stat. The second field is a name in parentheses that may contain anything.
fn process_start_ticks() -> u64 {
    let mut buffer = [0u8; PATH_BYTES];
    let length = read_file(c"/proc/self/stat", &mut buffer);
    let text = buffer.get(..length).unwrap_or_default();
    let after_name = text.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    let mut fields = text.get(after_name..).unwrap_or_default().split(|&byte| byte == b' ');
    // ")" itself is field 2, so field 22 is 20 further on.
    fields.nth(20).and_then(parse_number).map_or(0, |(ticks, _)| ticks)
}

fn store_bytes(to: &[AtomicU64], from: &[u8]) {
    for (word, bytes) in to.iter().zip(from.chunks_exact(8)) {
        word.store(bytes.iter().rev().fold(0, |word, &byte| word << 8 | byte as u64), Relaxed);
    }
}
