//! Which process of a history is meant, and which of its moments.

use crate::failure::Failure;
use crate::file::{Opened, open_any_file};
use crate::places;
use ramson_history::{History, HistoryError, MAGIC, Moment, Process, Triggers, When};
use ramson_process::clock::unix_ns;
use ramson_profile::format::format_local_time;
use ramson_reader::Header;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A moment of a process.
pub struct PastMoment {
    /// The database.
    pub history: Rc<History>,
    /// Its file.
    pub path: PathBuf,
    /// The process.
    pub process: Process,
    /// What was taken of it then.
    pub moment: Moment,
}

/// Whether a file is an SQLite database, by its first bytes.
pub fn is_history(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == MAGIC
}

/// Whom a source names.
enum Wanted {
    Pid(u32),
    Name(String),
    /// Whose profile has this header.
    Profile(Box<Header>),
    Any,
}

impl Wanted {
    fn is(&self, process: &Process) -> bool {
        match self {
            Self::Pid(pid) => process.pid == *pid,
            Self::Name(name) => {
                let exe = process.exe.rsplit('/').next().unwrap_or_default();
                [process.name.as_str(), exe, process.comm.as_str()].contains(&name.as_str())
            }
            Self::Profile(header) => {
                (process.pid, process.start_unix_ns) == (header.pid, header.start_realtime_ns)
            }
            Self::Any => true,
        }
    }
}

/// The one process that `base` names, at this moment: of those that were there then, the newest.
pub fn find(base: &str, when: &When) -> Result<PastMoment, Failure> {
    let mut found = find_all(base, when)?;
    if let [first, _, ..] = found.as_slice() {
        let pids: Vec<String> = found.iter().map(|found| found.process.pid.to_string()).collect();
        return Err(Failure::usage(format!(
            "{base}: {} processes of that time ({}). Pass one of these process IDs with its moment; RAMSON_HISTORY={} names the history",
            pids.len(),
            pids.join(", "),
            first.path.display()
        )));
    }
    Ok(found.swap_remove(0))
}

/// Every process that `base` names, at this moment, the newest first; never none. Of those that ended before, the newest.
pub fn find_all(base: &str, when: &When) -> Result<Vec<PastMoment>, Failure> {
    let (path, history, wanted) = open(base)?;
    find_in(base, path, history, &wanted, when)
}

/// The process whose profile has this header; `base` is what it is called in messages.
pub fn find_profile(header: &Header, base: &str, when: &When) -> Result<PastMoment, Failure> {
    let (path, history) = open_place(base)?;
    let wanted = Wanted::Profile(Box::new(header.clone()));
    Ok(find_in(base, path, history, &wanted, when)?.swap_remove(0))
}

fn find_in(
    base: &str,
    path: PathBuf,
    history: History,
    wanted: &Wanted,
    when: &When,
) -> Result<Vec<PastMoment>, Failure> {
    let broken = |error| unreadable(&path, &error);
    let mut processes = history.processes().map_err(broken)?;
    processes.retain(|process| wanted.is(process));
    if processes.is_empty() {
        return Err(Failure::not_found(format!(
            "{base}: not in the history {}. \"ramson record {base}\" keeps one",
            path.display()
        )));
    }
    let mut there = Vec::new();
    for process in processes.iter().rev() {
        if let Some((moment, is_ended)) = moment_of(&history, process, when).map_err(broken)? {
            there.push((process.clone(), moment, is_ended));
        }
    }
    if there.is_empty() {
        return Err(nothing_then(base, when, &history, &processes));
    }
    if there.iter().any(|(_, _, is_ended)| !is_ended) {
        there.retain(|(_, _, is_ended)| !is_ended);
    }
    if there[0].2 || !matches!(wanted, Wanted::Name(_) | Wanted::Any) {
        there.truncate(1);
    }
    let history = Rc::new(history);
    let found = |(process, moment, _)| PastMoment {
        history: history.clone(),
        path: path.clone(),
        process,
        moment,
    };
    Ok(there.into_iter().map(found).collect())
}

/// The history that a source is in, and whom it names there.
fn open(base: &str) -> Result<(PathBuf, History, Wanted), Failure> {
    let file = Path::new(base);
    if file.is_file() && is_history(file) {
        let history = History::open(file).map_err(|error| unreadable(file, &error))?;
        return Ok((file.to_owned(), history, Wanted::Any));
    }
    let wanted = wanted(base, file)?;
    let (path, history) = open_place(base)?;
    Ok((path, history, wanted))
}

fn open_place(base: &str) -> Result<(PathBuf, History), Failure> {
    let path = place()?;
    if !path.exists() {
        return Err(Failure::not_found(format!(
            "{base}: there is no history at {}. \"ramson record {base}\" keeps one; RAMSON_HISTORY names another",
            path.display()
        )));
    }
    let history = History::open(&path).map_err(|error| unreadable(&path, &error))?;
    Ok((path, history))
}

