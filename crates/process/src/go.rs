//! The heap profile of a Go program, out of its memory (runtime/mprof.go of Go 1.21 to 1.26): without an endpoint, and without a stop.
//!
//! The runtime keeps a bucket for each stack and size of blocks that it sampled, in a list that begins at `runtime.mbuckets`. Buckets are never
//! freed. Their counters are as of the end of the last collection.

use crate::binary::{Binary, Content};
use crate::mappings::{Mapping, mappings};
use crate::memory::{Memory, word_at};
use crate::process_memory::ProcessMemory;
use object::{Object, ObjectSegment, ObjectSymbol};
use std::cell::RefCell;
use std::fs::read_link;

/// Words of a bucket before its stack: next, allnext, typ, hash, size, nstk.
const HEAD_WORDS: usize = 6;
/// Words of its counters that count: allocs, frees, alloc_bytes, free_bytes.
const COUNTER_WORDS: usize = 4;
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

/// Samples of a Go program's runtime.
pub struct GoHeap {
    /// `go1.26.8`.
    pub version: String,
    /// Mean bytes from one sample to the next, as it is now.
    pub interval: u64,
    /// Stacks with sizes.
    pub buckets: Vec<Bucket>,
    /// The executable's code.
    pub code: Mapping,
    /// Added to the file's addresses where it is mapped.
    pub bias: u64,
}

/// Samples of one size and stack.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoGoHeap {
    /// MemProfileRate is 0.
    Off,
    /// Before 1.21.
    Old(String),
    /// It has no symbol table.
    Stripped,
    /// The memory holds no list of buckets.
    Unreadable,
}

/// Addresses of the runtime's variables, in the file.
struct Variables {
    buckets: u64,
    interval: u64,
    version: u64,
    /// Address of the file's first byte.
    start: u64,
}

/// Reads the heap profile of a process of ours. `None`: it is no Go program.
pub fn heap_of(pid: u32) -> Option<Result<GoHeap, NoGoHeap>> {
    let content = Binary::executable(pid)?.if_ours()?;
    let variables = match Variables::of(&content)? {
        Some(variables) => variables,
        None => return Some(Err(NoGoHeap::Stripped)),
    };
    let memory = Blocks::of(ProcessMemory::open(pid).ok()?);
    let path = read_link(format!("/proc/{pid}/exe")).ok()?.into_os_string().into_string().ok()?;
    let its: Vec<Mapping> = mappings(pid).ok()?.filter(|it| it.path == path).collect();
    let start = its.iter().find(|it| it.offset == 0)?.start;
    let code = its.iter().find(|it| it.is_code())?.clone();
    Some(read(&memory, &variables, start.wrapping_sub(variables.start), code))
}

fn read(
    memory: &Blocks<impl Memory>,
    variables: &Variables,
    bias: u64,
    code: Mapping,
) -> Result<GoHeap, NoGoHeap> {
    let word = |address: u64| memory.words::<1>(address.wrapping_add(bias)).map(|[word]| word);
    let version = memory.text(variables.version.wrapping_add(bias)).unwrap_or_default();
    if minor(&version).is_some_and(|minor| minor < OLDEST) {
        return Err(NoGoHeap::Old(version));
    }
    let interval = match word(variables.interval).ok_or(NoGoHeap::Unreadable)? {
        0 => return Err(NoGoHeap::Off),
        interval => interval,
    };
    let mut at = word(variables.buckets).ok_or(NoGoHeap::Unreadable)?;
    let mut buckets = Vec::new();
    let mut frames_left = MOST_FRAMES_IN_ALL;
    while at != 0 {
        let [_, next, kind, _, size, frames] =
            memory.words::<HEAD_WORDS>(at).ok_or(NoGoHeap::Unreadable)?;
        let is_bucket = kind == OF_HEAP && size <= MOST_SIZE && frames <= MOST_FRAMES;
        if !is_bucket || buckets.len() == MOST_BUCKETS || frames > frames_left {
            return Err(NoGoHeap::Unreadable);
        }
        frames_left -= frames;
        buckets.push(memory.bucket(at, size, frames).ok_or(NoGoHeap::Unreadable)?);
        at = next;
    }
    Ok(GoHeap { version, interval, buckets, code, bias })
}

/// 26 of `go1.26.8`, also in `devel go1.27-…`.
fn minor(version: &str) -> Option<u64> {
    let (_, minor) = version.split_once("go1.")?;
    let digits = minor.bytes().take_while(u8::is_ascii_digit).count();
    minor[..digits].parse().ok()
}

