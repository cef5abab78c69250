//! Profiles that other users' processes have mapped: a worker of their owner finds and reads them.

use crate::file::{Choice, Mapped, find_mapped};
use crate::root_note::write_note;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Handler, Request};
use ramson_process::watched;
use ramson_reader::{Depth, Header, Passed, ReadAt, ReadError, is_whole, read_to_depth};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind};

const FIND: u8 = 0x22;
const READ: u8 = 0x23;
pub const WRITE_NOTE: u8 = 0x24;
/// Profiles that a worker keeps open, so that they can be read when their process has ended.
const MOST_OPEN: usize = 1 << 10;

/// A process's profile.
#[derive(BorshSerialize, BorshDeserialize)]
pub enum Found {
    /// Its header, and the place of its bytes.
    Read(Header, String),
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

/// In a worker: finds profiles, and keeps them open.
#[derive(Default)]
pub struct ProfileFinder {
    open: HashMap<(u32, Choice), Mapped>,
}

impl Handler for ProfileFinder {
    fn kinds(&self) -> &'static [u8] {
        &[FIND, READ, WRITE_NOTE]
    }

    fn answer(&mut self, kind: u8, body: &[u8], _: Vec<File>) -> Option<Vec<u8>> {
        match kind {
            FIND => {
                let (pid, choice) = borsh::from_slice(body).ok()?;
                borsh::to_vec(&self.find(pid, choice)).ok()
            }
            READ => {
                let (depth, pid, choice): (Depth, u32, Choice) = borsh::from_slice(body).ok()?;
                if !self.open.contains_key(&(pid, choice)) {
                    self.find(pid, choice);
                }
                match self.open.get(&(pid, choice)) {
                    Some(mapped) => read_to_depth(&*mapped.bytes, depth),
                    None => borsh::to_vec(&Err::<Header, _>(ReadError::Empty)).ok(),
                }
            }
            // To a process that may write.
            _ => borsh::to_vec(&write_note(borsh::from_slice(body).ok()?)).ok(),
        }
    }
}

impl ProfileFinder {
    fn find(&mut self, pid: u32, choice: Choice) -> Option<Found> {
        if self.open.len() > MOST_OPEN {
            self.open.clear();
        }
        match find_mapped(pid, choice)? {
            Ok(mapped) => {
                let found = Found::Read(mapped.header.clone(), mapped.origin.clone());
                self.open.insert((pid, choice), mapped);
                Some(found)
            }
            Err((error, origin)) => Some(Found::Unreadable(error, origin)),
        }
    }
}

/// Has a note written into another user's file, by a process that this one can leave alone with it.
pub fn have_written(by: &Apart, note: &impl BorshSerialize) -> Result<(), Failure> {
    let body = borsh::to_vec(note).map_err(|_| Failure::BadAnswer)?;
    by.act(&Request { kind: WRITE_NOTE, body: &body, files: &[] }).map(drop)
}
