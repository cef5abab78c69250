//! Profiles that other users' processes have mapped: a worker of their owner finds and reads them.

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Request};
use ramson_process::watched;
use ramson_reader::{Header, Passed, ReadAt, ReadError, is_whole};
use std::io::{self, ErrorKind};

pub const FIND: u8 = 0x22;
pub const READ: u8 = 0x23;
pub const WRITE_NOTE: u8 = 0x24;

/// Which of the profiles that a process has mapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
pub enum Choice {
    /// Its own.
    Own,
    /// Its own, else the first.
    OwnOrFirst,
}

/// A process's profile.
#[derive(BorshSerialize, BorshDeserialize)]
pub enum Found {
    /// Its header, and the place of its bytes.
    Read(Box<Header>, String),
    /// Why it cannot be read, and where it is.
    Unreadable(ReadError, String),
}

/// The profile of a process of another user; `None`: it has none.
pub fn find(by: &Apart, pid: u32, choice: Choice) -> Option<Found> {
    let body = borsh::to_vec(&(pid, choice)).ok()?;
    let answer = by.ask(&Request { kind: FIND, body: &body, files: &[] });
    match answer {
        Ok(answer) => match borsh::from_slice::<Option<Found>>(&answer).ok()?? {
            Found::Read(header, _) if !is_whole(&header) => None,
            found => Some(found),
        },
        Err(failure) => {
            watched::note(pid, &failure);
            None
        }
    }
}

/// The bytes of the profile of another user's process.
pub struct TheirBytes {
    pub by: Apart,
    pub pid: u32,
    pub choice: Choice,
}

impl ReadAt for TheirBytes {
    fn length(&self) -> io::Result<u64> {
        Err(ErrorKind::Unsupported.into())
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::Unsupported.into())
    }

    fn apart(&self) -> Option<Passed<'_>> {
        let body = borsh::to_vec(&(self.pid, self.choice)).ok()?;
        Some(Passed::of_worker(self.by.clone(), READ, body))
    }
}

/// Has a note written into another user's file, by a process that this one can leave alone with it.
pub fn have_written(by: &Apart, note: &impl BorshSerialize) -> Result<(), Failure> {
    let body = borsh::to_vec(note).map_err(|_| Failure::BadAnswer)?;
    by.act(&Request { kind: WRITE_NOTE, body: &body, files: &[] }).map(drop)
}
