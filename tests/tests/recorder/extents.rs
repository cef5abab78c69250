//! Mappings that the program makes itself, from 1 MiB on, are counted exactly at every interval, apart from the heap, at their caller. The
//! calls answer as they would without ramson.

use ramson_format::{Health, Kind};
use ramson_reader::{Snapshot, Stack};
use ramson_tests::{Finished, Run, Site, health, program, shared_library};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
/// Bytes that a mapping of 1 MiB and 5,000 bytes takes.
const ODD: u64 = MIB + 8192;

fn run(part: &str) -> (Run, PathBuf) {
    let program = program("extents.c");
    (Run::new(&program).arg(part), program)
}

/// The counts of each site without what the C library took from the heap below it.
fn sites(snapshot: &Snapshot, program: &Path) -> BTreeMap<String, Site> {
    let mut snapshot = snapshot.clone();
    snapshot.live.clear();
    for stack in snapshot.stacks.iter_mut().filter(|stack| stack.kind() == Kind::Heap) {
        *stack = Stack::overflow(Kind::Heap);
    }
    ramson_tests::sites(&snapshot, program)
}

/// Mappings and bytes mapped, extents that went altogether and bytes unmapped, live extents and bytes.
fn site(alloc: [u64; 2], freed: [u64; 2], live: [u64; 2]) -> Site {
    Site {
        alloc_objects: alloc[0],
        alloc_bytes: alloc[1],
        freed_objects: freed[0],
        freed_bytes: freed[1],
        live_objects: live[0],
        live_bytes: live[1],
        weighted_alloc_objects: alloc[0] as f64,
        weighted_alloc_space: alloc[1] as f64,
    }
}

/// Expected counts of all corner cases. A hole is for the reader to find.
fn corner_sites() -> Vec<(&'static str, Site)> {
    vec![
        ("site_constructor", site([1, 7 * MIB], [0, 0], [1, 7 * MIB])),
        ("site_shared", site([1, 2 * MIB], [0, 0], [1, 2 * MIB])),
        ("site_commit", site([1, 3 * MIB], [0, 0], [1, 3 * MIB])),
        ("site_head", site([1, 4 * MIB], [0, MIB], [1, 3 * MIB])),
        ("site_tail", site([1, 4 * MIB], [0, 3 * MIB], [1, MIB])),
        ("site_hole", site([1, 16 * MIB], [0, 0], [1, 16 * MIB])),
        ("site_odd_length", site([2, 2 * ODD], [1, ODD], [1, ODD])),
        ("site_several", site([3, 12 * MIB], [2, 8 * MIB], [1, 4 * MIB])),
        ("site_under", site([1, 4 * MIB], [0, MIB], [1, 3 * MIB])),
        ("site_fails", site([1, 2 * MIB], [0, 0], [1, 2 * MIB])),
        ("site_grow", site([2, 8 * MIB], [1, 2 * MIB], [1, 6 * MIB])),
        ("site_shrink", site([1, 6 * MIB], [0, 4 * MIB], [1, 2 * MIB])),
        ("site_same", site([1, 5 * MIB], [0, 0], [1, 5 * MIB])),
        ("site_move", site([3, 10 * MIB], [2, 7 * MIB], [1, 3 * MIB])),
        ("site_move_shrunk", site([2, 5 * MIB], [1, 4 * MIB], [1, MIB])),
        ("site_blocked", site([1, 4 * MIB], [0, 0], [1, 4 * MIB])),
        ("site_dontunmap", site([2, 4 * MIB], [0, 0], [2, 4 * MIB])),
        ("site_errno", site([998, 499 * 3 * MIB], [998, 499 * 3 * MIB], [0, 0])),
    ]
}

#[track_caller]
fn assert_sites(finished: &Finished, program: &Path, expected: &[(&str, Site)]) {
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.defects, []);
    assert_eq!(health(&snapshot, Health::DroppedExtents), 0);
    let found = sites(&snapshot, program);
    for (name, expected) in expected {
        assert_eq!(found.get(*name), Some(expected), "{name}");
    }
    for absent in ["site_file", "site_grow_file", "site_grow_small", "site_reservation"] {
        let found = found.get(absent).cloned().unwrap_or_default();
        assert_eq!(found, Site::default(), "{absent}");
    }
}

/// Bytes that are reserved and not counted: of `site_reservation`, `site_commit`, `site_several` and `site_blocked`.
const RESERVED: u64 = (3 << 40) + (1 << 30) - 3 * MIB + 4 * MIB;

fn reserved(snapshot: &Snapshot) -> u64 {
    snapshot.extents.iter().filter(|extent| extent.is_reserved).map(|extent| extent.bytes).sum()
}

