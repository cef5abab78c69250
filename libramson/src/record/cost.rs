//! What samples cost the program: measured, summed into the header, and put before the governor.

use super::Recorder;
use super::file::ProfileFile;
use crate::config::Config;
use crate::governor::{self, Usage, WINDOW_NS};
use crate::page_filter::FILTER_PAGES;
use crate::{counter, sys};
use core::sync::atomic::{self, Ordering::*};
use ramson_format::atomic::AtomicU64;
use ramson_format::{Header, Health, PAGE_BYTES, flags};

/// The precise clock: a window is short.
const MONOTONIC: usize = 1;
const PROCESS_CPU: usize = 2;

/// Slow paths of one kind that are all measured: the first ones are much dearer.
const MEASURED_SINGLY: u64 = 64;
/// Later, reading the counter twice each time would cost a tenth of a sample: one in so many is measured and counts for all.
const MEASURED_SHARE: u64 = 16;
/// A longer slow path was interrupted by the scheduler or a signal handler, whose time is not ours.
const MAX_CYCLES: u64 = 1 << 17;
/// Cycles of drawing a countdown and computing a weight (52 on an AMD EPYC): they are spent before the real allocator runs, and not measured.
pub const DRAW_CYCLES: u64 = 60;
/// The counter and the clock belong together if no more cycles go by while they are read.
const MAX_STAMP_CYCLES: u64 = 1 << 15;
/// Cycles per nanosecond; outside, it is no cycle counter.
const PLAUSIBLE_RATES: core::ops::Range<f64> = 0.05..20.0;
/// A window's rate differs from that since the start by no more, if the counter is steady.
const MAX_RATE_ERROR: f64 = 0.125;

/// A slow path that is being measured, or not.
#[derive(Clone, Copy)]
pub struct Measurement {
    begin_cycles: u64,
    stands_for: u64,
}

impl Measurement {
    /// Of the slow path that has this number among its kind.
    #[inline]
    pub fn begin(number: u64) -> Self {
        let stands_for = match number {
            0..MEASURED_SINGLY => 1,
            _ if number.is_multiple_of(MEASURED_SHARE) => MEASURED_SHARE,
            _ => return Self { begin_cycles: 0, stands_for: 0 },
        };
        Self { begin_cycles: counter::cycles(), stands_for }
    }

    /// Adds what it took, and for each slow path that it stands for `besides_cycles` that lie outside.
    #[inline]
    pub fn end(self, file: &ProfileFile, besides_cycles: u64) {
        if self.stands_for != 0 {
            let cycles = cycles_since(self.begin_cycles);
            file.count(Health::SlowCycles, self.stands_for * (cycles + besides_cycles));
        }
    }
}

/// What a part of a slow path took.
#[inline]
pub fn cycles_since(begin_cycles: u64) -> u64 {
    // A counter that went backwards gives a huge difference, and so the maximum.
    counter::cycles().wrapping_sub(begin_cycles).min(MAX_CYCLES)
}

/// What recording has cost up to the latest decision. All zero is "no window yet".
pub struct Cost {
    configured_bytes: atomic::AtomicU64,
    max_overhead_ppm: atomic::AtomicU32,
    /// Coarse clock; whoever moves it on decides.
    window_start_ns: AtomicU64,
    cycles: AtomicU64,
    cycles_ns: AtomicU64,
    /// CPU time when the present window began; 0 if it was not asked for.
    cpu_ns: AtomicU64,
    slow_cycles: AtomicU64,
    /// What threads draw with, if it is above the configured one; 0 until a window has changed it.
    interval_bytes: AtomicU64,
    /// One bit per page of the page filter: samples made it resident.
    filter_pages: [AtomicU64; FILTER_PAGES / PAGE_BYTES as usize / 64],
}

impl Cost {
    /// Where the first window begins. It does not decide: making the file and meeting each object once are most of its cost, and
    /// another interval would not lower that.
    /// Any number of threads may do so at once.
    pub fn begin(&self, config: &Config, header: &Header, now_ns: u64, stamp: Option<Stamp>) {
        let configured_bytes = config.interval_bytes.unwrap_or(0);
        self.configured_bytes.store(configured_bytes, Relaxed);
        self.max_overhead_ppm.store(config.max_overhead_ppm(), Relaxed);
        header.configured_interval_bytes.store(configured_bytes, Relaxed);
        header.max_overhead_ppm.store(config.max_overhead_ppm(), Relaxed);
        self.window_start_ns.store(now_ns, Relaxed);
        if !counter::is_readable() {
            header.flags.fetch_or(flags::UNSTEADY_CYCLES, Relaxed);
        }
        let stamp = stamp.unwrap_or_default();
        if header.start_cycles.compare_exchange(0, stamp.cycles, Relaxed, Relaxed).is_ok() {
            header.start_cycles_ns.store(stamp.ns, Relaxed);
        }
        stamp.publish(header);
        self.cycles.store(stamp.cycles, Relaxed);
        self.cycles_ns.store(stamp.ns, Relaxed);
    }

    /// A byte of the page filter was raised from 0: perhaps the first one of its page.
    pub fn count_filter_page(&self, file: &ProfileFile, address: u64) {
        let page = (address >> 12) as usize & (FILTER_PAGES - 1);
        let page = page / PAGE_BYTES as usize;
        let (word, bit) = (page / 64, 1u64 << (page % 64));
        let Some(word) = self.filter_pages.get(word) else { return };
        if word.load(Relaxed) & bit == 0 && word.fetch_or(bit, Relaxed) & bit == 0 {
            file.count(Health::FilterBytes, PAGE_BYTES);
        }
    }
}

