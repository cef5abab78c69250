//! Writing: snapshots of one round of all processes in one transaction, as chains.
//!
//! A chain is a snapshot that stands for itself (its difference from nothing) and the differences that follow it, of one process and one level.
//! `thinning` removes it as a whole. After a failure nothing in memory is trusted: chains begin anew.

use crate::difference::Trail;
use crate::intern::{Known, find_process};
use crate::levels::{Length, Level, Levels};
use crate::schema::{self, HistoryError, TERM_COUNT, signed};
use crate::state::{State, live_space};
use crate::trigger::Triggers;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_profile::Estimate;
use ramson_reader::{Header, Snapshot, Stack};
use rusqlite::{Connection, Params, params, params_from_iter};
use std::collections::HashMap;
use std::path::Path;

/// Free memory of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct Free {
    /// Resident bytes.
    pub bytes: Estimate,
    /// The allocator cannot be read: the bytes are those of its memory that the profile does not count as live.
    pub is_held: bool,
}

/// A snapshot, and what is known of its moment.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// Name of its process.
    pub name: &'a str,
    /// When it was taken, since 1970.
    pub time_ns: u64,
    /// The same on CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Resident bytes of the process, if it still had any.
    pub rss: Option<u64>,
    /// Bytes that its allocator had free, or held if it cannot be read; `None`: not known.
    pub free: Option<Free>,
    /// Bytes of the terms of RSS, in the order of their columns, if they were read.
    pub terms: Option<[i64; TERM_COUNT]>,
    /// Why it was taken.
    pub triggers: Triggers,
}

/// A history, opened for writing.
pub struct HistoryWriter {
    pub(crate) connection: Connection,
    pub(crate) levels: Levels,
    pub(crate) most_bytes: u64,
    pub(crate) processes: HashMap<(u32, u64, u64), Known>,
    /// Those that can be continued, by process and level.
    pub(crate) chains: HashMap<(i64, usize), Chain>,
}

#[derive(Default)]
pub(crate) struct Chain {
    pub id: i64,
    length: Length,
    pub last_ns: u64,
    trail: Trail,
}

impl HistoryWriter {
    /// Opens a history, or makes one. `most_bytes` bounds the database; its write-ahead log comes on top (16 MiB).
    pub fn open(path: &Path, levels: Levels, most_bytes: u64) -> Result<Self, HistoryError> {
        let connection = schema::open_to_write(path)?;
        let processes = HashMap::new();
        Ok(Self { connection, levels, most_bytes, processes, chains: HashMap::new() })
    }

    /// Keeps all of these snapshots, or none.
    pub fn append(&mut self, taken: &[Taken]) -> Result<(), HistoryError> {
        self.transaction(|writer| {
            taken.iter().try_for_each(|taken| {
                let (process, state) = writer.state(taken)?;
                let (chain, bytes) = writer.extend(process, 0, taken.time_ns, &state)?;
                writer.insert_snapshot(chain, process, taken, &bytes)
            })
        })
    }

    /// Keeps a snapshot under a name, as long as any is kept. A mark that exists is moved.
    pub fn mark(&mut self, taken: &Taken, name: &str) -> Result<(), HistoryError> {
        self.transaction(|writer| {
            let (process, state) = writer.state(taken)?;
            let keep_ns = writer.levels.0.last().map_or(0, |level| level.keep_ns);
            let level = Level { every_ns: 0, keep_ns };
            let bytes = Trail::default().append(&state);
            let chain = writer.insert_chain(process, level, taken.time_ns)?;
            writer.insert_snapshot(chain, process, taken, &bytes)?;
            writer.execute(
                "INSERT OR REPLACE INTO marks VALUES (?1, ?2, ?3)",
                params![process, name, taken.time_ns as i64],
            )
        })
    }

    /// Whether there is anything of this process.
    pub fn has(&self, header: &Header) -> Result<bool, HistoryError> {
        Ok(find_process(&self.connection, header)?.is_some())
    }

