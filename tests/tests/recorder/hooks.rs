//! Every function of the family counts exactly, once, at its caller, and answers as it would without us.
//!
//! All runs record every allocation (an interval of 1), so expected numbers are exact.

use ramson_format::Health;
use ramson_tests::servers::{Scratch, clean, finish, installed};
use ramson_tests::{Finished, Run, Site, health, live_of_size, program, shared_library, sites};
use ramson_tests::{preload, target_directory};
use std::path::{Path, PathBuf};

#[track_caller]
fn assert_sites(finished: &Finished, program: &Path, expected: &[(&str, Site)]) {
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.defects, []);
    let found = sites(&snapshot, program);
    for (name, expected) in expected {
        assert_eq!(found.get(*name), Some(expected), "{name}; all sites: {found:#?}");
    }
}

#[track_caller]
fn family() -> (Finished, PathBuf) {
    let program = program("family.c");
    (Run::new(&program).succeed(), program)
}

const PAIRS: [(&str, u64); 9] = [
    ("site_malloc", 1001),
    ("site_calloc", 7 * 143),
    ("site_realloc_of_null", 1002),
    ("site_reallocarray_of_null", 3 * 335),
    ("site_posix_memalign", 1006),
    ("site_aligned_alloc", 1024),
    ("site_memalign", 1008),
    ("site_valloc", 1009),
    ("site_pvalloc", 1010),
];

#[test]
fn malloc_family_is_counted_exactly() {
    let (finished, program) = family();
    let expected = PAIRS.map(|(name, size)| (name, Site::exactly(2, 1, size)));
    assert_sites(&finished, &program, &expected);
}

#[test]
fn hook_programs_pass_without_library() {
    // The checks inside the programs hold for the plain C library too, so they are not checks of our own habits. (It has
    // no free_sized, which is the one complaint.)
    let plain = Run::new(program("family.c")).without("LD_PRELOAD").finish();
    assert!(plain.stderr.lines().all(|line| line.contains("free_sized")), "{}", plain.stderr);
    Run::new(program("operators.cc")).without("LD_PRELOAD").succeed();
}

#[test]
fn sized_frees_exist_without_libc_support() {
    let (finished, program) = family();
    assert_sites(&finished, &program, &[("site_free_sized", Site::exactly(3, 1, 1011))]);
}

#[test]
fn null_and_zero_leave_no_record() {
    let (finished, program) = family();
    let expected =
        [("site_free_null", Site::exactly(1, 1, 1012)), ("site_zero", Site::exactly(1, 1, 1013))];
    assert_sites(&finished, &program, &expected);
}

#[test]
fn realloc_is_free_and_allocation() {
    let (finished, program) = family();
    let moved = |from: u64, to: u64| Site {
        alloc_objects: 2,
        alloc_bytes: from + to,
        freed_objects: 1,
        freed_bytes: from,
        live_objects: 1,
        live_bytes: to,
        weighted_alloc_objects: 2.0,
        weighted_alloc_space: (from + to) as f64,
    };
    let expected = [
        ("site_grow", moved(2001, 200_001)),
        ("site_shrink", moved(200_002, 2002)),
        ("site_realloc_to_zero", moved(2003, 2004)),
    ];
    assert_sites(&finished, &program, &expected);
}

#[test]
fn failed_realloc_keeps_old_record() {
    let (finished, program) = family();
    assert_sites(&finished, &program, &[("site_realloc_fails", Site::exactly(1, 1, 2005))]);
}

#[test]
fn failed_allocation_leaves_no_record() {
    let (finished, program) = family();
    assert_sites(&finished, &program, &[("site_huge_fails", Site::exactly(1, 1, 2006))]);
    let snapshot = finished.snapshot();
    assert_eq!(health(&snapshot, Health::DroppedLive), 0);
    assert!(snapshot.live.iter().all(|sample| sample.size < 1 << 40));
}

