//! Where in the extent table a search has to look: for each block of slots how many are in use, and the hull of their addresses.
//!
//! Both are one word, and a place is taken in it before an extent is put there: whoever sees an extent sees a hull that holds
//! it. New extents go where hulls grow least, so neighbours share a block, and a hull is made anew when an extent at one of its
//! ends goes. As the kernel hands out addresses, a search of tens of thousands of extents looks at a few blocks.

use core::ops::Range;
use core::sync::atomic::Ordering::*;
use ramson_format::MAX_EXTENTS;
use ramson_format::atomic::AtomicU64;

/// Slots that are searched or left out together; a model tries every order of looking at them.
pub const BLOCK: u64 = if cfg!(loom) { 4 } else { 64 };
const BLOCKS: usize = (MAX_EXTENTS / BLOCK) as usize;
/// Unit of hulls.
const GRANULE_BYTES: u64 = 1 << 20;
const GRANULE_BITS: u32 = 27;
/// Higher addresses, which a program has to ask for, count as this one.
const LAST_GRANULE: u64 = (1 << GRANULE_BITS) - 1;
/// By how many granules a hull may rather grow than that an empty block is begun.
const PRICE_OF_A_BLOCK: u64 = (1 << 30) / GRANULE_BYTES;
/// Choices of a block for one extent while other threads take the places.
const MAX_CHOICES: usize = 64;

/// All zero is "no slot in use".
pub struct Blocks([AtomicU64; BLOCKS]);

/// A block's word: slots in use in the lowest bits, whether its hull is being made anew, first granule, last granule.
#[derive(Clone, Copy)]
struct Word(u64);

/// First and last granule.
#[derive(Clone, Copy)]
struct Hull(u64, u64);

impl Word {
    const FIRST_GRANULE: u32 = u64::BITS - 2 * GRANULE_BITS;
    const LAST_GRANULE: u32 = u64::BITS - GRANULE_BITS;
    const CLOSED: u64 = 1 << (Self::FIRST_GRANULE - 1);

    fn new(used: u64, hull: Hull) -> Self {
        Self(used | hull.0 << Self::FIRST_GRANULE | hull.1 << Self::LAST_GRANULE)
    }

    fn used(self) -> u64 {
        self.0 & (Self::CLOSED - 1)
    }

    /// Its hull is being made anew: nobody takes a place meanwhile.
    fn is_closed(self) -> bool {
        self.0 & Self::CLOSED != 0
    }

    /// Of a whole block. No more places are taken than there are, and `BLOCK` is a power of two.
    fn has_room(self) -> bool {
        self.0 & (Self::CLOSED | BLOCK) == 0
    }

    /// Of a block that is not empty.
    fn hull(self) -> Hull {
        Hull(self.0 >> Self::FIRST_GRANULE & LAST_GRANULE, self.0 >> Self::LAST_GRANULE)
    }
}

impl Hull {
    fn of(range: &Range<u64>) -> Self {
        let granule = |address: u64| (address / GRANULE_BYTES).min(LAST_GRANULE);
        Self(granule(range.start), granule(range.end.saturating_sub(1)))
    }

    fn overlaps(self, other: Self) -> bool {
        self.0 <= other.1 && other.0 <= self.1
    }

    fn with(self, other: Self) -> Self {
        Self(self.0.min(other.0), self.1.max(other.1))
    }

    fn length(self) -> u64 {
        self.1 - self.0
    }
}

impl Blocks {
    /// The slots, out of the first `slots`, among which every extent is that overlaps `range`, block by block.
    #[inline]
    pub fn around(&self, slots: u64, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let wanted = Hull::of(range);
        let mut next = 0;
        core::iter::from_fn(move || {
            let block = next + next_overlapping(self.words(slots).get(next..)?, wanted)?;
            next = block + 1;
            Some(slots_of(block, slots))
        })
    }

