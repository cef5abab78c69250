//! The loader of a process, glibc's: its list of objects, and whether it is at work.

use super::object::{Object, words};
use crate::outside::{NOTHING, library, refused};
use ramson_inject::Library;
use ramson_process::identify::base_name;
use ramson_process::{Area, Memory, ProcessMemory};
use ramson_source::{Failure, Target};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// More than any process has.
const MOST_OBJECTS: usize = 1 << 13;
/// `struct r_debug` (link.h).
const MAP_OFFSET: u64 = 8;
const STATE_OFFSET: u64 = 24;
/// Offset of the number of objects in a namespace.
const COUNT_OFFSET: u64 = 8;
/// `pthread_mutex_t` on x86-64, and where its kind is.
const MUTEX_BYTES: usize = 40;
const KIND_OFFSET: usize = 16;
const RECURSIVE: u8 = 1;
/// The first is held while a library is loaded or unloaded, the second while the list changes; since 2.35 there is one for thread-local
/// storage behind them.
const LEAST_LOCKS: usize = 2;
const MOST_LOCKS: usize = 3;
const PAUSE: Duration = Duration::from_micros(50);

/// It.
pub struct Loader {
    debug: u64,
    /// Its record of the namespace that a program starts in (`struct link_namespaces`, glibc 2.17 to 2.44): the first object, and how many there are.
    namespace: u64,
    locks: Vec<u64>,
    /// Behind them is how many objects it has ever loaded.
    pub count_at: u64,
}

impl Loader {
    pub fn find(target: &Target, areas: &[Area]) -> Result<Self, Failure> {
        let unknown = || refused(target, "ramson does not know its loader", RESTART);
        let (area, binary) = library(target, areas, is_loader).ok_or_else(unknown)?;
        let loader = Library::new(&binary, area.start, area.offset).ok_or_else(unknown)?;
        // In memory that is zeroed at the start.
        let (debug, _) = loader.variable("_r_debug").ok_or_else(unknown)?;
        let (start, data) = loader.variable("_rtld_global").ok_or_else(unknown)?;
        let offsets = locks_in(data);
        if !(LEAST_LOCKS..=MOST_LOCKS).contains(&offsets.len()) {
            return Err(unknown());
        }
        let locks: Vec<u64> = offsets.iter().map(|offset| start + *offset as u64).collect();
        let count_at = locks.last().map_or(0, |last| last + MUTEX_BYTES as u64);
        Ok(Self { debug, namespace: start, locks, count_at })
    }

    /// Returns the address of the lock that is held while an object is loaded or unloaded.
    pub fn lock(&self) -> u64 {
        self.locks[0]
    }

    /// Its list.
    pub fn objects(&self, memory: &impl Memory) -> Result<Vec<Object>, Doubt> {
        let before = self.changes(memory).ok_or(Doubt::Changes)?;
        let objects = self.own_objects(memory);
        let is_unchanged = self.changes(memory) == Some(before) && before[0] as u32 == 0;
        is_unchanged.then_some(()).ok_or(Doubt::Changes)?;
        objects.ok_or(Doubt::IsForeign)
    }

    /// Whether the list changes at present, and how many objects there ever were and are.
    pub fn changes(&self, memory: &impl Memory) -> Option<[u64; 3]> {
        let word = |at| Some(words::<1>(memory, at)?[0]);
        let is_changing = word(self.debug + STATE_OFFSET)?;
        Some([is_changing, word(self.count_at)?, word(self.namespace + COUNT_OFFSET)?])
    }

    /// The objects, if all are the loader's own: it follows the list itself when a library is loaded, and a program that has put others
    /// there might not survive that.
    fn own_objects(&self, memory: &impl Memory) -> Option<Vec<Object>> {
        let [first, count] = words(memory, self.namespace)?;
        let count = count as u32 as usize;
        if words(memory, self.debug + MAP_OFFSET) != Some([first]) || count > MOST_OBJECTS {
            return None;
        }
        let mut objects = Vec::new();
        let mut at = first;
        let mut before = 0;
        while at != 0 && objects.len() < count {
            let [_, _, _, next, previous, own, namespace] = words(memory, at)?;
            if (previous, own, namespace) != (before, at, 0) {
                return None;
            }
            objects.push(Object::read(memory, at)?);
            before = at;
            at = next;
        }
        (at == 0 && objects.len() == count && count > 0).then_some(objects)
    }

    /// Whether each of its locks is seen free once within `limit`: a thread that is stopped meanwhile then has none, and what was in its list
    /// before has been loaded completely.
    pub fn is_seen_free(&self, memory: &ProcessMemory, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut held = self.locks.clone();
        loop {
            // The word, and how often its holder has it: without threads the loader counts only.
            let mut heads = memory.heads(&held).into_iter();
            held.retain(|_| heads.next().flatten().is_none_or(|[word, ..]| word != 0));
            if held.is_empty() || Instant::now() > deadline {
                return held.is_empty();
            }
            sleep(PAUSE);
        }
    }
}

/// Why the list cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Objects are being loaded or unloaded.
    Changes,
    /// It has entries that are not the loader's, or leads elsewhere.
    IsForeign,
}

/// Next step for the user if the command does not work on the running process.
pub const RESTART: &str = "Restart it under \"ramson run\"";

/// Whether a file is glibc's loader, by its name.
pub fn is_loader(area: &Area) -> bool {
    let name = base_name(&area.path);
    name == "ld-linux-x86-64.so.2" || name.starts_with("ld-2.") && name.ends_with(".so")
}

/// Offsets of the first mutexes that follow each other, as they are before the program starts: recursive, and free.
fn locks_in(data: &[u8]) -> Vec<usize> {
    let is_lock = |at: usize| {
        let mutex = data.get(at..at + MUTEX_BYTES);
        mutex.is_some_and(|mutex| {
            mutex
                .iter()
                .enumerate()
                .all(|(place, &byte)| byte == if place == KIND_OFFSET { RECURSIVE } else { 0 })
        })
    };
    let is_pair = |at: &usize| is_lock(*at) && is_lock(at + MUTEX_BYTES);
    let Some(first) = (0..data.len()).step_by(8).find(is_pair) else { return Vec::new() };
    (first..).step_by(MUTEX_BYTES).take_while(|&at| is_lock(at)).take(MOST_LOCKS + 1).collect()
}

/// Returns the failure for a process whose list changes all the time while it is looked at.
pub fn busy(target: &Target) -> Failure {
    refused(target, "it keeps loading libraries", NOTHING)
}

/// Returns the failure for a process whose list of objects cannot be read.
pub fn without_objects(target: &Target, doubt: Doubt) -> Failure {
    match doubt {
        Doubt::Changes => busy(target),
        Doubt::IsForeign => {
            refused(target, "the program has changed its loader's list of loaded objects", RESTART)
        }
    }
}

/// Returns the failure for a process with objects that no program has.
pub fn too_large(target: &Target) -> Failure {
    refused(target, "its symbol tables are too large to be a real program's", NOTHING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_locks_are_found() {
        let mut data = vec![0xa5; 400];
        // One alone is something else.
        for at in [40, 200, 240, 280] {
            data[at..at + MUTEX_BYTES].fill(0);
            data[at + KIND_OFFSET] = RECURSIVE;
        }
        assert_eq!(locks_in(&data), [200, 240, 280]);
        assert!(locks_in(&data[..239]).is_empty());
    }
}