impl Variables {
    /// `None`: it is no Go program. `Some(None)`: it has no symbols.
    fn of(content: &Content) -> Option<Option<Self>> {
        let object = object::File::parse(content).ok()?;
        object.section_by_name(".gopclntab").or(object.section_by_name(".go.buildinfo"))?;
        let address = |name: &str| {
            let mut all = object.symbols();
            all.find(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.address())
        };
        let start = object.segments().find(|it| it.file_range().0 == 0).map(|it| it.address())?;
        let all =
            ["runtime.mbuckets", "runtime.MemProfileRate", "runtime.buildVersion"].map(address);
        let [Some(buckets), Some(interval), Some(version)] = all else { return Some(None) };
        Some(Some(Self { buckets, interval, version, start }))
    }
}

/// Memory that is read in blocks, of which the last is kept.
struct Blocks<M> {
    memory: M,
    last: RefCell<(u64, Vec<u8>)>,
}

impl<M: Memory> Blocks<M> {
    fn of(memory: M) -> Self {
        Self { memory, last: RefCell::new((u64::MAX, Vec::new())) }
    }

    /// Fills `bytes`; false if any of it cannot be read.
    fn fill(&self, address: u64, bytes: &mut [u8]) -> bool {
        let block = address - address % BLOCK_BYTES;
        let from = (address - block) as usize;
        let mut last = self.last.borrow_mut();
        if last.0 != block {
            let mut all = vec![0; BLOCK_BYTES as usize];
            let is_read = self.memory.read(block, &mut all);
            *last = (block, if is_read { all } else { Vec::new() });
        }
        match last.1.get(from..from + bytes.len()) {
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

    /// A string of the runtime's: address and length.
    fn text(&self, address: u64) -> Option<String> {
        const MOST_BYTES: u64 = 200;
        let [address, length] = self.words::<2>(address)?;
        let mut bytes = vec![0; usize::try_from(length.min(MOST_BYTES)).ok()?];
        self.fill(address, &mut bytes).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A bucket whose head is known. The collector may be writing its counters: then they do not fit together.
    fn bucket(&self, at: u64, size: u64, frames: u64) -> Option<Bucket> {
        let stack_at = at.wrapping_add(HEAD_WORDS as u64 * 8);
        let mut bytes = vec![0; frames as usize * 8 + COUNTER_WORDS * 8];
        self.fill(stack_at, &mut bytes).then_some(())?;
        for _ in 0..TRIES {
            let (stack, counters) = bytes.split_at(frames as usize * 8);
            let [allocated, freed, allocated_bytes, freed_bytes] = words_in(counters);
            let fits = freed <= allocated
                && allocated.checked_mul(size) == Some(allocated_bytes)
                && freed.checked_mul(size) == Some(freed_bytes);
            if fits {
                let stack = stack.chunks_exact(8).filter_map(|word| word_at(word, 0)).collect();
                return Some(Bucket { size, allocated, freed, stack });
            }
            self.memory.read(stack_at, &mut bytes).then_some(())?;
        }
        None
    }
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

    const VARIABLES: Variables =
        Variables { buckets: BASE, interval: BASE + 8, version: BASE + 16, start: 0 };

    fn heap(words: &[u64]) -> Result<GoHeap, NoGoHeap> {
        let version = u64::from_le_bytes(*b"go1.26.8");
        let begin = [BASE + 40, 1 << 19, BASE + 32, 8, version];
        let memory = Blocks::of(Words([&begin, words].concat()));
        let code = Mapping::parse("400000-500000 r-xp 00001000 08:01 7 /bin/shop").unwrap();
        read(&memory, &VARIABLES, 0, code)
    }

    #[test]
    fn buckets_are_read_along_their_list() {
        let second = BASE + 40 + 8 * 12;
        let first = [0, second, 1, 99, 4096, 2, 0x401000, 0x402000, 5, 2, 5 * 4096, 2 * 4096];
        let last = [0, 0, 1, 98, 64, 0, 1, 1, 64, 64];
        let heap = heap(&[&first[..], &last].concat()).unwrap();
        assert_eq!((&*heap.version, heap.interval, heap.buckets.len()), ("go1.26.8", 1 << 19, 2));
        let Bucket { size, allocated, freed, stack } = &heap.buckets[0];
        assert_eq!((*size, *allocated, *freed, &**stack), (4096, 5, 2, &[0x401000, 0x402000][..]));
    }

    #[test]
    fn other_memory_is_no_list() {
        // A list that ends in itself, a bucket of blocked goroutines, a stack without end, counters that never fit, the end of memory.
        let circle = [0, BASE + 40, 1, 99, 64, 0, 1, 1, 64, 64];
        for words in [
            &circle[..],
            &[0, 0, 2, 99, 64, 0, 1, 1, 64, 64],
            &[0, 0, 1, 99, 64, 1 << 40, 1, 1, 64, 64],
            &[0, 0, 1, 99, 64, 0, 1, 2, 64, 128],
            &[0, 0, 1],
        ] {
            assert_eq!(heap(words).err(), Some(NoGoHeap::Unreadable));
        }
        assert_eq!(
            [minor("go1.26.8"), minor("devel go1.27-3f0"), minor("x")],
            [Some(26), Some(27), None]
        );
    }
}
