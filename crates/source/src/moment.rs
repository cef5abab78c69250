//! SRC@MOMENT: which process of a history is meant, at which of its moments, and what the history has of it, as snapshots.

use crate::failure::Failure;
use crate::file::{Opened, open_any_file, open_file, open_member};
use crate::marks;
use crate::members::{none_of, processes_of};
use crate::places;
use crate::recording::{Past, Recording};
use crate::selector::{Base, Selector};
use ramson_format::flags;
use ramson_history::{
    History, HistoryError, MAGIC, Moment, Process, Span, Triggers, When, between,
};
use ramson_import::InuseAt;
use ramson_process::clock::unix_ns;
use ramson_process::identify::base_name;
use ramson_profile::format::format_local_time;
use ramson_reader::{Header, Snapshot};
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
    /// The moment, with what the history keeps of it.
    pub moment: Moment,
}

/// Opens what the history has of the processes that a SRC names; `None` if the SRC is not about the past.
pub fn open(selector: &Selector) -> Result<Option<Vec<Recording>>, Failure> {
    let path = Path::new(&selector.base_text);
    let is_history = is_history(path);
    let span = match &selector.span {
        None if is_history => &Span::Moment(When::Last),
        None => return Ok(None),
        Some(span) => span,
    };
    // A recording of heaptrack has a peak of its own.
    let is_peak = *span == Span::Moment(When::Peak);
    if is_peak && !is_history && path.is_file() && open_file(path).is_err() {
        return Ok(None);
    }
    let found = match (find_all(selector, end_of(span)), span) {
        (Err(failure), Span::Moment(When::Mark(name))) => {
            // It may have been made while nothing was recorded.
            let kept = marks::of(&selector.base, name);
            if !kept.is_empty() {
                return Ok(Some(kept));
            }
            let base = &selector.base_text;
            return Err(if place().is_ok_and(|history| history.exists()) {
                failure
            } else {
                Failure::not_found(format!(
                    "{base}: no mark {name}, and no history. \"ramson mark {base} {name}\" makes a mark of the present moment"
                ))
            });
        }
        (found, _) => found?,
    };
    let of_span = |one: &PastMoment| match found.len() {
        1 => one.of_span(&selector.text, span),
        _ => one.of_span(&format!("{}{}", one.process.pid, selector.moment_text()), span),
    };
    found.iter().map(of_span).collect::<Result<_, _>>().map(Some)
}

/// The same of the process of a recording.
pub fn of_recording(
    recording: &Recording,
    selector: &Selector,
    span: &Span,
) -> Result<Recording, Failure> {
    let base = recording.pid().to_string();
    let found = find_profile(&recording.snapshot.header, &base, end_of(span))?;
    found.of_span(&format!("{base}{}", selector.moment_text()), span)
}

fn end_of(span: &Span) -> &When {
    match span {
        Span::Moment(when) | Span::Range(_, when) => when,
    }
}

impl PastMoment {
    fn of_span(&self, origin: &str, span: &Span) -> Result<Recording, Failure> {
        let later = self.snapshot(&self.moment)?;
        let (snapshot, from_ns) = match span {
            Span::Moment(_) => (later, None),
            Span::Range(from, _) => match self.earlier(origin, from)? {
                Some(from) => (between(&self.snapshot(&from)?, later), Some(from.time_ns)),
                None => {
                    let start_ns = later.header.start_realtime_ns;
                    (later, Some(start_ns))
                }
            },
        };
        let is_end = self.moment.triggers.intersects(Triggers::EXIT | Triggers::DEATH);
        let Moment { time_ns, rss, free, terms, .. } = self.moment;
        let past = Past { time_ns, from_ns, rss, free, terms, is_end };
        Ok(Recording {
            past: Some(Box::new(past)),
            ..Recording::of(snapshot, None, origin.to_owned())
        })
    }

    fn snapshot(&self, moment: &Moment) -> Result<Snapshot, Failure> {
        let read = self.history.snapshot(self.process.id, moment);
        let mut snapshot = read.map_err(|error| unreadable(&self.path, &error))?;
        if snapshot.header.flags & flags::GO != 0 {
            // The history does not keep since when it was followed.
            let first = snapshot.stacks.iter().map(|stack| stack.first_monotonic_ns);
            let began_ns = first.filter(|&first_ns| first_ns > 0).min();
            snapshot.header.attached_monotonic_ns = began_ns.unwrap_or(0);
        }
        Ok(snapshot)
    }