    pub(crate) fn transaction(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), HistoryError>,
    ) -> Result<(), HistoryError> {
        let begun = self.connection.execute_batch("BEGIN IMMEDIATE").map_err(HistoryError::from);
        let written = begun.and_then(|()| write(self));
        let ended = written
            .and_then(|()| self.connection.execute_batch("COMMIT").map_err(HistoryError::from));
        if ended.is_err() {
            self.processes.clear();
            self.chains.clear();
            if !self.connection.is_autocommit() {
                // On most errors SQLite has done it already.
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            if matches!(ended, Err(HistoryError::Full)) {
                // The log may have room that is of no use any more; if not, there is still none.
                let _ = self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
            }
        }
        ended
    }

    /// The process, now in memory and in the database, and what is kept of the snapshot.
    fn state(&mut self, taken: &Taken) -> Result<(i64, State), HistoryError> {
        let key = taken.snapshot.header.identity();
        let known = match self.processes.remove(&key) {
            Some(known) if known.is_current(&self.connection)? => known,
            _ => Known::load(&self.connection, &taken.snapshot.header, taken.name)?,
        };
        let known = self.processes.entry(key).or_insert(known);
        let numbers = known.numbers(&self.connection, taken.snapshot)?;
        Ok((known.id, State::of(taken.snapshot, &numbers)))
    }

    /// Continues the last chain of a process and level, or begins one: which it is, and the bytes for this moment.
    pub(crate) fn extend(
        &mut self,
        process: i64,
        level: usize,
        time_ns: u64,
        state: &State,
    ) -> Result<(i64, Vec<u8>), HistoryError> {
        let last = self.chains.remove(&(process, level));
        let mut chain = match last.filter(|chain| !chain.length.is_full()) {
            Some(chain) => chain,
            None => {
                let id = self.insert_chain(process, self.levels.0[level], time_ns)?;
                Chain { id, ..Chain::default() }
            }
        };
        let id = chain.id;
        let bytes = chain.trail.append(state);
        self.execute("UPDATE chains SET last_ns = ?2 WHERE id = ?1", params![id, time_ns as i64])?;
        chain.length.add(bytes.len() as u64);
        chain.last_ns = time_ns;
        self.chains.insert((process, level), chain);
        Ok((id, bytes))
    }

    fn insert_chain(&self, process: i64, level: Level, time_ns: u64) -> Result<i64, HistoryError> {
        self.execute(
            "INSERT INTO chains (process, every_ns, keep_ns, last_ns) VALUES (?1, ?2, ?3, ?4)",
            params![process, signed(level.every_ns), signed(level.keep_ns), time_ns as i64],
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    fn insert_snapshot(
        &self,
        chain: i64,
        process: i64,
        taken: &Taken,
        bytes: &[u8],
    ) -> Result<(), HistoryError> {
        let live = live_space(taken.snapshot);
        let is_heap = |stack: &&Stack| stack.kind() == ramson_format::Kind::Heap;
        let heap = taken.snapshot.stacks.iter().filter(is_heap);
        let allocated: f64 = heap.map(|stack| stack.alloc_space).sum();
        self.execute(
            "INSERT INTO snapshots (chain, process, time_ns, monotonic_ns, triggers, rss, live, live_variance, live_samples, \
             allocated) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                chain,
                process,
                taken.time_ns as i64,
                taken.monotonic_ns as i64,
                taken.triggers.bits(),
                taken.rss.map(|rss| rss as i64),
                live.value.round() as i64,
                live.variance,
                taken.snapshot.live.len() as i64,
                allocated.round() as i64,
            ],
        )?;
        self.insert_difference(bytes)?;
        let id = self.connection.last_insert_rowid();
        let known = taken.free.filter(|free| !free.bytes.variance.is_nan());
        if let Some(Free { bytes, is_held }) = known {
            self.execute(
                "INSERT INTO allocators VALUES (?1, ?2, ?3, ?4)",
                params![id, bytes.value.round() as i64, bytes.variance, is_held],
            )?;
        }
        let Some(terms) = taken.terms else { return Ok(()) };
        let values = params_from_iter([id].into_iter().chain(terms));
        self.execute(&format!("INSERT INTO terms VALUES (?{})", ", ?".repeat(TERM_COUNT)), values)
    }

    /// Inserts the difference of the snapshot that was inserted last.
    pub(crate) fn insert_difference(&self, bytes: &[u8]) -> Result<(), HistoryError> {
        self.execute("INSERT INTO differences VALUES (last_insert_rowid(), ?1)", [bytes])
    }

    pub(crate) fn execute(&self, statement: &str, values: impl Params) -> Result<(), HistoryError> {
        self.connection.prepare_cached(statement)?.execute(values)?;
        Ok(())
    }

    /// Bytes of the database that hold something.
    pub fn used_bytes(&self) -> Result<u64, HistoryError> {
        let number =
            |pragma| self.connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let pages = number("page_count")? - number("freelist_count")?;
        Ok((pages * number("page_size")?) as u64)
    }

    /// Forgets what is known in memory of a process that ended.
    pub fn forget(&mut self, header: &Header) {
        if let Some(known) = self.processes.remove(&header.identity()) {
            self.chains.remove(&(known.id, 0));
        }
    }
}
