//! A history of the version before, which has no figures of allocators: readable as it is, and continued.

use super::*;
use crate::schema::{ALLOCATORS, OLDEST_VERSION};
use crate::writer::Free;
use ramson_profile::Estimate;
use rusqlite::Connection;

const FREE: Free = Free { bytes: Estimate { value: 5e6, variance: 1e8 }, is_held: true };

fn make_older(path: &Path) {
    assert_eq!((OLDEST_VERSION, VERSION), (3, 4), "and what else has changed since?");
    assert!(ALLOCATORS.contains("CREATE TABLE allocators"));
    let database = Connection::open(path).unwrap();
    database.execute_batch("DROP TABLE allocators; PRAGMA user_version = 3").unwrap();
}

#[test]
fn a_history_of_the_version_before_is_read_and_has_no_free_memory() {
    let place = Place::new("older");
    record(&mut place.writer(), 1, 10, Triggers::START);
    make_older(&place.database());
    let history = History::open(&place.database()).unwrap();
    let series = history.series(1, 0, u64::MAX).unwrap();
    assert_eq!((series.len(), series[0].free, series[0].rss), (1, None, Some(1 << 30)));
}

#[test]
fn a_writer_adds_what_the_version_before_does_not_have() {
    let place = Place::new("upgraded");
    record(&mut place.writer(), 1, 10, Triggers::START);
    make_older(&place.database());
    let snapshot = snapshot(1, 5, 1);
    let next = Taken { free: Some(FREE), ..taken(&snapshot, 20, Triggers::CLOCK) };
    place.writer().append(&[next]).unwrap();
    let history = History::open(&place.database()).unwrap();
    let free: Vec<_> =
        history.series(1, 0, u64::MAX).unwrap().iter().map(|moment| moment.free).collect();
    assert_eq!(free, [None, Some(FREE)]);
}

#[test]
fn free_memory_goes_over_into_coarser_levels_and_away_with_its_snapshot() {
    let place = Place::new("thinned-free");
    let mut writer =
        HistoryWriter::open(&place.database(), Levels::new(10 * SECOND, 30 * DAY), 1 << 30)
            .unwrap();
    let snapshot = snapshot(1, 5, 1);
    for seconds in (0..7200).step_by(10) {
        let next = Taken { free: Some(FREE), ..taken(&snapshot, seconds, Triggers::CLOCK) };
        writer.append(&[next]).unwrap();
    }
    while writer.tidy(START + 7200 * SECOND).unwrap().has_more {}
    let count =
        |query: &str| writer.connection.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM allocators"), count("SELECT count(*) FROM snapshots"));
    assert!(count("SELECT count(*) FROM snapshots") < 720);
    let history = History::open(&place.database()).unwrap();
    assert!(history.series(1, 0, u64::MAX).unwrap().iter().all(|moment| moment.free == Some(FREE)));
}