    /// The moment at which a range begins that ends at this one; `None`: before the process was recorded.
    pub fn earlier(&self, source: &str, from: &When) -> Result<Option<Moment>, Failure> {
        let found = moment_at(&self.history, self.process.id, from);
        let found = found.map_err(|error| unreadable(&self.path, &error))?;
        match &found {
            Some(moment) if moment.time_ns > self.moment.time_ns => Err(Failure::usage(format!(
                "{source}: the range ends before it begins. Swap its ends"
            ))),
            None if matches!(from, When::Mark(_)) => Err(Failure::not_found(format!(
                "{source}: process {} has no such mark. \"ramson timeline {}\" shows its marks",
                self.process.pid, self.process.pid
            ))),
            _ => Ok(found),
        }
    }
}

/// Whether a file is an SQLite database, by its first bytes.
fn is_history(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == MAGIC
}

/// The one process that is named, at this moment: of those that were there then, the newest.
pub fn find(selector: &Selector, when: &When) -> Result<PastMoment, Failure> {
    let mut found = find_all(selector, when)?;
    if let [first, _, ..] = found.as_slice() {
        let start = |process: &Process| format_local_time(process.start_unix_ns);
        let one =
            |found: &PastMoment| format!("{} since {}", found.process.pid, start(&found.process));
        let pids: Vec<String> = found.iter().map(one).collect();
        return Err(Failure::usage(format!(
            "{}: {} processes of that time ({}). Pass one of these process IDs with its moment; RAMSON_HISTORY={} names the history",
            selector.base_text,
            pids.len(),
            pids.join(", "),
            first.path.display()
        )));
    }
    Ok(found.swap_remove(0))
}

/// Every process that is named, at this moment, the newest first; never none. If all of them ended before, only the newest.
fn find_all(selector: &Selector, when: &When) -> Result<Vec<PastMoment>, Failure> {
    let base = selector.base_text.as_str();
    match &selector.base {
        Base::File(path) if is_history(path) => find_in(base, path.clone(), |_| true, when),
        Base::File(path) => Ok(vec![find_profile(&header_of(base, path)?, base, when)?]),
        Base::Process(pid) => {
            let mut found = find_in(base, there(base)?, |process| process.pid == *pid, when)?;
            found.truncate(1);
            Ok(found)
        }
        Base::Name(name) => {
            let has_name = |process: &Process| {
                [process.name.as_str(), base_name(&process.exe), &process.comm].contains(&&**name)
            };
            find_in(base, there(base)?, has_name, when)
        }
        Base::Tree(_) | Base::Unit(_) | Base::Group(_) => {
            let pids = processes_of(&selector.base).unwrap_or_default();
            let present = pids.into_iter().filter_map(open_member);
            let mut found = Vec::new();
            let mut failure = none_of(selector);
            for member in present {
                match find_profile(&member.snapshot.header, base, when) {
                    Ok(moment) => found.push(moment),
                    Err(error) => failure = error,
                }
            }
            if found.is_empty() { Err(failure) } else { Ok(found) }
        }
        Base::Address(_) | Base::Database(_) | Base::Input => Err(no_file(base)),
    }
}

/// The process whose profile has this header; `base` is what it is called in messages.
fn find_profile(header: &Header, base: &str, when: &When) -> Result<PastMoment, Failure> {
    let image = (header.pid, header.start_realtime_ns);
    let is_its = |process: &Process| (process.pid, process.start_unix_ns) == image;
    Ok(find_in(base, there(base)?, is_its, when)?.swap_remove(0))
}

/// What the history has of a profile's process last; `None` without a history.
pub fn latest(header: &Header) -> Option<Snapshot> {
    let found = find_profile(header, "", &When::Last).ok()?;
    found.snapshot(&found.moment).ok()
}

/// The moments of a profile's process that the history has between two times; none without a history.
pub fn moments_of(header: &Header, from_ns: u64, to_ns: u64) -> Vec<Moment> {
    let Ok(found) = find_profile(header, "", &When::Last) else { return Vec::new() };
    found.history.series(found.process.id, from_ns, to_ns).unwrap_or_default()
}

fn find_in(
    base: &str,
    path: PathBuf,
    is_wanted: impl Fn(&Process) -> bool,
    when: &When,
) -> Result<Vec<PastMoment>, Failure> {
    let history = Rc::new(History::open(&path).map_err(|error| unreadable(&path, &error))?);
    let broken = |error| unreadable(&path, &error);
    let mut processes = history.processes().map_err(broken)?;
    processes.retain(is_wanted);
    if processes.is_empty() {
        return Err(Failure::not_found(format!(
            "{base}: not in the history {}. \"ramson history {base}\" records it",
            path.display()
        )));
    }
    let mut running = Vec::new();
    let mut ended = None;
    for process in processes.iter().rev() {
        if let Some((moment, is_ended)) = moment_of(&history, process, when).map_err(broken)? {
            let history = history.clone();
            let path = path.clone();
            let process = process.clone();
            let found = PastMoment { history, path, process, moment };
            if is_ended {
                ended = ended.or(Some(found));
            } else {
                running.push(found);
            }
        }
    }
    if running.is_empty() {
        running.push(ended.ok_or_else(|| nothing_then(base, when, &history, &processes))?);
    }
    Ok(running)
}

