//! The latest allocation that is known to have failed, and the latest abort without memory, as FORMAT.md has them under "Failed
//! allocations".

use crate::atomic::{AtomicU32, AtomicU64};
use crate::mix;

/// See the module.
#[repr(C)]
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Failure {
    pub count: AtomicU64,
    pub size: AtomicU64,
    pub monotonic_ns: AtomicU64,
    pub stack: AtomicU32,
    pub tid: AtomicU32,
    pub check: AtomicU64,
}

/// Check over the fields but the count: two threads may fail at once.
pub fn failure_check(size: u64, monotonic_ns: u64, stack: u32, tid: u32) -> u64 {
    let hash = mix(mix(0x6661_696c, size), monotonic_ns);
    mix(hash, stack as u64 | (tid as u64) << 32)
}
