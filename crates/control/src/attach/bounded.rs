//! Bounds of what a look at a process's objects may cost: the process may show as many as it likes.

use ramson_apart::{Owner, bounds};
use ramson_process::{Memory, ProcessMemory};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long all looks of one command may take, if nothing else is said.
const MOST_TIME: Duration = Duration::from_secs(10);
/// A read counts as so many bytes at least.
const LEAST_BYTES: u64 = 64;

/// For all looks of one command at one process.
pub struct Allowance {
    bytes: Cell<u64>,
    time: Cell<Duration>,
}

impl Allowance {
    /// By whose process it is, and what the caller has said (`--budget`).
    pub fn of(pid: u32) -> Self {
        let bounds = bounds(Owner::of_process(pid).is_some_and(Owner::is_trusted));
        Self::new(bounds.memory_bytes, bounds.time.unwrap_or(MOST_TIME))
    }

    pub fn new(bytes: u64, time: Duration) -> Self {
        Self { bytes: Cell::new(bytes), time: Cell::new(time) }
    }
}

/// A process's memory, of which no more is read than that.
pub struct Bounded<'a> {
    memory: &'a ProcessMemory,
    allowance: &'a Allowance,
    begin: Instant,
}

impl<'a> Bounded<'a> {
    pub fn new(memory: &'a ProcessMemory, allowance: &'a Allowance) -> Self {
        Self { memory, allowance, begin: Instant::now() }
    }

    /// Whether there was more than is allowed.
    pub fn is_used_up(&self) -> bool {
        self.allowance.bytes.get() == 0 || self.begin.elapsed() > self.allowance.time.get()
    }
}

impl Drop for Bounded<'_> {
    /// Counts the time of this look, and not what goes on between two looks.
    fn drop(&mut self) {
        let left = self.allowance.time.get().saturating_sub(self.begin.elapsed());
        self.allowance.time.set(left);
    }
}

impl Memory for Bounded<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let bytes = (buffer.len() as u64).max(LEAST_BYTES);
        self.allowance.bytes.set(self.allowance.bytes.get().saturating_sub(bytes));
        !self.is_used_up() && self.memory.read(address, buffer)
    }

    fn present_runs(&self, start: u64, end: u64, visit: &mut dyn FnMut(u64, u64)) -> bool {
        self.memory.present_runs(start, end, visit)
    }
}
