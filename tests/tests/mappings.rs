//! What the program maps itself is counted exactly, apart from the heap, at its caller, and answers as it would without us.

use ramson_format::{Health, Kind};
use ramson_reader::{Snapshot, Stack};
use ramson_tests::{Finished, Run, Site, health, program, shared_library};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

fn run(part: &str) -> (Run, PathBuf) {
    let program = program("mappings.c");
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

/// Sites whose mappings are all large: the same at every interval.
fn large_sites() -> Vec<(&'static str, Site)> {
    vec![
        ("site_constructor", site([1, 7 * MIB], [0, 0], [1, 7 * MIB])),
        ("site_shared", site([1, 2 * MIB], [0, 0], [1, 2 * MIB])),
        ("site_commit", site([1, 3 * MIB], [0, 0], [1, 3 * MIB])),
        ("site_head", site([1, 4 * MIB], [0, MIB], [1, 3 * MIB])),
        ("site_tail", site([1, 4 * MIB], [0, 3 * MIB], [1, MIB])),
        ("site_hole", site([1, 8 * MIB], [0, 2 * MIB], [3, 6 * MIB])),
        ("site_several", site([3, 12 * MIB], [1, 6 * MIB], [2, 6 * MIB])),
        ("site_under", site([1, 4 * MIB], [0, MIB], [2, 3 * MIB])),
        ("site_fails", site([1, 2 * MIB], [0, 0], [1, 2 * MIB])),
        ("site_grow", site([2, 8 * MIB], [1, 2 * MIB], [1, 6 * MIB])),
        ("site_shrink", site([1, 6 * MIB], [0, 4 * MIB], [1, 2 * MIB])),
        ("site_same", site([1, 5 * MIB], [0, 0], [1, 5 * MIB])),
        ("site_move", site([2, 7 * MIB], [1, 4 * MIB], [1, 3 * MIB])),
        ("site_move_shrunk", site([1, 4 * MIB], [0, 3 * MIB], [1, MIB])),
        ("site_blocked", site([1, 4 * MIB], [0, 0], [1, 4 * MIB])),
        ("site_dontunmap", site([2, 4 * MIB], [0, 0], [2, 4 * MIB])),
    ]
}

/// Sites with small mappings: exact where everything is recorded.
fn small_sites() -> Vec<(&'static str, Site)> {
    vec![
        ("site_private", site([2, 6 * PAGE], [1, 3 * PAGE], [1, 3 * PAGE])),
        ("site_odd_length", site([2, 4 * PAGE], [1, 2 * PAGE], [1, 2 * PAGE])),
        ("site_grow_small", site([2, PAGE + 3 * MIB], [1, PAGE], [1, 3 * MIB])),
        ("site_errno", site([998, 499 * 6 * PAGE], [998, 499 * 6 * PAGE], [0, 0])),
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
    for absent in ["site_file", "site_grow_file", "site_reservation"] {
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
fn every_corner_is_counted_exactly_where_everything_is_recorded() {
    let (run, program) = run("corners");
    let finished = run.succeed();
    assert_sites(&finished, &program, &[large_sites(), small_sites()].concat());
    let snapshot = finished.snapshot();
    assert_eq!(reserved(&snapshot), RESERVED);
    assert_eq!(health(&snapshot, Health::Healed), 0, "an unmapping was missed");
    let shared: Vec<u64> = snapshot
        .extents
        .iter()
        .filter(|extent| extent.is_shared)
        .map(|extent| extent.bytes)
        .collect();
    assert_eq!(shared, [2 * MIB]);
}

#[test]
fn the_program_itself_sees_no_difference_without_the_library() {
    let (run, _) = run("corners");
    run.without("LD_PRELOAD").succeed();
}

#[test]
fn large_mappings_are_counted_exactly_at_every_interval() {
    for interval in ["512K", "1G"] {
        let (run, program) = run("corners");
        let finished = run.env("RAMSON_INTERVAL", interval).succeed();
        assert_sites(&finished, &program, &large_sites());
        assert_eq!(reserved(&finished.snapshot()), RESERVED);
    }
}

#[test]
fn what_an_allocator_maps_for_itself_is_not_counted_again() {
    for (allocator, library) in [
        ("libjemalloc.so.2", "/libjemalloc"),
        ("libtcmalloc.so.4", "/libtcmalloc"),
        ("libmimalloc.so.2", "/libmimalloc"),
    ] {
        for interval in ["1", "512K"] {
            let (run, program) = run("corners");
            let run = run.over(&shared_library(allocator)).env("RAMSON_INTERVAL", interval);
            let finished = run.succeed();
            assert_sites(&finished, &program, &large_sites());
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
fn a_hole_that_the_kernel_refuses_is_none() {
    let (run, program) = run("refused");
    let finished = run.env("RAMSON_INTERVAL", "1024T").succeed();
    let snapshot = finished.snapshot();
    let found = &sites(&snapshot, &program)["site_refused"];
    assert_eq!((found.alloc_bytes, found.freed_bytes, found.live_bytes), (16 * MIB, 0, 16 * MIB));
}

#[test]
fn more_mappings_than_the_table_holds_are_counted_as_dropped() {
    let (run, _) = run("refused");
    let finished = run.env("RAMSON_MAX_FILE", "2M").succeed();
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.defects, []);
    let dropped = health(&snapshot, Health::DroppedExtents);
    let recorded = health(&snapshot, Health::Extents);
    // The first extent was put back in parts when the hole was refused.
    assert!(dropped > 10_000 && recorded > dropped, "{dropped} of {recorded}");
    assert!(recorded - dropped <= snapshot.extents.len() as u64 + 2);
}

#[test]
fn mappings_in_a_signal_handler_leave_the_profile_exact() {
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
fn what_a_vforked_child_unmaps_is_gone_for_its_parent_too() {
    let (run, program) = run("vfork");
    let found = sites(&run.succeed().snapshot(), &program)["site_vfork"].clone();
    assert_eq!(found, site([1, 4 * MIB], [0, MIB], [1, 3 * MIB]));
}

#[test]
fn a_forked_child_has_its_own_mappings_and_the_parent_s_stay() {
    let (run, program) = run("fork");
    let finished = run.succeed();
    let parent = sites(&finished.snapshot(), &program)["site_fork"].clone();
    assert_eq!(parent, site([1, 4 * MIB], [0, 0], [1, 4 * MIB]));
    let child = finished.snapshot_of(finished.number("child ") as u32);
    let child = sites(&child, &program);
    assert_eq!(child.get("site_child"), Some(&site([1, 3 * MIB], [0, 0], [1, 3 * MIB])));
    assert_eq!(child.get("site_fork"), None);
}

#[test]
fn threads_that_map_and_unmap_at_the_same_addresses_are_counted_exactly() {
    let (run, program) = run("threads");
    let finished = run.succeed();
    let found = sites(&finished.snapshot(), &program)["site_threads"].clone();
    assert_eq!(found, site([8 * 3001, 8 * 3001 * MIB], [8 * 3000, 8 * 3000 * MIB], [8, 8 * MIB]));
    assert_eq!(health(&finished.snapshot(), Health::Healed), 0, "an unmapping was missed");
}

#[test]
fn threads_that_cut_holes_into_one_mapping_lose_none_of_its_parts() {
    let (run, program) = run("common");
    let finished = run.succeed();
    let found = sites(&finished.snapshot(), &program)["site_common"].clone();
    let holes = 512 * 129 * PAGE;
    assert_eq!(found, site([1, 512 * MIB], [0, holes], [2 * 512 + 1, 512 * MIB - holes]));
}

#[test]
fn a_killed_program_leaves_its_mappings() {
    let (run, program) = run("killed");
    let finished = run.finish();
    finished.assert_killed_by(9);
    assert_sites(&finished, &program, &[large_sites(), small_sites()].concat());
}

/// As in `estimates.rs`: bounds that a correct library breaks less than once in 5,000 times.
#[test]
fn estimates_of_small_mappings_are_the_truth_within_four_standard_errors() {
    const RUNS: usize = 30;
    let mut errors = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        let (run, _) = run("small");
        let finished = run.env("RAMSON_INTERVAL", "2M").succeed();
        let snapshot = finished.snapshot();
        let live = snapshot.extents.iter().filter(|extent| extent.bytes < MIB);
        let live: f64 = live.map(|extent| extent.bytes as f64 * extent.inverse_probability).sum();
        let stacks = snapshot.stacks.iter().filter(|stack| stack.kind() == Kind::Mmap);
        // Without the constructor's.
        let mapped = stacks.map(|stack| stack.alloc_space).sum::<f64>() - (7 * MIB) as f64;
        for (errors, (value, truth)) in errors
            .iter_mut()
            .zip([(live, finished.number("live ")), (mapped, finished.number("mapped "))])
        {
            errors.push(value / truth as f64 - 1.0);
        }
    }
    for errors in errors {
        let mean = errors.iter().sum::<f64>() / RUNS as f64;
        let spread = errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>();
        let standard_error = (spread / (RUNS - 1) as f64 / RUNS as f64).sqrt();
        assert!(standard_error < 0.01, "{standard_error} says nothing");
        assert!(mean.abs() <= 4.0 * standard_error, "{mean}, standard error {standard_error}");
    }
}
