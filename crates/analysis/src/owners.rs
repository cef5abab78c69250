//! Who has the memory that did not come from malloc: the objects that mapped it, and the allocators inside of them.

use crate::inside;
use ramson_process::allocators::{ATTACH_INSIDE, IN_EXECUTABLE};
use ramson_process::identify::base_name;
use ramson_process::{Presence, ProcessMemory, executable};
use ramson_profile::format::format_bytes;
use ramson_reader::Snapshot;
use serde::Serialize;
use std::collections::BTreeMap;

/// Name of memory of which no more is known.
const POOL: &str = "mapped by a pool or an allocator of the program's own";
/// Less than this share of it is not worth a word.
const LEAST_SHARE: f64 = 0.02;
/// Objects that map for others.
const LIBRARIES: [&str; 4] =
    ["libc.so.6", "libramson.so", "libstdc++.so.6", "ld-linux-x86-64.so.2"];

/// An owner of memory outside malloc.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Owner {
    /// Name of the owner, as a phrase.
    pub name: String,
    /// Resident bytes.
    pub bytes: u64,
}

/// Returns the owners of `outside_bytes` bytes outside malloc, those with the most first.
pub fn owners(pid: u32, snapshot: &Snapshot, outside_bytes: u64) -> Vec<Owner> {
    let mut of_objects: BTreeMap<&str, u64> = BTreeMap::new();
    if let Ok(memory) = ProcessMemory::open(pid) {
        for extent in &snapshot.extents {
            let end = extent.start + extent.bytes;
            let presence = Presence::of(&memory, extent.start, end);
            let resident = presence.map_or(0, |there| there.resident_bytes(extent.start, end));
            if let Some(object) = object_of(snapshot, extent.stack) {
                *of_objects.entry(object).or_default() += resident;
            }
        }
    }
    let least = (LEAST_SHARE * outside_bytes as f64) as u64;
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    let mut rest = outside_bytes;
    for (object, bytes) in of_objects.into_iter().filter(|&(_, bytes)| bytes > least) {
        let bytes = bytes.min(rest);
        *by_name.entry(name(pid, object, snapshot)).or_default() += bytes;
        rest -= bytes;
    }
    if rest > least {
        *by_name.entry(unnamed(pid, snapshot)).or_default() += rest;
    }
    let mut all: Vec<Owner> =
        by_name.into_iter().map(|(name, bytes)| Owner { name, bytes }).collect();
    all.sort_by_key(|owner| std::cmp::Reverse(owner.bytes));
    all
}

/// The file whose code made an extent.
fn object_of(snapshot: &Snapshot, stack: usize) -> Option<&str> {
    let stack = &snapshot.stacks[stack];
    let objects = stack.frames.iter().filter_map(|&address| {
        let mapping = snapshot.mapping_at(address, stack.epoch)?;
        Some(snapshot.mappings[mapping].path.as_str())
    });
    let mut own = objects.filter(|path| !LIBRARIES.contains(&base_name(path)));
    own.next()
}

fn name(pid: u32, object: &str, snapshot: &Snapshot) -> String {
    if let Some(runtime) = executable::runtime_in(object) {
        return runtime.into();
    }
    if object == snapshot.header.exe {
        return unnamed(pid, snapshot);
    }
    let file = base_name(object);
    match executable::allocators_in(pid, object).as_slice() {
        [] => format!("mapped by {file}"),
        found => because(
            format!("{} inside {file}", found.join(" or ")),
            inside::obstacle(snapshot, object),
        ),
    }
}

/// Whose memory most of it is that did not come from the C library's malloc, by what the executable contains.
pub fn of_heap(pid: u32, snapshot: Option<&Snapshot>) -> Option<String> {
    let hooked = snapshot.and_then(|snapshot| {
        let mut all = inside::of(snapshot).into_iter();
        all.find(|it| it.object.is_empty() && !it.hooked.is_empty())
    });
    if let Some(it) = hooked {
        return Some(format!("{}'s, free or its own", it.allocator));
    }
    let owner = executable::heap_owner(pid)?;
    if !owner.ends_with(IN_EXECUTABLE) {
        return Some(owner);
    }
    let why = match snapshot {
        Some(snapshot) => inside::obstacle(snapshot, &snapshot.header.exe),
        None => Some(ATTACH_INSIDE.into()),
    };
    Some(because(owner, why))
}

fn because(owner: String, why: Option<String>) -> String {
    match why {
        Some(why) => format!("{owner} ({why})"),
        None => owner,
    }
}

/// The owner of memory of which only the process is known.
pub fn unnamed(pid: u32, snapshot: &Snapshot) -> String {
    of_heap(pid, Some(snapshot)).unwrap_or_else(|| POOL.into())
}

/// How to see into a run time's own memory.
pub fn how_to_see(owner: &str, pid: u32) -> Option<String> {
    let of = |part: &str| owner.contains(part);
    let how = if of("V8") {
        "restart node with --heapsnapshot-signal=SIGUSR2, then send SIGUSR2 to the new process; without that option, the signal ends it"
    } else if of("Java") {
        return Some(format!("jcmd {pid} GC.heap_dump FILE"));
    } else if of("Go heap") {
        return Some(format!("ramson report {pid}, or go tool pprof http://…/debug/pprof/heap"));
    } else if of(".NET") {
        return Some(format!("dotnet-gcdump collect -p {pid}"));
    } else {
        return None;
    };
    Some(how.into())
}

/// `248 MiB jemalloc inside polars.abi3.so; 8.00 MiB Python's own arenas`; of one, without its bytes.
pub fn text(owners: &[Owner]) -> String {
    match owners {
        [only] => only.name.clone(),
        all => {
            let one = |of: &Owner| format!("{} {}", format_bytes(of.bytes as f64), of.name);
            all.iter().map(one).collect::<Vec<_>>().join("; ")
        }
    }
}
