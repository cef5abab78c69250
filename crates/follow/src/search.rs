//! The search for profiled processes: new files in the profile directories are found soon, profiles in other places later, because all
//! of /proc is read for them. Only headers are read.

use crate::pace::{Pace, thread_cpu_time};
use ramson_format::state;
use ramson_paths::{Directory, Entry};
use ramson_reader::Header;
use ramson_source::{
    Base, Discovery, Recording, Selector, go, is_named, outline_file, outlines_with, places,
    processes_of, running,
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
/// Who watches looks for profiles in other places this far apart.
pub const WATCH_EVERY: Duration = Duration::from_secs(20);
const EVERYWHERE_SHARE: f64 = 0.005;

/// Of a profile: `Header::identity`.
pub type Identity = (u32, u64, u64);

/// A search that goes on.
pub struct Search {
    /// A line for each profile that could not be read when all places were searched last.
    pub unreadable: Vec<String>,
    scope: Scope,
    /// `None` while new files are looked for.
    known: Option<KnownFiles>,
    /// Processes that began later are found even if they have ended; nanoseconds since 1970.
    start_ns: u64,
    files: Pace,
    everywhere: Pace,
    /// Channel of the search of all places that is under way: the processes that it found, and its CPU time.
    task: Option<Receiver<(Discovery<Recording>, Duration)>>,
    /// The same of the search for new files.
    files_task: Receiver<(KnownFiles, Vec<Recording>, Duration)>,
}

/// Whose processes come and go.
#[derive(Clone)]
pub enum Scope {
    /// Those that are named, Go programs among them.
    Named(Vec<Selector>),
    /// All that ramson records.
    Recorded,
    /// These, and all Go programs.
    RecordedAndGo,
}

/// Device and inode of the files that were looked at.
struct KnownFiles(HashSet<(u64, u64)>);

impl Search {
    /// Searches for processes; also returns those that are there now. Recordings have a header only.
    /// Profiles in other places than the profile directories are searched for `every` so much time. Processes that began after `start_ns`,
    /// nanoseconds since 1970, are found even if they have ended.
    pub fn begin(scope: Scope, every: Duration, start_ns: u64) -> (Self, Vec<Recording>) {
        let mut search = Self {
            unreadable: Vec::new(),
            scope,
            known: None,
            start_ns,
            files: Pace::new(FILES_EVERY, FILES_SHARE),
            everywhere: Pace::new(every, EVERYWHERE_SHARE),
            task: None,
            files_task: channel().1,
        };
        if !search.expects_others() {
            return (search, Vec::new());
        }
        // The search of all places reads the files that are there now.
        let known = files().map(|(_, Entry { facts, .. })| (facts.device, facts.inode));
        search.known = Some(KnownFiles(known.collect()));
        let (scope, start_ns) = (search.scope.clone(), search.start_ns);
        let found = search.everywhere.run(|| everywhere(&scope, start_ns, &HashSet::new()));
        let found = search.take(found);
        (search, found)
    }

    /// Whether other processes may come.
    pub fn expects_others(&self) -> bool {
        let may_grow = |selector: &Selector| match selector.base {
            Base::Tree(_) => !members(selector).is_empty(),
            _ => true,
        };
        match &self.scope {
            Scope::Named(selectors) => selectors.iter().any(may_grow),
            Scope::Recorded | Scope::RecordedAndGo => true,
        }
    }

    /// Returns the processes that have come, some of them perhaps once more; among them are those that came and ended since the search
    /// began. Those that are `followed` already, by the identities of their profiles, are not looked at.
    pub fn found(&mut self, followed: impl Fn() -> HashSet<Identity>) -> Vec<Recording> {
        let mut new = Vec::new();
        if !self.expects_others() {
            return new;
        }
        if let Some((found, cost)) = self.task.as_ref().and_then(|task| task.try_recv().ok()) {
            self.task = None;
            self.everywhere.put_off(cost);
            new = self.take(found);
        }
        if self.task.is_none() && self.everywhere.is_due() {
            let (sender, receiver) = channel();
            let (scope, start_ns, followed) = (self.scope.clone(), self.start_ns, followed());
            thread::spawn(move || {
                let found = everywhere(&scope, start_ns, &followed);
                sender.send((found, thread_cpu_time()))
            });
            self.task = Some(receiver);
        }
        if let Ok((known, found, cost)) = self.files_task.try_recv() {
            self.known = Some(known);
            self.files.put_off(cost);
            new.extend(self.wanted(found));
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
        let Scope::Named(selectors) = &self.scope else {
            return found.into_iter().filter(|source| self.is_new(source)).collect();
        };
        // A name is in the profile, also of a process that has ended since.
        let (named, others): (Vec<_>, Vec<_>) =
            selectors.iter().partition(|selector| matches!(selector.base, Base::Name(_)));
        let members: HashSet<u32> = others.into_iter().flat_map(members).collect();
        let is_wanted = |source: &Recording| {
            let header = &source.snapshot.header;
            let is_member = || source.running.is_some_and(|pid| members.contains(&pid));
            let has_name = || {
                named
                    .iter()
                    .any(|group| matches!(&group.base, Base::Name(name) if is_named(header, name)))
            };
            self.is_new(source) && (has_name() || is_member())
        };
        found.into_iter().filter(is_wanted).collect()
    }
}

impl KnownFiles {
    /// Reads the files that have come.
    fn read_new(&mut self) -> Vec<Recording> {
        let mut new = Vec::new();
        for (directory, Entry { name, facts }) in files() {
            let file = (facts.device, facts.inode);
            if self.0.contains(&file) {
                continue;
            }
            let Ok(opened) = directory.open_file(&name) else { continue };
            // One that is not finished yet is looked at again.
            let Ok(header) = Header::read(&opened.file) else { continue };
            let path = directory.path().join(&name);
            let mut recording = outline_file(&path, &opened.file, header);
            if recording.running.is_none() {
                recording.look_elsewhere();
            }
            new.push(recording);
            self.0.insert(file);
        }
        new
    }
}

/// Finds the running processes that are selected, or all profiles but those that are followed and those that ended before `start_ns`.
fn everywhere(scope: &Scope, start_ns: u64, followed: &HashSet<Identity>) -> Discovery<Recording> {
    let may_be_new = |header: &Header| {
        let ended_before = header.state == state::EXITED && header.start_realtime_ns < start_ns;
        !ended_before && !followed.contains(&header.identity())
    };
    match scope {
        Scope::Named(selectors) => Discovery { found: running(selectors), ..Discovery::default() },
        Scope::Recorded => outlines_with(may_be_new),
        Scope::RecordedAndGo => {
            let mut all = outlines_with(may_be_new);
            let recorded = all.found.iter().filter_map(|recording| recording.running);
            let known = recorded.chain(followed.iter().map(|(pid, ..)| *pid)).collect();
            all.found.extend(go::running(&known));
            all
        }
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
