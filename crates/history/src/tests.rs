//! A history as a whole: what is written is read again, old and excess snapshots go, and a writer that failed goes on.

use crate::levels::Levels;
use crate::query::{History, between};
use crate::schema::{HistoryError, VERSION};
use crate::state::{Block, State};
use crate::trigger::Triggers;
use crate::writer::{HistoryWriter, Taken};
use ramson_format::live_flags::EXTENT;
use ramson_format::{HEALTH, Kind};
use ramson_profile::sampling_probability;
use ramson_reader::{Extent, Header, LiveSample, LookupAddress, Mapping, Snapshot, Stack};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

mod foreign;
mod golden;
mod images;
mod parts;
mod strangers;
mod thinning;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
const START: u64 = 1_700_000_000 * SECOND;
const INTERVAL: u64 = 512 << 10;
const SIZE: u64 = 64 << 10;

/// A directory of one test, removed when dropped.
struct Place(TempDir);

impl Place {
    fn new(name: &str) -> Self {
        Self(TempDir::with_prefix(format!("ramson-history-{name}-")).unwrap())
    }

    fn database(&self) -> PathBuf {
        self.0.path().join("history.db")
    }

    fn writer(&self) -> HistoryWriter {
        HistoryWriter::open(&self.database(), Levels::new(10 * SECOND, 30 * DAY), 1 << 30).unwrap()
    }
}

fn plugin_of(pid: u32) -> u64 {
    0x7f00_0000_0000 + (u64::from(pid) << 20)
}

fn stacks_and_live(pid: u32, stacks: usize, seconds: u64) -> (Vec<Stack>, Vec<LiveSample>) {
    let weight = 1.0 / sampling_probability(SIZE, INTERVAL);
    let plugin = plugin_of(pid);
    let mut list = [Kind::Heap, Kind::Mmap].map(Stack::overflow).to_vec();
    let mut live = Vec::new();
    for number in 0..stacks as u64 {
        let per_sample = weight * (weight - 1.0);
        list.push(Stack {
            // The last frame is of no binary.
            frames: [0x40_0000 + number * 16, plugin + 64, 0xdead_0000].map(LookupAddress).to_vec(),
            epoch: 1,
            sampled_alloc_objects: seconds,
            sampled_alloc_bytes: seconds * SIZE,
            alloc_objects: seconds as f64 * weight,
            alloc_space: seconds as f64 * weight * SIZE as f64,
            alloc_objects_variance: seconds as f64 * per_sample,
            alloc_space_variance: seconds as f64 * per_sample * (SIZE * SIZE) as f64,
            first_monotonic_ns: 5 * SECOND,
            ..Stack::default()
        });
        live.extend((0..seconds).map(|second| LiveSample {
            address: 0x1000_0000 + (number << 32) + second * SIZE,
            size: SIZE,
            inverse_probability: f64::from(weight as f32),
            monotonic_ns: 5 * SECOND + second * SECOND + number,
            stack: number as usize + 2,
            tid: pid,
            ..LiveSample::default()
        }));
    }
    live.sort_by_key(|live| (live.monotonic_ns, live.address));
    (list, live)
}

/// A process whose every stack allocates one sample per second, and frees none.
fn snapshot(pid: u32, stacks: usize, seconds: u64) -> Snapshot {
    let (stacks, live) = stacks_and_live(pid, stacks, seconds);
    let mapping = |start, path: &str, epochs| Mapping {
        start,
        end: start + (1 << 20),
        file_offset: 0x1000,
        bias: start - 0x1000,
        epochs,
        path: path.into(),
        build_id: vec![7; 20],
    };
    let plugin = plugin_of(pid);
    let extent = Extent {
        start: 0x7000_0000_0000,
        bytes: 1 << 20,
        monotonic_ns: 3,
        stack: 1,
        tid: pid,
        is_reserved: true,
        is_shared: false,
    };
    Snapshot {
        header: Header {
            state: 1,
            pid,
            interval_bytes: INTERVAL,
            configured_interval_bytes: INTERVAL,
            start_realtime_ns: START,
            process_start_ticks: 11,
            run_id: u64::MAX - 1,
            exit_status: -1,
            comm: "server".into(),
            exe: "/usr/bin/server".into(),
            command: vec!["server".into(), "--port".into()],
            health: (0..HEALTH.len() as u64).map(|index| index * seconds).collect(),
            ..Header::default()
        },
        mappings: vec![
            mapping(0x40_0000, "/usr/bin/server", 0..u32::MAX),
            mapping(plugin, "/usr/lib/old.so", 0..1),
            mapping(plugin, "/usr/lib/plugin.so", 1..u32::MAX),
        ],
        stacks,
        live,
        extents: vec![extent],
        ..Snapshot::default()
    }
}

