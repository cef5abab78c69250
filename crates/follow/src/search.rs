//! The search for profiled processes: new files in the profile directories are found soon, profiles in other places later, because all
//! of /proc is read for them.

use crate::pace::{Pace, thread_cpu_time};
use ramson_paths::{Directory, Entry};
use ramson_process::clock::unix_ns;
use ramson_reader::Header;
use ramson_source::{
    Base, Discovery, Recording, Selector, all, is_named, places, processes_of, read_file, running,
};
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// New files are looked for this far apart, and for this share of a core.
const FILES_EVERY: Duration = Duration::from_secs(1);
const FILES_SHARE: f64 = 0.005;
/// The same for profiles in other places.
const EVERYWHERE_EVERY: Duration = Duration::from_secs(20);
const EVERYWHERE_SHARE: f64 = 0.005;

/// A search that goes on.
pub struct Search {
    /// A line for each profile that could not be read when all places were searched last.
    pub unreadable: Vec<String>,
    /// Whose processes come and go.
    selectors: Vec<Selector>,
    is_for_all: bool,
    /// `None` while new files are looked for.
    known: Option<KnownFiles>,
    /// When the search began; nanoseconds since 1970.
    start_ns: u64,
    files: Pace,
    everywhere: Pace,
    /// Channel of the search of all places that is under way: the processes that it found, and its CPU time.
    task: Option<Receiver<(Discovery<Recording>, Duration)>>,
    /// The same of the search for new files.
    files_task: Receiver<(KnownFiles, Discovery<Recording>, Duration)>,
}

/// Device and inode of the files that were looked at.
struct KnownFiles(HashSet<(u64, u64)>);

impl Search {
    /// Searches for the processes that are selected, or for all; also returns those that are there now.
    pub fn begin(selectors: Vec<Selector>, is_for_all: bool) -> (Self, Vec<Recording>) {
        let mut search = Self {
            unreadable: Vec::new(),
            selectors,
            is_for_all,
            known: None,
            start_ns: unix_ns(),
            files: Pace::new(FILES_EVERY, FILES_SHARE),
            everywhere: Pace::new(EVERYWHERE_EVERY, EVERYWHERE_SHARE),
            task: None,
            files_task: channel().1,
        };
        if !search.expects_others() {
            return (search, Vec::new());
        }
        // The search of all places reads the files that are there now.
        let known = files().map(|(_, Entry { facts, .. })| (facts.device, facts.inode));
        search.known = Some(KnownFiles(known.collect()));
        let selectors = (!is_for_all).then(|| search.selectors.clone());
        let found = search.everywhere.run(|| everywhere(selectors.as_deref()));
        let found = search.take(found);
        (search, found)
    }

    /// Whether other processes may come.
    pub fn expects_others(&self) -> bool {
        let may_grow = |selector: &Selector| match selector.base {
            Base::Tree(_) => !members(selector).is_empty(),
            _ => true,
        };
        self.is_for_all || self.selectors.iter().any(may_grow)
    }

    /// Returns the processes that have come, some of them perhaps once more; among them are those that came and ended since the search
    /// began. Also returns a line for each new file that cannot be read.
    pub fn found(&mut self) -> Discovery<Recording> {
        let mut new = Discovery::default();
        if !self.expects_others() {
            return new;
        }
        if let Some((found, cost)) = self.task.as_ref().and_then(|task| task.try_recv().ok()) {
            self.task = None;
            self.everywhere.put_off(cost);
            new.found = self.take(found);
        }
        if self.task.is_none() && self.everywhere.is_due() {
            let (sender, receiver) = channel();
            let selectors = (!self.is_for_all).then(|| self.selectors.clone());
            thread::spawn(move || {
                sender.send((everywhere(selectors.as_deref()), thread_cpu_time()))
            });
            self.task = Some(receiver);
        }
        if let Ok((known, found, cost)) = self.files_task.try_recv() {
            self.known = Some(known);
            self.files.put_off(cost);
            new.unreadable = found.unreadable;
            new.found.extend(self.wanted(found.found));
        }
        // Another user's file may keep its reader waiting.
        if self.files.is_due()
            && let Some(mut known) = self.known.take()
        {
            let (sender, receiver) = channel();
            thread::spawn(move || {
                let new = known.read_new();
                // Who searches may have ended.
                let _ = sender.send((known, new, thread_cpu_time()));
            });
            self.files_task = receiver;
        }
        new
    }

    fn take(&mut self, found: Discovery<Recording>) -> Vec<Recording> {
        self.unreadable = found.unreadable;
        found.found.into_iter().filter(|recording| self.is_new(recording)).collect()
    }

    /// Whether it is one process, and did not end before the search began.
    fn is_new(&self, recording: &Recording) -> bool {
        let header = &recording.snapshot.header;
        let is_new = recording.running.is_some() || header.start_realtime_ns >= self.start_ns;
        is_new && header.processes == 0
    }

    /// Returns those that are searched for.
    fn wanted(&self, found: Vec<Recording>) -> Vec<Recording> {
        if found.is_empty() {
            return found;
        }
        // A name is in the profile, also of a process that has ended since.
        let (named, others): (Vec<_>, Vec<_>) =
            self.selectors.iter().partition(|selector| matches!(selector.base, Base::Name(_)));
        let members: HashSet<u32> = others.into_iter().flat_map(members).collect();
        let is_wanted = |source: &Recording| {
            let header = &source.snapshot.header;
            let is_member = || source.running.is_some_and(|pid| members.contains(&pid));
            let has_name = || {
                named
                    .iter()
                    .any(|group| matches!(&group.base, Base::Name(name) if is_named(header, name)))
            };
            self.is_new(source) && (self.is_for_all || has_name() || is_member())
        };
        found.into_iter().filter(is_wanted).collect()
    }
}

impl KnownFiles {
    /// Reads the files that have come.
    fn read_new(&mut self) -> Discovery<Recording> {
        let mut new = Discovery::default();
        for (directory, Entry { name, facts }) in files() {
            let file = (facts.device, facts.inode);
            if self.0.contains(&file) {
                continue;
            }
            let Ok(opened) = directory.open_file(&name) else { continue };
            match read_file(&directory.path().join(&name), &opened.file) {
                Ok(mut recording) => {
                    if recording.running.is_none() {
                        recording.look_elsewhere();
                    }
                    new.found.push(recording);
                }
                Err(failure) if Header::read(&opened.file).is_ok() => {
                    new.unreadable.push(failure.to_string());
                }
                // One that is not finished yet is looked at again.
                Err(_) => continue,
            }
            self.0.insert(file);
        }
        new
    }
}

/// Finds the running processes that are selected, or all profiles.
fn everywhere(selectors: Option<&[Selector]>) -> Discovery<Recording> {
    match selectors {
        Some(selectors) => Discovery { found: running(selectors), ..Discovery::default() },
        None => all(),
    }
}

fn members(selector: &Selector) -> Vec<u32> {
    processes_of(&selector.base).unwrap_or_default()
}

/// Returns the names of profiles in the profile directories.
fn files() -> impl Iterator<Item = (Rc<Directory>, Entry)> {
    let (directories, _) = places::opened_profile_directories();
    directories.into_iter().map(Rc::new).flat_map(|directory| {
        let entries = directory.entries().unwrap_or_default().into_iter();
        let profiles = entries.filter(|entry| entry.name.as_bytes().ends_with(b".ramson"));
        profiles.map(move |entry| (directory.clone(), entry))
    })
}
