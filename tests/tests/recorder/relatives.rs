//! Families of processes: each has a profile of its own, and everybody's totals are exact.

use ramson_format::{Health, state};
use ramson_reader::Snapshot;
use ramson_tests::{Finished, Run, Site, health, program, sites};

/// Runs the way, checks the parent's profile, and returns the process ids of its relatives.
fn relatives(way: &str) -> (Finished, Vec<u32>) {
    let finished = Run::new(program("relatives.c")).arg(way).succeed();
    let snapshot = finished.snapshot();
    assert_is_whole(&snapshot);
    assert_site(&snapshot, "site_parent", Some(Site::exactly(100, 40, 6001)));
    let lines = finished.stdout.lines().filter_map(|line| line.strip_prefix("relative "));
    let ids = lines.map(|id| id.parse().unwrap()).collect();
    (finished, ids)
}

#[track_caller]
fn assert_is_whole(snapshot: &Snapshot) {
    assert_eq!(snapshot.defects, []);
    assert_eq!(snapshot.header.state, state::EXITED);
    assert_eq!(health(snapshot, Health::Healed), 0);
}

#[track_caller]
fn assert_site(snapshot: &Snapshot, name: &str, expected: Option<Site>) {
    let found = sites(snapshot, &program("relatives.c"));
    assert_eq!(found.get(name), expected.as_ref(), "{name} in {found:#?}");
}

/// Each relative's profile has its own truth and nothing of the parent's, and the other way round.
#[track_caller]
fn assert_apart(way: &str, count: usize) {
    let (finished, ids) = relatives(way);
    assert_eq!(ids.len(), count);
    assert_eq!(finished.profiles.len(), count + 1);
    assert_site(&finished.snapshot(), "site_relative", None);
    for id in ids {
        let snapshot = finished.snapshot_of(id);
        assert_is_whole(&snapshot);
        assert_site(&snapshot, "site_relative", Some(Site::exactly(80, 70, 6002)));
        assert_site(&snapshot, "site_parent", None);
    }
}

#[test]
fn generations_forked_by_threads_counted_apart() {
    assert_apart("generations", 5);
}

#[test]
fn orphaned_daemon_is_counted_apart() {
    assert_apart("daemon", 1);
}

#[test]
fn child_of_failed_exec_counts_apart() {
    assert_apart("failed-exec", 1);
}

#[test]
fn fexecve_child_is_counted_apart() {
    assert_apart("fexecve", 1);
}

#[test]
fn memory_sharing_process_counts_for_parent() {
    let (finished, ids) = relatives("shared");
    assert_eq!((ids.len(), finished.profiles.len()), (1, 1));
    assert_site(&finished.snapshot(), "site_relative", Some(Site::exactly(80, 70, 6002)));
}