    /// Of the blocks of the first `slots`.
    fn words(&self, slots: u64) -> &[AtomicU64] {
        self.0.get(..slots.div_ceil(BLOCK) as usize).unwrap_or(&self.0)
    }

    /// Takes a place for an extent in one of the blocks of the first `slots`; its slot is to be looked for in that block.
    pub fn reserve(&self, slots: u64, range: &Range<u64>) -> Option<Range<u64>> {
        let new = Hull::of(range);
        for _ in 0..MAX_CHOICES {
            let (word, block, before, after) = self.choose(slots, new)?;
            if word.compare_exchange(before.0, after.0, Relaxed, Relaxed).is_ok() {
                return Some(slots_of(block, slots));
            }
        }
        None
    }

    /// The block whose hull grows least: its word, the block, the word now and with the new extent.
    #[inline(never)]
    fn choose(&self, slots: u64, new: Hull) -> Option<(&AtomicU64, usize, Word, Word)> {
        let mut best = None;
        let mut least = u64::MAX;
        for (block, word) in self.words(slots).iter().enumerate() {
            let before = Word(word.load(Relaxed));
            if !before.has_room() || before.used() >= slots - block as u64 * BLOCK {
                continue;
            }
            let (price, hull) = match before.used() {
                0 => (PRICE_OF_A_BLOCK, new),
                _ => {
                    let hull = before.hull().with(new);
                    (hull.length() - before.hull().length(), hull)
                }
            };
            if price < least {
                least = price;
                best = Some((word, block, before, Word::new(before.used() + 1, hull)));
            }
            // Next to it, or inside: no other block is better by much.
            if price <= new.length() + 1 {
                break;
            }
        }
        best
    }

    /// Gives the place of an extent in `slot`'s block back; `extents` are those that are in a block.
    pub fn release<I: Iterator<Item = Range<u64>>>(
        &self,
        slot: u64,
        gone: &Range<u64>,
        extents: impl FnOnce(Range<u64>) -> I,
    ) {
        let (block, gone) = ((slot / BLOCK) as usize, Hull::of(gone));
        let Some(word) = self.0.get(block) else { return };
        // Release: who closes the block afterwards sees that the slot is empty.
        let before = Word(word.fetch_sub(1, Release));
        let hull = before.hull();
        if before.used() > 1 && (gone.0 == hull.0 || gone.1 == hull.1) {
            tighten(word, || extents(slots_of(block, MAX_EXTENTS)));
        }
    }
}

/// Short, and called: searches go through a thousand words.
#[inline(never)]
fn next_overlapping(words: &[AtomicU64], wanted: Hull) -> Option<usize> {
    words.iter().position(|word| {
        let word = Word(word.load(Relaxed));
        word.hull().overlaps(wanted) && word.used() != 0
    })
}

fn slots_of(block: usize, slots: u64) -> Range<u64> {
    let first = block as u64 * BLOCK;
    first..slots.min(first + BLOCK)
}

/// An extent whose place is taken and that is not there yet is missing in `extents`: then all stays as it was. Nobody takes a
/// place in a closed block, so as many places as at first are the same places. A thread that is torn out of this, by a jump of
/// a signal handler, leaves the block closed: its free places are lost, nothing else.
fn tighten<I: Iterator<Item = Range<u64>>>(word: &AtomicU64, extents: impl FnOnce() -> I) {
    let open = Word(word.load(Relaxed));
    let closed = open.0 | Word::CLOSED;
    if open.is_closed() || word.compare_exchange(open.0, closed, Acquire, Relaxed).is_err() {
        return;
    }
    let mut found = 0;
    let hulls = extents().inspect(|_| found += 1).map(|range| Hull::of(&range));
    let hull = hulls.reduce(Hull::with).filter(|_| found == open.used());
    let is_reopened = hull.is_some_and(|hull| {
        word.compare_exchange(closed, Word::new(open.used(), hull).0, Relaxed, Relaxed).is_ok()
    });
    if !is_reopened {
        word.fetch_sub(Word::CLOSED, Relaxed);
    }
}
