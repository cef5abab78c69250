//! The tables (docs/internals/history-format.md explains them), and how a database is opened.

use crate::guard::{
    MOST_HEAP_BYTES, MOST_INSTRUCTIONS, MOST_ROW_BYTES, Work, check_schema, confine, row_bytes,
};
use crate::image::Image;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Failure, Owner, bounds};
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, Params, Row, ffi};
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// `PRAGMA application_id`: "RMSH".
const APPLICATION_ID: i32 = 0x524d_5348;
/// `PRAGMA user_version`.
pub const VERSION: i32 = 8;
/// How many terms of RSS there are. Their columns have the names and the order that they have elsewhere.
pub const TERM_COUNT: usize = 18;
/// The first bytes of every SQLite database.
pub const MAGIC: &[u8] = b"SQLite format 3\0";
/// How long to wait for another writer.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// Statements that make the tables.
pub const TABLES: &str = "
CREATE TABLE processes (
  id INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL, start_ticks INTEGER NOT NULL, start_unix_ns INTEGER NOT NULL,
  run_id INTEGER NOT NULL, start_monotonic_ns INTEGER NOT NULL, start_cycles INTEGER NOT NULL, start_cycles_ns INTEGER NOT NULL,
  configured_interval_bytes INTEGER NOT NULL, max_overhead_ppm INTEGER NOT NULL, name TEXT NOT NULL, comm TEXT NOT NULL,
  exe TEXT NOT NULL, command TEXT NOT NULL, root BLOB,
  UNIQUE (pid, start_ticks, start_unix_ns, run_id));
CREATE TABLE binaries (
  id INTEGER PRIMARY KEY, path TEXT NOT NULL, build_id BLOB NOT NULL, UNIQUE (path, build_id));
CREATE TABLE mappings (
  process INTEGER NOT NULL, number INTEGER NOT NULL, binary INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
  file_offset INTEGER NOT NULL, bias INTEGER NOT NULL, epoch_from INTEGER NOT NULL, epoch_to INTEGER NOT NULL,
  PRIMARY KEY (process, number)) WITHOUT ROWID;
CREATE TABLE stacks (
  id INTEGER PRIMARY KEY, hash INTEGER NOT NULL, frames BLOB NOT NULL);
CREATE INDEX stacks_by_hash ON stacks (hash);
CREATE TABLE process_stacks (
  process INTEGER NOT NULL, number INTEGER NOT NULL, stack INTEGER NOT NULL, epoch INTEGER NOT NULL, flags INTEGER NOT NULL,
  first_monotonic_ns INTEGER NOT NULL,
  PRIMARY KEY (process, number)) WITHOUT ROWID;
CREATE TABLE chains (
  id INTEGER PRIMARY KEY AUTOINCREMENT, process INTEGER NOT NULL, every_ns INTEGER NOT NULL, keep_ns INTEGER NOT NULL,
  last_ns INTEGER NOT NULL);
CREATE INDEX chains_by_end ON chains (last_ns);
CREATE TABLE snapshots (
  id INTEGER PRIMARY KEY AUTOINCREMENT, chain INTEGER NOT NULL, process INTEGER NOT NULL, time_ns INTEGER NOT NULL,
  monotonic_ns INTEGER NOT NULL, triggers INTEGER NOT NULL, rss INTEGER, live INTEGER NOT NULL, live_variance REAL NOT NULL,
  live_samples INTEGER NOT NULL, allocated INTEGER NOT NULL);
CREATE INDEX snapshots_by_time ON snapshots (process, time_ns);
CREATE INDEX snapshots_by_chain ON snapshots (chain);
CREATE TABLE differences (
  snapshot INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE marks (
  process INTEGER NOT NULL, name TEXT NOT NULL, time_ns INTEGER NOT NULL, PRIMARY KEY (process, name)) WITHOUT ROWID;
CREATE TABLE allocators (
  snapshot INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, variance REAL NOT NULL, is_held INTEGER NOT NULL);
CREATE TABLE terms (
  snapshot INTEGER PRIMARY KEY, live INTEGER NOT NULL, allocated_before_the_attach_or_not_seen INTEGER NOT NULL,
  free_in_allocator INTEGER NOT NULL, freed_lazily INTEGER NOT NULL, allocator_metadata INTEGER NOT NULL, held_by_allocator INTEGER NOT NULL,
  go_heap INTEGER NOT NULL, free_in_go INTEGER NOT NULL, inherited_from_parent INTEGER NOT NULL, mmap INTEGER NOT NULL,
  stacks INTEGER NOT NULL, code_and_data INTEGER NOT NULL, files INTEGER NOT NULL, shared_memory INTEGER NOT NULL, kernel INTEGER NOT NULL, ramson INTEGER NOT NULL,
  other_anonymous INTEGER NOT NULL, changed_during_measurement INTEGER NOT NULL);
";

/// Errors of a history.
#[derive(Debug, BorshSerialize, BorshDeserialize)]
pub enum HistoryError {
    /// It is no database of ours.
    NotAHistory,
    /// Written by another version.
    Version(i32),
    /// Its schema has this, which no history has.
    ForeignSchema(String),
    /// Reading it takes more than its budget.
    OverBudget,
    /// The disk, or the database's own bound, is full.
    Full,
    /// A snapshot's bytes make no sense.
    Damaged,
    /// It was written to again and again while it was read.
    Changing,
    /// It belongs to this user, and would be written to by another one.
    OtherOwner(u32),
    /// Who reads it for us gave no answer.
    Apart(Failure),
    /// Anything else that SQLite reports.
    Database(
        #[borsh(serialize_with = "write_failed", deserialize_with = "read_failed")] rusqlite::Error,
    ),
}

fn write_failed(error: &rusqlite::Error, out: &mut impl io::Write) -> io::Result<()> {
    error.to_string().serialize(out)
}

fn read_failed(input: &mut impl io::Read) -> io::Result<rusqlite::Error> {
    Ok(failed(ffi::SQLITE_ERROR, String::deserialize_reader(input)?))
}

/// Returns an error as SQLite reports one.
pub fn failed(code: i32, text: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(text))
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::NotAHistory => write!(f, "not a history of ramson"),
            Self::Version(version) => {
                write!(f, "history version {version}; this ramson knows version {VERSION}")
            }
            Self::ForeignSchema(name) => {
                write!(f, "not a history of ramson: {name} differs from its schema")
            }
            Self::OverBudget => write!(f, "reading it takes more memory or time than allowed"),
            Self::Full => write!(f, "the disk is full"),
            Self::Damaged => write!(f, "the history is damaged"),
            Self::Changing => write!(f, "it changed while it was read"),
            Self::OtherOwner(user) => {
                write!(f, "it belongs to user {user}, and no other user may write to it")
            }
            Self::Apart(failure) => write!(f, "{failure}"),
            Self::Database(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for HistoryError {}

impl From<rusqlite::Error> for HistoryError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::NotADatabase) => Self::NotAHistory,
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged,
            Some(ErrorCode::OperationInterrupted | ErrorCode::OutOfMemory | ErrorCode::TooBig) => {
                Self::OverBudget
            }
            // A value in a column that never has such a one.
            None if matches!(
                error,
                rusqlite::Error::InvalidColumnType(..)
                    | rusqlite::Error::IntegralValueOutOfRange(..)
            ) =>
            {
                Self::Damaged
            }
            _ => Self::Database(error),
        }
    }
}

