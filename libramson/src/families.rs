//! Allocators inside objects, as far as hooks have found them: where their code lies, and what the profile is told of them. A family is the
//! functions of one allocator; that of the preloaded malloc is none of these.

use crate::text::Text;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use ramson_format::{Inside, MEMBER_STATES, MOST_ALLOCATORS, MemberState};

/// Ranges of code in which an allocator lies.
const MOST_RANGES: usize = 32;
/// Ranges of functions with hooks that lie side by side.
const MOST_HOOKED: usize = 192;

const HOOKED: u8 = MemberState::Hooked as u8;

/// An allocator inside an object. All zero is none.
pub struct Family {
    /// The object's record and dynamic section; 0 once it is unloaded.
    pub object: [AtomicU64; 2],
    /// Starts and ends of the functions that have hooks.
    pub hooked: [[AtomicU64; 2]; MOST_HOOKED],
    /// Starts and ends of its code, with what lies between its functions.
    pub ranges: [[AtomicU64; 2]; MOST_RANGES],
    /// Start and bytes of the memory that its hooks are in.
    pub area: [AtomicU64; 2],
    /// Not 0: its hooks were to be written from outside, which did not come about.
    pub is_unwritten: AtomicU64,
    facts: UnsafeCell<Facts>,
}

/// Facts that the profile has of an allocator.
#[derive(Clone, Copy)]
pub struct Facts {
    pub kind: u32,
    /// Where the object begins in memory.
    pub object: u64,
    pub states: [u8; MEMBER_STATES],
    pub path: Text,
}

impl Family {
    /// What became of each function, by its number.
    pub fn states(&self, facts: &Facts) -> [u8; MEMBER_STATES] {
        let is_unwritten = self.is_unwritten.load(Relaxed) != 0;
        facts.states.map(|state| match state {
            HOOKED if is_unwritten => MemberState::NotWritten as u8,
            other => other,
        })
    }

    /// Its object is gone, or its hooks are not to be written.
    pub fn forget(&self) {
        let code = self.ranges.iter().chain(&self.hooked).flatten();
        self.object.iter().chain(code).for_each(|word| word.store(0, Relaxed));
    }
}

impl Facts {
    /// The object's file; empty for the executable.
    pub fn path(&self) -> &[u8] {
        self.path.as_c_str().unwrap_or_default().to_bytes()
    }
}

// SAFETY: facts are written once, before `COUNT` says that they are there.
unsafe impl Sync for Family {}

static FAMILIES: [Family; MOST_ALLOCATORS] = [const {
    Family {
        object: [const { AtomicU64::new(0) }; 2],
        hooked: [const { [const { AtomicU64::new(0) }; 2] }; MOST_HOOKED],
        ranges: [const { [const { AtomicU64::new(0) }; 2] }; MOST_RANGES],
        area: [const { AtomicU64::new(0) }; 2],
        is_unwritten: AtomicU64::new(0),
        facts: UnsafeCell::new(Facts {
            kind: 0,
            object: 0,
            states: [0; MEMBER_STATES],
            path: Text::new(),
        }),
    }
}; MOST_ALLOCATORS];
/// Families that there are.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Not 0: all hooks were taken away from a program that goes on.
static ARE_PAUSED: AtomicU32 = AtomicU32::new(0);

/// Outcome of writing hooks into them, as a number.
static OUTCOME: AtomicU64 = AtomicU64::new(Inside::Off as u64);

/// Notes whether all hooks were taken away.
pub fn pause(are_paused: bool) {
    ARE_PAUSED.store(are_paused as u32, Relaxed);
}

/// Notes what became of hooks in allocators inside objects.
pub fn have_become(outcome: Inside) {
    OUTCOME.store(outcome as u64, Relaxed);
}

/// The number of an `Inside`.
pub fn outcome() -> u64 {
    OUTCOME.load(Relaxed)
}

/// Allocators that have been found in this process.
#[inline]
pub fn count() -> u32 {
    COUNT.load(Acquire)
}

/// Facts of all allocators so far, in the order of their families.
pub fn all() -> impl Iterator<Item = &'static Facts> {
    // SAFETY: `families` has only those whose facts are there, and stay as they are.
    families().map(|family| unsafe { &*family.facts.get() })
}

pub fn families() -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().take(count() as usize)
}

/// The place of the next allocator; `None`: there are as many as there may be.
pub fn next() -> Option<&'static Family> {
    FAMILIES.get(count() as usize)
}

/// Makes the allocator in the next place one more.
///
/// # Safety
/// One thread does this at a time.
pub unsafe fn add(facts: Facts) {
    if let Some(family) = next() {
        // SAFETY: nobody reads facts beyond the count, which only the caller raises.
        unsafe { *family.facts.get() = facts };
        COUNT.fetch_add(1, Release);
    }
}

/// Whether the code at `address` is of an allocator, or lies between its functions.
#[inline]
pub fn is_in_allocator(address: u64) -> bool {
    COUNT.load(Relaxed) != 0 && is_in(|family| &family.ranges, address)
}

/// Whether the code at `address` is of a function that has a hook.
#[inline]
pub fn is_in_hooked(address: u64) -> bool {
    COUNT.load(Relaxed) != 0 && is_in(|family| &family.hooked, address)
}

#[cold]
#[inline(never)]
fn is_in(ranges: fn(&Family) -> &[[AtomicU64; 2]], address: u64) -> bool {
    ARE_PAUSED.load(Relaxed) == 0
        && families().flat_map(ranges).any(|range| {
            let [start, end] = range.each_ref().map(|word| word.load(Relaxed));
            (start..end).contains(&address)
        })
}
