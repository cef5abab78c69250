//! Why a snapshot is taken: a pure decision from what can be observed cheaply, several times as often as the clock takes one.

use std::fmt;

bitflags::bitflags! {
    /// Reasons, as a set; docs/internals/history-format.md has them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Triggers: u32 {
        /// The first snapshot of a process.
        const START = 1;
        /// It was time.
        const CLOCK = 2;
        /// `Rules::every_bytes` were allocated.
        const BYTES = 4;
        /// More is live than ever before.
        const LIVE_PEAK = 8;
        /// More is resident than ever before.
        const RSS_PEAK = 16;
        /// `ramson mark`.
        const MARK = 32;
        /// The process exited.
        const EXIT = 64;
        /// It is gone without having exited.
        const DEATH = 128;
        /// Its control group is short of memory.
        const PRESSURE = 256;
    }
}

impl Triggers {
    /// Reasons that keep a snapshot as long as any is kept: all except the clock and the allocated
    /// bytes.
    pub fn is_kept(self) -> bool {
        !self.difference(Self::CLOCK | Self::BYTES).is_empty()
    }
}

impl fmt::Display for Triggers {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names = self.iter_names().map(|(name, _)| name.to_lowercase().replace('_', "-"));
        f.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

/// Distances between two snapshots, in time and in allocated bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Time between two snapshots by the clock.
    pub every_ns: u64,
    /// Allocated bytes between two snapshots.
    pub every_bytes: Option<u64>,
}

/// Figures of a process at one moment, by its header and the kernel. Samples times the interval estimate bytes; closer if blocks are small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples freed.
    pub frees: u64,
    /// Mean bytes between samples.
    pub interval_bytes: u64,
    /// Resident bytes, where they can be read.
    pub rss: Option<u64>,
    /// How often its cgroup met a bound of its memory.
    pub limit_events: u64,
    /// Whether tasks of its cgroup wait for memory for a substantial part of the time.
    pub is_stalled: bool,
}

/// Figures that were seen of one process.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    last: Observation,
    /// When the clock last took one.
    clock_ns: u64,
    /// Bytes allocated since they last were the reason, about.
    allocated: u64,
    live_peak: u64,
    rss_peak: u64,
    /// When its cgroup was last seen under pressure.
    pressed_ns: Option<u64>,
}

/// A high-water mark is new if it is higher by this part, so that growth from 1 MiB to 1 TiB has at most 1,400 of them.
const PEAK_STEP: u64 = 100;
/// And by this much: RSS of small programs changes by a page all the time.
const LEAST_RSS_STEP: u64 = 1 << 20;
/// Pressure is new if there was none for so long: a cgroup may live at its bound for days.
const CALM_NS: u64 = 60_000_000_000;

impl Watch {
    /// Begins with a first observation, which is the reason for a first snapshot.
    pub fn new(first: Observation) -> Self {
        Self {
            last: first,
            clock_ns: first.time_ns,
            live_peak: live(&first),
            rss_peak: first.rss.unwrap_or(0),
            ..Self::default()
        }
    }

