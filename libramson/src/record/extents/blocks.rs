//! Where in the extent table a search has to look: for each block of slots how many are in use, and the hull of their addresses.
//!
//! Both are one word. A hull never shrinks while a slot of its block is in use, and a place is taken before an extent is put
//! there: whoever sees an extent sees a hull that holds it. New extents go where hulls grow least, so neighbours share a block.
//! As the kernel hands out addresses, a search of tens of thousands of extents looks at a few dozen; of those at random
//! addresses, which V8 asks for, at one in three.

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

/// A block's word: slots in use in the lowest bits, first granule, last granule.
#[derive(Clone, Copy)]
struct Word(u64);

/// First and last granule.
#[derive(Clone, Copy)]
struct Hull(u64, u64);

impl Word {
    const FIRST_GRANULE: u32 = u64::BITS - 2 * GRANULE_BITS;
    const LAST_GRANULE: u32 = u64::BITS - GRANULE_BITS;

    fn new(used: u64, hull: Hull) -> Self {
        Self(used | hull.0 << Self::FIRST_GRANULE | hull.1 << Self::LAST_GRANULE)
    }

    fn used(self) -> u64 {
        self.0 & ((1 << Self::FIRST_GRANULE) - 1)
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
        let words = self.0.iter().zip((0..slots).step_by(BLOCK as usize));
        let found = words.filter(move |(word, _)| {
            let word = Word(word.load(Relaxed));
            word.used() != 0 && word.hull().overlaps(wanted)
        });
        found.map(move |(_, first)| first..slots.min(first + BLOCK))
    }

    /// Takes a place for an extent in one of the blocks of the first `slots`; its slot is to be looked for in that block.
    pub fn reserve(&self, slots: u64, range: &Range<u64>) -> Option<Range<u64>> {
        let new = Hull::of(range);
        for _ in 0..MAX_CHOICES {
            let (word, first, before, after) = self.choose(slots, new)?;
            if word.compare_exchange(before.0, after.0, Relaxed, Relaxed).is_ok() {
                return Some(first..slots.min(first + BLOCK));
            }
        }
        None
    }

    /// The block whose hull grows least: its word, its first slot, the word now and with the new extent.
    fn choose(&self, slots: u64, new: Hull) -> Option<(&AtomicU64, u64, Word, Word)> {
        let mut best = None;
        let mut least = u64::MAX;
        for (word, first) in self.0.iter().zip((0..slots).step_by(BLOCK as usize)) {
            let before = Word(word.load(Relaxed));
            if before.used() >= BLOCK.min(slots - first) {
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
                best = Some((word, first, before, Word::new(before.used() + 1, hull)));
            }
            if price == 0 {
                break;
            }
        }
        best
    }

    /// Gives a place of `slot`'s block back.
    pub fn release(&self, slot: u64) {
        if let Some(word) = self.0.get((slot / BLOCK) as usize) {
            word.fetch_sub(1, Relaxed);
        }
    }
}