fn taken(snapshot: &Snapshot, seconds: u64, triggers: Triggers) -> Taken<'_> {
    Taken {
        snapshot,
        name: "server",
        time_ns: START + seconds * SECOND,
        monotonic_ns: seconds * SECOND,
        rss: Some(1 << 30),
        free: None,
        terms: None,
        triggers,
    }
}

fn record(writer: &mut HistoryWriter, pid: u32, seconds: u64, triggers: Triggers) {
    let snapshot = snapshot(pid, 5, seconds / 100 + 1);
    writer.append(&[taken(&snapshot, seconds, triggers)]).unwrap();
}

/// Every number that a reader may look at, apart from those that are kept in steps or derived.
fn comparable(snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for stack in &mut snapshot.stacks {
        for value in [&mut stack.alloc_objects, &mut stack.alloc_space] {
            *value = (*value * 1e-3).round();
        }
        [stack.alloc_objects_variance, stack.alloc_space_variance] = [0.0; 2];
        [stack.freed_objects, stack.freed_space] = [0.0; 2];
        [stack.sampled_freed_objects, stack.sampled_freed_bytes] = [0; 2];
    }
    snapshot.header.last_monotonic_ns = 0;
    snapshot
}

#[test]
fn stack_numbers_survive_reordering() {
    let place = Place::new("order");
    let mut writer = place.writer();
    record(&mut writer, 7, 10, Triggers::START);
    let in_order = snapshot(7, 8, 2);
    let mut mixed = in_order.clone();
    mixed.stacks[2..].reverse();
    let last = mixed.stacks.len() + 1;
    mixed.live.iter_mut().for_each(|live| live.stack = last - live.stack);
    writer.append(&[taken(&mixed, 20, Triggers::CLOCK)]).unwrap();
    let history = History::open(&place.database()).unwrap();
    let moment = history.at(1, START + 20 * SECOND).unwrap().unwrap();
    let kept = history.snapshot(1, &moment).unwrap();
    assert_eq!(frames_by_address(&kept), frames_by_address(&in_order));
}

fn frames_by_address(snapshot: &Snapshot) -> BTreeMap<u64, &[LookupAddress]> {
    let frames = |live: &LiveSample| &*snapshot.stacks[live.stack].frames;
    snapshot.live.iter().map(|live| (live.address, frames(live))).collect()
}

#[test]
fn snapshots_of_any_moment_are_restored() {
    let place = Place::new("back");
    let mut writer = place.writer();
    for round in 1..=200 {
        let snapshots = [1, 2].map(|pid| snapshot(pid, 3 + round as usize / 20, round));
        let both = snapshots.each_ref().map(|snapshot| taken(snapshot, round, Triggers::CLOCK));
        writer.append(&both).unwrap();
        if round == 120 {
            // As after a restart.
            writer = place.writer();
        }
    }
    let history = History::open(&place.database()).unwrap();
    let processes = history.processes().unwrap();
    assert_eq!(processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [1, 2]);
    for (process, seconds) in [(&processes[0], 57), (&processes[1], 1), (&processes[1], 200)] {
        let moment = history.at(process.id, START + seconds * SECOND).unwrap().unwrap();
        let expected = snapshot(process.pid, 3 + seconds as usize / 20, seconds);
        let read = history.snapshot(process.id, &moment).unwrap();
        assert_eq!(comparable(&read), comparable(&expected));
        assert_eq!(read.header.last_monotonic_ns, seconds * SECOND);
        assert_eq!(read.stacks[2].freed_space, 0.0);
        assert_eq!(process.start_unix_ns, expected.header.start_realtime_ns);
    }
    assert_eq!(history.series(processes[0].id, 0, u64::MAX).unwrap().len(), 200);
    assert_eq!(history.at(processes[0].id, START).unwrap(), None);
}

#[test]
fn range_subtracts_allocations() {
    let place = Place::new("range");
    let mut writer = place.writer();
    for second in 1..=60 {
        let snapshot = snapshot(1, 5, second);
        writer.append(&[taken(&snapshot, second, Triggers::CLOCK)]).unwrap();
    }
    let history = History::open(&place.database()).unwrap();
    let of = |second: u64| {
        let moment = history.at(1, START + second * SECOND).unwrap().unwrap();
        history.snapshot(1, &moment).unwrap()
    };
    let range = between(&of(20), of(50));
    let expected = snapshot(1, 5, 30);
    let later = snapshot(1, 5, 50);
    assert_eq!(range.live.len(), later.live.len());
    for (range, expected) in range.stacks.iter().zip(&expected.stacks) {
        assert_eq!(range.sampled_alloc_objects, expected.sampled_alloc_objects);
        assert!((range.alloc_space - expected.alloc_space).abs() <= INTERVAL as f64 / 32.0);
    }
}

