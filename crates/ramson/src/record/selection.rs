//! Which processes are recorded, and how new ones are found.

use crate::flags::RecordFlags;
use ramson_process::clock::unix_ns;
use ramson_reader::Header;
use ramson_source::Failure;
use ramson_source::places;
use ramson_source::{Opened, Recording, all, name_of, open_file, split};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How often new files are looked for, and profiles in other places, for which all of /proc is read.
const FILES_NS: u64 = 1_000_000_000;
const EVERYWHERE_NS: u64 = 60_000_000_000;

pub struct Selection {
    /// Named by ID or file, until they are found.
    single: Vec<Recording>,
    names: Vec<String>,
    is_all: bool,
    /// Device and inode of the files that were looked at.
    known: HashSet<(u64, u64)>,
    start_ns: u64,
    files_ns: u64,
    everywhere_ns: u64,
}

impl Selection {
    /// What is named by ID or file must be there now.
    pub fn new(flags: &RecordFlags) -> Result<Self, Failure> {
        let mut names = Vec::new();
        let mut single = Vec::new();
        for wanted in &flags.sources {
            if let (_, Some(_)) = split(wanted) {
                return Err(Failure::usage(format!(
                    "{wanted}: the past cannot be recorded any more. Pass the process without a moment"
                )));
            }
            match wanted.strip_prefix("name:") {
                Some(name) => names.push(name.to_owned()),
                None => single.push(open(wanted)?),
            }
        }
        Ok(Self {
            single,
            names,
            is_all: flags.all,
            known: HashSet::new(),
            start_ns: unix_ns(),
            files_ns: 0,
            everywhere_ns: 0,
        })
    }

    /// Whether nothing new is expected.
    pub fn is_over(&self) -> bool {
        self.names.is_empty() && !self.is_all
    }

    /// Profiles to be recorded that may be new.
    pub fn discover(&mut self, now_ns: u64) -> Result<Vec<Recording>, Failure> {
        let mut found = std::mem::take(&mut self.single);
        if self.is_over() {
            return Ok(found);
        }
        if now_ns >= self.everywhere_ns + EVERYWHERE_NS {
            self.everywhere_ns = now_ns;
            found.extend(all().into_iter().filter(|source| self.is_wanted(source)));
        }
        if now_ns >= self.files_ns + FILES_NS {
            self.files_ns = now_ns;
            found.extend(self.new_files().into_iter().filter(|source| self.is_wanted(source)));
        }
        Ok(found)
    }

    /// What ended before we began is left as it is.
    fn is_wanted(&self, source: &Recording) -> bool {
        let header = &source.snapshot.header;
        let is_new = source.running.is_some() || header.start_realtime_ns >= self.start_ns;
        is_new && (self.is_all || self.names.iter().any(|name| is_named(header, name)))
    }

    fn new_files(&mut self) -> Vec<Recording> {
        let mut new = Vec::new();
        let entries = places::profile_directories()
            .into_iter()
            .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
        for path in entries.map(|entry| entry.path()) {
            let Ok(facts) = path.symlink_metadata() else { continue };
            let is_profile = path.extension().is_some_and(|extension| extension == "ramson");
            let file = (facts.dev(), facts.ino());
            if !is_profile || !facts.is_file() || self.known.contains(&file) {
                continue;
            }
            // One that is not finished yet is looked at again.
            if let Ok(source) = open_file(&path) {
                self.known.insert(file);
                new.push(source);
            }
        }
        new
    }
}

fn open(wanted: &str) -> Result<Recording, Failure> {
    let source = match ramson_source::open_one(wanted)? {
        Opened::Recording(source) => source,
        Opened::Foreign(_) => {
            return Err(Failure::usage(format!(
                "{wanted}: another tool's profile, which does not change. Pass processes that run under ramson"
            )));
        }
    };
    match source.running {
        Some(_) => Ok(source),
        None => Err(Failure::not_found(format!(
            "{wanted}: its process does not run any more. \"ramson report {wanted}\" shows its end"
        ))),
    }
}

fn is_named(header: &Header, name: &str) -> bool {
    let exe = Path::new(header.exe.trim_end_matches(" (deleted)")).file_name().unwrap_or_default();
    name_of(header) == name || exe == name || header.comm == name
}
