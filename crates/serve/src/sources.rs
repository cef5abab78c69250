//! What is served: the sources that the user named, or all processes.

use crate::ids::ids;
use ramson_analysis::listing;
use ramson_profile::Estimate;
use ramson_source::{Base, Failure, Opened, Selector, map_all, open_all, open_recording};
use rustix::process::getuid;
use serde::Serialize;

/// What is served.
pub enum Sources {
    /// All processes that the user may read, running and dead.
    All,
    /// Each is a SRC.
    Named(Vec<String>),
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
    /// the name of its file; `f` and the number of the SRC on the command line, where that is no process.
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
    /// When it began to be profiled; nanoseconds since 1970.
    pub start_unix_ns: Option<u64>,
    /// Resident bytes now, or as they were last seen.
    pub rss: Option<u64>,
    /// Live bytes of the heap.
    pub live: Option<Estimate>,
    /// The arguments.
    pub command: Vec<String>,
}

impl Sources {
    /// Refuses what cannot be served, as the commands do.
    pub fn check(&self) -> Result<(), Failure> {
        let Self::Named(sources) = self else { return Ok(()) };
        for source in sources {
            if matches!(Selector::parse(source)?.base, Base::Input) {
                return Err(Failure::usage(
                    "-: standard input can be read only once. Save it to a file, and serve that",
                ));
            }
            open_all(&[source])?;
        }
        Ok(())
    }

    /// Everything that is served now.
    pub fn entries(&self) -> Result<Entries, Failure> {
        match self {
            Self::All => Ok(all()),
            Self::Named(sources) => named(sources),
        }
    }

    /// The source with this ID, or the only one.
    pub fn find(&self, id: Option<&str>) -> Result<Entry, Failure> {
        if let (Self::All, Some(id)) = (self, id)
            && let Ok(pid) = id.parse::<u32>()
            && let Some(entry) = running(pid)
        {
            // The others need not be read.
            return Ok(entry);
        }
        let mut all = self.entries()?.sources;
        let Some(id) = id else {
            return match all.len() {
                1 => Ok(all.remove(0)),
                _ => Err(several(&all)),
            };
        };
        all.into_iter().find(|entry| entry.id == id).ok_or_else(|| {
            Failure::not_found(format!("{id}: not served. /api/v1/sources lists what is"))
        })
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
    let mut text = match all.len() {
        0 => "no profiles. Start a program with \"ramson run -- CMD\"".to_owned(),
        count => format!("{count} profiles are served here. Choose one:"),
    };
    for entry in all.iter().take(MOST) {
        text += &format!("\n/p/{}/debug/pprof/heap  {}", entry.id, entry.name.escape_debug());
    }
    if all.len() > MOST {
        text += &format!("\nand {} more: /api/v1/sources", all.len() - MOST);
    }
    Failure::not_found(text)
}

fn all() -> Entries {
    let found = map_all(|_| true, |recording| listing::Entry::of(&recording));
    let mut profiles = found.found;
    listing::sort(&mut profiles);
    let ids = ids(&profiles, getuid().as_raw());
    let (mut sources, mut unreadable) = (Vec::new(), found.unreadable);
    for (id, entry) in ids.into_iter().zip(profiles) {
        // A dead process's ID may be another's.
        let source = if entry.is_running { entry.pid.to_string() } else { entry.profile.clone() };
        let is_new = |id: &String| !sources.iter().any(|known: &Entry| known.id == *id);
        match id.filter(is_new) {
            Some(id) => sources.push(Entry::of(id, source, entry)),
            None => unreadable
                .push(format!("{source}: its name cannot stand in an address. Pass it as SRC")),
        }
    }
    unreadable.extend(found.left_out);
    Entries { sources, unreadable }
}

fn named(sources: &[String]) -> Result<Entries, Failure> {
    let (mut entries, mut unreadable): (Vec<Entry>, _) = (Vec::new(), Vec::new());
    for (number, source) in (1..).zip(sources) {
        let id = format!("f{number}");
        let is_taken = |entries: &[Entry], id: &str| entries.iter().any(|entry| entry.id == id);
        let selector = Selector::parse(source)?;
        let opened = match open_all(&[source]) {
            Ok(members) => members.opened,
            Err(failure) => {
                unreadable.push(failure.to_string());
                continue;
            }
        };
        let is_one = opened.len() == 1;
        if selector.span.is_some() && !is_one {
            entries.push(Entry::unknown(id, source));
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
            let its_source = if is_one { source.clone() } else { pid };
            entries.push(Entry::of(its_id, its_source, entry));
        }
    }
    Ok(Entries { sources: entries, unreadable })
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
            start_unix_ns: Some(of.start_unix_ns),
            rss: of.rss,
            live: Some(of.live),
            command: of.command,
        }
    }

    /// Of a file that says no more, or of several processes of the past.
    fn unknown(id: String, source: &str) -> Self {
        Self {
            id,
            source: source.to_owned(),
            name: source.to_owned(),
            pid: None,
            state: None,
            is_running: false,
            start_unix_ns: None,
            rss: None,
            live: None,
            command: Vec::new(),
        }
    }
}