/// The history that readers look at, if it is there.
fn there(base: &str) -> Result<PathBuf, Failure> {
    let path = place()?;
    if !path.exists() {
        return Err(Failure::not_found(format!(
            "{base}: no history at {}. \"ramson history {base}\" starts one; RAMSON_HISTORY names another",
            path.display()
        )));
    }
    Ok(path)
}

fn no_file(base: &str) -> Failure {
    Failure::not_found(format!(
        "{base}: no such file. Pass a process ID, name:NAME, a profile or a history; \"ramson history --all -o {base}\" makes a history there"
    ))
}

/// Reads the header of a profile.
fn header_of(base: &str, file: &Path) -> Result<Header, Failure> {
    let facts = file.metadata().map_err(|_| no_file(base))?;
    if facts.is_file() && facts.len() == 0 {
        return Err(Failure::failed(format!(
            "{base}: the file is empty, so neither a history nor a profile. \"ramson history --all -o {base}\" makes a history of it"
        )));
    }
    match open_any_file(file, InuseAt::End)? {
        Opened::Recording(recording) => Ok(recording.snapshot.header),
        Opened::Foreign(_) => Err(Failure::usage(format!(
            "{base}: another tool's file holds one moment only. Pass a process ID, name:NAME, a profile or a history that ramson made"
        ))),
    }
}

/// The moment of a process that is meant.
fn moment_at(history: &History, process: i64, when: &When) -> Result<Option<Moment>, HistoryError> {
    match when {
        When::Peak => history.peak(process),
        When::Mark(name) => history.mark(process, name),
        When::Ago(_) | When::At(_) | When::Last => history.at(process, time_of(when)),
    }
}

/// The same if the process was there then, and whether its end is known.
fn moment_of(
    history: &History,
    process: &Process,
    when: &When,
) -> Result<Option<(Moment, bool)>, HistoryError> {
    let ends = |moment: &Moment| moment.triggers.intersects(Triggers::EXIT | Triggers::DEATH);
    let moment = moment_at(history, process.id, when)?;
    if matches!(when, When::Ago(_) | When::At(_)) {
        // The end itself, too, if it was within the second that is meant.
        let was_there =
            |moment: &Moment| !ends(moment) || time_of(when) - moment.time_ns < 1_000_000_000;
        return Ok(moment.filter(was_there).map(|moment| (moment, false)));
    }
    let last = history.at(process.id, u64::MAX)?;
    Ok(moment.map(|moment| (moment, last.is_some_and(|last| ends(&last)))))
}

fn nothing_then(base: &str, when: &When, history: &History, processes: &[Process]) -> Failure {
    if let When::Mark(name) = when {
        let marks = processes.iter().filter_map(|process| history.marks(process.id).ok()).flatten();
        let marks: Vec<String> = marks.map(|(name, _)| name).collect();
        let there = if marks.is_empty() {
            format!("\"ramson mark {base} {name}\" makes one now")
        } else {
            format!("Known marks: {}", marks.join(", "))
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
        "{base}: it was not recorded at {}. The history covers {}",
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

/// The history that readers look at when they are not told which, and where `history` keeps it.
pub fn place() -> Result<PathBuf, Failure> {
    places::history().ok_or_else(|| {
        Failure::failed("no place for a history: neither HOME nor XDG_STATE_HOME is set. Set RAMSON_HISTORY to a file")
    })
}

/// Says what is wrong with a history, and the next step.
pub fn unreadable(path: &Path, error: &HistoryError) -> Failure {
    let next = match error {
        HistoryError::NotAHistory | HistoryError::ForeignSchema(_) => {
            "Pass a file that \"ramson history\" made"
        }
        HistoryError::Version(_) => "Use the ramson that wrote it",
        HistoryError::OverBudget => "Copy it, and pass the copy: your own files may take more",
        HistoryError::Full => "Make space, or choose another place with -o",
        HistoryError::Damaged => "\"sqlite3 FILE .recover\" may save what is left",
        HistoryError::Changing => "Try again",
        HistoryError::OtherOwner(_) => "Choose another place with -o, or run ramson as that user",
        HistoryError::Apart(failure) => failure.next_step(),
        HistoryError::Database(_) => "Check that it can be read and written",
    };
    Failure::failed(format!("{}: {error}. {next}", path.display()))
}