    /// Why there should be a snapshot now.
    pub fn observe(&mut self, now: Observation, rules: &Rules) -> Triggers {
        let mut why = Triggers::empty();
        let mut add = |is_so: bool, trigger: Triggers| {
            if is_so {
                why |= trigger;
            }
            is_so
        };
        let every_ns = rules.every_ns.max(1);
        if add(now.time_ns / every_ns != self.clock_ns / every_ns, Triggers::CLOCK) {
            self.clock_ns = now.time_ns;
        }
        let more = now.samples.saturating_sub(self.last.samples);
        self.allocated += more.saturating_mul(now.interval_bytes);
        let is_enough = |bytes: u64| self.allocated >= bytes.max(1);
        if add(rules.every_bytes.is_some_and(is_enough), Triggers::BYTES) {
            self.allocated = 0;
        }
        let live = live(&now);
        let least = self.live_peak + self.live_peak / PEAK_STEP + now.interval_bytes;
        if add(live > least, Triggers::LIVE_PEAK) {
            self.live_peak = live;
        }
        let rss = now.rss.unwrap_or(0);
        let step = (self.rss_peak / PEAK_STEP).max(LEAST_RSS_STEP);
        if add(rss > self.rss_peak + step, Triggers::RSS_PEAK) {
            self.rss_peak = rss;
        }
        if now.limit_events > self.last.limit_events || now.is_stalled {
            let was_pressed = self.pressed_ns.replace(now.time_ns);
            let is_new = was_pressed.is_none_or(|then| now.time_ns.saturating_sub(then) >= CALM_NS);
            add(is_new, Triggers::PRESSURE);
        }
        self.last = now;
        why
    }
}

fn live(of: &Observation) -> u64 {
    of.samples.saturating_sub(of.frees).saturating_mul(of.interval_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { every_ns: 10_000, every_bytes: Some(1_000) };

    fn observe(watch: &mut Watch, change: impl FnOnce(&mut Observation)) -> String {
        let mut now = watch.last;
        change(&mut now);
        watch.observe(now, &RULES).to_string()
    }

    #[test]
    fn each_reason_is_found_once() {
        let first = Observation {
            time_ns: 5_000,
            samples: 200,
            frees: 100,
            interval_bytes: 10,
            rss: Some(200 << 20),
            ..Observation::default()
        };
        let mut watch = Watch::new(first);
        assert_eq!(observe(&mut watch, |_| {}), "");
        assert_eq!(observe(&mut watch, |now| now.time_ns = 10_000), "clock");
        assert_eq!(observe(&mut watch, |now| now.time_ns = 19_999), "");
        // 990 bytes, then 1,000; all of it freed again.
        assert_eq!(observe(&mut watch, |now| (now.samples, now.frees) = (299, 199)), "");
        assert_eq!(observe(&mut watch, |now| (now.samples, now.frees) = (300, 200)), "bytes");
        // Live 1,000: by one percent and one interval more.
        assert_eq!(observe(&mut watch, |now| now.samples += 2), "");
        assert_eq!(observe(&mut watch, |now| now.samples += 1), "live-peak");
        assert_eq!(observe(&mut watch, |now| now.rss = Some(202 << 20)), "");
        assert_eq!(observe(&mut watch, |now| now.rss = Some(203 << 20)), "rss-peak");
        assert_eq!(observe(&mut watch, |now| now.rss = None), "");
        assert_eq!(observe(&mut watch, |now| now.limit_events = 3), "pressure");
        assert_eq!(observe(&mut watch, |_| {}), "");
    }

    #[test]
    fn lasting_pressure_triggers_once() {
        let rules = Rules { every_ns: u64::MAX, every_bytes: None };
        let mut watch = Watch::new(Observation::default());
        let mut at = |seconds: u64, limit_events, is_stalled| {
            let time_ns = seconds * 1_000_000_000;
            let now = Observation { time_ns, limit_events, is_stalled, ..watch.last };
            watch.observe(now, &rules).contains(Triggers::PRESSURE)
        };
        assert!(!at(1, 0, false) && at(2, 1, false) && !at(3, 2, false));
        assert!(!at(50, 2, true) && !at(109, 3, false));
        assert!(!at(168, 3, false) && at(169, 4, false));
        assert!(!at(170, 4, false) && at(300, 4, true) && !at(301, 4, true));
    }

    #[test]
    fn clock_and_bytes_keep_nothing() {
        assert!(!(Triggers::CLOCK | Triggers::BYTES).is_kept());
        assert!((Triggers::CLOCK | Triggers::MARK).is_kept());
        assert_eq!((Triggers::CLOCK | Triggers::PRESSURE).to_string(), "clock,pressure");
    }
}
