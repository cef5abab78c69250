//! What a program itself noted of a lack of memory, shortly before it died.

use super::{OF_FAULTS, end_of};
use ramson_format::state;
use ramson_profile::format::format_bytes;
use ramson_reader::{FailedAllocation, Way};
use ramson_source::Recording;

/// What was noted belongs to a death that followed within this time.
const MOST_NS_BEFORE_DEATH: u64 = 5_000_000_000;

const SIGABRT: u32 = 6;

/// The kind of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A request of this size failed.
    OfBytes(u64),
    /// The kernel refused this much when abort was called; whether the program had asked for memory
    /// is not known.
    AtAbort(u64),
}

impl Lack {
    /// The evidence, and where it was noted; `None` if there is none, or the process ended otherwise.
    pub fn of(source: &Recording) -> Option<(Self, FailedAllocation)> {
        let header = &source.snapshot.header;
        let (way, ended_ns) = match end_of(source) {
            Some(end) if end.realtime_ns > 0 => {
                let after_start_ns = end.realtime_ns.saturating_sub(header.start_realtime_ns);
                (Some(end.way), header.start_monotonic_ns.saturating_add(after_start_ns))
            }
            end => (end.map(|end| end.way), header.last_monotonic_ns),
        };
        let may_be = |signals: &[u32]| match way {
            Some(Way::Signalled(signal)) => signals.contains(&signal),
            Some(_) => false,
            None => header.state != state::EXITED,
        };
        let is_near = |noted: &FailedAllocation| {
            ended_ns.saturating_sub(noted.monotonic_ns) <= MOST_NS_BEFORE_DEATH
        };
        let failure = header
            .last_failure
            .as_deref()
            .copied()
            .filter(|noted| may_be(&OF_FAULTS) && is_near(noted));
        let abort = || {
            header
                .last_abort
                .as_deref()
                .copied()
                .filter(|noted| may_be(&[SIGABRT]) && is_near(noted))
        };
        // A failure tells more: it is a request, and the place that made it.
        failure
            .map(|noted| (Self::OfBytes(noted.size), noted))
            .or_else(|| abort().map(|noted| (Self::AtAbort(noted.size), noted)))
    }

    /// Goes on after `died by SIGABRT`.
    pub fn clause(self) -> String {
        let text = |bytes: u64| format_bytes(bytes as f64);
        match self {
            Self::OfBytes(size) => format!("after an allocation of {} had failed", text(size)),
            Self::AtAbort(bytes) => format!("when {} more could not be had", text(bytes)),
        }
    }

    /// Bytes and what became of them, for a column each, before the stack.
    pub fn columns(self) -> (String, &'static str) {
        let text = |bytes: u64| format_bytes(bytes as f64);
        match self {
            Self::OfBytes(size) => (text(size), "failed"),
            Self::AtAbort(bytes) => (text(bytes), "refused"),
        }
    }

    /// One word for `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OfBytes(_) => "allocation",
            Self::AtAbort(_) => "abort",
        }
    }
}
