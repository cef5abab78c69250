//! libramson.so in a process: where its words and functions are, and what they say.

use super::loader::{Loader, busy};
use super::object::{Object, text, words};
use crate::outside::{patiently, refused};
use ramson_format::control::{
    ACT_SYMBOL, CONTROL_SYMBOL, DIRECTORY_WORDS, LAYOUT, MOST_SLOTS, ORDER_WORDS, Orders, Request,
    SETTLE_SYMBOL, SLOT_WORDS, SLOTS_SYMBOL, offset, outcome, slot_state,
};
use ramson_process::ProcessMemory;
use ramson_source::{Failure, Target, gone};

const SONAME: &str = "libramson.so";
const SLOT_BYTES: u64 = 8 * SLOT_WORDS as u64;

/// It, in a process.
pub struct Guest {
    pid: u32,
    control: u64,
    slots: u64,
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
}

/// What the library says of itself.
#[derive(Clone, Copy, Debug)]
pub struct State {
    pub outcome: u64,
    /// It came into the running process.
    pub is_attached: bool,
    /// Slots that have hooks.
    pub patched: u64,
    /// The latest orders, if any were given.
    pub orders: Option<Orders>,
}

impl Guest {
    /// Finds it among the process's objects; `None` if it is not there.
    pub fn find(
        target: &Target,
        memory: &ProcessMemory,
        objects: &[Object],
    ) -> Result<Option<Self>, Failure> {
        let is_it = |object: &&Object| object.soname(memory).is_some_and(|name| name == SONAME);
        let Some(object) = objects.iter().find(is_it) else { return Ok(None) };
        let other = || {
            refused(
                target,
                "it has the libramson.so of another version of ramson",
                "Use that version, or restart it under this one with \"ramson run\"",
            )
        };
        let names = [CONTROL_SYMBOL, SLOTS_SYMBOL, ACT_SYMBOL, SETTLE_SYMBOL];
        let found = object.symbols(memory, &names).ok_or_else(other)?;
        let [Some(control), Some(slots), Some(act), Some(settle)] = found[..] else {
            return Err(other());
        };
        if words(memory, control) != Some([LAYOUT]) {
            return Err(other());
        }
        let pid = target.pid;
        Ok(Some(Self { pid, control, slots, act, settle, record: object.record }))
    }

    /// The one of a process, with the loader asked for its list.
    pub fn of(
        target: &Target,
        memory: &ProcessMemory,
        loader: &Loader,
    ) -> Result<(Option<Self>, Vec<Object>), Failure> {
        let objects = patiently(|| loader.objects(memory).ok_or(())).map_err(|()| busy(target))?;
        Ok((Self::find(target, memory, &objects)?, objects))
    }

    pub fn state(&self, target: &Target, memory: &ProcessMemory) -> Result<State, Failure> {
        let orders = words::<ORDER_WORDS>(memory, self.control + offset::ORDERS);
        let told = words::<3>(memory, self.control + offset::OUTCOME);
        let (Some(orders), Some([outcome, is_attached, patched])) = (orders, told) else {
            return Err(gone(target));
        };
        let orders = Orders::of_words(&orders);
        Ok(State { outcome, is_attached: is_attached != 0, patched, orders })
    }

    fn write(&self, target: &Target, at: u64, words: &[u64]) -> Result<(), Failure> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        ramson_inject::write(self.pid, at, &bytes)
            .map_err(|problem| crate::outside::failure(target, problem))
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

    /// The entries of the table, up to the last that is in use.
    pub fn slots(
        &self,
        target: &Target,
        memory: &ProcessMemory,
    ) -> Result<Vec<ListedSlot>, Failure> {
        const AT_ONCE: usize = 256;
        let mut found = Vec::new();
        for first in (0..MOST_SLOTS).step_by(AT_ONCE) {
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

impl ListedSlot {
    /// Whether it has our hook.
    pub fn is_patched(&self) -> bool {
        self.state == slot_state::PATCHED
    }
}

/// The name of the object of a record, for messages.
pub fn name_of(memory: &ProcessMemory, record: u64) -> Option<String> {
    let [_, name] = words(memory, record)?;
    text(memory, name)
}
