//! The nursery: private memory in which a process begins to record. It needs no system call, where making a file takes a hundred, and the
//! thread that makes it may lose the processor. See `moving`.

use super::live::{self, Slot};
use super::profile::{NearIndex, NurseryMemory, Profile};
#[cfg(not(any(test, fuzzing)))]
use crate::arch::hooks;
use crate::config::Config;
use crate::walk::WALKER;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicBool, AtomicU64 as PlainU64, Ordering::*};
use ramson_format::HEALTH;
use ramson_format::atomic::AtomicU64;

/// Profile in which a process begins to record. All zero is "not begun".
pub struct Nursery {
    pub(super) profile: Profile,
    /// Live records here. Counted up before one is put in.
    pub(super) live: AtomicU64,
    /// Slot in the file of the record that is being moved.
    pub(super) moving_to: AtomicU64,
    /// Threads that have asked for the rest to be moved; the first one moves it for all.
    pub(super) drains: AtomicU64,
    /// Counts that have been added to the file's health counters.
    pub(super) moved_health: [PlainU64; HEALTH.len()],
    pub(super) sampled_bytes: PlainU64,
    pub(super) may_stay: AtomicBool,
    has_objects: AtomicBool,
    pub(super) is_moving: AtomicBool,
}

impl Nursery {
    pub fn begin(
        &self,
        memory: &'static NurseryMemory,
        near: &'static NearIndex,
        config: &Config,
        pid: u32,
        may_stay: bool,
    ) -> bool {
        self.may_stay.store(may_stay, Relaxed);
        self.profile.begin_in(memory, near, config, pid);
        live::touch(&self.profile.file);
        let is_first = !self.has_objects.swap(true, Relaxed);
        if is_first {
            WALKER.objects.add_inherited(&self.profile);
            // The reader rounds sizes up as this allocator does.
            #[cfg(not(any(test, fuzzing)))]
            WALKER.objects.meet(hooks::real_malloc(), &self.profile);
        }
        is_first
    }

    #[inline]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Live records here.
    #[inline]
    pub fn left(&self) -> u64 {
        // Acquire pairs with the release of a mover that took the last one out.
        self.live.load(Acquire)
    }
}

/// A record that one thread holds. To be completed or restored. One word, which a hook's slow path keeps in a register: the number of its slot,
/// whether it is in the nursery, and a bit that is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Claim(NonZeroU64);

impl Claim {
    pub(super) fn new(slot: Slot, is_in_nursery: bool) -> Self {
        Self(NonZeroU64::MIN | slot.number() << 2 | (is_in_nursery as u64) << 1)
    }

    /// The same as a word that is never 0.
    pub fn bits(self) -> u64 {
        self.0.get()
    }

    /// The opposite; `None` of 0.
    pub fn of_bits(bits: u64) -> Option<Self> {
        NonZeroU64::new(bits).map(Self)
    }

    pub(super) fn slot(self) -> Slot {
        Slot::of(self.0.get() >> 2)
    }

    pub(super) fn is_in_nursery(self) -> bool {
        self.0.get() & 2 != 0
    }
}
