//! The locks of the arenas: all that `malloc_trim` takes, one after the other.

use super::find::LibraryData;
use super::layout::arena;
use crate::areas::Area;
use crate::memory::Memory;
use std::time::{Duration, Instant};

/// Between two looks at a lock.
const PAUSE: Duration = Duration::from_micros(100);

/// Where the arenas' locks are.
pub struct Locks(LibraryData);

impl Locks {
    /// `library` and `version` as `read` takes them.
    pub fn find(
        memory: &impl Memory,
        library: &[&Area],
        version: (u32, u32),
    ) -> Result<Self, String> {
        LibraryData::read(memory, library, version).map(Self)
    }

    /// Whether each lock is seen free once within `limit`.
    ///
    /// A thread that is stopped keeps the locks it has: once each has been seen free meanwhile, that thread has none. A lock that is never
    /// seen free may be one whose thread is no more.
    pub fn are_seen_free(&self, memory: &impl Memory, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut held: Option<Vec<u64>> = None;
        loop {
            // A chain that is read while it grows may be inconsistent.
            held = held.or_else(|| {
                let arenas = self.0.arenas(memory).ok()?;
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
