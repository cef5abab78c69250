//! The heap of a running Go program as if it were recorded.

mod course;
mod goroutines;

pub use course::{Earlier, go_on_from};
pub use goroutines::{Goroutines, goroutines};

use crate::failure::Failure;
use crate::recording::Recording;
use crate::{marks, moment};
use course::{Look, NoLook, Program, name_of, others};
use ramson_paths::executable_identity;
use ramson_process::go::{Bucket, GoHeap, NoGoHeap, heap_of};
use ramson_process::processes;
use ramson_reader::{Header, Snapshot};
use std::collections::{HashMap, HashSet};

/// A Go program as if it were recorded. `None`: it is no Go program, or cannot be looked at. The first look goes on from the last one that a
/// history has, or a mark.
pub fn recording(pid: u32) -> Option<Result<Recording, Failure>> {
    let earlier = |header: &Header| moment::latest(header).or_else(|| marks::latest(header));
    let look = course::look(pid, earlier)?;
    Some(look.map(|look| of_look(pid, look)).map_err(|defect| no_look(pid, defect)))
}

/// Adds what Go's runtime has sampled to the profile of a running process, if it is a Go program that uses C.
pub fn add(snapshot: &mut Snapshot, pid: u32) {
    let header = &snapshot.header;
    let earlier = |_: &Header| moment::latest(header).or_else(|| marks::latest(header));
    if let Some(of_go) = course::look_beside(pid, earlier) {
        course::add(snapshot, of_go);
    }
}

fn of_look(pid: u32, look: Look) -> Recording {
    Recording {
        snapshot: look.snapshot,
        running: Some(pid),
        read_ns: look.at_ns,
        origin: format!("Go's own heap profile of process {pid}"),
        owner: None,
        names: None,
        past: None,
    }
}

fn no_look(pid: u32, defect: NoLook) -> Failure {
    let name = name_of(pid);
    match defect {
        NoLook::Heap(defect) => unreadable(pid, &name, &defect),
        NoLook::TooMany(most) => Failure::failed(format!(
            "process {pid} ({name}): more than {most} sampled blocks are live. Raise its runtime.MemProfileRate, or pass the address of its /debug/pprof/heap to \"ramson report\""
        )),
    }
}

/// Looks at all Go programs but those that are known already.
pub fn running(known: &HashSet<u32>) -> Vec<Recording> {
    let all: Vec<_> = processes::all().into_iter().filter(|pid| !known.contains(pid)).collect();
    let all = all.into_iter().filter_map(|pid| Some((pid, executable_identity(pid)?)));
    let all: HashSet<Program> = all.collect();
    let known_others = {
        let mut others = others();
        let others = others.get_or_insert_default();
        others.retain(|other| all.contains(other));
        others.clone()
    };
    let mut found = Vec::new();
    // Another user's program may keep its reader waiting.
    for program in all.difference(&known_others) {
        match recording(program.0) {
            Some(Ok(recording)) => found.push(recording),
            _ => drop(others().get_or_insert_default().insert(*program)),
        }
    }
    found
}

/// A Go program's samples at one moment, from which on its allocations are counted. The runtime shows them when the next collection but one ends
/// (memRecord of runtime/mprof.go): after each collection those are seen that came before the one before it.
pub struct Allocations {
    pid: u32,
    before: GoHeap,
}

impl Allocations {
    /// Begins now. `None`: it is no Go program, or cannot be looked at.
    pub fn of(pid: u32) -> Option<Result<Self, Failure>> {
        let before = heap_of(pid)?.map_err(|defect| unreadable(pid, &name_of(pid), &defect));
        Some(before.map(|before| Self { pid, before }))
    }

    /// What was allocated by now. Nothing of it counts as live.
    pub fn until_now(&self) -> Result<Recording, Failure> {
        let Self { pid, ref before } = *self;
        let gone = || Failure::not_found(format!("process {pid}: it has ended"));
        let mut heap = heap_of(pid).and_then(Result::ok).ok_or_else(gone)?;
        let of = |bucket: &Bucket| bucket.allocated;
        let key = |bucket: &Bucket| (bucket.size, bucket.stack.clone());
        let known: HashMap<_, u64> = before.buckets.iter().map(|it| (key(it), of(it))).collect();
        for bucket in &mut heap.buckets {
            let earlier = known.get(&key(bucket)).copied().unwrap_or(0);
            bucket.allocated = bucket.allocated.saturating_sub(earlier);
            bucket.freed = bucket.allocated;
        }
        let look = course::look_once(pid, &heap).ok_or_else(gone)?;
        look.map(|look| of_look(pid, look)).map_err(|defect| no_look(pid, defect))
    }
}

/// Says why the heap of a Go program cannot be read.
pub fn unreadable(pid: u32, name: &str, defect: &NoGoHeap) -> Failure {
    let why = match defect {
        NoGoHeap::Off => {
            "Go's heap profile is off (MemProfileRate is 0, for example because the program does not use runtime/pprof). Import net/http/pprof"
        }
        NoGoHeap::Old(version) => {
            let version = if version.is_empty() { "built with Go 1.17 or older" } else { version };
            &format!("{version}: only Go 1.21 and newer can be read. Build it with a newer Go")
        }
        NoGoHeap::Unreadable(version) => &format!(
            "ramson cannot find the heap data of {version}. For report, pass the address of its /debug/pprof/heap"
        ),
    };
    Failure::not_found(format!("process {pid} ({name}): {why}"))
}