#[test]
fn errno_survives_sampled_calls() {
    // The program compares errno after each call and fails on a difference.
    let (finished, program) = family();
    let snapshot = finished.snapshot();
    let found = sites(&snapshot, &program);
    assert_eq!(found["site_errno"].alloc_objects, 3 * 1999, "the calls were not sampled");
    assert_eq!(found["site_errno"].live_objects, 0);
    assert_eq!(live_of_size(&snapshot, 2010), 0);
}

const OPERATORS: [(&str, u64); 14] = [
    ("site_new", 3001),
    ("site_new_sized", 3002),
    ("site_new_array", 3003),
    ("site_new_array_sized", 3004),
    ("site_new_nothrow", 3005),
    ("site_new_array_nothrow", 3006),
    ("site_new_aligned", 3072),
    ("site_new_array_aligned", 3200),
    ("site_new_aligned_sized", 3328),
    ("site_new_array_aligned_sized", 3456),
    ("site_new_aligned_nothrow", 3584),
    ("site_new_array_aligned_nothrow", 3712),
    ("site_malloc", 3013),
    ("site_new_expression", 3014),
];

/// The exception objects are allocated and freed below the site.
#[track_caller]
fn assert_only_the_last_object_of_site_throws_lives(finished: &Finished, program: &Path) {
    let site = &sites(&finished.snapshot(), program)["site_throws"];
    assert_eq!((site.live_objects, site.live_bytes), (1, 3015), "{site:?}");
    assert_eq!(site.alloc_objects, site.freed_objects + 1, "{site:?}");
}

#[track_caller]
fn assert_operators(run: Run, program: &Path) {
    let finished = run.succeed();
    let expected = OPERATORS.map(|(name, size)| (name, Site::exactly(2, 1, size)));
    assert_sites(&finished, program, &expected);
    assert_eq!(health(&finished.snapshot(), Health::Healed), 0, "a free was missed");
}

#[test]
fn operator_new_counted_once_over_libstdcxx() {
    let program = program("operators.cc");
    let finished = Run::new(&program).succeed();
    let expected = OPERATORS.map(|(name, size)| (name, Site::exactly(2, 1, size)));
    assert_sites(&finished, &program, &expected);
}

#[test]
fn sampled_bad_alloc_is_caught() {
    let program = program("operators.cc");
    let finished = Run::new(&program).arg("throw").succeed();
    assert_only_the_last_object_of_site_throws_lives(&finished, &program);
    // Here the real operator is the allocator's own and throws through our slow path.
    for allocator in ["libjemalloc.so.2", "libtcmalloc.so.4"] {
        let run = Run::new(&program).arg("throw").over(&shared_library(allocator));
        assert_only_the_last_object_of_site_throws_lives(&run.succeed(), &program);
    }
}

#[test]
fn operator_new_counted_once_over_jemalloc() {
    let program = program("operators.cc");
    assert_operators(Run::new(&program).over(&shared_library("libjemalloc.so.2")), &program);
}

#[test]
fn operator_new_counted_once_over_tcmalloc() {
    let program = program("operators.cc");
    assert_operators(Run::new(&program).over(&shared_library("libtcmalloc.so.4")), &program);
}

#[test]
fn operator_new_counted_once_over_mimalloc() {
    let program = program("operators.cc");
    assert_operators(Run::new(&program).over(&shared_library("libmimalloc.so.2")), &program);
}

#[test]
fn musl_program_runs_unchanged() {
    let scratch = Scratch::new();
    let source = target_directory().join("../tests/programs/allocates.c");
    let program = scratch.path("musl");
    finish(clean(installed("musl-gcc", "musl-tools")).arg(source).arg("-o").arg(&program)).good();
    let plain = finish(&mut clean(&program)).essence();
    assert_eq!(plain.0, 7, "{plain:?}");
    let profiles = scratch.open_directory("profiles");
    // By hand, and as the child of a program that is profiled.
    let mut shell = clean("sh");
    shell.arg("-c").arg(format!("{}; exit $?", program.display()));
    for mut command in [clean(&program), shell] {
        let preloaded = preload(&mut command, "1").env("RAMSON_DIR", &profiles);
        assert_eq!(finish(preloaded).essence(), plain);
    }
}
