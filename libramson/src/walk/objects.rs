//! The objects that walks have met: where their unwind tables are, and whether they are still what they were.
//!
//! `loaded` tells without a lock which object is at an address. Objects that were there at the first allocation stay
//! for good; others are asked about once per walk, because dlclose may have taken them away and put others in their place.

use super::elf::Elf;
use super::loaded;
use crate::resolve::{self, FoundObject, LinkMap};
use crate::sys::{self, permit};
use crate::{counter, startup};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};
use ramson_format::mix;

/// More objects than that at once are walked by frame pointers only.
pub const MAX_OBJECTS: usize = 1024;
const HINTS: usize = 1024;
/// Objects that one walk remembers to have verified; more are verified again.
const VERIFIED: usize = 8;
/// Slots that are looked at for one to use again when there is no new one.
const SWEPT: u32 = 32;

/// Told of every object when it is first met, to write it into the profile.
pub trait NewMapping {
    /// Returns the index that `replaced` will be called with.
    fn add(&self, mapping: &MappingFacts) -> u32;
    /// The object is no longer at `start`. The stack epoch moves on.
    fn replaced(&self, index: u32, start: u64);
}

/// An object as the profile describes it.
pub struct MappingFacts<'a> {
    pub start: u64,
    pub end: u64,
    pub bias: u64,
    /// Empty for the executable itself.
    pub path: &'a [u8],
    pub build_id: &'a [u8],
}

/// Source of a rule: the ranges that it is compiled from. Ranges that are not known are 0..0.
#[derive(Clone, Copy, Default)]
pub struct Place {
    pub start: u64,
    pub end: u64,
    pub unwind_header: u64,
    /// Start and end of the readable memory around the unwind tables.
    pub unwind_start: u64,
    pub unwind_end: u64,
    /// Code that is readable.
    pub code_start: u64,
    pub code_end: u64,
    /// Differs between two objects that were at the same address; never 0.
    pub generation: u32,
    /// It is never unloaded.
    pub is_permanent: bool,
}

/// Scope of the rules of permanent objects: these are valid for ever.
pub const PERMANENT: u32 = 0;
/// Scopes are generations below this, and above it of code that belongs to no object.
const UNCLAIMED: u32 = 0x8000;

impl Place {
    /// Returns the scope in which the rules of this object are valid; see `RuleCache`.
    pub fn scope(&self) -> u32 {
        if self.is_permanent { PERMANENT } else { self.generation }
    }
}

/// `Object::state` is one of these, and above them the generation.
const TAKEN: u32 = 1;
const READY: u32 = 2;
const GONE: u32 = 3;
const PHASE: u32 = 3;
const GENERATION_SHIFT: u32 = 2;

/// Slots are used again, so readers compare `state` before and after they take the other fields.
pub struct Object {
    state: AtomicU32,
    pub is_permanent: AtomicU32,
    mapping: AtomicU32,
    start: AtomicU64,
    end: AtomicU64,
    unwind_header: AtomicU64,
    unwind_start: AtomicU64,
    unwind_end: AtomicU64,
    code_start: AtomicU64,
    code_end: AtomicU64,
    link_map: AtomicU64,
    /// Address of a word that tells this object from others (in its build ID), or 0, and the word.
    identity_at: AtomicU64,
    identity: AtomicU64,
    /// The cycle counter when `is_unchanged` last asked the kernel.
    asked_at_cycles: AtomicU64,
    build_id: [AtomicU64; 4],
    build_id_bytes: AtomicU32,
}

/// All objects. All zero is the initial state.
pub struct Objects {
    count: AtomicU32,
    /// Objects ever met.
    registered: AtomicU32,
    swept: AtomicU32,
    hints: [AtomicU32; HINTS],
    pub objects: [Object; MAX_OBJECTS],
}

/// Objects that one walk knows already.
#[derive(Default)]
pub struct Cursor {
    current: Option<Place>,
    /// Generations; 0 is none.
    verified: [u32; VERIFIED],
    verified_count: usize,
}

impl Cursor {
    fn remember(&mut self, generation: u32) {
        if let Some(slot) = self.verified.get_mut(self.verified_count) {
            *slot = generation;
            self.verified_count += 1;
        }
    }
}

