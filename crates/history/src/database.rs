//! A history in SQLite: the queries, and what is made of their rows.

use crate::difference::Trail;
use crate::guard::{Budget, Work};
use crate::image::Image;
use crate::intern;
use crate::question::{Answer, Moment, Process, Question};
use crate::schema::{self, HistoryError, TERM_COUNT, rows, signed, unsigned};
use crate::state::{State, set_numbers};
use crate::trigger::Triggers;
use crate::writer::Free;
use ramson_profile::Estimate;
use ramson_reader::Snapshot;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use std::path::Path;

/// An open one.
pub struct Database {
    connection: Connection,
    work: Work,
    budget: Budget,
}

const MOMENT: &str = "snapshots.id, chain, time_ns, monotonic_ns, triggers, rss, snapshots.live, live_variance, live_samples, allocated, every_ns";
const FREE: &str = "bytes, variance, is_held";
const JOINED: &str = "chains ON chains.id = chain LEFT JOIN allocators ON allocators.snapshot = snapshots.id \
    LEFT JOIN terms ON terms.snapshot = snapshots.id";

/// Statement that selects moments of the process ?1.
fn moments() -> String {
    format!(
        "SELECT {MOMENT}, {FREE}, terms.* FROM snapshots JOIN {JOINED} WHERE snapshots.process = ?1"
    )
}

fn free(row: &Row) -> rusqlite::Result<Option<Free>> {
    let Some(bytes) = row.get::<_, Option<i64>>(11)? else { return Ok(None) };
    let bytes = Estimate::new(bytes as f64, row.get(12)?);
    Ok(Some(Free { bytes, is_held: row.get(13)? }))
}

fn terms(row: &Row) -> rusqlite::Result<Option<[i64; TERM_COUNT]>> {
    if row.get::<_, Option<i64>>(14)?.is_none() {
        return Ok(None);
    }
    let mut terms = [0; TERM_COUNT];
    for (column, term) in (15..).zip(&mut terms) {
        *term = row.get(column)?;
    }
    // They add up to RSS, or are not what ramson wrote.
    let sum: i128 = terms.iter().map(|&term| i128::from(term)).sum();
    let rss: Option<i64> = row.get(5)?;
    Ok(rss.is_some_and(|rss| i128::from(rss) == sum).then_some(terms))
}

fn moment(row: &Row) -> rusqlite::Result<Moment> {
    Ok(Moment {
        id: row.get(0)?,
        chain: row.get(1)?,
        time_ns: unsigned(row, 2)?,
        every_ns: unsigned(row, 10)?,
        monotonic_ns: unsigned(row, 3)?,
        triggers: Triggers::from_bits_retain(unsigned(row, 4)? as u32),
        rss: row.get::<_, Option<i64>>(5)?.map(|rss| rss as u64),
        free: free(row)?,
        terms: terms(row)?,
        live: Estimate::new(row.get::<_, i64>(6)? as f64, row.get(7)?),
        live_samples: unsigned(row, 8)?,
        allocated: unsigned(row, 9)?,
    })
}