/// Two clocks at one moment.
#[derive(Clone, Copy, Default)]
pub struct Stamp {
    cycles: u64,
    ns: u64,
}

impl Stamp {
    fn publish(self, header: &Header) {
        header.last_cycles.store(self.cycles, Relaxed);
        header.last_cycles_ns.store(self.ns, Relaxed);
    }
}

impl Recorder {
    /// The clocks, unless the thread was interrupted between them.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let cycles = counter::cycles();
        let ns = self.clock_ns(MONOTONIC);
        let is_one_moment = counter::cycles().wrapping_sub(cycles) <= MAX_STAMP_CYCLES;
        (is_one_moment && cycles != 0).then_some(Stamp { cycles, ns })
    }

    /// At the end of the process: what is known by then.
    pub(super) fn publish_stamp(&self) {
        if let Some(stamp) = self.stamp() {
            stamp.publish(self.profile().file.header());
        }
        self.profile().file.header().cpu_ns.store(sys::clock_ns(PROCESS_CPU), Relaxed);
    }

    /// The cycle counter may not be read any more: what was measured until now is not all.
    pub fn stop_measuring(&self) {
        self.profile().file.header().flags.fetch_or(flags::UNSTEADY_CYCLES, Relaxed);
    }

    /// Adds a slow path that happens once.
    pub fn charge(&self, begin_cycles: u64) {
        self.profile().file.count(Health::SlowCycles, counter::cycles().wrapping_sub(begin_cycles));
    }

    /// The interval that the governor has chosen, 0 if it has not.
    #[inline]
    pub fn interval_bytes(&self) -> u64 {
        self.cost.interval_bytes.load(Relaxed)
    }

    /// A thread has come to the end of a step of its draw.
    pub fn visit(&self) {
        self.profile().file.count(Health::SlowCycles, DRAW_CYCLES);
        self.govern(self.now_ns());
    }

    /// Ends a window, if it is time.
    #[inline]
    pub(super) fn govern(&self, now_ns: u64) {
        let start_ns = self.cost.window_start_ns.load(Relaxed);
        if now_ns.saturating_sub(start_ns) >= WINDOW_NS {
            self.end_window(start_ns, now_ns);
        }
    }

    #[cold]
    fn end_window(&self, start_ns: u64, now_ns: u64) {
        let cost = &self.cost;
        if cost.window_start_ns.compare_exchange(start_ns, now_ns, Relaxed, Relaxed).is_err() {
            return;
        }
        let begin_cycles = counter::cycles();
        let Some(stamp) = self.stamp() else { return };
        let header = self.profile().file.header();
        stamp.publish(header);
        let slow_cycles = header.health[Health::SlowCycles as usize].load(Relaxed);
        let since = |cell: &AtomicU64, now: u64| now.wrapping_sub(cell.swap(now, Relaxed)) as f64;
        let cycles = since(&cost.cycles, stamp.cycles);
        let wall_ns = since(&cost.cycles_ns, stamp.ns);
        let slow_cycles = since(&cost.slow_cycles, slow_cycles);
        let cycles_per_ns = cycles / wall_ns;
        let average = (stamp.cycles.wrapping_sub(header.start_cycles.load(Relaxed))) as f64
            / stamp.ns.saturating_sub(header.start_cycles_ns.load(Relaxed)) as f64;
        let is_steady = (cycles_per_ns - average).abs() <= average * MAX_RATE_ERROR;
        if !is_steady {
            header.flags.fetch_or(flags::UNSTEADY_CYCLES, Relaxed);
        }
        if cost.max_overhead_ppm.load(Relaxed) != 0 && PLAUSIBLE_RATES.contains(&cycles_per_ns) {
            self.decide(slow_cycles / cycles_per_ns, wall_ns);
        }
        self.charge(begin_cycles);
    }

    fn decide(&self, slow_ns: f64, wall_ns: f64) {
        let (header, cost) = (self.profile().file.header(), &self.cost);
        let cpu_ns = if governor::is_calm(slow_ns, wall_ns, cost.max_overhead_ppm.load(Relaxed)) {
            cost.cpu_ns.store(0, Relaxed);
            None
        } else {
            let cpu_ns = sys::clock_ns(PROCESS_CPU);
            header.cpu_ns.store(cpu_ns, Relaxed);
            match cost.cpu_ns.swap(cpu_ns, Relaxed) {
                // The kernel does not tell.
                _ if cpu_ns == 0 => Some(wall_ns),
                // Not known from when this window began: the next one decides.
                0 => return,
                before => Some(cpu_ns.saturating_sub(before) as f64),
            }
        };
        let usage = Usage { slow_ns, cpu_ns, wall_ns };
        let present = header.interval_bytes.load(Relaxed);
        let next = governor::next_interval(
            // The file is not trusted to lead us below what was asked for.
            present.max(cost.configured_bytes.load(Relaxed)),
            cost.configured_bytes.load(Relaxed),
            cost.max_overhead_ppm.load(Relaxed),
            &usage,
        );
        if next != present {
            cost.interval_bytes.store(next, Relaxed);
            header.interval_bytes.store(next, Relaxed);
            header.interval_changes.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_slow_paths_stand_for_all() {
        let stands_for = |number| Measurement::begin(number).stands_for;
        for count in [1, 64, 80, 64 + 16 * 1000] {
            assert_eq!((0..count).map(stands_for).sum::<u64>(), count);
        }
        // Few enough to be cheap.
        let measured = (64..6464).filter(|&number| stands_for(number) != 0).count();
        assert_eq!(measured, 400);
    }
}