impl Objects {
    /// Scope of the rules of code that belongs to no object now. It ends when an object is met for the first time, as that may
    /// be where such code was.
    #[inline]
    pub fn unclaimed_scope(&self) -> u32 {
        UNCLAIMED | (self.registered.load(Relaxed) % UNCLAIMED)
    }

    /// The object at `address`, as it is now.
    #[inline]
    pub fn covering<'c>(
        &self,
        address: u64,
        cursor: &'c mut Cursor,
        sink: &impl NewMapping,
    ) -> Option<&'c Place> {
        let is_current = |place: &Place| (place.start..place.end).contains(&address);
        if !cursor.current.as_ref().is_some_and(is_current) {
            cursor.current = Some(self.find(address, cursor, sink)?);
        }
        cursor.current.as_ref()
    }

    fn find(&self, address: u64, cursor: &mut Cursor, sink: &impl NewMapping) -> Option<Place> {
        let hint = self.hints.get((address >> 14) as usize % HINTS)?;
        let hinted = self.objects.get(hint.load(Relaxed) as usize)?;
        let known = hinted.place().filter(|place| (place.start..place.end).contains(&address));
        if let Some(place) = known
            && (place.is_permanent || cursor.verified.contains(&place.generation))
        {
            return Some(place);
        }
        if let Some(place) = known
            && !resolve::loader_finds_objects()
            && hinted.is_unchanged(place.generation)
        {
            cursor.remember(place.generation);
            return Some(place);
        }
        let found = loaded::object_at(address);
        let is_same = found.as_ref().is_some_and(|found| hinted.is(found));
        if let Some(known) = known
            && !is_same
        {
            hinted.retire(known.generation, sink);
        }
        let found = found?;
        let place = if is_same {
            hinted.place()?
        } else {
            let index = self.register(&found, sink)?;
            hint.store(index, Relaxed);
            self.objects.get(index as usize)?.place()?
        };
        cursor.remember(place.generation);
        (place.start..place.end).contains(&address).then_some(place)
    }

    /// The slot of `found`, a new one if it has none. Objects that were in its place are retired.
    fn register(&self, found: &FoundObject, sink: &impl NewMapping) -> Option<u32> {
        let count = self.count.load(Acquire) as usize;
        for (index, object) in self.objects.iter().take(count).enumerate() {
            if object.is(found) {
                return Some(index as u32);
            }
            let place = object.place();
            let overlaps = |place: &Place| place.start < found.end && place.end > found.start;
            if let Some(place) = place.filter(overlaps) {
                object.retire(place.generation, sink);
            }
        }
        let index = self.take_slot(sink)?;
        let number = self.registered.fetch_add(1, Relaxed);
        self.objects.get(index as usize)?.fill(found, number % (UNCLAIMED - 1) + 1, sink);
        Some(index)
    }

    /// A slot that is ours alone until `fill` publishes it.
    #[cold]
    fn take_slot(&self, sink: &impl NewMapping) -> Option<u32> {
        let new = self.count.fetch_update(AcqRel, Relaxed, |count| {
            ((count as usize) < MAX_OBJECTS).then_some(count + 1)
        });
        if let Ok(index) = new {
            return Some(index);
        }
        let first = self.swept.fetch_add(SWEPT, Relaxed);
        (0..SWEPT).map(|step| first.wrapping_add(step) % MAX_OBJECTS as u32).find(|&index| {
            self.objects.get(index as usize).is_some_and(|object| object.is_to_be_used_again(sink))
        })
    }

    /// In a forked child, whose profile is new: adds the objects that are never unloaded, and forgets the others, which may be met again.
    #[cold]
    pub fn add_inherited(&self, sink: &impl NewMapping) {
        let count = self.count.load(Acquire) as usize;
        for object in self.objects.iter().take(count) {
            let Some(place) = object.place() else { continue };
            if place.is_permanent {
                // Its number is of no interest: it is never replaced.
                object.add_to(sink);
            } else {
                let ready = place.generation << GENERATION_SHIFT | READY;
                let gone = ready & !PHASE | GONE;
                let _ = object.state.compare_exchange(ready, gone, AcqRel, Relaxed);
            }
        }
    }

    /// Meets the object at an address in addition to those that walks meet.
    #[cold]
    pub fn meet(&self, address: u64, sink: &impl NewMapping) {
        self.covering(address, &mut Cursor::default(), sink);
    }

    /// Meets every object that is never unloaded.
    #[cold]
    pub fn meet_permanent(&self, sink: &impl NewMapping) {
        for object in startup::objects() {
            self.meet(object.dynamic as u64, sink);
        }
    }
}

