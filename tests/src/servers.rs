//! Real programs and servers, plain or through `ramson run`, and what the `ramson` command says.
//!
//! Everything runs in a scratch directory that goes away with its test, and every wait has a limit.

pub use crate::build::ramson_program;
pub use crate::signals::*;
use crate::{library, profiles_in, read};
use ramson_reader::Snapshot;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing here takes longer, not even on a busy machine.
pub const MOST_TIME: Duration = Duration::from_secs(600);

/// A directory of one test, removed when dropped. Under /tmp: other users can enter it, and Unix sockets' names fit.
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes the directory.
    pub fn new() -> Self {
        let open = fs::Permissions::from_mode(0o755);
        Self(tempfile::Builder::new().prefix("rt-").permissions(open).tempdir_in("/tmp").unwrap())
    }

    /// The path of `name` in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    /// A directory in which every user may make files.
    pub fn open_directory(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.path(name)).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o1777)).unwrap();
        self.path(name)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// A program that these tests need. Fails with the command that installs it.
pub fn installed(name: &str, package: &str) -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/local/go/bin";
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{name} is missing: apt-get install {package}"))
}

/// Whether somebody listens on a socket: a server may make its file before.
pub fn accepts(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

/// Python's interpreter itself: python3 in PATH may be a script that starts it.
pub fn python() -> PathBuf {
    let mut command = clean(installed("python3", "python3"));
    let executable = finish(command.args(["-c", "import sys; print(sys.executable)"])).good();
    PathBuf::from(executable.text().trim()).canonicalize().unwrap()
}

/// A file of `tests/programs/real`.
pub fn real(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/real").join(name)
}

/// A command without what the caller's environment says about ramson or preloading.
pub fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"RAMSON_") || name == "LD_PRELOAD" {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C.UTF-8").env_remove("COLUMNS");
    command
}

/// `ramson`, with profiles and cached symbols in `scratch`.
pub fn ramson(scratch: &Scratch) -> Command {
    let mut command = clean(ramson_program());
    command.env("RAMSON_DIR", scratch.open_directory("profiles"));
    command.env("XDG_CACHE_HOME", scratch.open_directory("cache"));
    command.env("RAMSON_LIBRARY", library());
    command
}

/// Copies a file that will be started: in a process of its own, as a descriptor of ours that a child of another thread
/// inherits for a moment would make it busy.
pub fn copy(from: &Path, to: &Path) {
    finish(clean("cp").arg(from).arg(to)).good();
}

/// `command` as another user, if we are root: itself where not. ramson and its library go to where everybody can read them.
pub fn as_user(user: &str, scratch: &Scratch, command: &Command) -> Command {
    let (bin, lib) = (scratch.open_directory("bin"), scratch.open_directory("lib"));
    let copies = [(ramson_program(), bin.join("ramson")), (library(), lib.join("libramson.so"))];
    for (from, to) in copies.iter().filter(|(_, to)| !to.exists()) {
        copy(from, to);
    }
    let is_ramson = command.get_program() == ramson_program();
    let program = if is_ramson { copies[0].1.as_os_str() } else { command.get_program() };
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut changed =
        if is_root { clean(installed("setpriv", "util-linux")) } else { clean(program) };
    if is_root {
        let group = finish(clean("id").args(["-g", user])).good().text();
        let ids = [format!("--reuid={user}"), format!("--regid={}", group.trim())];
        changed.args(ids).args(["--init-groups", "--"]).arg(program);
    }
    changed.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => changed.env(name, value),
            None => changed.env_remove(name),
        };
    }
    changed.env("RAMSON_LIBRARY", &copies[1].1).current_dir("/");
    changed
}

/// One way to run a program.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// `None`: without ramson.
    pub interval: Option<&'a str>,
    /// Preloaded, after libramson where there is ramson.
    pub allocator: Option<&'a Path>,
    /// Directory in which it runs.
    pub scratch: &'a Scratch,
}

