//! Room for walks, so that they take little of the program's stack.

use crate::arch::Thread;
use core::sync::atomic::Ordering::*;
use ramson_format::atomic::AtomicU64;
use ramson_format::{LookupAddress, MAX_DEPTH};

/// Walks that may be under way at once; each holds one scratch.
pub const SCRATCHES: usize = 64;
/// Bytes of a foreign stack that are copied for a walk.
const COPY_BYTES: usize = 32 << 10;

/// Room for one walk.
pub struct Scratch {
    /// 0, or the thread that walks: the address of its state.
    pub owner: AtomicU64,
    pub frames: [LookupAddress; MAX_DEPTH],
    pub copy: [u8; COPY_BYTES],
}

/// A free scratch, or one that this very thread never gave back: a thread walks once at a time, so it left that walk by
/// siglongjmp, or was an earlier thread in the same place that was cancelled in it.
pub fn take<'a>(scratches: &'a [Scratch; SCRATCHES], thread: &Thread) -> Option<&'a Scratch> {
    let own = core::ptr::from_ref(thread) as u64;
    let last = thread.scratch.get();
    (0..SCRATCHES as u32).find_map(|step| {
        let index = (last + step) % SCRATCHES as u32;
        let scratch = scratches.get(index as usize)?;
        let owner = scratch.owner.load(Relaxed);
        // Acquire pairs with the release in `give_back`.
        let is_ours = owner == own
            || owner == 0 && scratch.owner.compare_exchange(0, own, Acquire, Relaxed).is_ok();
        is_ours.then(|| {
            thread.scratch.set(index);
            scratch
        })
    })
}

impl Scratch {
    pub fn give_back(&self) {
        self.owner.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_never_gives_back_takes_one_scratch_of_all() {
        // SAFETY: integers; all zero is the initial state.
        let scratches = unsafe { Box::<[Scratch; SCRATCHES]>::new_zeroed().assume_init() };
        // SAFETY: as above.
        let threads: [Thread; 2] = unsafe { core::mem::zeroed() };
        for _ in 0..3 * SCRATCHES {
            assert!(threads.iter().all(|thread| take(&scratches, thread).is_some()));
        }
        let taken = scratches.iter().filter(|scratch| scratch.owner.load(Relaxed) != 0).count();
        assert_eq!(taken, 2);
    }
}
