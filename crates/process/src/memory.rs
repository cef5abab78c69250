//! The one way to a process's memory, and which of its pages are there.

use borsh::{BorshDeserialize, BorshSerialize};
use std::io::{self, Read, Write};

/// Bytes of a page on the only architecture whose layouts are known, x86-64.
pub const PAGE_BYTES: u64 = 4096;

/// Most pages of one range, 1 TiB: torn numbers yield larger ranges.
const MOST_PAGES: u64 = 1 << 28;
/// Read whole at most.
const MOST_READ_BYTES: u64 = 64 << 20;

/// Four words: as much as a list of chunks needs, or the look at a lock.
pub type Head = [u64; 4];
/// Bytes of a [`Head`].
pub const HEAD_BYTES: usize = size_of::<Head>();

/// A process, or a snapshot of one.
pub trait Memory {
    /// Fills `buffer` with what is at `address`; false if any of it cannot be read.
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool;

    /// Returns the head at each of these addresses; `None` for a head that cannot be read.
    fn heads(&self, addresses: &[u64]) -> Vec<Option<Head>> {
        let head = |&address: &u64| {
            let mut bytes = [0; HEAD_BYTES];
            self.read(address, &mut bytes).then(|| head_of(&bytes))
        };
        addresses.iter().map(head).collect()
    }

    /// Passes the runs of present pages of `start..end`, page-aligned, to `visit` in their order; false if they cannot be known. Reading
    /// others (never touched, given back, swapped out) would have an effect on the process.
    fn present_runs(&self, start: u64, end: u64, visit: &mut dyn FnMut(u64, u64)) -> bool;
}

impl<M: Memory + ?Sized> Memory for &M {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        (**self).read(address, buffer)
    }

    fn heads(&self, addresses: &[u64]) -> Vec<Option<Head>> {
        (**self).heads(addresses)
    }

    fn present_runs(&self, start: u64, end: u64, visit: &mut dyn FnMut(u64, u64)) -> bool {
        (**self).present_runs(start, end, visit)
    }
}

/// Which pages of one range are there.
#[derive(Clone, Debug)]
pub struct Presence {
    start: u64,
    /// A bit for each page, lowest first.
    bits: Vec<u64>,
    /// Present pages before each word of `bits`, and all of them at the end.
    before: Vec<u32>,
    /// Whether the pages are part of RSS: those of hugetlbfs are not.
    is_in_rss: bool,
}

impl Presence {
    /// Returns the presence of the pages that `start..end` touches; `None` if it cannot be known, or if no process can have the range.
    pub fn of(memory: &(impl Memory + ?Sized), start: u64, end: u64) -> Option<Self> {
        let start = page_of(start);
        let end = end.max(start).checked_next_multiple_of(PAGE_BYTES)?;
        let pages = Some((end - start) / PAGE_BYTES).filter(|&pages| pages <= MOST_PAGES)?;
        let mut bits = vec![0; pages.div_ceil(64) as usize];
        let is_known = memory.present_runs(start, end, &mut |from, to| {
            let (from, to) = (from.max(start) - start, to.min(end).saturating_sub(start));
            set(&mut bits, (from / PAGE_BYTES) as usize, (to / PAGE_BYTES) as usize);
        });
        is_known.then(|| Self::of_bits(start, bits, true))
    }

    fn of_bits(start: u64, bits: Vec<u64>, is_in_rss: bool) -> Self {
        let mut before = vec![0];
        before.extend(bits.iter().scan(0, |sum, word| {
            *sum += word.count_ones();
            Some(*sum)
        }));
        Self { start, bits, before, is_in_rss }
    }

    /// The same, of pages that are not part of RSS: they may be read, and count as nothing.
    pub fn outside_rss(self) -> Self {
        Self { is_in_rss: false, ..self }
    }

