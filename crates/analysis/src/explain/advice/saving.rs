//! An advice, with its saving and what it needs.

use ramson_profile::Estimate;
use serde::Serialize;

/// Bytes that following an advice saves.
#[derive(Clone, Copy, Debug, Serialize, schemars::JsonSchema)]
pub struct Saving {
    /// An upper bound, or expected.
    pub bytes: u64,
    /// How uncertain these bytes are; null: they were counted, and what is saved of them depends on the program.
    pub half_width_95: Option<u64>,
    /// Not more than these bytes.
    pub is_at_most: bool,
}

/// The kind of step that following an advice takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// No step: there is nothing to do.
    Nothing,
    /// A command, while the program runs on.
    Command,
    /// A setting with which the program is started again, or the restart alone.
    Restart,
    /// A change of the program's code.
    Code,
}

/// One advice.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Advice {
    /// The name in `--json`.
    pub cause: &'static str,
    /// Kind of step that following it takes.
    pub needs: Needs,
    /// The step to take.
    pub action: String,
    /// The figures behind it.
    pub evidence: String,
    /// Possible cost of following it; `none` without one.
    pub risk: &'static str,
    /// Bytes that following it saves; null: this depends on what is found next.
    pub saving: Option<Saving>,
}

impl Saving {
    /// Bytes saved in two processes.
    pub fn and(self, other: Self) -> Self {
        let half_widths = self.half_width_95.zip(other.half_width_95);
        Self {
            bytes: self.bytes + other.bytes,
            half_width_95: half_widths.map(|(one, other)| (one as f64).hypot(other as f64) as u64),
            is_at_most: self.is_at_most || other.is_at_most,
        }
    }

    /// Bytes that are returned for certain, within that.
    pub(super) fn expected(bytes: u64, half_width_95: f64) -> Option<Self> {
        let half_width_95 = Some(half_width_95.round() as u64);
        Some(Self { bytes, half_width_95, is_at_most: false })
    }

    /// No more than these bytes.
    pub(super) fn at_most(bytes: Estimate) -> Option<Self> {
        let half_width = Some(bytes.half_width_95()).filter(|it| it.is_finite() && *it >= 0.5);
        let half_width_95 = half_width.map(|half_width| half_width.round() as u64);
        Some(Self { bytes: bytes.value.max(0.0) as u64, half_width_95, is_at_most: true })
    }
}