impl Database {
    /// Opens a history that may be written to meanwhile.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        let (connection, work) = schema::open_to_read(path)?;
        Ok(Self { connection, work, budget: Budget::of(path) })
    }

    /// Reads the history from the descriptors of `image`: no file is opened.
    pub fn given(mut image: Image, budget: Budget) -> Result<Self, HistoryError> {
        let (connection, work) = schema::read_image(&mut image)?;
        if !image.is_still()? {
            return Err(HistoryError::Changing);
        }
        Ok(Self { connection, work, budget })
    }

    /// The answer to any question.
    pub fn answer(&self, question: Question) -> Result<Answer, HistoryError> {
        Ok(match question {
            Question::Processes => Answer::Processes(self.processes()?),
            Question::Series { process, from_ns, to_ns } => {
                Answer::Moments(self.series(process, from_ns, to_ns)?)
            }
            Question::At { process, time_ns } => {
                self.one("time_ns <= ?2 ORDER BY time_ns DESC", process, signed(time_ns))?
            }
            Question::First { process } => {
                self.one("time_ns >= ?2 ORDER BY time_ns", process, 0)?
            }
            Question::Peak { process } => {
                self.one("time_ns >= ?2 ORDER BY snapshots.live DESC, time_ns", process, 0)?
            }
            Question::Mark { process, name } => {
                let time = "(SELECT time_ns FROM marks WHERE marks.process = ?1 AND name = ?2)";
                self.one(&format!("time_ns = {time} ORDER BY time_ns"), process, name)?
            }
            Question::Marks { process } => Answer::Marks(self.marks(process)?),
            Question::Snapshot { process, moment } => {
                Answer::Snapshot(Box::new(self.snapshot(process, &moment)?))
            }
        })
    }

    /// For one query.
    fn connection(&self) -> &Connection {
        self.work.begin();
        &self.connection
    }

    fn processes(&self) -> Result<Vec<Process>, HistoryError> {
        let query = "SELECT id, pid, name, exe, comm, start_unix_ns FROM processes ORDER BY start_unix_ns, id";
        Ok(rows(self.connection(), query, [], |row| {
            Ok(Process {
                id: row.get(0)?,
                pid: row.get(1)?,
                name: row.get(2)?,
                exe: row.get(3)?,
                comm: row.get(4)?,
                start_unix_ns: unsigned(row, 5)?,
            })
        })?)
    }

    fn series(&self, process: i64, from_ns: u64, to_ns: u64) -> Result<Vec<Moment>, HistoryError> {
        let query =
            format!("{} AND time_ns BETWEEN ?2 AND ?3 ORDER BY time_ns, snapshots.id", moments());
        let values = params![process, signed(from_ns), signed(to_ns)];
        let mut series = rows(self.connection(), &query, values, moment)?;
        series.dedup_by_key(|moment| moment.time_ns);
        Ok(series)
    }

    fn marks(&self, process: i64) -> Result<Vec<(String, u64)>, HistoryError> {
        let query = "SELECT name, time_ns FROM marks WHERE process = ?1 ORDER BY time_ns";
        Ok(rows(self.connection(), query, [process], |row| Ok((row.get(0)?, unsigned(row, 1)?)))?)
    }

    /// The first moment of a process for which this holds, in this order.
    fn one(
        &self,
        condition: &str,
        process: i64,
        value: impl ToSql,
    ) -> Result<Answer, HistoryError> {
        let query = format!("{} AND {condition}, snapshots.id LIMIT 1", moments());
        let found =
            self.connection().query_row(&query, params![process, value], moment).optional()?;
        Ok(Answer::Moments(found.into_iter().collect()))
    }

    /// The whole snapshot of a moment, on the clock of which its header says that it was taken.
    fn snapshot(&self, process: i64, moment: &Moment) -> Result<Snapshot, HistoryError> {
        // The chain may be thinned away between two queries, but not within one transaction.
        let transaction = self.connection().unchecked_transaction()?;
        let state = self.state(moment)?;
        let mut header = intern::header(&transaction, process)?;
        set_numbers(&mut header, &state.numbers);
        header.last_monotonic_ns = moment.monotonic_ns.max(header.last_monotonic_ns);
        let mappings = intern::mappings(&transaction, process)?;
        self.work.begin();
        let stacks = intern::stacks(&transaction, process, &mappings, &self.budget)?;
        let (stacks, live, extents) = state.restore(stacks);
        let mappings = mappings.into_iter().map(|(_, mapping)| mapping).collect();
        Ok(Snapshot { header, mappings, stacks, live, extents, ..Snapshot::default() })
    }

    fn state(&self, moment: &Moment) -> Result<State, HistoryError> {
        let mut query = self.connection().prepare(
            "SELECT data FROM snapshots JOIN differences ON snapshot = id WHERE chain = ?1 AND id <= ?2 ORDER BY id",
        )?;
        let mut rows = query.query(params![moment.chain, moment.id])?;
        let mut trail = Trail::within(self.budget.blocks);
        let mut steps = 0;
        while let Some(row) = rows.next()? {
            let data = row.get_ref(0)?.as_blob().map_err(|_| HistoryError::Damaged)?;
            trail.read(data).map_err(|_| HistoryError::Damaged)?;
            steps += (trail.state.blocks.len() + trail.state.counters.len() + data.len()) as u64;
            if steps > self.budget.steps {
                return Err(HistoryError::OverBudget);
            }
        }
        // It may have been removed.
        Some(trail.state).filter(|state| *state != State::default()).ok_or(HistoryError::Damaged)
    }
}
