//! libramson.so in a process: where its words and functions are, and what they say.

use super::bounded::{Allowance, Bounded};
use super::library::LINK;
use super::loader::{Loader, too_large, without_objects};
use super::object::{Object, text, words};
use crate::outside::{patiently, refused};
use ramson_format::control::{
    ACT_SYMBOL, CONTROL_SYMBOL, DIRECTORY_WORDS, LAYOUT, MOST_LISTED, MOST_PLACES, MOST_SLOTS,
    ORDER_WORDS, Orders, PLACE_WORDS, PLACES_SYMBOL, Request, SETTLE_SYMBOL, SLOT_WORDS,
    SLOTS_SYMBOL, offset, outcome, slot_state,
};
use ramson_inject::{Patch, Process};
use ramson_process::{Area, Memory, ProcessMemory};
use ramson_source::{Failure, Target, gone};
use std::ops::Range;
use std::sync::Arc;

const SONAME: &str = "libramson.so";
/// Start of the path by which the library is loaded.
pub const LOADED_BY: &str = "/proc/self/fd/";
const SLOT_BYTES: u64 = 8 * SLOT_WORDS as u64;
const PLACE_BYTES: u64 = 8 * PLACE_WORDS as u64;

/// It, in a process.
pub struct Guest {
    process: Arc<Process>,
    control: u64,
    slots: u64,
    places: u64,
    pub act: u64,
    pub settle: u64,
    /// Its record in the loader's list.
    pub record: u64,
}

/// An entry of the table of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedSlot {
    pub object: u64,
    pub dynamic: u64,
    pub address: u64,
    pub before: u64,
    pub hook: u64,
    pub flags: u64,
    pub state: u64,
}

impl ListedSlot {
    fn words(&self) -> [u64; SLOT_WORDS] {
        [self.object, self.dynamic, self.address, self.before, self.hook, self.flags, self.state]
    }

    fn of(words: [u64; SLOT_WORDS]) -> Self {
        let [object, dynamic, address, before, hook, flags, state] = words;
        Self { object, dynamic, address, before, hook, flags, state }
    }

    /// Whether it has our hook.
    pub fn is_patched(&self) -> bool {
        self.state == slot_state::PATCHED
    }

    /// Whether calls through it are counted, here or in the function.
    pub fn is_seen(&self) -> bool {
        self.is_patched() || self.state == slot_state::INSIDE
    }
}

/// An entry of the table of places in code.
#[derive(Clone, Copy, Debug)]
pub struct ListedPlace {
    pub address: u64,
    bytes: usize,
    pub before: u64,
    pub after: u64,
    end: u64,
    pub family: u64,
    pub state: u64,
    /// Address of the state.
    pub state_at: u64,
}

impl ListedPlace {
    /// Whether the place has these bytes at present.
    pub fn is_now(&self, memory: &impl Memory, bytes: u64) -> bool {
        let mut found = [0; 8];
        let found = &mut found[..self.bytes];
        memory.read(self.address, found) && *found == bytes.to_le_bytes()[..self.bytes]
    }

    /// Returns a patch of the place, without what is to be written.
    pub fn patch(&self) -> Patch {
        let Self { address, bytes, end, .. } = *self;
        Patch { address, bytes, end, before: [0; 8], after: [0; 8], group: 0, note: (0, 0) }
    }
}

/// State of the library, as the library tells it.
#[derive(Clone, Copy, Debug)]
pub struct State {
    pub outcome: u64,
    /// It came into the running process.
    pub is_attached: bool,
    /// Slots that have hooks.
    pub patched: u64,
    /// It will notice objects that are loaded later.
    pub follows: bool,
    /// The latest orders, if any were given.
    pub orders: Option<Orders>,
}

