//! Which stacks are suspects of a leak, with the evidence.

mod answer;
mod course;
mod functions;
mod groups;
mod recompiled;
mod stacks;
mod suppressed;
mod suspect;
mod totals;

pub use answer::{Answer, CannotTell};
pub use course::{Course, DatedRecording, moment_ns, paired};
pub use groups::Group;
pub use stacks::{NamedStack, stacks, together as stacks_together};
pub use suspect::{LineShare, Suspect};
pub use totals::{Look, Totals, watch};

use crate::attachment;
use crate::extents::lost;
use crate::goroutines::GrowingPlace;
use crate::members::{Each, RowGrowth, together, unprofiled_text};
use crate::named::{Detail, assemble};
use crate::naming::Names;
use crate::question::{MIN_AGE_NS, Question};
use crate::recording::what_is_missing;
use crate::summary::{Subject, Summary};
use answer::Circumstances;
use course::refuse_short;
use ramson_format::Kind;
use ramson_leaks::{Ages, DetectionLimit, Growth, StackHistory, Verdict};
use ramson_profile::{Estimate, OwnFrames, SampleType, SampleUnit, Step};
use ramson_source::{Failure, Recording, open_marks, open_recordings};
use serde::Serialize;
use std::collections::HashSet;
use std::ops::Add;
use std::slice;
use suspect::Key;

/// The result of the leak analysis.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Suspects {
    /// In short.
    pub answer: Answer,
    /// The source that the result is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// In force.
    pub interval_bytes: u64,
    /// How many stacks were judged and not hidden.
    pub stacks: usize,
    /// How old their live bytes are; `None`: nothing is live.
    pub ages: Option<Ages>,
    /// Stacks hidden by a suppression.
    pub suppressed: usize,
    /// Stacks hidden as growing in the baseline already.
    pub known: usize,
    /// Findings: those that grow first, by their growth; then the others, by live bytes.
    pub suspects: Vec<Suspect>,
    /// Leak suspects that rise together below one caller.
    pub groups: Vec<Group>,
    /// Goroutines of a Go program that became more and more while it was watched, the fastest first.
    pub goroutines: Vec<GrowingPlace>,
    /// Filters and rules that matched nothing.
    #[serde(skip)]
    pub unmatched: Vec<Step>,
    /// Defects of the profile.
    pub defects: Vec<String>,
    /// Result for each of several processes, those with the largest RSS first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Each<Suspects>>,
}

/// Judges the sources of a question.
pub fn leaks(question: &Question) -> Result<Suspects, Failure> {
    let (recordings, unprofiled) = moments(question)?;
    let courses = match &question.since {
        Some(since) => {
            let of: Vec<&Recording> = recordings.iter().collect();
            let courses = paired(dated(open_marks(since, &of)?), dated(recordings), since)?;
            refuse_short(&courses, question.min_age_ns, since)?;
            courses
        }
        None => recordings.into_iter().map(Course::of).collect(),
    };
    let courses: Vec<Course> = courses.into_iter().map(Course::with_kept_looks).collect();
    suspects(&courses, unprofiled, question)
}

/// Opens the sources, each at the moment that is to be judged. Also returns how many processes have no profile.
pub fn moments(question: &Question) -> Result<(Vec<Recording>, usize), Failure> {
    let opened = open_recordings(&question.sources)?;
    let is_range =
        |recording: &Recording| recording.past.as_ref().is_some_and(|past| past.from_ns.is_some());
    if opened.0.iter().any(is_range) {
        return Err(Failure::usage(format!(
            "{}: leaks takes a moment, not a range. Pass the end of the range, and its beginning as --since SRC@MOMENT",
            question.sources.join(" ")
        )));
    }
    Ok(opened)
}

/// Dates recordings.
pub fn dated(recordings: Vec<Recording>) -> Vec<DatedRecording> {
    recordings.into_iter().map(DatedRecording::of).collect()
}

