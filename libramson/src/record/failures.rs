//! Allocations that failed, as far as they were to be samples: how many, and the latest one.

use super::Recorder;
use super::cost::Measurement;
use crate::arch::Thread;
use crate::walk::Caller;
use core::sync::atomic::Ordering::*;
use ramson_format::{Kind, failure_check};

impl Recorder {
    /// An allocation of `size` that was to be a sample failed.
    pub fn record_failure(&self, thread: &Thread, size: u64, caller: Caller) {
        let failure = self.file.failure();
        let measurement = Measurement::begin(failure.count.fetch_add(1, Relaxed));
        let now_ns = self.now_ns();
        if thread.tid.get() == 0 {
            thread.tid.set(self.thread_id());
        }
        let (stack, tid) = (self.stack_of(thread, Kind::Heap, caller, now_ns), thread.tid.get());
        failure.size.store(size, Relaxed);
        failure.monotonic_ns.store(now_ns, Relaxed);
        failure.stack.store(stack, Relaxed);
        failure.tid.store(tid, Relaxed);
        failure.check.store(failure_check(size, now_ns, stack, tid), Release);
        self.file.header().last_monotonic_ns.store(now_ns, Relaxed);
        measurement.end(&self.file, self.cost.draw_cycles());
        self.govern(now_ns);
    }
}
