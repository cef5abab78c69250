//! The governor under the real library: storms come under the bound, the configured interval comes back, and estimates stay
//! unbiased while the interval changes.

use ramson_format::Health;
use ramson_reader::Snapshot;
use ramson_tests::servers::{Json, MOST_TIME, Scratch, finish, ramson};
use ramson_tests::{Run, estimates, health, profiles_in, program, read, total};
use std::thread::sleep;
use std::time::{Duration, Instant};

const BOUND: f64 = 0.01;
/// Factor by which the overhead in a storm may lie above the bound.
const SLACK: f64 = 1.3;
/// The governor decides ten times a second at most.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

fn governed(arguments: &str) -> Run {
    let run = Run::new(program("governed.c")).env("RAMSON_INTERVAL", "4K");
    arguments.split(' ').fold(run.env("RAMSON_MAX_OVERHEAD", "1"), Run::arg)
}

#[test]
fn weight_matches_interval_of_its_countdown() {
    let snapshot = governed("threads 600").succeed().snapshot();
    // By then another interval was in force, whose weight is ten times as large.
    assert!(snapshot.header.interval_bytes >= 40 << 10, "{:?}", snapshot.header);
    let theirs = snapshot.live.iter().filter(|sample| sample.size == 96);
    // At 4 KiB it is 43. After its first sample a thread draws anew: such samples are few, and one may stand for more than all of these.
    let first = theirs.map(|sample| sample.inverse_probability).filter(|&objects| objects < 50.0);
    let objects: f64 = first.sum();
    // 400 threads, 20 blocks each, 38 of 100 threads come to a sample, in the middle of their blocks: 6,500. A standard deviation is 500.
    assert!((4_000.0..9_000.0).contains(&objects), "{objects} instead of 6,500");
}

/// The profile of a process that runs, once it says what is wanted.
fn wait_for(run: &Run, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let start = Instant::now();
    loop {
        let profile = profiles_in(&run.profiles_directory()).first().map(|path| read(path));
        if let Some(Ok(snapshot)) = profile
            && wanted(&snapshot)
        {
            return snapshot;
        }
        assert!(start.elapsed() < MOST_TIME, "the governor does not do it");
        sleep(BETWEEN_LOOKS);
    }
}

/// Nanoseconds in slow paths and of CPU, from the process's own counters.
fn spent(snapshot: &Snapshot) -> (f64, f64) {
    let slow_ns = snapshot.header.slow_path_ns().expect("this machine's cycle counter is steady");
    (slow_ns, snapshot.header.cpu_ns as f64)
}

