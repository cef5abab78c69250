//! Sources that are served: those that the user named, or all processes.

use crate::identity::Identity;
use crate::ids::ids;
use ramson_analysis::listing;
use ramson_profile::Estimate;
use ramson_source::{Base, Failure, Members, Opened, Selector, list_all, open_all, open_recording};
use rustix::process::getuid;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The SRCs that the user named, or all processes.
pub struct Sources {
    named: Vec<String>,
    /// SRCs that are files of other tools, as they were when they were read last: nothing in them says what an entry has.
    foreign: Mutex<HashMap<String, Identity>>,
}

/// All that is served.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Entries {
    /// Running processes first, by their RSS.
    pub sources: Vec<Entry>,
    /// A line for each that cannot be read.
    pub unreadable: Vec<String>,
}

/// One source: a process or a file.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Entry {
    /// Stands for it in addresses: the process ID of a running process, and of the caller's only dead one with that ID; else `uUID-` and
    /// the name of its file; `f` and the number of the SRC on the command line, where that is no process, or several.
    pub id: String,
    /// The SRC that names it on a command line.
    pub source: String,
    /// The program's name, or the SRC of another tool's file.
    pub name: String,
    /// `null`: the file does not tell.
    pub pid: Option<u32>,
    /// As in the list of profiles; `null` for another tool's file.
    pub state: Option<String>,
    /// The process runs and writes the profile.
    pub is_running: bool,
    /// The user ID of the process; `None`: not known.
    #[serde(skip)]
    pub user: Option<u32>,
    /// When it began to be profiled; nanoseconds since 1970.
    pub start_unix_ns: Option<u64>,
    /// Resident bytes now, or as they were last seen.
    pub rss: Option<u64>,
    /// Live bytes of the heap.
    pub live: Option<Estimate>,
    /// The arguments.
    pub command: Vec<String>,
    /// How many processes a SRC names whose values are added up here; `null`: it is one, or a file.
    pub processes: Option<usize>,
}

/// The profiles that a SRC names.
enum Found {
    Recordings(Vec<Opened>),
    /// A file of another tool; with what was read of it, if that was needed to know that it is one.
    Foreign(Option<First>),
}

/// The content of another tool's file, read to check the file.
pub struct First {
    pub(crate) source: String,
    /// The identity of the file before it was read.
    pub(crate) identity: Identity,
    pub(crate) members: Members,
}

impl Sources {
    /// Each of these is a SRC; none: all processes that the user may read, running and dead.
    pub fn new(named: Vec<String>) -> Self {
        Self { named, foreign: Mutex::default() }
    }

    /// The SRCs; none: all processes.
    pub fn named(&self) -> &[String] {
        &self.named
    }

    /// Refuses what cannot be served, as the commands do. Returns what was read of the only SRC, if that is a file of another tool.
    pub fn check(&self) -> Result<Option<First>, Failure> {
        let mut first = None;
        for source in &self.named {
            if matches!(Selector::parse(source)?.base, Base::Input) {
                return Err(Failure::usage(
                    "-: standard input can be read only once. Save it to a file, and serve that",
                ));
            }
            first = match self.open(source)? {
                Found::Foreign(read) => read,
                Found::Recordings(_) => None,
            };
        }
        Ok(first.filter(|_| self.named.len() == 1))
    }

    /// Everything that is served now.
    pub fn entries(&self) -> Result<Entries, Failure> {
        if self.named.is_empty() { Ok(all()) } else { self.entries_named() }
    }

    /// Opens what a SRC names now.
    fn open(&self, source: &str) -> Result<Found, Failure> {
        let identity = Identity::of(source);
        let foreign = || self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        if identity.is_some() && foreign().get(source).copied() == identity {
            return Ok(Found::Foreign(None));
        }
        let members = open_all(&[source])?;
        let is_foreign = members.opened.iter().all(|it| matches!(it, Opened::Foreign(_)));
        if let Some(identity) = identity.filter(|_| is_foreign) {
            foreign().insert(source.to_owned(), identity);
            let source = source.to_owned();
            return Ok(Found::Foreign(Some(First { source, identity, members })));
        }
        Ok(Found::Recordings(members.opened))
    }

    /// The source with this ID, or the only one.
    pub fn find(&self, id: Option<&str>) -> Result<Entry, Failure> {
        if self.named.is_empty()
            && let Some(id) = id
            && let Ok(pid) = id.parse::<u32>()
            && let Some(entry) = running(pid)
        {
            // The others need not be read.
            return Ok(entry);
        }
        let Entries { sources: mut all, mut unreadable } = self.entries()?;
        let Some(id) = id else {
            return match (all.len(), unreadable.pop()) {
                (1, _) => Ok(all.remove(0)),
                (0, Some(why)) if self.named.len() == 1 => Err(Failure::not_found(why)),
                _ => Err(several(&all)),
            };
        };
        all.into_iter().find(|entry| entry.id == id).ok_or_else(|| {
            Failure::not_found(format!("{id}: not served. /api/v1/sources lists the sources"))
        })
    }

