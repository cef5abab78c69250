//! Runs a hostile program once, plain or under ramson, and keeps what a user would see of it.

use super::build::Built;
use super::program::{End, Program};
use crate::build::{library, ramson_program, shared_library};
use crate::run::{Directory, profiles_in};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The allocator that a program runs over: preloaded, or linked into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Allocator {
    Glibc,
    Jemalloc,
    Tcmalloc,
    Mimalloc,
    JemallocInside,
    TcmallocInside,
    MimallocInside,
}

impl Allocator {
    /// In the order of the table's columns.
    pub const ALL: [Self; 7] = [
        Self::Glibc,
        Self::Jemalloc,
        Self::Tcmalloc,
        Self::Mimalloc,
        Self::JemallocInside,
        Self::TcmallocInside,
        Self::MimallocInside,
    ];

    /// As directives and `docs/internals/edge-cases.md` name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Glibc => "glibc",
            Self::Jemalloc => "jemalloc",
            Self::Tcmalloc => "tcmalloc",
            Self::Mimalloc => "mimalloc",
            Self::JemallocInside => "jemalloc inside",
            Self::TcmallocInside => "tcmalloc inside",
            Self::MimallocInside => "mimalloc inside",
        }
    }

    /// Whether it is linked into the program.
    pub fn is_inside(self) -> bool {
        self > Self::Mimalloc
    }

    /// The same allocator, preloaded.
    pub(super) fn preloaded(self) -> Self {
        match self {
            Self::JemallocInside => Self::Jemalloc,
            Self::TcmallocInside => Self::Tcmalloc,
            Self::MimallocInside => Self::Mimalloc,
            other => other,
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|allocator| allocator.name() == name)
    }

    /// The library to preload; none for the C library's own, and for one that is linked in.
    pub fn library(self) -> Option<PathBuf> {
        let name = match self {
            Self::Glibc | Self::JemallocInside | Self::TcmallocInside | Self::MimallocInside => {
                return None;
            }
            Self::Jemalloc => "libjemalloc.so.2",
            Self::Tcmalloc => "libtcmalloc.so.4",
            Self::Mimalloc => "libmimalloc.so.2",
        };
        Some(shared_library(name))
    }
}

/// Under ramson at which sampling interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Interval {
    Default,
    Everything,
    Off,
}

impl Interval {
    /// The three of each cell.
    pub const ALL: [Self; 3] = [Self::Default, Self::Everything, Self::Off];

    /// As `RAMSON_INTERVAL` and `docs/internals/edge-cases.md` have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "512K",
            Self::Everything => "1",
            Self::Off => "off",
        }
    }
}

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without ramson.
    Plain,
    /// Under it from its start.
    Preloaded(Interval),
    /// Attached to and detached from, with all that it starts, as long as it runs.
    Visited(Interval),
}

/// The result of one run.
pub struct Ran {
    /// How often something was attached to.
    pub visits: usize,
    pub end: End,
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
    pub profiles: Vec<PathBuf>,
    /// Holds the profiles.
    _directory: Directory,
}

