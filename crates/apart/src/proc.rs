//! Files of /proc, for a worker in another root directory as for everyone else.
//!
//! A worker opens what every user may open, and what its owner may. It asks for the rest: some of it takes root's rights.

use crate::channel::{Channel, Message};
use crate::owner::Owner;
use crate::serve::{FILE, WANTED};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Files of /proc/PID that a worker may ask for.
const ASKED: [&str; 8] =
    ["auxv", "environ", "maps", "mem", "mountinfo", "pagemap", "smaps", "smaps_rollup"];
/// Links of /proc/PID to files that the process runs or has mapped. They are not opened, only found.
const EXECUTABLE: &str = "exe";
const MAPPED: &str = "map_files/";

/// In a worker, how it reaches what is outside its root directory.
struct Outside {
    /// The directory /proc.
    proc: OwnedFd,
    channel: &'static Channel,
}

static OUTSIDE: OnceLock<Outside> = OnceLock::new();

/// In a worker: to be called before it enters its root directory.
pub fn keep_outside(channel: &'static Channel) -> io::Result<()> {
    // A mount of its own, of which nothing leads up and out.
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let proc = open_tree(CWD, "/proc", flags)
        .or_else(|_| openat(CWD, "/proc", LOOK | OFlags::DIRECTORY, Mode::empty()))?;
    // It is called once.
    let _ = OUTSIDE.set(Outside { proc, channel });
    Ok(())
}

/// Opens a file in /proc, such as `7/status`.
pub fn open(path: &str) -> io::Result<File> {
    let opened = open_at(path, READ);
    let opened = opened.or_else(|error| asked(path, error)).map(File::from);
    Ok(opened?)
}

/// Finds what a link in /proc leads to, such as `7/exe`, without opening it.
pub fn look(path: &str) -> io::Result<OwnedFd> {
    Ok(open_at(path, LOOK).or_else(|error| asked(path, error))?)
}

/// The name of what a link in /proc leads to.
pub fn link(path: &str) -> io::Result<PathBuf> {
    let read = at(path, |proc, path| readlinkat(proc, path, Vec::new()));
    Ok(OsString::from_vec(read?.into_bytes()).into())
}

/// The names in a directory of /proc; none where it cannot be read.
pub fn names(path: &str) -> Vec<OsString> {
    let directory = open_at(path, READ | OFlags::DIRECTORY);
    let entries = directory.and_then(Dir::new).into_iter().flatten().flatten();
    let names = entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
    names.filter(|name| name != "." && name != "..").collect()
}

/// Opens for reading what a descriptor of this process only refers to. It waits for no lease.
pub fn open_again(found: &impl AsFd) -> rustix::io::Result<OwnedFd> {
    open_at(&own_link(found), READ | OFlags::NONBLOCK | OFlags::NOCTTY)
}

/// The kernel's name for what one of this process's descriptors refers to.
pub fn name_of(descriptor: &impl AsFd) -> io::Result<PathBuf> {
    link(&own_link(descriptor))
}

/// Whether this process is a worker that has entered its owner's root directory.
pub fn is_inside() -> bool {
    OUTSIDE.get().is_some()
}

fn own_link(descriptor: &impl AsFd) -> String {
    use std::os::fd::AsRawFd;
    format!("self/fd/{}", descriptor.as_fd().as_raw_fd())
}

fn open_at(path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    at(path, |proc, path| openat(proc, path, flags, Mode::empty()))
}

fn at<T>(path: &str, act: impl FnOnce(rustix::fd::BorrowedFd, &Path) -> T) -> T {
    match OUTSIDE.get() {
        Some(outside) => act(outside.proc.as_fd(), Path::new(path)),
        None => act(CWD, &Path::new("/proc").join(path)),
    }
}

/// In a worker that was refused a file: asks for it.
fn asked(path: &str, refused: Errno) -> rustix::io::Result<OwnedFd> {
    let Some(outside) = OUTSIDE.get().filter(|_| [Errno::ACCESS, Errno::PERM].contains(&refused))
    else {
        return Err(refused);
    };
    let answer = outside.channel.send(WANTED, path.as_bytes(), &[]);
    let answer = answer.and_then(|()| outside.channel.receive(0, || Ok(())));
    match answer {
        Ok(Some(Message { kind: FILE, files, .. })) => {
            files.into_iter().next().map(OwnedFd::from).ok_or(refused)
        }
        _ => Err(refused),
    }
}

/// In the process that a worker asks: the file, if it is of a process of that owner, and one of those that a worker may have. To open it may wait for
/// the process.
pub fn wanted(path: &[u8], owner: Owner) -> Option<File> {
    let path = str::from_utf8(path).ok()?;
    let (pid, name) = path.split_once('/')?;
    let pid: u32 = pid.parse().ok()?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_hexdigit());
    let is_mapped = |name: &str| {
        let range = name.strip_prefix(MAPPED).and_then(|range| range.split_once('-'));
        range.is_some_and(|(start, end)| is_digits(start) && is_digits(end))
    };
    let is_pointer = |name: &str| {
        let thread = name.strip_prefix("task/").and_then(|name| name.strip_suffix("/syscall"));
        thread.is_some_and(is_digits)
    };
    let flags = match name {
        name if ASKED.contains(&name) || is_pointer(name) => READ,
        name if name == EXECUTABLE || is_mapped(name) => LOOK,
        _ => return None,
    };
    let process = openat(CWD, format!("/proc/{pid}"), LOOK, Mode::empty()).ok()?;
    let opened = openat(&process, name, flags, Mode::empty()).ok()?;
    // Afterwards: what was opened stays that of this process, whatever it becomes. And the number is still the number of that process.
    let is_its = Owner::of_process_now(pid) == Some(owner);
    (is_its && openat(&process, "stat", READ, Mode::empty()).is_ok()).then(|| opened.into())
}
