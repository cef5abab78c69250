//! Which stacks are suspects of a leak, with the evidence.

pub mod stacks;

use crate::frame::Frame;
use crate::members::{self, Each, Sum, unprofiled_text};
use crate::named::{Detail, Named, assemble};
use crate::naming::Names;
use crate::overlap;
use crate::selection::Selection;
use crate::summary::{Subject, Summary};
use ramson_format::Kind;
use ramson_leaks::{Finding, Settings, Suppressions, Verdict, judge};
use ramson_process::clock::monotonic_ns;
use ramson_profile::{FrameName, SampleType};
use ramson_source::{Failure, Recording};
use serde::Serialize;
use stacks::NamedStack;
use std::collections::HashSet;

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

impl Course {
    fn moments(&self) -> (&DatedRecording, Option<&DatedRecording>) {
        (&self.moment, self.earlier.as_ref())
    }
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
#[derive(Serialize)]
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
#[derive(Serialize)]
pub struct Suspect {
    /// Verdict, reason and evidence.
    #[serde(flatten)]
    pub finding: Finding,
    /// The first sample was taken that long ago.
    pub first_seen_ns: u64,
    /// Leaf first.
    pub frames: Vec<Frame>,
    #[serde(skip)]
    key: Vec<FrameName>,
}

/// Judges moments of one process or of several; growth is measured where there is an earlier moment of the same process,
/// and what grows in the baseline is hidden.
pub fn suspects(
    courses: &[Course],
    baseline: &[DatedRecording],
    unprofiled: usize,
    question: &Question,
) -> Result<Suspects, Failure> {
    if question.selection.uses_labels() {
        return Err(Failure::usage(
            "--tagfocus and --tagignore: leaks judges whole stacks. Choose by frames (--focus, --show …)",
        ));
    }
    let of_baseline: Vec<(&DatedRecording, Option<&DatedRecording>)> =
        baseline.iter().map(|moment| (moment, None)).collect();
    let known = match of_baseline.as_slice() {
        [] => HashSet::new(),
        moments => growing(judged(moments, question)?),
    };
    let all: Vec<_> = courses.iter().map(Course::moments).collect();
    let of_course = |course: &Course| {
        let recording = &course.moment.recording;
        let summary = Summary::of(recording, course.moment.time_unix_ns());
        let found = judged(&[course.moments()], question);
        let found = match found {
            // What is left of the others is judged.
            Err(_) if courses.len() > 1 => Ok(Vec::new()),
            other => other,
        };
        let row = members::of_recording(recording, &summary);
        let interval_bytes = recording.snapshot.header.interval_bytes;
        let defects = summary.missing.clone();
        let subject = Subject::Recording(summary);
        let answer = Suspects::of(found?, &known, question, subject, interval_bytes, defects);
        Ok(Each { row, answer })
    };
    let mut processes =
        courses.iter().map(of_course).collect::<Result<Vec<Each<Suspects>>, Failure>>()?;
    if processes.len() == 1 {
        let mut only = processes.remove(0).answer;
        if let Some(missing) = unprofiled_text(unprofiled) {
            only.subject.add_missing(&missing);
            only.defects.push(missing);
        }
        return Ok(only);
    }
    processes.sort_by(|a, b| a.row.order(&b.row));
    let rows = processes.iter().map(|each| (each.row.clone(), &each.answer.subject));
    let subject = Subject::Sum(Sum::of(rows, unprofiled));
    let interval_bytes = processes.iter().map(|each| each.answer.interval_bytes).max().unwrap_or(0);
    let defects = processes.iter().flat_map(|each| {
        let place = each.row.name_and_pid();
        each.answer.defects.iter().map(move |defect| format!("{place}: {defect}"))
    });
    let defects = defects.chain(unprofiled_text(unprofiled)).collect();
    let found = judged(&all, question)?;
    let sum = Suspects::of(found, &known, question, subject, interval_bytes, defects);
    Ok(Suspects { processes, ..sum })
}

fn growing(found: Vec<(Suspect, Vec<String>)>) -> HashSet<Vec<FrameName>> {
    let is_growing = |(suspect, _): &(Suspect, _)| suspect.finding.verdict == Verdict::Growing;
    found.into_iter().filter(is_growing).map(|(suspect, _)| suspect.key).collect()
}

impl Suspects {
    fn of(
        mut found: Vec<(Suspect, Vec<String>)>,
        known: &HashSet<Vec<FrameName>>,
        question: &Question,
        subject: Subject,
        interval_bytes: u64,
        defects: Vec<String>,
    ) -> Self {
        let all = found.len();
        let is_suppressed = |searched: &[String]| {
            question.suppressions.matching(searched.iter().map(String::as_str)).is_some()
        };
        found.retain(|(_, searched)| !is_suppressed(searched));
        let suppressed = all - found.len();
        let mut suspects: Vec<Suspect> = found.into_iter().map(|(suspect, _)| suspect).collect();
        let before = suspects.len();
        suspects.retain(|suspect| !known.contains(&suspect.key));
        Self {
            subject,
            interval_bytes,
            stacks: suspects.len(),
            suppressed,
            known: before - suspects.len(),
            suspects,
            defects,
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
        self.suspects.iter().filter(|suspect| suspect.finding.verdict == Verdict::Growing)
    }

    /// The growth of these in bytes per hour, with the lower ends of the intervals.
    pub fn growth_at_least(&self) -> f64 {
        let growth = self.growing().filter_map(|suspect| suspect.finding.growth.as_ref());
        growth.map(|growth| growth.interval().0.max(0.0)).sum()
    }
}

/// Pairs two moments of each process. One that began in between has no earlier one; fails if no process has both.
pub fn paired(
    earlier: Vec<DatedRecording>,
    later: Vec<DatedRecording>,
    object: &str,
) -> Result<Vec<Course>, Failure> {
    let mut earlier: Vec<Option<DatedRecording>> = earlier.into_iter().map(Some).collect();
    let course = |moment: DatedRecording| {
        let is_its = |earlier: &Option<DatedRecording>| {
            earlier.as_ref().is_some_and(|earlier| {
                let (old, new) = (&earlier.recording.snapshot, &moment.recording.snapshot);
                overlap::is_same_process(old, new) && earlier.now_ns <= moment.now_ns
            })
        };
        let earlier = earlier.iter_mut().find(|earlier| is_its(earlier)).and_then(Option::take);
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

impl DatedRecording {
    /// A running process is looked at now, what is left of a dead one shows its last sample.
    pub fn of(recording: Recording) -> Self {
        let last_ns = recording.snapshot.header.last_monotonic_ns;
        let now_ns = match recording.running {
            Some(_) => last_ns.max(monotonic_ns()),
            None => last_ns,
        };
        Self { recording, now_ns }
    }

    fn time_unix_ns(&self) -> u64 {
        let header = &self.recording.snapshot.header;
        let recorded_ns = self.now_ns.saturating_sub(header.start_monotonic_ns);
        header.start_realtime_ns.saturating_add(recorded_ns)
    }
}

/// Every stack with live samples and what a suppression may match in it, worst first. Each moment may have an earlier one
/// of its process.
fn judged(
    moments: &[(&DatedRecording, Option<&DatedRecording>)],
    question: &Question,
) -> Result<Vec<(Suspect, Vec<String>)>, Failure> {
    let (mut all, mut nothing_left) = (Vec::new(), None);
    for &(moment, earlier) in moments {
        let Named { mut profile, .. } =
            assemble(&moment.recording, question.names, Detail::Numbered, Some(Kind::Heap))?;
        match question.selection.apply(&mut profile, SampleType::InuseSpace) {
            Ok(_) => all.push((moment.now_ns, stacks::stacks(moment, earlier, &profile))),
            Err(failure) => drop(nothing_left.get_or_insert(failure)),
        }
    }
    let stacks = match (all.len(), nothing_left) {
        (0, Some(failure)) => return Err(failure),
        (1, _) => all.remove(0).1,
        _ => stacks::together(all),
    };
    let settings = Settings { min_age_ns: question.min_age_ns, stacks: stacks.len() };
    let mut suspects: Vec<(Suspect, Vec<String>)> = stacks
        .into_iter()
        .map(|stack| {
            let searched = stack.searched().map(str::to_owned).collect();
            (Suspect::of(stack, &settings), searched)
        })
        .collect();
    suspects.sort_by(|(a, _), (b, _)| {
        a.finding.verdict.cmp(&b.finding.verdict).then_with(|| b.weight().total_cmp(&a.weight()))
    });
    Ok(suspects)
}

impl Suspect {
    fn of(stack: NamedStack, settings: &Settings) -> Self {
        let finding = judge(&stack.history, settings);
        let frame = |(name, line): &(FrameName, u32)| Frame {
            function: name.name.clone(),
            file: name.file.clone(),
            line: *line,
        };
        Self {
            first_seen_ns: stack.history.observed_ns(),
            finding,
            frames: stack.frames.iter().map(frame).collect(),
            key: stack.frames.into_iter().map(|(name, _)| name).collect(),
        }
    }

    /// What ranks within a verdict: what grows by its growth, the rest by its live bytes.
    fn weight(&self) -> f64 {
        match (self.finding.verdict, &self.finding.growth) {
            (Verdict::Growing, Some(growth)) => growth.per_hour.value,
            _ => self.finding.inuse_space.value,
        }
    }
}
