//! Bounds for a database that is read. Its schema is code that SQLite runs: a view under a table's name can be an endless query.
//! So a history has the tables that `schema` makes and nothing else, and each query and each moment has a bound.

use crate::schema::{HistoryError, TABLES};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, Row};
use rustix::process::geteuid;
use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bounds for reading one moment.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Live samples at any moment of its chain.
    pub blocks: u64,
    /// Bytes of its stacks.
    pub stack_bytes: u64,
    /// Blocks and counters of all moments of its chain, and places in which a frame is looked for. They stand for time.
    pub steps: u64,
}

/// Instructions of SQLite for one query: about ten seconds.
pub const MOST_INSTRUCTIONS: u64 = 1 << 30;
const INSTRUCTIONS_AT_ONCE: i32 = 1 << 16;
/// Bytes of all rows of one query. A month of one process has 50 MB.
pub const MOST_ROW_BYTES: usize = 256 << 20;
/// Bytes that SQLite itself may allocate for a file that it opens.
pub const MOST_HEAP_BYTES: u64 = 512 << 20;

impl Budget {
    /// Bounds for a file of the caller's or of root's.
    pub const OWN: Budget = Budget { blocks: 1 << 26, stack_bytes: 4 << 30, steps: u64::MAX };
    /// Bounds for a file of any other user's.
    pub const STRANGER: Budget = Budget { blocks: 1 << 21, stack_bytes: 256 << 20, steps: 1 << 27 };

    /// Returns the budget for a file, by its owner.
    pub fn of(path: &Path) -> Budget {
        let is_own = |uid| uid == 0 || uid == geteuid().as_raw();
        let owner = metadata(path).map(|facts| facts.uid());
        if owner.is_ok_and(is_own) { Budget::OWN } else { Budget::STRANGER }
    }
}

/// Instructions of the current query.
pub struct Work(Arc<AtomicU64>);

impl Work {
    /// Ends every query of this connection that takes too many.
    pub fn bound(connection: &mut Connection, most_instructions: u64) -> rusqlite::Result<Work> {
        let counted = Arc::new(AtomicU64::new(0));
        let work = Work(counted.clone());
        let handler =
            move || counted.fetch_add(INSTRUCTIONS_AT_ONCE as u64, Relaxed) > most_instructions;
        connection.progress_handler(INSTRUCTIONS_AT_ONCE, Some(handler))?;
        Ok(work)
    }

    /// A new query begins.
    pub fn begin(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Before anything of the file is read. SQLite itself may allocate so many bytes.
pub fn confine(connection: &Connection, most_heap_bytes: u64) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    for dangerous in [
        DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA,
        DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
        DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE,
        DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE,
    ] {
        connection.set_db_config(dangerous, false)?;
    }
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, MOST_ROW_BYTES as i32),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 16),
        (Limit::SQLITE_LIMIT_COLUMN, 64),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 64),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 8),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 16),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 64),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    connection.pragma_update(None, "hard_heap_limit", most_heap_bytes as i64)?;
    connection.pragma_update(None, "cell_size_check", true)
}

/// Refuses a database that has more than the tables of a history, or has them otherwise.
pub fn check_schema(connection: &Connection) -> Result<(), HistoryError> {
    let mut query = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY rowid")?;
    let mut rows = query.query([])?;
    // As SQLite keeps them.
    let expected = TABLES.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    let mut expected: Vec<&str> = expected.collect();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let sql: Option<String> = row.get(1)?;
        let is_known = match &sql {
            None => name.starts_with("sqlite_autoindex_"),
            Some(sql) if *sql == "CREATE TABLE sqlite_sequence(name,seq)" => true,
            Some(sql) => {
                let known = expected.iter().position(|expected| expected == sql);
                known.map(|at| expected.swap_remove(at)).is_some()
            }
        };
        if !is_known {
            return Err(HistoryError::ForeignSchema(name));
        }
    }
    if expected.is_empty() { Ok(()) } else { Err(HistoryError::Damaged) }
}

/// Bytes of a row's texts and blobs.
pub fn row_bytes(row: &Row) -> rusqlite::Result<usize> {
    let mut bytes = 0;
    for column in 0..row.as_ref().column_count() {
        bytes += row.get_ref(column)?.as_bytes_or_null().ok().flatten().map_or(0, <[u8]>::len);
    }
    Ok(bytes)
}
