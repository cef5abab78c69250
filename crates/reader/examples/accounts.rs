//! `accounts FILE`: what a profile's books say, as one JSON object: sums over its stacks, sums over its live samples, and its own memory.
#![forbid(unsafe_code)]

use ramson_format::{Health, Kind};
use ramson_reader::{Snapshot, Stack};
use std::fs::File;
use std::process::ExitCode;

/// Counters of losses for lack of room.
const DROPS: [Health; 5] = [
    Health::DroppedLive,
    Health::DroppedStacks,
    Health::DroppedExtents,
    Health::DroppedMappings,
    Health::GrowFailures,
];

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: accounts FILE");
        return ExitCode::from(2);
    };
    let opened = File::open(&path).map_err(|error| error.to_string());
    match opened.and_then(|file| Snapshot::read(&file).map_err(|error| error.to_string())) {
        Ok(snapshot) => {
            print(&snapshot);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("accounts: {}: {error}", path.display());
            ExitCode::from(2)
        }
    }
}

fn print(snapshot: &Snapshot) {
    // Mappings by the program itself are not samples.
    let of_blocks = |stack: &&Stack| Kind::of_stack(stack.flags) == Kind::Heap;
    let sum = |of: fn(&Stack) -> u64| snapshot.stacks.iter().filter(of_blocks).map(of).sum::<u64>();
    let health = |kind: Health| snapshot.header.health[kind as usize];
    let live = &snapshot.live;
    let live_space: f64 =
        live.iter().map(|sample| sample.size as f64 * sample.inverse_probability).sum();
    let variance: f64 = live
        .iter()
        .map(|sample| {
            let inverse = sample.inverse_probability;
            inverse * (inverse - 1.0) * (sample.size as f64).powi(2)
        })
        .sum();
    let own = health(Health::OwnBytes) + health(Health::FilterBytes);
    let counts = [
        ("samples", health(Health::Samples)),
        ("alloc_objects", sum(|stack| stack.sampled_alloc_objects)),
        ("freed_objects", sum(|stack| stack.sampled_freed_objects)),
        ("live_objects", live.len() as u64),
        ("alloc_bytes", sum(|stack| stack.sampled_alloc_bytes)),
        ("freed_bytes", sum(|stack| stack.sampled_freed_bytes)),
        ("live_bytes", live.iter().map(|sample| sample.size).sum()),
        ("dropped_live", health(Health::DroppedLive)),
        ("dropped", DROPS.into_iter().map(health).sum()),
        ("defects", snapshot.defects.len() as u64),
        ("own_bytes", own + snapshot.header.committed_bytes),
        ("interval_bytes", snapshot.header.interval_bytes),
        ("pid", snapshot.header.pid.into()),
    ];
    let counts = counts.map(|(name, value)| format!("\"{name}\":{value}")).join(",");
    println!("{{{counts},\"live_space\":{live_space:.0},\"live_sigma\":{:.0}}}", variance.sqrt());
}
