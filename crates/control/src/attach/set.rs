//! A process that has libramson is told to sample otherwise. Nothing is stopped: its threads look by themselves.

use super::bounded::Allowance;
use super::guest::Guest;
use super::loader::{Loader, RESTART};
use super::number;
use crate::outside::{self, refused, with_process};
use ramson_format::control::{LOOK_BYTES, LOOK_BYTES_PAUSED, Orders};
use ramson_format::{DEFAULT_MAX_OVERHEAD_PPM, flags};
use ramson_inject::Process;
use ramson_process::{ProcessMemory, clock, read_smaps};
use ramson_source::{Failure, Target, gone};
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Settings to change; `None` stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// Mean bytes from one sample to the next.
    pub interval_bytes: Option<u64>,
    /// Bound of the CPU time of samples, in millionths; 0 is none.
    pub max_overhead_ppm: Option<u32>,
    /// Whether samples are taken.
    pub is_on: Option<bool>,
    /// After that none are.
    pub duration: Option<Duration>,
}

/// How a process samples from now on.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Set {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Whether samples are taken.
    pub is_on: bool,
    /// Mean bytes from one sample to the next, unless the overhead bound raises it.
    pub interval_bytes: u64,
    /// Bound of the CPU time of samples, in millionths; 0 is none.
    pub max_overhead_ppm: u32,
    /// After so long no samples are taken any more.
    pub for_ms: Option<f64>,
    /// A thread takes note after so much of its own allocation at most.
    pub noticed_within_bytes: u64,
}

/// Changes it.
pub fn set(target: &Target, changes: &Changes) -> Result<Set, Failure> {
    with_process(target, |process| order(target, &process, changes))
}

fn order(target: &Target, process: &Arc<Process>, changes: &Changes) -> Result<Set, Failure> {
    let areas = read_smaps(target.pid).map_err(|_| gone(target))?;
    let denied = |error: io::Error| outside::failure(target, error.into());
    let memory = ProcessMemory::open(target.pid).map_err(denied)?;
    let loader = Loader::find(target, &areas)?;
    let absent = || {
        let next = format!("\"ramson attach {}\" records it from now on", target.pid);
        refused(target, "it is not recorded", &next)
    };
    let allowance = Allowance::of(target.pid);
    let (guest, _) = Guest::of(target, process, &memory, &allowance, &loader)?;
    let guest = guest.ok_or_else(absent)?;
    let state = guest.state(target, &memory)?;
    if state.is_attached && state.patched == 0 {
        return Err(absent());
    }
    let header = target.profile.as_ref().map(|recording| &recording.snapshot.header);
    if state.orders.is_none() && header.is_none() {
        let why = "it was started with libramson.so, but has recorded nothing (yet)";
        return Err(refused(target, why, RESTART));
    }
    let recorded = Orders {
        interval_bytes: header.map_or(0, |header| header.configured_interval_bytes),
        max_overhead_ppm: header.map_or(DEFAULT_MAX_OVERHEAD_PPM, |header| header.max_overhead_ppm),
        is_off: header.is_some_and(|header| header.flags & flags::PAUSED != 0),
        until_monotonic_ns: 0,
        number: 0,
    };
    let now = state.orders.unwrap_or(recorded);
    let orders = changed(&now, changes);
    guest.order(target, &orders)?;
    let was_over = now.is_off || (1..=clock::monotonic_ns()).contains(&now.until_monotonic_ns);
    let left_ns = orders.until_monotonic_ns.checked_sub(clock::monotonic_ns());
    Ok(Set {
        pid: target.pid,
        name: target.name.clone(),
        is_on: !orders.is_off,
        interval_bytes: orders.interval_bytes,
        max_overhead_ppm: orders.max_overhead_ppm,
        for_ms: left_ns.map(|ns| Duration::from_nanos(ns).as_millis() as f64),
        noticed_within_bytes: if was_over { LOOK_BYTES_PAUSED } else { LOOK_BYTES },
    })
}

fn changed(now: &Orders, changes: &Changes) -> Orders {
    let interval_bytes = changes.interval_bytes.unwrap_or(now.interval_bytes.max(1));
    // A bound that was not asked for is none where everything is recorded, as at the start.
    let is_all = changes.interval_bytes == Some(1);
    let bound = if is_all { 0 } else { now.max_overhead_ppm };
    // To switch on is to do so for good, or for the time that is given.
    let kept_ns = if changes.is_on.is_some() { 0 } else { now.until_monotonic_ns };
    let until = changes.duration.map(|time| clock::monotonic_ns() + time.as_nanos() as u64);
    Orders {
        interval_bytes,
        max_overhead_ppm: changes.max_overhead_ppm.unwrap_or(bound),
        is_off: changes.is_on.map_or(now.is_off, |is_on| !is_on),
        until_monotonic_ns: until.unwrap_or(kept_ns),
        number: number(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_orders_keep_their_values() {
        let now = Orders {
            interval_bytes: 512 << 10,
            max_overhead_ppm: 10_000,
            is_off: true,
            until_monotonic_ns: 5,
            number: 1,
        };
        let to = |changes: Changes| changed(&now, &changes);
        let on = to(Changes { is_on: Some(true), ..Changes::default() });
        assert_eq!((on.is_off, on.until_monotonic_ns, on.interval_bytes), (false, 0, 512 << 10));
        let all = to(Changes { interval_bytes: Some(1), ..Changes::default() });
        assert_eq!((all.interval_bytes, all.max_overhead_ppm, all.is_off), (1, 0, true));
        assert_eq!(all.until_monotonic_ns, 5);
        let bound = Changes { max_overhead_ppm: Some(7), ..Changes::default() };
        assert_eq!((to(bound).max_overhead_ppm, to(bound).interval_bytes), (7, 512 << 10));
    }
}
