//! Kernels that know less, as far as a seccomp filter can play them: what madvise refuses; and children in their parent's memory.

use ramson_format::{flags, state};
use ramson_tests::{Run, Site, private_snapshot, program, sites, wait_until_ready};
use std::os::unix::fs::MetadataExt;

/// `PROGRAM WAY` where madvise knows no more than before that version of Linux; ramson is told that it may work under the filter that does so.
fn before(linux: &str, source: &str, way: &str) -> Run {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let filters = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    let filters: u32 = filters.unwrap().trim().parse().unwrap();
    let run = Run::new(program("seccomp.c"))
        .arg("exec")
        .arg(format!("before-{linux}"))
        .arg(program(source))
        .arg(way);
    run.env("RAMSON_SECCOMP", (filters + 1).to_string())
}

#[test]
fn old_kernel_file_is_fully_allocated() {
    for (asked, bytes) in [(None, 8 << 20), (Some("64M"), 64 << 20)] {
        let run = before("5.14", "exits.c", "return");
        let run = if let Some(asked) = asked { run.env("RAMSON_MAX_FILE", asked) } else { run };
        let finished = run.finish();
        finished.assert_status(7);
        let metadata = finished.profiles[0].metadata().unwrap();
        assert_eq!(metadata.len(), bytes);
        assert!(metadata.blocks() * 512 >= bytes, "{}", metadata.blocks());
        let snapshot = finished.snapshot();
        assert_eq!((&snapshot.defects[..], snapshot.header.flags & flags::PRIVATE), (&[][..], 0));
        let found = sites(&snapshot, &program("exits.c"));
        assert_eq!(found.get("site_live"), Some(&Site::exactly(11, 11, 5001)));
    }
}

#[test]
fn old_kernel_memory_profile_grows_lazily() {
    let mut run = before("5.14", "exits.c", "sleep");
    let blocked = run.directory.path().join("file");
    std::fs::write(&blocked, "not a directory").unwrap();
    run = run.env("RAMSON_DIR", blocked.join("profiles"));
    let mut child = run.spawn();
    wait_until_ready(&mut child);
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    let snapshot = private_snapshot(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!maps.contains("memfd:"), "{maps}");
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let rss_kib: u64 = rss.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(rss_kib < 8 << 10, "{rss}");
    assert_eq!(
        (&snapshot.defects[..], snapshot.header.flags & flags::PRIVATE),
        (&[][..], flags::PRIVATE)
    );
    let found = sites(&snapshot, &program("exits.c"));
    assert_eq!(found.get("site_live"), Some(&Site::exactly(11, 11, 5001)));
}

#[test]
fn memory_sharing_child_samples_for_parent() {
    let program = program("forks.c");
    let finished = Run::new(&program).arg("share").succeed();
    assert_eq!(finished.profiles.len(), 1);
    let snapshot = finished.snapshot();
    assert_eq!((&snapshot.defects[..], snapshot.header.pid), (&[][..], finished.pid));
    assert_eq!(snapshot.header.state, state::EXITED);
    let found = sites(&snapshot, &program);
    assert_eq!(found.get("site_parent"), Some(&Site::exactly(100, 40, 6001)));
    // Only the second one's: nothing was recorded yet when the first ran.
    assert_eq!(found.get("site_child"), Some(&Site::exactly(80, 70, 6002)));
}

#[test]
fn refused_wipeonfork_turns_recording_off() {
    for way in ["share", "fork"] {
        let finished = before("4.14", "forks.c", way).succeed();
        assert_eq!(finished.profiles, Vec::<std::path::PathBuf>::new(), "{way}");
    }
}
