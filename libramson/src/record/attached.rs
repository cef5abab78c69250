//! Effects of an attach and a detach on the records.

use super::{Recorder, live, moving, page_filter};
use core::sync::atomic::Ordering::*;
use ramson_format::{RegionKind, flags, live_flags};

impl Recorder {
    /// Whether hooks are in place in a program that this came into.
    #[cold]
    pub fn note_hooks(&self, are_there: bool) {
        let header = self.profile().file.header();
        if are_there {
            if header.flags.fetch_or(flags::HOOKED, Relaxed) & flags::HOOKED == 0 {
                header.attached_monotonic_ns.store(self.now_ns(), Relaxed);
                // Time that was not seen before counts as time before the attach.
                header.unsampled_ns.store(0, Relaxed);
            }
        } else {
            // A forked child inherited its hooks: it is detached, too, and not only switched off.
            header.flags.fetch_or(flags::ATTACHED, Relaxed);
            header.flags.fetch_and(!flags::HOOKED, Relaxed);
        }
    }

    // Hazard, never seen: a thread takes a sample during a detach. The record of that block may stay, and counts as live after the next attach.
    // Each such thread leaves one record at most.
    /// Forgets every live record, as their frees will not be seen any more. Threads may go on recording.
    #[cold]
    pub fn forget_all(&self) {
        let places = [Some(&self.nursery.profile), self.moved()];
        for file in places.into_iter().flatten().map(|profile| &profile.file) {
            let slots = file.committed(RegionKind::LiveKeys);
            let keys = (0..slots).filter_map(|slot| live::key_of(file, live::Slot::of(slot)));
            keys.for_each(|key| self.forget_live(key.load(Relaxed) & !moving::MOVING));
        }
    }

    fn forget_live(&self, address: u64) {
        let Some(claim) = self.claim(address) else { return };
        let profile = self.profile_of(claim);
        let sample = self.sample(profile, claim);
        self.release(profile, claim);
        page_filter::lower(address);
        if sample.flags & live_flags::EXTENT != 0 {
            self.forget_end(address + sample.size);
        }
        self.settle(profile, 0);
    }
}
