//! A profile in private memory: for processes in which no file can be made, or not be removed again. It needs no system call
//! but the first, and is read through /proc/PID/mem.

use super::ProfileFile;
use crate::sys;
use core::sync::atomic::Ordering::*;
use ramson_format::PAGE_BYTES;

impl ProfileFile {
    pub(super) fn map_private(&mut self, file_bytes: u64) -> Option<()> {
        self.is_private = true;
        let whole = (file_bytes + 2 * PAGE_BYTES) as usize;
        let before = sys::map_own(whole).ok()?;
        let base = before as u64 + PAGE_BYTES;
        // A page before and after that are not like ours: the kernel would join it with its neighbours, and a reader that looks
        // through the process's mappings expects the profile at the start of one.
        for page in [before as u64, base + file_bytes] {
            sys::protect(page as *const u8, PAGE_BYTES as usize).ok()?;
        }
        self.base.store(base, Relaxed);
        self.mapped_bytes = file_bytes;
        self.lay_out().then_some(())
    }
}
