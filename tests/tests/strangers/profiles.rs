//! Profiles that another user made to stop, fool or use root's ramson.

use ramson_format::{FILE_BYTES_RANGE, PAGE_BYTES, REGION_KINDS, RegionKind, plan};
use ramson_reader::{Defect, Snapshot};
use ramson_tests::forged::*;
use ramson_tests::servers::*;
use ramson_tests::{library, program};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The largest length of a profile.
const LENGTH: u64 = FILE_BYTES_RANGE.1;
/// More than any honest profile of these tests takes.
const MOST_ADDRESS_SPACE: &str = "--as=1000000000";
/// Seconds; quadratic time takes longer.
const MOST_TIME: &str = "--cpu=8";

/// `ramson` with bounds of what it may take.
fn bounded(scratch: &Scratch, arguments: &[&str]) -> Command {
    let unbounded = ramson(scratch);
    let mut command = clean(installed("prlimit", "util-linux"));
    command.args([MOST_ADDRESS_SPACE, MOST_TIME]).arg(unbounded.get_program()).args(arguments);
    let set = unbounded.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(set.collect::<Vec<_>>());
    command
}

/// A stranger's directory of profiles with a forged one in it, which ramson is told to look into.
fn plant(scratch: &Scratch, forged: &Forged, length: u64) -> (PathBuf, fs::File) {
    let directory = scratch.open_directory("profiles");
    let path = directory.join("4242-77.ramson");
    let file = forged.write(&path, length);
    give(&path, STRANGER);
    give(&directory, STRANGER);
    (path, file)
}

/// All regions over each other, as long as a file may be.
fn overlapping() -> Forged {
    let mut forged = Forged::new(999_999);
    for kind in REGION_KINDS {
        let most = plan(LENGTH)[kind as usize].capacity;
        let entries = (LENGTH - PAGE_BYTES) / kind.entry_bytes();
        forged.place(kind, PAGE_BYTES, entries.min(most));
    }
    forged
}

/// Every region as large as it can be, one behind the other.
fn largest() -> Forged {
    let mut forged = Forged::new(999_999);
    for (kind, place) in REGION_KINDS.into_iter().zip(plan(LENGTH)) {
        forged.place(kind, place.offset, place.capacity);
    }
    forged
}

#[track_caller]
fn assert_shown(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.status, 0, "{what}: {outcome:?}");
}

#[test]
fn overlapping_regions_are_not_read() {
    let scratch = Scratch::new();
    let (path, _) = plant(&scratch, &overlapping(), LENGTH);
    for arguments in [&["list", "-n", "0"][..], &["report", path.to_str().unwrap()]] {
        assert_shown(&finish(&mut bounded(&scratch, arguments)), arguments[0]);
    }
    let snapshot = Snapshot::read(&fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(snapshot.defects.len(), REGION_KINDS.len(), "{:?}", snapshot.defects);
    assert!(snapshot.defects.iter().all(|defect| matches!(defect, Defect::BadRegion(_))));
}

#[test]
fn holes_take_no_memory() {
    let scratch = Scratch::new();
    let (path, _) = plant(&scratch, &largest(), LENGTH);
    for arguments in [&["list", "-n", "0"][..], &["report", path.to_str().unwrap()]] {
        assert_shown(&finish(&mut bounded(&scratch, arguments)), arguments[0]);
    }
}

#[test]
fn shared_long_path_is_copied_once() {
    const PATH_BYTES: u32 = 4 << 20;
    let scratch = Scratch::new();
    let mut forged = Forged::new(999_999);
    let strings = PAGE_BYTES + (1 << 20);
    forged.place(RegionKind::Mappings, PAGE_BYTES, 1000);
    forged.place(RegionKind::Strings, strings, PATH_BYTES.into());
    // The others behind them.
    let others = REGION_KINDS
        .into_iter()
        .filter(|kind| !matches!(kind, RegionKind::Mappings | RegionKind::Strings));
    others.for_each(|kind| forged.place(kind, strings + (8 << 20), 0));
    let (path, file) = plant(&scratch, &forged, 16 << 20);
    let entries: Vec<u8> = (0..1000).flat_map(|at| forged_mapping(at << 12, PATH_BYTES)).collect();
    file.write_all_at(&entries, PAGE_BYTES).unwrap();
    file.write_all_at(&vec![b'x'; PATH_BYTES as usize], strings).unwrap();
    let outcome = finish(&mut bounded(&scratch, &["report", path.to_str().unwrap()]));
    assert_shown(&outcome, "report");
}

#[test]
fn many_mappings_take_linear_time() {
    let scratch = Scratch::new();
    let mut forged = Forged::new(999_999);
    const COUNT: u64 = 240_000;
    forged.place(RegionKind::Mappings, 64 << 10, COUNT);
    let (path, file) = plant(&scratch, &forged, 64 << 20);
    let entries: Vec<u8> = (0..COUNT).flat_map(|at| forged_mapping(at << 12, 0)).collect();
    file.write_all_at(&entries, 64 << 10).unwrap();
    for arguments in [&["list", "-n", "0"][..], &["report", path.to_str().unwrap()]] {
        assert_shown(&finish(&mut bounded(&scratch, arguments)), arguments[0]);
    }
}

#[test]
fn sparse_profile_reads_like_its_bytes() {
    let run = ramson_tests::Run::new(program("stacks.c")).arg("stacks").arg("5").succeed();
    let path = &run.profiles[0];
    let bytes = fs::read(path).unwrap();
    assert!(fs::metadata(path).unwrap().blocks() * 512 < bytes.len() as u64 / 2);
    let (sparse, whole) = (ramson_tests::read(path), ramson_tests::read_bytes(&bytes));
    assert_eq!(sparse.unwrap(), whole.unwrap());
}

/// Starts `forges` as a stranger.
fn forge(scratch: &Scratch, forged: &Forged, bytes: u64) -> Running {
    let header = scratch.file("header", &forged.0);
    let log = scratch.path("forges");
    let user = format!("--reuid={STRANGER}");
    let mut command = clean(installed("setpriv", "util-linux"));
    command.args([&user, "--clear-groups", "--"]).arg(stranger_s(scratch, &program("forges.c")));
    command.arg(header).arg(stranger_s(scratch, library())).arg(bytes.to_string());
    Running::start(&mut command, &log, || {
        fs::read_to_string(&log).is_ok_and(|said| said.contains("ready"))
    })
}

/// A copy where every user can read it.
fn stranger_s(scratch: &Scratch, file: &Path) -> PathBuf {
    let copied = scratch.open_directory("bin").join(file.file_name().unwrap());
    copy(file, &copied);
    copied
}

#[test]
fn untouched_reserved_memory_is_not_read() {
    let scratch = Scratch::new();
    let forger = forge(&scratch, &largest(), LENGTH);
    let pid = forger.0.id().to_string();
    for arguments in [&["list", "-n", "0"][..], &["report", &pid], &["explain", &pid]] {
        let outcome = finish(&mut bounded(&scratch, arguments));
        assert!([0, 5].contains(&outcome.status), "{arguments:?}: {outcome:?}");
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = rss.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 16 << 10, "to look at it has made it grow to {kib} KiB");
}