    fn entries_named(&self) -> Result<Entries, Failure> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut unreadable = Vec::new();
        for (number, source) in (1..).zip(&self.named) {
            let id = format!("f{number}");
            let is_taken = |entries: &[Entry], id: &str| entries.iter().any(|entry| entry.id == id);
            let selector = Selector::parse(source)?;
            let opened = match self.open(source) {
                Ok(Found::Recordings(opened)) => opened,
                Ok(Found::Foreign(_)) => {
                    entries.push(Entry::unknown(id, source));
                    continue;
                }
                Err(failure) => {
                    unreadable.push(failure.to_string());
                    continue;
                }
            };
            let is_one = opened.len() == 1;
            if !is_one {
                entries.push(Entry::sum(id.clone(), source, &opened));
            }
            if selector.span.is_some() && !is_one {
                continue;
            }
            for opened in opened {
                let Opened::Recording(recording) = opened else {
                    entries.push(Entry::unknown(id.clone(), source));
                    continue;
                };
                let pid = recording.pid().to_string();
                let is_process = recording.running.is_some() && recording.past.is_none();
                if is_process && is_taken(&entries, &pid) {
                    continue;
                }
                let entry = listing::Entry::of(&recording);
                let is_plain = recording.past.is_none() && !is_taken(&entries, &pid);
                let its_id = if is_plain { pid.clone() } else { id.clone() };
                let is_left = !entry.is_running && recording.past.is_none();
                let its_source = match &selector.base {
                    // The name may soon be another process's, and a file tells when it is another.
                    Base::Name(_) if is_left => entry.profile.clone(),
                    _ if is_one => source.clone(),
                    _ => pid,
                };
                entries.push(Entry::of(its_id, its_source, entry));
            }
        }
        Ok(Entries { sources: entries, unreadable })
    }
}

/// The process that has this ID now.
fn running(pid: u32) -> Option<Entry> {
    let pid = pid.to_string();
    let recording = open_recording(&pid).ok().filter(|recording| recording.running.is_some())?;
    Some(Entry::of(pid.clone(), pid, listing::Entry::of(&recording)))
}

/// Says that one is to be chosen.
fn several(all: &[Entry]) -> Failure {
    const MOST: usize = 100;
    let text = match all.len() {
        0 => "no profiles. Start a program with \"ramson run -- CMD\"".to_owned(),
        count => format!("{count} profiles are served here. Choose one:"),
    };
    let row = |entry: &Entry| format!("/p/{}/debug/pprof/heap  {}", entry.id, entry.name);
    let mut rows: Vec<String> = all.iter().take(MOST).map(row).collect();
    if all.len() > MOST {
        rows.push(format!("and {} more: /api/v1/sources", all.len() - MOST));
    }
    Failure::Choice(5, text, rows)
}

fn all() -> Entries {
    let found = list_all(|recording| listing::Entry::of(&recording));
    let mut profiles = found.found;
    listing::sort(&mut profiles);
    let ids = ids(&profiles, getuid().as_raw());
    let mut sources = Vec::new();
    let mut unreadable = found.unreadable;
    for (id, entry) in ids.into_iter().zip(profiles) {
        // A dead process's ID may be another's.
        let source = if entry.is_running { entry.pid.to_string() } else { entry.profile.clone() };
        let is_new = |id: &String| !sources.iter().any(|known: &Entry| known.id == *id);
        match id.filter(is_new) {
            Some(id) => sources.push(Entry::of(id, source, entry)),
            None => unreadable
                .push(format!("{source}: its name cannot be part of an address. Pass it as SRC")),
        }
    }
    unreadable.extend(found.left_out);
    Entries { sources, unreadable }
}

impl Entry {
    fn of(id: String, source: String, of: listing::Entry) -> Self {
        Self {
            id,
            source,
            name: of.name,
            pid: Some(of.pid),
            state: Some(of.state),
            is_running: of.is_running,
            user: of.user,
            start_unix_ns: Some(of.start_unix_ns),
            rss: of.rss,
            live: Some(of.live),
            command: of.command,
            processes: None,
        }
    }

    /// The entry of several processes.
    fn sum(id: String, source: &str, opened: &[Opened]) -> Self {
        let all = opened.iter().filter_map(|opened| match opened {
            Opened::Recording(recording) => Some(listing::Entry::of(recording)),
            Opened::Foreign(_) => None,
        });
        let all: Vec<listing::Entry> = all.collect();
        Self {
            is_running: all.iter().any(|of| of.is_running),
            rss: all.iter().filter_map(|of| of.rss).reduce(|sum, bytes| sum + bytes),
            live: Some(all.iter().map(|of| of.live).sum()),
            processes: Some(all.len()),
            ..Self::unknown(id, source)
        }
    }

    /// The entry of a file that says no more.
    fn unknown(id: String, source: &str) -> Self {
        Self {
            id,
            source: source.to_owned(),
            name: source.to_owned(),
            pid: None,
            state: None,
            is_running: false,
            user: None,
            start_unix_ns: None,
            rss: None,
            live: None,
            command: Vec::new(),
            processes: None,
        }
    }
}
