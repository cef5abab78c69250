//! The heap of a running Go program as a profile, weighted as `go tool pprof` weighs it, with the variances of that.

pub(crate) mod course;

pub use course::{Earlier, go_on_from};

use crate::failure::Failure;
use crate::file::Opened;
use crate::foreign::Foreign;
use crate::recording::Recording;
use crate::{marks, moment};
use course::{Look, MOST_LIVE, NoLook, Program, code_of, inverse_probability, name_of, others};
use ramson_import::{DropFrames, Format, Imported, InuseAt};
use ramson_paths::executable_identity;
use ramson_process::clock::unix_ns;
use ramson_process::go::{Bucket, GoHeap, NoGoHeap, heap_of};
use ramson_process::processes;
use ramson_profile::format::format_duration;
use ramson_profile::{
    Estimate, Location, Mapping, Profile, ReturnAddress, SampleType, StackSample,
};
use ramson_reader::Header;
use std::collections::{HashMap, HashSet};

/// Opens it. `None`: it is no Go program, or another user's.
pub fn open(pid: u32) -> Option<Result<Opened, Failure>> {
    match heap_of(pid)? {
        Ok(heap) => opened(pid, &heap),
        Err(defect) => Some(Err(unreadable(pid, &name_of(pid), &defect))),
    }
}

fn opened(pid: u32, heap: &GoHeap) -> Option<Result<Opened, Failure>> {
    let as_of = match heap.as_of_unix_ns {
        0 => "before the second collection".into(),
        end_ns => format!("of {} ago", format_duration(unix_ns().saturating_sub(end_ns))),
    };
    let origin = format!("process {pid}, Go's own heap profile {as_of}");
    let imported = imported(heap, code_of(pid, heap)?, &name_of(pid));
    let foreign = Foreign::of(&origin, Ok(imported), InuseAt::End);
    Some(foreign.map(|foreign| Opened::Foreign(Foreign { running: Some(pid), ..foreign })))
}

/// A Go program as if it were recorded. `None`: it is no Go program, or cannot be looked at. The first look goes on from the last one that a
/// history has, or a mark.
pub fn recording(pid: u32) -> Option<Result<Recording, Failure>> {
    let earlier = |header: &Header| moment::latest(header).or_else(|| marks::latest(header));
    Some(match course::look(pid, earlier)? {
        Ok(Look { snapshot, at_ns }) => Ok(Recording {
            snapshot,
            running: Some(pid),
            read_ns: at_ns,
            origin: format!("Go's own heap profile of process {pid}"),
            owner: None,
            names: None,
            past: None,
        }),
        Err(NoLook::Heap(defect)) => Err(unreadable(pid, &name_of(pid), &defect)),
        Err(NoLook::TooMany) => Err(Failure::failed(format!(
            "process {pid} ({}): more than {MOST_LIVE} sampled blocks are live. \"ramson report {pid}\" sums them",
            name_of(pid)
        ))),
    })
}

/// Looks at all Go programs but those that are known already.
pub fn running(known: &HashSet<u32>) -> Vec<Recording> {
    let mut others = others();
    let others = others.get_or_insert_default();
    let all: Vec<_> = processes::all().into_iter().filter(|pid| !known.contains(pid)).collect();
    let all = all.into_iter().filter_map(|pid| Some((pid, executable_identity(pid)?)));
    let all: HashSet<Program> = all.collect();
    others.retain(|other| all.contains(other));
    let mut found = Vec::new();
    for program in all.difference(&others.clone()) {
        match recording(program.0) {
            Some(Ok(recording)) => found.push(recording),
            _ => drop(others.insert(*program)),
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
    pub fn until_now(&self) -> Result<Opened, Failure> {
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
        opened(pid, &heap).ok_or_else(gone)?
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

fn imported(heap: &GoHeap, mappings: Vec<Mapping>, name: &str) -> Imported {
    let GoHeap { interval, .. } = heap;
    let mut profile = Profile {
        interval_bytes: *interval,
        time_unix_ns: unix_ns(),
        command: name.into(),
        mappings,
        ..Profile::default()
    };
    let mut known: HashMap<u64, u32> = HashMap::new();
    for bucket in heap.buckets.iter().filter(|bucket| bucket.allocated > 0) {
        let locations = bucket.stack.iter().map(|&address| {
            *known.entry(address).or_insert_with(|| {
                let has_it = |it: &Mapping| (it.start..it.end).contains(&address);
                profile.locations.push(Location {
                    mapping: profile.mappings.iter().position(has_it),
                    address: ReturnAddress(address).lookup(),
                    lines: Vec::new(),
                    offset: None,
                });
                profile.locations.len() as u32 - 1
            })
        });
        let locations = locations.collect();
        let values = values(bucket, *interval);
        profile.samples.push(StackSample { locations, values, ..StackSample::default() });
    }
    Imported {
        profile,
        format: Format::Go,
        sample_types: SampleType::ALL.into(),
        default_sample_type: SampleType::InuseSpace,
        drop_frames: DropFrames::Nothing,
        defects: Vec::new(),
    }
}

/// A block of s bytes is sampled with probability p = 1 − e^(−s/T), so each of n samples stands for 1/p blocks, with a variance of (1 − p)/p².
fn values(bucket: &Bucket, interval: u64) -> [Estimate; 4] {
    let size = bucket.size as f64;
    let p = 1.0 / inverse_probability(bucket.size, interval);
    let of = |samples: u64, unit: f64| match samples {
        0 => Estimate::new(0.0, 0.0),
        n => Estimate::new(n as f64 / p * unit, n as f64 * (1.0 - p) / (p * p) * unit * unit),
    };
    let live = bucket.allocated - bucket.freed;
    [of(bucket.allocated, 1.0), of(bucket.allocated, size), of(live, 1.0), of(live, size)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_weigh_as_go_tool_pprof_has_them() {
        let bucket = Bucket { at: 0, size: 100_000, allocated: 104, freed: 0, stack: vec![] };
        let [objects, _, _, live] = values(&bucket, 512 << 10);
        // scaleHeapSample(104, 10_400_000, 524_288) of runtime/pprof.
        assert_eq!((objects.value as u64, live.value as u64), (598, 59_891_155));
        assert!(objects.variance > 0.0);
        let [objects, space, ..] = values(&bucket, 1);
        assert_eq!((objects.value, space.value, space.variance), (104.0, 10_400_000.0, 0.0));
    }
}