impl Way<'_> {
    /// The command, to which arguments can be added.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self.interval {
            None => clean(program),
            Some(interval) => {
                let mut command = ramson(self.scratch);
                // The interval is what the tests reckon with.
                let fixed = ["--max-overhead", "off", "--"];
                command.args(["run", "--interval", interval]).args(fixed).arg(program);
                command
            }
        };
        if let Some(allocator) = self.allocator {
            command.env("LD_PRELOAD", allocator);
        }
        command
    }

    /// For messages.
    pub fn name(&self) -> String {
        format!("interval {:?}, allocator {:?}", self.interval, self.allocator)
    }
}

/// How a program ended and what it wrote.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Exit status, or 128 + signal.
    pub status: i32,
    /// As it is.
    pub stdout: Vec<u8>,
    /// Without the lines of ramson.
    pub stderr: String,
    /// The lines of ramson.
    pub remarks: Vec<String>,
}

impl Outcome {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns the parts of an outcome that must be the same with and without ramson.
    pub fn essence(&self) -> (i32, String, String) {
        (self.status, self.text(), self.stderr.clone())
    }

    /// Itself, if the status was 0.
    #[track_caller]
    pub fn good(self) -> Self {
        assert_eq!(self.status, 0, "{self:?}");
        self
    }
}

/// Exit status, or 128 + signal.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

/// Runs a command to its end.
#[track_caller]
pub fn finish(command: &mut Command) -> Outcome {
    finish_with(command, b"")
}

/// Runs a command to its end with `input` on standard input.
#[track_caller]
pub fn finish_with(command: &mut Command, input: &[u8]) -> Outcome {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running(piped.process_group(0).spawn().unwrap_or_else(|error| {
        panic!("{command:?}: {error}");
    }));
    let mut stdin = child.0.stdin.take().unwrap();
    let input = input.to_vec();
    // A program need not read it.
    thread::spawn(move || drop(stdin.write_all(&input)));
    let stdout = collect(child.0.stdout.take().unwrap());
    let stderr = collect(child.0.stderr.take().unwrap());
    let status = child.wait();
    let stdout = stdout.recv_timeout(MOST_TIME).expect("standard output stays open");
    let stderr = stderr.recv_timeout(MOST_TIME).expect("standard error stays open");
    let (remarks, stderr): (Vec<String>, Vec<String>) = String::from_utf8_lossy(&stderr)
        .split_inclusive('\n')
        .map(str::to_owned)
        .partition(|line| line.starts_with("ramson: "));
    Outcome { status: code(status), stdout, stderr: stderr.concat(), remarks }
}

fn collect(mut from: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// A program that runs. It is killed when dropped, with the process group of its own that it should have.
pub struct Running(pub Child);

impl Running {
    /// Starts a command whose output goes to the file `log`, and waits until `is_ready`.
    #[track_caller]
    pub fn start(command: &mut Command, log: &Path, is_ready: impl Fn() -> bool) -> Self {
        let out = File::options().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        let mut running = Self(command.process_group(0).spawn().unwrap());
        let start = Instant::now();
        while !is_ready() {
            let ended = running.0.try_wait().unwrap();
            let log = || fs::read_to_string(log).unwrap_or_default();
            assert!(ended.is_none(), "{command:?} ended early: {ended:?}\n{}", log());
            assert!(start.elapsed() < MOST_TIME, "{command:?} is not ready\n{}", log());
            thread::sleep(Duration::from_millis(10));
        }
        running
    }

    /// Sends a signal to the process that was started.
    pub fn signal(&self, name: &str) {
        signal(self.0.id(), name);
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < MOST_TIME, "it does not end");
            thread::sleep(Duration::from_millis(3));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if thread::panicking() || self.0.try_wait().is_ok_and(|status| status.is_none()) {
            let group = format!("-{}", self.0.id());
            let mut kill = Command::new("kill");
            let _ = kill.args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
            let _ = (self.0.kill(), self.0.wait());
        }
    }
}