/// Whom a source names that is no history itself.
fn wanted(base: &str, file: &Path) -> Result<Wanted, Failure> {
    if let Some(name) = base.strip_prefix("name:") {
        return Ok(Wanted::Name(name.to_owned()));
    }
    let Ok(facts) = file.metadata() else {
        return base.parse().map(Wanted::Pid).map_err(|_| {
            Failure::not_found(format!(
                "{base}: no such file. Pass a process ID, name:NAME, a profile or a history; \"ramson record --all -o {base}\" makes a history there"
            ))
        });
    };
    if facts.is_file() && facts.len() == 0 {
        return Err(Failure::failed(format!(
            "{base}: the file is empty, so neither a history nor a profile. \"ramson record --all -o {base}\" makes a history of it"
        )));
    }
    match open_any_file(file, ramson_import::InuseAt::End)? {
        Opened::Recording(source) => Ok(Wanted::Profile(Box::new(source.snapshot.header))),
        Opened::Foreign(_) => Err(Failure::usage(format!(
            "{base}: another tool's file holds one moment only. Pass a process ID, name:NAME, a profile or a history that ramson made"
        ))),
    }
}

/// The moment of a process that is meant, if the process was there then, and whether its end is known.
fn moment_of(
    history: &History,
    process: &Process,
    when: &When,
) -> Result<Option<(Moment, bool)>, ramson_history::HistoryError> {
    let ends = |moment: &Moment| moment.triggers.has(Triggers::EXIT.and(Triggers::DEATH));
    let moment = match when {
        When::Ago(_) | When::At(_) => {
            let time_ns = time_of(when);
            let found = history.at(process.id, time_ns)?;
            found.filter(|moment| !ends(moment) || moment.time_ns == time_ns)
        }
        When::Peak => history.peak(process.id)?,
        When::Mark(name) => history.mark(process.id, name)?,
        When::Last => history.at(process.id, u64::MAX)?,
    };
    let is_ended = match when {
        // It was there then.
        When::Ago(_) | When::At(_) => false,
        _ => history.at(process.id, u64::MAX)?.is_some_and(|last| ends(&last)),
    };
    Ok(moment.map(|moment| (moment, is_ended)))
}

fn nothing_then(base: &str, when: &When, history: &History, processes: &[Process]) -> Failure {
    if let When::Mark(name) = when {
        let marks = processes.iter().filter_map(|process| history.marks(process.id).ok()).flatten();
        let marks: Vec<String> = marks.map(|(name, _)| name).collect();
        let there = if marks.is_empty() {
            format!("\"ramson mark {base} {name}\" makes one, of now")
        } else {
            format!("There are {}", marks.join(", "))
        };
        return Failure::not_found(format!("{base}: no mark {name} in its history. {there}"));
    }
    let moments = processes.iter().flat_map(|process| {
        let [first, last] = [history.first(process.id), history.at(process.id, u64::MAX)];
        Some((first.ok()??.time_ns, last.ok()??.time_ns))
    });
    let spans: Vec<String> = moments
        .map(|(first, last)| format!("{} to {}", format_local_time(first), format_local_time(last)))
        .collect();
    Failure::not_found(format!(
        "{base}: it was not recorded at {}. There is {}",
        format_local_time(time_of(when)),
        spans.join(", ")
    ))
}

/// The time that is meant; the last there is, where it is named otherwise.
pub fn time_of(when: &When) -> u64 {
    match when {
        When::Ago(ago_ns) => unix_ns().saturating_sub(*ago_ns),
        When::At(time_ns) => *time_ns,
        When::Peak | When::Mark(_) | When::Last => u64::MAX,
    }
}

/// The history that readers look at when they are not told which, and where `record` keeps it.
pub fn place() -> Result<PathBuf, Failure> {
    places::history().ok_or_else(|| {
        Failure::failed("no place for a history: neither HOME nor XDG_STATE_HOME is set. Set RAMSON_HISTORY to a file")
    })
}

/// What is wrong with a history.
pub fn unreadable(path: &Path, error: &HistoryError) -> Failure {
    let next = match error {
        HistoryError::NotAHistory => "Pass a file that \"ramson record\" made",
        HistoryError::Version(_) => "Use the ramson that wrote it",
        HistoryError::Full => "Make space, or choose another place with -o",
        HistoryError::Damaged => "\"sqlite3 FILE .recover\" may save what is left",
        HistoryError::Database(_) => "Check that it can be read and written",
    };
    Failure::failed(format!("{}: {error}. {next}", path.display()))
}
