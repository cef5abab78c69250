//! How often something is done, so that it takes no more than its share of one core.

use ramson_apart::for_process;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// A thing that is done again and again.
pub struct Pace {
    /// At least this apart.
    least: Duration,
    /// Largest share of one core's time, 0 to 1.
    share: f64,
    next: Instant,
}

impl Pace {
    /// Due at once.
    pub fn new(least: Duration, share: f64) -> Self {
        Self { least, share, next: Instant::now() }
    }

    /// When it is due.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Whether it is time.
    pub fn is_due(&self) -> bool {
        self.next <= Instant::now()
    }

    /// Does it, and puts the next time off by what it cost.
    pub fn run<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let before = thread_cpu_time();
        let done = work();
        self.next = start + self.pause(thread_cpu_time().saturating_sub(before));
        done
    }

    /// Does it for a process, `times` times dearer than it is by itself.
    pub fn run_for<T>(&mut self, pid: u32, times: usize, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let before = thread_cpu_time();
        let done = work();
        // The CPU time of a worker is not this thread's CPU time.
        let cost = match for_process(pid) {
            None => thread_cpu_time().saturating_sub(before),
            Some(_) => start.elapsed(),
        };
        self.next = start + self.pause(cost * times as u32);
        done
    }

    /// Not again too soon after it was done for so much.
    pub fn put_off(&mut self, cost: Duration) {
        self.next = Instant::now() + self.pause(cost);
    }

    /// Until the next time, after one that cost so much.
    pub fn pause(&self, cost: Duration) -> Duration {
        const MOST: Duration = Duration::from_secs(600);
        self.least.max(cost.div_f64(self.share).min(MOST))
    }
}

/// Returns the CPU time that this thread has spent.
pub fn thread_cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_keeps_its_share() {
        let pace = Pace::new(Duration::from_millis(250), 0.01);
        assert_eq!(pace.pause(Duration::from_millis(2)), Duration::from_millis(250));
        assert_eq!(pace.pause(Duration::from_millis(20)), Duration::from_secs(2));
        assert_eq!(pace.pause(Duration::from_millis(700)), Duration::from_secs(70));
        assert_eq!(pace.pause(Duration::from_secs(20)), Duration::from_secs(600));
    }
}