/// Waits until `is_so`.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < MOST_TIME, "in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The profiles in the scratch directory.
pub fn profiles(scratch: &Scratch) -> Vec<Snapshot> {
    let paths = profiles_in(&scratch.path("profiles"));
    paths
        .iter()
        .map(|path| read(path).unwrap_or_else(|error| panic!("{path:?}: {error}")))
        .collect()
}

/// The base name of a profile's executable.
pub fn executable(snapshot: &Snapshot) -> &str {
    snapshot.header.exe.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default()
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// null, true, false.
    Word(String),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Reads one value that is all of `text`. Output of ramson has to be as its schema says.
    #[track_caller]
    pub fn parse(text: &str) -> Self {
        crate::schemas::check(text);
        let mut rest = text.trim();
        let value = Self::take(&mut rest).unwrap_or_else(|| panic!("not JSON at {rest:.40}"));
        assert_eq!(rest.trim(), "", "more than one value");
        value
    }

    fn take(rest: &mut &str) -> Option<Self> {
        let first = rest.chars().next()?;
        match first {
            '{' | '[' => {
                let mut list = Vec::new();
                let mut object = BTreeMap::new();
                let close = if first == '{' { '}' } else { ']' };
                let mut separator = first;
                while !(separator == first && rest[1..].trim_start().starts_with(close)) {
                    *rest = rest.strip_prefix(separator)?.trim_start();
                    if first == '{' {
                        let Self::Text(key) = Self::take(rest)? else { return None };
                        *rest = rest.trim_start().strip_prefix(':')?.trim_start();
                        let before = object.insert(key, Self::take(rest)?);
                        assert_eq!(before, None, "a key is there twice");
                    } else {
                        list.push(Self::take(rest)?);
                    }
                    *rest = rest.trim_start();
                    separator = ',';
                    if rest.starts_with(close) {
                        *rest = &rest[1..];
                        return Some(Self::container(first, list, object));
                    }
                }
                *rest = &rest[1..].trim_start()[1..];
                Some(Self::container(first, list, object))
            }
            '"' => Self::take_text(rest),
            _ => {
                let end = rest.find([',', '}', ']', '\n', ' ']).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                *rest = after;
                match word {
                    "null" | "true" | "false" => Some(Self::Word(word.into())),
                    _ => word.parse().ok().map(Self::Number),
                }
            }
        }
    }

    fn container(first: char, list: Vec<Json>, object: BTreeMap<String, Json>) -> Self {
        if first == '{' { Self::Object(object) } else { Self::List(list) }
    }

    fn take_text(rest: &mut &str) -> Option<Self> {
        let mut out = String::new();
        let mut letters = rest[1..].char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    *rest = &rest[at + 2..];
                    return Some(Self::Text(out));
                }
                '\\' => match letters.next()?.1 {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    'u' => {
                        let code = (0..4).filter_map(|_| letters.next()?.1.to_digit(16));
                        out.push(char::from_u32(code.fold(0, |code, digit| code * 16 + digit))?);
                    }
                    other => out.push(other),
                },
                _ => out.push(letter),
            }
        }
        None
    }

    /// The value at a path such as `total.value`.
    #[track_caller]
    pub fn at(&self, path: &str) -> &Json {
        path.split('.').fold(self, |value, key| match value {
            Self::Object(object) => object.get(key).unwrap_or_else(|| panic!("no {key} in {path}")),
            _ => panic!("{path}: {value:?} is no object"),
        })
    }

    /// The number at a path.
    #[track_caller]
    pub fn number(&self, path: &str) -> f64 {
        match self.at(path) {
            Self::Number(number) => *number,
            other => panic!("{path}: {other:?} is no number"),
        }
    }

    /// The text at a path.
    #[track_caller]
    pub fn text(&self, path: &str) -> &str {
        match self.at(path) {
            Self::Text(text) => text,
            other => panic!("{path}: {other:?} is no text"),
        }
    }

    /// The elements at a path.
    #[track_caller]
    pub fn list(&self, path: &str) -> &[Json] {
        match self.at(path) {
            Self::List(list) => list,
            other => panic!("{path}: {other:?} is no list"),
        }
    }
}