/// The answers to a query.
pub fn rows<T>(
    connection: &Connection,
    query: &str,
    values: impl Params,
    mut row: impl FnMut(&Row) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare_cached(query)?;
    let mut found = statement.query(values)?;
    let mut answers = Vec::new();
    let mut bytes = 0;
    while let Some(next) = found.next()? {
        bytes += size_of::<T>() + row_bytes(next)?;
        if bytes > MOST_ROW_BYTES {
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_TOOBIG), None));
        }
        answers.push(row(next)?);
    }
    Ok(answers)
}

/// SQLite has only numbers with a sign; what is too large for one is the largest.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that was kept as one with a sign.
pub fn unsigned(row: &Row, index: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(index).map(|value| value as u64)
}

/// Opens a history to write to it; makes it where there is none.
pub fn open_to_write(path: &Path) -> Result<Connection, HistoryError> {
    // SQLite reads what it writes to, with this user's rights.
    let owner = path.metadata().ok().map(|facts| facts.uid());
    if let Some(owner) = owner.filter(|&owner| !Owner::of_user(owner).is_trusted()) {
        return Err(HistoryError::OtherOwner(owner));
    }
    let connection = Connection::open(path)?;
    connection.busy_timeout(MOST_WAIT)?;
    confine(&connection, MOST_HEAP_BYTES)?;
    let has_tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if has_tables > 0 {
        check_version(&connection)?;
    } else {
        // Most rows are some kilobytes: small pages leave the least of them empty.
        connection.pragma_update(None, "page_size", 1024)?;
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    // The mode stays with the file; until it is set, a reader would find none.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    // In this mode a commit waits for the disk only when the log begins anew. Pages: some megabytes of log between two such waits.
    connection.pragma_update(None, "wal_autocheckpoint", 8000)?;
    if has_tables == 0 {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; {TABLES} COMMIT"
        ))?;
    }
    Ok(connection)
}

/// A history in memory that is made of what descriptors have.
pub fn read_image(image: &mut Image) -> Result<(Connection, Work), HistoryError> {
    let bytes = usize::try_from(image.bytes()).map_err(|_| HistoryError::OverBudget)?;
    let mut connection = Connection::open_in_memory()?;
    connection.deserialize_read_exact(MAIN_DB, image, bytes, true)?;
    // Nothing can be opened to sort in.
    connection.pragma_update(None, "temp_store", 2)?;
    let most_heap_bytes = bounds(false).memory_bytes;
    let work = begin_to_read(&mut connection, most_heap_bytes)?;
    Ok((connection, work))
}

fn begin_to_read(connection: &mut Connection, most_heap_bytes: u64) -> Result<Work, HistoryError> {
    connection.pragma_update(None, "query_only", true)?;
    confine(connection, most_heap_bytes)?;
    let work = Work::bound(connection, MOST_INSTRUCTIONS)?;
    check_version(connection)?;
    Ok(work)
}

/// Opens a history to read it. Readers and one writer do not wait for each other.
pub fn open_to_read(path: &Path) -> Result<(Connection, Work), HistoryError> {
    let open = |path: &Path, flags| -> Result<(Connection, Work), HistoryError> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(MOST_WAIT)?;
        let work = begin_to_read(&mut connection, MOST_HEAP_BYTES)?;
        Ok((connection, work))
    };
    let mut opened = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    // A copy in a place where nothing can be written, and so nobody does.
    if let Err(HistoryError::Database(_)) = opened {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_".contains(&byte);
        let encoded = path.as_os_str().as_encoded_bytes().iter().map(|&byte| {
            if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") }
        });
        let address = format!("file:{}?immutable=1", encoded.collect::<String>());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        opened = open(Path::new(&address), flags);
    }
    opened
}

fn check_version(connection: &Connection) -> Result<(), HistoryError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    if number("application_id")? != APPLICATION_ID {
        return Err(HistoryError::NotAHistory);
    }
    match number("user_version")? {
        VERSION => check_schema(connection),
        other => Err(HistoryError::Version(other)),
    }
}