impl Guest {
    /// Finds it among the process's objects; `None` if it is not there.
    fn find(
        target: &Target,
        process: &Arc<Process>,
        memory: &Bounded,
        objects: &[Object],
    ) -> Result<Option<Self>, Failure> {
        let is_it = |object: &&Object| object.soname(memory).is_some_and(|name| name == SONAME);
        let Some(object) = objects.iter().find(is_it) else { return Ok(None) };
        let other = || {
            refused(
                target,
                "it has loaded another version of libramson.so",
                "Use the ramson of that version, or restart the program under this one with \"ramson run\"",
            )
        };
        let names = [CONTROL_SYMBOL, SLOTS_SYMBOL, PLACES_SYMBOL, ACT_SYMBOL, SETTLE_SYMBOL];
        let found = object.symbols(memory, &names).ok_or_else(other)?;
        let [Some(control), Some(slots), Some(places), Some(act), Some(settle)] = found[..] else {
            return Err(other());
        };
        if words(memory, control) != Some([LAYOUT]) {
            return Err(other());
        }
        let process = process.clone();
        Ok(Some(Self { process, control, slots, places, act, settle, record: object.record }))
    }

    /// The one of a process, with the loader asked for its list.
    pub fn of(
        target: &Target,
        process: &Arc<Process>,
        memory: &ProcessMemory,
        allowance: &Allowance,
        loader: &Loader,
    ) -> Result<(Option<Self>, Vec<Object>), Failure> {
        let memory = Bounded::new(memory, allowance);
        let objects = patiently(|| loader.objects(&memory));
        let found = objects.map_err(|doubt| without_objects(target, doubt)).and_then(|objects| {
            let guest = Self::find(target, process, &memory, &objects)?;
            Ok((guest, objects))
        });
        if memory.is_used_up() { Err(too_large(target)) } else { found }
    }

    pub fn state(&self, target: &Target, memory: &ProcessMemory) -> Result<State, Failure> {
        let orders = words::<ORDER_WORDS>(memory, self.control + offset::ORDERS);
        let told = words::<4>(memory, self.control + offset::OUTCOME);
        let (Some(orders), Some([outcome, is_attached, patched, follows])) = (orders, told) else {
            return Err(gone(target));
        };
        let orders = Orders::of_words(&orders);
        Ok(State { outcome, is_attached: is_attached != 0, patched, follows: follows != 0, orders })
    }

