//! The sampling interval: as asked for, as the overhead bound moved it, and what that cost in certainty.

use ramson_process::clock::monotonic_ns;
use ramson_profile::format::{format_bytes, format_percent};
use ramson_profile::{Estimate, SampleUnit, sampling_probability};
use ramson_reader::{Header, LiveSample};
use ramson_source::Recording;

/// The governor forgets what is older: with the next allocations the interval that was asked for is in force.
const MEMORY_NS: u64 = 1_000_000_000;
/// A larger inverse probability tells which interval it comes from, also where a history has rounded it.
const LEAST_TELLING: f64 = 1.01;
/// A smaller widening is not worth a word.
const LEAST_WIDENING: f64 = 0.005;

/// Which interval was in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intervals {
    /// Sampling interval as asked for; 0: not known.
    pub configured_bytes: u64,
    /// Interval in force at the moment that is shown.
    pub present_bytes: u64,
    /// The largest that a live sample was taken under.
    pub most_bytes: u64,
    /// Half-width of the live bytes' 95% interval over the one at the configured interval, minus 1.
    pub widening: f64,
    /// The largest interval may have been asked for earlier, and not come from the overhead bound.
    pub was_set: bool,
}

impl Intervals {
    /// Returns the intervals of a recording.
    pub fn of(recording: &Recording) -> Self {
        let header = &recording.snapshot.header;
        let live = &recording.snapshot.live;
        let now_ns = recording.running.map(|_| monotonic_ns());
        let present_bytes = present_bytes(header, now_ns);
        let configured_bytes = header.configured_interval_bytes;
        let most_bytes = live.iter().filter_map(taken_under).max().unwrap_or(0);
        // A sum has fewer live samples, of larger weights, but no interval was raised for that.
        let is_known = configured_bytes > 0 && header.processes == 0;
        let widening = if is_known { widening(live, configured_bytes) } else { 0.0 };
        let was_set = header.interval_orders > 0;
        Self { configured_bytes, present_bytes, most_bytes, widening, was_set }
    }
}

/// As the first line of a report has it.
impl std::fmt::Display for Intervals {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let text = |bytes: u64| format_bytes(bytes as f64);
        let is_raised = (1..self.present_bytes).contains(&self.configured_bytes);
        let is_wider = self.widening >= LEAST_WIDENING;
        let bound = "for the overhead target";
        let [configured, present, most] =
            [self.configured_bytes, self.present_bytes, self.most_bytes].map(text);
        let widening = format_percent(self.widening, 1.0);
        let wider = format!("± of live is {widening} wider than with {configured} from the start");
        match (is_raised, is_wider) {
            (true, true) => write!(f, "{configured} (raised to {present} {bound}; {wider})"),
            (true, false) => write!(f, "{configured} (raised to {present} {bound})"),
            (false, true) if self.was_set => write!(f, "{present} (before that {most}; {wider})"),
            (false, true) => write!(f, "{present} (at times raised to {most} {bound}; {wider})"),
            (false, false) => f.write_str(&present),
        }
    }
}

/// `now_ns` of a process that runs.
fn present_bytes(header: &Header, now_ns: Option<u64>) -> u64 {
    let is_forgotten =
        now_ns.is_some_and(|now_ns| now_ns.saturating_sub(header.last_cycles_ns) > MEMORY_NS);
    match header.configured_interval_bytes {
        configured if configured > 0 && is_forgotten => configured,
        _ => header.interval_bytes,
    }
}

/// The interval that a sample's weight comes from: T = −s/ln(1 − p).
fn taken_under(sample: &LiveSample) -> Option<u64> {
    let inverse = sample.inverse_probability;
    (inverse >= LEAST_TELLING)
        .then(|| (-(sample.size as f64) / (-1.0 / inverse).ln_1p()).round() as u64)
}

