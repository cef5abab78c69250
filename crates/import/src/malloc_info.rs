//! glibc's `malloc_info`: what each arena has taken from the system and has free, as XML. It has no stacks, so it is no profile;
//! it reaches its caller as [`ImportError::MallocInfo`].
//!
//! glibc writes one element a line. `<heap>` is an arena; its `<size>` elements are free chunks of a range of sizes, `<unsorted>`
//! those in the unsorted bin, `<total type="fast">` and `"rest"` all free chunks, the top included. After the last arena the same
//! elements are the sums, with `<total type="mmap">` for blocks that were mapped one by one (malloc/malloc.c, `__malloc_info`).

use crate::defect::ImportError;
use crate::input::{Input, Stop};
use borsh::{BorshDeserialize, BorshSerialize};
use std::ops::AddAssign;

/// The first element.
const MARKER: &[u8] = b"<malloc version=";
/// A chunk that is smaller contains no whole page.
const PAGE_BYTES: u64 = 4096;

/// Free chunks, or blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Chunks {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl AddAssign for Chunks {
    fn add_assign(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// An arena, or the sum of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct InfoArena {
    /// Taken from the system.
    pub system_bytes: u64,
    /// All free chunks, with those in fastbins and the top.
    pub free: Chunks,
    /// Those in bins of known sizes.
    pub sized: Chunks,
    /// Those of them that are large enough to contain a whole page.
    pub large: Chunks,
}

impl InfoArena {
    /// Bytes at the end of the arena, which are in no bin; `None` if the file lacks sizes.
    pub fn top_bytes(&self) -> Option<u64> {
        let is_whole = self.sized.count.saturating_add(1) >= self.free.count;
        is_whole.then(|| self.free.bytes.saturating_sub(self.sized.bytes))
    }
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct MallocInfo {
    /// Arenas, the main one first.
    pub arenas: Vec<InfoArena>,
    /// The sums as the file has them; `None` if it ends before.
    pub sum: Option<InfoArena>,
    /// Blocks that malloc mapped one by one; they are live.
    pub mapped: Chunks,
    /// How many documents were before this one, as in a log of a program that prints it now and then.
    pub earlier: u64,
}

impl MallocInfo {
    /// The sum over the arenas, as the file has it, or else of those that are in it.
    pub fn sum(&self) -> InfoArena {
        let mut sum = InfoArena::default();
        for arena in &self.arenas {
            sum.system_bytes = sum.system_bytes.saturating_add(arena.system_bytes);
            sum.free += arena.free;
            sum.sized += arena.sized;
            sum.large += arena.large;
        }
        match self.sum {
            Some(InfoArena { system_bytes, free, .. }) => InfoArena { system_bytes, free, ..sum },
            None => sum,
        }
    }

    /// Whether arenas are missing: the file was cut, or the sums are of more.
    pub fn is_cut(&self) -> bool {
        let of_all = self.sum();
        let of_arenas = MallocInfo { sum: None, ..self.clone() }.sum();
        self.sum.is_none() || of_all.system_bytes != of_arenas.system_bytes
    }
}

/// Whether the text contains what malloc_info writes.
pub fn is_malloc_info(head: &[u8]) -> bool {
    head.windows(MARKER.len()).any(|window| window == MARKER)
}

/// Reads the last document; there is no profile in it, so this fails in any case.
pub fn read(input: &mut Input) -> ImportError {
    let mut reading = Reading::default();
    let read = input.each_line(|input, line| {
        let line = String::from_utf8_lossy(line);
        for tag in line.split('<').skip(1) {
            reading.take(input, tag.split('>').next().unwrap_or_default())?;
        }
        Ok(())
    });
    match read {
        Err(error) => error,
        Ok(()) => ImportError::MallocInfo(reading.info),
    }
}

#[derive(Default)]
struct Reading {
    info: MallocInfo,
    arena: Option<InfoArena>,
    sum: InfoArena,
    has_begun: bool,
}

impl Reading {
    fn take(&mut self, input: &mut Input, tag: &str) -> Result<(), Stop> {
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap_or_default();
        let chunks = || Chunks { count: number(tag, "count"), bytes: number(tag, "size") };
        let kind = attribute(tag, "type").unwrap_or_default();
        let of = self.arena.as_mut().unwrap_or(&mut self.sum);
        match (name, kind) {
            // An arena that did not end has taken what belongs to the sums.
            ("malloc", _) if tag.starts_with('/') => {
                self.info.sum = Some(self.sum).filter(|_| self.arena.is_none());
                self.info.arenas.extend(self.arena.take());
            }
            ("malloc", _) => {
                let earlier = self.info.earlier + u64::from(self.has_begun);
                *self = Self { has_begun: true, ..Self::default() };
                self.info.earlier = earlier;
            }
            ("heap", _) if tag.starts_with('/') => {
                input.charge(size_of::<InfoArena>())?;
                self.info.arenas.extend(self.arena.take());
            }
            ("heap", _) => self.arena = Some(InfoArena::default()),
            ("size" | "unsorted", _) => {
                let chunks = Chunks { count: number(tag, "count"), bytes: number(tag, "total") };
                of.sized += chunks;
                if number(tag, "to") >= PAGE_BYTES {
                    of.large += chunks;
                }
            }
            ("total", "fast" | "rest") => of.free += chunks(),
            ("total", "mmap") => self.info.mapped = chunks(),
            ("system", "current") => of.system_bytes = number(tag, "size"),
            _ => {}
        }
        Ok(())
    }
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut words = tag.split_ascii_whitespace();
    let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.trim_matches(['"', '/', '\'']))
}

/// 0 where there is none.
fn number(tag: &str, name: &str) -> u64 {
    attribute(tag, name).and_then(|value| value.parse().ok()).unwrap_or(0)
}
