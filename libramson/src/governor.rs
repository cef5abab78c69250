//! The governor: which sampling interval keeps the share of CPU time that samples take under a bound.
//!
//! Samples per second, and with them their cost c, are inversely proportional to the interval, as long as allocations are smaller
//! than it. With a share x the program's own time is c·(1 − x)/x; so the interval that leads from share x to share y is larger by
//! the ratio of the odds x/(1 − x) and y/(1 − y). Where allocations are larger than the interval, the first steps do less
//! than that, and the next windows go on.
//!
//! The interval follows from the past alone, so estimates stay unbiased (docs/sampling.md).

/// Shortest time between two decisions.
pub const WINDOW_NS: u64 = 100_000_000;
/// Beyond this, the interval is not raised.
const MOST_BYTES: u64 = 1 << 40;
/// One window may mislead: it raises the interval by no more than this …
const MOST_RAISE: f64 = 16.0;
/// … and lowers it by no more, so that storms which come and go are not recorded at full rate each time.
const MOST_FALL: f64 = 4.0;
/// Share that is aimed at, and share below which there is room, both of the bound: between them and the bound nothing changes.
const AIM: f64 = 0.7;
const ROOM: f64 = 0.4;
/// A process has at least this part of the time to spare: where it is idle, a few samples are no matter.
const LEAST_CPU_SHARE: f64 = 0.1;

/// What a window saw.
pub struct Usage {
    /// In samples.
    pub slow_ns: f64,
    /// Of all threads; `None` if it was not asked for, as the window was calm.
    pub cpu_ns: Option<f64>,
    pub wall_ns: f64,
}

impl Usage {
    /// Share of the process's CPU time that samples took, or what it is at most.
    fn share(&self) -> f64 {
        let least_ns = self.wall_ns * LEAST_CPU_SHARE;
        self.slow_ns / self.cpu_ns.map_or(least_ns, |cpu_ns| cpu_ns.max(least_ns))
    }
}

/// Whether samples are under the bound however little CPU time the process had. Then there is no need to ask the kernel for it: a
/// system call that a sandboxed program may not be allowed.
pub fn is_calm(slow_ns: f64, wall_ns: f64, max_overhead_ppm: u32) -> bool {
    slow_ns <= max_overhead_ppm as f64 / 1e6 * wall_ns * LEAST_CPU_SHARE
}

/// The interval for the next window, after one with `present_bytes`.
pub fn next_interval(
    present_bytes: u64,
    configured_bytes: u64,
    max_overhead_ppm: u32,
    usage: &Usage,
) -> u64 {
    let bound = max_overhead_ppm as f64 / 1e6;
    let share = usage.share();
    let odds = |share: f64| share / (1.0 - share);
    let factor = odds(share.min(0.999)) / odds(bound * AIM);
    let factor = if share > bound {
        factor.clamp(1.0, MOST_RAISE)
    } else if share < bound * ROOM {
        factor.max(1.0 / MOST_FALL)
    } else {
        return present_bytes;
    };
    // Up, so that an interval of 1 byte can leave it.
    let wanted = libm::ceil(present_bytes as f64 * factor) as u64;
    wanted.clamp(configured_bytes, MOST_BYTES.max(configured_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURED: u64 = 4096;
    const BOUND_PPM: u32 = 10_000;

    /// A window of 100 ms of a program that spends `rest_ns` of CPU beside `samples` at 300 ns.
    fn usage(samples: f64, rest_ns: f64) -> Usage {
        let slow_ns = samples * 300.0;
        Usage { slow_ns, cpu_ns: Some(slow_ns + rest_ns), wall_ns: 1e8 }
    }

    /// The interval and share after each of 12 windows of a program that allocates objects of `size` at `rate` per ns of its own time.
    fn windows(start: u64, size: f64, rate: f64) -> Vec<(u64, f64)> {
        let mut present = start;
        let windows = (0..12).map(|_| {
            let probability = 1.0 - (-size / present as f64).exp();
            // A CPU that is busy all the time is shared between the program and its samples.
            let cost = rate * probability * 300.0;
            let usage = usage(1e8 / (1.0 + cost) * rate * probability, 1e8 / (1.0 + cost));
            let share = usage.share();
            present = next_interval(present, CONFIGURED, BOUND_PPM, &usage);
            (present, share)
        });
        windows.collect()
    }

    #[test]
    fn a_storm_of_any_size_is_under_the_bound_within_six_windows_and_stays_there() {
        for size in [16.0, 1024.0, 65_536.0, 1_048_576.0] {
            let windows = windows(CONFIGURED, size, 0.05);
            assert!(windows[0].1 > 0.05, "{size}: no storm");
            assert!(windows[6..].iter().all(|&(_, share)| share <= 0.01), "{size}: {windows:?}");
            // No more than needed.
            assert!(windows[11].1 > 0.003, "{size}: {windows:?}");
        }
    }

    #[test]
    fn the_configured_interval_comes_back_when_the_storm_is_over() {
        let windows = windows(64 << 20, 64.0, 1e-6);
        assert_eq!(windows[11].0, CONFIGURED);
        assert!(windows.iter().all(|&(_, share)| share <= 0.01));
    }

    #[test]
    fn within_the_bound_nothing_changes() {
        for share in [0.0, 0.001, 0.0099] {
            let usage = Usage { slow_ns: share * 1e8, cpu_ns: Some(1e8), wall_ns: 1e8 };
            assert_eq!(next_interval(CONFIGURED, CONFIGURED, BOUND_PPM, &usage), CONFIGURED);
        }
        let usage = Usage { slow_ns: 0.005 * 1e8, cpu_ns: Some(1e8), wall_ns: 1e8 };
        assert_eq!(next_interval(1 << 20, CONFIGURED, BOUND_PPM, &usage), 1 << 20);
    }

    #[test]
    fn an_idle_process_has_a_tenth_of_the_time_to_spare() {
        let idle = Usage { slow_ns: 9e4, cpu_ns: Some(1e5), wall_ns: 1e8 };
        assert_eq!(next_interval(CONFIGURED, CONFIGURED, BOUND_PPM, &idle), CONFIGURED);
    }

    #[test]
    fn a_calm_window_never_raises_the_interval_and_may_lower_it() {
        for (slow_ns, next) in [(1e5, 1 << 20), (3e4, 1 << 19)] {
            assert!(is_calm(slow_ns, 1e8, BOUND_PPM));
            let usage = Usage { slow_ns, cpu_ns: None, wall_ns: 1e8 };
            let found = next_interval(1 << 20, CONFIGURED, BOUND_PPM, &usage);
            assert!((next / 2..=next).contains(&found), "{found}");
        }
        assert!(!is_calm(1.01e5, 1e8, BOUND_PPM));
    }

    #[test]
    fn every_interval_can_rise_and_has_an_end() {
        let all = Usage { slow_ns: 1e8, cpu_ns: Some(1e8), wall_ns: 1e8 };
        let slightly_too_much = Usage { slow_ns: 1.01e6, ..all };
        assert_eq!(next_interval(1, 1, BOUND_PPM, &slightly_too_much), 2);
        assert_eq!(next_interval(MOST_BYTES, 1, BOUND_PPM, &all), MOST_BYTES);
        assert_eq!(next_interval(1 << 45, 1 << 45, BOUND_PPM, &all), 1 << 45);
    }
}
