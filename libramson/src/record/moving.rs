//! The move from the nursery to the profile file, record by record, while other threads go on: new samples go to the file as soon as it is
//! there, and a free looks in the nursery first. A thread that was still recording in the nursery then moves what it left.
//!
//! A record that is being moved has its key in the nursery marked, and a reserved slot in the file. Whoever changes that slot's key first
//! decides: the mover publishes the record, or a free cancels the move and has the record to itself. See `models`.

use super::live::{self, Slot};
use super::nursery::Claim;
use super::profile::Profile;
use super::stacks::Holder;
use super::{Recorder, add_float, page_filter};
use crate::config::Config;
use core::sync::atomic::Ordering::*;
use ramson_format::atomic::AtomicU64;
use ramson_format::{
    Failure, Health, KEY_CANCELLED, KEY_RESERVED, KINDS, Kind, LookupAddress, RegionKind, Stack,
    address_of, failure_check, flags, live_flags, state,
};

/// A forked child moves at the sample that makes it so many …
const MOST_SAMPLES: u64 = 64;
/// … or so many sampled bytes, …
const MOST_SAMPLED_BYTES: u64 = 32 << 20;
/// … or that comes so long after the first.
const MOST_NS: u64 = 1_000_000_000;

/// In a key of the nursery: the record is being moved. Addresses of blocks are even.
pub const MOVING: u64 = 1;

impl Recorder {
    /// Whether it is time to move.
    #[inline]
    pub fn is_to_move(&self) -> bool {
        self.moved.load(Relaxed) == 0 && self.is_due()
    }

    #[cold]
    fn is_due(&self) -> bool {
        let nursery = &self.nursery;
        let header = self.nursery.profile.file.header();
        let age_ns = self.now_ns().saturating_sub(header.start_monotonic_ns.load(Relaxed));
        let samples = [Health::Samples, Health::Extents]
            .map(|counter| header.health[counter as usize].load(Relaxed));
        !nursery.is_moving.load(Relaxed)
            && (!nursery.may_stay.load(Relaxed)
                || samples.iter().sum::<u64>() >= MOST_SAMPLES
                || nursery.sampled_bytes.load(Relaxed) >= MOST_SAMPLED_BYTES
                || age_ns >= MOST_NS)
    }

    /// True for one thread only, which then moves the recording out.
    #[cold]
    pub fn begins_to_move(&self) -> bool {
        !self.nursery.is_moving.swap(true, Relaxed)
    }

