//! Code of a process is written while all of its threads are stopped.

use crate::borrow::{Process, unfit};
use crate::resumption::Resumption;
use crate::threads;
use crate::trace::{Deferred, Registers, Traced, has_ended, share_memory};
use crate::waits::wait_for_stop_until;
use crate::{FIRST_PAUSE, MOST_PAUSE, PATIENCE, Problem};
use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes of a thread's stack that are looked at: what a signal interrupted is remembered there, above the frames of its handler.
const MOST_STACK_BYTES: u64 = 8 << 20;
/// Bytes of all threads' stacks together that are looked at.
const MOST_STACKS_BYTES: u64 = 1 << 30;

/// How long threads stand still at most while the others are stopped.
const MOST_STOPPED: Duration = Duration::from_millis(500);
/// How often that may be in vain.
const MOST_OVERRUNS: u32 = 3;
/// How often, and at which distance, it is looked what the threads do before they are stopped.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Bytes to be written at a place in code.
#[derive(Clone, Copy, Debug)]
pub struct Patch {
    /// Address of an instruction.
    pub address: u64,
    /// How many bytes are written, at most 8.
    pub bytes: usize,
    /// What is there, …
    pub before: [u8; 8],
    /// … and what is written.
    pub after: [u8; 8],
    /// Up to there no thread may be about to execute an instruction behind the first byte.
    pub end: u64,
    /// Patches of one group are written together, or none of them.
    pub group: u64,
    /// A word of ours, and what it is to have from then on.
    pub note: (u64, u64),
}

/// What came of it.
pub struct Standstill {
    /// How long threads were stopped.
    pub stopped: Duration,
    /// How many patches were written. What was at the others' places is neither what was nor what is to be there.
    pub written: usize,
}

/// Writes patches while all threads are stopped, none of them in what is written; none of the patches if `is_meant` says no then.
pub fn write_code(
    process: &Process,
    patches: &[Patch],
    is_meant: &dyn Fn() -> bool,
) -> Result<Standstill, Problem> {
    let begin = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut overruns = 0;
    let mut movers = HashSet::new();
    for _ in 1..LOOKS {
        // What is found is in `movers`.
        let _ = process.find_unstoppable(&mut movers);
        sleep(BETWEEN_LOOKS);
    }
    loop {
        let attempt = Instant::now();
        let done = process
            .find_unstoppable(&mut movers)
            .and_then(|()| process.stand_still(patches, is_meant));
        overruns += u32::from(attempt.elapsed() > MOST_STOPPED);
        let is_last = begin.elapsed() > PATIENCE || overruns == MOST_OVERRUNS;
        match done {
            Err(Problem::NoThread(_)) if !is_last => {}
            done => return done,
        }
        sleep(pause);
        pause = (pause * 2).min(MOST_PAUSE);
    }
}

impl Process {
    // Hazard, never seen: a thread's context is kept elsewhere than on its stack, by a signal handler that switched to another stack while the
    // thread was in the very instructions that move. It would go on in the middle of a jump.
    fn stand_still(
        &self,
        patches: &[Patch],
        is_meant: &dyn Fn() -> bool,
    ) -> Result<Standstill, Problem> {
        // Whoever asks this program to end is heard when the threads run again.
        let _deferred = Deferred::begin();
        let begin = Instant::now();
        let stopped = self.stop_all()?;
        self.is_same()?;
        let moved = Moved::of(patches);
        let stacks = self.writable_areas();
        let mut left_bytes = MOST_STACKS_BYTES;
        for (traced, registers) in &stopped {
            let words = self.stack(&stacks, registers);
            left_bytes = left_bytes
                .checked_sub(8 * words.len() as u64)
                .ok_or_else(|| unfit(traced.tid(), "the stacks are too large to look through"))?;
            if moved.contains(registers.rip) || words.iter().any(|&word| moved.contains(word)) {
                return Err(unfit(traced.tid(), "it is in the code that is to be written"));
            }
        }
        let written = if is_meant() { self.write_all(patches)? } else { 0 };
        drop(stopped);
        Ok(Standstill { stopped: begin.elapsed(), written })
    }