#[test]
fn storm_settles_under_the_bound() {
    let mut run = governed("storm 600000");
    let mut child = run.spawn();
    let first = wait_for(&run, |snapshot| snapshot.header.interval_changes > 0);
    assert!(
        first.header.overhead(first.header.cpu_ns).is_some_and(|share| share > SLACK * BOUND),
        "no storm"
    );
    let mut before = first;
    let mut shares = Vec::new();
    let has_settled = |shares: &[f64]| {
        shares.len() >= 3 && shares[shares.len() - 3..].iter().all(|&share| share <= SLACK * BOUND)
    };
    while !has_settled(&shares) {
        // The first windows hold what came before the governor saw a storm.
        assert!(shares.len() < 60, "{shares:?}");
        let (slow_ns, cpu_ns) = spent(&before);
        let after = wait_for(&run, |snapshot| spent(snapshot).1 - cpu_ns > 3e8);
        shares.push((spent(&after).0 - slow_ns) / (spent(&after).1 - cpu_ns));
        assert!(health(&after, Health::Samples) > health(&before, Health::Samples));
        before = after;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(before.header.interval_bytes > 16 * before.header.configured_interval_bytes);
}

#[test]
fn interval_recovers_after_the_storm() {
    let mut run = governed("rest 1000 60000");
    let mut child = run.spawn();
    let raised = wait_for(&run, |snapshot| snapshot.header.interval_bytes >= 64 << 10);
    assert_eq!(raised.header.configured_interval_bytes, 4 << 10);
    let rested = wait_for(&run, |snapshot| snapshot.header.interval_bytes == 4 << 10);
    assert!(rested.header.interval_changes >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn interval_recovers_without_a_bound() {
    let scratch = Scratch::new();
    // It may have to be built first.
    let mut set = ramson(&scratch);
    let mut run = governed("storm 60000");
    let mut child = run.spawn();
    wait_for(&run, |snapshot| snapshot.header.interval_bytes > 4 << 10);
    let pid = child.id().to_string();
    finish(set.args(["set", &pid, "--max-overhead", "off"])).good();
    let free = wait_for(&run, |snapshot| snapshot.header.max_overhead_ppm == 0);
    assert_eq!((free.header.interval_bytes, free.header.interval_orders), (4 << 10, 0));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn mappings_never_raise_the_interval() {
    let run = governed("extents 1500").env("RAMSON_INTERVAL", "512K");
    // The heap grows by 22 MB a second at most: 42 samples.
    let snapshot = run.env("RAMSON_MAX_OVERHEAD", "0.01").succeed().snapshot();
    assert!(health(&snapshot, Health::Extents) >= 1500, "{:?}", snapshot.header);
    assert_eq!((snapshot.header.interval_changes, snapshot.header.interval_bytes), (0, 512 << 10));
}

#[test]
fn report_states_widening_by_raised_interval() {
    let finished = governed("mixture").succeed();
    let scratch = Scratch::new();
    let report = |more: &[&str]| {
        finish(ramson(&scratch).arg("report").arg(&finished.profiles[0]).args(more)).good().text()
    };
    let json = Json::parse(&report(&["--json"]));
    let variance: f64 = estimates(&finished.snapshot())[0].1;
    // At the configured interval blocks far smaller than it have T times their bytes.
    let truth = finished.number("inuse_space ") as f64;
    let widening = json.number("recording.widening");
    assert!(widening > 0.2, "{widening}");
    let configured = variance / (1.0 + widening).powi(2);
    // Sampling misses e^−15 of the blocks of 60,000 bytes; for the blocks of 4,000 bytes the variance is 0.58 of T times their bytes.
    assert!((0.4..1.0).contains(&(configured / (4096.0 * truth))), "{configured} {truth}");
    assert!(json.number("recording.most_interval_bytes") > 8192.0);
    let details = report(&["--details"]);
    assert!(details.contains(" for the overhead target; ± of live is "), "{details}");
}

#[test]
fn interval_one_stays_exact_unless_bounded() {
    let exact = governed("storm 500").env("RAMSON_INTERVAL", "1").without("RAMSON_MAX_OVERHEAD");
    let exact = exact.succeed();
    let snapshot = exact.snapshot();
    assert_eq!((snapshot.header.interval_changes, snapshot.header.max_overhead_ppm), (0, 0));
    assert_eq!(snapshot.header.interval_bytes, 1);
    let pairs = exact.number("alloc_objects ");
    let all = total(&snapshot);
    // Besides the pairs, the buffer of standard output.
    assert!((pairs..pairs + 4).contains(&all.alloc_objects), "{pairs} {all:?}");
    assert_eq!(all.weighted_alloc_objects, all.alloc_objects as f64);
    let bounded = governed("storm 500").env("RAMSON_INTERVAL", "1").succeed().snapshot();
    assert!(bounded.header.interval_changes > 0 && bounded.header.interval_bytes > 1);
}

#[test]
fn without_a_bound_nothing_is_governed() {
    for off in ["off", "0"] {
        let snapshot = governed("storm 400").env("RAMSON_MAX_OVERHEAD", off).succeed().snapshot();
        assert_eq!((snapshot.header.interval_changes, snapshot.header.interval_bytes), (0, 4096));
        assert!(
            snapshot
                .header
                .overhead(snapshot.header.cpu_ns)
                .is_some_and(|share| share > SLACK * BOUND)
        );
    }
}

#[test]
fn forked_child_starts_at_configured_interval() {
    // The kernel zeroes what a child must not inherit; the raised interval is part of it.
    let finished = governed("fork 500").succeed();
    assert!(finished.snapshot().header.interval_changes > 0);
    let child = finished.snapshot_of(finished.number("child ") as u32);
    assert_eq!((child.header.interval_changes, child.header.interval_bytes), (0, 4096));
}

#[test]
fn health_view_states_recording_cost() {
    let finished = governed("storm 500").succeed();
    let header = finished.snapshot().header;
    let scratch = Scratch::new();
    let report = |more: &[&str]| {
        finish(ramson(&scratch).arg("report").arg(&finished.profiles[0]).args(more)).good().text()
    };
    let text = report(&["--view", "health"]);
    let rows: Vec<&str> =
        text.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(
        rows,
        ["samples", "time", "interval", "walks", "lost", "inside", "own", "profile"],
        "{text}"
    );
    assert!(text.contains("interval     4.00 KiB (raised to "), "{text}");
    assert!(text.contains(" of the CPU time, target 1.00%"), "{text}");
    assert!(text.contains("lost         nothing\n"), "{text}");
    let json = Json::parse(&report(&["--json"]));
    let number = |name: &str| json.number(&format!("recording.{name}"));
    assert_eq!(number("configured_interval_bytes"), 4096.0);
    assert_eq!(number("interval_bytes"), header.interval_bytes as f64);
    assert_eq!(number("max_overhead_ppm"), 10_000.0);
    let share = number("slow_path_ns") / number("cpu_ns");
    assert!(share > 0.0 && (share * 1e6 / number("overhead_ppm") - 1.0).abs() < 0.01, "{share}");
}