/// Judges moments of one process or of several; growth is measured where there is an earlier moment of the same process,
/// and what grows in the baseline is hidden.
pub fn suspects(
    courses: &[Course],
    unprofiled: usize,
    question: &Question,
) -> Result<Suspects, Failure> {
    if question.selection.uses_labels() {
        return Err(Failure::usage(
            "--tagfocus and --tagignore: leaks judges whole stacks. Filter by frames (--focus, --show …)",
        ));
    }
    let mut known = HashSet::new();
    if let Some(name) = &question.baseline {
        let later: Vec<&Recording> = courses.iter().map(|one| &one.moment.recording).collect();
        let baseline: Vec<Course> = open_marks(name, &later)?.into_iter().map(Course::of).collect();
        let found = judged(&baseline, question, &known)?.suspects;
        known.extend(found.into_iter().filter(Suspect::is_growing).flat_map(|it| it.keys));
    }
    let mut answers = Vec::new();
    for course in courses {
        let recording = &course.moment.recording;
        let header = &recording.snapshot.header;
        let summary =
            Summary::of(recording, header.unix_ns(course.moment.now_ns), course.moment.rss.clone());
        let found = match judged(slice::from_ref(course), question, &known) {
            // The stacks that are left of the other processes are judged.
            Err(_) if courses.len() > 1 => Judged::default(),
            found => found?,
        };
        let mut answer = Suspects::of(found, Subject::Recording(summary));
        answer.interval_bytes = header.interval_bytes;
        answer.defects = what_is_missing(recording);
        answer.goroutines = course.goroutines.growing(&question.names)?;
        answers.push(answer);
    }
    if courses.len() == 1 {
        let mut only = answers.remove(0);
        only.defects.extend(unprofiled_text(unprofiled));
        return Ok(only);
    }
    let interval_bytes = answers.iter().map(|answer| answer.interval_bytes).max().unwrap_or(0);
    let (processes, sum, defects) =
        together(answers, unprofiled, |it| (&it.subject, &it.defects, it.answer.row_growth()));
    let sum = Suspects::of(judged(courses, question, &known)?, sum);
    Ok(Suspects { interval_bytes, defects, processes, ..sum })
}

impl Suspects {
    fn of(found: Judged, subject: Subject) -> Self {
        let Judged { answer, stacks, ages, suppressed, known, suspects, unmatched } = found;
        Self {
            answer,
            subject,
            interval_bytes: 0,
            stacks,
            ages,
            suppressed,
            known,
            groups: groups::groups(&suspects),
            suspects,
            goroutines: Vec::new(),
            unmatched,
            defects: Vec::new(),
            processes: Vec::new(),
        }
    }

