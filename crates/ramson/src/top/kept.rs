//! What the allocator keeps free, now and then: finding it takes milliseconds where an arena is small, and more where it is large.

use super::pace::{Pace, thread_cpu_time};
use crate::doctor::examine::{KeptFree, kept_free};
use ramson_process::allocators::Allocators;
use std::time::Duration;

const PAUSE: Duration = Duration::from_secs(2);
const SHARE: f64 = 0.003;
/// Where it costs more than this, it is left to `ramson doctor`: the keys would wait for it.
const MOST_COST: Duration = Duration::from_millis(100);
/// A heap that is busy may not be readable for once.
const MOST_FAILURES: u32 = 3;

pub struct Kept {
    /// Found once: they do not change while a program runs.
    allocators: Option<Allocators>,
    pace: Pace,
    failures: u32,
    last: Option<KeptFree>,
}

impl Kept {
    pub fn new() -> Self {
        Self { allocators: None, pace: Pace::new(PAUSE, SHARE), failures: 0, last: None }
    }

    /// As of the last look; `None`: not known here.
    pub fn read(&mut self, pid: u32, profile: &str) -> Option<KeptFree> {
        if self.failures < MOST_FAILURES && self.pace.is_due() {
            let (allocators, start) = (&mut self.allocators, thread_cpu_time());
            let found = self.pace.run(|| kept_free(pid, profile, allocators));
            let cost = thread_cpu_time().saturating_sub(start);
            self.failures = match found {
                _ if cost > MOST_COST => MOST_FAILURES,
                Some(_) => 0,
                None => self.failures + 1,
            };
            self.last = found.filter(|_| cost <= MOST_COST);
        }
        self.last
    }
}
