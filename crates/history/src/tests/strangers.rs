//! Databases that are made to be read by another user: a schema that is no history's, and a history that asks for too much.

use super::{Place, SECOND, START, record, snapshot};
use crate::Levels;
use crate::difference::Trail;
use crate::guard::Work;
use crate::query::History;
use crate::schema::HistoryError;
use crate::state::State;
use crate::trigger::Triggers;
use crate::writer::HistoryWriter;
use rusqlite::Connection;

/// A history of one process, changed by these statements.
fn changed(place: &Place, statements: &str) {
    let mut writer = place.writer();
    record(&mut writer, 1, 100, Triggers::CLOCK);
    drop(writer);
    let connection = Connection::open(place.database()).unwrap();
    connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
    connection.execute_batch(statements).unwrap();
}

#[track_caller]
fn assert_refused(statements: &str, object: &str) {
    let place = Place::new("stranger");
    changed(&place, statements);
    let read = History::open(&place.database()).err();
    let levels = Levels::new(SECOND, 86_400 * SECOND);
    let written = HistoryWriter::open(&place.database(), levels, 1 << 20).err();
    for refused in [read, written] {
        match refused {
            Some(HistoryError::ForeignSchema(name)) => assert_eq!(name, object),
            other => panic!("{statements}: {other:?}"),
        }
    }
}

#[test]
fn foreign_schema_is_refused() {
    let endless = "WITH RECURSIVE endless(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM endless)";
    let view = format!(
        "DROP TABLE processes; CREATE VIEW processes AS {endless}
         SELECT i AS id, 1 AS pid, 'x' AS name, '/x' AS exe, 'x' AS comm, 1 AS start_unix_ns FROM endless"
    );
    assert_refused(&view, "processes");
    assert_refused(&format!("CREATE VIEW more AS {endless} SELECT i FROM endless"), "more");
    let trigger = "CREATE TRIGGER more AFTER INSERT ON marks BEGIN DELETE FROM snapshots; END";
    assert_refused(trigger, "more");
    assert_refused("CREATE VIRTUAL TABLE more USING fts5(a)", "more");
    assert_refused("CREATE INDEX more ON marks (abs(time_ns))", "more");
    let generated = "ALTER TABLE marks ADD COLUMN more INTEGER AS (zeroblob(1 << 30))";
    assert_refused(generated, "marks");
}

#[test]
fn missing_table_is_damage() {
    let place = Place::new("lacking");
    changed(&place, "DROP TABLE marks");
    assert!(matches!(History::open(&place.database()), Err(HistoryError::Damaged)));
}

#[test]
fn a_query_without_end_ends() {
    let mut connection = Connection::open_in_memory().unwrap();
    let work = Work::bound(&mut connection, 1 << 22).unwrap();
    let count = |connection: &Connection, most: &str| {
        let query = format!(
            "WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE {most}) \
             SELECT count(*) FROM numbers"
        );
        connection.query_row(&query, [], |row| row.get::<_, i64>(0)).map_err(HistoryError::from)
    };
    let endless = count(&connection, "true");
    assert!(matches!(endless, Err(HistoryError::OverBudget)), "{endless:?}");
    // Each query has the whole of it.
    for _ in 0..5 {
        work.begin();
        assert_eq!(count(&connection, "i < 100000").unwrap(), 100_000);
    }
}

#[test]
fn chain_over_sample_budget_is_refused() {
    let snapshot = snapshot(1, 5, 4);
    let numbers: Vec<u32> = (0..snapshot.stacks.len() as u32).collect();
    let state = State::of(&snapshot, &numbers);
    let mut written = Trail::default();
    let bytes = written.append(&state);
    let blocks = state.blocks.len() as u64;
    assert!(Trail::within(blocks).read(&bytes).is_ok());
    assert!(Trail::within(blocks - 1).read(&bytes).is_err());
}

#[test]
fn rows_over_budget_are_refused() {
    let place = Place::new("rows");
    // Processes with names of a megabyte.
    changed(
        &place,
        "WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < 300)
         INSERT INTO processes SELECT NULL, i, 1, 1, 1, 1, 1, 1, 1, 1, hex(zeroblob(500000)), '', '', '', NULL FROM numbers",
    );
    let history = History::open(&place.database()).unwrap();
    assert!(matches!(history.processes(), Err(HistoryError::OverBudget)));
    assert!(history.first(1).unwrap().is_some_and(|moment| moment.time_ns > START));
}
