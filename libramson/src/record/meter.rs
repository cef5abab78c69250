//! Cost of slow paths: CPU time, measured by the cycle counter, which also runs while a thread waits.
//!
//! A thread that loses its processor inside a slow path, is throttled there, or waits for the kernel's lock on its mappings takes no CPU time,
//! but milliseconds of cycles. So each kind of slow path has a typical cost, the median, and what took a multiple of that
//! counts as typical. (The thread's CPU clock would tell, but is a system call that costs more than most samples.)
//! A slow path that met a new stack is dearer by nature and happens once: it is counted, but apart, as no interval lowers that.

use super::file::ProfileFile;
use crate::{counter, sampler};
use core::sync::atomic::Ordering::*;
use ramson_format::Health;
use ramson_format::atomic::AtomicU64;

/// Slow paths of one kind that are all measured: the first ones are much dearer.
const MEASURED_SINGLY: u64 = 64;
/// Later, reading the counter twice each time would cost a tenth of a sample: one in so many is measured and counts for all.
const MEASURED_SHARE: u64 = 16;
/// Most cycles that count for an event that happens once; a longer one was interrupted. Making the file takes 1 ms, meeting a stack 50 µs.
const MOST_ONCE_CYCLES: u64 = 1 << 22;
const MOST_NEW_CYCLES: u64 = 1 << 17;
/// Cycles outside of what is measured, on an AMD EPYC: before the real allocator runs, and on the way here and back. Together they are
/// what a sample with its free costs by CPU time (`bench/run busy`) beyond its measurements, shared out by instructions.
const BESIDES_SAMPLE_CYCLES: u64 = 250;
const BESIDES_FREE_CYCLES: u64 = 120;
/// A step of a draw.
const STEP_CYCLES: u64 = 100;

/// The median moves towards each measurement by this part of itself …
const MEDIAN_STEP: u64 = 16;
/// … and the mean by this part of the distance.
const MEAN_STEP: i64 = 64;
/// Parts of a cycle in which the mean is kept. No float: the last look is at exit, where the program's own floating-point traps hold.
const MEAN_PARTS: u64 = 256;
/// A slow path that takes more medians than this was interrupted. 99 of 100 samples in threads that fault in their heap take less than 16.
const MOST_MEDIANS: u64 = 16;
/// Cycles at which the median begins.
const FIRST_CYCLES: u64 = 4096;

/// Kinds of slow paths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Path {
    Sample,
    Free,
    Extent,
    Failure,
    /// Whether the file is still there.
    Look,
    /// A decision of the governor.
    Decision,
}

const PATHS: usize = 6;

/// Cost of one kind of slow path. All zero is "none yet". If two threads update it at once, the step of one is lost.
struct Meter {
    median_cycles: AtomicU64,
    /// In parts of a cycle.
    mean_parts: AtomicU64,
}

impl Meter {
    /// Takes in that a slow path took `cycles`, waiting included. Returns what the slow path cost.
    fn take(&self, cycles: u64) -> u64 {
        let median = match self.median_cycles.load(Relaxed) {
            0 => FIRST_CYCLES,
            median => median,
        };
        let step = (median / MEDIAN_STEP).max(1);
        let next = if cycles > median { median + step } else { median - step };
        self.median_cycles.store(next.max(1), Relaxed);
        let cost = if cycles > median.saturating_mul(MOST_MEDIANS) { median } else { cycles };
        let cost_parts = cost.saturating_mul(MEAN_PARTS).cast_signed();
        let next = match self.mean_parts.load(Relaxed).cast_signed() {
            0 => cost_parts,
            mean => mean + (cost_parts - mean) / MEAN_STEP,
        };
        self.mean_parts.store(next.max(0).cast_unsigned(), Relaxed);
        cost
    }

    fn mean_cycles(&self) -> f64 {
        self.mean_parts.load(Relaxed) as f64 / MEAN_PARTS as f64
    }
}

/// One for each kind. All zero is "none yet".
pub struct Meters {
    paths: [Meter; PATHS],
    looks: AtomicU64,
}