    // Hazard, never seen: a thread that seldom writes or reads more than there is room for does so at this moment for the first time. The call
    // returns what it had done so far.
    /// Fails if a thread is in a system call that a stop would end early, or that does not stop. One that ever was in a call that moves data, being
    /// of the `movers`, is not stopped while it runs: it may be in the middle of such a call.
    fn find_unstoppable(&self, movers: &mut HashSet<i32>) -> Result<(), Problem> {
        let mut found = Ok(());
        for (tid, call) in threads::calls(self.pid) {
            let runs = call.trim_end() == "running";
            if !runs && threads::parse(&call).is_none() {
                if threads::moves_data(&call) {
                    movers.insert(tid);
                }
                found = Err(unfit(tid, "it is in a system call that a stop would end"));
            } else if runs && movers.contains(&tid) {
                found = Err(unfit(tid, "it may be in a system call that a stop would end"));
            }
        }
        found?;
        for tid in self.thread_ids()? {
            let children = threads::text(format!("/proc/{}/task/{tid}/children", self.pid));
            let children = children.unwrap_or_default();
            let mut children = children.split_whitespace().filter_map(|child| child.parse().ok());
            if children.any(|child| share_memory(self.pid as i32, child)) {
                return Err(unfit(tid, "it has a child that shares its memory (vfork)"));
            }
            if threads::waits_for_more(self.pid, tid) {
                return Err(unfit(tid, "it waits for more than one byte, and may have part of it"));
            }
            // Its own: a filter may kill for the system call by which the kernel begins another one again.
            let status = threads::text(format!("/proc/{}/task/{tid}/status", self.pid));
            let filter = status.as_deref().ok().and_then(|it| threads::field(it, "Seccomp"));
            if filter.is_some_and(|mode| mode != "0") {
                return Err(unfit(tid, "it has a seccomp filter"));
            }
        }
        Ok(())
    }

    /// Stops all threads, those among them that are started meanwhile. Where it fails, those that were stopped go on.
    fn stop_all(&self) -> Result<Vec<(Traced, Registers)>, Problem> {
        let deadline = Instant::now() + MOST_STOPPED;
        let mut known = HashSet::new();
        let mut stopped = Vec::new();
        loop {
            let calls = threads::calls(self.pid).filter(|(tid, _)| known.insert(*tid));
            let (running, waiting): (Vec<_>, Vec<_>) =
                calls.partition(|(_, call)| call.trim_end() == "running");
            // As no thread runs any more, none is started.
            if running.is_empty() && waiting.is_empty() {
                return self.check_all(&known).map(|()| stopped);
            }
            let asked: Result<Vec<_>, Problem> =
                running.into_iter().map(|(tid, _)| self.ask_to_stop(tid)).collect();
            for traced in asked?.into_iter().flatten() {
                stopped.extend(until_stopped(traced, deadline)?);
            }
            // One after the other: if we are killed before such a thread has the registers that help it, its system call says EINTR.
            for (tid, _) in waiting {
                if let Some(traced) = self.ask_to_stop(tid)? {
                    stopped.extend(until_stopped(traced, deadline)?);
                }
            }
        }
    }

    /// Fails if a thread is not known of which the kernel said no system call.
    fn check_all(&self, known: &HashSet<i32>) -> Result<(), Problem> {
        match self.thread_ids()?.into_iter().find(|tid| !known.contains(tid) && !has_ended(*tid)) {
            Some(tid) => Err(unfit(tid, "the kernel does not tell what it does")),
            None => Ok(()),
        }
    }

