//! The moments of processes that are judged.

use super::totals::{self, Look};
use crate::attachment;
use crate::goroutines::Watched;
use crate::overlap;
use crate::rss::Rss;
use ramson_profile::Estimate;
use ramson_profile::format::{format_duration, format_wait};
use ramson_source::{Failure, Recording};

/// A profile and the moment that it shows.
pub struct DatedRecording {
    /// The profile.
    pub recording: Recording,
    /// On the clock of the profile's times.
    pub now_ns: u64,
    /// RSS of the process then, which has calibrated the recording.
    pub rss: Option<Rss>,
}

/// A process at the moment that is judged, and at an earlier one if growth is to be measured.
pub struct Course {
    /// To judge.
    pub moment: DatedRecording,
    /// Earlier moment of the same process.
    pub earlier: Option<DatedRecording>,
    /// Looks at the process from outside, in their order.
    pub looks: Vec<Look>,
    /// Looks at its goroutines, if it is a Go program.
    pub goroutines: Watched,
}

/// Pairs two moments of each process. One that began in between has no earlier one; fails if no process has both.
pub fn paired(
    mut earlier: Vec<DatedRecording>,
    later: Vec<DatedRecording>,
    object: &str,
) -> Result<Vec<Course>, Failure> {
    let course = |moment: DatedRecording| {
        let is_its = |earlier: &DatedRecording| {
            let (old, new) = (&earlier.recording.snapshot, &moment.recording.snapshot);
            // A dead process shows its last sample, and a mark may be younger than that sample.
            let is_at_end = moment.recording.running.is_none() && moment.recording.past.is_none();
            let is_earlier = earlier.now_ns <= moment.now_ns || is_at_end;
            overlap::is_same_process(old, new) && is_earlier
        };
        let earlier = earlier.iter().position(is_its).map(|at| earlier.swap_remove(at));
        Course { earlier, ..Course::of_moment(moment) }
    };
    let courses: Vec<Course> = later.into_iter().map(course).collect();
    if courses.iter().all(|course| course.earlier.is_none()) {
        return Err(Failure::usage(format!(
            "{object}: not an earlier moment of the same process. Pass one; to compare with another process, use --baseline"
        )));
    }
    Ok(courses)
}

/// Fails if no process was watched for as long as `min_age_ns` since `object`.
pub fn refuse_short(courses: &[Course], min_age_ns: u64, object: &str) -> Result<(), Failure> {
    let longest_ns = courses.iter().filter_map(Course::window_ns).max().unwrap_or(0);
    if longest_ns >= min_age_ns {
        return Ok(());
    }
    let wait = if courses.iter().any(|course| course.moment.recording.running.is_some()) {
        format!("Ask again in {}", format_wait(min_age_ns - longest_ns))
    } else {
        "Pass an earlier mark".into()
    };
    let least = format_duration(min_age_ns);
    let window = match longest_ns {
        0 => "nothing was recorded after it".into(),
        _ => format!("only {} were recorded after it", format_duration(longest_ns)),
    };
    let other = if longest_ns == 0 { "leave out --since" } else { "pass a smaller --min-age" };
    Err(Failure::failed(format!(
        "{object}: {window}; growth needs at least {least} (--min-age). {wait}, or {other}"
    )))
}

impl Course {
    /// By how much the allocator's total has changed between its moments, if both are known.
    pub fn total_change(&self) -> Option<Estimate> {
        let total = |moment: &DatedRecording| moment.rss.as_ref()?.total;
        Some(total(&self.moment)? - total(self.earlier.as_ref()?)?)
    }

    /// Between its moments.
    fn window_ns(&self) -> Option<u64> {
        Some(self.moment.now_ns.saturating_sub(self.earlier.as_ref()?.now_ns))
    }

    /// Creates a course of one moment alone.
    pub fn of(recording: Recording) -> Self {
        Self::of_moment(DatedRecording::of(recording))
    }

    /// The same of a moment.
    pub fn of_moment(moment: DatedRecording) -> Self {
        Self { moment, earlier: None, looks: Vec::new(), goroutines: Watched::default() }
    }

    /// Adds the looks that a history has kept.
    pub fn with_kept_looks(mut self) -> Self {
        self.looks = totals::kept(&self.moment.recording);
        self
    }
}

impl DatedRecording {
    /// A running process is looked at now, what is left of a dead one shows its last sample.
    pub fn of(mut recording: Recording) -> Self {
        let rss = Rss::of_recording(&mut recording, false);
        Self { rss, ..Self::calibrated(recording) }
    }

    /// The same of a recording that is calibrated already.
    pub fn calibrated(recording: Recording) -> Self {
        Self { now_ns: moment_ns(&recording), recording, rss: None }
    }
}

/// The moment that a recording shows, on the clock of its times. A recording that was read a while ago shows no samples since;
/// this is no sign of their end.
pub fn moment_ns(recording: &Recording) -> u64 {
    let last_ns = recording.snapshot.header.last_monotonic_ns;
    match recording.running {
        // Go's own samples end at the moment that they are as of.
        Some(_) if recording.is_of_go() => last_ns,
        Some(_) if attachment::ended_ago_ns(recording).is_some() => attachment::last_ns(recording),
        Some(_) => last_ns.max(recording.read_ns),
        None => last_ns,
    }
}
