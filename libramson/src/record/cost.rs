//! Measures what samples cost the program, window by window, for the governor.

use super::Recorder;
use super::file::ProfileFile;
use super::meter::Path;
use crate::config::Config;
use crate::governor::{self, Demand, Recent, Settings, WINDOW_NS, Window};
use crate::page_filter::FILTER_PAGES;
use crate::{counter, sys};
use core::sync::atomic::{self, Ordering::*};
use ramson_format::atomic::AtomicU64;
use ramson_format::control::Orders;
use ramson_format::{Header, Health, PAGE_BYTES, flags};

/// The precise clock: a window is short.
const MONOTONIC: usize = 1;
const PROCESS_CPU: usize = 2;

/// The counter and the clock belong together if no more cycles go by while they are read.
const MAX_STAMP_CYCLES: u64 = 1 << 15;
/// Cycles per nanosecond; outside, it is no cycle counter.
const PLAUSIBLE_RATES: core::ops::Range<f64> = 0.05..20.0;
/// A window's rate differs from that since the start by no more, if the counter is steady.
const MAX_RATE_ERROR: f64 = 0.125;

/// A window takes so many times what a decision costs: the kernel adds up the CPU time of all threads, which takes a millisecond for thousands of them.
const DECISIONS_PER_WINDOW: f64 = 1000.0;
const MOST_WINDOW_NS: f64 = 1e9;

/// Measurements that the governor decides by. All zero is "no window yet". Two threads that end a window at once may mix two windows up: the mixture
/// is forgotten within a second.
pub struct Cost {
    configured_bytes: atomic::AtomicU64,
    max_overhead_ppm: atomic::AtomicU32,
    /// Coarse clock; the thread that moves it on decides.
    window_start_ns: AtomicU64,
    /// How long a window is, if a decision costs so much that WINDOW_NS is too short.
    window_ns: AtomicU64,
    cycles: AtomicU64,
    cycles_ns: AtomicU64,
    samples: AtomicU64,
    /// Sum of the intervals that the samples of the present window were drawn with.
    drawn_bytes: AtomicU64,
    frees: AtomicU64,
    looks: AtomicU64,
    /// CPU time when the present window began; 0: samples are so few that it was not asked for.
    cpu_ns: AtomicU64,
    recent: [[AtomicU64; 4]; 2],
    /// Interval that threads draw with, if it is above the configured one; 0 until a window has changed it.
    interval_bytes: AtomicU64,
    /// One bit per page of the page filter: samples made it resident.
    filter_pages: [AtomicU64; FILTER_PAGES / PAGE_BYTES as usize / 64],
}

impl Cost {
    /// Begins the first window. It does not decide: making the file and meeting each object once are most of its cost, and another interval would not
    /// lower that. Any number of threads may do so at once.
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

    fn recent(&self) -> Recent {
        self.recent.each_ref().map(|sums| {
            let sum = |index: usize| f64::from_bits(sums[index].load(Relaxed));
            Demand { samples: sum(0), slow_ns: sum(1), program_ns: sum(2), wall_ns: sum(3) }
        })
    }

    fn keep(&self, recent: &Recent) {
        for (to, from) in self.recent.iter().zip(recent) {
            let sums = [from.samples, from.slow_ns, from.program_ns, from.wall_ns];
            to.iter().zip(sums).for_each(|(to, sum)| to.store(sum.to_bits(), Relaxed));
        }
    }

    /// A byte of the page filter was raised from 0: perhaps the first one of its page.
    pub fn count_filter_page(&self, file: &ProfileFile, address: u64) {
        let byte = (address >> 12) as usize & (FILTER_PAGES - 1);
        let page = byte / PAGE_BYTES as usize;
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
        let header = self.profile().file.header();
        header.cpu_ns.store(sys::clock_ns(PROCESS_CPU), Relaxed);
        header.last_monotonic_ns.store(self.now_ns(), Relaxed);
    }

