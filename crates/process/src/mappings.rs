//! The mappings of a process, as the kernel tells them when it is asked for one after the other (PROCMAP_QUERY, Linux 6.11), else as the text of
//! /proc/PID/maps. A process may have very many, with paths of 4 KiB each, which take the kernel more time than everything else: only names that
//! tell something are asked for.

use crate::asked::MAPPINGS;
use crate::watched::{self, noted};
use crate::{areas, remote};
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, proc};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::vec;

/// The path of a file whose name was not asked for.
pub const UNNAMED: &str = "/…";

/// Told at once.
const BATCH: usize = 1 << 12;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// `rw-p` and the like.
    pub access: [u8; 4],
    /// Offset in the file.
    pub offset: u64,
    /// Device of the file; 0 if there is no file.
    pub device: u64,
    /// Inode of the file; 0 if there is no file.
    pub inode: u64,
    /// File, `[heap]`, a name that the program gave it, or empty. A file that is neither mapped as code there nor shared may have no name of its own
    /// here: `/…`.
    pub path: String,
}

impl Mapping {
    /// By its line in /proc/PID/maps.
    pub fn parse(line: &str) -> Option<Self> {
        let number = |text| u64::from_str_radix(text, 16).ok();
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        Some(Self {
            start: number(start)?,
            end: number(end)?,
            access: fields.next()?.as_bytes().try_into().ok()?,
            offset: number(fields.next()?)?,
            device: areas::device(fields.next()?)?,
            inode: fields.next()?.parse().ok()?,
            path: fields.next().unwrap_or_default().trim_start().to_owned(),
        })
    }

    /// Whether it is mapped as code.
    pub fn is_code(&self) -> bool {
        self.access[2] == b'x'
    }
}

/// Those of one process, in the order of their addresses.
pub struct Mappings(Source);

enum Source {
    Asked(Asked),
    Text(Box<dyn Iterator<Item = String>>),
}

/// The kernel, that is asked for a batch after the other.
struct Asked {
    pid: u32,
    maps: Maps,
    of_files: bool,
    next: Option<u64>,
    batch: vec::IntoIter<Mapping>,
}

enum Maps {
    Ours(File),
    Theirs(Apart),
}

/// The mappings of process `pid`. A process that is just gone has none.
pub fn mappings(pid: u32) -> io::Result<Mappings> {
    open(pid, false)
}

/// The same without memory that is no file's, where the kernel can be asked.
pub fn mappings_of_files(pid: u32) -> io::Result<Mappings> {
    open(pid, true)
}

fn open(pid: u32, of_files: bool) -> io::Result<Mappings> {
    let maps = match watched::opened_as_ours(pid, "maps")? {
        Ok(maps) => Maps::Ours(maps),
        Err(by) => Maps::Theirs(by),
    };
    let batch = Vec::new().into_iter();
    let mut asked = Asked { pid, maps, of_files, next: Some(0), batch };
    match asked.fill() {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            Ok(Mappings(Source::Text(Box::new(watched::lines(pid, "maps")?))))
        }
        filled => filled.map(|()| Mappings(Source::Asked(asked))),
    }
}

impl Iterator for Mappings {
    type Item = Mapping;

    fn next(&mut self) -> Option<Mapping> {
        match &mut self.0 {
            Source::Text(lines) => lines.find_map(|line| Mapping::parse(&line)),
            Source::Asked(asked) => {
                if asked.batch.len() == 0 {
                    // Whoever did not answer is noted.
                    asked.fill().ok()?;
                }
                asked.batch.next()
            }
        }
    }
}

impl Asked {
    fn fill(&mut self) -> io::Result<()> {
        let Some(at) = self.next else { return Ok(()) };
        let batch = match &self.maps {
            Maps::Ours(maps) => batch(maps, at, self.of_files),
            Maps::Theirs(by) => {
                let batch = by.ask_for(MAPPINGS, &(self.pid, at, self.of_files));
                let batch = batch.map_err(|failure| noted(self.pid, failure))?;
                Some(batch).filter(|batch| are_valid(batch, at)).ok_or(Failure::BadAnswer)?
            }
        };
        let batch = batch.ok_or(ErrorKind::Unsupported)?;
        self.next = batch.last().map(|last| last.end).filter(|_| batch.len() == BATCH);
        self.batch = batch.into_iter();
        Ok(())
    }
}

