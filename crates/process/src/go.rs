//! The heap profile of a Go program, out of its memory (runtime/mprof.go of Go 1.21 to 1.27): without an endpoint, and without a stop.
//!
//! The runtime keeps a bucket for each stack and size of blocks that it sampled, in a list. Buckets are never
//! freed. Their counters are as of the end of the last collection but one: only the sweep after a collection shows what it freed.

use crate::asked::GO_HEAP;
use crate::blocks::{Blocks, words_in};
use crate::go_collector::last_but_one;
use crate::memory::{Memory, word_at};
use crate::process_memory::ProcessMemory;
use crate::watched;
use borsh::{BorshDeserialize, BorshSerialize};

pub use crate::go_variables::{NoGoHeap, Runtime};

/// Words of a bucket before its stack: next, allnext, typ, hash, size, nstk.
const HEAD_WORDS: usize = 6;
/// Words of its counters that are read: allocs, frees, and before Go 1.27 alloc_bytes, free_bytes.
const COUNTER_WORDS: usize = 4;
const COUNTER_WORDS_SINCE_27: usize = 2;
/// `memProfile` of bucketType.
const OF_HEAP: u64 = 1;
/// runtime.maxProfStackDepth.
const MOST_FRAMES: u64 = 1024;
const MOST_BUCKETS: usize = 1 << 20;
/// Frames of all stacks together: memory that is made to deceive may claim any number.
const MOST_FRAMES_IN_ALL: u64 = 1 << 22;
const MOST_SIZE: u64 = 1 << 47;
/// How often a bucket that is being written is read again.
const TRIES: usize = 5;
/// The minor version since which buckets count no bytes.
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
    /// When the last collection but one ended: all counters are as of then; nanoseconds since 1970, 0 if there were not two.
    pub as_of_unix_ns: u64,
}

/// Samples of one size and stack.
#[derive(Debug, BorshSerialize, BorshDeserialize)]
pub struct Bucket {
    /// Its address, which stays.
    pub at: u64,
    /// Bytes of each block.
    pub size: u64,
    /// Sampled blocks.
    pub allocated: u64,
    /// Sampled blocks that were freed, a part of those.
    pub freed: u64,
    /// Return addresses, leaf first, one for each function: also for those that are inlined.
    pub stack: Vec<u64>,
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
    let runtime = match Runtime::of(pid)? {
        Ok(runtime) => runtime,
        Err(why) => return Some(Err(why)),
    };
    let memory = ProcessMemory::open(pid).ok()?;
    let buckets = read(&memory, &runtime);
    let as_of_unix_ns = last_but_one(&memory, &runtime).unwrap_or(0);
    let Runtime { version, bias, at, .. } = runtime;
    Some(match buckets {
        Ok(None) => Err(NoGoHeap::Off),
        Ok(Some((interval, buckets))) => {
            Ok(GoHeap { version, interval, buckets, bias, at, as_of_unix_ns })
        }
        Err(NotThere) => Err(NoGoHeap::Unreadable(version)),
    })
}

/// The memory holds no list of buckets.
#[derive(Debug, PartialEq, Eq)]
pub struct NotThere;

/// The interval and all buckets. `Ok(None)`: MemProfileRate is 0.
pub fn read(
    memory: &impl Memory,
    runtime: &Runtime,
) -> Result<Option<(u64, Vec<Bucket>)>, NotThere> {
    let memory = &Blocks::of(memory);
    let has_bytes = runtime.minor() < WITHOUT_BYTES;
    let [interval] = memory.words(runtime.interval).ok_or(NotThere)?;
    if interval == 0 {
        return Ok(None);
    }
    let [mut at] = memory.words(runtime.buckets).ok_or(NotThere)?;
    let (mut buckets, mut places) = (Vec::new(), Vec::new());
    let mut frames_left = MOST_FRAMES_IN_ALL;
    while at != 0 {
        let [_, next, kind, _, size, frames] = memory.words::<HEAD_WORDS>(at).ok_or(NotThere)?;
        let is_bucket = kind == OF_HEAP && size <= MOST_SIZE && frames <= MOST_FRAMES;
        if !is_bucket || buckets.len() == MOST_BUCKETS || frames > frames_left {
            return Err(NotThere);
        }
        frames_left -= frames;
        let bucket = bucket(memory, at, size, frames, has_bytes).ok_or(NotThere)?;
        buckets.push(bucket);
        places.push(at);
        at = next;
    }
    if !has_bytes {
        read_again(memory, &places, &mut buckets).ok_or(NotThere)?;
    }
    Ok(Some((interval, buckets)))
}