    /// Takes what was ordered: from now on that is what was configured, and the governor knows nothing yet.
    #[cold]
    pub fn obey(&self, orders: &Orders) {
        let cost = &self.cost;
        let header = self.profile().file.header();
        let Orders { interval_bytes, max_overhead_ppm, until_monotonic_ns, is_off, .. } = *orders;
        let configured_bytes = cost.configured_bytes.swap(interval_bytes, Relaxed);
        let bound_ppm = cost.max_overhead_ppm.swap(max_overhead_ppm, Relaxed);
        header.configured_interval_bytes.store(interval_bytes, Relaxed);
        header.max_overhead_ppm.store(max_overhead_ppm, Relaxed);
        // When sampling ends, or ended.
        let now_ns = self.now_ns();
        let before_ns = header.until_monotonic_ns.load(Relaxed);
        let was_over = before_ns != 0 && before_ns <= now_ns;
        let until_ns = match (is_off, until_monotonic_ns) {
            (true, _) if was_over => before_ns,
            (true, 0) => now_ns,
            (true, until_ns) => until_ns.min(now_ns),
            (false, until_ns) => until_ns,
        };
        // One of the threads that come here at once finds what was there before.
        let is_first = header.until_monotonic_ns.swap(until_ns, Relaxed) == before_ns;
        if was_over && !is_off && is_first {
            header.unsampled_ns.fetch_add(now_ns - before_ns, Relaxed);
            header.resumed_monotonic_ns.store(now_ns, Relaxed);
        }
        if is_off {
            header.flags.fetch_or(flags::PAUSED, Relaxed);
        } else {
            header.flags.fetch_and(!flags::PAUSED, Relaxed);
        }
        let is_other = configured_bytes != interval_bytes;
        if is_other || bound_ppm != max_overhead_ppm {
            cost.keep(&Recent::default());
            cost.cpu_ns.store(0, Relaxed);
            cost.interval_bytes.store(0, Relaxed);
            let present_bytes = header.interval_bytes.swap(interval_bytes, Relaxed);
            header.interval_changes.fetch_add((present_bytes != interval_bytes).into(), Relaxed);
            header.interval_orders.fetch_add(is_other.into(), Relaxed);
        }
    }

    /// The cycle counter may not be read any more: what was measured until now is not all.
    pub fn stop_measuring(&self) {
        self.profile().file.header().flags.fetch_or(flags::UNSTEADY_CYCLES, Relaxed);
    }

    /// Adds what happens once in a process.
    pub fn charge(&self, begin_cycles: u64) {
        self.profile().file.count_once(begin_cycles);
    }

    /// Counts a sample's draw, for the governor.
    #[inline]
    pub fn count_draw(&self, drawn_with: u64) {
        self.cost.drawn_bytes.fetch_add(drawn_with, Relaxed);
    }

    /// The interval that the governor has chosen, 0 if it has not.
    #[inline]
    pub fn interval_bytes(&self) -> u64 {
        self.cost.interval_bytes.load(Relaxed)
    }

    /// Whether it is time for a decision.
    pub fn is_window_over(&self) -> bool {
        self.is_window_over_at(self.now_ns())
    }

    #[inline]
    pub(super) fn is_window_over_at(&self, now_ns: u64) -> bool {
        let window_ns = WINDOW_NS.max(self.cost.window_ns.load(Relaxed));
        now_ns.saturating_sub(self.cost.window_start_ns.load(Relaxed)) >= window_ns
    }

    /// A thread has come to the end of a step of its draw when a window was over.
    pub fn visit(&self) {
        self.govern(self.now_ns());
    }

    /// Ends a window, if it is time.
    #[inline]
    pub(super) fn govern(&self, now_ns: u64) {
        if self.is_window_over_at(now_ns) {
            self.end_window(now_ns);
        }
    }

