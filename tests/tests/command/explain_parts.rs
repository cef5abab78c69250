//! Memory of one kind each, which explain names: variables, freed lazily, shared, stacks of ended threads, thread-local variables, a coroutine's.

use ramson_tests::keeping::{Keeping, MIB, explain, part};
use ramson_tests::program_with;
use ramson_tests::servers::*;
use std::fs;

/// The first sentence about a program that has memory of this kind, whose bytes are within these MiB, and its cause.
#[track_caller]
fn first_cause(kind: &str, options: &[&str], mib: std::ops::Range<f64>) -> (String, String) {
    let scratch = Scratch::new();
    let program = program_with("parts.c", &format!("parts-{kind}"), options);
    let keeping = Keeping::start_program(&scratch, program, &[kind], |_| {});
    let json = explain(&scratch, keeping.pid());
    let first = &json.list("causes")[0];
    let bytes = first.number("bytes.value");
    assert!(mib.contains(&(bytes / MIB)), "{json:?}");
    (first.text("cause").to_owned(), first.text("sentence").to_owned())
}

#[test]
fn variables_are_named() {
    let (cause, sentence) = first_cause("variables", &[], 48.0..49.0);
    assert_eq!(cause, "variables");
    assert!(sentence.contains("parts-variables (session_table 48.0 MiB)"), "{sentence}");
}

#[test]
fn lazily_freed_memory_is_told() {
    // The kernel marks the last pages later.
    let (cause, sentence) = first_cause("lazy", &[], 39.5..40.1);
    assert_eq!(cause, "freed_lazily");
    assert!(sentence.contains("the kernel takes it back"), "{sentence}");
}

#[test]
fn own_shared_memory_is_told_once() {
    let (cause, sentence) = first_cause("shared", &[], 48.0..48.1);
    assert_eq!(cause, "shared");
    let names = "no other process has mapped (/memfd:row_heap 24.0 MiB, mapped twice here)";
    assert!(sentence.contains(names), "{sentence}");
}

#[test]
fn ended_threads_are_counted() {
    // Of each, glibc has given back what lies far from its end.
    let (cause, sentence) = first_cause("ended", &[], 4.0..12.0);
    assert_eq!(cause, "ended_stacks");
    let counted = "300 ended threads that were never joined";
    assert!(sentence.contains(counted) && sentence.contains("end_at_once"), "{sentence}");
}

#[test]
fn thread_local_variables_are_told() {
    // Eight threads, and the first one.
    let (cause, _) = first_cause("locals", &["-DLOCAL_BYTES=4<<20"], 36.0..36.5);
    assert_eq!(cause, "thread_locals");
}

/// A thread runs on a piece of a large area, as a goroutine does.
#[test]
fn coroutine_makes_no_stack_of_its_heap() {
    let scratch = Scratch::new();
    let program = program_with("parts.c", "parts-coroutine", &[]);
    let keeping = Keeping::start_program(&scratch, program, &["coroutine"], |_| {});
    let json = explain(&scratch, keeping.pid());
    assert!(part(&json, "stacks") < MIB, "{json:?}");
    assert!(part(&json, "other_anonymous") >= 48.0 * MIB, "{json:?}");
}

/// The cache of each thread is glibc's own, also while it holds nothing.
#[test]
fn empty_caches_of_threads_are_not_live() {
    const THREADS: f64 = 300.0;
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let mut program =
        clean(program_with("real/waiting_threads.c", "waiting-threads", &["-pthread"]));
    let is_ready = || fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"));
    let running = Running::start(program.args(["300", "20000"]), &log, is_ready);
    let explained = explain(&scratch, running.0.id());
    // Each has more than 600 bytes.
    let metadata = explained.number("parts.allocator_metadata");
    assert!((600.0 * THREADS..2000.0 * THREADS).contains(&metadata), "{explained:?}");
}