/// A slow path that is being measured, or not.
#[derive(Clone, Copy)]
pub struct Measurement {
    path: Path,
    /// Among its kind.
    pub number: u64,
    begin_cycles: u64,
    stands_for: u64,
    stacks: u32,
}

impl Measurement {
    /// Begins to measure the next slow path that `counter` counts.
    #[inline]
    pub fn begin(file: &ProfileFile, path: Path, counter: Health) -> Self {
        Self::of(file, path, file.count_one(counter))
    }

    /// Begins to measure the next look whether the file is still there.
    pub fn begin_look(file: &ProfileFile) -> Self {
        Self::of(file, Path::Look, file.meters.looks.fetch_add(1, Relaxed))
    }

    #[inline]
    fn of(file: &ProfileFile, path: Path, number: u64) -> Self {
        match share(number) {
            0 => Self { path, number, begin_cycles: 0, stands_for: 0, stacks: 0 },
            stands_for => {
                let stacks = stacks_of(file, path);
                Self { path, number, begin_cycles: counter::cycles(), stands_for, stacks }
            }
        }
    }

    /// Counts what it cost, for each slow path that it stands for.
    #[inline]
    pub fn end(self, file: &ProfileFile) {
        let Self { path, begin_cycles, stands_for, stacks, .. } = self;
        if stands_for != 0 {
            count(file, path, begin_cycles, stands_for, stacks);
        }
    }
}

/// Counts a slow path that began at `begin_cycles`, when there were so many stacks. Not a method: a `Measurement` would be kept in memory.
#[cold]
fn count(file: &ProfileFile, path: Path, begin_cycles: u64, stands_for: u64, stacks: u32) {
    let cycles = counter::cycles().wrapping_sub(begin_cycles);
    let cost = if stacks_of(file, path) != stacks {
        cycles.min(MOST_NEW_CYCLES)
    } else {
        file.meters.paths[path as usize].take(cycles)
    };
    file.count(Health::SlowCycles, stands_for * (cost + file.besides_cycles(path)));
}

/// Stacks that there are, as far as this path could add one.
#[inline]
fn stacks_of(file: &ProfileFile, path: Path) -> u32 {
    if path == Path::Look { 0 } else { file.header().stack_count.load(Relaxed) }
}

/// For how many slow paths of its kind the one with this number stands, 0 if it is not measured.
fn share(number: u64) -> u64 {
    match number {
        0..MEASURED_SINGLY => 1,
        _ if number.is_multiple_of(MEASURED_SHARE) => MEASURED_SHARE,
        _ => 0,
    }
}

impl ProfileFile {
    /// Returns the mean cost of a slow path of this kind, in cycles; 0 if none was measured.
    pub fn mean_cycles(&self, path: Path) -> f64 {
        match self.meters.paths[path as usize].mean_cycles() {
            0.0 => 0.0,
            mean => mean + self.besides_cycles(path) as f64,
        }
    }

    /// Times that the file was looked after.
    pub fn looks(&self) -> u64 {
        self.meters.looks.load(Relaxed)
    }

    /// Returns the cycles that a slow path of this kind takes outside of what is measured.
    fn besides_cycles(&self, path: Path) -> u64 {
        let header = self.header();
        let configured_bytes = header.configured_interval_bytes.load(Relaxed);
        let steps = || sampler::steps(header.interval_bytes.load(Relaxed), configured_bytes);
        match path {
            Path::Sample => BESIDES_SAMPLE_CYCLES + STEP_CYCLES * steps(),
            Path::Free => BESIDES_FREE_CYCLES,
            _ => 0,
        }
    }

    /// Counts a slow path that began at `begin_cycles`.
    pub fn count_path(&self, path: Path, begin_cycles: u64) {
        let cycles = counter::cycles().wrapping_sub(begin_cycles);
        self.count(Health::SlowCycles, self.meters.paths[path as usize].take(cycles));
    }

