//! SRC@MOMENT: from a source and a moment to what the history has of it, as a snapshot.

use crate::failure::Failure;
use crate::file::open_file;
use crate::lookup::{PastMoment, find, is_history, time_of, unreadable};
use crate::recording::{Past, Recording};
use jiff::tz::TimeZone;
use ramson_history::{Moment, Span, When, between};
use ramson_reader::Snapshot;
use std::path::Path;

/// Takes the moment off a source, if it has one and is not a file of that name.
pub fn split(source: &str) -> (&str, Option<Span>) {
    if Path::new(source).exists() {
        return (source, None);
    }
    let zone = TimeZone::system();
    let parts = source.match_indices('@').filter(|&(at, _)| at > 0);
    let mut spans = parts.filter_map(|(at, _)| {
        let span = Span::parse(&source[at + 1..], &zone)?;
        Some((&source[..at], Some(span)))
    });
    spans.next().unwrap_or((source, None))
}

/// What the history has of this source; `None` if the source is not about the past.
pub fn open(source: &str) -> Result<Option<Recording>, Failure> {
    let (base, span) = split(source);
    let path = Path::new(base);
    let is_history = path.is_file() && is_history(path);
    let span = match span {
        None if is_history => Span::Moment(When::Last),
        None => return check_moment(source).map(|()| None),
        Some(span) => span,
    };
    // A recording of heaptrack has a peak of its own.
    let is_foreign = path.is_file() && !is_history && open_file(path).is_err();
    if is_foreign && span == Span::Moment(When::Peak) {
        return Ok(None);
    }
    let end = match &span {
        Span::Moment(when) | Span::Range(_, when) => when,
    };
    let found = find(base, end)?;
    match &span {
        Span::Moment(_) => found.source(source, None).map(Some),
        Span::Range(from, _) => {
            let earlier = found.earlier(source, from)?;
            found.source(source, Some(earlier)).map(Some)
        }
    }
}

/// Something behind the @ of a process that is no moment is a mistake, and no part of a file's name.
fn check_moment(source: &str) -> Result<(), Failure> {
    let Some((base, text)) = source.split_once('@') else { return Ok(()) };
    let is_process = base.starts_with("name:")
        || !base.is_empty() && base.bytes().all(|byte| byte.is_ascii_digit());
    if !is_process || Path::new(source).exists() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{source}: {text} is not a moment. Use @-1h, @2026-11-20T17:00, @peak or @mark:NAME, or two of them as in @-2h..-1h"
    )))
}

/// Where the earlier end of a range is.
enum Earlier {
    /// Before the process was recorded: nothing is subtracted.
    Start,
    Moment(Moment),
}

impl PastMoment {
    fn snapshot(&self, moment: &Moment) -> Result<Snapshot, Failure> {
        self.history
            .snapshot(self.process.id, moment)
            .map_err(|error| unreadable(&self.path, &error))
    }

    fn source(&self, origin: &str, earlier: Option<Earlier>) -> Result<Recording, Failure> {
        let later = self.snapshot(&self.moment)?;
        let (snapshot, from_ns) = match earlier {
            None => (later, None),
            Some(Earlier::Start) => {
                let start_ns = later.header.start_realtime_ns;
                (later, Some(start_ns))
            }
            Some(Earlier::Moment(moment)) => {
                (between(&self.snapshot(&moment)?, later), Some(moment.time_ns))
            }
        };
        let past = Past { time_ns: self.moment.time_ns, from_ns, rss: self.moment.rss };
        let origin = origin.to_owned();
        Ok(Recording { snapshot, running: None, origin, names: None, past: Some(past) })
    }

    /// Where a range begins that ends at this moment; nanoseconds since 1970.
    pub fn start_of(&self, source: &str, from: &When) -> Result<u64, Failure> {
        match self.earlier(source, from)? {
            Earlier::Start => Ok(0),
            Earlier::Moment(moment) => Ok(moment.time_ns),
        }
    }

    fn earlier(&self, source: &str, from: &When) -> Result<Earlier, Failure> {
        let id = self.process.id;
        let found = match from {
            When::Ago(_) | When::At(_) => self.history.at(id, time_of(from)),
            When::Peak => self.history.peak(id),
            When::Mark(name) => self.history.mark(id, name),
            When::Last => Ok(Some(self.moment.clone())),
        };
        match found.map_err(|error| unreadable(&self.path, &error))? {
            Some(moment) if moment.time_ns <= self.moment.time_ns => Ok(Earlier::Moment(moment)),
            Some(_) => Err(Failure::usage(format!(
                "{source}: the range ends before it begins. Exchange its ends"
            ))),
            None if matches!(from, When::Mark(_)) => Err(Failure::not_found(format!(
                "{source}: process {} has no such mark. \"ramson timeline {}\" shows what there is",
                self.process.pid, self.process.pid
            ))),
            None => Ok(Earlier::Start),
        }
    }
}
