//! The locks of the arenas: all that `malloc_trim` takes, one after the other.

use super::find::LibraryData;
use super::layout::arena;
use crate::memory::Memory;
use std::time::{Duration, Instant};

/// Between two looks at a lock.
const PAUSE: Duration = Duration::from_micros(100);

impl LibraryData {
    /// Whether each lock is seen free once within `limit`: then a thread that is stopped meanwhile has none. The thread of one that is
    /// never seen free may be no more.
    pub fn are_locks_seen_free(&self, memory: &impl Memory, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut held: Option<Vec<u64>> = None;
        loop {
            // A chain that is read while it grows may be inconsistent.
            held = held.or_else(|| {
                let arenas = self.arenas(memory).ok()?;
                Some(arenas.iter().map(|state| state.address + arena::MUTEX as u64).collect())
            });
            if let Some(held) = &mut held {
                held.retain(|&address| {
                    let mut word = [0; 4];
                    !memory.read(address, &mut word) || word != [0; 4]
                });
            }
            let are_seen_free = held.as_ref().is_some_and(Vec::is_empty);
            if are_seen_free || Instant::now() > deadline {
                return are_seen_free;
            }
            std::thread::sleep(PAUSE);
        }
    }
}
