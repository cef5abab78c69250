//! Calls one function in another process, on a thread of it that waits or runs the program's own code.
//!
//! **Promises.** Only that thread stops. It has its registers, processor state, blocked signals and
//! errno again afterwards, and its system call is begun again by the kernel's own rules. If the tracer
//! dies in the middle, the thread finds its way back by itself (frame.rs); its system call is then
//! begun anew, time-outs included. See docs/internals/trim.md.
//!
//! `write_code` stops all threads, makes no call, and lets them go on (docs/internals/inside.md).

#![deny(unsafe_code)]

mod borrow;
mod frame;
mod identity;
mod library;
mod maps;
#[allow(unsafe_code)]
mod patience;
mod problem;
#[allow(unsafe_code)]
mod query;
mod resumption;
mod seccomp;
mod standstill;
mod threads;
#[allow(unsafe_code)]
mod trace;
mod waits;

pub use borrow::Process;
pub use library::{Code, Library};
pub use problem::{Problem, Seccomp};
pub use standstill::{Patch, Standstill, write_code};
pub use trace::{share_memory, will_end_soon};

use std::collections::HashSet;
use std::time::{Duration, Instant};
use threads::Candidate;

/// For a thread that will do.
const PATIENCE: Duration = Duration::from_secs(5);
/// For the function to return.
pub const CALL_LIMIT: Duration = Duration::from_secs(60);
/// Between two looks for a thread: the first of these while only threads that wait are tried, then longer, up to the second.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const MOST_PAUSE: Duration = Duration::from_millis(200);
/// How long only threads that wait are tried: one that runs has something to do, and a stop may shorten what it writes.
const WAITING_FIRST: Duration = Duration::from_millis(100);
/// How long no thread that has children is tried, if there are others: see `threads::is_told_of_children`. In a process with thousands of threads on
/// a busy machine, one look takes that long.
const CHILDLESS_FIRST: Duration = Duration::from_secs(1);
const CHILDLESS_LOOKS: usize = 8;
/// Threads of each kind that are stopped in one look for one that will do, besides the first thread of the process.
const MOST_ATTEMPTS: usize = 8;

/// The calls to make, and how.
pub struct Call<'a> {
    /// Made one after the other on the same thread.
    pub steps: &'a [Step<'a>],
    /// The pieces of the C library that it returns through.
    pub code: &'a Code,
    /// Whether filters of system calls are not looked at meanwhile. If the tracer dies then, they are again, and may kill the process.
    pub suspends_seccomp: bool,
    /// Purpose of the call, by which its filters are judged.
    pub purpose: Purpose,
    /// Whether `is_safe` sees all locks that the function takes; else fewer threads may be borrowed.
    pub are_locks_seen: bool,
}

/// Purpose of a call, which tells the system calls that it may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An allocator returns memory, or tells its figures.
    Allocator,
    /// A library is loaded, which then records.
    Library,
}

/// One call of a function.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// Its address in the process.
    pub function: u64,
    /// At most six; the others are 0.
    pub arguments: &'a [Argument],
    /// Bytes that the arguments may point to, and that the function may write to.
    pub data: &'a [u8],
    /// Asked before it, while the thread is stopped: if it says no, the step is left out.
    pub condition: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl<'a> Step<'a> {
    /// One without data or a condition.
    pub const fn new(function: u64, arguments: &'a [Argument]) -> Self {
        Self { function, arguments, data: &[], condition: None }
    }
}

/// An argument.
#[derive(Clone, Copy)]
pub enum Argument {
    /// A number.
    Word(u64),
    /// A pointer to the step's data, from this offset on.
    Data(usize),
}

impl Argument {
    /// Returns the value of the argument if the step's data are at `data`.
    fn value(self, data: u64) -> u64 {
        match self {
            Self::Word(word) => word,
            Self::Data(offset) => data + offset as u64,
        }
    }
}

/// How a call went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The thread.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// How long it was stopped, the call included.
    pub stopped: Duration,
    /// The calls alone.
    pub called: Duration,
    /// The data of each step, as the function left it.
    pub data: Vec<Vec<u8>>,
}

/// Makes the calls in a process, as long as it runs the program that it ran when it was opened. `is_safe` is asked while the thread is stopped;
/// what it returns says why not on this thread.
pub fn call(
    process: &Process,
    call: &Call,
    is_safe: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Called, Problem> {
    let pid = process.pid;
    let begin = Instant::now();
    let mut why = None;
    let mut pause = FIRST_PAUSE;
    let mut look = 0;
    let mut stuck = Vec::new();
    // Once it runs, one that has had children may be starting the next.
    let mut parents = HashSet::new();
    loop {
        let elapsed = begin.elapsed();
        let may_be_parent = elapsed >= CHILDLESS_FIRST && look >= CHILDLESS_LOOKS;
        let mut candidates = |all: Vec<i32>, runs| {
            let is_fit = |tid: &i32| {
                if !may_be_parent && threads::is_told_of_children(pid, *tid) {
                    parents.insert(*tid);
                }
                may_be_parent || !parents.contains(tid)
            };
            let chosen = threads::chosen(all, pid as i32, MOST_ATTEMPTS, is_fit);
            chosen.into_iter().map(move |tid| Candidate { tid, runs, may_be_parent })
        };
        let waiting = threads::waiting(pid, call.are_locks_seen);
        let mut threads: Vec<Candidate> = candidates(waiting, false).collect();
        let is_late = elapsed >= WAITING_FIRST;
        if is_late {
            let mut running = threads::running(pid);
            // Another one first at each look.
            let first = look % running.len().max(1);
            running.rotate_left(first);
            threads.extend(candidates(running, true));
        }
        look += 1;
        let mut forbidden = None;
        for thread in threads {
            // One that does not stop takes seconds.
            if begin.elapsed() > PATIENCE {
                break;
            }
            if stuck.contains(&thread.tid) {
                continue;
            }
            match process.attempt(thread, call, is_safe, &mut stuck) {
                Err(Problem::NoThread(reason)) => why = reason,
                // Each thread has its own filters, and waits elsewhere.
                Err(Problem::Seccomp(reason)) => forbidden = Some(reason),
                done => return done,
            }
        }
        if let Some(reason) = forbidden {
            return Err(Problem::Seccomp(reason));
        }
        if begin.elapsed() > PATIENCE {
            return Err(Problem::NoThread(why));
        }
        std::thread::sleep(pause);
        if is_late {
            pause = (pause * 2).min(MOST_PAUSE);
        }
    }
}
