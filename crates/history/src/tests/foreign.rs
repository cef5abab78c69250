//! A history that somebody else wrote: any value in any cell is an error or an answer, never a panic. fuzz/read_history tries the
//! bytes that rows contain.

use super::{Place, SECOND, START, record, snapshot, taken};
use crate::query::History;
use crate::schema::TERM_COUNT;
use crate::trigger::Triggers;
use crate::writer::{Free, HistoryWriter, Taken};
use ramson_profile::Estimate;
use rusqlite::types::Value;
use rusqlite::{Connection, params};
use std::fs;
use std::path::Path;

const PIDS: [u32; 2] = [1, 2];

/// Everything a reader asks; the number of snapshots that could be read.
fn read_all(history: &History) -> usize {
    let mut read = 0;
    let Ok(processes) = history.processes() else { return 0 };
    for process in processes.iter().map(|process| process.id) {
        let moments = [
            history.first(process),
            history.peak(process),
            history.at(process, START + 250 * SECOND),
            history.mark(process, "deploy"),
        ];
        let _ = history.marks(process);
        let series = history.series(process, 0, u64::MAX).unwrap_or_default();
        for moment in moments.into_iter().flatten().flatten().chain(series) {
            if let Ok(snapshot) = history.snapshot(process, &moment) {
                let stacks = snapshot.stacks.len();
                assert!(snapshot.live.iter().all(|sample| sample.stack < stacks));
                assert!(snapshot.extents.iter().all(|extent| extent.stack < stacks));
                read += 1;
            }
        }
    }
    read
}

fn columns(connection: &Connection) -> Vec<(String, String)> {
    let query = "SELECT tables.name, columns.name FROM sqlite_schema tables, pragma_table_info(tables.name) columns
                 WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite%'";
    let mut query = connection.prepare(query).unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// A history with marks, as the bytes of its file, and what a reader finds in it.
fn written(path: &Path, mut writer: HistoryWriter) -> Vec<u8> {
    for pid in PIDS {
        for seconds in [0, 100, 200] {
            record(&mut writer, pid, seconds, Triggers::CLOCK);
        }
        let last = snapshot(pid, 5, 4);
        let free = Some(Free { bytes: Estimate::default(), is_held: false });
        let terms = Some([7; TERM_COUNT]);
        writer.mark(&Taken { free, terms, ..taken(&last, 300, Triggers::MARK) }, "deploy").unwrap();
    }
    drop(writer);
    // All in one file.
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
    drop(connection);
    fs::read(path).unwrap()
}

#[test]
fn odd_cell_values_never_panic() {
    let place = Place::new("foreign");
    let path = place.database();
    let bytes = written(&path, place.writer());
    assert_eq!(read_all(&History::open(&path).unwrap()), PIDS.len() * (4 + 4));
    let numbers = [-1, 0, 1, 1 << 31, u32::MAX.into(), 1 << 32, i64::MIN, i64::MAX];
    let mut values: Vec<Value> = numbers.map(Value::Integer).to_vec();
    values.extend([f64::MAX, -0.5].map(Value::Real));
    values.extend([Value::Text("\u{1b}\n".into()), Value::Blob(vec![0xff; 9])]);
    let mut untouched = Vec::new();
    let mut answers = 0;
    for (table, column) in columns(&Connection::open(&path).unwrap()) {
        let mut changed = 0;
        for value in &values {
            for rows in ["true", &format!("{column} = (SELECT max({column}) FROM {table})")] {
                fs::write(&path, &bytes).unwrap();
                let connection = Connection::open(&path).unwrap();
                connection.pragma_update(None, "synchronous", "OFF").unwrap();
                let update = format!("UPDATE OR IGNORE {table} SET {column} = ?1 WHERE {rows}");
                // SQLite takes only numbers in a column that is the row's number.
                changed += connection.execute(&update, params![value]).unwrap_or(0);
                drop(connection);
                answers += read_all(&History::open(&path).unwrap());
            }
        }
        if changed == 0 {
            untouched.push((table, column));
        }
    }
    assert_eq!(untouched, []);
    assert!(answers > 0);
}
