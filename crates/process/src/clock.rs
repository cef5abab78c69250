//! The clocks behind the times of profiles, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, which the times of samples are of.
pub fn monotonic_ns() -> u64 {
    ns(ClockId::Monotonic)
}

/// CLOCK_BOOTTIME, which the kernel's times of processes are of.
pub fn since_boot_ns() -> u64 {
    ns(ClockId::Boottime)
}

/// CPU time that this thread has spent, in ns.
pub fn thread_cpu_ns() -> u64 {
    ns(ClockId::ThreadCPUTime)
}

/// Since 1970.
pub fn unix_ns() -> u64 {
    ns(ClockId::Realtime)
}

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
