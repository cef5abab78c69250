//! `ramson history`: keeps snapshots of processes in a history.

mod kept;
mod lateness;
mod selection;
mod writing;

use crate::answers::{HistoryEvent, HistoryLine};
use crate::flags::{DEFAULT_KEEP_NS, HistoryFlags};
use crate::output::{hint, print_json, remark};
use crate::run::keeper::Keeper;
use crate::run::prune::Bounds;
use kept::{Kept, Shot};
use lateness::Lateness;
use ramson_analysis::rss::Rss;
use ramson_analysis::timeline::Split;
use ramson_history::{HistoryError, HistoryWriter, Levels, Rules, Taken, Triggers};
use ramson_process::clock::{monotonic_ns, unix_ns};
use ramson_process::stat;
use ramson_source::places::own_profile_directory;
use ramson_source::{Failure, Recording, place, unreadable};
use rustix::fs::OFlags;
use rustix::io::Errno;
use selection::Selection;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fmt::Display;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use writing::{Event, Writing};

const SECOND: u64 = 1_000_000_000;
/// How often a process is looked at for anything but the clock.
const MOST_POLL_NS: u64 = SECOND;
/// Processes whose last snapshots take more than this together are read anew each time.
const MOST_HELD_BYTES: usize = 128 << 20;

pub fn history(flags: &HistoryFlags) -> Result<(), Failure> {
    let path = match &flags.output {
        Some(path) => {
            check_directory(path)?;
            path.clone()
        }
        None => usual_place()?,
    };
    make(&path)?;
    let _lock = lock(&path)?;
    let (mut selection, mut found) = Selection::begin(flags)?;
    let (sender, events) = mpsc::channel();
    send_ends(sender.clone())?;
    let mut session = Session {
        writing: Writing::start(open(&path, flags)?, sender),
        lateness: Lateness::new(path.clone(), flags.every),
        path,
        rules: Rules { every_ns: flags.every, every_bytes: flags.every_bytes },
        kept: Vec::new(),
        is_failing: false,
        is_json: flags.json,
    };
    // Processes of the history may leave profiles without a "ramson run" that looks after these.
    let _keeper = Keeper::start(own_profile_directory(), Bounds::from_environment());
    let mut has_said_it_waits = false;
    loop {
        session.lateness.begin_round();
        let kept = &session.kept;
        let others = selection.search.found(|| kept.iter().map(Kept::identity).collect());
        for source in std::mem::take(&mut found).into_iter().chain(others) {
            session.follow(source)?;
        }
        session.round()?;
        if session.kept.is_empty() && !selection.search.expects_others() {
            hint("all processes of the history have ended");
            break;
        }
        if session.kept.is_empty() && !std::mem::replace(&mut has_said_it_waits, true) {
            hint(&format!("waiting for {} (Ctrl-C ends)", selection.awaited));
        }
        if !session.waits(&events)? {
            break;
        }
    }
    session.writing.finish();
    Ok(())
}

/// Keeps a mark in the history that readers look at, if that has this process. Whether it has.
pub fn mark(source: &Recording, name: &str) -> Result<bool, Failure> {
    let Ok(path) = place() else { return Ok(false) };
    if !path.exists() {
        return Ok(false);
    }
    let broken = |error| unreadable(&path, &error);
    let levels = Levels::new(10 * SECOND, DEFAULT_KEEP_NS);
    let mut writer = HistoryWriter::open(&path, levels, u64::MAX).map_err(broken)?;
    if !writer.has(&source.snapshot.header).map_err(broken)? {
        return Ok(false);
    }
    let snapshot = &source.snapshot;
    let read = source.running.and_then(|pid| Rss::read(pid, &source.origin, snapshot, &mut None));
    let split = read.map(|rss| Split::of(&rss));
    let taken = Taken {
        snapshot,
        name: source.name(),
        time_ns: unix_ns(),
        monotonic_ns: monotonic_ns(),
        rss: match &split {
            Some(split) => Some(split.rss),
            None => source.running.and_then(|pid| stat::Stat::of(pid)?.rss),
        },
        free: split.as_ref().and_then(|split| split.free),
        terms: split.map(|split| split.terms.0),
        triggers: Triggers::MARK,
    };
    writer.mark(&taken, name).map_err(broken)?;
    Ok(true)
}

fn open(path: &Path, flags: &HistoryFlags) -> Result<HistoryWriter, Failure> {
    // SQLite makes files that others may read.
    make(path)?;
    let levels = Levels::new(flags.every, flags.keep);
    HistoryWriter::open(path, levels, flags.max_size).map_err(|error| unreadable(path, &error))
}

fn elsewhere(path: &Path, finding: impl Display) -> Failure {
    Failure::failed(format!("{}: {finding}. Choose another place with -o", path.display()))
}

fn make(path: &Path) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let made = options.custom_flags(flags.bits() as i32).open(path);
    let made = made.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => elsewhere(path, "a symbolic link, which is not followed"),
        _ => elsewhere(path, error),
    })?;
    match made.metadata() {
        Ok(facts) if !facts.is_file() => {
            Err(elsewhere(path, "not a regular file, so no history can be kept in it"))
        }
        _ => Ok(made),
    }
}

/// Path of the history that readers open by default; makes its directory.
fn usual_place() -> Result<PathBuf, Failure> {
    let path = place()?;
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|error| elsewhere(directory, error))?;
    }
    Ok(path)
}