    /// Leaves at most so many suspects, also of each process; 0: all.
    pub fn truncate(&mut self, most: usize) {
        if most > 0 {
            self.suspects.truncate(most);
            self.groups.retain(|group| group.suspects.iter().all(|&place| place < most));
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

/// The growth of a process with these stacks, and that of each leak suspect among them.
pub fn growth(stacks: Vec<NamedStack>) -> (RowGrowth, Vec<Growth>) {
    let whole = totals::live_per_hour(&stacks, MIN_AGE_NS);
    let live = stacks.iter().map(|stack| stack.history.inuse(SampleUnit::Bytes)).sum();
    let of = functions::Moment { live, ..functions::Moment::default() };
    let suspects = functions::judged(stacks, MIN_AGE_NS, &of);
    let growing = suspects.iter().filter(|it| it.is_growing());
    let rates: Vec<Growth> = growing.filter_map(|it| it.finding.growth).collect();
    let undecided = suspects.iter().filter(|it| it.finding.verdict == Verdict::NotEnoughData);
    let share: f64 = undecided.map(|it| it.share).sum();
    let sum = rates.iter().map(|rate| rate.per_hour).reduce(Add::add);
    (RowGrowth::of(whole, sum, share >= answer::SMALL_SHARE), rates)
}

/// By the number of the stack in the snapshot: what it has of the growth of a leak suspect, in bytes per hour. They sum to the growth that
/// the suspects have together.
pub fn growth_of_stacks(recording: &Recording, names: &Names) -> Result<Vec<Estimate>, Failure> {
    let mut profile = assemble(recording, names, Detail::Numbered, Some(Kind::Heap))?.profile;
    OwnFrames::default().fold(&mut profile);
    let now_ns = moment_ns(recording);
    let all = stacks::by_number(&recording.snapshot, now_ns, &profile);
    let together = stacks(&recording.snapshot, now_ns, None, &profile);
    let judged = functions::judged(together, MIN_AGE_NS, &functions::Moment::default());
    let mut growth = vec![Estimate::default(); recording.snapshot.stacks.len()];
    let (numbers, all): (Vec<usize>, Vec<NamedStack>) = all.into_iter().unzip();
    for (number, part) in numbers.into_iter().zip(functions::growth_parts(&judged, &all)) {
        growth[number] = part;
    }
    Ok(growth)
}

/// All stacks of some moments, judged.
#[derive(Default)]
struct Judged {
    answer: Answer,
    stacks: usize,
    ages: Option<Ages>,
    suppressed: usize,
    known: usize,
    suspects: Vec<Suspect>,
    unmatched: Vec<Step>,
}

/// Every function with live samples, without what is suppressed or `known`.
fn judged(
    courses: &[Course],
    question: &Question,
    known: &HashSet<Key>,
) -> Result<Judged, Failure> {
    let mut all = Vec::new();
    let mut nothing_left = None;
    let mut live = Estimate::default();
    let mut suppressed = 0;
    let mut unmatched: Option<Vec<Step>> = None;
    for course in courses {
        let DatedRecording { recording, now_ns, .. } = &course.moment;
        let named = assemble(recording, &question.names, Detail::Numbered, Some(Kind::Heap))?;
        let mut profile = named.profile;
        // XX see all frames.
        let all_frames = question.selection.with_all_frames();
        let mut missed = match all_frames.apply(&mut profile, SampleType::InuseSpace) {
            Ok(applied) => applied.unmatched,
            Err(failure) => {
                nothing_left.get_or_insert(failure);
                continue;
            }
        };
        live += profile.total(SampleType::InuseSpace).settled();
        suppressed += suppressed::remove(&mut profile, &question.suppressions);
        if let Some(own) = &question.selection.own_frames {
            missed.extend(own.unmatched(&profile));
            own.fold(&mut profile);
        }
        match &mut unmatched {
            Some(in_all) => in_all.retain(|step| missed.contains(step)),
            None => unmatched = Some(missed),
        }
        all.push((*now_ns, stacks(&recording.snapshot, *now_ns, Some(course), &profile)));
    }
    if let (true, Some(failure)) = (all.is_empty(), nothing_left) {
        return Err(failure);
    }
    let mut stacks = stacks_together(all);
    let before = stacks.len();
    stacks.retain(|stack| !known.contains(&suspect::key(stack)));
    let left = stacks.len();
    let histories = || stacks.iter().map(|stack| &stack.history);
    let ages = Ages::of(histories());
    let limit = limit(courses, histories(), question.min_age_ns);
    let totals = Totals::of(courses, &stacks, question.min_age_ns);
    let of =
        functions::Moment { live, unix_ns: unix_ns_of(courses), is_running: is_running(courses) };
    let is_part =
        courses.iter().any(|course| lost(&course.moment.recording.snapshot, Kind::Heap) > 0);
    let mut suspects = functions::judged(stacks, question.min_age_ns, &of);
    if is_part {
        suspects.iter_mut().for_each(Suspect::mark_part);
    }
    suspects.sort_by(Suspect::compare);
    let sampling_ended_ns = ended_ns(courses);
    let is_live_known = sampling_ended_ns.is_none() || !suspects.is_empty();
    let min_age_ns = question.min_age_ns;
    let with =
        Circumstances { limit, totals, min_age_ns, is_live_known, is_part, sampling_ended_ns };
    let answer = Answer::of(&suspects, &of, with);
    let known = before - left;
    let unmatched = unmatched.unwrap_or_default();
    Ok(Judged { answer, stacks: left, ages, suppressed, known, suspects, unmatched })
}

/// Returns the limit since the first process was recorded, because the stacks of several processes are judged together.
fn limit<'a>(
    courses: &[Course],
    histories: impl IntoIterator<Item = &'a StackHistory>,
    min_age_ns: u64,
) -> Option<DetectionLimit> {
    let recorded_ns = |course: &Course| {
        let DatedRecording { recording, now_ns, .. } = &course.moment;
        now_ns.saturating_sub(recording.snapshot.header.live_since_ns())
    };
    let interval = |course: &Course| course.moment.recording.snapshot.header.interval_bytes;
    let observed_ns = courses.iter().map(recorded_ns).max()?;
    let interval_bytes = courses.iter().map(interval).max()?;
    DetectionLimit::of(observed_ns, interval_bytes, histories, min_age_ns)
}

/// The latest moment.
fn unix_ns_of(courses: &[Course]) -> u64 {
    let latest = courses.iter().map(|course| &course.moment).max_by_key(|moment| moment.now_ns);
    latest.map_or(0, |moment| moment.recording.snapshot.header.unix_ns(moment.now_ns))
}

fn is_running(courses: &[Course]) -> bool {
    let is_sampled = |recording: &Recording| attachment::ended_ago_ns(recording).is_none();
    let mut all = courses.iter().map(|course| &course.moment.recording);
    all.any(|recording| recording.running.is_some() && is_sampled(recording))
}

/// How long ago sampling ended in the last of them in which it did, if it did in all.
fn ended_ns(courses: &[Course]) -> Option<u64> {
    let ended = courses.iter().map(|course| attachment::ended_ago_ns(&course.moment.recording));
    let all: Option<Vec<_>> = ended.collect();
    all?.into_iter().min()
}
