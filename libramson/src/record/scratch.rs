//! Room for walks, so that they take little of the program's stack.

use crate::arch::Thread;
use crate::sys;
use core::cell::UnsafeCell;
use core::sync::atomic::{self, Ordering::*};
use ramson_format::atomic::AtomicU64;
use ramson_format::{LookupAddress, MAX_DEPTH};

/// Walks for which there is room from the start; more room is made in blocks of as many.
pub const BLOCK: usize = 64;
const BLOCKS: usize = 16;
/// Walks that may be under way at once; each holds one scratch. Threads that lost the processor in a walk hold theirs.
pub const MOST: usize = BLOCK * BLOCKS;
/// Bytes of a foreign stack that are copied for a walk.
const COPY_BYTES: usize = 32 << 10;

/// Room for one walk.
pub struct Room {
    pub frames: [LookupAddress; MAX_DEPTH],
    pub copy: [u8; COPY_BYTES],
}

/// Room for all walks. All zero is the initial state.
pub struct Scratches {
    /// 0, or the thread that walks: the address of its state.
    pub owners: [AtomicU64; MOST],
    first: UnsafeCell<[Room; BLOCK]>,
    /// Address of each further block, 0 while there is none.
    further: [atomic::AtomicU64; BLOCKS - 1],
}

// SAFETY: a room is its owner's alone.
unsafe impl Sync for Scratches {}

/// A scratch that this thread has.
pub struct Scratch<'a> {
    owner: &'a AtomicU64,
    pub room: *mut Room,
}

impl Scratches {
    /// A free scratch, or one that this very thread never gave back: a thread walks once at a time, so it left that walk by
    /// siglongjmp, or was an earlier thread in the same place that was cancelled in it.
    pub fn take(&self, thread: &Thread) -> Option<Scratch<'_>> {
        let own = core::ptr::from_ref(thread) as u64;
        let last = thread.scratch.get() as usize;
        for step in 0..MOST {
            let index = (last + step) % MOST;
            let owner = &self.owners[index];
            let now = owner.load(Relaxed);
            // Acquire pairs with the release in `give_back`.
            let is_ours =
                now == own || now == 0 && owner.compare_exchange(0, own, Acquire, Relaxed).is_ok();
            if is_ours {
                let Some(room) = self.room(index) else {
                    owner.store(0, Release);
                    return None;
                };
                thread.scratch.set(index as u32);
                return Some(Scratch { owner, room });
            }
        }
        None
    }

    /// The room of this number; makes its block if there is none.
    fn room(&self, index: usize) -> Option<*mut Room> {
        let block = match index / BLOCK {
            0 => self.first.get().cast::<Room>(),
            further => self.block(&self.further[further - 1])?,
        };
        Some(block.wrapping_add(index % BLOCK))
    }

    fn block(&self, place: &atomic::AtomicU64) -> Option<*mut Room> {
        let present = place.load(Acquire);
        if present != 0 {
            return Some(present as *mut Room);
        }
        const BYTES: usize = BLOCK * size_of::<Room>();
        let memory = sys::map_own(BYTES).ok()?;
        match place.compare_exchange(0, memory as u64, AcqRel, Acquire) {
            Ok(_) => Some(memory.cast()),
            Err(other) => {
                sys::unmap(memory, BYTES);
                Some(other as *mut Room)
            }
        }
    }
}

impl Scratch<'_> {
    pub fn give_back(&self) {
        self.owner.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SAFETY: integers; all zero is the initial state.
    fn scratches() -> Box<Scratches> {
        unsafe { Box::<Scratches>::new_zeroed().assume_init() }
    }

    #[test]
    fn a_thread_that_never_gives_back_takes_one_scratch_of_all() {
        let scratches = scratches();
        // SAFETY: as above.
        let threads: [Thread; 2] = unsafe { core::mem::zeroed() };
        for _ in 0..3 * MOST {
            assert!(threads.iter().all(|thread| scratches.take(thread).is_some()));
        }
        let is_taken = |owner: &&AtomicU64| owner.load(Relaxed) != 0;
        assert_eq!(scratches.owners.iter().filter(is_taken).count(), 2);
    }

    #[test]
    fn as_many_threads_as_there_are_scratches_have_room_of_their_own() {
        let scratches = scratches();
        // SAFETY: as above.
        let threads: Box<[Thread; MOST + 1]> = unsafe { Box::new_zeroed().assume_init() };
        let taken: Vec<_> = threads.iter().map_while(|thread| scratches.take(thread)).collect();
        assert_eq!(taken.len(), MOST);
        for (number, scratch) in taken.iter().enumerate() {
            // SAFETY: the room is ours.
            unsafe { (*scratch.room).copy.fill(number as u8) };
        }
        for (number, scratch) in taken.iter().enumerate() {
            // SAFETY: as above.
            assert!(unsafe { &(*scratch.room).copy }.iter().all(|&byte| byte == number as u8));
        }
        taken[7].give_back();
        assert!(scratches.take(&threads[MOST]).is_some());
    }
}
