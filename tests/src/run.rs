//! Runs a program under the library in a directory of its own.

use crate::build::{library, target_directory};
use ramson_reader::{ProcessFiles, ProcessRange, ReadError, Snapshot};
use std::ffi::OsStr;
use std::fs::File;
use std::io::BufRead;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// A new directory on disk, removed when dropped.
pub struct Directory {
    path: PathBuf,
    /// Removes it.
    _directory: TempDir,
}

impl Directory {
    /// Makes it.
    pub fn new() -> Self {
        let parent = target_directory().join("test-runs");
        std::fs::create_dir_all(&parent).expect("a directory in target/ can be made");
        let directory = TempDir::with_prefix_in("run-", parent).expect("it can be written");
        let path = directory.path().canonicalize().expect("it was just made");
        Self { path, _directory: directory }
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Default for Directory {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts `command` under the library, at an interval that stays: the estimates that a test judges depend on it.
pub fn preload<'a>(command: &'a mut Command, interval: &str) -> &'a mut Command {
    command
        .env("LD_PRELOAD", library())
        .env("RAMSON_INTERVAL", interval)
        .env("RAMSON_MAX_OVERHEAD", "off")
}

/// A program to be run under the library. At first: every allocation recorded, no bound of the overhead, profiles kept.
pub struct Run {
    /// Directory of the run; profiles go to `profiles` in it.
    pub directory: Directory,
    /// The command that will be run.
    pub command: Command,
}

impl Run {
    /// `program` with no arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let directory = Directory::new();
        let mut command = Command::new(program);
        for variable in ["DIR", "OUTPUT", "KEEP", "INTERVAL", "MAX_FILE", "RUN_ID"] {
            command.env_remove(format!("RAMSON_{variable}"));
        }
        preload(&mut command, "1")
            .env("RAMSON_DIR", directory.path().join("profiles"))
            .env("RAMSON_KEEP", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { directory, command }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Unsets a variable.
    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Preloads `allocator` after the library, so that it is the one underneath.
    pub fn over(self, allocator: &Path) -> Self {
        let preload = format!("{}:{}", library().display(), allocator.display());
        self.env("LD_PRELOAD", preload)
    }

    /// Directory that profiles go to.
    pub fn profiles_directory(&self) -> PathBuf {
        self.directory.path().join("profiles")
    }

    /// Starts it and does not wait.
    pub fn spawn(&mut self) -> Child {
        self.command.spawn().expect("the program can be started")
    }

    /// Runs it to its end, however it ends.
    pub fn finish(mut self) -> Finished {
        let child = self.spawn();
        let pid = child.id();
        let output = child.wait_with_output().expect("the program can be waited for");
        Finished {
            pid,
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            profiles: profiles_in(&self.profiles_directory()),
            directory: self.directory,
        }
    }

    /// Runs it and insists on exit status 0.
    pub fn succeed(self) -> Finished {
        let finished = self.finish();
        finished.assert_status(0);
        finished
    }
}

/// The profile files of a directory, by name; none if it does not exist.
pub fn profiles_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The profile in private memory of a program that said "ready".
pub fn private_snapshot(pid: u32) -> Snapshot {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let anonymous = maps.lines().filter(|line| line.contains("rw-p") && line.ends_with(" 0 "));
    let ranges = anonymous.filter_map(|line| line.split(' ').next()?.split_once('-'));
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    let files = Arc::new(ProcessFiles::open(pid).unwrap());
    let mut found = ranges.filter_map(|(start, end)| {
        let range = number(start)..number(end);
        Snapshot::read(&ProcessRange::new(files.clone(), &range, false)).ok()
    });
    found.next_back().unwrap_or_else(|| panic!("no profile in\n{maps}"))
}

/// Reads the line "ready" of a program that then sleeps.
pub fn wait_until_ready(child: &mut Child) {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    std::io::BufReader::new(stdout).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
}

/// Reads a profile file.
pub fn read(path: &Path) -> Result<Snapshot, ReadError> {
    Snapshot::read(&File::open(path).map_err(ReadError::Io)?)
}

/// Reads a profile from bytes.
pub fn read_bytes(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    Snapshot::read(bytes)
}

/// A program that has ended.
pub struct Finished {
    /// Its process id.
    pub pid: u32,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Profiles that the program and its children left.
    pub profiles: Vec<PathBuf>,
    /// Directory of the run.
    pub directory: Directory,
}

impl Finished {
    /// Fails unless it exited with `code`.
    #[track_caller]
    pub fn assert_status(&self, code: i32) {
        let Self { status, stdout, stderr, .. } = self;
        assert_eq!(status.code(), Some(code), "{status}\n{stdout}\n{stderr}");
    }

    /// Fails unless `signal` killed it.
    #[track_caller]
    pub fn assert_killed_by(&self, signal: i32) {
        assert_eq!(self.status.signal(), Some(signal), "{}\n{}", self.stdout, self.stderr);
    }

    /// Whether recording ever made the directory of profiles.
    pub fn profiles_exist(&self) -> bool {
        self.directory.path().join("profiles").exists()
    }

    /// The profile of process `pid`.
    #[track_caller]
    pub fn snapshot_of(&self, pid: u32) -> Snapshot {
        let prefix = format!("{pid}-");
        let is_its = |path: &&PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        };
        let path = self.profiles.iter().find(is_its);
        let path = path.unwrap_or_else(|| panic!("{pid} left no profile: {:?}", self.profiles));
        read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The profile of the program itself.
    #[track_caller]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_of(self.pid)
    }

    /// The number that the program printed on a line `name number`.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let value =
            self.stdout.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no number {name} in:\n{}", self.stdout))
    }
}
