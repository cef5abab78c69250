//! Room for walks, so that they take little of the program's stack.

use crate::arch::Thread;
use crate::sys;
use core::cell::UnsafeCell;
use core::sync::atomic::{self, Ordering::*};
use ramson_format::atomic::AtomicU64;
use ramson_format::{LookupAddress, MAX_DEPTH};

/// Walks that have room in one block.
const BLOCK: usize = 64;
/// Walks of as many blocks may be under way at once; threads that lost the processor in a walk count.
const BLOCKS: usize = 16;
/// Bytes of a foreign stack that are copied for a walk.
const COPY_BYTES: usize = 32 << 10;

/// Room for one walk.
#[repr(C)]
pub struct Room {
    pub frames: [LookupAddress; MAX_DEPTH],
    pub copy: [u8; COPY_BYTES],
}

/// The owners first: they and the first room's frames share a page.
#[repr(C)]
pub struct Block {
    /// 0, or the thread that walks: the address of its state.
    owners: [AtomicU64; BLOCK],
    rooms: UnsafeCell<[Room; BLOCK]>,
}

// SAFETY: a room is its owner's alone.
unsafe impl Sync for Block {}

/// Room for all walks. All zero is the initial state.
#[repr(C)]
pub struct Scratches {
    first: Block,
    /// Address of each further block, 0 until the ones before it are taken.
    further: [atomic::AtomicU64; BLOCKS - 1],
}

/// A scratch that this thread has.
pub struct Scratch<'a> {
    owner: &'a AtomicU64,
    pub room: *mut Room,
}

impl Scratches {
    /// A free scratch, or one that this very thread never gave back: a thread walks once at a time, so it left that walk by
    /// siglongjmp, or was an earlier thread in the same place that was cancelled in it.
    #[inline]
    pub fn take(&self, thread: &Thread) -> Option<Scratch<'_>> {
        let last = thread.scratch.get() as usize;
        let again = self.block(last / BLOCK).and_then(|block| block.take_one(thread, last % BLOCK));
        again.or_else(|| self.find(thread, last))
    }

    #[cold]
    #[inline(never)]
    fn find(&self, thread: &Thread, last: usize) -> Option<Scratch<'_>> {
        let first_block = last / BLOCK;
        (0..BLOCKS).find_map(|step| {
            let number = (first_block + step) % BLOCKS;
            self.block(number)?.take(thread, number, last % BLOCK)
        })
    }

    /// Returns the owners of every block.
    #[cfg(test)]
    pub fn owners(&self) -> impl Iterator<Item = &AtomicU64> {
        (0..BLOCKS).flat_map(|number| &self.block(number).unwrap().owners)
    }

    /// The block of this number; made if there is none. `None`: there is no memory for it.
    #[inline]
    fn block(&self, number: usize) -> Option<&Block> {
        let Some(place) = number.checked_sub(1).and_then(|further| self.further.get(further))
        else {
            return Some(&self.first);
        };
        let present = place.load(Acquire);
        let address = if present != 0 { present } else { make_block(place)? };
        // SAFETY: a block that is never given back.
        Some(unsafe { &*(address as *const Block) })
    }
}

#[cold]
fn make_block(place: &atomic::AtomicU64) -> Option<u64> {
    let memory = sys::map_own(size_of::<Block>()).ok()?;
    match place.compare_exchange(0, memory as u64, AcqRel, Acquire) {
        Ok(_) => Some(memory as u64),
        Err(other) => {
            sys::unmap(memory, size_of::<Block>());
            Some(other)
        }
    }
}

impl Block {
    fn take(&self, thread: &Thread, number: usize, last: usize) -> Option<Scratch<'_>> {
        (0..BLOCK).map(|step| (last + step) % BLOCK).find_map(|index| {
            let taken = self.take_one(thread, index)?;
            thread.scratch.set((number * BLOCK + index) as u32);
            Some(taken)
        })
    }

    #[inline]
    fn take_one(&self, thread: &Thread, index: usize) -> Option<Scratch<'_>> {
        let own = core::ptr::from_ref(thread) as u64;
        let owner = self.owners.get(index)?;
        let now = owner.load(Relaxed);
        // Acquire pairs with the release in `give_back`.
        let is_ours =
            now == own || now == 0 && owner.compare_exchange(0, own, Acquire, Relaxed).is_ok();
        let room = self.rooms.get().cast::<Room>().wrapping_add(index);
        is_ours.then_some(Scratch { owner, room })
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

    const MOST: usize = BLOCK * BLOCKS;

    fn scratches() -> Box<Scratches> {
        // SAFETY: integers; all zero is the initial state.
        unsafe { Box::<Scratches>::new_zeroed().assume_init() }
    }

    #[test]
    fn thread_takes_one_scratch() {
        let scratches = scratches();
        // SAFETY: as above.
        let threads: [Thread; 2] = unsafe { core::mem::zeroed() };
        for _ in 0..3 * MOST {
            assert!(threads.iter().all(|thread| scratches.take(thread).is_some()));
        }
        let is_taken = |owner: &&AtomicU64| owner.load(Relaxed) != 0;
        assert_eq!(scratches.owners().filter(is_taken).count(), 2);
    }

    #[test]
    fn threads_have_scratches_of_their_own() {
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
