//! The targets of `make fuzz`, with the stable compiler: seeds, old findings and fixed mutations.

use ramson_fuzzed::{OPEN, TARGETS};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use tempfile::TempDir;

/// Runs `replay` with these arguments. malloc uses one arena, so that the address space, which is bounded, is about as large as the memory
/// in use. A `replay` that is killed leaves files behind, so it gets a temporary directory of its own.
fn replay(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_replay"));
    let scratch = TempDir::new().expect("the temporary directory can be written");
    command.args(arguments).env("TMPDIR", scratch.path());
    command.env("MALLOC_ARENA_MAX", "1").env("RUST_BACKTRACE", "0");
    command.output().expect("it was built for this test")
}

/// How a replay failed, if it did: the input, and the first line of what was said of it.
fn failure(output: &Output) -> Option<String> {
    let [inputs, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let last = inputs.lines().last().unwrap_or("no input");
    let said: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).take(2).collect();
    (!output.status.success()).then(|| format!("{last}: {}: {}", output.status, said.join(" ")))
}

#[test]
fn readers_survive_every_seed_and_mutation() {
    // Each is a process of one thread.
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || {
        while let Some(target) = TARGETS.get(next.fetch_add(1, Relaxed)) {
            failures.lock().unwrap().extend(failure(&replay(&[target.name])));
        }
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        (0..cores).for_each(|_| drop(scope.spawn(work)));
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_exceeds_a_bound_is_found() {
    let memory = failure(&replay(&["--exceed", "memory"]));
    assert!(memory.is_some_and(|it| it.contains("memory allocation")));
    let time = failure(&replay(&["--exceed", "time"]));
    assert!(time.is_some_and(|it| it.contains("5000 ms of CPU time")));
}

#[test]
fn what_is_left_out_exists() {
    let seeds = TARGETS.iter().map(|target| target.seeds_that_are(true).len()).sum::<usize>();
    assert_eq!(seeds, OPEN.len());
}
