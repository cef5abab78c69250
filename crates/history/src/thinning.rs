//! Thinning: a chain whose level keeps it no longer is taken over by the next coarser level, as far as that is due, and removed; the
//! oldest chains go while the database is too large; and what only removed chains named goes with them.

use crate::difference::Trail;
use crate::schema::{HistoryError, rows, signed, unsigned};
use crate::trigger::Triggers;
use crate::writer::HistoryWriter;
use rusqlite::params;

/// Chains that are taken over in one call: some tens of milliseconds each.
const MOST_EXPIRED: usize = 4;

/// Counts of the chains that `tidy` removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Chains that were too old for their level.
    pub expired: usize,
    /// Chains that were not, in a database that was too large.
    pub excess: usize,
    /// There are more that are too old.
    pub has_more: bool,
}

/// A chain that its level keeps no longer.
struct Expired {
    id: i64,
    process: i64,
    keep_ns: u64,
    last_ns: u64,
}

impl HistoryWriter {
    /// Thins some of the chains that are too old, then removes the oldest while the database is too large.
    pub fn tidy(&mut self, now_ns: u64) -> Result<Removed, HistoryError> {
        let mut removed = Removed::default();
        self.transaction(|writer| {
            let expired = writer.expired(now_ns)?;
            for chain in &expired {
                writer.take_over(chain, now_ns)?;
            }
            let ids: Vec<i64> = expired.iter().map(|chain| chain.id).collect();
            writer.remove(&ids)?;
            writer.forget_finished(&expired)?;
            removed.expired = expired.len();
            removed.has_more = expired.len() == MOST_EXPIRED;
            Ok(())
        })?;
        while self.used_bytes()? > self.most_bytes {
            let mut oldest = Vec::new();
            self.transaction(|writer| {
                let query = "SELECT id FROM chains ORDER BY last_ns \
                             LIMIT (SELECT count(*) / 64 + 1 FROM chains)";
                oldest = rows(&writer.connection, query, [], |row| row.get(0))?;
                writer.remove(&oldest)
            })?;
            removed.excess += oldest.len();
            if oldest.is_empty() {
                break;
            }
        }
        if removed.expired + removed.excess > 0 {
            self.connection.execute_batch("PRAGMA incremental_vacuum")?;
        }
        Ok(removed)
    }

    /// The oldest first, so that each level gets its snapshots in their order.
    fn expired(&self, now_ns: u64) -> Result<Vec<Expired>, HistoryError> {
        let keep_ns = self.levels.0.last().map_or(i64::MAX, |level| signed(level.keep_ns));
        let query = "SELECT id, process, keep_ns, last_ns FROM chains WHERE last_ns < ?1 - min(keep_ns, ?2) \
                     ORDER BY last_ns, id LIMIT ?3";
        let values = params![now_ns as i64, keep_ns, MOST_EXPIRED as i64];
        Ok(rows(&self.connection, query, values, |row| {
            let id = row.get(0)?;
            let process = row.get(1)?;
            Ok(Expired { id, process, keep_ns: unsigned(row, 2)?, last_ns: unsigned(row, 3)? })
        })?)
    }

    fn take_over(&mut self, chain: &Expired, now_ns: u64) -> Result<(), HistoryError> {
        let next = self.levels.0.iter().position(|level| {
            level.keep_ns > chain.keep_ns && chain.last_ns >= now_ns.saturating_sub(level.keep_ns)
        });
        let Some(level) = next else { return Ok(()) };
        let mut trail = Trail::default();
        let moments = rows(
            &self.connection,
            "SELECT id, time_ns, triggers FROM snapshots WHERE chain = ?1 ORDER BY id",
            [chain.id],
            |row| Ok((row.get::<_, i64>(0)?, unsigned(row, 1)?, unsigned(row, 2)?)),
        )?;
        for (id, time_ns, triggers) in moments {
            let data: Vec<u8> = self
                .connection
                .prepare_cached("SELECT data FROM differences WHERE snapshot = ?1")?
                .query_row([id], |row| row.get(0))?;
            if trail.read(&data).is_err() {
                // The moments that follow cannot be read.
                break;
            }
            let last_ns = self.chains.get(&(chain.process, level)).map(|chain| chain.last_ns);
            let is_kept = Triggers::from_bits_retain(triggers as u32).is_kept();
            if self.levels.is_due(level, last_ns, time_ns, is_kept) {
                let (to, bytes) = self.extend(chain.process, level, time_ns, &trail.state)?;
                self.execute(
                    "INSERT INTO snapshots (chain, process, time_ns, monotonic_ns, triggers, rss, live, live_variance, \
                     live_samples, allocated) SELECT ?2, process, time_ns, monotonic_ns, triggers, rss, live, \
                     live_variance, live_samples, allocated FROM snapshots WHERE id = ?1",
                    params![id, to],
                )?;
                self.insert_difference(&bytes)?;
                // The snapshot that they were read with goes with its chain.
                let copy = self.connection.last_insert_rowid();
                for table in ["allocators", "terms"] {
                    let moved = format!("UPDATE {table} SET snapshot = ?2 WHERE snapshot = ?1");
                    self.execute(&moved, [id, copy])?;
                }
            }
        }
        Ok(())
    }

    /// Forgets what could be continued of processes that are not recorded any more, once no finer level has anything to add.
    fn forget_finished(&mut self, expired: &[Expired]) -> Result<(), HistoryError> {
        for process in expired.iter().map(|chain| chain.process) {
            if self.processes.values().any(|known| known.id == process) {
                continue;
            }
            let query = "SELECT min(keep_ns) FROM chains WHERE process = ?1";
            let least: Option<i64> =
                self.connection.query_row(query, [process], |row| row.get(0))?;
            let levels = &self.levels.0;
            self.chains.retain(|&(of, level), _| {
                of != process || least.is_some_and(|least| (least as u64) < levels[level].keep_ns)
            });
        }
        Ok(())
    }

    fn remove(&mut self, chains: &[i64]) -> Result<(), HistoryError> {
        if chains.is_empty() {
            return Ok(());
        }
        for &chain in chains {
            for statement in [
                "DELETE FROM allocators WHERE snapshot IN (SELECT id FROM snapshots WHERE chain = ?1)",
                "DELETE FROM terms WHERE snapshot IN (SELECT id FROM snapshots WHERE chain = ?1)",
                "DELETE FROM differences WHERE snapshot IN (SELECT id FROM snapshots WHERE chain = ?1)",
                "DELETE FROM snapshots WHERE chain = ?1",
                "DELETE FROM chains WHERE id = ?1",
            ] {
                self.execute(statement, [chain])?;
            }
        }
        self.chains.retain(|_, chain| !chains.contains(&chain.id));
        self.connection.execute_batch(
            "DELETE FROM marks WHERE NOT EXISTS
               (SELECT 1 FROM snapshots WHERE snapshots.process = marks.process AND snapshots.time_ns = marks.time_ns)",
        )?;
        let finished = "DELETE FROM processes WHERE id NOT IN (SELECT process FROM chains)";
        if self.connection.execute(finished, [])? > 0 {
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
}
