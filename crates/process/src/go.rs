//! The heap profile of a Go program, out of its memory (runtime/mprof.go of Go 1.21 to 1.27): without an endpoint, and without a stop.
//!
//! The runtime keeps a bucket for each stack and size of blocks that it sampled, in a list. Buckets are never
//! freed. Their counters are as of the end of the last collection.

use crate::asked::GO_HEAP;
use crate::binary::Binary;
use crate::go_variables::{Layout, Variables, version};
use crate::memory::{Memory, word_at};
use crate::process_memory::ProcessMemory;
use crate::watched;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_pclntab::{Pclntab, is_go};
use std::cell::RefCell;

/// Words of a bucket before its stack: next, allnext, typ, hash, size, nstk.
const HEAD_WORDS: usize = 6;
/// Words of its counters that count: allocs, frees, and before Go 1.27 alloc_bytes, free_bytes.
const COUNTER_WORDS: usize = 4;
const COUNTER_WORDS_SINCE_27: usize = 2;
/// `memProfile` of bucketType.
const OF_HEAP: u64 = 1;
/// runtime.maxProfStackDepth.
const MOST_FRAMES: u64 = 1024;
const MOST_BUCKETS: usize = 1 << 20;
/// Frames of all stacks together: memory that is made to deceive may claim any number.
const MOST_FRAMES_IN_ALL: u64 = 1 << 24;
const MOST_SIZE: u64 = 1 << 47;
/// Read at once: buckets lie side by side.
const BLOCK_BYTES: u64 = 64 << 10;
/// A bucket that is being written is read again so often.
const TRIES: usize = 5;
const OLDEST: u64 = 21;
/// Since then buckets count no bytes.
const WITHOUT_BYTES: u64 = 27;

/// Samples of a Go program's runtime.
#[derive(Debug, BorshSerialize, BorshDeserialize)]
pub struct GoHeap {
    /// `go1.26.8`.
    pub version: String,
    /// Mean bytes from one sample to the next, as it is now.
    pub interval: u64,
    /// Stacks with sizes.
    pub buckets: Vec<Bucket>,
    /// Added to the file's addresses where it is mapped.
    pub bias: u64,
    /// An address of the executable.
    pub at: u64,
}

/// Samples of one size and stack.
#[derive(Debug, BorshSerialize, BorshDeserialize)]
pub struct Bucket {
    /// Bytes of each block.
    pub size: u64,
    /// Sampled blocks.
    pub allocated: u64,
    /// Sampled blocks that were freed, a part of those.
    pub freed: u64,
    /// Return addresses, leaf first, one for each function: also for those that are inlined.
    pub stack: Vec<u64>,
}

/// Why a Go program's heap cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum NoGoHeap {
    /// MemProfileRate is 0.
    Off,
    /// Built with this version, before 1.21.
    Old(String),
    /// The memory holds no list of buckets where this version has it.
    Unreadable(String),
}

/// Reads the heap profile of a process. `None`: it is no Go program, or cannot be looked at.
pub fn heap_of(pid: u32) -> Option<Result<GoHeap, NoGoHeap>> {
    let Some(by) = watched::owner_of(pid).ok()? else { return heap_of_ours(pid) };
    let answer: Option<Result<GoHeap, NoGoHeap>> = by.ask_for(GO_HEAP, &pid).ok()?;
    answer.map(|heap| heap.and_then(checked))
}

/// What another user's worker says, if it can be true.
fn checked(heap: GoHeap) -> Result<GoHeap, NoGoHeap> {
    let is_bucket = |it: &Bucket| it.freed <= it.allocated && it.size <= MOST_SIZE;
    let can_be = heap.interval > 0 && heap.buckets.iter().all(is_bucket);
    if can_be { Ok(heap) } else { Err(NoGoHeap::Unreadable(heap.version)) }
}

/// The same of a process of the user who runs this, or in a worker.
pub(crate) fn heap_of_ours(pid: u32) -> Option<Result<GoHeap, NoGoHeap>> {
    let content = Binary::executable(pid)?.here()?;
    is_go(&content).then_some(())?;
    let version = match version(&content) {
        Some(version) if minor(&version) >= OLDEST => version,
        older => return Some(Err(NoGoHeap::Old(older.unwrap_or_default()))),
    };
    let has_bytes = minor(&version) < WITHOUT_BYTES;
    let memory = Blocks::of(ProcessMemory::open(pid).ok()?);
    let layout = Layout::of(&content)?;
    let at = headers_of(pid)?;
    let bias = at.wrapping_sub(layout.headers);
    let code = |address: u64, bytes: &mut [u8]| memory.fill(address.wrapping_add(bias), bytes);
    let table = Pclntab::read(&content, |_| true);
    let variables = table.and_then(|table| Variables::find(&table, &layout, code));
    let unreadable = NoGoHeap::Unreadable(version.clone());
    let Some(variables) = variables else { return Some(Err(unreadable)) };
    Some(match read(&memory, &variables, bias, has_bytes) {
        Ok(None) => Err(NoGoHeap::Off),
        Ok(Some((interval, buckets))) => Ok(GoHeap { version, interval, buckets, bias, at }),
        Err(NotThere) => Err(unreadable),
    })
}

