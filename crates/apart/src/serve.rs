//! The worker's side.

use crate::budget::Budget;
use crate::channel::{Channel, Message};
use crate::confine::{Ids, confine, limit};
use crate::owner::Owner;
use crate::proc::keep_outside;
use borsh::{BorshDeserialize, BorshSerialize};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::dup;
use rustix::process::{Resource, Rlimit, chroot, fchdir, getrlimit, setrlimit};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, stdin};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::panic;
use std::process::exit;
use std::sync::OnceLock;

/// The one argument of a worker.
pub const WORD: &str = "read_apart";
/// Exit status of one whose reader failed.
pub const BROKEN: i32 = 101;
pub const ANSWER: u8 = 0;
/// Kind of an answer that refuses. As the answer to the greeting, it says why the worker cannot serve.
pub const REFUSAL: u8 = 1;
/// The answer to the greeting, where the process whose root directory was to be entered has ended …
pub const GONE: u8 = 2;
/// … or where that directory may not be entered.
pub const DENIED: u8 = 5;
/// A worker's question for a file of /proc, before it answers …
pub const WANTED: u8 = 3;
/// … and the answer: the file, or none.
pub const FILE: u8 = 4;
/// Largest body of a request, in bytes.
const MOST_REQUEST_BYTES: u64 = 1 << 30;

/// Budget that this process was given, if it is a worker that reads.
static OWN_BOUNDS: OnceLock<Budget> = OnceLock::new();

/// Answers some kinds of requests.
pub trait Handler {
    /// Which, from 1 to 253. No two handlers have one in common.
    fn kinds(&self) -> &'static [u8];

    /// `None`: this is no request that it understands.
    fn answer(&mut self, kind: u8, body: &[u8], files: Vec<File>) -> Option<Vec<u8>>;
}

/// Whether this program was started as a worker.
pub fn is_asked() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == WORD) && arguments.next().is_none()
}

/// If this program was started as a worker, serves until its asker has gone, and returns true. To be called before anything else. In one that
/// keeps its rights, `acts` is called with what the user wants inputs to cost.
pub fn serve_if_asked(
    handlers: &mut [&mut dyn Handler],
    acts: impl FnOnce(Option<Budget>),
) -> bool {
    if !is_asked() {
        return false;
    }
    panic::set_hook(Box::new(|_| exit(BROKEN)));
    if let Ok(socket) = dup(stdin()) {
        // For as long as this process exists.
        let channel = Box::leak(Box::new(Channel(UnixStream::from(socket))));
        serve(channel, handlers, acts);
    }
    true
}

/// In a worker, what one input may cost.
pub fn own_bounds() -> Option<Budget> {
    OWN_BOUNDS.get().copied()
}

/// Root directory that a worker enters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
pub enum RootDirectory {
    /// The one that it has.
    #[default]
    Own,
    /// The root directory of this process, which must still be this owner's.
    OfProcess(u32, Owner),
    /// The one at a path that a profile tells, without links.
    Told(Vec<u8>),
}

impl RootDirectory {
    fn enter(&self) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match self {
            Self::Own => return Ok(()),
            Self::OfProcess(pid, owner) => {
                let root = openat(CWD, format!("/proc/{pid}/root"), flags, Mode::empty())?;
                // Afterwards: it is the root directory that the process had.
                let is_its = Owner::of_process_now(*pid) == Some(*owner);
                is_its.then_some(root).ok_or(io::ErrorKind::NotFound)?
            }
            Self::Told(path) => {
                let links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
                openat2(CWD, OsStr::from_bytes(path), flags, Mode::empty(), links)?
            }
        };
        fchdir(directory)?;
        Ok(chroot(".")?)
    }
}

/// Purpose of a worker, the first message to it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Role {
    /// It reads what may be hostile: without rights, in this directory, and as this user if there is one, within so many bytes.
    Reads { root: RootDirectory, ids: Option<Ids>, memory_bytes: u64 },
    /// It acts on processes, with the rights of its asker, so that the asker need not wait for it. Inputs cost what the user wants them to.
    Acts(Option<Budget>),
}

fn serve(
    channel: &'static Channel,
    handlers: &mut [&mut dyn Handler],
    acts: impl FnOnce(Option<Budget>),
) -> Option<()> {
    let never = || Ok(());
    let kinds: Vec<u8> = handlers.iter().flat_map(|handler| handler.kinds()).copied().collect();
    assert!(
        (1..kinds.len()).all(|n| !kinds[n..].contains(&kinds[n - 1])),
        "one kind, two handlers"
    );
    let first = channel.receive(MOST_REQUEST_BYTES, never).ok()??;
    match borsh::from_slice(&first.body).ok()? {
        Role::Reads { root, ids, memory_bytes } => {
            if let Err(error) = limit(memory_bytes) {
                return channel.send(REFUSAL, format!("limits: {error}").as_bytes(), &[]).ok();
            }
            let entered = keep_outside(channel).and_then(|()| root.enter());
            match entered.map_err(|error| error.kind()) {
                Err(io::ErrorKind::NotFound) => return channel.send(GONE, &[], &[]).ok(),
                Err(_) => return channel.send(DENIED, &[], &[]).ok(),
                Ok(()) => {}
            }
            if let Err(why) = confine(ids) {
                return channel.send(REFUSAL, why.as_bytes(), &[]).ok();
            }
            let _ = OWN_BOUNDS.set(Budget { memory_bytes, time: None });
        }
        // A worker that acts has its inputs read by workers of its own. It may keep many files open.
        Role::Acts(budget) => {
            let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
            let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
            acts(budget);
        }
    }
    channel.send(ANSWER, &[], &[]).ok()?;
    while let Some(request) = channel.receive(MOST_REQUEST_BYTES, never).ok()? {
        let Message { kind, body, files } = request;
        let handler = handlers.iter_mut().find(|handler| handler.kinds().contains(&kind));
        match handler.and_then(|handler| handler.answer(kind, &body, files)) {
            Some(body) => channel.send(ANSWER, &body, &[]).ok()?,
            None => channel.send(REFUSAL, &[], &[]).ok()?,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_greeting_tells_whom_to_become() {
        let ids = Ids { user: 1501, group: 100, file_user: 1, file_group: 2 };
        let budget = Budget { memory_bytes: 7, time: Some(Duration::from_secs(9)) };
        let root = RootDirectory::OfProcess(7, Owner::of_user(1));
        let reads = [None, Some(ids)].map(|ids| Role::Reads {
            root: root.clone(),
            ids,
            memory_bytes: 512 << 20,
        });
        let acts = [None, Some(budget), Some(Budget { time: None, ..budget })].map(Role::Acts);
        for role in reads.into_iter().chain(acts) {
            let greeting = borsh::to_vec(&role).unwrap();
            assert_eq!(borsh::from_slice::<Role>(&greeting).unwrap(), role);
        }
    }
}
