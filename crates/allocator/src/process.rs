//! The memory of a running process, through /proc.

use crate::memory::{Memory, PAGE_BYTES, PageState};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

/// pagemap's bits (Linux, Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// Entries of pagemap read at once.
const BATCH: usize = 1 << 14;

/// A process whose memory may be read.
#[derive(Debug)]
pub struct ProcessMemory {
    pid: Pid,
    memory: File,
    pagemap: File,
}

impl ProcessMemory {
    /// Of process `pid`. The kernel asks for the right to trace it.
    pub fn open(pid: u32) -> io::Result<Self> {
        Ok(Self {
            pid: Pid::from_raw(pid.cast_signed()),
            memory: File::open(format!("/proc/{pid}/mem"))?,
            pagemap: File::open(format!("/proc/{pid}/pagemap"))?,
        })
    }
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let remote = RemoteIoVec { base: address as usize, len: buffer.len() };
        let wanted = buffer.len();
        // Half the price of the file; but sandboxes may forbid the call.
        process_vm_readv(self.pid, &mut [IoSliceMut::new(buffer)], &[remote]) == Ok(wanted)
            || self.memory.read_exact_at(buffer, address).is_ok()
    }

    fn states(&self, address: u64, states: &mut [PageState]) -> bool {
        let mut entries = vec![0; BATCH.min(states.len()) * 8];
        let mut page = address / PAGE_BYTES;
        for batch in states.chunks_mut(BATCH) {
            let entries = &mut entries[..batch.len() * 8];
            if self.pagemap.read_exact_at(entries, page * 8).is_err() {
                return false;
            }
            for (state, entry) in batch.iter_mut().zip(entries.chunks_exact(8)) {
                let entry = entry.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
                *state = match entry {
                    entry if entry & PRESENT != 0 => PageState::Present,
                    entry if entry & SWAPPED != 0 => PageState::Swapped,
                    _ => PageState::Absent,
                };
            }
            page += batch.len() as u64;
        }
        true
    }
}