/// Where the program headers of the executable are, by the auxiliary vector (AT_PHDR of getauxval(3)): pairs of words.
fn headers_of(pid: u32) -> Option<u64> {
    const MOST_BYTES: u64 = 4096;
    const HEADERS: u64 = 3;
    let vector = watched::start(pid, "auxv", MOST_BYTES).ok()?;
    let mut pairs = vector.chunks_exact(16).map(words_in::<2>);
    pairs.find_map(|[kind, value]| (kind == HEADERS).then_some(value))
}

/// The memory holds no list of buckets.
#[derive(Debug, PartialEq, Eq)]
struct NotThere;

/// The interval and all buckets. `Ok(None)`: MemProfileRate is 0.
fn read(
    memory: &Blocks<impl Memory>,
    variables: &Variables,
    bias: u64,
    has_bytes: bool,
) -> Result<Option<(u64, Vec<Bucket>)>, NotThere> {
    let word = |address: u64| memory.words::<1>(address.wrapping_add(bias)).map(|[word]| word);
    let interval = word(variables.interval).ok_or(NotThere)?;
    if interval == 0 {
        return Ok(None);
    }
    let mut at = word(variables.buckets).ok_or(NotThere)?;
    let (mut buckets, mut places) = (Vec::new(), Vec::new());
    let mut frames_left = MOST_FRAMES_IN_ALL;
    while at != 0 {
        let [_, next, kind, _, size, frames] = memory.words::<HEAD_WORDS>(at).ok_or(NotThere)?;
        let is_bucket = kind == OF_HEAP && size <= MOST_SIZE && frames <= MOST_FRAMES;
        if !is_bucket || buckets.len() == MOST_BUCKETS || frames > frames_left {
            return Err(NotThere);
        }
        frames_left -= frames;
        let bucket = memory.bucket(at, size, frames, has_bytes).ok_or(NotThere)?;
        buckets.push(bucket);
        places.push(at);
        at = next;
    }
    if !has_bytes {
        memory.read_again(&places, &mut buckets).ok_or(NotThere)?;
    }
    Ok(Some((interval, buckets)))
}

/// 26 of `go1.26.8`, also in `devel go1.27-…`. One that has none is newer than all.
fn minor(version: &str) -> u64 {
    let digits = version.split_once("go1.").map_or("", |(_, minor)| minor);
    let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(u64::MAX)
}

/// Memory that is read in blocks, of which the last is kept.
struct Blocks<M> {
    memory: M,
    /// Its address and bytes; no bytes if it cannot be read.
    last: RefCell<Option<(u64, Vec<u8>)>>,
}

impl<M: Memory> Blocks<M> {
    fn of(memory: M) -> Self {
        Self { memory, last: RefCell::default() }
    }

    /// Fills `bytes`; false if any of it cannot be read.
    fn fill(&self, address: u64, bytes: &mut [u8]) -> bool {
        let block = address - address % BLOCK_BYTES;
        let from = (address - block) as usize;
        let mut last = self.last.borrow_mut();
        let (_, all) = last.take_if(|(at, _)| *at == block).unwrap_or_else(|| {
            let mut all = vec![0; BLOCK_BYTES as usize];
            let is_read = self.memory.read(block, &mut all);
            (block, if is_read { all } else { Vec::new() })
        });
        let (_, all) = last.insert((block, all));
        match all.get(from..from + bytes.len()) {
            Some(there) => {
                bytes.copy_from_slice(there);
                true
            }
            // It lies in two blocks, or a part of the block is not mapped.
            None => self.memory.read(address, bytes),
        }
    }

    fn words<const COUNT: usize>(&self, address: u64) -> Option<[u64; COUNT]> {
        let mut bytes = vec![0; COUNT * 8];
        self.fill(address, &mut bytes).then(|| words_in(&bytes))
    }