    /// Counts what happens once in a process.
    pub fn count_once(&self, begin_cycles: u64) {
        let cycles = counter::cycles().wrapping_sub(begin_cycles);
        self.count(Health::SlowCycles, cycles.min(MOST_ONCE_CYCLES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> Meter {
        Meter { median_cycles: AtomicU64::new(0), mean_parts: AtomicU64::new(0) }
    }

    /// Returns the cost of `count` slow paths by the meter, over their own cost.
    fn error(count: u64, mut path: impl FnMut(u64) -> (u64, u64)) -> f64 {
        let meter = meter();
        (0..500).for_each(|number| _ = meter.take(path(number).0));
        let mut counted = 0;
        let mut cost = 0;
        for number in 0..count {
            let (cycles, own_cycles) = path(number);
            counted += meter.take(cycles);
            cost += own_cycles;
        }
        counted as f64 / cost as f64
    }

    /// Costs from one half to twice `typical`, in no order.
    fn cost(number: u64, typical: u64) -> u64 {
        let spread = crate::sampler::seed(number) % 1024;
        typical / 2 + typical * 3 / 2 * spread / 1024
    }

    #[test]
    fn measured_slow_paths_stand_for_all() {
        for count in [1, 64, 80, 64 + 16 * 1000] {
            assert_eq!((0..count).map(share).sum::<u64>(), count);
        }
        // Few enough to be cheap.
        assert_eq!((64..6464).filter(|&number| share(number) != 0).count(), 400);
    }

    #[test]
    fn undisturbed_slow_paths_count_in_full() {
        for typical in [100, 2_000, 50_000, 1_000_000] {
            let all = error(10_000, |number| {
                let own = cost(number, typical);
                (own, own)
            });
            assert_eq!(all, 1.0, "{typical}");
        }
    }

    #[test]
    fn time_off_cpu_is_not_counted() {
        // Preempted for 4 ms, throttled for 90 ms; up to a tenth of all. They count as typical.
        for (every, lost) in [(1000, 10_000_000), (100, 225_000_000), (10, 10_000_000)] {
            let found = error(100_000, |number| {
                let own = cost(number, 5_000);
                (own + if number % every == 0 { lost } else { 0 }, own)
            });
            assert!((0.95..1.05).contains(&found), "{every} {lost}: {found}");
        }
    }

    #[test]
    fn expensive_paths_count_in_full() {
        // A third walks ten times as deep.
        let found = error(10_000, |number| {
            let own = cost(number, if number % 3 == 0 { 20_000 } else { 2_000 });
            (own, own)
        });
        assert!((0.99..=1.0).contains(&found), "{found}");
    }

    #[test]
    fn backward_counter_counts_as_typical() {
        let meter = meter();
        (0..500).for_each(|_| _ = meter.take(1_000));
        assert!((900..1_100).contains(&meter.take(5u64.wrapping_sub(6))));
    }

    #[test]
    fn the_mean_follows_what_is_counted() {
        let meter = meter();
        for typical in [300, 30_000] {
            (0..2_000).for_each(|number| _ = meter.take(cost(number, typical)));
            let mean = meter.mean_cycles();
            let truth = typical as f64 * 1.25;
            assert!((0.8..1.2).contains(&(mean / truth)), "{mean} {truth}");
        }
    }

    /// As at exit(3) in a program that has its inexact results reported by SIGFPE.
    #[test]
    #[cfg(target_arch = "x86_64")]
    #[expect(
        deprecated,
        reason = "the intrinsics for MXCSR, which the compiler may not see changed: nothing here is to use it"
    )]
    fn a_slow_path_is_counted_where_floats_trap() {
        use core::arch::x86_64::{_mm_getcsr, _mm_setcsr};
        const MASKED_INEXACT: u32 = 1 << 12;
        let meter = meter();
        // SAFETY: the register is as before when the test ends.
        unsafe {
            let before = _mm_getcsr();
            _mm_setcsr(before & !MASKED_INEXACT);
            (0..500).for_each(|number| _ = core::hint::black_box(&meter).take(cost(number, 5_000)));
            _mm_setcsr(before);
        }
        assert!(meter.mean_cycles() > 0.0);
    }
}
