//! SRC@MOMENT: from what is named and a moment to what the history has of it, as snapshots.

use crate::failure::Failure;
use crate::file::open_file;
use crate::lookup::{PastMoment, find_all, find_profile, is_history, moment_at, unreadable};
use crate::recording::{Past, Recording};
use crate::selector::Selector;
use ramson_history::{Moment, Span, When, between};
use ramson_reader::Snapshot;
use std::path::Path;

/// What the history has of what is named; `None` if that is not about the past.
pub fn open(selector: &Selector) -> Result<Option<Vec<Recording>>, Failure> {
    let path = Path::new(&selector.base_text);
    let is_history = is_history(path);
    let span = match &selector.span {
        None if is_history => &Span::Moment(When::Last),
        None => return Ok(None),
        Some(span) => span,
    };
    // A recording of heaptrack has a peak of its own.
    let is_foreign = path.is_file() && !is_history && open_file(path).is_err();
    if is_foreign && *span == Span::Moment(When::Peak) {
        return Ok(None);
    }
    let found = find_all(selector, end_of(span))?;
    let of_span = |one: &PastMoment| match found.len() {
        1 => one.of_span(&selector.text, span),
        _ => one.of_span(&format!("{}{}", one.process.pid, selector.moment_text()), span),
    };
    found.iter().map(of_span).collect::<Result<_, _>>().map(Some)
}

/// The same of the process of a recording.
pub fn of_recording(
    recording: &Recording,
    selector: &Selector,
    span: &Span,
) -> Result<Recording, Failure> {
    let base = recording.pid().to_string();
    let found = find_profile(&recording.snapshot.header, &base, end_of(span))?;
    found.of_span(&format!("{base}{}", selector.moment_text()), span)
}

fn end_of(span: &Span) -> &When {
    match span {
        Span::Moment(when) | Span::Range(_, when) => when,
    }
}

impl PastMoment {
    fn of_span(&self, origin: &str, span: &Span) -> Result<Recording, Failure> {
        let later = self.snapshot(&self.moment)?;
        let (snapshot, from_ns) = match span {
            Span::Moment(_) => (later, None),
            Span::Range(from, _) => match self.earlier(origin, from)? {
                Some(from) => (between(&self.snapshot(&from)?, later), Some(from.time_ns)),
                None => {
                    let start_ns = later.header.start_realtime_ns;
                    (later, Some(start_ns))
                }
            },
        };
        let past = Past { time_ns: self.moment.time_ns, from_ns, rss: self.moment.rss };
        Ok(Recording { past: Some(past), ..Recording::of(snapshot, None, origin.to_owned()) })
    }

    fn snapshot(&self, moment: &Moment) -> Result<Snapshot, Failure> {
        self.history
            .snapshot(self.process.id, moment)
            .map_err(|error| unreadable(&self.path, &error))
    }

    /// Where a range begins that ends at this moment; `None`: before the process was recorded.
    pub fn earlier(&self, source: &str, from: &When) -> Result<Option<Moment>, Failure> {
        let found = moment_at(&self.history, self.process.id, from);
        let found = found.map_err(|error| unreadable(&self.path, &error))?;
        match &found {
            Some(moment) if moment.time_ns > self.moment.time_ns => Err(Failure::usage(format!(
                "{source}: the range ends before it begins. Exchange its ends"
            ))),
            None if matches!(from, When::Mark(_)) => Err(Failure::not_found(format!(
                "{source}: process {} has no such mark. \"ramson timeline {}\" shows what there is",
                self.process.pid, self.process.pid
            ))),
            _ => Ok(found),
        }
    }
}
