//! Live records, wherever they are: in the nursery, in the file, or on the way from one to the other.

use super::live::{self, Sample, Slot};
use super::moving::MOVING;
use super::nursery::Claim;
use super::profile::Profile;
use super::{Recorder, page_filter};
use core::sync::atomic::Ordering::*;
use ramson_format::atomic::{AtomicU64, fence};
use ramson_format::{KEY_CANCELLED, KEY_RESERVED, address_of};

impl Recorder {
    /// Returns the profile in which recording goes on, once it has moved.
    #[inline]
    pub(super) fn moved(&self) -> Option<&'static Profile> {
        // Acquire pairs with the release in `move_to`.
        // SAFETY: 0, or a profile that is never given back.
        unsafe { (self.moved.load(Acquire) as *const Profile).as_ref() }
    }

    #[inline]
    fn is_nursery(&self, profile: &Profile) -> bool {
        core::ptr::eq(profile, &self.nursery.profile)
    }

    /// Takes hold of the record with this live key, if there is one.
    #[inline]
    pub fn claim(&self, key: u64) -> Option<Claim> {
        if page_filter::of(address_of(key)).load(Relaxed) == 0 {
            return None;
        }
        if self.nursery.left() != 0 {
            if let Some(claim) = self.claim_in_nursery(key) {
                return Some(claim);
            }
            // A mover may have changed the key that was read: what it stored in the file before must be visible, too.
            fence(Acquire);
        }
        let slot = live::claim(&self.moved()?.file, key)?;
        Some(Claim::new(slot, false))
    }

    #[cold]
    fn claim_in_nursery(&self, key: u64) -> Option<Claim> {
        let nursery = &self.nursery;
        let file = &nursery.profile.file;
        if let Some(slot) = live::claim(file, key) {
            return Some(Claim::new(slot, true));
        }
        let marked = key | MOVING;
        let (slot, place) = live::find(file, marked)?;
        // Its place is known from before it was marked until after the mark is gone.
        let is_marked = || place.load(Acquire) == marked;
        let to = is_marked().then(|| Slot::of(nursery.moving_to.load(Acquire)))?;
        if !is_marked() {
            return None;
        }
        let moved = live::key_of(&self.moved()?.file, to)?;
        if moved.compare_exchange(KEY_RESERVED, KEY_CANCELLED, AcqRel, Relaxed).is_ok() {
            place.store(KEY_RESERVED, Release);
            return Some(Claim::new(slot, true));
        }
        // It is in the file. Not to be taken for its successor at this address.
        self.finish_move(place, marked);
        None
    }

    /// The record that `place` has under a marked key is in the file.
    pub(super) fn finish_move(&self, place: &AtomicU64, marked: u64) {
        if place.compare_exchange(marked, 0, AcqRel, Relaxed).is_ok() {
            self.nursery.live.fetch_sub(1, Release);
        }
    }

    /// Returns the profile that has the claimed record.
    #[inline]
    pub(super) fn profile_of(&self, claim: Claim) -> &Profile {
        if claim.is_in_nursery() { &self.nursery.profile } else { self.profile() }
    }

    /// The fields of a record that is claimed in `profile`.
    #[inline]
    pub(super) fn sample(&self, profile: &Profile, claim: Claim) -> Sample {
        live::sample(&profile.file, claim.slot())
    }

    /// Gives a slot back that is claimed in `profile`.
    #[inline]
    pub(super) fn release(&self, profile: &Profile, claim: Claim) {
        live::release(&profile.file, claim.slot());
        if claim.is_in_nursery() {
            self.nursery.live.fetch_sub(1, Release);
        }
    }

    /// Puts a claimed record back as it was.
    pub fn restore(&self, claim: Claim, key: u64) {
        let profile = self.profile_of(claim);
        live::restore(&profile.file, claim.slot(), key);
        self.settle(profile, 0);
    }

    /// Publishes a sample. False: the table is full.
    #[inline]
    pub(super) fn insert(&self, profile: &Profile, key: u64, sample: &Sample) -> bool {
        let is_nursery = self.is_nursery(profile);
        if is_nursery {
            self.nursery.live.fetch_add(1, Relaxed);
        }
        let is_in = live::insert(&profile.file, key, sample);
        if is_nursery && !is_in {
            self.nursery.live.fetch_sub(1, Release);
        }
        is_in
    }

    /// Something was recorded in `profile`, of `sampled_bytes` in an allocation.
    #[inline]
    pub(super) fn settle(&self, profile: &Profile, sampled_bytes: u64) {
        if self.is_nursery(profile) {
            self.nursery.sampled_bytes.fetch_add(sampled_bytes, Relaxed);
            // By a locked instruction: either it sees that recording has moved, or the mover sees what was recorded.
            if self.moved.fetch_or(0, AcqRel) != 0 {
                self.drain();
            }
        }
    }
}