    /// A bucket whose head is known. The collector may be writing its counters: where they count bytes, too, these do not fit then.
    fn bucket(&self, at: u64, size: u64, frames: u64, has_bytes: bool) -> Option<Bucket> {
        let stack_at = stack_of(at);
        let words = if has_bytes { COUNTER_WORDS } else { COUNTER_WORDS_SINCE_27 };
        let mut bytes = vec![0; frames as usize * 8 + words * 8];
        self.fill(stack_at, &mut bytes).then_some(())?;
        for _ in 0..TRIES {
            let (stack, counters) = bytes.split_at(frames as usize * 8);
            let [allocated, freed, allocated_bytes, freed_bytes] = words_in(counters);
            let is_of_size = |count: u64, bytes| count.checked_mul(size) == Some(bytes);
            let fits = !has_bytes
                || is_of_size(allocated, allocated_bytes) && is_of_size(freed, freed_bytes);
            if fits && freed <= allocated {
                let stack = stack.chunks_exact(8).filter_map(|word| word_at(word, 0)).collect();
                return Some(Bucket { size, allocated, freed, stack });
            }
            self.memory.read(stack_at, &mut bytes).then_some(())?;
        }
        None
    }

    /// Reads the counters of all buckets once more, until each is the same twice: so none is read in the midst of a change.
    fn read_again(&self, places: &[u64], buckets: &mut [Bucket]) -> Option<()> {
        *self.last.borrow_mut() = None;
        for (&at, bucket) in places.iter().zip(buckets) {
            let counters_at = stack_of(at).wrapping_add(bucket.stack.len() as u64 * 8);
            let mut now = self.words(counters_at)?;
            let mut tries = 0;
            while [bucket.allocated, bucket.freed] != now || now[1] > now[0] {
                tries += 1;
                (tries < TRIES).then_some(())?;
                [bucket.allocated, bucket.freed] = now;
                let mut bytes = [0; COUNTER_WORDS_SINCE_27 * 8];
                self.memory.read(counters_at, &mut bytes).then_some(())?;
                now = words_in(&bytes);
            }
        }
        Some(())
    }
}

/// Where the stack of a bucket begins.
fn stack_of(bucket: u64) -> u64 {
    bucket.wrapping_add(HEAD_WORDS as u64 * 8)
}

fn words_in<const COUNT: usize>(bytes: &[u8]) -> [u64; COUNT] {
    std::array::from_fn(|index| word_at(bytes, index * 8).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory from BASE on.
    struct Words(Vec<u64>);

    const BASE: u64 = 0x4000;

    impl Memory for Words {
        fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
            let all: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
            let from = address.checked_sub(BASE).and_then(|from| usize::try_from(from).ok());
            let there = from.and_then(|from| all.get(from..from.checked_add(buffer.len())?));
            there.map(|there| buffer.copy_from_slice(there)).is_some()
        }

        fn present_runs(&self, _: u64, _: u64, _: &mut dyn FnMut(u64, u64)) -> bool {
            false
        }
    }

    const VARIABLES: Variables = Variables { buckets: BASE, interval: BASE + 8 };

    fn heap(words: &[u64]) -> Result<Option<(u64, Vec<Bucket>)>, NotThere> {
        let begin = [BASE + 16, 1 << 19];
        read(&Blocks::of(Words([&begin, words].concat())), &VARIABLES, 0, true)
    }

    #[test]
    fn buckets_are_read_along_their_list() {
        let second = BASE + 16 + 8 * 12;
        let first = [0, second, 1, 99, 4096, 2, 0x401000, 0x402000, 5, 2, 5 * 4096, 2 * 4096];
        let last = [0, 0, 1, 98, 64, 0, 1, 1, 64, 64];
        let (interval, buckets) = heap(&[&first[..], &last].concat()).unwrap().unwrap();
        assert_eq!((interval, buckets.len()), (1 << 19, 2));
        let Bucket { size, allocated, freed, stack } = &buckets[0];
        assert_eq!((*size, *allocated, *freed, &**stack), (4096, 5, 2, &[0x401000, 0x402000][..]));
    }

    #[test]
    fn other_memory_is_no_list() {
        // A list that ends in itself, a bucket of blocked goroutines, a stack without end, counters that never fit, the end of memory.
        let circle = [0, BASE + 16, 1, 99, 64, 0, 1, 1, 64, 64];
        for words in [
            &circle[..],
            &[0, 0, 2, 99, 64, 0, 1, 1, 64, 64],
            &[0, 0, 1, 99, 64, 1 << 40, 1, 1, 64, 64],
            &[0, 0, 1, 99, 64, 0, 1, 2, 64, 128],
            &[0, 0, 1],
        ] {
            assert_eq!(heap(words).err(), Some(NotThere));
        }
        let minors = ["go1.26.8", "devel go1.27-3f0", "x"].map(minor);
        assert_eq!(minors, [26, 27, u64::MAX]);
    }
}