    #[cold]
    fn end_window(&self, now_ns: u64) {
        let cost = &self.cost;
        // One of several threads decides.
        if now_ns <= cost.window_start_ns.fetch_max(now_ns, Relaxed) {
            return;
        }
        let begin_cycles = counter::cycles();
        let Some(stamp) = self.stamp() else { return };
        let header = self.profile().file.header();
        stamp.publish(header);
        // The nursery's counts may come to the file later.
        let since = |cell: &AtomicU64, now: u64| now.saturating_sub(cell.swap(now, Relaxed)) as f64;
        let counted = |kind: Health| header.health[kind as usize].load(Relaxed);
        let cycles = since(&cost.cycles, stamp.cycles);
        let wall_ns = since(&cost.cycles_ns, stamp.ns);
        let samples = since(&cost.samples, counted(Health::Samples));
        let drawn_bytes = cost.drawn_bytes.swap(0, Relaxed) as f64;
        let frees = since(&cost.frees, counted(Health::Frees));
        let looks = since(&cost.looks, self.profile().file.looks());
        let cycles_per_ns = cycles / wall_ns;
        let average = (stamp.cycles.wrapping_sub(header.start_cycles.load(Relaxed))) as f64
            / stamp.ns.saturating_sub(header.start_cycles_ns.load(Relaxed)) as f64;
        let is_steady = (cycles_per_ns - average).abs() <= average * MAX_RATE_ERROR;
        if !is_steady {
            header.flags.fetch_or(flags::UNSTEADY_CYCLES, Relaxed);
        }
        if cost.max_overhead_ppm.load(Relaxed) != 0 && PLAUSIBLE_RATES.contains(&cycles_per_ns) {
            let slow_ns = self.slow_cycles(samples, frees, looks) / cycles_per_ns;
            self.decide(Window { samples, drawn_bytes, slow_ns, cpu_ns: 0.0, wall_ns }, stamp);
        }
        self.profile().file.count_path(Path::Decision, begin_cycles);
        if PLAUSIBLE_RATES.contains(&cycles_per_ns) {
            let decision_ns = self.profile().file.mean_cycles(Path::Decision) / cycles_per_ns;
            let window_ns = (decision_ns * DECISIONS_PER_WINDOW).min(MOST_WINDOW_NS);
            cost.window_ns.store(window_ns as u64, Relaxed);
        }
    }

    /// Returns the cycles that so many samples, frees and looks cost, as far as a larger interval would lower them. Frees beyond the samples are of
    /// samples taken before, perhaps under a shorter interval. Looks beyond both are for extents, or for frees of blocks that are none.
    pub(super) fn slow_cycles(&self, samples: f64, frees: f64, looks: f64) -> f64 {
        let mean = |path: Path| self.profile().file.mean_cycles(path);
        let frees = frees.min(samples);
        let looks = looks.min(samples + frees);
        samples * mean(Path::Sample) + frees * mean(Path::Free) + looks * mean(Path::Look)
    }

    /// The file is not trusted to lead us below what was asked for.
    fn present_bytes(&self) -> u64 {
        let configured_bytes = self.cost.configured_bytes.load(Relaxed);
        self.profile().file.header().interval_bytes.load(Relaxed).max(configured_bytes)
    }

    fn decide(&self, window: Window, now: Stamp) {
        let header = self.profile().file.header();
        let cost = &self.cost;
        let present = self.present_bytes();
        let settings = Settings {
            configured_bytes: cost.configured_bytes.load(Relaxed),
            max_overhead_ppm: cost.max_overhead_ppm.load(Relaxed),
        };
        let is_known = cost.cpu_ns.load(Relaxed) != 0;
        if !is_known && !governor::is_busy(&window, settings) {
            return;
        }
        let cpu_ns = match sys::clock_ns(PROCESS_CPU) {
            // The kernel does not tell.
            0 => now.ns,
            ns => {
                header.cpu_ns.store(ns, Relaxed);
                ns
            }
        };
        let before_ns = cost.cpu_ns.swap(cpu_ns, Relaxed);
        if before_ns == 0 {
            // Not known from when this window began: the next one decides.
            return;
        }
        let window = Window { cpu_ns: cpu_ns.saturating_sub(before_ns) as f64, ..window };
        let mut recent = cost.recent();
        governor::remember(&mut recent, &window, settings);
        let next = governor::next_interval(&recent, present, settings);
        if next == settings.configured_bytes && governor::is_calm(&recent) {
            recent = Recent::default();
            cost.cpu_ns.store(0, Relaxed);
        }
        cost.keep(&recent);
        if next != present {
            cost.interval_bytes.store(next, Relaxed);
            header.interval_bytes.store(next, Relaxed);
            header.interval_changes.fetch_add(1, Relaxed);
        }
    }
}
