//! The goroutines of a Go program, out of its memory (runtime/runtime2.go of Go 1.21 to 1.27): how many have which stack, and how long they wait.

use crate::asked::GO_GOROUTINES;
use crate::blocks::{Blocks, words_in};
use crate::go_variables::{NoGoHeap, Runtime};
use crate::memory::{Memory, word_at};
use crate::process_memory::ProcessMemory;
use crate::watched;
use borsh::{BorshDeserialize, BorshSerialize};
use std::collections::HashMap;
use std::ops::Range;

/// Goroutines that are looked at.
const MOST: u64 = 1 << 20;
/// Frames of a stack.
const MOST_FRAMES: usize = 64;
/// Frames of all different stacks together: a program may lie.
const MOST_FRAMES_IN_ALL: usize = 1 << 20;
/// Bytes of a stack that are read at once, and at most.
const FIRST_BYTES: u64 = 1024;
const MOST_STACK_BYTES: u64 = 64 << 10;
/// Bytes at the end of a stack in which its first frame begins.
const FIRST_FRAME_BYTES: u64 = 128;
/// How often the list is read again if it was being moved.
const TRIES: usize = 5;
/// States (atomicstatus) of goroutines that are no dead ones; the collector sets another bit while it scans the stack.
const ALIVE: [u32; 7] = [1, RUNNING, IN_CALL, WAITING, 8, 9, LEAKED];
const RUNNING: u32 = 2;
const IN_CALL: u32 = 3;
const WAITING: u32 = 4;
const LEAKED: u32 = 10;
const SCAN: u32 = 0x1000;

/// The goroutines of a program.
#[derive(Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct Goroutines {
    /// Those with one stack each, in no order.
    pub groups: Vec<Group>,
    /// Those that wait, also in system calls and in C.
    pub waiting: Vec<Waiting>,
    /// Added to the file's addresses where the executable is mapped.
    pub bias: u64,
    /// An address of it.
    pub at: u64,
}

/// Goroutines with the same stack.
#[derive(Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Group {
    /// Return addresses, leaf first; the last is that of the go statement, the one before in the function that it began with. Of one that runs
    /// only these are known; of one that C called back, what it did before is missing.
    pub stack: Vec<u64>,
    /// How many there are.
    pub count: u64,
    /// Bytes of their stacks.
    pub stack_bytes: u64,
    /// When the first of them began to wait, on the monotonic clock, in ns; 0: not known. The collector notes it: of one that it finds
    /// waiting, the end of the collection before.
    pub since_ns: u64,
}

/// A goroutine that waits: the same again if it has not run in between, but for one chance in 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
pub struct Waiting {
    /// goid.
    pub id: u64,
    /// The place of its group.
    pub group: u32,
    /// Its stack pointer.
    pub stack_pointer: u64,
    /// How often it has stopped running, modulo 256 (trackingSeq).
    pub stops: u8,
}

/// Reads the goroutines of a process. `None`: it is no Go program, or cannot be looked at.
pub fn goroutines_of(pid: u32) -> Option<Result<Goroutines, NoGoHeap>> {
    let Some(by) = watched::owner_of(pid).ok()? else { return goroutines_of_ours(pid) };
    let answer: Option<Result<Goroutines, NoGoHeap>> = by.ask_for(GO_GOROUTINES, &pid).ok()?;
    answer.map(|found| found.and_then(checked))
}

/// Refuses an answer of another user's worker that cannot be true.
fn checked(found: Goroutines) -> Result<Goroutines, NoGoHeap> {
    let is_group = |it: &Group| (1..=MOST).contains(&it.count) && it.stack_bytes <= MOST << 40;
    let is_there = |it: &Waiting| (it.group as usize) < found.groups.len();
    let can_be = found.groups.iter().all(is_group) && found.waiting.iter().all(is_there);
    if can_be { Ok(found) } else { Err(NoGoHeap::Unreadable(String::new())) }
}

/// The same of a process of the user who runs this, or in a worker.
pub(crate) fn goroutines_of_ours(pid: u32) -> Option<Result<Goroutines, NoGoHeap>> {
    let runtime = match Runtime::of(pid)? {
        Ok(runtime) => runtime,
        Err(why) => return Some(Err(why)),
    };
    let memory = ProcessMemory::open(pid).ok()?;
    Some(read(&memory, &runtime).ok_or(NoGoHeap::Unreadable(runtime.version)))
}

/// Where the fields of runtime.g are that differ between versions.
struct Fields {
    status: usize,
    stops: usize,
    frame_pointer: usize,
    go_statement: usize,
}

/// Bytes of it that are read at most.
const MOST_BYTES: usize = 320;

const STACK_LOW: usize = 0;
const STACK_HIGH: usize = 8;
const STACK_POINTER: usize = 56;
const RESUME: usize = 64;
/// Behind the status.
const ID: usize = 8;
const WAITING_SINCE: usize = 24;
/// Behind the address of the go statement.
const FUNCTION: usize = 16;

