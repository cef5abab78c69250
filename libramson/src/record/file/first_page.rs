//! What lies on the file's first page behind the header.

use super::ProfileFile;
use core::sync::atomic::Ordering::*;
use ramson_format::{ABORT_OFFSET, FAILURE_OFFSET, Failure};

/// Where a failure is noted: its offset.
#[derive(Clone, Copy)]
#[repr(u64)]
pub enum FailurePlace {
    Allocation = FAILURE_OFFSET,
    Abort = ABORT_OFFSET,
}

impl ProfileFile {
    /// The latest failure, or the latest abort. Only after `create` has mapped the file.
    pub fn failure(&self, place: FailurePlace) -> &Failure {
        // SAFETY: `base` is the mapping that `create` made, which stays (see `header`), and this place is on its first page, aligned; integers,
        // valid as whatever bytes. Only a file that is cut short under us faults, as every access to it would (docs/limits.md).
        unsafe { &*((self.base.load(Relaxed) + place as u64) as *const Failure) }
    }
}
