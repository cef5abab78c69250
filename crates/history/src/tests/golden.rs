//! The rows of a small history, as `tests/golden/history-VERSION.txt` has them, with differences unpacked: another release of zstd may pack them
//! otherwise.

use super::*;
use crate::columns::unpack;
use crate::writer::Free;
use ramson_format::Root;
use ramson_profile::Estimate;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::array;
use std::fmt::Write;

/// A process at its `round`-th snapshot: samples come, of several sizes and threads, and go, and a counter
/// becomes smaller.
fn busy(round: u64) -> Snapshot {
    let mut snapshot = snapshot(7, 2 + round as usize, 4 * round);
    // How many numbers a header has is the profile format's matter.
    snapshot.header.health = (0..8).map(|index| index * round).collect();
    for (index, live) in snapshot.live.iter_mut().enumerate() {
        live.tid += index as u32 % 3;
        live.size += if live.stack == 3 { index as u64 } else { 0 };
    }
    let born_ns = |age: u64| (5 + 4 * round - age) * SECOND;
    snapshot.live.retain(|live| live.stack == 2 || live.monotonic_ns > born_ns(6));
    for stack in &mut snapshot.stacks[3..] {
        stack.lifetimes[20] = 2 * round;
        stack.lifetimes[30] = round * round;
    }
    snapshot.header.root = Some(Box::new(Root::new(b"/srv/root", 64_769, 2, 1)));
    if round == 4 {
        snapshot.stacks[2].sampled_alloc_objects -= 1;
        snapshot.extents.clear();
    }
    snapshot
}

/// All tables with their definitions, in an order that does not depend on SQLite.
fn dump(database: &Connection) -> String {
    let number = |pragma| database.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let mut out = String::new();
    for pragma in ["application_id", "user_version"] {
        writeln!(out, "{pragma} {}", number(pragma).unwrap()).unwrap();
    }
    let mut tables = database
        .prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        .unwrap();
    let named = tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    for (name, definition) in named.map(Result::<(String, String), _>::unwrap) {
        writeln!(out, "\n{definition}").unwrap();
        if definition.starts_with("CREATE TABLE") && !name.starts_with("sqlite_") {
            write_rows(&mut out, database, &name);
        }
    }
    out
}

fn write_rows(out: &mut String, database: &Connection, table: &str) {
    let mut rows = database.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
    let columns = rows.column_count();
    let mut rows = rows.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        for column in 0..columns {
            match row.get_ref(column).unwrap() {
                ValueRef::Null => out.push_str(" null"),
                ValueRef::Integer(number) => write!(out, " {number}").unwrap(),
                ValueRef::Real(number) => write!(out, " {number:.6e}").unwrap(),
                ValueRef::Text(text) => {
                    write!(out, " {:?}", std::str::from_utf8(text).unwrap()).unwrap();
                }
                ValueRef::Blob(bytes) => {
                    let unpacked = unpack(bytes, 1 << 20);
                    let bytes = if table == "differences" { &unpacked.unwrap() } else { bytes };
                    out.push_str(" x");
                    bytes.iter().for_each(|byte| write!(out, "{byte:02x}").unwrap());
                }
            }
        }
        out.push('\n');
    }
}

#[test]
fn bytes_change_only_with_version() {
    let place = Place::new("golden");
    let mut writer = place.writer();
    let snapshots: Vec<Snapshot> = (1..=6).map(busy).collect();
    for (round, snapshot) in snapshots.iter().enumerate() {
        let seconds = 10 * (round as u64 + 1);
        let triggers = if round == 0 { Triggers::START } else { Triggers::CLOCK };
        let bytes = Estimate::new(3e6 * round as f64, 1e9);
        let free = (round % 2 == 0).then_some(Free { bytes, is_held: round == 4 });
        let terms = (round % 2 == 0).then(|| array::from_fn(|term| ((term as i64) << 20) - 1));
        writer.append(&[Taken { free, terms, ..taken(snapshot, seconds, triggers) }]).unwrap();
    }
    writer.mark(&taken(&snapshots[5], 61, Triggers::MARK), "deploy").unwrap();
    let found = dump(&writer.connection);
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../tests/golden/history-{VERSION}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &found).unwrap();
    }
    assert!(
        found == fs::read_to_string(&path).unwrap_or_default(),
        "{} is no longer what is written, and histories of version {VERSION} exist: raise VERSION in \
         schema.rs, and run this test with UPDATE_GOLDEN=1. It wrote\n{found}",
        path.display()
    );
    // A reader gets back the snapshots that the file contains.
    let history = History::open(&place.database()).unwrap();
    for (round, snapshot) in snapshots.iter().enumerate() {
        let seconds = 10 * (round as u64 + 1);
        let moment = history.at(1, START + seconds * SECOND).unwrap().unwrap();
        let read = history.snapshot(1, &moment).unwrap();
        assert_eq!(read.live, snapshot.live, "{round}");
        assert_eq!(read.extents, snapshot.extents, "{round}");
        assert_eq!(read.header.root, snapshot.header.root, "{round}");
        assert_eq!(read.stacks[3].lifetimes, snapshot.stacks[3].lifetimes, "{round}");
    }
}
