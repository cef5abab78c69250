//! What a program itself noted of a lack of memory, shortly before it died.

use super::{OF_FAULTS, end_of};
use ramson_format::state;
use ramson_profile::format::format_bytes;
use ramson_reader::{FailedAllocation, Way};
use ramson_source::Recording;

/// What was noted belongs to a death that followed within this time.
const MOST_NS_BEFORE_DEATH: u64 = 5_000_000_000;

const SIGABRT: u32 = 6;

/// The evidence.
#[derive(Clone, Copy)]
pub struct Lack {
    /// The kernel refused so much when abort was called; whether the program had asked for memory is not known. Else a
    /// request failed.
    pub is_at_abort: bool,
    /// How much, when and where.
    pub noted: FailedAllocation,
}

impl Lack {
    /// `None` if there is none, or the process ended otherwise.
    pub fn of(source: &Recording) -> Option<Self> {
        let header = &source.snapshot.header;
        let end = end_of(source);
        let ended_ns = match end.map_or(0, |end| end.realtime_ns) {
            0 => header.last_monotonic_ns,
            unix_ns => {
                let after_start_ns = unix_ns.saturating_sub(header.start_realtime_ns);
                header.start_monotonic_ns.saturating_add(after_start_ns)
            }
        };
        let noted = |noted: &Option<Box<FailedAllocation>>, signals: &[u32]| {
            let may_be = match end.map(|end| end.way) {
                Some(Way::Signalled(signal)) => signals.contains(&signal),
                Some(_) => false,
                None => header.state != state::EXITED,
            };
            let is_near = |noted: &FailedAllocation| {
                ended_ns.saturating_sub(noted.monotonic_ns) <= MOST_NS_BEFORE_DEATH
            };
            noted.as_deref().copied().filter(|noted| may_be && is_near(noted))
        };
        // A failure tells more: it is a request, and the place that made it.
        let failure = noted(&header.last_failure, &OF_FAULTS);
        let found = failure.or_else(|| noted(&header.last_abort, &[SIGABRT]));
        found.map(|noted| Self { is_at_abort: failure.is_none(), noted })
    }

    /// Goes on after `died by SIGABRT`.
    pub fn clause(self) -> String {
        let bytes = format_bytes(self.noted.size as f64);
        match self.is_at_abort {
            false => format!("after an allocation of {bytes} had failed"),
            true => format!("when {bytes} more could not be had"),
        }
    }
}
