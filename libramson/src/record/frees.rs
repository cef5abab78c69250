//! Recent frees, where the user asked for them: who freed the latest sampled blocks, and from where.

use super::free_ring::Entry;
use super::live::{Claim, Sample};
use super::stacks::Holder;
use super::{Measurement, Recorder};
use crate::arch::Thread;
use crate::walk::Caller;
use ramson_format::{Health, Kind, NO_STACK};

impl Recorder {
    /// Whether frees are to be remembered.
    #[inline]
    pub fn remembers_frees(&self) -> bool {
        self.frees.length != 0
    }

    /// The claimed sample is freed by `caller`, to be remembered; `None` if that cannot be walked from here.
    pub fn complete_free(
        &self,
        thread: &Thread,
        claim: Claim,
        address: u64,
        caller: Option<Caller>,
    ) {
        let measurement = Measurement::begin(self.file.count_one(Health::Frees));
        let (sample, now_ns) = self.take_out(claim, address);
        self.remember(thread, address, &sample, now_ns, caller);
        measurement.end(&self.file, 0);
    }

    fn remember(
        &self,
        thread: &Thread,
        address: u64,
        sample: &Sample,
        free_monotonic_ns: u64,
        caller: Option<Caller>,
    ) {
        if thread.tid.get() == 0 {
            thread.tid.set(self.thread_id());
        }
        // Last: a signal handler may leave a walk for good, and the sample is out of the table by then.
        let free_stack =
            caller.and_then(|caller| self.free_stack_of(thread, caller, free_monotonic_ns));
        self.file.count(Health::UnknownFreeStacks, free_stack.is_none() as u64);
        let entry = Entry {
            address,
            size: sample.size,
            alloc_monotonic_ns: sample.monotonic_ns,
            free_monotonic_ns,
            alloc_stack: sample.stack,
            free_stack: free_stack.unwrap_or(NO_STACK),
            alloc_tid: sample.tid,
            free_tid: thread.tid.get(),
        };
        let is_kept = self.frees.push(&self.file, &entry);
        self.file.count(Health::DroppedFrees, !is_kept as u64);
    }

    fn free_stack_of(&self, thread: &Thread, caller: Caller, now_ns: u64) -> Option<u32> {
        let flags = Kind::Heap.stack_flags();
        self.walk(thread, caller, flags, Holder::Free, now_ns)?.stack
    }
}
