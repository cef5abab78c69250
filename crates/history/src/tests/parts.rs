//! Other figures that were read of a moment: free memory of the allocator, and the terms of RSS.

use super::*;
use crate::question::Moment;
use crate::schema::TERM_COUNT;
use crate::writer::Free;
use ramson_profile::Estimate;

const FREE: Free = Free { bytes: Estimate::new(5e6, 1e8), is_held: true };
/// They add up to what is resident; the last one may be negative.
const TERMS: [i64; TERM_COUNT] =
    [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1 << 30, 11, 12, 13, 14, 15, 16, -126];

#[test]
fn terms_are_thinned_with_snapshots() {
    let place = Place::new("thinned-free");
    let mut writer =
        HistoryWriter::open(&place.database(), Levels::new(10 * SECOND, 30 * DAY), 1 << 30)
            .unwrap();
    let snapshot = snapshot(1, 5, 1);
    for seconds in (0..7200).step_by(10) {
        let next = Taken {
            free: Some(FREE),
            terms: Some(TERMS),
            ..taken(&snapshot, seconds, Triggers::CLOCK)
        };
        writer.append(&[next]).unwrap();
    }
    while writer.tidy(START + 7200 * SECOND).unwrap().has_more {}
    let count =
        |query: &str| writer.connection.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    let snapshots = count("SELECT count(*) FROM snapshots");
    for table in ["allocators", "terms"] {
        assert_eq!(count(&format!("SELECT count(*) FROM {table}")), snapshots, "{table}");
    }
    assert!(snapshots < 720);
    let history = History::open(&place.database()).unwrap();
    let is_whole = |moment: &Moment| moment.free == Some(FREE) && moment.terms == Some(TERMS);
    assert!(history.series(1, 0, u64::MAX).unwrap().iter().all(is_whole));
    writer.connection.execute("UPDATE terms SET files = files + 1", []).unwrap();
    assert!(history.series(1, 0, u64::MAX).unwrap().iter().all(|moment| moment.terms.is_none()));
    writer.connection.execute("UPDATE allocators SET bytes = 'x'", []).unwrap();
    assert!(matches!(history.series(1, 0, u64::MAX), Err(HistoryError::Damaged)));
}
