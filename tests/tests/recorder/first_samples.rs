//! Allocations that threads make while the profile file is being made are not missing from it.
//!
//! The seed of a process comes from the kernel, so runs differ. Bounds are wide enough that a correct library fails one of
//! these tests less than once in 5,000 times. `START_RUNS` sets another number of runs.

use ramson_format::Health;
use ramson_tests::{Run, health, program};

const INTERVAL: u64 = 16 << 10;
/// Some 320 live samples.
const BYTES: u64 = 320 * INTERVAL;
const Z_95: f64 = 1.959_964;

/// Estimate over truth of live bytes in each run, and how often the interval covers the truth.
fn runs(threads: u32) {
    let runs = std::env::var("START_RUNS").map_or(40, |runs| runs.parse().unwrap());
    let mut ratios = Vec::new();
    let mut covered = 0;
    for _ in 0..runs {
        let run = Run::new(program("starts.c")).arg(threads.to_string()).arg(BYTES.to_string());
        let finished = run.env("RAMSON_INTERVAL", INTERVAL.to_string()).succeed();
        let snapshot = finished.snapshot();
        let heap = snapshot.live.iter().filter(|sample| sample.size <= 5500);
        let (mut value, mut variance) = (0.0, 0.0);
        for sample in heap {
            let objects = sample.inverse_probability;
            let size = sample.size as f64;
            value += objects * size;
            variance += objects * (objects - 1.0) * size * size;
        }
        let truth = finished.number("inuse_space ") as f64;
        ratios.push(value / truth);
        covered += ((value - truth).abs() <= Z_95 * f64::sqrt(variance)) as usize;
        for nothing in [Health::DroppedWalks, Health::DroppedStacks, Health::DroppedLive] {
            assert_eq!(health(&snapshot, nothing), 0, "{nothing:?}");
        }
        assert!(snapshot.live.len() >= 200, "{}", snapshot.live.len());
        assert_eq!(snapshot.defects, []);
    }
    let count = runs as f64;
    let mean = ratios.iter().sum::<f64>() / count;
    let spread = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>();
    let error = (spread / (count - 1.0) / count).sqrt();
    let coverage = covered as f64 / count;
    println!("{threads} threads, {runs} runs: mean {mean:.4} ± {error:.4}, coverage {coverage:.3}");
    assert!((mean - 1.0).abs() <= 4.0 * error, "{mean} ± {error}");
    // Expected 0.95 with a standard deviation of sqrt(0.95 · 0.05 / runs).
    let least = 0.95 - 4.0 * (0.95 * 0.05 / count).sqrt();
    assert!(coverage >= least, "{coverage}");
}

#[test]
fn first_samples_of_one_thread() {
    runs(1);
}

#[test]
fn first_samples_of_four_threads() {
    runs(4);
}

#[test]
fn first_samples_of_sixty_four_threads() {
    runs(64);
}
