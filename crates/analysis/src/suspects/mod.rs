//! Which stacks are suspects of a leak, with the evidence.

mod answer;
mod functions;
mod stacks;
mod suppressed;

pub use answer::Answer;
pub use stacks::{NamedStack, stacks, together as stacks_together};

use crate::extents::lost;
use crate::members::{Each, together, unprofiled_text};
use crate::named::{Detail, assemble};
use crate::naming::Names;
use crate::overlap;
use crate::recording::what_is_missing;
use crate::selection::Selection;
use crate::summary::{Subject, Summary};
use functions::Key;
use ramson_format::Kind;
use ramson_leaks::{Finding, Growth, Suppressions, Verdict};
use ramson_process::clock::monotonic_ns;
use ramson_profile::format::format_duration;
use ramson_profile::{Estimate, FrameName, SampleType};
use ramson_source::{Failure, Recording};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::slice;

/// What is freed sooner is short-lived, and what was first seen later is not judged, unless it is said otherwise.
pub const MIN_AGE_NS: u64 = 60_000_000_000;

/// A profile and the moment that it shows.
pub struct DatedRecording {
    /// The profile.
    pub recording: Recording,
    /// On the clock of the profile's times.
    pub now_ns: u64,
}

/// A process at the moment that is judged, and at an earlier one if growth is to be measured.
pub struct Course {
    /// To judge.
    pub moment: DatedRecording,
    /// Of the same process.
    pub earlier: Option<DatedRecording>,
}

/// What is asked.
pub struct Question<'a> {
    /// Which names are shown.
    pub names: &'a Names,
    /// Which frames count.
    pub selection: &'a Selection,
    /// Stacks whose memory lives shorter are churn; younger stacks are not judged.
    pub min_age_ns: u64,
    /// Stacks that are not suspects.
    pub suppressions: &'a Suppressions,
}

/// What was found.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Suspects {
    /// In short.
    pub answer: Answer,
    /// What it is of.
    #[serde(flatten)]
    pub subject: Subject,
    /// In force.
    pub interval_bytes: u64,
    /// How many stacks were judged and not hidden.
    pub stacks: usize,
    /// Stacks hidden by a suppression.
    pub suppressed: usize,
    /// Stacks hidden as growing in the baseline already.
    pub known: usize,
    /// What grows first, by its growth; then by live bytes.
    pub suspects: Vec<Suspect>,
    /// What the profile lacks.
    pub defects: Vec<String>,
    /// Of each of several, those with the largest RSS first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Each<Suspects>>,
}

/// One function of the program, judged: all that it allocated, or, where only some of its callers leak, what it allocated for
/// these.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Suspect {
    /// Verdict, reason and evidence.
    #[serde(flatten)]
    pub finding: Finding,
    /// Of all live bytes that were judged, 0 to 1.
    pub share: f64,
    /// The first sample was taken that long ago …
    pub first_seen_ns: u64,
    /// … which was then.
    pub first_seen_unix_ns: u64,
    /// Of what grows: since then at least.
    pub growing_since_unix_ns: Option<u64>,
    /// The program's own function that allocated, line 0.
    #[serde(flatten)]
    pub function: FrameName,
    /// Its lines, those with the most live bytes first.
    pub lines: Vec<LineShare>,
    /// How many stacks they are.
    pub stacks: usize,
    /// The stack with the most live bytes, leaf first, with lines.
    pub frames: Vec<FrameName>,
    #[serde(skip)]
    keys: Vec<Key>,
}

/// What one line allocated.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LineShare {
    /// 0 if unknown.
    pub line: u32,
    /// Live bytes.
    pub inuse_space: Estimate,
    /// Live samples, raw.
    pub samples: u64,
}

