//! The governor: which sampling interval keeps the share of CPU time that samples take under a bound.
//!
//! Samples per second, and with them their cost, are inversely proportional to the interval T, as long as allocations are smaller than it. So
//! what samples would cost at the configured interval is what they cost now, times T over the configured one: the demand. It does not depend
//! on T, is summed over the latest second, and the wanted T is the configured interval times demand over bound. If allocations are larger
//! than T, a larger T lowers the cost by less than that: the demand then looks larger under the larger T, and the next window goes on.
//! T is the interval that a sample was drawn with. It may be an earlier one: among thousands of threads, each uses up its draw slowly.
//!
//! The interval follows from the past alone, so estimates stay unbiased (docs/internals/sampling.md).

/// Shortest time between two decisions.
pub const WINDOW_NS: u64 = 20_000_000;
/// The demand of the present span and the one before decides; what is older than both, less than a second, does not count.
const SPAN_NS: f64 = 450e6;
/// Below this many samples a second the interval is not raised, nor ever so far that fewer are left: at 6 to 14 µs each they take less than half a
/// percent of one CPU.
const FREE_PER_NS: f64 = 300e-9;
/// Share that is aimed at, of the bound.
const AIM: f64 = 0.85;
/// An interval within this factor of the one that is wanted stays.
const SLACK: f64 = 1.2;
/// Samples that take more of the CPU time than 19 parts of 20 are an error of measurement.
const LEAST_PROGRAM_SHARE: f64 = 1.0 / 19.0;
/// Beyond this, the interval is not raised.
const MOST_BYTES: u64 = 1 << 40;

/// Measurements of a window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub samples: f64,
    /// Sum of the intervals that they were drawn with.
    pub drawn_bytes: f64,
    /// In samples, their frees and what else a larger interval would lower.
    pub slow_ns: f64,
    /// CPU time of all threads.
    pub cpu_ns: f64,
    pub wall_ns: f64,
}

/// Settings that the user asked for.
#[derive(Clone, Copy)]
pub struct Settings {
    pub configured_bytes: u64,
    pub max_overhead_ppm: u32,
}

impl Window {
    /// Samples that there would have been at the configured interval.
    fn demanded(&self, settings: Settings) -> f64 {
        self.drawn_bytes / settings.configured_bytes.max(1) as f64
    }
}

/// Sums over some time, samples and their cost as they would have been at the configured interval.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Demand {
    pub samples: f64,
    pub slow_ns: f64,
    /// CPU time beside samples.
    pub program_ns: f64,
    pub wall_ns: f64,
}

impl Demand {
    fn plus(self, other: Self, part: f64) -> Self {
        Self {
            samples: self.samples + other.samples * part,
            slow_ns: self.slow_ns + other.slow_ns * part,
            program_ns: self.program_ns + other.program_ns * part,
            wall_ns: self.wall_ns + other.wall_ns * part,
        }
    }
}

/// The demand of the span before and of the present one.
pub type Recent = [Demand; 2];

/// Whether so many samples are too many to be left alone. Else there is no need to ask the kernel for CPU time: a system call that a
/// sandboxed program may not be allowed.
pub fn is_busy(window: &Window, settings: Settings) -> bool {
    window.demanded(settings) >= FREE_PER_NS * window.wall_ns
}

/// Whether samples were so few of late that nothing is to be decided until they are frequent again.
pub fn is_calm(recent: &Recent) -> bool {
    let demand = recent[0].plus(recent[1], 1.0);
    demand.samples < FREE_PER_NS * demand.wall_ns
}

/// Adds a window to the latest second.
pub fn remember(recent: &mut Recent, window: &Window, settings: Settings) {
    let samples = window.demanded(settings);
    let program_ns = (window.cpu_ns - window.slow_ns).max(window.slow_ns * LEAST_PROGRAM_SHARE);
    let demand = Demand {
        samples,
        slow_ns: window.slow_ns * samples / window.samples.max(1.0),
        program_ns,
        wall_ns: window.wall_ns,
    };
    let [_, present] = *recent;
    *recent = if window.wall_ns >= SPAN_NS {
        // Windows that came before are older than a span.
        [Demand::default(), Demand::default().plus(demand, SPAN_NS / window.wall_ns)]
    } else if present.wall_ns + window.wall_ns > SPAN_NS {
        [present, demand]
    } else {
        [recent[0], present.plus(demand, 1.0)]
    };
}

/// The interval for the next window, after `present_bytes`.
pub fn next_interval(recent: &Recent, present_bytes: u64, settings: Settings) -> u64 {
    let demand = recent[0].plus(recent[1], 1.0);
    let bound = settings.max_overhead_ppm as f64 / 1e6 * AIM;
    // A time shorter than a span is taken for the beginning of one: the first samples are dear, because nothing is in the caches yet.
    let program_ns = demand.program_ns.max(1.0) * (SPAN_NS / demand.wall_ns).max(1.0);
    let by_cost = demand.slow_ns / program_ns * (1.0 - bound) / bound;
    let by_number = demand.samples / (FREE_PER_NS * demand.wall_ns.max(SPAN_NS));
    let wanted = by_cost.min(by_number) * settings.configured_bytes as f64;
    if wanted <= settings.configured_bytes as f64 {
        return settings.configured_bytes;
    }
    let present = present_bytes as f64;
    if (present / SLACK..=present * SLACK).contains(&wanted) {
        return present_bytes;
    }
    // Up, so that an interval of 1 byte can leave it.
    let most = MOST_BYTES.max(settings.configured_bytes);
    (libm::ceil(wanted) as u64).clamp(settings.configured_bytes, most)
}

#[cfg(test)]
mod tests;
