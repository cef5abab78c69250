//! Whatever the rows of a history hold where they are not numbers: two differences in a chain, and the frames of a stack. A moment is a
//! snapshot that names only what it has, or damaged. The input is cut in three by its first two bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_format::mix;
use ramson_history::{History, Levels, HistoryWriter};
use rusqlite::{Connection, params};
use std::cell::LazyCell;

/// As it stands behind a difference.
fn check(bytes: &[u8]) -> [u8; 2] {
    let hash = bytes.iter().fold(bytes.len() as u64, |hash, &byte| mix(hash, u64::from(byte)));
    (hash as u16).to_le_bytes()
}

/// A process with two snapshots and a stack, and who writes to it and reads it.
struct Tables {
    connection: Connection,
    history: History,
}

const ROWS: &str = "
INSERT INTO processes VALUES (1, 7, 1, 1, 1, 1, 1, 1, 524288, 10000, 'a', 'a', '/a', 'a');
INSERT INTO binaries VALUES (1, '/a', x'0f');
INSERT INTO mappings VALUES (1, 0, 1, 4096, 8192, 0, 0, 0, 9);
INSERT INTO stacks VALUES (1, 0, x'');
INSERT INTO process_stacks VALUES (1, 0, 1, 0, 0, 1), (1, 1, 1, 0, 0, 1);
INSERT INTO chains VALUES (1, 1, 1, 1, 2);
INSERT INTO snapshots VALUES (1, 1, 1, 1, 1, 0, NULL, 0, 0.0, 0, 0), (2, 1, 1, 2, 2, 0, NULL, 0, 0.0, 0, 0);
INSERT INTO differences VALUES (1, x''), (2, x'');
";

fn tables() -> Tables {
    let path = std::env::temp_dir().join(format!("ramson-fuzz-history-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    drop(HistoryWriter::open(&path, Levels::new(1, 1), u64::MAX).expect("a new history"));
    let connection = Connection::open(&path).expect("it was just made");
    connection.execute_batch(ROWS).expect("its tables");
    connection.pragma_update(None, "synchronous", "OFF").expect("a known pragma");
    let history = History::open(&path).expect("it was just made");
    Tables { connection, history }
}

thread_local! {
    static TABLES: LazyCell<Tables> = LazyCell::new(tables);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[first, second], rest)) = bytes.split_first_chunk() else { return };
    let (first_difference, rest) = rest.split_at(rest.len() * usize::from(first) / 256);
    let (second_difference, frames) = rest.split_at(rest.len() * usize::from(second) / 256);
    TABLES.with(|tables| {
        let set = |query: &str, id: i64, data: &[u8]| {
            tables.connection.execute(query, params![data, id]).expect("a row");
        };
        for (id, difference) in [(1, first_difference), (2, second_difference)] {
            let data = [difference, &check(difference)].concat();
            set("UPDATE differences SET data = ?1 WHERE snapshot = ?2", id, &data);
        }
        set("UPDATE stacks SET frames = ?1 WHERE id = ?2", 1, frames);
        for time in [1, 2] {
            let moment = tables.history.at(1, time).expect("a query").expect("a moment");
            if let Ok(snapshot) = tables.history.snapshot(1, &moment) {
                let stacks = snapshot.stacks.len();
                assert!(snapshot.live.iter().all(|sample| sample.stack < stacks));
            }
        }
    });
});