impl Fields {
    fn of(runtime: &Runtime) -> Self {
        let minor = runtime.minor();
        let status = if matches!(minor, 23 | 24) { 152 } else { 144 };
        let stops = status + if minor < 22 { 44 } else { 47 };
        let frame_pointer = if minor < 25 { STACK_POINTER + 48 } else { STACK_POINTER + 40 };
        let go_statement = if matches!(minor, 23 | 24 | 26..) { 288 } else { 280 };
        Self { status, stops, frame_pointer, go_statement }
    }
}

/// The same of any memory. `None`: they are not where this version should have them.
pub fn read(memory: &impl Memory, runtime: &Runtime) -> Option<Goroutines> {
    let memory = &Blocks::of(memory);
    let fields = Fields::of(runtime);
    let mut found = Goroutines { bias: runtime.bias, at: runtime.at, ..Goroutines::default() };
    let mut groups: HashMap<Vec<u64>, u32> = HashMap::new();
    let mut frames_left = MOST_FRAMES_IN_ALL;
    for at in all(memory, runtime.goroutines?)? {
        let read = |bytes: &mut [u8]| memory.fill(at, bytes);
        let one = Goroutine::read(&fields, read)?;
        if !one.is_alive() {
            continue;
        }
        let mut stack = Vec::new();
        if one.status != RUNNING {
            stack.push(one.resume);
            let stack_range = one.stack_pointer..one.high;
            let is_whole = callers(&memory.memory, stack_range, one.frame_pointer, &mut stack);
            if is_whole {
                // That of runtime.goexit, with which each stack begins.
                stack.pop();
            } else {
                stack.push(one.function.wrapping_add(1));
            }
            let read = |bytes: &mut [u8]| memory.memory.read(at, bytes);
            if Goroutine::read(&fields, read)? != one {
                stack.clear();
            }
        }
        if stack.is_empty() {
            // A return address is behind its call.
            stack.push(one.function.wrapping_add(1));
        }
        stack.push(one.go_statement);
        let place = match groups.get(&stack) {
            Some(&place) => place,
            None => {
                frames_left = frames_left.checked_sub(stack.len())?;
                let place = found.groups.len() as u32;
                groups.insert(stack.clone(), place);
                found.groups.push(Group { stack, count: 0, stack_bytes: 0, since_ns: 0 });
                place
            }
        };
        let group = &mut found.groups[place as usize];
        group.count += 1;
        let stack_bytes = one.high.saturating_sub(one.low);
        group.stack_bytes = group.stack_bytes.saturating_add(stack_bytes);
        if matches!(one.status, IN_CALL | WAITING | LEAKED) {
            if one.since_ns != 0 && (group.since_ns == 0 || one.since_ns < group.since_ns) {
                group.since_ns = one.since_ns;
            }
            let Goroutine { id, stack_pointer, stops, .. } = one;
            found.waiting.push(Waiting { id, group: place, stack_pointer, stops });
        }
    }
    Some(found)
}

/// What is read of one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Goroutine {
    status: u32,
    id: u64,
    stops: u8,
    low: u64,
    high: u64,
    stack_pointer: u64,
    frame_pointer: u64,
    resume: u64,
    since_ns: u64,
    function: u64,
    go_statement: u64,
}

impl Goroutine {
    /// `None`: it cannot be read.
    fn read(fields: &Fields, read: impl FnOnce(&mut [u8]) -> bool) -> Option<Self> {
        let mut bytes = [0; MOST_BYTES];
        let bytes = &mut bytes[..fields.go_statement + FUNCTION + 8];
        read(bytes).then_some(())?;
        let word = |offset| word_at(bytes, offset).unwrap_or(0);
        Some(Self {
            status: word(fields.status) as u32 & !SCAN,
            id: word(fields.status + ID),
            stops: bytes.get(fields.stops).copied().unwrap_or(0),
            low: word(STACK_LOW),
            high: word(STACK_HIGH),
            stack_pointer: word(STACK_POINTER),
            frame_pointer: word(fields.frame_pointer),
            resume: word(RESUME),
            since_ns: word(fields.status + WAITING_SINCE),
            function: word(fields.go_statement + FUNCTION),
            go_statement: word(fields.go_statement),
        })
    }

    fn is_alive(&self) -> bool {
        ALIVE.contains(&self.status)
    }
}

/// The addresses of all that there are, the dead ones, too (runtime.allgs). The list may be moved while it is read.
fn all(memory: &Blocks<impl Memory>, list: u64) -> Option<Vec<u64>> {
    let at = || {
        memory.clear();
        memory.words::<2>(list)
    };
    for _ in 0..TRIES {
        let [first, count] = at()?;
        if count == 0 {
            return Some(Vec::new());
        }
        let mut bytes = vec![0; count.min(MOST) as usize * 8];
        let is_read = memory.memory.read(first, &mut bytes);
        if is_read && at()?[0] == first {
            return Some(bytes.chunks_exact(8).filter_map(|word| word_at(word, 0)).collect());
        }
    }
    None
}

