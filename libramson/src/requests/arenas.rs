//! The locks of glibc's arenas: all that `malloc_trim` takes, one after the other.
//!
//! Each one that is seen free while this thread does nothing else is one that this thread does not hold, and that no thread has
//! left behind. Arenas are found by their own consistency: no address comes from anywhere else, and no version is believed.

use crate::sys;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use ramson_format::Reason;

/// Offsets in `struct malloc_state` (malloc/malloc.c): the same from glibc 2.27 to 2.41.
const MUTEX: u64 = 0;
const TOP: u64 = 0x60;
const BINS: u64 = 0x70;
const NEXT: u64 = 0x870;
const BYTES: u64 = 0x898;
/// Bin 0 does not exist.
const BIN_COUNT: u64 = 127;
/// Offset of the pointer to the chunk before in the list, in a free chunk.
const BACKWARD: u64 = 24;
/// So many bins at least must be lists that lead back to themselves; threads may change some meanwhile.
const LEAST_WHOLE_BINS: usize = 32;
/// An arena lies behind `struct _heap_info`, at the start of memory so aligned at least, whose first word refers to it
/// (malloc/arena.c).
const HEAP_ALIGNMENT: u64 = 8 << 20;
const MOST_HEADER_BYTES: u64 = 128;
/// Arenas that are looked at; by default there are 8 a processor.
const MOST_ARENAS: usize = 8192;
/// Looks at a lock that is held. A thread has one for a fraction of a microsecond, unless it was interrupted.
const MOST_LOOKS: usize = 1000;

/// The arenas of this process.
pub struct Arenas {
    main: u64,
    pid: u32,
}

impl Arenas {
    /// The one thing in the C library's data that is consistent as the main arena.
    pub fn find(data: (u64, u64), pid: u32) -> Option<Self> {
        let last = data.1.checked_sub(BYTES)?;
        let mut candidates = (data.0.next_multiple_of(8)..=last).step_by(8).filter(|&address| {
            // SAFETY: `address` is at most BYTES before the end of the C library's initialised data, which is never unmapped, and `offset` is
            // below BYTES. Volatile: other threads write there, and any value will do. A member beyond BYTES would break it.
            let word = |offset: u64| unsafe { ((address + offset) as *const u64).read_volatile() };
            let mut ends = (BINS..).step_by(8).take(2 * BIN_COUNT as usize);
            is_pointer(word(NEXT))
                && is_pointer(word(TOP))
                && ends.all(|offset| is_pointer(word(offset)))
                && has_whole_bins(address, &word, pid)
        });
        let main = candidates.next()?;
        candidates.next().is_none().then_some(Self { main, pid })
    }

    /// Whether each lock is seen free once, without waiting.
    pub fn are_seen_free(&self) -> Result<(), Reason> {
        let mut arena = self.main;
        for _ in 0..MOST_ARENAS {
            // SAFETY: `find` or `next` saw an arena there, whose first word is its lock; the kernel could read all of it, and the C library never
            // frees one. A C library whose arenas are laid out otherwise would break it: those are refused before.
            let mutex = unsafe { AtomicU32::from_ptr((arena + MUTEX) as *mut u32) };
            if !(0..MOST_LOOKS).any(|_| mutex.load(Relaxed) == 0) {
                return Err(Reason::Locked);
            }
            arena = match self.next(arena) {
                Some(next) if next == self.main => return Ok(()),
                next => next.ok_or(Reason::Arenas)?,
            };
        }
        Err(Reason::Arenas)
    }

    /// The arena after this one; `None` if what it refers to is none.
    fn next(&self, arena: u64) -> Option<u64> {
        let next = read(self.pid, arena + NEXT)?;
        if next == self.main {
            return Some(next);
        }
        let header_bytes = next % HEAP_ALIGNMENT;
        let is_behind_header = (1..=MOST_HEADER_BYTES).contains(&header_bytes);
        let is_arena = is_behind_header && read(self.pid, next - header_bytes)? == next;
        (is_arena && read(self.pid, next + BYTES - 8).is_some()).then_some(next)
    }
}

fn is_pointer(word: u64) -> bool {
    word != 0 && word.is_multiple_of(8) && word < 1 << 47
}

/// Whether enough bins are lists that lead back to themselves.
fn has_whole_bins(address: u64, word: &impl Fn(u64) -> u64, pid: u32) -> bool {
    let is_whole = |&bin: &u64| {
        let offset = BINS + 16 * bin;
        let own = address + offset - 16;
        match word(offset) {
            forward if forward == own => word(offset + 8) == own,
            forward => read(pid, forward + BACKWARD) == Some(own),
        }
    };
    (0..BIN_COUNT).filter(is_whole).count() >= LEAST_WHOLE_BINS
}

/// The word at `address`, if it can be read: by the kernel, which does not fault.
fn read(pid: u32, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let count = sys::read_own_memory(pid, &[[address as usize, bytes.len()]], &mut bytes);
    (count == bytes.len()).then_some(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve;
    use crate::walk::Elf;
    use std::sync::Mutex;

    /// Tests that lock arenas, or look at them.
    static ARENAS: Mutex<()> = Mutex::new(());

    fn find() -> Arenas {
        let (_, libc) = resolve::find_next(c"gnu_get_libc_version", 0).unwrap();
        let data = Elf::at(libc.bias as u64).unwrap().data().unwrap();
        Arenas::find(data, std::process::id()).expect("a main arena")
    }

    #[test]
    fn the_main_arena_is_found_and_the_arenas_of_threads_follow_it() {
        let _alone = ARENAS.lock().unwrap();
        let arenas = find();
        let count = || {
            let next = |&arena: &u64| arenas.next(arena).filter(|&next| next != arenas.main);
            std::iter::successors(Some(arenas.main), next).count()
        };
        // A thread that has memory of its own has an arena, of its own if there are not too many.
        std::thread::spawn(move || drop(std::hint::black_box(vec![0u8; 100_000]))).join().unwrap();
        assert!((2..1000).contains(&count()), "{}", count());
        // Other tests allocate, so a lock may be held at any one look.
        assert!((0..1000).any(|_| arenas.are_seen_free().is_ok()));
    }

    #[test]
    fn what_is_not_consistent_is_no_arena() {
        let arenas = find();
        let mut fake = vec![0u64; BYTES as usize / 8 + 2];
        let start = (fake.as_ptr() as u64).next_multiple_of(16);
        let end = start + BYTES;
        assert!(Arenas::find((start, end), arenas.pid).is_none());
        // Pointers, but to nothing that leads back.
        fake.fill(0x1000);
        assert!(Arenas::find((start, end), arenas.pid).is_none());
        // A chain that leads to what is no arena.
        let first = (start as usize - fake.as_ptr() as usize) / 8;
        fake[first] = 0;
        let place = first + NEXT as usize / 8;
        for next in [0, 0x1000, 0x20, 1 << 46 | 0x30, u64::MAX - 7] {
            fake[place] = next;
            let wild = Arenas { main: start, pid: arenas.pid };
            assert_eq!(wild.are_seen_free(), Err(Reason::Arenas), "{next:x}");
        }
    }
}