/// A place that the user chose has to be there: a mistyped one would be made anywhere.
fn check_directory(path: &Path) -> Result<(), Failure> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match directory.filter(|directory| !directory.is_dir()) {
        None => Ok(()),
        Some(directory) => Err(Failure::failed(format!(
            "{}: no such directory. Create it, or choose another place with -o",
            directory.display()
        ))),
    }
}

/// One writer for each history. The lock is on a file of its own: SQLite has its own locks on the database.
fn lock(path: &Path) -> Result<File, Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push("-writer");
    let opened = make(&path.with_file_name(name))?;
    match opened.try_lock() {
        Ok(()) => Ok(opened),
        Err(TryLockError::WouldBlock) => {
            Err(elsewhere(path, "another \"ramson history\" writes to it"))
        }
        Err(TryLockError::Error(error)) => Err(elsewhere(path, error)),
    }
}

fn send_ends(sender: Sender<Event>) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| Failure::failed(format!("signals: {error}. Try again")))?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // Its receiver has ended already.
            let _ = sender.send(Event::End);
        }
    });
    Ok(())
}

struct Session {
    writing: Writing,
    path: PathBuf,
    rules: Rules,
    kept: Vec<Kept>,
    is_failing: bool,
    /// Whether events are printed.
    is_json: bool,
    lateness: Lateness,
}

impl Session {
    fn follow(&mut self, source: Recording) -> Result<(), Failure> {
        let identity = source.snapshot.header.identity();
        if self.kept.iter().any(|old| old.identity() == identity) {
            return Ok(());
        }
        let Some(new) = Kept::new(source) else { return Ok(()) };
        // A process that executes another program ends its profile without a word.
        for old in self.kept.iter_mut().filter(|old| old.is_image_before(&new)) {
            old.has_ended = true;
        }
        hint(&format!("keeping snapshots of {} (pid {})", new.name, new.followed.pid));
        let said = self.say(HistoryEvent::Begins, &new);
        self.kept.push(new);
        said
    }

    fn say(&self, event: HistoryEvent, of: &Kept) -> Result<(), Failure> {
        if !self.is_json {
            return Ok(());
        }
        let pid = of.followed.pid;
        let name = of.name.clone();
        let time_unix_ns = unix_ns();
        let history = self.path.clone();
        print_json("history", &HistoryLine { event, pid, name, time_unix_ns, history })
    }

    /// Looks at every process once, and hands over what there is a reason to keep.
    fn round(&mut self) -> Result<(), Failure> {
        let time_ns = unix_ns();
        self.lateness.say_if_behind(self.writing.behind());
        if !self.writing.has_room() {
            self.lateness.miss(time_ns / self.rules.every_ns);
            return Ok(());
        }
        let look = |kept: &mut Kept| kept.look(time_ns, &self.rules);
        let mut shots: Vec<Shot> = self.kept.iter_mut().filter_map(look).collect();
        self.survey(&mut shots);
        if !shots.is_empty() {
            self.writing.keep(shots);
        }
        let over: Vec<Kept> = self.kept.extract_if(.., |kept| kept.is_over).collect();
        for kept in over {
            self.say(HistoryEvent::Ends, &kept)?;
            self.writing.forget(kept.header().clone());
        }
        Ok(())
    }

    /// Reads what allocators have free after all snapshots were taken, so that these are of one moment.
    fn survey(&mut self, shots: &mut [Shot]) {
        let processes = self.kept.len();
        for shot in shots {
            if let Some(kept) = self.kept.iter_mut().find(|kept| kept.identity() == shot.identity) {
                kept.survey(shot, processes);
            }
        }
    }

    /// Until the next round, or until the last one that there will be is kept. False: the end came.
    fn waits(&mut self, events: &Receiver<Event>) -> Result<bool, Failure> {
        let least_ns = self.rules.every_ns.min(MOST_POLL_NS);
        let until = Instant::now() + Duration::from_nanos(least_ns - unix_ns() % least_ns);
        loop {
            match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Event::Done(kept, shots)) => self.settle(kept, shots)?,
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return Ok(false),
                Err(RecvTimeoutError::Timeout) => return Ok(true),
            }
            if !self.kept.is_empty() && self.kept.iter().all(|kept| kept.is_over) {
                return Ok(true);
            }
        }
    }

    fn settle(&mut self, kept: Result<(), HistoryError>, shots: Vec<Shot>) -> Result<(), Failure> {
        let is_kept = self.is_kept(kept)?;
        self.writing.settle();
        let mut held: usize = self.kept.iter().map(|kept| kept.followed.follower.bytes()).sum();
        for shot in shots {
            if let Some(kept) = self.kept.iter_mut().find(|kept| kept.identity() == shot.identity) {
                held += shot.follower.bytes();
                kept.settle(shot, is_kept, held <= MOST_HELD_BYTES);
            }
        }
        if !is_kept {
            self.lateness.miss(unix_ns() / self.rules.every_ns);
        } else if self.writing.behind().is_none() {
            self.lateness.say_if_over();
        }
        Ok(())
    }

    /// A full disk, or another writer that takes long, passes: what could not be kept is tried again with the next moment.
    fn is_kept(&mut self, result: Result<(), HistoryError>) -> Result<bool, Failure> {
        match result {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    remark(format_args!("{}: snapshots are written again", self.path.display()));
                }
                Ok(true)
            }
            Err(error @ (HistoryError::Full | HistoryError::Database(_))) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    remark(format_args!(
                        "{}: {error}. Earlier snapshots are kept; ramson keeps trying",
                        self.path.display()
                    ));
                }
                Ok(false)
            }
            Err(error) => Err(unreadable(&self.path, &error)),
        }
    }
}
