//! Replays a target's seeds and mutations of them, as `make fuzz` would run them: within 512 MiB and 5 s of CPU time for each.
//! `replay TARGET`; `replay --open SEED TARGET`: one that is known to break it; `replay --write TARGET DIRECTORY`: writes the
//! seeds as files; `replay --exceed BOUND`: shows that a bound holds. Each input's name is a line of standard output, before it is
//! tried: the last one is what broke the reader.
#![forbid(unsafe_code)]

use ramson_fuzzed::seed::Seed;
use ramson_fuzzed::{Target, mutation::mutated, target};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const MOST_BYTES: u64 = 512 << 20;
const MOST_CPU_MS: u64 = 5000;
/// CPU time of this process when the input was begun.
static BEGUN_MS: AtomicU64 = AtomicU64::new(0);

fn cpu_ms() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Address space counts instead of memory: an allocation beyond it fails, and that ends the process.
fn bound_memory() {
    let status = std::fs::read_to_string("/proc/self/statm").expect("this process's own file");
    let pages: u64 =
        status.split(' ').next().and_then(|pages| pages.parse().ok()).expect("its size");
    let most = Some(pages * 4096 + MOST_BYTES);
    setrlimit(Resource::As, Rlimit { current: most, maximum: most }).expect("a lower limit");
}

fn bound_time() {
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_millis(50));
            if cpu_ms().saturating_sub(BEGUN_MS.load(Relaxed)) > MOST_CPU_MS {
                eprintln!("more than {MOST_CPU_MS} ms of CPU time");
                std::process::abort();
            }
        }
    });
}

fn replay(target: &Target, name: &str, input: &[u8]) {
    println!("{} {name}", target.name);
    BEGUN_MS.store(cpu_ms(), Relaxed);
    (target.check)(input);
}

fn replay_all(target: &Target) {
    let seeds = target.seeds_that_are(false);
    for seed in &seeds {
        replay(target, &seed.name, &seed.bytes);
    }
    // Mutations of a seed that breaks a reader would break it, too.
    let is_whole = target.seeds_that_are(true).is_empty();
    for number in 0..if is_whole { target.mutations } else { 0 } {
        // About every fourth is of nothing.
        let seed = seeds.get(number as usize % (seeds.len() + seeds.len().div_ceil(3).max(1)));
        let input = seed.map_or(&[][..], |seed| &seed.bytes);
        replay(target, &format!("mutation-{number}"), &mutated(input, number));
    }
}

fn exceed(bound: &str) {
    match bound {
        "memory" => drop(std::hint::black_box(vec![1_u8; MOST_BYTES as usize])),
        "time" => loop {
            std::hint::spin_loop();
        },
        other => panic!("{other} has no bound"),
    }
}

fn write(seeds: &[Seed], directory: &Path) {
    for seed in seeds {
        let path = directory.join(format!("seed-{}", seed.name));
        std::fs::write(path, &seed.bytes).expect("the directory can be written");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["--write", name, directory] = words[..] {
        return write(&target(name).seeds_that_are(false), Path::new(directory));
    }
    bound_memory();
    bound_time();
    match words[..] {
        ["--exceed", bound] => exceed(bound),
        ["--open", seed, name] => {
            let seeds = target(name).seeds_that_are(true);
            let known = seeds.iter().find(|known| known.name == seed);
            let known = known.expect("a seed of open.rs");
            replay(target(name), &known.name, &known.bytes);
        }
        [name] => replay_all(target(name)),
        _ => panic!("replay [--open SEED] TARGET"),
    }
}
