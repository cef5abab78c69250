//! Histories, which are databases.

use crate::choices::{Choices, sized};
use crate::seed::Seed;
use ramson_history::{History, HistoryWriter, Levels};
use rusqlite::{Connection, params};
use std::cell::LazyCell;
use std::path::Path;
use tempfile::TempDir;

const ROWS: &str = "
INSERT INTO processes VALUES (1, 7, 1, 1, 1, 1, 1, 1, 524288, 10000, 'a', 'a', '/a', 'a', NULL);
INSERT INTO binaries VALUES (1, '/a', x'0f');
INSERT INTO mappings VALUES (1, 0, 1, 4096, 8192, 0, 0, 0, 9);
INSERT INTO stacks VALUES (1, 0, x'');
INSERT INTO process_stacks VALUES (1, 0, 1, 0, 0, 1), (1, 1, 1, 0, 0, 1);
INSERT INTO chains VALUES (1, 1, 1, 1, 2);
INSERT INTO snapshots VALUES (1, 1, 1, 1, 1, 0, NULL, 0, 0.0, 0, 0), (2, 1, 1, 2, 2, 0, NULL, 0, 0.0, 0, 0);
INSERT INTO differences VALUES (1, x''), (2, x'');
";
const TABLES: [&str; 9] = [
    "processes",
    "binaries",
    "mappings",
    "stacks",
    "process_stacks",
    "chains",
    "snapshots",
    "differences",
    "marks",
];

/// A process with two snapshots and a stack.
fn make(path: &Path) -> Connection {
    drop(HistoryWriter::open(path, Levels::new(1, 1), u64::MAX).expect("a new history"));
    let connection = Connection::open(path).expect("it was just made");
    connection.execute_batch(ROWS).expect("its tables");
    connection.pragma_update(None, "synchronous", "OFF").expect("a known pragma");
    connection
}

/// The same, and who writes to it and reads it.
struct Tables {
    connection: Connection,
    history: History,
    _folder: TempDir,
}

fn tables() -> Tables {
    let folder = TempDir::new().expect("the temporary directory can be written");
    let path = folder.path().join("history");
    let connection = make(&path);
    let history = History::open(&path).expect("it was just made");
    Tables { connection, history, _folder: folder }
}

thread_local! {
    static PLAIN: LazyCell<Tables> = LazyCell::new(tables);
}

/// Whatever the rows of a history hold where they are not numbers: two differences in a chain, and the frames of a stack. A
/// moment is a snapshot that names only what it has, or damaged. The input is cut in three by its first two bytes.
pub fn read_history(bytes: &[u8]) {
    let Some((&[first, second], rest)) = bytes.split_first_chunk() else { return };
    let (first_difference, rest) = rest.split_at(rest.len() * usize::from(first) / 256);
    let (second_difference, frames) = rest.split_at(rest.len() * usize::from(second) / 256);
    PLAIN.with(|tables| {
        let set = |query: &str, id: i64, data: &[u8]| {
            tables.connection.execute(query, params![data, id]).expect("a row");
        };
        for (id, difference) in [(1, first_difference), (2, second_difference)] {
            let data = zstd::bulk::compress(difference, 1).expect("the level is a known one");
            set("UPDATE differences SET data = ?1 WHERE snapshot = ?2", id, &data);
        }
        set("UPDATE stacks SET frames = ?1 WHERE id = ?2", 1, frames);
        look(&tables.history);
    });
}

/// A history in which views stand for tables: each row of a table many times, or without end.
pub fn history_views(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let folder = TempDir::new().expect("the temporary directory can be written");
    let path = folder.path().join("history");
    let connection = make(&path);
    for _ in 0..choices.byte() % 4 {
        let table = TABLES[usize::from(choices.byte()) % TABLES.len()];
        let times = choices.size(1 << 32);
        let limit = if times == 0 { String::new() } else { format!("LIMIT {times}") };
        let view = format!(
            "ALTER TABLE {table} RENAME TO real_{table};
             CREATE VIEW {table} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n {limit})
             SELECT real_{table}.* FROM real_{table}, n;"
        );
        // The second time the name is taken.
        let _ = connection.execute_batch(&view);
    }
    if let Ok(history) = History::open(&path) {
        look(&history);
    }
}

fn look(history: &History) {
    let _ = history.processes();
    let _ = history.marks(1);
    let _ = history.peak(1);
    for time in [1, 2] {
        let Ok(Some(moment)) = history.at(1, time) else { continue };
        if let Ok(snapshot) = history.snapshot(1, &moment) {
            let stacks = snapshot.stacks.len();
            assert!(snapshot.live.iter().all(|sample| sample.stack < stacks));
        }
    }
}

/// Seeds of `read_history`.
pub fn rows() -> Vec<Seed> {
    let cut = |first: u8, second: u8| {
        let bytes = [first, second].into_iter().chain(0..90).collect();
        Seed::new(&format!("cut-{first}-{second}"), bytes)
    };
    vec![cut(85, 128), cut(250, 10), cut(10, 250)]
}

/// Seeds of `history_views`.
pub fn views() -> Vec<Seed> {
    let view = |table: u8, times| [&[1, table][..], &sized(times)].concat();
    vec![
        Seed::new("no-view", vec![0]),
        Seed::new("a-view-of-the-same", view(0, 1)),
        Seed::new("each-stack-thrice", view(3, 3)),
        Seed::of_finding(11, "processes-without-end", view(0, 0)),
        Seed::of_finding(11, "a-billion-mappings", view(2, 1 << 30)),
    ]
}