/// Judges moments of one process or of several; growth is measured where there is an earlier moment of the same process,
/// and what grows in the baseline is hidden.
pub fn suspects(
    courses: &[Course],
    baseline: &[Course],
    unprofiled: usize,
    question: &Question,
) -> Result<Suspects, Failure> {
    if question.selection.uses_labels() {
        return Err(Failure::usage(
            "--tagfocus and --tagignore: leaks judges whole stacks. Choose by frames (--focus, --show …)",
        ));
    }
    let mut known = HashSet::new();
    if !baseline.is_empty() {
        let found = judged(baseline, question, &known)?.suspects;
        known.extend(found.into_iter().filter(Suspect::is_growing).flat_map(|it| it.keys));
    }
    let mut answers = Vec::new();
    for course in courses {
        let recording = &course.moment.recording;
        let header = &recording.snapshot.header;
        let summary = Summary::of(recording, header.unix_ns(course.moment.now_ns));
        let found = match judged(slice::from_ref(course), question, &known) {
            // What is left of the others is judged.
            Err(_) if courses.len() > 1 => Judged::default(),
            found => found?,
        };
        let mut answer = Suspects::of(found, Subject::Recording(summary));
        answer.interval_bytes = header.interval_bytes;
        answer.defects = what_is_missing(recording);
        answers.push(answer);
    }
    if courses.len() == 1 {
        let mut only = answers.remove(0);
        only.defects.extend(unprofiled_text(unprofiled));
        return Ok(only);
    }
    let interval_bytes = answers.iter().map(|answer| answer.interval_bytes).max().unwrap_or(0);
    let (processes, sum, defects) = together(answers, unprofiled, |it| (&it.subject, &it.defects));
    let sum = Suspects::of(judged(courses, question, &known)?, sum);
    Ok(Suspects { interval_bytes, defects, processes, ..sum })
}

impl Suspects {
    fn of(found: Judged, subject: Subject) -> Self {
        let Judged { answer, stacks, suppressed, known, suspects } = found;
        Self {
            answer,
            subject,
            interval_bytes: 0,
            stacks,
            suppressed,
            known,
            suspects,
            defects: Vec::new(),
            processes: Vec::new(),
        }
    }

    /// Leaves at most so many suspects, also of each process; 0: all.
    pub fn truncate(&mut self, most: usize) {
        if most > 0 {
            self.suspects.truncate(most);
            self.processes.iter_mut().for_each(|each| each.answer.truncate(most));
        }
    }

    /// Those that are growing.
    pub fn growing(&self) -> impl Iterator<Item = &Suspect> {
        self.suspects.iter().filter(|suspect| suspect.is_growing())
    }

