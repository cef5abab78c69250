//! Estimates of a real process are unbiased, and their intervals cover the truth as often as they say.
//!
//! The seed of a process comes from the kernel, so runs differ. Bounds are wide enough that a correct library fails one of
//! these tests less than once in 5,000 times.

use ramson_reader::Snapshot;
use ramson_tests::{ESTIMATES, Run, estimates, program, total};
use std::sync::OnceLock;

const INTERVAL: u64 = 64 << 10;
const RUNS: usize = 100;
const STANDARD_ERRORS: f64 = 4.0;
/// Expected 0.95; 16 misses of 100 have a probability of 4 in 100,000.
const LEAST_COVERAGE: f64 = 0.85;

/// One quantity in one run.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    value: f64,
    variance: f64,
    truth: f64,
}

/// For each of `ESTIMATES`, the estimates of all runs; and the snapshots.
struct Runs {
    estimates: Vec<[Estimate; 4]>,
    snapshots: Vec<Snapshot>,
}

fn runs() -> &'static Runs {
    static RUNS_ONCE: OnceLock<Runs> = OnceLock::new();
    RUNS_ONCE.get_or_init(|| {
        let mut runs = Runs { estimates: Vec::new(), snapshots: Vec::new() };
        for _ in 0..RUNS {
            let run = Run::new(program("mixture.c")).arg(INTERVAL.to_string());
            let finished = run.env("RAMSON_INTERVAL", INTERVAL.to_string()).succeed();
            let snapshot = finished.snapshot();
            let estimates = estimates(&snapshot);
            let truth = ESTIMATES.map(|name| finished.number(&format!("{name} ")) as f64);
            runs.estimates.push(std::array::from_fn(|index| {
                let (value, variance) = estimates[index];
                Estimate { value, variance, truth: truth[index] }
            }));
            runs.snapshots.push(snapshot);
        }
        runs
    })
}

#[test]
fn mean_estimate_is_the_truth() {
    let runs = runs();
    for (index, name) in ESTIMATES.iter().enumerate() {
        let values: Vec<Estimate> = runs.estimates.iter().map(|run| run[index]).collect();
        let mean = values.iter().map(|run| run.value).sum::<f64>() / RUNS as f64;
        let spread = values.iter().map(|run| (run.value - mean).powi(2)).sum::<f64>();
        let error = (spread / (RUNS - 1) as f64 / RUNS as f64).sqrt();
        let truth = values[0].truth;
        // The process allocates some memory for itself, before main and for its output: at most 8 KB in a few objects.
        let own = if name.ends_with("space") { 8_000.0 } else { 4.0 };
        assert!(
            (mean - truth).abs() <= STANDARD_ERRORS * error + own,
            "{name}: {mean} instead of {truth}, standard error {error}"
        );
        // The error itself is small enough for this test to mean something.
        assert!(error < 0.02 * truth, "{name}: {error} of {truth}");
    }
}

#[test]
fn confidence_intervals_cover_the_truth() {
    let runs = runs();
    for (index, name) in ESTIMATES.iter().enumerate() {
        let covers = |run: &&[Estimate; 4]| {
            let Estimate { value, variance, truth } = run[index];
            (value - truth).abs() <= 1.96 * variance.sqrt()
        };
        let covered = runs.estimates.iter().filter(covers).count();
        assert!(covered as f64 >= LEAST_COVERAGE * RUNS as f64, "{name}: {covered} of {RUNS}");
        // Nor are the intervals so wide that they say nothing.
        let width = runs.estimates.iter().map(|run| run[index].variance.sqrt() / run[index].truth);
        assert!(width.sum::<f64>() / (RUNS as f64) < 0.15, "{name}");
    }
}

#[test]
fn allocated_minus_freed_is_live() {
    for snapshot in &runs().snapshots {
        let all = total(snapshot);
        assert_eq!(all.alloc_objects - all.freed_objects, all.live_objects);
        assert_eq!(all.alloc_bytes - all.freed_bytes, all.live_bytes);
        let [(space, _), (objects, _), (alloc_space, _), (alloc_objects, _)] = estimates(snapshot);
        let freed_space: f64 = snapshot.stacks.iter().map(|stack| stack.freed_space).sum();
        let freed_objects: f64 = snapshot.stacks.iter().map(|stack| stack.freed_objects).sum();
        assert!((alloc_space - freed_space - space).abs() <= 1e-9 * alloc_space);
        assert!((alloc_objects - freed_objects - objects).abs() <= 1e-9 * alloc_objects);
    }
}
