//! What stands behind the parts of RSS: files and shared memory by name, binaries by the bytes of their variables, and ended threads.

use crate::areas::{Area, Backing, area_at};
use crate::asked::MOST_BYTES;
use crate::rss::Known;
use crate::variables::begins_with_variables;
use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Of each kind, so many are told.
const MOST: usize = 4;
/// Pages of which less than this share is divided with other processes are this process's own.
const OWN_SHARE: f64 = 0.98;

/// What stands behind the parts of RSS, the largest first.
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
    /// Resident bytes of it, each counted once, however often this process has mapped it.
    pub distinct_bytes: u64,
    /// Whether other processes have mapped some of these bytes, too.
    pub is_elsewhere: bool,
}

impl Details {
    /// By the areas and what else is known of the process.
    pub(crate) fn of(areas: &[Area], known: &Known) -> Self {
        let mut files = Objects::default();
        let mut shared_memory = Objects::default();
        let mut variables = Objects::default();
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
                    if area.is_writable() {
                        variables.add(area, area.anonymous);
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
            variables: variables.largest(),
            parent: None,
            ended_threads: stacks.ended.len() as u64,
            ended_function: stacks.ended_function.and_then(place),
        }
    }

    /// Whether its numbers can be added up.
    pub(crate) fn is_possible(&self) -> bool {
        let mut all = self.files.iter().chain(&self.shared_memory).chain(&self.variables);
        all.all(|one| one.bytes <= MOST_BYTES && one.distinct_bytes <= MOST_BYTES)
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

impl Object<'_> {
    fn mapped(&self) -> Mapped {
        // Parts of the object that are mapped alike count once.
        let mut parts: HashMap<(u64, u64), (u64, u64)> = HashMap::new();
        for area in &self.areas {
            let (times, most) = parts.entry((area.offset, area.end - area.start)).or_default();
            *times += 1;
            *most = area.rss.max(*most);
        }
        let distinct_bytes: u64 = parts.values().map(|(_, bytes)| bytes).sum();
        Mapped {
            path: self.areas[0].path.clone(),
            bytes: self.bytes,
            times: parts.values().map(|&(times, _)| times).max().unwrap_or(0),
            distinct_bytes: distinct_bytes.min(self.bytes),
            is_elsewhere: (self.pss as f64) < OWN_SHARE * distinct_bytes as f64,
        }
    }
}
