//! Whether the file still reaches as far as it is used: a page beyond its end is SIGBUS when it is touched, and root, or its owner after
//! a chmod, can cut it. Nothing keeps a file from that (no lease without a signal, no seal outside memfd), so the recorder looks before it
//! begins, and what is cut during a slow path, or right after a look, goes unseen (docs/internals/edge-cases.md).

use super::ProfileFile;
use crate::record::meter::Measurement;
use crate::{counter, sys};
use core::sync::atomic::Ordering::*;
use ramson_format::{MAGIC, PAGE_BYTES, REGION_KINDS, RegionKind};

/// Cycles that a look holds good, 5 to 25 µs: less than there is between two slow paths of most programs, so that each looks. If slow paths
/// follow each other, looks, two system calls each, are some percent of the time in slow paths.
const LOOK_CYCLES: u64 = 25_000;

impl ProfileFile {
    /// Whether nobody cut the file, as of the latest look. If the cycle counter may not be read, there is no look.
    #[inline]
    pub fn is_whole(&self) -> bool {
        let now = counter::cycles();
        let age = now.wrapping_sub(self.looked_at_cycles.load(Relaxed));
        age < LOOK_CYCLES || now == 0 || self.look(now)
    }

    #[cold]
    fn look(&self, now: u64) -> bool {
        if self.is_private() {
            return true;
        }
        let measurement = Measurement::begin_look(self);
        let is_whole = self.has_its_pages();
        if is_whole {
            self.looked_at_cycles.store(now, Relaxed);
            measurement.end(self);
        }
        is_whole
    }

    fn has_its_pages(&self) -> bool {
        let end = |kind: RegionKind| match self.committed(kind) {
            0 => 0,
            committed => self.offset(kind) + committed * kind.entry_bytes(),
        };
        let used_bytes = REGION_KINDS.into_iter().map(end).max().unwrap_or(0);
        let first = self.base.load(Relaxed);
        let last_page = (used_bytes.max(1) - 1) & !(PAGE_BYTES - 1);
        // Both, as the kernel takes pages away from the front. A file that was cut and made longer again has lost its magic number.
        sys::has_page((first + last_page) as *const u8)
            && sys::has_page(first as *const u8)
            && self.header().magic.load(Relaxed) == u64::from_le_bytes(MAGIC)
    }

    /// Puts empty memory in the file's place. Threads that are in a slow path go on; what they record is lost.
    pub fn leave(&self) {
        let base = self.base.load(Relaxed) as *mut u8;
        let _ = sys::replace_by_zeroes(base, self.mapped_bytes.load(Relaxed) as usize);
    }
}
