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
        Ok(Self { debug, locks, count_at })
    }

    /// What is held while an object is loaded or unloaded.
    pub fn lock(&self) -> u64 {
        self.locks[0]
    }

    /// Its list; `None` while that changes.
    pub fn objects(&self, memory: &impl Memory) -> Option<Vec<Object>> {
        let [first] = words(memory, self.debug + MAP_OFFSET)?;
        let (mut objects, mut at) = (Vec::new(), first);
        while at != 0 && objects.len() < MOST_OBJECTS {
            let (object, next) = Object::read(memory, at)?;
            objects.push(object);
            at = next;
        }
        let is_consistent = || Some(words::<1>(memory, self.debug + STATE_OFFSET)?[0] as u32 == 0);
        (is_consistent()? && !objects.is_empty()).then_some(objects)
    }

    /// Whether each of its locks is seen free once within `limit`: a thread that is stopped meanwhile then has none, and what was in its list
    /// before has been loaded completely.
    pub fn is_seen_free(&self, memory: &ProcessMemory, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut held = self.locks.clone();
        loop {
            // The word, and how often its holder has it: without threads the loader counts only.
            held.retain(|&lock| words::<1>(memory, lock) != Some([0]));
            if held.is_empty() || Instant::now() > deadline {
                return held.is_empty();
            }
            sleep(PAUSE);
        }
    }
}

/// What works where this does not.
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

/// What a process that is being looked at says when its list changes all the time.
pub fn busy(target: &Target) -> Failure {
    refused(target, "it keeps loading libraries", NOTHING)
}

/// What it says of objects that no program has.
pub fn too_large(target: &Target) -> Failure {
    refused(target, "its symbol tables are larger than any program's", NOTHING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locks_are_found_by_what_they_are_before_the_program_starts() {
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
