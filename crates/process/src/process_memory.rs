//! The memory of a running process, through /proc.

use crate::asked::{PEEK, RUNS};
use crate::memory::{Memory, PAGE_BYTES, word_at};
use crate::{remote, watched};
use ramson_apart::{Apart, proc};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// pagemap's bit (Linux, Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
/// Entries of pagemap read at once.
const BATCH: usize = 1 << 14;

/// A process whose memory may be read.
pub enum ProcessMemory {
    /// By this process.
    Ours(MemoryFiles),
    /// By a worker of its owner, which opens it when it is asked.
    Theirs(Apart, u32),
}

/// The memory of a process, open.
pub struct MemoryFiles {
    memory: File,
    pagemap: File,
}

impl ProcessMemory {
    /// Opens the memory of process `pid`. The kernel asks for the right to trace the process.
    pub fn open(pid: u32) -> io::Result<Self> {
        if let Some(by) = watched::owner_of(pid)? {
            return Ok(Self::Theirs(by, pid));
        }
        let open = |name| proc::open(&format!("{pid}/{name}"));
        Ok(Self::Ours(MemoryFiles { memory: open("mem")?, pagemap: open("pagemap")? }))
    }
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        match self {
            Self::Ours(files) => files.read(address, buffer),
            Self::Theirs(by, pid) => {
                let length = buffer.len() as u64;
                let bytes: Option<Vec<u8>> =
                    by.ask_for(PEEK, &(*pid, address, length)).ok().flatten();
                let bytes = bytes.filter(|bytes| bytes.len() == buffer.len());
                bytes.map(|bytes| buffer.copy_from_slice(&bytes)).is_some()
            }
        }
    }

    fn present_runs(&self, start: u64, end: u64, visit: &mut dyn FnMut(u64, u64)) -> bool {
        match self {
            Self::Ours(MemoryFiles { pagemap, .. }) => {
                remote::present_runs(pagemap, start, end, visit).is_ok()
                    || entries(pagemap, start, end, visit)
            }
            Self::Theirs(by, pid) => {
                let runs: Option<Vec<(u64, u64)>> =
                    by.ask_for(RUNS, &(*pid, start, end)).ok().flatten();
                let are_runs = |runs: &Vec<(u64, u64)>| {
                    runs.iter().all(|run| run.0 < run.1)
                        && runs.windows(2).all(|pair| pair[0].1 <= pair[1].0)
                };
                runs.filter(are_runs)
                    .map(|runs| runs.iter().for_each(|&(from, to)| visit(from, to)))
                    .is_some()
            }
        }
    }
}

/// Not by process_vm_readv, which costs half as much: it pins the pages that it reads, and Linux 5.19 or newer gives a process a copy of its own
/// of each pinned page that it shares with a parent or child. Reading a forked server so may take all of its memory once more.
impl MemoryFiles {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        self.memory.read_exact_at(buffer, address).is_ok()
    }
}

/// The pages as the entries of pagemap tell them, one by one; those of zeros, which are no part of RSS, among them.
fn entries(pagemap: &File, start: u64, end: u64, visit: &mut dyn FnMut(u64, u64)) -> bool {
    let mut bytes = vec![0; BATCH.min(((end - start) / PAGE_BYTES) as usize) * 8];
    let mut at = start;
    while at < end {
        let pages = BATCH.min(((end - at) / PAGE_BYTES) as usize);
        let bytes = &mut bytes[..pages * 8];
        if pagemap.read_exact_at(bytes, at / PAGE_BYTES * 8).is_err() {
            return false;
        }
        for entry in bytes.chunks_exact(8) {
            if word_at(entry, 0).is_some_and(|entry| entry & PRESENT != 0) {
                visit(at, at + PAGE_BYTES);
            }
            at += PAGE_BYTES;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    type Reading<'a> = dyn Fn(&mut dyn FnMut(u64, u64)) + 'a;

    #[test]
    fn page_scan_agrees_with_pagemap() {
        const PAGES: usize = 40_000;
        let mut block = vec![0u8; PAGES * PAGE_BYTES as usize];
        let start = (block.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let end = start + (PAGES as u64 - 1) * PAGE_BYTES;
        let first = (start - block.as_ptr() as u64) as usize;
        // More runs than one call returns, and more pages than one batch of entries has.
        for page in (0..PAGES - 1).filter(|page| page % 5 < 2 || page % 1000 < 100) {
            block[first + page * PAGE_BYTES as usize] = 1;
        }
        let process = ProcessMemory::open(std::process::id()).unwrap();
        let ProcessMemory::Ours(process) = process else { panic!("it is our own") };
        let collect = |read: &Reading| {
            let mut bytes = 0;
            let mut runs: Vec<(u64, u64)> = Vec::new();
            read(&mut |from, to| {
                bytes += to - from;
                match runs.last_mut().filter(|last| last.1 == from) {
                    Some(last) => last.1 = to,
                    None => runs.push((from, to)),
                }
            });
            (runs, bytes)
        };
        let by_entries = || collect(&|visit| assert!(entries(&process.pagemap, start, end, visit)));
        // The kernel may make huge pages of them meanwhile.
        let (told, scanned) = loop {
            let before = by_entries();
            let scanned = collect(&|visit| {
                remote::present_runs(&process.pagemap, start, end, visit).unwrap();
            });
            if by_entries() == before {
                break (before, scanned);
            }
        };
        assert!(told.1 > (end - start) / 3);
        assert_eq!(scanned, told);
        // Memory that was read and never written is the page of zeros, which RSS does not count.
        let untouched = vec![0u8; PAGES * PAGE_BYTES as usize];
        let start = (untouched.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let pages = untouched.chunks(PAGE_BYTES as usize);
        assert_eq!(pages.map(|page| u64::from(std::hint::black_box(page)[7])).sum::<u64>(), 0);
        let mut bytes = 0;
        let end = start + (PAGES as u64 - 1) * PAGE_BYTES;
        remote::present_runs(&process.pagemap, start, end, &mut |from, to| bytes += to - from)
            .unwrap();
        assert_eq!(bytes, 0);
        // A kernel without the call is one whose pagemap is no such file.
        let other = File::open("/proc/self/maps").unwrap();
        assert!(remote::present_runs(&other, start, end, &mut |_, _| panic!("a run")).is_err());
        assert!(block[first] == 1);
    }
}