    fn write(&self, target: &Target, at: u64, words: &[u64]) -> Result<(), Failure> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.process.write(at, &bytes).map_err(|problem| crate::outside::failure(target, problem))
    }

    /// Whether it is mapped from a file in memory: a ramson brought it into the running process. The kernel says so.
    pub fn was_brought(&self, areas: &[Area]) -> bool {
        areas.iter().any(|area| area.contains(self.act) && area.path.starts_with(LINK))
    }

    // Hazard, never seen: a crash reporter takes the name /proc/self/fd/N from the loader before it is changed here, and reads that file later.
    // Another file may have that number by then.
    /// The loader knows it by the name that it was loaded by, under which a debugger, or the loader itself at a later dlopen, would find another
    /// file, of their own. It is given one that leads nowhere.
    pub fn rename(&self, target: &Target, memory: &ProcessMemory) -> Result<(), Failure> {
        for at in names_of(memory, self.record) {
            let is_left = text(memory, at).is_some_and(|name| name.starts_with(LOADED_BY));
            if is_left {
                let name = [SONAME.as_bytes(), b"\0"].concat();
                self.process
                    .write(at, &name)
                    .map_err(|problem| crate::outside::failure(target, problem))?;
            }
        }
        Ok(())
    }

    /// From now on the library samples as `orders` say.
    pub fn order(&self, target: &Target, orders: &Orders) -> Result<(), Failure> {
        self.write(target, self.control + offset::ORDERS, &orders.words())
    }

    /// Puts down what `act` is to do.
    pub fn request(
        &self,
        target: &Target,
        request: &Request,
        directory: &[u8],
    ) -> Result<(), Failure> {
        let mut path = [[0u8; 8]; DIRECTORY_WORDS];
        let room = path.as_flattened_mut();
        // The last byte stays 0.
        let length = directory.len().min(room.len() - 1);
        room[..length].copy_from_slice(&directory[..length]);
        let path = path.map(u64::from_le_bytes);
        let all = [&request.words(&path)[..], &path[..]].concat();
        self.write(target, self.control + offset::REQUEST, &all)
    }

    /// Whether the request of this number was done.
    pub fn is_done(state: &State, number: u64) -> bool {
        state.outcome == number << 8 | outcome::DONE
    }

    /// The entries of the table that were listed from outside, up to the last that is in use.
    pub fn slots(
        &self,
        target: &Target,
        memory: &ProcessMemory,
    ) -> Result<Vec<ListedSlot>, Failure> {
        self.entries(target, memory, 0..MOST_LISTED)
    }

    /// Those of objects that came later, which the library has listed.
    pub fn later_slots(
        &self,
        target: &Target,
        memory: &ProcessMemory,
    ) -> Result<Vec<ListedSlot>, Failure> {
        self.entries(target, memory, MOST_LISTED..MOST_SLOTS)
    }

    /// The entries of the table of places in code.
    pub fn places(
        &self,
        target: &Target,
        memory: &ProcessMemory,
    ) -> Result<Vec<ListedPlace>, Failure> {
        const AT_ONCE: usize = 64;
        let mut found = Vec::new();
        for first in (0..MOST_PLACES).step_by(AT_ONCE) {
            let start = self.places + first as u64 * PLACE_BYTES;
            let piece: [u64; AT_ONCE * PLACE_WORDS] =
                words(memory, start).ok_or_else(|| gone(target))?;
            for (words, number) in piece.as_chunks::<PLACE_WORDS>().0.iter().zip(0..) {
                let [address, bytes, before, after, end, family, state] = *words;
                if address == 0 {
                    return Ok(found);
                }
                let bytes = bytes.min(8) as usize;
                let state_at = start + number * PLACE_BYTES + PLACE_BYTES - 8;
                let place =
                    ListedPlace { address, bytes, before, after, end, family, state, state_at };
                found.push(place);
            }
        }
        Ok(found)
    }

    fn entries(
        &self,
        target: &Target,
        memory: &ProcessMemory,
        range: Range<usize>,
    ) -> Result<Vec<ListedSlot>, Failure> {
        const AT_ONCE: usize = 256;
        let mut found = Vec::new();
        for first in range.step_by(AT_ONCE) {
            let at = self.slots + first as u64 * SLOT_BYTES;
            let piece: [u64; AT_ONCE * SLOT_WORDS] =
                words(memory, at).ok_or_else(|| gone(target))?;
            let piece =
                piece.as_chunks::<SLOT_WORDS>().0.iter().map(|words| ListedSlot::of(*words));
            found.extend(piece);
            if found.last().is_none_or(|slot| slot.address == 0) {
                break;
            }
        }
        let used = found.iter().rposition(|slot| slot.address != 0).map_or(0, |last| last + 1);
        found.truncate(used);
        Ok(found)
    }

    /// Writes entries of the table, from `first` on.
    pub fn list(&self, target: &Target, first: usize, slots: &[ListedSlot]) -> Result<(), Failure> {
        let words: Vec<u64> = slots.iter().flat_map(ListedSlot::words).collect();
        self.write(target, self.slots + first as u64 * SLOT_BYTES, &words)
    }
}

/// Returns the addresses of an object's names, which the loader keeps in the object's record and in a list of those that the object was looked for by
/// (`l_name` and `l_libname` of `struct link_map`, glibc 2.17 to 2.44).
fn names_of(memory: &impl Memory, record: u64) -> Vec<u64> {
    const MOST_NAMES: usize = 8;
    const REAL: usize = 5;
    const OTHERS: usize = 7;
    let Some(fields) = words::<8>(memory, record) else { return Vec::new() };
    let mut names = vec![fields[1]];
    // A pointer to the record itself tells that the fields behind the public part are the known ones.
    let mut next = if fields[REAL] == record { fields[OTHERS] } else { 0 };
    while let (true, Some([name, behind])) = (names.len() < MOST_NAMES, words(memory, next)) {
        names.push(name);
        next = behind;
    }
    names
}

/// The name of the object of a record, for messages.
pub fn name_of(memory: &ProcessMemory, record: u64) -> Option<String> {
    let [_, name] = words(memory, record)?;
    text(memory, name)
}
