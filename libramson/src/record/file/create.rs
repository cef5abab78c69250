//! Puts a profile in its place: in a file; if there is none, in a memfd; if there is none, in private memory. Before, in the nursery: private memory
//! that is there from the start.

use super::{ProfileFile, name::ProcessStat};
use crate::config::Config;
use crate::sys::{self, File};
use core::sync::atomic::Ordering::*;
use ramson_format::{
    FILE_BYTES_RANGE, LIVE_FIRST_SEGMENT, PAGE_BYTES, REGION_KINDS, REGIONS, RegionKind,
    RegionPlan, flags, plan,
};

/// Entries that every region has from the start, in the order of `REGION_KINDS`. Most programs map nothing themselves.
const FIRST_ENTRIES: [u64; REGIONS] =
    [128, 4096, LIVE_FIRST_SEGMENT, LIVE_FIRST_SEGMENT, 64, 8192, 64, 0];
/// Length of the nursery: some 4,000 stacks and 16,000 live samples.
pub const NURSERY_BYTES: u64 = 4 << 20;
/// Length of a file that gets all its space at once, where nobody asked for another.
const UNGROWING_BYTES: u64 = 8 << 20;

impl ProfileFile {
    /// Makes and maps it, everything but the header's times and state. False: there is no place for it.
    pub fn create(&mut self, config: &Config, may_be_file: bool, room_bytes: u64) -> bool {
        let stat = ProcessStat::read();
        let backing_flag = if may_be_file && self.create_file(config, &stat, room_bytes) {
            0
        } else if may_be_file && self.create_memfd(config, room_bytes) {
            flags::MEMFD
        } else if self.create_private(config, room_bytes).is_some() {
            flags::PRIVATE
        } else {
            return false;
        };
        self.introduce(&stat);
        self.fill_header(config, stat.pid, backing_flag);
        true
    }

    /// Makes zeroed memory of this process a profile. Any number of threads may do so at once, even while others record in it already.
    pub fn begin_in(&self, nursery: u64, config: &Config, pid: u32) {
        self.set_plan(plan(NURSERY_BYTES), 0);
        self.is_private.store(true, Relaxed);
        self.mapped_bytes.store(NURSERY_BYTES, Relaxed);
        self.base.store(nursery, Release);
        self.lay_out();
        self.fill_header(config, pid, flags::PRIVATE);
    }

    fn create_file(&mut self, config: &Config, stat: &ProcessStat, room_bytes: u64) -> bool {
        let is_growing = can_grow(self);
        let most_bytes =
            if is_growing || config.names_file_bytes { room_bytes } else { UNGROWING_BYTES };
        let file_bytes = room_bytes.min(most_bytes).min(sys::file_size_limit()) & !(PAGE_BYTES - 1);
        if file_bytes < FILE_BYTES_RANGE.0 {
            return false;
        }
        self.divide(config, file_bytes);
        let Some(file) = self.open(config, stat) else { return false };
        self.remember(&file);
        // For those who remove old profiles: they may be in another PID namespace and not see this process.
        let _ = file.lock_shared();
        let is_mapped = self.map(&file, file_bytes, is_growing).is_some();
        self.let_go(file);
        if !is_mapped {
            self.unlink();
        }
        is_mapped
    }

    fn create_memfd(&mut self, config: &Config, room_bytes: u64) -> bool {
        let file_bytes = room_bytes.min(sys::file_size_limit()) & !(PAGE_BYTES - 1);
        // All of its space at once would be the program's memory.
        if !can_grow(self) || file_bytes < FILE_BYTES_RANGE.0 {
            return false;
        }
        self.divide(config, file_bytes);
        let Ok(file) = sys::memfd(c"ramson") else { return false };
        self.identity = file.identity().unwrap_or_default();
        let is_mapped = self.map(&file, file_bytes, true).is_some();
        self.let_go(file);
        is_mapped
    }

    /// For processes in which no file can be made, or not be removed again. It needs no system call that the loader does not make, and is
    /// read through /proc/PID/mem.
    fn create_private(&mut self, config: &Config, room_bytes: u64) -> Option<()> {
        self.divide(config, room_bytes);
        self.is_private.store(true, Relaxed);
        let before = sys::map_own((room_bytes + 2 * PAGE_BYTES) as usize).ok()?;
        let base = before as u64 + PAGE_BYTES;
        // A page before and after that are not like ours: the kernel would join it with its neighbours, and a reader that looks
        // through the process's mappings expects the profile at the start of one.
        for page in [before as u64, base + room_bytes] {
            sys::protect(page as *const u8, PAGE_BYTES as usize).ok()?;
        }
        self.base.store(base, Relaxed);
        self.mapped_bytes.store(room_bytes, Relaxed);
        self.lay_out().then_some(())
    }

    /// Gives each region its part of a file that has no name and no entries yet.
    fn divide(&mut self, config: &Config, file_bytes: u64) {
        self.committed.iter().for_each(|committed| committed.store(0, Relaxed));
        self.path.clear();
        self.set_plan(plan(file_bytes), config.recent_frees);
    }

    fn set_plan(&self, plan: [RegionPlan; REGIONS], most_recent_frees: u64) {
        for ((to, plan), kind) in self.regions.iter().zip(plan).zip(REGION_KINDS) {
            let most = if kind == RegionKind::RecentFrees { most_recent_frees } else { u64::MAX };
            to.offset.store(plan.offset, Relaxed);
            to.capacity.store(plan.capacity.min(most), Relaxed);
        }
    }

