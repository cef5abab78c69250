//! Prepares for a seccomp filter before the program installs it: afterwards no system call can be made.

use super::{Recorder, live};
use crate::arch::Thread;
use crate::walk::{self, WALKER};
use core::sync::atomic::Ordering::*;
use ramson_format::{RegionKind, flags};

/// Entries that regions get beyond what they have: 1 MiB together.
const AHEAD: [(RegionKind, u64); 4] = [
    (RegionKind::Stacks, 1 << 10),
    (RegionKind::Frames, 1 << 14),
    (RegionKind::Mappings, 1 << 6),
    (RegionKind::Strings, 1 << 14),
];

impl Recorder {
    /// Gives every region space, meets every object, and learns how far the thread's stack is readable. `stack_pointer` is on it.
    pub fn prepare_for_confinement(&self, thread: &Thread, stack_pointer: u64) {
        let profile = self.profile();
        let header = profile.file.header();
        for (kind, entries) in AHEAD {
            profile.file.grow(kind, profile.file.committed(kind) + entries);
        }
        live::grow_ahead(&profile.file);
        let ring = RegionKind::RecentFrees;
        profile.file.grow_to(ring, profile.file.capacity(ring));
        self.tid(thread);
        WALKER.objects.meet_permanent(profile);
        walk::know_stack(
            thread,
            stack_pointer,
            self.pid.load(Relaxed),
            self.main_stack_high.load(Relaxed),
        );
        header.flags.fetch_or(flags::CONFINED, Relaxed);
    }
}
