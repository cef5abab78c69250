//! The one way to a process's memory, and which of its pages are there.

/// Bytes of a page on the only architecture whose layouts are known, x86-64.
pub const PAGE_BYTES: u64 = 4096;

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// Never touched, or given back.
    Absent,
    /// Reading it would bring it back.
    Swapped,
    /// May be read without an effect on the process.
    Present,
}

/// A process, or a snapshot of one.
pub trait Memory {
    /// Fills `buffer` with what is at `address`; false if any of it cannot be read.
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool;

    /// Sets the states of the pages from the one of `address` on; false if they cannot be known.
    fn states(&self, address: u64, states: &mut [PageState]) -> bool;
}

/// Which pages of one range are there.
#[derive(Clone, Debug)]
pub struct Presence {
    start: u64,
    states: Vec<PageState>,
}

impl Presence {
    /// Of the pages that `start..end` touches; `None` if they cannot be known.
    pub fn of(memory: &impl Memory, start: u64, end: u64) -> Option<Self> {
        let start = page_of(start);
        let pages = end.saturating_sub(start).div_ceil(PAGE_BYTES);
        let mut states = vec![PageState::Absent; usize::try_from(pages).ok()?];
        memory.states(start, &mut states).then_some(Self { start, states })
    }

    /// That of the pages that `start..end` touches.
    pub fn part(&self, start: u64, end: u64) -> Self {
        let start = page_of(start);
        let pages = (start..end).step_by(PAGE_BYTES as usize);
        Self { start, states: pages.map(|page| self.state(page)).collect() }
    }

    /// The state of the page of `address`; absent outside the range.
    #[inline]
    pub fn state(&self, address: u64) -> PageState {
        let index = address.checked_sub(self.start).map(|offset| (offset / PAGE_BYTES) as usize);
        index.and_then(|index| self.states.get(index)).copied().unwrap_or(PageState::Absent)
    }

    /// Bytes of `start..end` on pages that are present.
    #[inline]
    pub fn resident_bytes(&self, start: u64, end: u64) -> u64 {
        // Most chunks lie on one page.
        if page_of(start) == page_of(end.wrapping_sub(1)) {
            return if self.state(start) == PageState::Present {
                end.saturating_sub(start)
            } else {
                0
            };
        }
        self.resident_bytes_slow(start, end)
    }

    fn resident_bytes_slow(&self, start: u64, end: u64) -> u64 {
        let mut bytes = 0;
        let mut at = start;
        while at < end {
            let next = (page_of(at) + PAGE_BYTES).min(end);
            if self.state(at) == PageState::Present {
                bytes += next - at;
            }
            at = next;
        }
        bytes
    }

    /// Pages of `start..end` from the first that are present without a gap, at most `most`.
    pub fn present_run(&self, start: u64, end: u64, most: u64) -> u64 {
        let pages = (end.saturating_sub(page_of(start))).div_ceil(PAGE_BYTES).min(most);
        let is_present =
            |page: &u64| self.state(page_of(start) + page * PAGE_BYTES) == PageState::Present;
        (0..pages).take_while(is_present).count() as u64
    }
}

/// The start of the page of `address`.
pub fn page_of(address: u64) -> u64 {
    address & !(PAGE_BYTES - 1)
}

/// The word at `offset` of `bytes`.
pub fn word_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let word = bytes.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

/// The half word at `offset` of `bytes`.
pub fn half_word_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let word = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

/// What is in `start..start + length`, if all of its pages are present.
pub fn read_present(memory: &impl Memory, start: u64, length: usize) -> Option<Vec<u8>> {
    let end = start.checked_add(length as u64)?;
    let presence = Presence::of(memory, start, end)?;
    if presence.resident_bytes(start, end) != length as u64 {
        return None;
    }
    let mut bytes = vec![0; length];
    memory.read(start, &mut bytes).then_some(bytes)
}