/// A word that tells an object from another at its place: the first bytes of its build ID, which lie at `build_id`, or what
/// its path hashes to if that is 0.
fn identity(build_id: u64, found: &FoundObject) -> u64 {
    if build_id != 0 {
        // SAFETY: the build ID of an object of this extent, which is loaded: in its first, readable segment.
        return unsafe { (build_id as *const u64).read_unaligned() };
    }
    // SAFETY: the object was just found loaded at an address on our stack, and its record with it; names are C strings.
    let path = unsafe { found.link_map.as_ref().map_or(c"", |map| CStr::from_ptr(map.name)) };
    path.to_bytes().iter().fold(0, |hash, &byte| mix(hash, byte as u64))
}

impl Object {
    fn is(&self, found: &FoundObject) -> bool {
        let (start, end) = (self.start.load(Relaxed), self.end.load(Relaxed));
        // See `loaded::whole`.
        let is_part = self.is_permanent.load(Relaxed) != 0;
        let has_it = is_part && start <= found.start && found.end <= end;
        (has_it || (start, end) == (found.start, found.end))
            && self.unwind_header.load(Relaxed) == found.unwind_header
            && self.link_map.load(Relaxed) == found.link_map as u64
            // Pairs with the release store in `fill`.
            && self.state.load(Acquire) & PHASE == READY
            && self.identity.load(Relaxed) == identity(self.identity_at.load(Relaxed), found)
    }

    /// Whether the object that is known here is still there, by the word that tells it from others; of what has none that is not known. The kernel
    /// copies the word, as it may be gone, and its answer holds good for less time than it takes to load another object.
    #[cold]
    fn is_unchanged(&self, generation: u32) -> bool {
        const ANSWER_CYCLES: u64 = 25_000;
        let now = counter::cycles();
        if now != 0 && now.wrapping_sub(self.asked_at_cycles.load(Relaxed)) < ANSWER_CYCLES {
            return true;
        }
        let place = self.identity_at.load(Relaxed) as usize;
        let mut word = [0; 8];
        let is_same_word = place != 0
            && permit::is_full()
            && sys::read_own_memory(sys::process_id(), &[[place, word.len()]], &mut word)
                == word.len()
            && u64::from_le_bytes(word) == self.identity.load(Relaxed);
        // As in `place`: what was asked about is of this generation.
        fence(Acquire);
        let is_it =
            is_same_word && self.state.load(Relaxed) == generation << GENERATION_SHIFT | READY;
        if is_it {
            self.asked_at_cycles.store(now, Relaxed);
        }
        is_it
    }

    /// The object of this generation is gone. The profile knows before its slot is free, so that whatever is met in its place counts
    /// from a later epoch.
    fn retire(&self, generation: u32, sink: &impl NewMapping) {
        let ready = generation << GENERATION_SHIFT | READY;
        let mapping = self.mapping.load(Relaxed);
        // As in `place`: the mapping is that of this generation.
        fence(Acquire);
        if self.state.load(Relaxed) == ready {
            sink.replaced(mapping, self.start.load(Relaxed));
            let gone = ready & !PHASE | GONE;
            let _ = self.state.compare_exchange(ready, gone, AcqRel, Relaxed);
        }
    }

    /// Retires it if its object was unloaded; takes it if it is retired.
    fn is_to_be_used_again(&self, sink: &impl NewMapping) -> bool {
        if let Some(place) = self.place().filter(|place| !place.is_permanent) {
            let found = loaded::object_at(place.start);
            if !found.is_some_and(|found| self.is(&found)) {
                self.retire(place.generation, sink);
            }
        }
        let state = self.state.load(Relaxed);
        state & PHASE == GONE
            && self.state.compare_exchange(state, state & !PHASE | TAKEN, Acquire, Relaxed).is_ok()
    }

