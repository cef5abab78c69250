//! Reads everything that `doctor` shows: the mappings, the allocator and its books, the limits.

use super::ask::{self, Asked};
use super::pins::{self, Pins};
use super::target::{Target, gone};
use crate::cli::DoctorOptions;
use crate::failure::Failure;
use crate::{list, rss};
use ramson_process::allocators::{Allocators, Missing};
use ramson_process::cgroup::{self, Limit};
use ramson_process::glibc::{Books, Effort};
use ramson_process::rights;
use ramson_process::{
    Explained, Mapping, Part, ProcessMemory, explain, padding, read_smaps, thread_stacks,
};
use ramson_profile::Estimate;
use std::fs;
use std::io::ErrorKind;

/// Times that everything is read again because it moved meanwhile.
const MOST_TRIES: u32 = 3;
/// Arenas of so many resident bytes in all are walked, larger ones surveyed.
pub const MOST_WALKED_BYTES: u64 = 64 << 20;
/// So much of RSS, or so many bytes, may move without a second look.
const STILL_SHARE: f64 = 0.01;
const STILL_BYTES: i64 = 256 << 10;
/// tmpfs, in what statfs(2) says.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// What was found.
pub struct Finding {
    pub pid: u32,
    pub name: String,
    pub explained: Explained,
    pub allocators: Allocators,
    /// The C library's books, or why there are none.
    pub books: Result<Books, Missing>,
    /// What an allocator whose books cannot be read said when it was asked, or why it was not; `None` if it was not to be.
    pub asked: Option<Result<Asked, String>>,
    /// By the profile, if there is one. Where the allocator tells nothing, it is what lives.
    pub live: Option<Estimate>,
    pub limit: Option<Limit>,
    /// Page tables, which no process's RSS contains.
    pub page_tables: Option<u64>,
    /// Who holds back what is kept; `None` without a profile or books.
    pub pins: Option<Pins>,
}

/// Looks at a process, without stopping it unless its allocator is to be asked.
pub fn examine(target: &Target, options: &DoctorOptions) -> Result<Finding, Failure> {
    let effort = if options.exact { Effort::Exact } else { Effort::Survey(MOST_WALKED_BYTES) };
    let mut mappings = read_mappings(target)?;
    let allocators = Allocators::of(target.pid, &mappings);
    let memory = ProcessMemory::open(target.pid).map_err(|error| denied(target.pid, &error));
    let mut tries = 0;
    let profile = target.profile.as_ref().map(|source| source.origin.as_str());
    let (mut explained, books) = loop {
        tries += 1;
        let books = match &memory {
            Ok(memory) => allocators.books(memory, &mappings, effort),
            Err(why) => Err(why.clone()),
        };
        let (memory, books_read) = (memory.as_ref().ok(), books.as_ref().ok());
        let explained = explain_mappings(target.pid, profile, &mappings, memory, books_read);
        let moved = explained.part(Part::Moved).abs();
        let is_still = moved <= STILL_BYTES.max((explained.rss as f64 * STILL_SHARE) as i64);
        if is_still || tries == MOST_TRIES {
            break (explained, books);
        }
        mappings = read_mappings(target)?;
    };
    let asked = (options.ask && books.is_err())
        .then(|| ask::ask(target, &mappings, &allocators).map_err(|failure| failure.to_string()));
    if let Some(Ok(asked)) = &asked {
        mappings = read_mappings(target)?;
        explained = explain_mappings(target.pid, profile, &mappings, memory.as_ref().ok(), None);
        explained.divide_anonymous(&asked.parts);
    }
    let live = target.profile.as_ref().map(list::live_bytes);
    let is_divided = books.is_ok() || matches!(asked, Some(Ok(_)));
    if let (Some(live), false) = (live, is_divided) {
        explained.divide_anonymous(&[(Part::Live, live.value.round() as u64)]);
    }
    let pins = match (&target.profile, &memory, &books) {
        (Some(source), Ok(memory), Ok(books)) => {
            Some(pins::pins(source, memory, books, &options.names)?)
        }
        _ => None,
    };
    Ok(Finding {
        pid: target.pid,
        name: target.name.clone(),
        explained,
        allocators,
        books,
        asked,
        live,
        limit: cgroup::of(target.pid),
        page_tables: page_tables(target.pid),
        pins,
    })
}

impl Finding {
    /// Whether what the allocator has is told from the rest.
    pub fn is_divided(&self) -> bool {
        self.books.is_ok() || matches!(self.asked, Some(Ok(_)))
    }
}

fn read_mappings(target: &Target) -> Result<Vec<Mapping>, Failure> {
    let mappings = read_smaps(target.pid).map_err(|_| gone(target))?;
    if mappings.is_empty() { Err(gone(target)) } else { Ok(mappings) }
}

fn denied(pid: u32, error: &std::io::Error) -> Missing {
    match error.kind() {
        ErrorKind::PermissionDenied => Missing::Denied {
            why: format!("its memory may not be read{}", rights::scope()),
            next: rights::next_step(pid),
        },
        _ => Missing::Refused(format!("its memory cannot be read: {error}")),
    }
}

/// What an allocator has of the memory that the program freed. Bytes that are resident.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeptFree {
    pub bytes: u64,
    /// 0 where every chunk was read.
    pub half_width_95: f64,
}

/// Of the C library's malloc, in one reading; `None` where its books cannot be read. `allocators` are found if they are not there.
pub fn kept_free(pid: u32, profile: &str, allocators: &mut Option<Allocators>) -> Option<KeptFree> {
    let mappings = read_smaps(pid).ok()?;
    let memory = ProcessMemory::open(pid).ok()?;
    let allocators = allocators.get_or_insert_with(|| Allocators::of(pid, &mappings));
    let books = allocators.books(&memory, &mappings, Effort::Survey(MOST_WALKED_BYTES)).ok()?;
    let explained = explain_mappings(pid, Some(profile), &mappings, Some(&memory), Some(&books));
    let half_width_95 = if books.is_surveyed() { books.half_width_95_bytes() } else { 0.0 };
    Some(KeptFree { bytes: u64::try_from(explained.kept_free()).ok()?, half_width_95 })
}

fn explain_mappings(
    pid: u32,
    profile: Option<&str>,
    mappings: &[Mapping],
    memory: Option<&ProcessMemory>,
    books: Option<&Books>,
) -> Explained {
    let stacks = memory.map_or(Vec::new(), |memory| thread_stacks(memory, mappings));
    let pointers = rss::stack_pointers(pid);
    let is_stack = |mapping: &Mapping| {
        mapping.path == "[stack]"
            || stacks.contains(&mapping.start)
            || mapping.path != "[heap]" && pointers.iter().any(|&pointer| mapping.contains(pointer))
    };
    let is_shmem = |mapping: &Mapping| {
        let path = format!("/proc/{pid}/root{}", mapping.path);
        rustix::fs::statfs(path).is_ok_and(|system| system.f_type == TMPFS_MAGIC)
    };
    let padding = |mapping: &Mapping| memory.map_or(0, |memory| padding(memory, mapping));
    explain(mappings, books, is_stack, is_shmem, padding, profile)
}

fn page_tables(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}