#[test]
fn every_interval_counts_corners_exactly() {
    for interval in ["1", "512K", "1G"] {
        let (run, program) = run("corners");
        let finished = run.env("RAMSON_INTERVAL", interval).succeed();
        assert_sites(&finished, &program, &corner_sites());
        let snapshot = finished.snapshot();
        assert_eq!(reserved(&snapshot), RESERVED);
        assert_eq!(health(&snapshot, Health::Healed), 0, "an unmapping was missed");
        let shared = snapshot.extents.iter().filter(|extent| extent.is_shared);
        assert_eq!(shared.map(|extent| extent.bytes).collect::<Vec<_>>(), [2 * MIB]);
    }
}

#[test]
fn extents_program_passes_without_library() {
    let (run, _) = run("corners");
    run.without("LD_PRELOAD").succeed();
}

#[test]
fn allocator_mappings_are_not_counted_twice() {
    for (allocator, library) in [
        ("libjemalloc.so.2", "/libjemalloc"),
        ("libtcmalloc.so.4", "/libtcmalloc"),
        ("libmimalloc.so.2", "/libmimalloc"),
    ] {
        for interval in ["1", "512K"] {
            let (run, program) = run("corners");
            let run = run.over(&shared_library(allocator)).env("RAMSON_INTERVAL", interval);
            let finished = run.succeed();
            assert_sites(&finished, &program, &corner_sites());
            let snapshot = finished.snapshot();
            for extent in &snapshot.extents {
                let caller = caller(&snapshot, extent.stack);
                assert!(!caller.contains(library), "{caller}: {extent:?}");
            }
        }
    }
}

/// Path of the object that made the call.
fn caller(snapshot: &Snapshot, stack: usize) -> &str {
    let stack = &snapshot.stacks[stack];
    let leaf = stack.frames.first().and_then(|&leaf| snapshot.mapping_at(leaf, stack.epoch));
    leaf.map_or("", |leaf| &snapshot.mappings[leaf].path)
}

#[test]
fn refused_unmap_keeps_the_extent() {
    let (run, program) = run("refused");
    let finished = run.env("RAMSON_INTERVAL", "1024T").succeed();
    let found = &sites(&finished.snapshot(), &program)["site_refused"];
    assert_eq!((found.alloc_bytes, found.freed_bytes, found.live_bytes), (32 * MIB, 0, 32 * MIB));
}

#[test]
fn full_extent_table_counts_drops() {
    let (run, program) = run("many");
    let finished = run.env("RAMSON_MAX_FILE", "2M").succeed();
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.defects, []);
    let dropped = health(&snapshot, Health::DroppedExtents);
    let recorded = health(&snapshot, Health::Extents);
    assert!(dropped > 1000 && recorded > dropped, "{dropped} of {recorded}");
    assert_eq!(recorded - dropped, snapshot.extents.len() as u64);
    let found = &sites(&snapshot, &program)["site_many"];
    assert_eq!((found.alloc_objects, found.freed_objects), (4000, 0));
}

#[test]
fn signal_handler_extents_stay_exact() {
    let (run, program) = run("interrupted");
    let finished = run.succeed();
    let found = sites(&finished.snapshot(), &program);
    let interrupted = &found["site_interrupted"];
    assert_eq!((interrupted.live_objects, interrupted.live_bytes), (1, MIB), "{interrupted:?}");
    assert_eq!(interrupted.alloc_bytes - interrupted.freed_bytes, MIB);
    let handler = &found["site_handler"];
    assert!(handler.alloc_objects >= 100);
    assert_eq!((handler.alloc_bytes - handler.freed_bytes, handler.live_objects), (0, 0));
}

#[test]
fn vforked_child_unmaps_for_its_parent() {
    let (run, program) = run("vfork");
    let found = sites(&run.succeed().snapshot(), &program)["site_vfork"].clone();
    assert_eq!(found, site([1, 4 * MIB], [0, MIB], [1, 3 * MIB]));
}

#[test]
fn forked_child_has_its_own_extents() {
    let (run, program) = run("fork");
    let finished = run.succeed();
    let parent = sites(&finished.snapshot(), &program)["site_fork"].clone();
    assert_eq!(parent, site([1, 4 * MIB], [0, 0], [1, 4 * MIB]));
    let child = finished.snapshot_of(finished.number("child ") as u32);
    let child = sites(&child, &program);
    assert_eq!(child.get("site_child"), Some(&site([1, 36 * MIB], [0, 0], [1, 36 * MIB])));
    assert_eq!(child.get("site_fork"), None);
}

#[test]
fn threads_reusing_addresses_are_counted_exactly() {
    let (run, program) = run("threads");
    let finished = run.succeed();
    let found = sites(&finished.snapshot(), &program)["site_threads"].clone();
    assert_eq!(found, site([8 * 3001, 8 * 3001 * MIB], [8 * 3000, 8 * 3000 * MIB], [8, 8 * MIB]));
    assert_eq!(health(&finished.snapshot(), Health::Healed), 0, "an unmapping was missed");
}

#[test]
fn a_killed_program_leaves_its_extents() {
    let (run, program) = run("killed");
    let finished = run.finish();
    finished.assert_killed_by(9);
    assert_sites(&finished, &program, &corner_sites());
}