/// A bucket whose head is known. The collector may be writing its counters: if they also count bytes, the two then disagree.
fn bucket(
    memory: &Blocks<impl Memory>,
    at: u64,
    size: u64,
    frames: u64,
    has_bytes: bool,
) -> Option<Bucket> {
    let stack_at = stack_of(at);
    let words = if has_bytes { COUNTER_WORDS } else { COUNTER_WORDS_SINCE_27 };
    let mut bytes = vec![0; frames as usize * 8 + words * 8];
    memory.fill(stack_at, &mut bytes).then_some(())?;
    for _ in 0..TRIES {
        let (stack, counters) = bytes.split_at(frames as usize * 8);
        let [allocated, freed, allocated_bytes, freed_bytes] = words_in(counters);
        let is_of_size = |count: u64, bytes| count.checked_mul(size) == Some(bytes);
        let fits =
            !has_bytes || is_of_size(allocated, allocated_bytes) && is_of_size(freed, freed_bytes);
        if fits && freed <= allocated {
            let stack = stack.chunks_exact(8).filter_map(|word| word_at(word, 0)).collect();
            return Some(Bucket { at, size, allocated, freed, stack });
        }
        memory.memory.read(stack_at, &mut bytes).then_some(())?;
    }
    None
}

/// Reads the counters of all buckets once more, until each reads the same twice, so that none is caught mid-change.
fn read_again(memory: &Blocks<impl Memory>, places: &[u64], buckets: &mut [Bucket]) -> Option<()> {
    memory.clear();
    for (&at, bucket) in places.iter().zip(buckets) {
        let counters_at = stack_of(at).wrapping_add(bucket.stack.len() as u64 * 8);
        let mut now = memory.words(counters_at)?;
        let mut tries = 0;
        while [bucket.allocated, bucket.freed] != now || now[1] > now[0] {
            tries += 1;
            (tries < TRIES).then_some(())?;
            [bucket.allocated, bucket.freed] = now;
            let mut bytes = [0; COUNTER_WORDS_SINCE_27 * 8];
            memory.memory.read(counters_at, &mut bytes).then_some(())?;
            now = words_in(&bytes);
        }
    }
    Some(())
}
/// Where the stack of a bucket begins.
fn stack_of(bucket: u64) -> u64 {
    bucket.wrapping_add(HEAD_WORDS as u64 * 8)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;

    /// Memory from BASE on, of words; the rest cannot be read.
    pub struct Words(pub Vec<u64>);

    pub const BASE: u64 = 0x4000;

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

    fn runtime(version: &str) -> Runtime {
        let (buckets, interval) = (BASE, BASE + 8);
        Runtime { buckets, interval, ..Runtime::at_statistics(version, 0) }
    }

    fn heap(words: &[u64]) -> Result<Option<(u64, Vec<Bucket>)>, NotThere> {
        let begin = [BASE + 16, 1 << 19];
        read(&Words([&begin, words].concat()), &runtime("go1.26.8"))
    }

    #[test]
    fn buckets_are_read_along_their_list() {
        let second = BASE + 16 + 8 * 12;
        let first = [0, second, 1, 99, 4096, 2, 0x401000, 0x402000, 5, 2, 5 * 4096, 2 * 4096];
        let last = [0, 0, 1, 98, 64, 0, 1, 1, 64, 64];
        let (interval, buckets) = heap(&[&first[..], &last].concat()).unwrap().unwrap();
        assert_eq!((interval, buckets.len()), (1 << 19, 2));
        let Bucket { size, allocated, freed, stack, .. } = &buckets[0];
        assert_eq!((*size, *allocated, *freed, &**stack), (4096, 5, 2, &[0x401000, 0x402000][..]));
    }

    /// Memory in which a collection ends once so many reads were made: it has allocated 6 from then on.
    struct Changing(Words, Cell<u32>);

    impl Memory for Changing {
        fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
            let is_read = self.0.read(address, buffer);
            self.1.set(self.1.get().saturating_sub(1));
            let counter = (COUNTER_AT - address.min(COUNTER_AT)) as usize;
            if self.1.get() == 0 && buffer.len() >= counter + 8 {
                buffer[counter..counter + 8].copy_from_slice(&6_u64.to_le_bytes());
            }
            is_read
        }

        fn present_runs(&self, _: u64, _: u64, _: &mut dyn FnMut(u64, u64)) -> bool {
            false
        }
    }

    const COUNTER_AT: u64 = BASE + 16 + 8 * 7;

    #[test]
    fn counters_without_bytes_are_read_twice() {
        let words = [BASE + 16, 1 << 19, 0, 0, 1, 99, 4096, 1, 0x401000, 5, 2];
        for reads in 1..20 {
            let memory = Changing(Words(words.into()), Cell::new(reads));
            let (_, buckets) = read(&memory, &runtime("go1.27.0")).unwrap().unwrap();
            let Bucket { allocated, freed, .. } = buckets[0];
            assert!((allocated == 5 || allocated == 6) && freed == 2, "{reads}: {allocated}");
        }
        let torn = [&words[..9], &[1, 2]].concat();
        let torn = read(&Words(torn), &runtime("go1.27.0"));
        assert_eq!(torn.err(), Some(NotThere));
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
    }
}