/// Runs `program` over `allocator`.
pub fn run(program: &Program, built: &Built, allocator: Allocator, way: Way) -> Ran {
    let interval = match way {
        Way::Preloaded(interval) => Some(interval),
        Way::Plain | Way::Visited(_) => None,
    };
    let directory = Directory::new();
    let tmp = directory.path().join("tmp");
    std::fs::create_dir(&tmp).expect("a directory can be made in a new one");
    let profiles = directory.path().join("profiles");
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| directory.path().join(name));
    let file = |path: &PathBuf| File::create(path).expect("a file can be made in a new directory");
    let mut command = Command::new(&built.executable);
    command
        .args(program.arguments.iter().map(|argument| built.expand(argument, &tmp)))
        .env_clear()
        .envs([("PATH", std::env::var_os("PATH").unwrap_or_default())])
        .env("HOME", &tmp)
        .env("TMPDIR", &tmp)
        .env("LC_ALL", "C")
        // Plain runs have them too: only the preloaded library differs.
        .env("RAMSON_DIR", &profiles)
        .env("RAMSON_KEEP", "1")
        .env("RAMSON_INSIDE", "on")
        .env("RAMSON_INTERVAL", interval.unwrap_or(Interval::Off).name())
        .env("RAMSON_FREES", if interval == Some(Interval::Everything) { "1024" } else { "0" })
        .envs(program.environment.iter().map(|(name, value)| (name, built.expand(value, &tmp))))
        .current_dir(&tmp)
        .stdin(Stdio::null())
        // Files, as a descendant that outlives the program would hold a pipe open.
        .stdout(file(&stdout))
        .stderr(file(&stderr))
        .process_group(0);
    let preload = preload(program, built, allocator, interval.is_some());
    if !preload.is_empty() {
        command.env("LD_PRELOAD", preload);
    }
    let child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.name));
    let visits = &Visits { pid: child.id(), directory: &profiles, is_over: AtomicBool::new(false) };
    let (end, visits) = thread::scope(|scope| {
        let visitor = match way {
            Way::Visited(interval) => Some(scope.spawn(move || visits.make(interval))),
            _ => None,
        };
        let end = wait(child, program.time);
        visits.is_over.store(true, Ordering::Relaxed);
        (end, visitor.map_or(0, |visitor| visitor.join().expect("visits do not panic")))
    });
    let lines = |path: &PathBuf| {
        let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
        let compared = |line: &&str| !program.varies.iter().any(|text| line.contains(text));
        text.lines().filter(compared).map(str::to_owned).collect()
    };
    let (stdout, stderr) = (lines(&stdout), lines(&stderr));
    Ran { visits, end, stdout, stderr, profiles: profiles_in(&profiles), _directory: directory }
}

/// A program that is attached to and detached from while it runs.
struct Visits<'a> {
    pid: u32,
    directory: &'a Path,
    is_over: AtomicBool,
}

impl Visits<'_> {
    /// Until it has ended. Returns how often one of its processes was attached to.
    fn make(&self, interval: Interval) -> usize {
        let tree = format!("tree:{}", self.pid);
        let said = |words: &[&str]| {
            let mut ramson = Command::new(ramson_program());
            ramson.args(words).env("RAMSON_DIR", self.directory).env("RAMSON_LIBRARY", library());
            let output = ramson.stdin(Stdio::null()).stderr(Stdio::null()).output();
            String::from_utf8(output.expect("ramson runs").stdout).unwrap_or_default()
        };
        let mut visits = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let attached = said(&["attach", "--interval", interval.name(), &tree]);
            visits += attached.matches("recorded from now on").count();
            thread::sleep(Duration::from_millis(5));
            said(&["detach", &tree]);
        }
        visits
    }
}

/// The value of LD_PRELOAD.
fn preload(program: &Program, built: &Built, allocator: Allocator, with_ramson: bool) -> String {
    let none = PathBuf::new();
    let expand = |library: &String| built.expand(library, &none);
    let mut libraries: Vec<_> = program.preload_before.iter().map(expand).collect();
    if with_ramson {
        libraries.push(library().display().to_string());
    }
    libraries.extend(program.preload_after.iter().map(expand));
    libraries.extend(allocator.library().map(|path| path.display().to_string()));
    libraries.join(":")
}

/// Waits for its end, then kills what is left of its process group.
fn wait(mut child: Child, limit: Duration) -> End {
    let group = Pid::from_child(&child);
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => break None,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    // Fails where nobody is left.
    let _ = kill_process_group(group, Signal::KILL);
    let Some(status) = status else {
        let _ = child.wait();
        return End::Hang;
    };
    status.signal().map_or_else(|| End::Exit(status.code().unwrap_or(-1)), End::Signal)
}
