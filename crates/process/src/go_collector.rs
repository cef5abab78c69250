//! The collector of a running Go program, looked at again and again: what it knows, and the collections that it has noted.

use crate::asked::GO_COLLECTOR;
use crate::go_memory::{Collector, Offsets};
use crate::go_variables::{NoGoHeap, Runtime};
use crate::memory::{Memory, word_at};
use crate::process_memory::ProcessMemory;
use crate::watched;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::Apart;

/// Collections that the runtime keeps notes of (pause_ns and pause_end of runtime/mstats.go).
const NOTED: u32 = 256;

/// One look at it.
#[derive(BorshSerialize, BorshDeserialize)]
pub struct Look {
    /// What it knows.
    pub collector: Collector,
    /// The collections that have ended since the one that was asked for, oldest first, as far as they are noted.
    pub ended: Vec<Collection>,
    /// The collector's part of the CPU time that the program could have had since its start.
    pub cpu_share: f64,
}

/// A collection that has ended.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Collection {
    /// From 1 on.
    pub number: u32,
    /// When it ended; nanoseconds since 1970.
    pub end_unix_ns: u64,
    /// How long it stopped the program.
    pub pause_ns: u64,
}

/// A process whose collector is looked at.
pub struct Watch(Source);

enum Source {
    Ours(ProcessMemory, Runtime),
    Theirs(Apart, u32),
}

impl Watch {
    /// Of a process. `None`: it is no Go program, or cannot be looked at.
    pub fn of(pid: u32) -> Option<Result<Self, NoGoHeap>> {
        if let Some(by) = watched::owner_of(pid).ok()? {
            return Some(Ok(Self(Source::Theirs(by, pid))));
        }
        Self::of_ours(pid)
    }

    /// The same of a process of the user who runs this, or in a worker.
    pub(crate) fn of_ours(pid: u32) -> Option<Result<Self, NoGoHeap>> {
        let memory = ProcessMemory::open(pid).ok()?;
        Some(Runtime::of(pid)?.map(|runtime| Self(Source::Ours(memory, runtime))))
    }

    /// Looks at it. `since` is the number of a collection. `None`: the process is gone, or is no Go program.
    pub fn look(&self, since: u32) -> Option<Look> {
        match &self.0 {
            Source::Ours(memory, runtime) => look(memory, runtime, since),
            Source::Theirs(by, pid) => {
                let look: Option<Look> = by.ask_for(GO_COLLECTOR, &(*pid, since)).ok()?;
                look.filter(Look::is_possible)
            }
        }
    }
}

impl Look {
    fn is_possible(&self) -> bool {
        let are_in_order = self.ended.is_sorted_by_key(|one| one.number);
        self.collector.is_possible() && are_in_order && self.ended.len() <= NOTED as usize
    }
}

/// Looks at any memory. `None`: the runtime is not where this version should have it.
pub fn look(memory: &impl Memory, runtime: &Runtime, since: u32) -> Option<Look> {
    const SHARE: u64 = 8;
    let collector = Collector::of(memory, runtime)?;
    let offsets = Offsets::of(runtime);
    let read = |offset: u64, count: usize| {
        let mut bytes = vec![0; 8 * count];
        memory.read(runtime.statistics.wrapping_add(offset), &mut bytes).then_some(bytes)
    };
    let pauses = read(offsets.pauses(), 2 * NOTED as usize)?;
    let share = word_at(&read(offsets.collections + SHARE, 1)?, 0)?;
    let last = collector.collections;
    let first = since.max(last.saturating_sub(NOTED)).saturating_add(1);
    let collection = |number: u32| {
        let index = ((number - 1) % NOTED) as usize;
        let pause_ns = word_at(&pauses, 8 * index)?;
        let end_unix_ns = word_at(&pauses, 8 * (index + NOTED as usize))?;
        Some(Collection { number, end_unix_ns, pause_ns })
    };
    let ended = (first..=last).filter_map(collection).collect();
    // A program may lie.
    let cpu_share = Some(f64::from_bits(share)).filter(|it| (0.0..=1.0).contains(it));
    Some(Look { collector, ended, cpu_share: cpu_share.unwrap_or(0.0) })
}

/// When the last collection but one ended.
pub(crate) fn last_but_one(memory: &impl Memory, runtime: &Runtime) -> Option<u64> {
    let last = Collector::of(memory, runtime)?.collections;
    let ended = look(memory, runtime, last.checked_sub(2)?)?.ended;
    ended.first().map(|one| one.end_unix_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of it is zero but for some words.
    struct Words(Vec<(u64, u64)>);

    impl Memory for Words {
        fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
            buffer.fill(0);
            let end = address + buffer.len() as u64;
            for &(at, word) in self.0.iter().filter(|(at, _)| (address..end - 7).contains(at)) {
                let from = (at - address) as usize;
                buffer[from..from + 8].copy_from_slice(&word.to_le_bytes());
            }
            true
        }

        fn present_runs(&self, _: u64, _: u64, _: &mut dyn FnMut(u64, u64)) -> bool {
            false
        }
    }

    #[test]
    fn collections_are_read_out_of_their_ring() {
        const STATISTICS: u64 = 0x10000;
        let pauses = STATISTICS + 3584;
        let ends = pauses + 8 * 256;
        let runtime = Runtime::at_statistics("go1.26.8", STATISTICS);
        // The 300th is in place 43.
        let memory = Words(vec![
            (STATISTICS + 7680, 300),
            (pauses + 8 * 43, 77_000),
            (ends + 8 * 43, 5_000_000_000),
        ]);
        let ended = look(&memory, &runtime, 298).unwrap().ended;
        assert_eq!(ended.len(), 2);
        let last = Collection { number: 300, end_unix_ns: 5_000_000_000, pause_ns: 77_000 };
        assert_eq!(ended[1], last);
        assert_eq!(look(&memory, &runtime, 0).unwrap().ended.len(), 256);
        assert_eq!(look(&memory, &runtime, 300).unwrap().ended, []);
    }
}
