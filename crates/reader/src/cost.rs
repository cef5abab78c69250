//! Cost of recording for the program, from the counters of the header.

use crate::snapshot::Header;
use ramson_format::{Health, flags};
use std::ops::Range;

/// Cycles per nanosecond; outside, it is no cycle counter.
const PLAUSIBLE_RATES: Range<f64> = 0.05..20.0;

impl Header {
    /// Nanoseconds that samples and their frees took, in all threads together. `None`: the cycle counter cannot be converted to
    /// time (see FORMAT.md), or the process ended before it was read twice.
    pub fn slow_path_ns(&self) -> Option<f64> {
        let cycles = self.last_cycles.checked_sub(self.start_cycles)? as f64;
        let ns = self.last_cycles_ns.checked_sub(self.start_cycles_ns).filter(|&ns| ns > 0)?;
        let rate = Some(cycles / ns as f64).filter(|rate| PLAUSIBLE_RATES.contains(rate));
        let is_steady = self.flags & flags::UNSTEADY_CYCLES == 0;
        let slow_cycles = self.health[Health::SlowCycles as usize] as f64;
        rate.filter(|_| is_steady).map(|rate| slow_cycles / rate)
    }

    /// Share of `cpu_ns`, the process's CPU time, that samples and their frees took.
    pub fn overhead(&self, cpu_ns: u64) -> Option<f64> {
        let cpu_ns = Some(cpu_ns).filter(|&ns| ns > 0)? as f64;
        self.slow_path_ns().map(|slow_ns| (slow_ns / cpu_ns).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 cycles per ns; 1,000 ns of 1 ms of CPU in slow paths.
    fn header() -> Header {
        let mut health = vec![0; ramson_format::HEALTH.len()];
        health[Health::SlowCycles as usize] = 2_000;
        Header {
            health,
            start_cycles: 5_000_000,
            last_cycles: 25_000_000,
            start_cycles_ns: 1_000_000,
            last_cycles_ns: 11_000_000,
            ..Header::default()
        }
    }

    #[test]
    fn cycles_become_time() {
        assert_eq!(header().slow_path_ns(), Some(1_000.0));
        assert_eq!(header().overhead(1_000_000), Some(0.001));
    }

    #[test]
    fn unsteady_counter_gives_no_time() {
        let wrong: [fn(&mut Header); 5] = [
            |header| header.flags = flags::UNSTEADY_CYCLES,
            |header| header.last_cycles = header.start_cycles - 1,
            |header| header.last_cycles = header.start_cycles + 1_000,
            |header| header.last_cycles_ns = header.start_cycles_ns,
            |header| header.last_cycles = u64::MAX,
        ];
        for spoil in wrong {
            let mut header = header();
            spoil(&mut header);
            assert_eq!((header.slow_path_ns(), header.overhead(1)), (None, None), "{header:?}");
        }
        assert_eq!(header().overhead(0), None);
    }
}
