//! The places in code that are written for hooks inside objects, as whoever attaches sees them: in a program that runs already he writes them while
//! all threads are stopped, and puts back what was there.

use super::code::code_at;
use crate::families;
use crate::sys::File;
use core::sync::atomic::Ordering::*;
use ramson_format::atomic::AtomicU64;
use ramson_format::control::{MOST_PLACES, PLACE_WORDS, Place, place_state};

/// The table of places, in its own words.
#[repr(transparent)]
pub struct Places([[AtomicU64; PLACE_WORDS]; MOST_PLACES]);

#[unsafe(export_name = "ramson_places")]
pub static PLACES: Places =
    Places([const { [const { AtomicU64::new(0) }; PLACE_WORDS] }; MOST_PLACES]);

/// How a place is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// At once: nobody executes it. It stays.
    ForGood,
    /// At once, and it can be put back.
    Noted,
    /// From outside.
    Listed,
}

/// What a place is to have.
pub struct Change<'a> {
    pub address: u64,
    pub bytes: &'a [u8],
    /// Up to there the instructions are moved away.
    pub end: u64,
    /// Number of the allocator, from 1 on.
    pub family: u64,
}

fn places() -> &'static [Place] {
    // SAFETY: a `Place` is `repr(C)` and of atomic words only, and `PLACE_WORDS` is counted from it.
    unsafe { &*(&raw const PLACES).cast::<[Place; MOST_PLACES]>() }
}

fn used() -> impl Iterator<Item = &'static Place> {
    places().iter().take_while(|place| place.address.load(Relaxed) != 0)
}

fn is_in(place: &Place, state: u64) -> bool {
    place.state.load(Relaxed) == state
}

/// Whether there is room for so many.
pub fn have_room(way: Way, count: usize) -> bool {
    way == Way::ForGood
        || places().iter().filter(|place| is_in(place, place_state::FREE)).count() >= count
}

/// Writes a place, or lists it.
pub fn put(memory: &File, way: Way, change: &Change) -> bool {
    let free = || places().iter().find(|place| is_in(place, place_state::FREE));
    let place = match way {
        Way::ForGood => return memory.write_at(change.address, change.bytes),
        Way::Noted | Way::Listed => free(),
    };
    let Some(place) = place else { return false };
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let before = code_at(change.address, change.bytes.len() as u64);
    for (to, value) in [
        (&place.before, word(before)),
        (&place.after, word(change.bytes)),
        (&place.bytes, change.bytes.len() as u64),
        (&place.end, change.end),
        (&place.family, change.family),
        (&place.address, change.address),
    ] {
        to.store(value, Relaxed);
    }
    if way == Way::Noted && !memory.write_at(change.address, change.bytes) {
        return false;
    }
    let state = if way == Way::Noted { place_state::WRITTEN } else { place_state::LISTED };
    place.state.store(state, Release);
    true
}

/// What was written once is to be written again.
pub fn list_again() {
    for place in used().filter(|place| is_in(place, place_state::RESTORED)) {
        place.state.store(place_state::AGAIN, Relaxed);
    }
}

/// An allocator's object is gone.
pub fn forget(family: u64) {
    used()
        .filter(|place| place.family.load(Relaxed) == family)
        .for_each(|place| place.state.store(place_state::FREE, Relaxed));
}

/// What is still listed will not be written: allocators whose hooks were never written are forgotten.
pub fn settle() {
    for place in used() {
        match place.state.load(Relaxed) {
            place_state::AGAIN => place.state.store(place_state::RESTORED, Relaxed),
            place_state::LISTED => {
                let family = place.family.load(Relaxed);
                let number = (family as usize).checked_sub(1);
                if let Some(family) = number.and_then(|number| families::families().nth(number)) {
                    family.is_unwritten.store(1, Relaxed);
                    family.forget();
                }
                place.state.store(place_state::FREE, Relaxed);
            }
            _ => {}
        }
    }
}

/// Places that lead to hooks.
pub fn written() -> usize {
    used().filter(|place| is_in(place, place_state::WRITTEN)).count()
}

/// Whether there are any.
pub fn are_any() -> bool {
    used().any(|place| !is_in(place, place_state::FREE))
}

/// Whether the loader's function is known.
pub fn has_loader() -> bool {
    of_loader().any(|place| !is_in(place, place_state::FREE))
}

/// Whether the loader's function leads to a hook.
pub fn is_loader_watched() -> bool {
    of_loader().any(|place| is_in(place, place_state::WRITTEN))
}

fn of_loader() -> impl Iterator<Item = &'static Place> {
    used().filter(|place| place.family.load(Relaxed) == 0)
}
