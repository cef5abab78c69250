//! Which processes are recorded, and how new ones are found.

use crate::flags::HistoryFlags;
use crate::output::remark;
use ramson_paths::Entry;
use ramson_process::clock::unix_ns;
use ramson_reader::Header;
use ramson_source::{
    Base, Failure, Opened, Recording, Selector, all, is_named, none_of, places, processes_of,
    read_file,
};
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;

/// How often new files are looked for, and profiles in other places, for which all of /proc is read.
const FILES_NS: u64 = 1_000_000_000;
const EVERYWHERE_NS: u64 = 60_000_000_000;

pub struct Selection {
    /// Named by ID or file, until they are found.
    single: Vec<Recording>,
    /// Whose processes come and go.
    groups: Vec<Selector>,
    is_all: bool,
    /// Device and inode of the files that were looked at.
    known: HashSet<(u64, u64)>,
    start_ns: u64,
    files_ns: u64,
    everywhere_ns: u64,
}

impl Selection {
    /// Fails if a process ID or file that the user named is not there now.
    pub fn new(flags: &HistoryFlags) -> Result<Self, Failure> {
        let mut groups = Vec::new();
        let mut single = Vec::new();
        for wanted in &flags.sources {
            let selector = Selector::parse(wanted)?;
            if selector.span.is_some() {
                return Err(Failure::usage(format!(
                    "{wanted}: the past can no longer be recorded. Pass the process without a moment"
                )));
            }
            match &selector.base {
                Base::Tree(_) if members(&selector).is_empty() => {
                    return Err(none_of(&selector));
                }
                _ if selector.is_group() => groups.push(selector),
                _ => single.push(open(wanted)?),
            }
        }
        Ok(Self {
            single,
            groups,
            is_all: flags.all,
            known: HashSet::new(),
            start_ns: unix_ns(),
            files_ns: 0,
            everywhere_ns: 0,
        })
    }

    /// Whether nothing new is expected.
    pub fn is_over(&self) -> bool {
        let has_ended =
            |group: &Selector| matches!(group.base, Base::Tree(_)) && members(group).is_empty();
        !self.is_all && self.groups.iter().all(has_ended)
    }

    /// Names the processes that the recorder waits for, in words.
    pub fn awaited(&self) -> String {
        let group = |group: &Selector| match &group.base {
            Base::Name(name) => format!("a process named {name}"),
            Base::Unit(unit) => format!("a process of {unit}"),
            _ => format!("a process in {}", group.base_text),
        };
        match self.is_all {
            true => "a profiled process".into(),
            false => self.groups.iter().map(group).collect::<Vec<_>>().join(" or "),
        }
    }

    pub fn discover(&mut self, now_ns: u64) -> Result<Vec<Recording>, Failure> {
        let mut found = std::mem::take(&mut self.single);
        if self.is_over() {
            return Ok(found);
        }
        if now_ns >= self.everywhere_ns + EVERYWHERE_NS {
            self.everywhere_ns = now_ns;
            found.extend(self.wanted(all().found));
        }
        if now_ns >= self.files_ns + FILES_NS {
            self.files_ns = now_ns;
            let new = self.new_files();
            found.extend(self.wanted(new));
        }
        Ok(found)
    }

    /// Returns those that are to be recorded. Processes that ended before we began are left as they are.
    fn wanted(&self, found: Vec<Recording>) -> Vec<Recording> {
        if found.is_empty() {
            return found;
        }
        // A name is in the profile, also of a process that has ended since.
        let (named, others): (Vec<_>, Vec<_>) =
            self.groups.iter().partition(|group| matches!(group.base, Base::Name(_)));
        let members: HashSet<u32> = others.into_iter().flat_map(members).collect();
        let is_wanted = |source: &Recording| {
            let header = &source.snapshot.header;
            let is_new = source.running.is_some() || header.start_realtime_ns >= self.start_ns;
            let is_member = || source.running.is_some_and(|pid| members.contains(&pid));
            let has_name = || {
                named
                    .iter()
                    .any(|group| matches!(&group.base, Base::Name(name) if is_named(header, name)))
            };
            is_new && header.processes == 0 && (self.is_all || has_name() || is_member())
        };
        found.into_iter().filter(is_wanted).collect()
    }

    fn new_files(&mut self) -> Vec<Recording> {
        let mut new = Vec::new();
        let (directories, _) = places::opened_profile_directories();
        for directory in &directories {
            for Entry { name, facts } in directory.entries().unwrap_or_default() {
                let file = (facts.device, facts.inode);
                let is_profile = name.as_bytes().ends_with(b".ramson");
                if !is_profile || self.known.contains(&file) {
                    continue;
                }
                let Ok(opened) = directory.open_file(&name) else { continue };
                match read_file(&directory.path().join(&name), &opened.file) {
                    Ok(mut source) => {
                        if source.running.is_none() {
                            source.look_elsewhere();
                        }
                        new.push(source);
                    }
                    Err(failure) if Header::read(&opened.file).is_ok() => remark(failure),
                    // One that is not finished yet is looked at again.
                    Err(_) => continue,
                }
                self.known.insert(file);
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
            "{wanted}: its process is no longer running. \"ramson report {wanted}\" shows its end"
        ))),
    }
}

fn members(group: &Selector) -> Vec<u32> {
    processes_of(&group.base).unwrap_or_default()
}
