//! Histories of others: opened here, read by a worker. The worker's answers are checked, because the worker may be in the others' hands.

use crate::question::{Answer, Question};
use crate::schema::{HistoryError, failed};
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Owner, Request, for_owner};
use ramson_format::HEALTH;
use ramson_paths::{Directory, Refusal, RegularFile};
use ramson_reader::Snapshot;
use rusqlite::ffi;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) const HISTORY: u8 = 0x48;
/// A writer that ends moves everything out of the log, and a new one begins another.
const MOST_TRIES: u32 = 5;

/// A history that a worker reads.
pub struct Passed {
    by: Apart,
    database: File,
    /// The log beside it.
    log: Option<RegularFile>,
    /// Which one it is, of those of this process.
    number: u64,
    is_trusted: bool,
}

/// To a worker, with the database and its log.
#[derive(BorshSerialize, BorshDeserialize)]
pub(crate) struct Asked {
    pub number: u64,
    pub is_trusted: bool,
    pub question: Question,
}

impl Passed {
    /// Opens a history if it, or the log beside it, is not to be read here.
    pub fn open(path: &Path) -> Result<Option<Self>, HistoryError> {
        for _ in 0..MOST_TRIES {
            let Some(passed) = Self::open_once(path)? else { return Ok(None) };
            // Has it read.
            let first = passed.ask(Question::Processes);
            let is_same = log_of(path)?.map(identity) == passed.log.as_ref().map(identity);
            match first {
                Err(HistoryError::Changing) => {}
                _ if !is_same => {}
                first => return first.map(|_| Some(passed)),
            }
        }
        Err(HistoryError::Changing)
    }

    fn open_once(path: &Path) -> Result<Option<Self>, HistoryError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // SQLite has words for a file that is missing or cannot be read.
        let Ok(facts) = path.metadata() else { return Ok(None) };
        let log = log_of(path)?;
        let owner = Owner::of_user(facts.uid());
        let log_owner = log.as_ref().map(|log| log.facts.owner);
        let stranger = log_owner.filter(|owner| !owner.is_trusted()).filter(|_| owner.is_trusted());
        let owner = stranger.unwrap_or(owner);
        let (true, Some(by)) = (facts.is_file(), for_owner(owner)) else { return Ok(None) };
        let Ok(database) = File::open(path) else { return Ok(None) };
        let number = NUMBER.fetch_add(1, Relaxed);
        Ok(Some(Self { by, database, log, number, is_trusted: owner.is_trusted() }))
    }

    pub fn ask(&self, question: Question) -> Result<Answer, HistoryError> {
        let asked = Asked { number: self.number, is_trusted: self.is_trusted, question };
        let bad = |_| HistoryError::Apart(Failure::BadAnswer);
        let body = borsh::to_vec(&asked).map_err(bad)?;
        let log = self.log.as_ref().map(|log| log.file.as_fd());
        let files: Vec<_> = std::iter::once(self.database.as_fd()).chain(log).collect();
        let request = Request { kind: HISTORY, body: &body, files: &files };
        let answer = self.by.ask(&request).map_err(HistoryError::Apart)?;
        match borsh::from_slice(&answer).map_err(bad)? {
            Ok(Answer::Snapshot(snapshot)) if !is_usable(&snapshot) => {
                Err(HistoryError::Apart(Failure::BadAnswer))
            }
            answer => answer,
        }
    }
}

/// Whether all that it refers to is there. Its numbers are kept in steps: what was freed, which is worked out, may be a little below zero.
pub(crate) fn is_usable(snapshot: &Snapshot) -> bool {
    let Snapshot { header, stacks, live, extents, freed, .. } = snapshot;
    let is_stack = |stack: usize| stack < stacks.len();
    let failures = [&header.last_failure, &header.last_abort];
    header.health.len() == HEALTH.len()
        && live.iter().all(|live| is_stack(live.stack))
        && extents.iter().all(|extent| is_stack(extent.stack))
        && failures.into_iter().flatten().all(|failure| is_stack(failure.stack))
        && freed.is_empty()
}

/// The log of a database that was named, as SQLite finds it: beside the file that a link leads to.
fn log_of(path: &Path) -> Result<Option<RegularFile>, HistoryError> {
    let whole = path.canonicalize().ok();
    let Some((directory, name)) =
        whole.as_deref().and_then(|path| path.parent().zip(path.file_name()))
    else {
        return Ok(None);
    };
    let mut name = name.to_owned();
    name.push("-wal");
    match Directory::open_chosen(directory).and_then(|directory| directory.open_file(&name)) {
        Ok(log) => Ok(Some(log)),
        Err(Refusal::Missing) => Ok(None),
        Err(refusal) => {
            let text = format!("its log: {}", io::Error::from(refusal));
            Err(HistoryError::Database(failed(ffi::SQLITE_ERROR, text)))
        }
    }
}

fn identity(log: impl std::borrow::Borrow<RegularFile>) -> (u64, u64) {
    let facts = log.borrow().facts;
    (facts.device, facts.inode)
}
