//! Which stacks are suspects of a leak, with the evidence.

pub mod stacks;

use crate::frame::Frame;
use crate::named::{Detail, Named, assemble};
use crate::naming::Names;
use crate::overlap;
use crate::selection::Selection;
use crate::summary::Summary;
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
    pub summary: Summary,
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

/// Judges a moment; growth is measured where there is an earlier one, and what grows in the baseline is hidden.
pub fn suspects(
    moment: &DatedRecording,
    earlier: Option<&DatedRecording>,
    baseline: Option<&DatedRecording>,
    question: &Question,
) -> Result<Suspects, Failure> {
    if question.selection.uses_labels() {
        return Err(Failure::usage(
            "--tagfocus and --tagignore: leaks judges whole stacks. Choose by frames (--focus, --show …)",
        ));
    }
    let recording = &moment.recording;
    let mut found = judged(moment, earlier, question)?;
    let all = found.len();
    let is_suppressed = |searched: &[String]| {
        question.suppressions.matching(searched.iter().map(String::as_str)).is_some()
    };
    found.retain(|(_, searched)| !is_suppressed(searched));
    let suppressed = all - found.len();
    let mut suspects: Vec<Suspect> = found.into_iter().map(|(suspect, _)| suspect).collect();
    let before = suspects.len();
    if let Some(baseline) = baseline {
        let known = judged(baseline, None, question)?;
        let is_growing = |(suspect, _): &(Suspect, _)| suspect.finding.verdict == Verdict::Growing;
        let known: HashSet<Vec<FrameName>> =
            known.into_iter().filter(is_growing).map(|(suspect, _)| suspect.key).collect();
        suspects.retain(|suspect| !known.contains(&suspect.key));
    }
    let header = &recording.snapshot.header;
    let summary = Summary::of(recording, moment.time_unix_ns());
    Ok(Suspects {
        interval_bytes: header.interval_bytes,
        stacks: suspects.len(),
        suppressed,
        known: before - suspects.len(),
        suspects,
        defects: summary.missing.clone(),
        summary,
    })
}

impl Suspects {
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

/// Pairs two moments of one process.
pub fn paired(
    earlier: &DatedRecording,
    later: &DatedRecording,
    object: &str,
) -> Result<(), Failure> {
    let is_same = overlap::is_same_process(&earlier.recording.snapshot, &later.recording.snapshot);
    if !is_same || earlier.now_ns > later.now_ns {
        return Err(Failure::usage(format!(
            "{object}: not an earlier moment of the same process. Growth is measured between two moments of one; \
             --baseline compares with another process"
        )));
    }
    Ok(())
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

/// Every stack with live samples and what a suppression may match in it, worst first.
fn judged(
    moment: &DatedRecording,
    earlier: Option<&DatedRecording>,
    question: &Question,
) -> Result<Vec<(Suspect, Vec<String>)>, Failure> {
    let Named { mut profile, .. } =
        assemble(&moment.recording, question.names, Detail::Numbered, Some(Kind::Heap))?;
    question.selection.apply(&mut profile, SampleType::InuseSpace)?;
    let stacks = stacks::stacks(moment, earlier, &profile);
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
