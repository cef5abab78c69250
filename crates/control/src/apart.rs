//! Has acts on processes of other users done by a process that has the rights for them. This one can leave that process alone if it waits for
//! something that never comes.

use crate::ask::known;
use crate::inside::Inside;
use crate::trim::{Accepts, Trimmed};
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Request};
use ramson_inject::Called;
use ramson_process::allocators::Figures;
use ramson_process::{Part, watched};
use ramson_source::{Failure, Target};
use std::time::Duration;

pub const TRIM: u8 = 0x50;
pub const ASK: u8 = 0x51;

/// The process to act on, and how.
#[derive(BorshSerialize, BorshDeserialize)]
pub struct Order {
    pub pid: u32,
    pub name: String,
    /// The risks that a trim may take.
    pub accepts: Accepts,
    /// The allocator inside an object that its profile tells of.
    pub inside: Option<Inside>,
}

/// Result of an act, or the exit status and why the act failed.
pub type Outcome<T> = Result<T, (u8, String)>;

/// A thread that was borrowed.
#[derive(BorshSerialize, BorshDeserialize)]
pub struct Borrowed {
    tid: i32,
    name: String,
    stopped_ns: u64,
}

/// A `Trimmed`.
#[derive(BorshSerialize, BorshDeserialize)]
pub struct WireTrimmed {
    rss_before: u64,
    rss_after: u64,
    elapsed_ns: u64,
    called_ns: u64,
    function: String,
    thread: Borrowed,
}

/// `Figures`.
#[derive(BorshSerialize, BorshDeserialize)]
pub struct WireFigures {
    function: String,
    figures: Vec<(String, u64)>,
    /// By their places in `Part::ALL`.
    parts: Vec<(u32, u64)>,
    thread: Borrowed,
}

pub fn trim(by: &Apart, target: &Target, accepts: Accepts) -> Result<Trimmed, Failure> {
    let wire: WireTrimmed = have_done(by, TRIM, target, accepts)?;
    let WireTrimmed { rss_before, rss_after, elapsed_ns, called_ns, function, thread } = wire;
    let Borrowed { tid, name, stopped_ns } = thread;
    let [elapsed, called, stopped] = [elapsed_ns, called_ns, stopped_ns].map(Duration::from_nanos);
    let called = Called { tid, name, stopped, called, data: Vec::new() };
    Ok(Trimmed { rss_before, rss_after, elapsed, function, called })
}

pub fn ask(by: &Apart, target: &Target) -> Result<Figures, Failure> {
    let wire: WireFigures = have_done(by, ASK, target, Accepts::default())?;
    let WireFigures { function, figures, parts, thread } = wire;
    let figures = figures.iter().filter_map(|(name, value)| Some((known(name)?, *value)));
    let part = |&(place, bytes): &(u32, u64)| Some((Part::ALL.get(place as usize)?.0, bytes));
    Ok(Figures {
        function: known(&function).unwrap_or_default(),
        figures: figures.collect(),
        parts: parts.iter().filter_map(part).collect(),
        tid: thread.tid,
        thread: thread.name,
        stopped: Duration::from_nanos(thread.stopped_ns),
    })
}

fn have_done<T: BorshDeserialize>(
    by: &Apart,
    kind: u8,
    target: &Target,
    accepts: Accepts,
) -> Result<T, Failure> {
    let (pid, name, inside) = (target.pid, target.name.clone(), Inside::of(target));
    let order = Order { pid, name, accepts, inside };
    let failed = |failure: ramson_apart::Failure| {
        watched::note(target.pid, &failure);
        Failure::failed(format!(
            "process {} ({}): {failure}. {}",
            target.pid,
            target.name,
            failure.next_step()
        ))
    };
    let bad = |_| failed(ramson_apart::Failure::BadAnswer);
    let body = borsh::to_vec(&order).map_err(bad)?;
    let answer = by.act(&Request { kind, body: &body, files: &[] }).map_err(failed)?;
    let outcome: Outcome<T> = borsh::from_slice(&answer).map_err(bad)?;
    outcome.map_err(|(status, message)| {
        // A thread may be left that did not stop.
        by.end_acting();
        Failure::Message(status, message)
    })
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl From<Trimmed> for WireTrimmed {
    fn from(trimmed: Trimmed) -> Self {
        let Trimmed { rss_before, rss_after, elapsed, function, called } = trimmed;
        let Called { tid, name, stopped, called, .. } = called;
        let thread = Borrowed { tid, name, stopped_ns: nanoseconds(stopped) };
        let elapsed_ns = nanoseconds(elapsed);
        let called_ns = nanoseconds(called);
        Self { rss_before, rss_after, elapsed_ns, called_ns, function, thread }
    }
}

impl From<Figures> for WireFigures {
    fn from(told: Figures) -> Self {
        let Figures { function, figures, parts, tid, thread, stopped } = told;
        let place = |part: Part| Part::ALL.iter().position(|(known, ..)| *known == part);
        let parts = parts.into_iter();
        Self {
            function: function.into(),
            figures: figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            parts: parts.filter_map(|(part, bytes)| Some((place(part)? as u32, bytes))).collect(),
            thread: Borrowed { tid, name: thread, stopped_ns: nanoseconds(stopped) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_arrive_as_they_were() {
        let figures = Figures {
            function: "mallctl",
            figures: vec![("stats.active", 7), ("stats.arenas.4096.pdirty", 8)],
            parts: vec![(Part::Metadata, 9)],
            tid: 3,
            thread: "worker".into(),
            stopped: Duration::from_micros(5),
        };
        let wire = WireFigures::from(figures);
        let names: Vec<_> = wire.figures.iter().map(|(name, _)| known(name)).collect();
        assert_eq!(names, [Some("stats.active"), Some("stats.arenas.4096.pdirty")]);
        assert_eq!(known(&wire.function), Some("mallctl"));
        assert_eq!(Part::ALL[wire.parts[0].0 as usize].0, Part::Metadata);
        assert_eq!(known("system"), None);
    }
}
