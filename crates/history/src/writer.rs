//! Writing: snapshots of one round of all processes in one transaction, as chains; and removing what is too old or too much.
//!
//! A chain is a snapshot that stands for itself (its difference from nothing) and the differences that follow it, of one process and one level. It is
//! removed as a whole. After a failure nothing in memory is trusted: chains begin anew.

use crate::difference;
use crate::intern::{Known, find_process};
use crate::levels::{CHAIN_LENGTH, Levels};
use crate::schema::{self, HistoryError};
use crate::state::{State, live_space};
use crate::trigger::Triggers;
use ramson_reader::{Header, Snapshot, Stack};
use rusqlite::{Connection, Params, params};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// A snapshot, and what is known of its moment.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// What its process is called.
    pub name: &'a str,
    /// When it was taken, since 1970.
    pub time_ns: u64,
    /// The same on CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Resident bytes of the process, if it still had any.
    pub rss: Option<u64>,
    /// Why it was taken.
    pub triggers: Triggers,
}

/// A history, opened for writing.
pub struct Recorder {
    connection: Connection,
    levels: Levels,
    most_bytes: u64,
    processes: HashMap<(u32, u64, u64, u64), Recorded>,
}

struct Recorded {
    known: Known,
    /// By level.
    chains: Vec<Option<Chain>>,
}

struct Chain {
    id: i64,
    length: u32,
    last_ns: u64,
    /// As it is stored: what the next difference is from.
    state: State,
}

/// What `tidy` removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Chains that were too old.
    pub expired: usize,
    /// Chains that were not, in a database that was too large.
    pub excess: usize,
}

fn identity(header: &Header) -> (u32, u64, u64, u64) {
    (header.pid, header.process_start_ticks, header.start_realtime_ns, header.run_id)
}

impl Recorder {
    /// Opens a history, or makes one. `most_bytes` bounds the database; its write-ahead log comes on top (16 MiB).
    pub fn open(path: &Path, levels: Levels, most_bytes: u64) -> Result<Self, HistoryError> {
        let connection = schema::open_to_write(path)?;
        Ok(Self { connection, levels, most_bytes, processes: HashMap::new() })
    }

    /// Keeps all of these snapshots, or none.
    pub fn append(&mut self, taken: &[Taken]) -> Result<(), HistoryError> {
        self.transaction(|recorder| taken.iter().try_for_each(|taken| recorder.append_one(taken)))
    }

    /// Keeps a snapshot under a name, as long as any is kept. A mark that exists is moved.
    pub fn mark(&mut self, taken: &Taken, name: &str) -> Result<(), HistoryError> {
        self.transaction(|recorder| {
            let process = recorder.known(taken)?;
            let keep_ns = recorder.levels.all().last().map_or(0, |level| level.keep_ns);
            let state = recorder.state(process, taken)?;
            let (bytes, _) = encode(&State::default(), &state)?;
            let chain = recorder.insert_chain(process, keep_ns, taken.time_ns)?;
            recorder.insert_snapshot(chain, process, taken, &bytes)?;
            recorder.connection.execute(
                "INSERT OR REPLACE INTO marks VALUES (?1, ?2, ?3)",
                params![process, name, taken.time_ns as i64],
            )?;
            Ok(())
        })
    }

    /// Whether there is anything of this process.
    pub fn has(&self, header: &Header) -> Result<bool, HistoryError> {
        Ok(find_process(&self.connection, header)?.is_some())
    }