    /// The facts, unless the slot is empty or changing.
    #[inline]
    fn place(&self) -> Option<Place> {
        // Pairs with the release store in `fill`.
        let state = self.state.load(Acquire);
        let place = Place {
            start: self.start.load(Relaxed),
            end: self.end.load(Relaxed),
            unwind_header: self.unwind_header.load(Relaxed),
            unwind_start: self.unwind_start.load(Relaxed),
            unwind_end: self.unwind_end.load(Relaxed),
            code_start: self.code_start.load(Relaxed),
            code_end: self.code_end.load(Relaxed),
            generation: state >> GENERATION_SHIFT,
            is_permanent: self.is_permanent.load(Relaxed) != 0,
        };
        // Pairs with the release fence in `fill`: whoever saw a field of the next object sees that the state has changed.
        fence(Acquire);
        (state & PHASE == READY && self.state.load(Relaxed) == state).then_some(place)
    }

    /// Puts an object into a slot that is ours alone.
    #[cold]
    fn fill(&self, found: &FoundObject, generation: u32, sink: &impl NewMapping) {
        fence(Release);
        let found = &loaded::whole(found);
        let header = Elf::at(found.start);
        let elf = header.as_ref();
        let tables = match elf {
            Some(elf) => elf.segment_around(found.unwind_header),
            None => super::elf::readable_from(found.unwind_header, found.end),
        }
        .unwrap_or_default();
        let code = elf.and_then(Elf::code).unwrap_or_default();
        let build_id = elf.and_then(Elf::build_id).unwrap_or_default();
        let identity_at = if build_id.len() >= 8 { build_id.as_ptr() as u64 } else { 0 };
        self.start.store(found.start, Relaxed);
        self.end.store(found.end, Relaxed);
        self.unwind_header.store(found.unwind_header, Relaxed);
        self.unwind_start.store(tables.0, Relaxed);
        self.unwind_end.store(tables.1, Relaxed);
        self.code_start.store(code.0, Relaxed);
        self.code_end.store(code.1, Relaxed);
        self.link_map.store(found.link_map as u64, Relaxed);
        self.identity_at.store(identity_at, Relaxed);
        self.identity.store(identity(identity_at, found), Relaxed);
        let is_from_start = startup::objects().any(|object| core::ptr::eq(object, found.link_map));
        self.is_permanent.store(is_from_start as u32, Relaxed);
        let mut id = [[0u8; 8]; 4];
        id.as_flattened_mut().iter_mut().zip(build_id).for_each(|(to, &byte)| *to = byte);
        self.build_id
            .iter()
            .zip(id)
            .for_each(|(to, word)| to.store(u64::from_le_bytes(word), Relaxed));
        self.build_id_bytes.store(build_id.len().min(32) as u32, Relaxed);
        self.mapping.store(self.add_to(sink), Relaxed);
        self.state.store(generation << GENERATION_SHIFT | READY, Release);
    }

    /// Writes the object, which is loaded, into a profile; its number there.
    fn add_to(&self, sink: &impl NewMapping) -> u32 {
        // SAFETY: the object is loaded, and its record with it. The loader's names are C strings.
        let (bias, path) = unsafe {
            let link_map = (self.link_map.load(Relaxed) as *const LinkMap).as_ref();
            link_map.map_or((0, c""), |map| (map.bias as u64, CStr::from_ptr(map.name)))
        };
        let build_id = self.build_id.each_ref().map(|word| word.load(Relaxed).to_le_bytes());
        let build_id_bytes = self.build_id_bytes.load(Relaxed) as usize;
        let facts = MappingFacts {
            start: self.start.load(Relaxed),
            end: self.end.load(Relaxed),
            bias,
            path: path.to_bytes(),
            build_id: build_id.as_flattened().get(..build_id_bytes).unwrap_or_default(),
        };
        sink.add(&facts)
    }
}
