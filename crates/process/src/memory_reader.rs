//! Processes of other users, in the worker that reads them.

use crate::allocators::Allocators;
use crate::areas::read_outline;
use crate::asked::{
    AREAS, BESIDE, BYTES, DIRECTORY, GO_COLLECTOR, GO_GOROUTINES, GO_HEAP, MAPPINGS, PEEK, PIECE,
    RSS, RUNS, SEARCH, STATISTICS,
};
use crate::beside::all_beside;
use crate::binary::{Content, Place};
use crate::glibc::{Effort, Range, Statistics};
use crate::go::heap_of_ours;
use crate::go_collector::Watch;
use crate::go_goroutines::goroutines_of_ours;
use crate::mappings;
use crate::memory::Memory;
use crate::process_memory::ProcessMemory;
use crate::search::Search;
use crate::smaps::read_smaps;
use crate::their_rss;
use crate::watched;
use ramson_apart::Handler;
use ramson_paths::Root;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Read at once of a process's memory, or of a file.
const MOST_READ_BYTES: u64 = 64 << 20;

/// In a worker: reads processes. Keeps the memory of one open, the last.
#[derive(Default)]
pub struct MemoryReader {
    open: Option<(u32, ProcessMemory)>,
    watched: Option<(u32, Watch)>,
}

impl Handler for MemoryReader {
    fn kinds(&self) -> &'static [u8] {
        &[
            RSS,
            STATISTICS,
            MAPPINGS,
            BYTES,
            BESIDE,
            SEARCH,
            PEEK,
            RUNS,
            AREAS,
            PIECE,
            DIRECTORY,
            GO_HEAP,
            GO_COLLECTOR,
            GO_GOROUTINES,
        ]
    }

    fn answer(&mut self, kind: u8, body: &[u8], _: Vec<File>) -> Option<Vec<u8>> {
        let answer = match kind {
            RSS => {
                self.open = None;
                borsh::to_vec(&their_rss::told(borsh::from_slice(body).ok()?))
            }
            STATISTICS => {
                let (pid, allocators, effort): (u32, Allocators, Effort) =
                    borsh::from_slice(body).ok()?;
                let areas =
                    if allocators.other.is_some() { read_smaps(pid) } else { read_outline(pid) };
                let memory = self.memory(pid)?;
                borsh::to_vec(&allocators.statistics(memory, &areas.unwrap_or_default(), effort))
            }
            MAPPINGS => {
                let (pid, at, of_files) = borsh::from_slice(body).ok()?;
                borsh::to_vec(&mappings::batch_of(pid, at, of_files))
            }
            BYTES => {
                let (pid, name, most): (u32, String, u64) = borsh::from_slice(body).ok()?;
                let bytes = watched::start(pid, &name, most.min(MOST_READ_BYTES));
                borsh::to_vec(&bytes.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)))
            }
            SEARCH => {
                let (place, what): (Place, Search) = borsh::from_slice(body).ok()?;
                borsh::to_vec(&Content::open(&place).map(|it| what.run(&it)).unwrap_or_default())
            }
            DIRECTORY => {
                let path: Vec<u8> = borsh::from_slice(body).ok()?;
                let found = Root::told(Path::new(OsStr::from_bytes(&path)));
                let found = found.and_then(|found| found.identity()).ok();
                borsh::to_vec(&found.map(|it| (it.device, it.inode, it.birth_ns)))
            }
            PIECE => {
                let (place, offset): (Place, u64) = borsh::from_slice(body).ok()?;
                borsh::to_vec(&Content::open(&place).and_then(|it| it.piece(offset)))
            }
            AREAS => {
                let pid: u32 = borsh::from_slice(body).ok()?;
                // A process that has just ended has no areas.
                borsh::to_vec(&read_smaps(pid).unwrap_or_default())
            }
            BESIDE => {
                let (pid, ranges, blocks): (u32, Vec<Range>, Vec<u64>) =
                    borsh::from_slice(body).ok()?;
                let statistics = Statistics { ranges, ..Statistics::default() };
                let beside =
                    self.memory(pid).map(|memory| all_beside(memory, &statistics, &blocks));
                borsh::to_vec(&beside.unwrap_or_default())
            }
            GO_HEAP => borsh::to_vec(&heap_of_ours(borsh::from_slice(body).ok()?)),
            GO_GOROUTINES => borsh::to_vec(&goroutines_of_ours(borsh::from_slice(body).ok()?)),
            GO_COLLECTOR => {
                let (pid, since): (u32, u32) = borsh::from_slice(body).ok()?;
                if self.watched.as_ref().is_none_or(|(watched, _)| *watched != pid) {
                    self.watched = Watch::of_ours(pid)?.ok().map(|watch| (pid, watch));
                }
                borsh::to_vec(&self.watched.as_ref().and_then(|(_, watch)| watch.look(since)))
            }
            PEEK => {
                let (pid, address, length): (u32, u64, u64) = borsh::from_slice(body).ok()?;
                let mut bytes = vec![0; length.min(MOST_READ_BYTES) as usize];
                let is_read = self.memory(pid).is_some_and(|it| it.read(address, &mut bytes));
                borsh::to_vec(&is_read.then_some(bytes))
            }
            _ => {
                let (pid, start, end) = borsh::from_slice(body).ok()?;
                let mut runs: Vec<(u64, u64)> = Vec::new();
                let mut add = |from, to| runs.push((from, to));
                let memory = self.memory(pid);
                let is_told = memory.is_some_and(|it| it.present_runs(start, end, &mut add));
                borsh::to_vec(&is_told.then_some(runs))
            }
        };
        answer.ok()
    }
}

impl MemoryReader {
    fn memory(&mut self, pid: u32) -> Option<&ProcessMemory> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != pid) {
            self.open = Some((pid, ProcessMemory::open(pid).ok()?));
        }
        self.open.as_ref().map(|(_, memory)| memory)
    }
}
