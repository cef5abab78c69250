//! Allocations that failed, as far as they are known, and aborts without memory: how many, and the latest one.

use super::Recorder;
use super::meter::Path;
use crate::arch::Thread;
use crate::walk::Caller;
use crate::{counter, sys};
use core::sync::atomic::Ordering::*;
use ramson_format::{Failure, Header, Kind, failure_check};

/// Before glibc refuses a small request it has been refused a mapping of this size. (malloc.c: MMAP_AS_MORECORE_SIZE)
const PROBE_BYTES: usize = 1 << 20;

impl Recorder {
    /// Notes that abort(3) was called if no memory is to be had: the lack of memory was then probably the cause.
    pub fn record_abort(&self, thread: &Thread, caller: &Caller) {
        let is_ours = sys::process_id() == self.pid.load(Relaxed);
        if is_ours && sys::is_refused_memory(PROBE_BYTES) {
            self.note(|header| &header.abort, thread, PROBE_BYTES as u64, caller);
        }
    }

    // Hazard, never seen: a program catches std::bad_alloc of a small allocation and dies of something else within 5 s. Only a failed
    // sample, and an abort without memory, are noted, so the lack of memory is not reported as the cause.
    /// An allocation of `size` failed, which was to be a sample.
    pub fn record_failure(&self, thread: &Thread, size: u64, caller: &Caller) {
        self.note(|header| &header.failure, thread, size, caller);
    }

    fn note(&self, place: fn(&Header) -> &Failure, thread: &Thread, size: u64, caller: &Caller) {
        let begin_cycles = counter::cycles();
        let profile = self.profile();
        let failure = place(profile.file.header());
        failure.count.fetch_add(1, Relaxed);
        let now_ns = self.now_ns();
        let stack = self.stack_of(profile, thread, Kind::Heap, caller, now_ns);
        let tid = self.tid(thread);
        failure.size.store(size, Relaxed);
        failure.monotonic_ns.store(now_ns, Relaxed);
        failure.stack.store(stack, Relaxed);
        failure.tid.store(tid, Relaxed);
        failure.check.store(failure_check(size, now_ns, stack, tid), Release);
        profile.file.header().last_monotonic_ns.store(now_ns, Relaxed);
        profile.file.count_path(Path::Failure, begin_cycles);
        self.settle(profile, 0);
    }
}
