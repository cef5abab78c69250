//! Effects of an attach and a detach on the records.

use super::{Recorder, live, moving, page_filter};
use crate::families;
use core::sync::atomic::Ordering::*;
use ramson_format::{RegionKind, address_of, flags, live_flags};

impl Recorder {
    /// Whether hooks are in place in a program that this came into.
    #[cold]
    pub fn note_hooks(&self, are_there: bool) {
        let header = self.profile().file.header();
        if are_there {
            header.inside.store(families::outcome(), Relaxed);
            if header.flags.fetch_or(flags::HOOKED, Relaxed) & flags::HOOKED == 0 {
                header.attached_monotonic_ns.store(self.now_ns(), Relaxed);
                // Time that was not seen before counts as time before the attach.
                header.unsampled_ns.store(0, Relaxed);
            }
        } else {
            // What is live is as of now.
            header.last_monotonic_ns.fetch_max(self.now_ns(), Relaxed);
            // A forked child inherited its hooks: it is detached, too, and not only switched off.
            header.flags.fetch_or(flags::ATTACHED, Relaxed);
            header.flags.fetch_and(!flags::HOOKED, Relaxed);
        }
    }

    /// Forgets the blocks that were live when ramson detached, before it attaches again: their frees were not seen since. Until then their
    /// records say what was live at the detach.
    #[cold]
    pub fn forget_before_attach(&self) {
        let header = self.profile().file.header();
        let is_hooked = header.flags.load(Relaxed) & flags::HOOKED != 0;
        if !is_hooked && header.attached_monotonic_ns.load(Relaxed) != 0 {
            self.forget_all();
        }
    }

    // Hazard, never seen: a thread takes a sample while ramson attaches again. The record of that block may go, and is not live then.
    /// Forgets every live record. Threads may go on recording.
    fn forget_all(&self) {
        let places = [Some(&self.nursery.profile), self.moved()];
        for file in places.into_iter().flatten().map(|profile| &profile.file) {
            let slots = file.committed(RegionKind::LiveKeys);
            let keys = (0..slots).filter_map(|slot| live::key_of(file, live::Slot::of(slot)));
            keys.for_each(|key| self.forget_live(key.load(Relaxed) & !moving::MOVING));
        }
    }

    fn forget_live(&self, key: u64) {
        let Some(claim) = self.claim(key) else { return };
        let address = address_of(key);
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