/// See `Intervals::widening`. Each sample stands for 1/p allocations of its size; at the configured interval each of them would add
/// s²·(1 − p)/p to the variance (docs/internals/sampling.md), with the p of that interval.
fn widening(live: &[LiveSample], configured_bytes: u64) -> f64 {
    let variances = live.iter().map(|sample| {
        let &LiveSample { size, inverse_probability: inverse, .. } = sample;
        let actual = Estimate::of_sample(size, inverse, SampleUnit::Bytes).variance;
        let probability = sampling_probability(size, configured_bytes);
        let each = (size as f64).powi(2) * (1.0 - probability) / probability;
        (actual, inverse * each)
    });
    let (actual, at_configured) =
        variances.fold((0.0, 0.0), |sums, more| (sums.0 + more.0, sums.1 + more.1));
    if at_configured > 0.0 { ((actual / at_configured).sqrt() - 1.0).max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURED: u64 = 512 << 10;

    fn sample(size: u64, interval_bytes: u64) -> LiveSample {
        let inverse_probability = 1.0 / sampling_probability(size, interval_bytes);
        LiveSample { size, inverse_probability, ..LiveSample::default() }
    }

    fn intervals(present_bytes: u64, live: &[LiveSample]) -> Intervals {
        let most_bytes = live.iter().filter_map(taken_under).max().unwrap_or(0);
        let widening = widening(live, CONFIGURED);
        let configured_bytes = CONFIGURED;
        Intervals { configured_bytes, present_bytes, most_bytes, widening, was_set: false }
    }

    #[test]
    fn raised_interval_is_shown_with_widening() {
        let calm = [sample(100, CONFIGURED), sample(1 << 20, CONFIGURED)];
        assert_eq!(intervals(CONFIGURED, &calm).to_string(), "512 KiB");
        let raised = "512 KiB (raised to 2.00 MiB for the overhead target)";
        assert_eq!(intervals(2 << 20, &calm).to_string(), raised);
        // A quarter of the samples: twice the interval.
        let stormy = vec![sample(100, 2 << 20); 10];
        let wider = "± of live is 100% wider than with 512 KiB from the start";
        let line = intervals(2 << 20, &stormy).to_string();
        assert_eq!(line, format!("512 KiB (raised to 2.00 MiB for the overhead target; {wider})"));
        let line = intervals(CONFIGURED, &stormy).to_string();
        let over = "512 KiB (at times raised to 2.00 MiB for the overhead target; ";
        assert_eq!(line, format!("{over}{wider})"));
        let set = Intervals { was_set: true, ..intervals(CONFIGURED, &stormy) };
        assert_eq!(set.to_string(), format!("512 KiB (before that 2.00 MiB; {wider})"));
        // Written by a library that knew no configured interval.
        let old = Intervals { configured_bytes: 0, widening: 0.0, ..intervals(2 << 20, &stormy) };
        assert_eq!(old.to_string(), "2.00 MiB");
    }

    #[test]
    fn weight_gives_its_interval() {
        for size in [1, 100, 512 << 10, 2 << 20] {
            assert_eq!(taken_under(&sample(size, CONFIGURED)), Some(CONFIGURED), "{size}");
        }
        assert_eq!(taken_under(&sample(64 << 20, CONFIGURED)), None);
    }

    #[test]
    fn widening_follows_share_of_variance() {
        // Half of the bytes under four times the interval: (1 + 4)/2 of the variance.
        let live: Vec<_> = (0..400).map(|_| sample(100, CONFIGURED)).collect();
        let stormy = (0..100).map(|_| sample(100, 4 * CONFIGURED));
        let live: Vec<_> = live.into_iter().chain(stormy).collect();
        assert!((widening(&live, CONFIGURED) - (2.5f64.sqrt() - 1.0)).abs() < 1e-3);
    }

    #[test]
    fn interval_falls_back_after_a_second() {
        let header = Header {
            interval_bytes: 2 << 20,
            configured_interval_bytes: CONFIGURED,
            last_cycles_ns: 5_000_000_000,
            ..Header::default()
        };
        assert_eq!(present_bytes(&header, Some(5_900_000_000)), 2 << 20);
        assert_eq!(present_bytes(&header, Some(6_100_000_000)), CONFIGURED);
        // It runs no more.
        assert_eq!(present_bytes(&header, None), 2 << 20);
    }
}
