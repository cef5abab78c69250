//! Precision and recall on the labelled set: `leaks_labelled SEEDS [FIRST]` prints one JSON line per sampling interval and time of
//! observation; `leaks_labelled SEEDS FIRST each` one per program, too.
//!
//! Counted by function. Beside ramson's suspects, what the rules of others would name of the same programs: memleak the ten
//! functions with the most bytes that are older than half a second and not freed, heaptrack every function with bytes that are
//! not freed at the end, jemalloc's diff of the dumps at half of the time and at its end every function that has more bytes
//! than before, if that is half a percent of all that became more.

use ramson_tests::simulation::{Function, Labelled, PROGRAMS, Program, SECOND};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Minutes of observation, with the least age in seconds at which it is judged: the default except for a single minute.
const OBSERVED: [(u64, u64); 3] = [(1, 15), (10, 60), (60, 60)];
/// Unfreed samples from which on recall is counted.
const LEAST_SAMPLES: [u64; 5] = [1, 20, 40, 80, 160];
const INTERVALS: [u64; 2] = [64 << 10, 512 << 10];
const MEMLEAK_OLDER_NS: u64 = SECOND / 2;
const MEMLEAK_TOP: usize = 10;
const JEPROF_NODE_FRACTION: f64 = 0.005;

/// Functions named, and those among them that leak.
#[derive(Clone, Copy, Default)]
struct Named {
    all: u64,
    right: u64,
}

/// Counts of one interval and time.
#[derive(Clone, Default)]
struct Score {
    /// Leaks with samples in the range that begins at each of `LEAST_SAMPLES`, and those of them that are found.
    leaks: [(u64, u64); LEAST_SAMPLES.len()],
    /// Functions that leak, with or without a sample.
    leaking: u64,
    right: u64,
    wrong: u64,
    /// Those of the wrong ones that were still filling.
    filling: u64,
    memleak: Named,
    heaptrack: Named,
    jemalloc: Named,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seeds, first): (u64, u64) = (number(10), number(1));
    let is_each = arguments.next().is_some();
    for interval_bytes in INTERVALS {
        let scores = of_programs(interval_bytes, first..first + seeds);
        for (at, (minutes, _)) in OBSERVED.into_iter().enumerate() {
            let mut sum = Score::default();
            for (program, scores) in PROGRAMS.iter().zip(&scores) {
                sum.add(&scores[at]);
                if is_each {
                    println!("{}", scores[at].line(program.name, interval_bytes, minutes, seeds));
                }
            }
            println!("{}", sum.line("all", interval_bytes, minutes, seeds));
        }
    }
}

/// Scores of each program at each time in `OBSERVED`, summed over the seeds.
fn of_programs(interval_bytes: u64, seeds: std::ops::Range<u64>) -> Vec<[Score; OBSERVED.len()]> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(program) = PROGRAMS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut scores: [Score; OBSERVED.len()] = Default::default();
            for seed in seeds.clone() {
                add_run(&mut scores, program, seed, interval_bytes);
            }
            done.push((program.name, scores));
        }
        done
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    done.sort_by_key(|(name, _)| PROGRAMS.iter().position(|program| program.name == *name));
    done.into_iter().map(|(_, scores)| scores).collect()
}

fn add_run(scores: &mut [Score], program: &Program, seed: u64, interval_bytes: u64) {
    let mut run = Labelled::new(program, seed, interval_bytes);
    for (score, (minutes, least_s)) in scores.iter_mut().zip(OBSERVED) {
        run.run_until(minutes * 30);
        let half = run.judged(least_s * SECOND);
        run.run_until(minutes * 60);
        score.judge(&half, &run.judged(least_s * SECOND));
    }
}

impl Score {
    fn judge(&mut self, half: &[Function], end: &[Function]) {
        for function in end {
            let wrong = function.false_alarms() as u64;
            self.leaking += u64::from(function.is_leak);
            self.wrong += wrong;
            self.filling += if function.is_settled { 0 } else { wrong };
            self.right += u64::from(function.is_found());
            if let Some(range) =
                LEAST_SAMPLES.iter().rposition(|&least| function.leaked_samples >= least)
            {
                self.leaks[range].0 += 1;
                self.leaks[range].1 += u64::from(function.is_found());
            }
        }
        let mut old: Vec<&Function> =
            end.iter().filter(|function| function.oldest_ns > MEMLEAK_OLDER_NS).collect();
        old.sort_by(|a, b| b.inuse_bytes.total_cmp(&a.inuse_bytes));
        self.memleak.add(old.into_iter().take(MEMLEAK_TOP));
        self.heaptrack.add(end.iter().filter(|function| function.inuse_bytes > 0.0));
        let more = |(half, end): (&Function, &Function)| end.inuse_bytes - half.inuse_bytes;
        let sum: f64 = half.iter().zip(end).map(more).filter(|&more| more > 0.0).sum();
        let is_more = |pair: &(&Function, &Function)| more(*pair) > JEPROF_NODE_FRACTION * sum;
        self.jemalloc.add(half.iter().zip(end).filter(is_more).map(|(_, end)| end));
    }

    fn add(&mut self, other: &Self) {
        for (sum, more) in self.leaks.iter_mut().zip(other.leaks) {
            *sum = (sum.0 + more.0, sum.1 + more.1);
        }
        self.leaking += other.leaking;
        self.right += other.right;
        self.wrong += other.wrong;
        self.filling += other.filling;
        for (sum, more) in [
            (&mut self.memleak, other.memleak),
            (&mut self.heaptrack, other.heaptrack),
            (&mut self.jemalloc, other.jemalloc),
        ] {
            *sum = Named { all: sum.all + more.all, right: sum.right + more.right };
        }
    }

    fn line(&self, name: &str, interval_bytes: u64, minutes: u64, seeds: u64) -> String {
        let Self { leaking, right, wrong, filling, .. } = self;
        let recall = LEAST_SAMPLES.iter().zip(self.leaks).map(|(least, (leaks, found))| {
            format!("{{\"samples\": {least}, \"leaks\": {leaks}, \"found\": {found}}}")
        });
        let recall = recall.collect::<Vec<_>>().join(", ");
        let peers =
            [("memleak", self.memleak), ("heaptrack", self.heaptrack), ("jemalloc", self.jemalloc)];
        let peers = peers.map(|(peer, Named { all, right })| {
            format!("\"{peer}\": {{\"named\": {all}, \"right\": {right}}}")
        });
        format!(
            "{{\"program\": \"{name}\", \"interval_bytes\": {interval_bytes}, \"minutes\": {minutes}, \"seeds\": {seeds}, \
             \"leaking\": {leaking}, \"right\": {right}, \"wrong\": {wrong}, \"filling\": {filling}, \"recall\": [{recall}], {}}}",
            peers.join(", ")
        )
    }
}

impl Named {
    fn add<'a>(&mut self, functions: impl Iterator<Item = &'a Function>) {
        for function in functions {
            self.all += 1;
            self.right += u64::from(function.is_leak);
        }
    }
}