#[test]
fn foreign_files_are_refused_by_name() {
    let place = Place::new("refused");
    fs::write(place.database(), "not a database at all, but long enough to be looked at").unwrap();
    assert!(matches!(History::open(&place.database()), Err(HistoryError::NotAHistory)));
    fs::remove_file(place.database()).unwrap();
    let other = rusqlite::Connection::open(place.database()).unwrap();
    other.execute_batch("CREATE TABLE a (b)").unwrap();
    assert!(matches!(History::open(&place.database()), Err(HistoryError::NotAHistory)));
    let levels = Levels::new(SECOND, DAY);
    let refused = HistoryWriter::open(&place.database(), levels.clone(), 1 << 20);
    assert!(matches!(refused.err(), Some(HistoryError::NotAHistory)));
    fs::remove_file(place.database()).unwrap();
    drop(place.writer());
    let newer = rusqlite::Connection::open(place.database()).unwrap();
    newer.pragma_update(None, "user_version", VERSION + 1).unwrap();
    assert!(matches!(History::open(&place.database()), Err(HistoryError::Version(9))));
    let refused = HistoryWriter::open(&place.database(), levels, 1 << 20);
    assert!(matches!(refused.err(), Some(HistoryError::Version(9))));
}

/// Writes rounds as fast as it can, and says the time of each when it is kept, until it is killed.
fn write_until_killed(path: &Path) {
    let mut writer =
        HistoryWriter::open(path, Levels::new(10 * SECOND, 30 * DAY), 1 << 30).unwrap();
    for round in 1.. {
        let snapshots = [1, 2].map(|pid| snapshot(pid, 3 + round as usize % 40, round % 50));
        let both =
            snapshots.each_ref().map(|snapshot| taken(snapshot, round * 10, Triggers::CLOCK));
        writer.append(&both).unwrap();
        println!("kept {}", round * 10);
    }
}

const WRITER: &str = "RAMSON_HISTORY_TEST_WRITER";

#[test]
fn killed_writer_loses_nothing_kept() {
    if let Some(path) = std::env::var_os(WRITER) {
        return write_until_killed(Path::new(&path));
    }
    for round in 0..8 {
        let place = Place::new(&format!("killed-{round}"));
        let name = "tests::killed_writer_loses_nothing_kept";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(WRITER, place.database())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let kept = lines.filter_map(|line| line.unwrap().rsplit_once("kept ")?.1.parse().ok());
        let kept: Vec<u64> = kept.take(3 + 7 * round).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        let history = History::open(&place.database()).unwrap();
        for pid in [1, 2] {
            let series = history.series(pid, 0, u64::MAX).unwrap();
            let times: Vec<u64> =
                series.iter().map(|moment| (moment.time_ns - START) / SECOND).collect();
            assert_eq!(times[..kept.len()], kept);
            for moment in &series {
                history.snapshot(pid, moment).unwrap();
            }
        }
        let check = rusqlite::Connection::open(place.database()).unwrap();
        let verdict: String =
            check.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
    }
}

#[test]
fn concurrent_readers_see_whole_moments() {
    let place = Place::new("readers");
    let mut writer = place.writer();
    record(&mut writer, 1, 10, Triggers::START);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers = [0, 1, 2].map(|_| {
            scope.spawn(|| {
                let history = History::open(&place.database()).unwrap();
                let mut read = 0;
                while read == 0 || !is_over.load(Ordering::Relaxed) {
                    let last = history.at(1, u64::MAX).unwrap().unwrap();
                    match history.snapshot(1, &last) {
                        Ok(snapshot) => {
                            let seconds = (last.time_ns - START) / SECOND;
                            assert_eq!(snapshot.live.len() as u64, 5 * (seconds / 100 + 1));
                            read += 1;
                        }
                        // It was removed between the two questions.
                        Err(error) => assert!(matches!(error, HistoryError::Damaged), "{error}"),
                    }
                }
                read
            })
        });
        for round in 2..300 {
            record(&mut writer, 1, round * 10, Triggers::CLOCK);
            writer.tidy(START + round * 10 * SECOND).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}

/// As ramson kept them up to version 2 of the profile.
#[test]
fn old_histories_restore_extents() {
    let block = |key, inverse_probability, flags| Block {
        key,
        size: 1 << 20,
        stack: 1,
        inverse_probability,
        flags,
        ..Block::default()
    };
    let blocks = vec![block(1 << 20, 1.0, EXTENT), block(2 << 20, 8.0, EXTENT), block(64, 8.0, 0)];
    let counters = vec![Default::default(); 2];
    let state = State { blocks, counters, ..State::default() };
    let (_, live, extents) = state.restore(vec![Stack::default(); 2]);
    assert_eq!(extents.iter().map(|extent| extent.start).collect::<Vec<_>>(), [1 << 20]);
    assert_eq!(live.iter().map(|live| live.address).collect::<Vec<_>>(), [64]);
}