    /// The growth of these in bytes per hour, with the lower ends of the intervals.
    pub fn growth_at_least(&self) -> f64 {
        let growth = self.growing().filter_map(|suspect| suspect.finding.growth.as_ref());
        growth.map(|growth| growth.interval().0.max(0.0)).sum()
    }
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
            overlap::is_same_process(old, new) && earlier.now_ns <= moment.now_ns
        };
        let earlier = earlier.iter().position(is_its).map(|at| earlier.swap_remove(at));
        Course { moment, earlier }
    };
    let courses: Vec<Course> = later.into_iter().map(course).collect();
    if courses.iter().all(|course| course.earlier.is_none()) {
        return Err(Failure::usage(format!(
            "{object}: not an earlier moment of the same process. Growth is measured between two moments of one; \
             --baseline compares with another process"
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
    let wait = match courses.iter().any(|course| course.moment.recording.running.is_some()) {
        true => format!("Ask again in {}", format_duration(min_age_ns - longest_ns)),
        false => "Pass an earlier mark".into(),
    };
    let [window, least] = [longest_ns, min_age_ns].map(format_duration);
    Err(Failure::failed(format!(
        "{object}: only {window} before; growth over less than {least} (--min-age) says nothing. {wait}, or pass a smaller --min-age"
    )))
}

impl Course {
    /// Between its moments.
    fn window_ns(&self) -> Option<u64> {
        Some(self.moment.now_ns.saturating_sub(self.earlier.as_ref()?.now_ns))
    }

    /// Of one moment alone.
    pub fn of(recording: Recording) -> Self {
        Self { moment: DatedRecording::of(recording), earlier: None }
    }
}

impl DatedRecording {
    /// A running process is looked at now, what is left of a dead one shows its last sample.
    pub fn of(recording: Recording) -> Self {
        Self { now_ns: moment_ns(&recording), recording }
    }
}

/// The moment that a recording shows, on the clock of its times.
pub fn moment_ns(recording: &Recording) -> u64 {
    let last_ns = recording.snapshot.header.last_monotonic_ns;
    match recording.running {
        Some(_) => last_ns.max(monotonic_ns()),
        None => last_ns,
    }
}

/// The growth of the leak suspects among stacks that are judged together.
pub fn growing(stacks: Vec<NamedStack>) -> Vec<Growth> {
    let suspects = functions::judged(stacks, MIN_AGE_NS, &functions::Moment::default()).into_iter();
    let growing = suspects.filter(Suspect::is_growing);
    growing.filter_map(|suspect| suspect.finding.growth).collect()
}

/// All stacks of some moments, judged.
#[derive(Default)]
struct Judged {
    answer: Answer,
    stacks: usize,
    suppressed: usize,
    known: usize,
    suspects: Vec<Suspect>,
}

/// Every function with live samples, without what is suppressed or `known`.
fn judged(
    courses: &[Course],
    question: &Question,
    known: &HashSet<Key>,
) -> Result<Judged, Failure> {
    let (mut all, mut nothing_left) = (Vec::new(), None);
    let (mut live, mut suppressed) = (Estimate::default(), 0);
    for course in courses {
        let DatedRecording { recording, now_ns } = &course.moment;
        let named = assemble(recording, question.names, Detail::Numbered, Some(Kind::Heap))?;
        let mut profile = named.profile;
        // Suppressions see all frames.
        let all_frames = question.selection.with_all_frames();
        if let Err(failure) = all_frames.apply(&mut profile, SampleType::InuseSpace) {
            nothing_left.get_or_insert(failure);
            continue;
        }
        live += profile.total(SampleType::InuseSpace);
        suppressed += suppressed::remove(&mut profile, question.suppressions);
        if let Some(own) = &question.selection.own_frames {
            own.fold(&mut profile);
        }
        let earlier = course.earlier.as_ref();
        all.push((*now_ns, stacks(&recording.snapshot, *now_ns, earlier, &profile)));
    }
    if let (true, Some(failure)) = (all.is_empty(), nothing_left) {
        return Err(failure);
    }
    let mut stacks = stacks_together(all);
    let before = stacks.len();
    stacks.retain(|stack| !known.contains(&functions::key(stack)));
    let left = stacks.len();
    let of =
        functions::Moment { live, unix_ns: unix_ns_of(courses), is_running: is_running(courses) };
    let is_part =
        courses.iter().any(|course| lost(&course.moment.recording.snapshot, Kind::Heap) > 0);
    let mut suspects = functions::judged(stacks, question.min_age_ns, &of);
    if is_part {
        suspects.iter_mut().for_each(Suspect::mark_part);
    }
    suspects.sort_by(Suspect::compare);
    let answer = Answer::of(&suspects, &of);
    Ok(Judged { answer, stacks: left, suppressed, known: before - left, suspects })
}

/// The latest moment.
fn unix_ns_of(courses: &[Course]) -> u64 {
    let latest = courses.iter().map(|course| &course.moment).max_by_key(|moment| moment.now_ns);
    latest.map_or(0, |moment| moment.recording.snapshot.header.unix_ns(moment.now_ns))
}

fn is_running(courses: &[Course]) -> bool {
    courses.iter().any(|course| course.moment.recording.running.is_some())
}

impl Suspect {
    fn is_growing(&self) -> bool {
        self.finding.verdict == Verdict::Growing
    }

    /// Records were lost: what is live is at least this.
    fn mark_part(&mut self) {
        let finding = &mut self.finding;
        finding.inuse_objects = finding.inuse_objects.as_part();
        finding.inuse_space = finding.inuse_space.as_part();
    }

    /// What grows comes first, by its growth; then what has the most live bytes.
    fn compare(&self, other: &Self) -> Ordering {
        let weight = |it: &Self| match (it.is_growing(), &it.finding.growth) {
            (true, Some(growth)) => growth.per_hour.value,
            _ => it.finding.inuse_space.value,
        };
        let growing_first = other.is_growing().cmp(&self.is_growing());
        growing_first.then_with(|| weight(other).total_cmp(&weight(self)))
    }
}