fn are_valid(batch: &Option<Vec<Mapping>>, at: u64) -> bool {
    let batch = batch.as_deref().unwrap_or_default();
    let follow = |pair: &[Mapping]| pair[0].end <= pair[1].start;
    let is_whole = |mapping: &Mapping| {
        mapping.start < mapping.end && mapping.access.iter().all(u8::is_ascii_graphic)
    };
    batch.len() <= BATCH
        && batch.iter().all(is_whole)
        && batch.windows(2).all(follow)
        // One that grew meanwhile may begin before.
        && batch.first().is_none_or(|first| first.end > at)
}

/// The same of a process, by this process.
pub(crate) fn batch_of(pid: u32, at: u64, of_files: bool) -> Option<Vec<Mapping>> {
    batch(&proc::open(&format!("{pid}/maps")).ok()?, at, of_files)
}

/// The mappings from `at` on, `BATCH` of them if there are as many; `None` where the kernel cannot be asked.
fn batch(maps: &File, mut at: u64, of_files: bool) -> Option<Vec<Mapping>> {
    let mut batch = Vec::new();
    while batch.len() < BATCH {
        match remote::mapping(maps, at, of_files) {
            Ok(Some(mapping)) => {
                at = mapping.end;
                batch.push(mapping);
            }
            Ok(None) => break,
            Err(_) => return None,
        }
    }
    Some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read_to_string;

    fn text() -> Vec<Mapping> {
        let text = read_to_string("/proc/self/maps").unwrap();
        text.lines().map(|line| Mapping::parse(line).unwrap()).collect()
    }

    #[test]
    fn kernel_batch_agrees_with_text() {
        let maps = File::open("/proc/self/maps").unwrap();
        // Other tests map and unmap meanwhile.
        for _ in 0..1000 {
            let before = text();
            let told = batch(&maps, 0, false);
            let after = text();
            let Some(told) = told else {
                let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
                let mut numbers = release.split('.').map(|number| number.parse::<u32>().ok());
                let is_there = (numbers.next(), numbers.next()) >= (Some(Some(6)), Some(Some(11)));
                assert!(!is_there, "{release} has PROCMAP_QUERY");
                return;
            };
            if before == after {
                let without_path =
                    |mapping: &Mapping| Mapping { path: String::new(), ..mapping.clone() };
                // It has no number, and is none of a process's own.
                let is_own = |mapping: &&Mapping| mapping.path != "[vsyscall]";
                let of_files = batch(&maps, 0, true).unwrap();
                let plain: Vec<_> = before.iter().filter(is_own).map(without_path).collect();
                let has_file = |mapping: &&Mapping| mapping.inode != 0;
                let are_equal = told.iter().map(without_path).eq(plain);
                if !are_equal || text() != after || told.iter().filter(has_file).ne(&of_files) {
                    continue;
                }
                for (told, read) in told.iter().zip(&before) {
                    let is_unnamed =
                        told.path == UNNAMED && !read.is_code() && read.access[3] == b'p';
                    assert!(told.path == read.path || is_unnamed, "{told:?} {read:?}");
                }
                assert!(told.iter().any(|mapping| mapping.path == "[stack]"));
                return;
            }
        }
        panic!("it never was still");
    }

    #[test]
    fn mappings_that_cannot_be_are_refused() {
        let mapping = |start, end| Mapping {
            access: *b"rw-p",
            ..Mapping::parse(&format!("{start:x}-{end:x} rw-p 0 0:0 0")).unwrap()
        };
        let is_valid = |all: &[Mapping], at| are_valid(&Some(all.to_vec()), at);
        assert!(is_valid(&[mapping(1, 2), mapping(2, 3)], 1) && are_valid(&None, 7));
        assert!(!is_valid(&[mapping(2, 3), mapping(1, 2)], 0));
        assert!(!is_valid(&[mapping(3, 3)], 0) && !is_valid(&[mapping(1, 2)], 2));
        assert!(!is_valid(&[Mapping { access: *b"rw\n ", ..mapping(1, 2) }], 0));
    }
}