    fn thread_ids(&self) -> Result<Vec<i32>, Problem> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid))?.flatten();
        Ok(tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect())
    }

    /// `None`: the thread has ended.
    fn ask_to_stop(&self, tid: i32) -> Result<Option<Traced>, Problem> {
        match Traced::seize(self.pid as i32, tid) {
            Ok(traced) => {
                traced.interrupt()?;
                Ok(Some(traced))
            }
            Err(_) if has_ended(tid) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The areas in which stacks may be, in their order.
    fn writable_areas(&self) -> Vec<Range<u64>> {
        let maps = fs::read(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let lines = maps.split(|&byte| byte == b'\n');
        let is_writable = |line: &&[u8]| {
            line.split(|&byte| byte == b' ').nth(1).is_some_and(|it| it.starts_with(b"rw"))
        };
        lines.filter(is_writable).map(crate::maps::range_of).collect()
    }

    /// The words on a thread's stack: a signal's handler may go back to one of them.
    fn stack(&self, areas: &[Range<u64>], registers: &Registers) -> Vec<u64> {
        let pointer = registers.rsp & !7;
        let next = areas.partition_point(|area| area.end <= pointer);
        // Nobody comes back from elsewhere.
        let area = areas.get(next).filter(|area| area.contains(&pointer));
        let end = area.map_or(pointer, |area| match registers.fs_base {
            // A thread's own record lies above its stack.
            record if (pointer..area.end).contains(&record) => record,
            _ => area.end,
        });
        let mut bytes = vec![0; (end - pointer).min(MOST_STACK_BYTES) as usize];
        // What cannot be read, the thread cannot read, either.
        let _ = self.memory.read_exact_at(&mut bytes, pointer);
        bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    fn write_all(&self, patches: &[Patch]) -> Result<usize, Problem> {
        let is_as_expected = |patch: &Patch| {
            let mut found = [0; 8];
            let found = &mut found[..patch.bytes];
            self.memory.read_exact_at(found, patch.address).is_ok()
                && [patch.before, patch.after].iter().any(|known| found == &known[..patch.bytes])
        };
        let others = patches.iter().filter(|patch| !is_as_expected(patch));
        let others: HashSet<u64> = others.map(|patch| patch.group).collect();
        let mut written = 0;
        for patch in patches.iter().filter(|patch| !others.contains(&patch.group)) {
            let (at, word) = patch.note;
            // If we end here, the note is wrong, and found to be so.
            self.memory.write_all_at(&word.to_le_bytes(), at)?;
            self.memory.write_all_at(&patch.after[..patch.bytes], patch.address)?;
            written += 1;
        }
        Ok(written)
    }
}

/// `None`: the thread has ended.
fn until_stopped(
    mut traced: Traced,
    deadline: Instant,
) -> Result<Option<(Traced, Registers)>, Problem> {
    match wait_for_stop_until(&mut traced, deadline)? {
        None => {}
        Some(_) if has_ended(traced.tid()) => return Ok(None),
        Some(why) => return Err(unfit(traced.tid(), why)),
    }
    let registers = traced.registers()?;
    // Whatever comes: no EINTR because of us.
    let helped = Resumption::of(&registers, true).helped;
    if helped.rax != registers.rax {
        traced.set_registers(&helped)?;
    }
    Ok(Some((traced, helped)))
}

/// Addresses of instructions that move, the first of each place not among them.
struct Moved {
    all: Range<u64>,
    ranges: Vec<Range<u64>>,
}

impl Moved {
    fn of(patches: &[Patch]) -> Self {
        let ranges = patches.iter().map(|patch| patch.address + 1..patch.end);
        let mut ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let all = match (ranges.first(), ranges.last()) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => 0..0,
        };
        Self { all, ranges }
    }

    fn contains(&self, address: u64) -> bool {
        let next = || self.ranges.partition_point(|range| range.end <= address);
        self.all.contains(&address)
            && self.ranges.get(next()).is_some_and(|range| range.contains(&address))
    }
}
