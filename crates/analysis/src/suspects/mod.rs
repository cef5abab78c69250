//! Which stacks are suspects of a leak, with the evidence.

mod stacks;

pub use stacks::{NamedStack, stacks, together as stacks_together};

use crate::extents::lost;
use crate::members::{Each, together, unprofiled_text};
use crate::named::{Detail, assemble};
use crate::naming::Names;
use crate::overlap;
use crate::recording::what_is_missing;
use crate::selection::Selection;
use crate::summary::{Subject, Summary};
use ramson_format::Kind;
use ramson_leaks::{Finding, Growth, Suppressions, Verdict};
use ramson_process::clock::monotonic_ns;
use ramson_profile::{FrameName, SampleType};
use ramson_source::{Failure, Recording};
use serde::Serialize;
use std::collections::HashSet;
use std::slice;
use std::sync::Arc;

/// What lives shorter is churn, and what was first seen later is not judged, unless it is said otherwise.
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

/// The answer.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Suspects {
    /// What it is of.
    #[serde(flatten)]
    pub subject: Subject,
    /// In force.
    pub interval_bytes: u64,
    /// How many stacks were judged and not hidden.
    pub stacks: usize,
    /// Hidden by a suppression.
    pub suppressed: usize,
    /// Hidden as growing in the baseline already.
    pub known: usize,
    /// Worst first.
    pub suspects: Vec<Suspect>,
    /// What the profile lacks.
    pub defects: Vec<String>,
    /// Of each of several, those with the largest RSS first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Each<Suspects>>,
}

/// One stack, judged.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Suspect {
    /// Verdict, reason and evidence.
    #[serde(flatten)]
    pub finding: Finding,
    /// The first sample was taken that long ago.
    pub first_seen_ns: u64,
    /// Leaf first, with lines.
    pub frames: Vec<FrameName>,
    #[serde(skip)]
    binaries: Vec<String>,
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
    let of_baseline = if baseline.is_empty() { Vec::new() } else { judged(baseline, question)? };
    let known = of_baseline.iter().filter(|it| it.is_growing()).map(Suspect::key).collect();
    let mut answers = Vec::new();
    for course in courses {
        let recording = &course.moment.recording;
        let header = &recording.snapshot.header;
        let summary = Summary::of(recording, header.unix_ns(course.moment.now_ns));
        let found = match judged(slice::from_ref(course), question) {
            // What is left of the others is judged.
            Err(_) if courses.len() > 1 => Vec::new(),
            found => found?,
        };
        let mut answer = Suspects::of(found, &known, question, Subject::Recording(summary));
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
    let sum = Suspects::of(judged(courses, question)?, &known, question, sum);
    Ok(Suspects { interval_bytes, defects, processes, ..sum })
}

/// What names a stack in another process: its functions and their files.
type Key = Vec<(Arc<str>, Arc<str>)>;

impl Suspects {
    fn of(
        mut suspects: Vec<Suspect>,
        known: &HashSet<Key>,
        question: &Question,
        subject: Subject,
    ) -> Self {
        let all = suspects.len();
        suspects.retain(|it| question.suppressions.matching(it.searched()).is_none());
        let suppressed = all - suspects.len();
        suspects.retain(|it| !known.contains(&it.key()));
        Self {
            subject,
            interval_bytes: 0,
            stacks: suspects.len(),
            suppressed,
            known: all - suppressed - suspects.len(),
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

impl Course {
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

/// Every stack with live samples, worst first.
fn judged(courses: &[Course], question: &Question) -> Result<Vec<Suspect>, Failure> {
    let (mut all, mut nothing_left) = (Vec::new(), None);
    for course in courses {
        let DatedRecording { recording, now_ns } = &course.moment;
        let named = assemble(recording, question.names, Detail::Numbered, Some(Kind::Heap))?;
        let mut profile = named.profile;
        match question.selection.apply(&mut profile, SampleType::InuseSpace) {
            Ok(_) => {
                let earlier = course.earlier.as_ref();
                all.push((*now_ns, stacks(&recording.snapshot, *now_ns, earlier, &profile)));
            }
            Err(failure) => drop(nothing_left.get_or_insert(failure)),
        }
    }
    if let (true, Some(failure)) = (all.is_empty(), nothing_left) {
        return Err(failure);
    }
    let is_part =
        courses.iter().any(|course| lost(&course.moment.recording.snapshot, Kind::Heap) > 0);
    Ok(judge_all(stacks_together(all), question.min_age_ns, is_part))
}

/// The growth of those suspects among stacks that are judged together which grow.
pub fn growing(stacks: Vec<NamedStack>) -> Vec<Growth> {
    let suspects = judge_all(stacks, MIN_AGE_NS, false).into_iter();
    let growing = suspects.filter(Suspect::is_growing);
    growing.filter_map(|suspect| suspect.finding.growth).collect()
}

/// The verdicts on stacks that are judged together, worst first. `is_part`: samples of them were lost.
fn judge_all(stacks: Vec<NamedStack>, min_age_ns: u64, is_part: bool) -> Vec<Suspect> {
    let count = stacks.len();
    let finding = |stack: &NamedStack| {
        let finding = stack.judged(count, min_age_ns);
        let (objects, space) = (finding.inuse_objects, finding.inuse_space);
        match is_part {
            true => Finding {
                inuse_objects: objects.as_part(),
                inuse_space: space.as_part(),
                ..finding
            },
            false => finding,
        }
    };
    let suspect = |stack: NamedStack| Suspect {
        finding: finding(&stack),
        first_seen_ns: stack.history.observed_ns(),
        frames: stack.frames,
        binaries: stack.binaries,
    };
    let mut suspects: Vec<Suspect> = stacks.into_iter().map(suspect).collect();
    suspects.sort_by(|a, b| {
        a.finding.verdict.cmp(&b.finding.verdict).then_with(|| b.weight().total_cmp(&a.weight()))
    });
    suspects
}

impl Suspect {
    fn is_growing(&self) -> bool {
        self.finding.verdict == Verdict::Growing
    }

    fn key(&self) -> Key {
        self.frames.iter().map(|frame| (frame.name.clone(), frame.file.clone())).collect()
    }

    /// What a suppression may match: names of functions, source files and binaries.
    fn searched(&self) -> impl Iterator<Item = &str> + Clone {
        let frames = self.frames.iter().flat_map(|frame| [&*frame.name, &*frame.file]);
        let binaries = self.binaries.iter().map(String::as_str);
        frames.chain(binaries).filter(|name| !name.is_empty())
    }

    /// What ranks within a verdict: what grows by its growth, the rest by its live bytes.
    fn weight(&self) -> f64 {
        match (self.finding.verdict, &self.finding.growth) {
            (Verdict::Growing, Some(growth)) => growth.per_hour.value,
            _ => self.finding.inuse_space.value,
        }
    }
}