    /// Goes on in a file, or where none can be made in larger memory. `None`: there is no room for either.
    #[cold]
    pub fn move_out(
        &self,
        config: &Config,
        may_be_file: bool,
        room_bytes: u64,
    ) -> Option<&'static Profile> {
        let Some(profile) = Profile::create(config, may_be_file, room_bytes) else {
            // No reader is to take a part for the whole.
            self.nursery.profile.file.header().magic.store(0, Relaxed);
            return None;
        };
        self.move_to(profile);
        Some(profile)
    }

    pub(super) fn move_to(&self, profile: &'static Profile) {
        let from = self.nursery.profile.file.header();
        let to = profile.file.header();
        for (from, to) in [
            (&from.interval_bytes, &to.interval_bytes),
            (&from.configured_interval_bytes, &to.configured_interval_bytes),
            (&from.start_monotonic_ns, &to.start_monotonic_ns),
            (&from.start_realtime_ns, &to.start_realtime_ns),
            (&from.last_monotonic_ns, &to.last_monotonic_ns),
            (&from.start_cycles, &to.start_cycles),
            (&from.start_cycles_ns, &to.start_cycles_ns),
            (&from.last_cycles, &to.last_cycles),
            (&from.last_cycles_ns, &to.last_cycles_ns),
            (&from.cpu_ns, &to.cpu_ns),
            (&from.until_monotonic_ns, &to.until_monotonic_ns),
            (&from.attached_monotonic_ns, &to.attached_monotonic_ns),
            (&from.interval_orders, &to.interval_orders),
            (&from.unsampled_ns, &to.unsampled_ns),
            (&from.resumed_monotonic_ns, &to.resumed_monotonic_ns),
            (&from.inside, &to.inside),
        ] {
            to.store(from.load(Relaxed), Relaxed);
        }
        for (from, to) in [
            (&from.max_overhead_ppm, &to.max_overhead_ppm),
            (&from.interval_changes, &to.interval_changes),
            (&from.epoch, &to.epoch),
        ] {
            to.store(from.load(Relaxed), Relaxed);
        }
        to.flags.fetch_or(from.flags.load(Relaxed) & !flags::PRIVATE, Relaxed);
        let nursery_bytes = self.nursery.profile.own_bytes();
        let own_bytes = (size_of::<Self>() + profile.stacks.index_bytes()) as u64;
        profile.count(Health::OwnBytes, own_bytes + nursery_bytes);
        self.move_health(profile);
        self.move_mappings(profile);
        self.pid.store(to.pid.load(Relaxed), Relaxed);
        // Taken before others see the file: this thread drains for all, and knows when everything has been moved.
        let wanted = self.nursery.drains.fetch_add(1, AcqRel) + 1;
        self.moved.swap(core::ptr::from_ref(profile) as u64, AcqRel);
        self.allocators.are_untold();
        // Readers that look through this process's memory find one profile.
        from.magic.store(0, Relaxed);
        // The governor may have decided meanwhile.
        to.interval_bytes.store(from.interval_bytes.load(Relaxed), Relaxed);
        self.drain_for(profile, wanted);
        self.tell_allocators();
        // Not before: a process that is killed meanwhile leaves no part that looks like the whole.
        let _ = to.state.compare_exchange(state::MAKING, state::RECORDING, Release, Relaxed);
    }

    /// Moves what is in the nursery.
    #[cold]
    pub(super) fn drain(&self) {
        let Some(to) = self.moved() else { return };
        let wanted = self.nursery.drains.fetch_add(1, AcqRel) + 1;
        if wanted == 1 {
            self.drain_for(to, wanted);
        }
    }

    fn drain_for(&self, to: &Profile, mut wanted: u64) {
        let drains = &self.nursery.drains;
        loop {
            self.move_health(to);
            self.move_mappings(to);
            self.move_counters(to);
            self.move_records(to);
            // Whoever came meanwhile may have left something where we had been.
            match drains.compare_exchange(wanted, 0, AcqRel, Acquire) {
                Ok(_) => return,
                Err(now) => wanted = now,
            }
        }
    }

    /// The governor compares sums, so those in the nursery stay as they are.
    fn move_health(&self, to: &Profile) {
        let from = &self.nursery.profile.file.header().health;
        for ((from, moved), to) in
            from.iter().zip(&self.nursery.moved_health).zip(&to.file.header().health)
        {
            let now = from.load(Relaxed);
            to.fetch_add(now.wrapping_sub(moved.swap(now, Relaxed)), Relaxed);
        }
    }

    /// In their order, so that they have the same numbers.
    fn move_mappings(&self, to: &Profile) {
        let from = &self.nursery.profile;
        from.mappings().for_each(|mapping| to.take_over_mapping(mapping, &from.file));
    }

    fn move_counters(&self, to: &Profile) {
        let from = &self.nursery.profile;
        for number in 0..from.stack_count() {
            let stack = from.stack(number);
            let has_counted = |cell: &AtomicU64| cell.load(Relaxed) != 0;
            if has_counted(&stack.sampled_alloc_objects)
                || has_counted(&stack.sampled_freed_objects)
                || has_counted(&stack.sampled_freed_bytes)
            {
                add_counters(stack, to.stack(self.stack_in(to, number)));
            }
        }
        let (from, to_header) = (from.file.header(), to.file.header());
        for (from, to_failure) in
            [(&from.failure, &to_header.failure), (&from.abort, &to_header.abort)]
        {
            self.move_failure(from, to_failure, to);
        }
    }

    /// The number in the file of a stack of the nursery.
    fn stack_in(&self, to: &Profile, number: u32) -> u32 {
        let from = &self.nursery.profile;
        if number < KINDS.len() as u32 {
            return number;
        }
        let stack = from.stack(number);
        // One more than its number there, once it has one. No reader sees this field.
        let known = stack.reserved.load(Relaxed);
        if known != 0 {
            return known as u32 - 1;
        }
        let flags = stack.flags.load(Relaxed);
        let (first, depth) = (stack.first_frame.load(Relaxed), stack.depth.load(Relaxed));
        let frames: &[AtomicU64] =
            from.file.slice(RegionKind::Frames, first, depth as usize).unwrap_or_default();
        let interned = to.stacks.intern(
            &to.file,
            stack.epoch.load(Relaxed),
            frames.iter().map(|frame| LookupAddress(frame.load(Relaxed))),
            flags,
            Holder::Allocation,
            stack.first_monotonic_ns.load(Relaxed),
        );
        let there = interned.unwrap_or_else(|| {
            to.count(Health::DroppedStacks, 1);
            Kind::of_stack(flags).overflow_stack()
        });
        stack.reserved.store(there as u64 + 1, Relaxed);
        there
    }

    fn move_failure(&self, from: &Failure, to: &Failure, profile: &Profile) {
        let count = from.count.swap(0, AcqRel);
        if count == 0 {
            return;
        }
        let size = from.size.load(Relaxed);
        let monotonic_ns = from.monotonic_ns.load(Relaxed);
        let stack = self.stack_in(profile, from.stack.load(Relaxed));
        let tid = from.tid.load(Relaxed);
        to.count.fetch_add(count, Relaxed);
        to.size.store(size, Relaxed);
        to.monotonic_ns.store(monotonic_ns, Relaxed);
        to.stack.store(stack, Relaxed);
        to.tid.store(tid, Relaxed);
        to.check.store(failure_check(size, monotonic_ns, stack, tid), Release);
    }

    fn move_records(&self, to: &Profile) {
        let file = &self.nursery.profile.file;
        let slots = file.committed(RegionKind::LiveKeys);
        for slot in (0..slots).map(Slot::of) {
            let Some(place) = live::key_of(file, slot) else { return };
            let key = place.load(Relaxed);
            if key > KEY_CANCELLED && key & MOVING == 0 {
                self.move_record(to, slot, key);
            }
        }
    }

    pub(super) fn move_record(&self, to: &Profile, slot: Slot, key: u64) {
        let file = &self.nursery.profile.file;
        let Some(place) = live::key_of(file, slot) else { return };
        let Some((moved_slot, moved_key)) = live::reserve(&to.file, key) else {
            return self.drop_record(to, slot, key);
        };
        self.nursery.moving_to.store(moved_slot.number(), Release);
        let marked = key | MOVING;
        if place.compare_exchange(key, marked, AcqRel, Relaxed).is_err() {
            return moved_key.store(0, Release);
        }
        let mut sample = live::sample(file, slot);
        sample.stack = self.stack_in(to, sample.stack);
        live::store(&to.file, moved_slot, key, &sample);
        match moved_key.compare_exchange(KEY_RESERVED, key, AcqRel, Relaxed) {
            Ok(_) => self.finish_move(place, marked),
            Err(_) => moved_key.store(0, Release),
        }
    }

    /// There is no room for it in the file.
    fn drop_record(&self, to: &Profile, slot: Slot, key: u64) {
        let file = &self.nursery.profile.file;
        let Some(place) = live::key_of(file, slot) else { return };
        if place.compare_exchange(key, KEY_RESERVED, AcqRel, Relaxed).is_err() {
            return;
        }
        let sample = live::sample(file, slot);
        let address = address_of(key);
        page_filter::lower(address);
        if sample.flags & live_flags::EXTENT != 0 {
            self.forget_end(address + sample.size);
            to.count(Health::DroppedExtents, 1);
        } else {
            to.count(Health::DroppedLive, 1);
        }
        self.release(&self.nursery.profile, Claim::new(slot, true));
    }
}

/// Moves what one stack has counted to another.
fn add_counters(from: &Stack, to: &Stack) {
    for (from, to) in [
        (&from.sampled_alloc_objects, &to.sampled_alloc_objects),
        (&from.sampled_alloc_bytes, &to.sampled_alloc_bytes),
        (&from.sampled_freed_objects, &to.sampled_freed_objects),
        (&from.sampled_freed_bytes, &to.sampled_freed_bytes),
    ] {
        to.fetch_add(from.swap(0, AcqRel), Relaxed);
    }
    for (from, to) in [
        (&from.unsampled_alloc_objects, &to.unsampled_alloc_objects),
        (&from.unsampled_alloc_space, &to.unsampled_alloc_space),
        (&from.unsampled_freed_objects, &to.unsampled_freed_objects),
        (&from.unsampled_freed_space, &to.unsampled_freed_space),
        (&from.alloc_objects_variance, &to.alloc_objects_variance),
        (&from.alloc_space_variance, &to.alloc_space_variance),
    ] {
        add_float(to, f64::from_bits(from.swap(0, AcqRel)));
    }
    for (from, to) in from.lifetimes.iter().zip(&to.lifetimes) {
        to.fetch_add(from.swap(0, AcqRel), Relaxed);
    }
}