    /// Whether the page of `address` may be read without an effect on the process; false outside the range.
    #[inline]
    pub fn is_present(&self, address: u64) -> bool {
        let page = address.wrapping_sub(self.start) / PAGE_BYTES;
        let word = self.bits.get((page / 64) as usize);
        word.is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Bytes of `start..end` on pages that are present, and part of RSS.
    #[inline]
    pub fn resident_bytes(&self, start: u64, end: u64) -> u64 {
        if !self.is_in_rss {
            return 0;
        }
        // Most chunks lie on one page.
        if page_of(start) == page_of(end.wrapping_sub(1)) {
            return if self.is_present(start) { end.saturating_sub(start) } else { 0 };
        }
        self.resident_bytes_slow(start, end)
    }

    fn resident_bytes_slow(&self, start: u64, end: u64) -> u64 {
        let whole = u64::from(self.before(end).saturating_sub(self.before(start))) * PAGE_BYTES;
        // `whole` counts too much of the first page and nothing yet of the last one.
        let below = if self.is_present(start) { start % PAGE_BYTES } else { 0 };
        let above = if self.is_present(end) { end % PAGE_BYTES } else { 0 };
        if start < end { whole + above - below } else { 0 }
    }

    /// Present pages before that of `address`.
    fn before(&self, address: u64) -> u32 {
        let page = address.saturating_sub(self.start) / PAGE_BYTES;
        let index = ((page / 64) as usize).min(self.bits.len());
        let lower = self.bits.get(index).map_or(0, |word| word & !(u64::MAX << (page % 64)));
        self.before[index] + lower.count_ones()
    }

    /// Pages of `start..end` from the first that are present without a gap, at most `most`.
    pub fn present_run(&self, start: u64, end: u64, most: u64) -> u64 {
        let pages = (end.saturating_sub(page_of(start))).div_ceil(PAGE_BYTES).min(most);
        let is_present = |page: &u64| self.is_present(page_of(start) + page * PAGE_BYTES);
        (0..pages).take_while(is_present).count() as u64
    }

    /// The two words at `address`, a multiple of 8, if they are present.
    pub fn words(&self, memory: &impl Memory, address: u64) -> Option<(u64, u64)> {
        let last = address.checked_add(8)?;
        let mut bytes = [0; 16];
        let is_read =
            self.is_present(address) && self.is_present(last) && memory.read(address, &mut bytes);
        word_at(&bytes, 0).zip(word_at(&bytes, 8)).filter(|_| is_read)
    }

    /// Fills `bytes`, whole pages from `start` on, with those that are present.
    pub fn read_pages(&self, memory: &impl Memory, start: u64, bytes: &mut [u8]) {
        let end = start + bytes.len() as u64;
        let mut at = start;
        while at < end {
            let length = self.present_run(at, end, u64::MAX) * PAGE_BYTES;
            if length > 0 {
                let offset = (at - start) as usize;
                memory.read(at, &mut bytes[offset..offset + length as usize]);
            }
            at += length.max(PAGE_BYTES);
        }
    }
}

impl BorshSerialize for Presence {
    fn serialize<W: Write>(&self, out: &mut W) -> io::Result<()> {
        (self.start, &self.bits, self.is_in_rss).serialize(out)
    }
}

/// Whatever the bytes are, it is one.
impl BorshDeserialize for Presence {
    fn deserialize_reader<R: Read>(input: &mut R) -> io::Result<Self> {
        let (start, bits, is_in_rss) = <(u64, Vec<u64>, bool)>::deserialize_reader(input)?;
        let is_range = bits.len() as u64 <= MOST_PAGES / 64 && page_of(start) == start;
        if !is_range {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self::of_bits(start, bits, is_in_rss))
    }
}

/// Sets the bits of these pages.
fn set(bits: &mut [u64], first: usize, behind: usize) {
    let mut at = first;
    while at < behind {
        let next = (at / 64 * 64 + 64).min(behind);
        let Some(word) = bits.get_mut(at / 64) else { return };
        *word |= u64::MAX >> (64 - (next - at)) << (at % 64);
        at = next;
    }
}

/// The start of the page of `address`.
pub fn page_of(address: u64) -> u64 {
    address & !(PAGE_BYTES - 1)
}

/// The words of so many bytes.
pub fn head_of(bytes: &[u8]) -> Head {
    [0, 1, 2, 3].map(|index| word_at(bytes, 8 * index).unwrap_or(0))
}

/// The word at `offset` of `bytes`.
pub fn word_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|&word| u64::from_le_bytes(word))
}

/// The half word at `offset` of `bytes`.
pub fn half_word_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|&word| u32::from_le_bytes(word))
}

/// Returns the bytes of `start..start + length`, if all of their pages are present.
pub fn read_present(memory: &impl Memory, start: u64, length: usize) -> Option<Vec<u8>> {
    let end = start.checked_add(length as u64)?;
    let presence = Presence::of(memory, start, end)?;
    if presence.resident_bytes(start, end) != length as u64 {
        return None;
    }
    let mut bytes = vec![0; length];
    memory.read(start, &mut bytes).then_some(bytes)
}

/// The pages of `start..end`, with zeros where one is not present.
pub fn pages(memory: &impl Memory, start: u64, end: u64) -> Vec<u8> {
    let mut bytes = vec![0; end.saturating_sub(start).min(MOST_READ_BYTES) as usize];
    if let Some(presence) = Presence::of(memory, start, start + bytes.len() as u64) {
        presence.read_pages(memory, start, &mut bytes);
    }
    bytes
}