/// Appends the return addresses along the frame pointers: each points to the one of the caller, with the return address above. Whether the last is
/// that of the first frame, which is near the end of the stack: C has other frames in between.
fn callers(
    memory: &impl Memory,
    stack: Range<u64>,
    frame_pointer: u64,
    found: &mut Vec<u64>,
) -> bool {
    let size = stack.end.saturating_sub(stack.start).min(MOST_STACK_BYTES);
    let mut bytes = Vec::new();
    let mut at = frame_pointer;
    while found.len() < MOST_FRAMES {
        let offset = at.checked_sub(stack.start).filter(|it| *it <= size.saturating_sub(16));
        let Some(offset) = offset else { return false };
        if offset as usize + 16 > bytes.len() {
            let is_near = bytes.is_empty() && offset + 16 <= FIRST_BYTES;
            let wanted = if is_near { FIRST_BYTES } else { size };
            bytes = vec![0; wanted.min(size) as usize];
            if !memory.read(stack.start, &mut bytes) {
                return false;
            }
        }
        let [next, address] = words_in(&bytes[offset as usize..offset as usize + 16]);
        if address == 0 {
            return false;
        }
        found.push(address);
        if next <= at {
            return stack.end - at <= FIRST_FRAME_BYTES;
        }
        at = next;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go::tests::{BASE, Words};

    const LIST: u64 = BASE;
    const FIRST: u64 = BASE + 0x100;
    const STACK: u64 = BASE + 0x1000;
    const CODE: u64 = 0x40_1000;

    impl Words {
        fn put(&mut self, address: u64, words: &[u64]) {
            let from = ((address - BASE) / 8) as usize;
            self.0[from..from + words.len()].copy_from_slice(words);
        }

        /// One that waits: main.f, called by main.g, called by runtime.goexit.
        fn new() -> Self {
            let mut memory = Self(vec![0; 0x400]);
            memory.put(LIST, &[BASE + 0x40, 1]);
            memory.put(BASE + 0x40, &[FIRST]);
            memory.put(FIRST, &[STACK, STACK + 0x80]);
            memory.put(FIRST + 56, &[STACK + 0x20, CODE]);
            // As Go 1.26 has them: frame pointer, state and ID, since when, go statement, function.
            memory.put(FIRST + 96, &[STACK + 0x30]);
            memory.put(FIRST + 144, &[u64::from(WAITING), 7, 0, 5_000, 0, 9 << 56]);
            memory.put(FIRST + 288, &[CODE + 0x90, 0, CODE + 0x10]);
            memory.put(STACK + 0x30, &[STACK + 0x50, CODE + 0x20]);
            memory.put(STACK + 0x50, &[0, CODE + 0x30]);
            memory
        }
    }

    fn found(memory: Words) -> Option<Goroutines> {
        let goroutines = Some(LIST);
        let runtime = Runtime { goroutines, ..Runtime::at_statistics("go1.26.8", 0) };
        read(&memory, &runtime)
    }

    #[test]
    fn stack_is_read_along_frame_pointers() {
        let Goroutines { groups, waiting, .. } = found(Words::new()).unwrap();
        let stack = vec![CODE, CODE + 0x20, CODE + 0x90];
        assert_eq!(groups, [Group { stack, count: 1, stack_bytes: 0x80, since_ns: 5_000 }]);
        let stack_pointer = STACK + 0x20;
        assert_eq!(waiting, [Waiting { id: 7, group: 0, stack_pointer, stops: 9 }]);
        // C has frames between: what it began with is known.
        let mut memory = Words::new();
        memory.put(STACK + 0x30, &[0x7f00_0000, CODE + 0x20]);
        let stack = vec![CODE, CODE + 0x20, CODE + 0x11, CODE + 0x90];
        assert_eq!(found(memory).unwrap().groups[0].stack, stack);
        // Of one that runs the stack is not known, and a dead one is none.
        for (status, stack) in [(RUNNING, Some(vec![CODE + 0x11, CODE + 0x90])), (6, None)] {
            let mut memory = Words::new();
            memory.put(FIRST + 144, &[u64::from(status | SCAN)]);
            let groups = found(memory).unwrap().groups.into_iter();
            assert_eq!(groups.map(|group| group.stack).next(), stack, "{status}");
        }
    }

    #[test]
    fn other_memory_is_read_to_an_end() {
        // Frames that are each other's callers, one outside of the stack, a stack without end.
        for (address, words) in [
            (STACK + 0x50, [STACK + 0x30, CODE + 0x30]),
            (STACK + 0x30, [STACK + 0x30, CODE + 0x30]),
            (STACK + 0x30, [STACK + 0x1000, CODE + 0x30]),
            (FIRST, [0, u64::MAX]),
            (FIRST, [u64::MAX, 0]),
        ] {
            let mut memory = Words::new();
            memory.put(address, &words);
            assert_eq!(found(memory).unwrap().groups.len(), 1);
        }
        // Lists that cannot be read.
        for list in [[0, 1], [BASE + 0x40, u64::MAX], [u64::MAX, 1], [BASE + 0x48, 1]] {
            let mut memory = Words::new();
            memory.put(LIST, &list);
            assert!(found(memory).is_none());
        }
    }
}