    /// Entries that a region has from the start.
    fn first_entries(&self, kind: RegionKind) -> u64 {
        FIRST_ENTRIES[kind as usize].min(self.capacity(kind))
    }

    /// Sets the length, and maps. The space comes through the mapping, or where that cannot be asked for it, all of it at once before.
    fn map(&mut self, file: &File, file_bytes: u64, is_growing: bool) -> Option<()> {
        // Another thread may have closed what is not its own (closefrom), and opened a file of the program's under this number.
        if !self.is_ours(file) {
            return None;
        }
        file.set_length(file_bytes).ok()?;
        if !is_growing {
            file.allocate(0, file_bytes).ok()?;
        }
        let base = file.map_shared(file_bytes).ok()?;
        let is_laid_out = self.is_ours(file) && {
            self.base.store(base as u64, Relaxed);
            self.mapped_bytes.store(file_bytes, Relaxed);
            self.lay_out_mapped(is_growing)
        };
        if !is_laid_out {
            sys::unmap(base, file_bytes as usize);
        }
        is_laid_out.then_some(())
    }

    fn lay_out_mapped(&self, is_growing: bool) -> bool {
        let base = self.base.load(Relaxed) as *const u8;
        let bytes = self.mapped_bytes.load(Relaxed) as usize;
        let _ = sys::advise(base, bytes, sys::MADV_DONTDUMP);
        let _ = sys::advise(base, bytes, sys::MADV_RANDOM);
        if !is_growing {
            // The space of every entry is there.
            for kind in REGION_KINDS {
                self.committed[kind as usize].store(self.capacity(kind), Relaxed);
                self.header().region(kind).committed.store(self.capacity(kind), Relaxed);
            }
        } else if sys::give_space(base, PAGE_BYTES as usize).is_err() {
            return false;
        }
        self.lay_out()
    }

    fn is_ours(&self, file: &File) -> bool {
        file.identity() == Ok(self.identity)
    }

    /// Closes `file`, unless its number is another's by now.
    fn let_go(&self, file: File) {
        if !self.is_ours(&file) {
            core::mem::forget(file);
        }
    }

    /// Writes the region directory and gives every region its first entries.
    fn lay_out(&self) -> bool {
        for kind in REGION_KINDS {
            let region = self.header().region(kind);
            let plan = self.plan(kind);
            region.offset.store(plan.offset, Relaxed);
            region.capacity.store(plan.capacity, Relaxed);
            region.entry_bytes.store(kind.entry_bytes() as u32, Relaxed);
            region.kind.store(kind.code(), Relaxed);
        }
        REGION_KINDS.iter().all(|&kind| self.grow(kind, self.first_entries(kind)))
    }
}

/// Whether space can be asked for through a mapping, as since Linux 5.14. Tried on a page of ours that is in use anyway.
fn can_grow(file: &ProfileFile) -> bool {
    let page = (core::ptr::from_ref(file) as u64 & !(PAGE_BYTES - 1)) as *const u8;
    sys::advise(page, PAGE_BYTES as usize, sys::MADV_POPULATE_WRITE).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{AT_FDCWD, O_CLOEXEC, O_RDWR};
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn reused_descriptor_is_left_alone() {
        const BYTES: u64 = 1 << 20;
        let named = tempfile::NamedTempFile::new().unwrap();
        let path = CString::new(named.path().as_os_str().as_bytes()).unwrap();
        let open = || sys::open_at(AT_FDCWD, &path, O_RDWR | O_CLOEXEC, 0).unwrap();
        // SAFETY: all zero is "none".
        let mut profile: Box<ProfileFile> = unsafe { Box::new_zeroed().assume_init() };
        profile.divide(&Config::default(), BYTES);
        // By its name: another test may get the number.
        let is_open = |number: u64| {
            let link = std::fs::read_link(format!("/proc/self/fd/{number}"));
            link.is_ok_and(|link| link == named.path())
        };
        for (is_ours, bytes) in [(false, 0), (true, BYTES)] {
            let file = open();
            let number = file.number();
            profile.identity = if is_ours { file.identity().unwrap() } else { [0; 2] };
            assert_eq!(profile.map(&file, BYTES, true).is_some(), is_ours);
            assert_eq!(named.as_file().metadata().unwrap().len(), bytes);
            profile.let_go(file);
            assert_eq!(is_open(number), !is_ours);
        }
    }

    fn major_faults_of_thread() -> i64 {
        // SAFETY: integers, which the call fills.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
            usage.ru_majflt
        }
    }

    #[test]
    fn new_profile_takes_no_major_fault() {
        const BYTES: u64 = 1 << 20;
        let faults = |_| {
            let named = tempfile::NamedTempFile::new().unwrap();
            let path = CString::new(named.path().as_os_str().as_bytes()).unwrap();
            let file = sys::open_at(AT_FDCWD, &path, O_RDWR | O_CLOEXEC, 0).unwrap();
            // SAFETY: all zero is "none".
            let mut profile: Box<ProfileFile> = unsafe { Box::new_zeroed().assume_init() };
            profile.divide(&Config::default(), BYTES);
            profile.identity = file.identity().unwrap();
            let before = major_faults_of_thread();
            assert!(profile.map(&file, BYTES, true).is_some());
            major_faults_of_thread() - before
        };
        // Code of the test's own may have to be read in the first rounds.
        assert_eq!((0..9).map(faults).min(), Some(0));
    }
}
