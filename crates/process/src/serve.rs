//! The memory of others' processes and the binaries in them, in the helper that reads them.

use crate::apart::{
    AREAS, BESIDE, HEADS, LOOK, PEEK, Question, RUNS, SEARCH, STATISTICS, Sight, all_beside,
};
use crate::areas::{self, Area};
use crate::binary::Binary;
use crate::glibc::{self, Range, Statistics};
use crate::mappings::{self, MAPPINGS};
use crate::memory::Memory;
use crate::process_memory::ProcessMemory;
use crate::search::Search;
use ramson_apart::Handler;
use std::fs::File;

/// Read at once of a process's memory.
const MOST_PEEKED_BYTES: u64 = 64 << 20;

/// Reads the memory and the binaries of processes that come as descriptors.
#[derive(Default)]
pub struct MemoryReader;

impl Handler for MemoryReader {
    fn kinds(&self) -> &'static [u8] {
        &[STATISTICS, MAPPINGS, LOOK, BESIDE, SEARCH, PEEK, RUNS, AREAS, HEADS]
    }

    fn answer(&mut self, kind: u8, body: &[u8], files: Vec<File>) -> Option<Vec<u8>> {
        match kind {
            MAPPINGS => return mappings::answer(body, files),
            AREAS => {
                let [smaps] = files.try_into().ok()?;
                // A process that has just ended has no areas.
                return borsh::to_vec(&areas::parse_file(smaps).unwrap_or_default()).ok();
            }
            SEARCH => {
                let [file] = files.try_into().ok()?;
                let found = borsh::from_slice::<Search>(body).ok()?.run(&Binary::given(file)?);
                return borsh::to_vec(&found).ok();
            }
            _ => {}
        }
        let [memory, pagemap] = files.try_into().ok()?;
        let memory = ProcessMemory::given(memory, pagemap);
        let answer = match kind {
            STATISTICS => {
                let Question { areas, library, version, effort } = borsh::from_slice(body).ok()?;
                let library: Vec<&Area> =
                    library.iter().filter_map(|&index| areas.get(index as usize)).collect();
                borsh::to_vec(&glibc::read(&memory, &areas, &library, version, effort))
            }
            LOOK => borsh::to_vec(&Sight::of(&memory, &borsh::from_slice::<Vec<Area>>(body).ok()?)),
            BESIDE => {
                let (ranges, blocks): (Vec<Range>, Vec<u64>) = borsh::from_slice(body).ok()?;
                let statistics = Statistics { ranges, ..Statistics::default() };
                borsh::to_vec(&all_beside(&memory, &statistics, &blocks))
            }
            HEADS => borsh::to_vec(&memory.heads(&borsh::from_slice::<Vec<u64>>(body).ok()?)),
            PEEK => borsh::to_vec(&peeked(&memory, borsh::from_slice(body).ok()?)),
            _ => borsh::to_vec(&runs(&memory, borsh::from_slice(body).ok()?)),
        };
        answer.ok()
    }
}

fn peeked(memory: &ProcessMemory, (address, length): (u64, u64)) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length.min(MOST_PEEKED_BYTES) as usize];
    memory.read(address, &mut bytes).then_some(bytes)
}

fn runs(memory: &ProcessMemory, (start, end): (u64, u64)) -> Option<Vec<(u64, u64)>> {
    let mut runs = Vec::new();
    memory.present_runs(start, end, &mut |from, to| runs.push((from, to))).then_some(runs)
}
