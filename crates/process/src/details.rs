//! Names and counts behind the parts of RSS: files and shared memory, binaries by the bytes of their variables, and ended threads.

use crate::areas::{Area, Backing, area_at};
use crate::asked::MOST_BYTES;
use crate::rss::{Known, binaries};
use crate::variables::begins_with_variables;
use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Of each kind, so many are told.
const MOST: usize = 4;
/// Pages of which less than this share is divided with other processes are this process's own.
const OWN_SHARE: f64 = 0.98;

/// Names and counts behind the parts of RSS, the largest first.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Serialize,
    schemars::JsonSchema,
    BorshSerialize,
    BorshDeserialize,
)]
pub struct Details {
    /// Mapped files, without the private pages that are no file's any more.
    pub files: Vec<Mapped>,
    /// Shared memory.
    pub shared_memory: Vec<Mapped>,
    /// Files of which the process has written to private pages, with the bytes of these.
    pub written: Vec<Mapped>,
    /// Binaries, with the bytes of their variables.
    pub variables: Vec<Mapped>,
    /// The process that forked this one, where both run the same program.
    pub parent: Option<u64>,
    /// Threads that have ended and that no thread has joined.
    pub ended_threads: u64,
    /// The binary that has the function with which most of these began, and the function's offset in that file.
    #[serde(skip)]
    pub ended_function: Option<(String, u64)>,
}

/// A file or shared memory that the process has mapped.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Serialize,
    schemars::JsonSchema,
    BorshSerialize,
    BorshDeserialize,
)]
pub struct Mapped {
    /// As /proc/PID/maps names it.
    pub path: String,
    /// Bytes of it in RSS.
    pub bytes: u64,
    /// How often this process has mapped the part of it that it has mapped most often.
    pub times: u64,
    /// Resident bytes of it, each counted once, however often this process has mapped it; at least so many, if other processes have it, too.
    pub distinct_bytes: u64,
    /// Proportional: each page divided by how often it is mapped, by this process and by others. Bytes.
    pub pss: u64,
    /// Device and inode, by which files of the same name are told apart.
    #[serde(skip)]
    pub id: (u64, u64),
    /// Whether other processes have mapped some of these bytes, too.
    pub is_elsewhere: bool,
}

impl Details {
    /// By the areas and what else is known of the process.
    pub(crate) fn of(areas: &[Area], known: &Known) -> Self {
        let binaries = binaries(areas);
        let mut files = Objects::default();
        let mut shared_memory = Objects::default();
        let mut variables = Objects::default();
        let mut written = Objects::default();
        for (index, area) in areas.iter().enumerate() {
            let previous = index.checked_sub(1).map(|before| &areas[before]);
            match area.backing() {
                Backing::Anonymous if begins_with_variables(area, previous) => {
                    let end = known.sight.end_of_variables(area).unwrap_or(area.end);
                    let bytes = known.resident_bytes(area, area.start..end);
                    variables.add(previous.unwrap_or(area), bytes);
                }
                Backing::Anonymous | Backing::Kernel => {}
                Backing::Shmem => shared_memory.add(area, not_private(area)),
                Backing::File if known.tmpfs_devices.contains(&area.device) => {
                    shared_memory.add(area, not_private(area));
                }
                Backing::File => {
                    files.add(area, not_private(area));
                    if binaries.contains(area.path.as_str()) {
                        variables.add(area, area.anonymous);
                    } else {
                        written.add(area, area.anonymous);
                    }
                }
            }
        }
        let stacks = &known.sight.stacks;
        let place = |address| {
            let area = area_at(areas, address)?;
            Some((area.path.clone(), address - area.start + area.offset))
        };
        Self {
            files: files.largest(),
            shared_memory: shared_memory.largest(),
            written: written.largest(),
            variables: variables.largest(),
            parent: None,
            ended_threads: stacks.ended.len() as u64,
            ended_function: stacks.ended_function.and_then(place),
        }
    }

    /// Whether its numbers can be added up.
    pub(crate) fn is_possible(&self) -> bool {
        let all = [&self.files, &self.shared_memory, &self.written, &self.variables];
        let is_possible =
            |one: &Mapped| one.bytes.max(one.distinct_bytes).max(one.pss) <= MOST_BYTES;
        all.into_iter().flatten().all(is_possible)
    }
}

/// Resident bytes that are still the file's.
fn not_private(area: &Area) -> u64 {
    area.rss.saturating_sub(area.anonymous)
}

/// Areas by the object that they map: device and inode, or the name where there is no inode.
#[derive(Default)]
struct Objects<'a>(HashMap<(u64, u64, &'a str), Object<'a>>);

#[derive(Default)]
struct Object<'a> {
    bytes: u64,
    pss: u64,
    areas: Vec<&'a Area>,
}

impl<'a> Objects<'a> {
    fn add(&mut self, area: &'a Area, bytes: u64) {
        let name = if area.inode == 0 { area.path.as_str() } else { "" };
        let object = self.0.entry((area.device, area.inode, name)).or_default();
        object.bytes += bytes;
        object.pss += area.pss;
        object.areas.push(area);
    }

    fn largest(self) -> Vec<Mapped> {
        let mut all: Vec<Object> = self.0.into_values().filter(|object| object.bytes > 0).collect();
        all.sort_by_key(|object| (Reverse(object.bytes), object.areas[0].start));
        all.truncate(MOST);
        all.iter().map(Object::mapped).collect()
    }
}

/// First byte in the object that an area maps, and the first one behind.
fn span(area: &Area) -> (u64, u64) {
    (area.offset, area.offset.saturating_add(area.end - area.start))
}

/// Resident bytes of areas that map no part of the object twice, chosen so that they have the most: at least so much of it is there.
fn most_apart(areas: &[&Area]) -> u64 {
    let mut sorted: Vec<&Area> = areas.to_vec();
    sorted.sort_by_key(|area| span(area).1);
    // Up to each end, the most that areas which end there or before have.
    let mut most: Vec<(u64, u64)> = vec![(0, 0)];
    for area in sorted {
        let (start, end) = span(area);
        let before = most.partition_point(|&(end, _)| end <= start) - 1;
        let bytes = area.rss.saturating_add(most[before].1);
        most.push((end, bytes.max(most[most.len() - 1].1)));
    }
    most[most.len() - 1].1
}

/// How many areas map the byte of the object that most of them map.
fn most_times(areas: &[&Area]) -> u64 {
    let ends = areas.iter().flat_map(|area| [(span(area).0, 1), (span(area).1, -1)]);
    let mut ends: Vec<(u64, i64)> = ends.collect();
    // What ends at an address does so before the next one begins there.
    ends.sort_unstable();
    let mut times = 0;
    ends.iter().fold(0, |now, (_, change)| {
        times = times.max(now + change);
        now + change
    });
    times as u64
}

impl Object<'_> {
    fn mapped(&self) -> Mapped {
        let apart = most_apart(&self.areas);
        let Area { path, device, inode, .. } = self.areas[0];
        Mapped {
            path: path.clone(),
            bytes: self.bytes,
            times: most_times(&self.areas),
            // If nobody else has it, each page's shares add up to it.
            distinct_bytes: apart.max(self.pss).min(self.bytes),
            is_elsewhere: (self.pss as f64) < OWN_SHARE * apart as f64,
            pss: self.pss,
            id: (*device, *inode),
        }
    }
}
