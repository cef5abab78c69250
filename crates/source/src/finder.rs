//! Profiles of processes, in the worker that finds and reads them.

use crate::file::{Mapped, find_mapped};
use crate::root_note::write_note;
use crate::theirs::{Choice, FIND, Found, READ, WRITE_NOTE};
use ramson_apart::Handler;
use ramson_reader::{Depth, Header, ReadError, read_to_depth};
use std::collections::HashMap;
use std::fs::File;

/// Profiles that a worker keeps open, so that they can be read when their process has ended.
const MOST_OPEN: usize = 1 << 10;

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
                let found = Found::Read(Box::new(mapped.header.clone()), mapped.origin.clone());
                self.open.insert((pid, choice), mapped);
                Some(found)
            }
            Err((error, origin)) => Some(Found::Unreadable(error, origin)),
        }
    }
}