    fn transaction(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), HistoryError>,
    ) -> Result<(), HistoryError> {
        let begun = self.connection.execute_batch("BEGIN IMMEDIATE").map_err(HistoryError::from);
        let written = begun.and_then(|()| write(self));
        let ended = written
            .and_then(|()| self.connection.execute_batch("COMMIT").map_err(HistoryError::from));
        if ended.is_err() {
            self.processes.clear();
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

    /// The process, in memory and in the database.
    fn known(&mut self, taken: &Taken) -> Result<i64, HistoryError> {
        let key = identity(&taken.snapshot.header);
        let is_current = match self.processes.get(&key) {
            Some(recorded) => recorded.known.is_current(&self.connection)?,
            None => false,
        };
        if !is_current {
            let known = Known::load(&self.connection, &taken.snapshot.header, taken.name)?;
            let chains = self.levels.all().iter().map(|_| None).collect();
            self.processes.insert(key, Recorded { known, chains });
        }
        Ok(self.processes[&key].known.id)
    }

    fn state(&mut self, process: i64, taken: &Taken) -> Result<State, HistoryError> {
        let recorded = self.processes.get_mut(&identity(&taken.snapshot.header));
        let known = recorded.map(|recorded| &mut recorded.known);
        let known = known.filter(|known| known.id == process).ok_or(HistoryError::Damaged)?;
        let numbers = known.numbers(&self.connection, taken.snapshot)?;
        Ok(State::of(taken.snapshot, &numbers))
    }

    fn append_one(&mut self, taken: &Taken) -> Result<(), HistoryError> {
        let process = self.known(taken)?;
        let state = self.state(process, taken)?;
        let key = identity(&taken.snapshot.header);
        for level in 0..self.levels.all().len() {
            let chain =
                self.processes.get_mut(&key).and_then(|recorded| recorded.chains[level].take());
            let last_ns = chain.as_ref().map(|chain| chain.last_ns);
            let is_kept = taken.triggers.is_kept();
            let chain = if self.levels.is_due(level, last_ns, taken.time_ns, is_kept) {
                Some(self.extend(chain, level, process, taken, &state)?)
            } else {
                chain
            };
            if let Some(recorded) = self.processes.get_mut(&key) {
                recorded.chains[level] = chain;
            }
        }
        Ok(())
    }

    fn extend(
        &mut self,
        chain: Option<Chain>,
        level: usize,
        process: i64,
        taken: &Taken,
        state: &State,
    ) -> Result<Chain, HistoryError> {
        let mut chain = match chain.filter(|chain| chain.length < CHAIN_LENGTH) {
            Some(chain) => chain,
            None => {
                let keep_ns = self.levels.all()[level].keep_ns;
                let id = self.insert_chain(process, keep_ns, taken.time_ns)?;
                Chain { id, length: 0, last_ns: 0, state: State::default() }
            }
        };
        let (bytes, stored) = encode(&chain.state, state)?;
        self.insert_snapshot(chain.id, process, taken, &bytes)?;
        let mut update =
            self.connection.prepare_cached("UPDATE chains SET last_ns = ?2 WHERE id = ?1")?;
        update.execute(params![chain.id, taken.time_ns as i64])?;
        chain.state = stored;
        chain.length += 1;
        chain.last_ns = taken.time_ns;
        Ok(chain)
    }

    fn insert_chain(&self, process: i64, keep_ns: u64, time_ns: u64) -> Result<i64, HistoryError> {
        let mut insert = self
            .connection
            .prepare_cached("INSERT INTO chains (process, keep_ns, last_ns) VALUES (?1, ?2, ?3)")?;
        let keep_ns = i64::try_from(keep_ns).unwrap_or(i64::MAX);
        Ok(insert.insert(params![process, keep_ns, time_ns as i64])?)
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
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO snapshots (chain, process, time_ns, monotonic_ns, triggers, rss, live, live_variance, live_samples, \
             allocated) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        let id = insert.insert(params![
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
        ])?;
        let mut insert = self
            .connection
            .prepare_cached("INSERT INTO columns (snapshot, data) VALUES (?1, ?2)")?;
        insert.execute(params![id, bytes])?;
        Ok(())
    }

    /// Removes chains that are too old, then the oldest while the database is too large, and what only they named.
    pub fn tidy(&mut self, now_ns: u64) -> Result<Removed, HistoryError> {
        let mut removed = Removed::default();
        let keep_ns = self.levels.all().last().map_or(u64::MAX, |level| level.keep_ns);
        self.transaction(|recorder| {
            let keep_ns = i64::try_from(keep_ns).unwrap_or(i64::MAX);
            let expired = recorder.chains(
                "SELECT id FROM chains WHERE last_ns < ?1 - min(keep_ns, ?2)",
                params![now_ns as i64, keep_ns],
            )?;
            removed.expired = expired.len();
            recorder.remove(&expired)
        })?;
        while self.used_bytes()? > self.most_bytes {
            let mut oldest = Vec::new();
            self.transaction(|recorder| {
                let chains: i64 =
                    recorder
                        .connection
                        .query_row("SELECT count(*) FROM chains", [], |row| row.get(0))?;
                let some = chains / 64 + 1;
                let query = "SELECT id FROM chains ORDER BY last_ns LIMIT ?1";
                oldest = recorder.chains(query, params![some])?;
                recorder.remove(&oldest)
            })?;
            removed.excess += oldest.len();
            if oldest.is_empty() {
                break;
            }
        }
        if removed != Removed::default() {
            self.connection.execute_batch("PRAGMA incremental_vacuum")?;
        }
        Ok(removed)
    }

    fn chains(&self, query: &str, values: impl Params) -> Result<Vec<i64>, HistoryError> {
        let mut query = self.connection.prepare_cached(query)?;
        let rows = query.query_map(values, |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn remove(&mut self, chains: &[i64]) -> Result<(), HistoryError> {
        if chains.is_empty() {
            return Ok(());
        }
        for &chain in chains {
            for statement in [
                "DELETE FROM columns WHERE snapshot IN (SELECT id FROM snapshots WHERE chain = ?1)",
                "DELETE FROM snapshots WHERE chain = ?1",
                "DELETE FROM chains WHERE id = ?1",
            ] {
                self.connection.prepare_cached(statement)?.execute([chain])?;
            }
        }
        let removed: HashSet<i64> = chains.iter().copied().collect();
        for recorded in self.processes.values_mut() {
            for chain in &mut recorded.chains {
                chain.take_if(|chain| removed.contains(&chain.id));
            }
        }
        self.connection.execute_batch(
            "DELETE FROM marks WHERE NOT EXISTS
               (SELECT 1 FROM snapshots WHERE snapshots.process = marks.process AND snapshots.time_ns = marks.time_ns)",
        )?;
        let gone = self
            .connection
            .execute("DELETE FROM processes WHERE id NOT IN (SELECT process FROM chains)", [])?;
        if gone > 0 {
            self.connection.execute_batch(
                "DELETE FROM process_stacks WHERE process NOT IN (SELECT id FROM processes);
                 DELETE FROM mappings WHERE process NOT IN (SELECT id FROM processes);
                 DELETE FROM stacks WHERE id NOT IN (SELECT stack FROM process_stacks);
                 DELETE FROM binaries WHERE id NOT IN (SELECT binary FROM mappings)",
            )?;
            self.processes.clear();
        }
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
        self.processes.remove(&identity(header));
    }
}

fn encode(before: &State, now: &State) -> Result<(Vec<u8>, State), HistoryError> {
    // Compression into memory does not fail.
    difference::encode(before, now).map_err(|_| HistoryError::Damaged)
}
