//! Which stacks are suspects of a leak, with the evidence.

mod answer;
mod course;
mod functions;
mod stacks;
mod suppressed;
mod suspect;

pub use answer::Answer;
pub use course::{Course, DatedRecording, moment_ns, paired, refuse_short};
pub use stacks::{NamedStack, stacks, together as stacks_together};
pub use suspect::{LineShare, Suspect};

use crate::extents::lost;
use crate::members::{Each, together, unprofiled_text};
use crate::named::{Detail, assemble};
use crate::naming::Names;
use crate::recording::what_is_missing;
use crate::selection::Selection;
use crate::summary::{Subject, Summary};
use ramson_format::Kind;
use ramson_leaks::{Growth, Suppressions};
use ramson_profile::{Estimate, SampleType};
use ramson_source::Failure;
use serde::Serialize;
use std::collections::HashSet;
use std::slice;
use suspect::Key;

/// What is freed sooner is short-lived, and what was first seen later is not judged, unless it is said otherwise.
pub const MIN_AGE_NS: u64 = 60_000_000_000;

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
    stacks.retain(|stack| !known.contains(&suspect::key(stack)));
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
