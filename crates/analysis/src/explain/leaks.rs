//! Whether the live memory grows, as `ramson leaks` judges it from the ages of what is kept.

use crate::question::Question;
use crate::suspects::{Course, DatedRecording, Suspect, Totals, suspects};
use ramson_leaks::{DetectionLimit, Verdict};
use ramson_profile::{Estimate, FrameName, fold_addresses};
use ramson_source::{Failure, Recording};
use serde::Serialize;

/// Frames shown of a stack.
const MOST_FRAMES: usize = 6;

/// The result of the leak analysis.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Leaks {
    /// How many stacks were judged.
    pub stacks: usize,
    /// Those that grow, the fastest first.
    pub growing: Vec<Growing>,
    /// Live bytes of stacks with too few samples, or observed for too short a time, to judge.
    pub undecided: Estimate,
    /// The smallest leak that would have been found by now; null if none would.
    pub limit: Option<DetectionLimit>,
    /// Growth of the process as a whole, whatever its stacks do.
    pub totals: Totals,
}

/// A stack that grows.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Growing {
    /// Leaf first, with lines.
    pub frames: Vec<String>,
    /// Live bytes.
    pub live: Estimate,
    /// Bytes per hour.
    pub bytes_per_hour: Option<Estimate>,
    /// The evidence, as a clause.
    pub reason: String,
}

impl Leaks {
    /// Judges the live stacks of a recording that is calibrated.
    pub fn of(recording: Recording, question: &Question) -> Result<Self, Failure> {
        let moment = DatedRecording::calibrated(recording);
        let course = Course::of_moment(moment).with_kept_looks();
        let found = suspects(&[course], 0, question)?;
        let undecided = found.suspects.iter().map(|suspect| &suspect.finding);
        let undecided = undecided.filter(|finding| finding.verdict == Verdict::NotEnoughData);
        Ok(Self {
            stacks: found.stacks,
            growing: found.growing().map(Growing::of).collect(),
            undecided: undecided.map(|finding| finding.inuse_space).sum(),
            limit: found.answer.limit,
            totals: found.answer.totals,
        })
    }

    /// Live bytes of all that grow.
    pub fn live(&self) -> Estimate {
        self.growing.iter().map(|stack| stack.live).sum()
    }

    /// Sums the growth of all that grow, in bytes per hour.
    pub fn bytes_per_hour(&self) -> Estimate {
        self.growing.iter().filter_map(|stack| stack.bytes_per_hour).sum()
    }
}

impl Growing {
    fn of(suspect: &Suspect) -> Self {
        let finding = &suspect.finding;
        let frames = suspect.frames.iter();
        Self {
            frames: fold_addresses(frames.take(MOST_FRAMES).map(FrameName::short)),
            live: finding.inuse_space,
            bytes_per_hour: finding.growth.as_ref().map(|growth| growth.per_hour),
            reason: finding.reason.clone(),
        }
    }
}
