//! Who called whom, from the root down or from the leaf up, and what was too small to show.

use super::calls::{Growing, Walk};
use super::cut::Cutting;
use super::magnitude::magnitude;
use crate::estimate::Estimate;
use crate::format;
use crate::frames::{FrameName, FrameTable};
use crate::model::{Profile, SampleType};
use serde::Serialize;

/// All calls as an indented list.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Tree {
    /// The sample type that the values count.
    pub sample_type: SampleType,
    /// Sum over all stacks; equals the sum of the rows of depth 0.
    pub total: Estimate,
    /// Sum of |value| over all stacks: base of shares. Equals `total.value` unless the profile is a diff.
    #[serde(skip)]
    pub magnitude: f64,
    /// The share below which frames were merged, 0…1.
    pub min_share: f64,
    /// Each caller before its callees (or each callee before its callers), these by |cum|, the merged rest last.
    pub rows: Vec<TreeRow>,
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TreeRow {
    /// 0 for the frames that the tree begins with.
    pub depth: usize,
    /// Stacks that pass through here.
    pub cum: Estimate,
    /// Stacks that end here, where the tree leads; 0 for a merged row.
    pub flat: Estimate,
    /// Sum of |value| of the stacks through here: equal to `cum.value` unless the profile is a diff.
    #[serde(skip)]
    pub moved: f64,
    /// A frame, or the rest.
    #[serde(flatten)]
    pub kind: TreeRowKind,
}

/// The frames that a line of the list stands for.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum TreeRowKind {
    /// One function, called along this path. Recursion is not folded: each activation is a level.
    Frame(FrameName),
    /// Callees below the minimum share, with everything beneath them.
    Merged {
        /// How many frames of the tree these are, callees of callees included.
        #[serde(rename = "merged_frames")]
        frames: usize,
    },
}

impl Tree {
    /// The text of a merged row: `(212 frames < 0.02%: 31.0 MiB)`.
    pub fn merged_label(&self, frames: usize, cum: Estimate) -> String {
        let noun = if frames == 1 { "frame" } else { "frames" };
        let count = format::format_objects(frames as f64);
        let share = format::format_share(self.min_share);
        let value = format::format_value(cum.value, self.sample_type.unit());
        format!("({count} {noun} < {share}: {value})")
    }
}

/// The call tree. A frame is merged if the stacks through it move less than `min_share` of all (0: show everything;
/// in a diff +5 and −5 are 10 moved, so that opposite changes do not hide each other).
pub fn tree(profile: &Profile, sample_type: SampleType, min_share: f64) -> Tree {
    list(profile, sample_type, min_share, Walk::Callees)
}

/// The call tree upside down: the allocating functions, and beneath each its callers.
pub fn callers(profile: &Profile, sample_type: SampleType, min_share: f64) -> Tree {
    list(profile, sample_type, min_share, Walk::Callers)
}

fn list(profile: &Profile, sample_type: SampleType, min_share: f64, walk: Walk) -> Tree {
    let frames = FrameTable::new(profile);
    let growing = Growing::along(walk, profile, &frames, sample_type, None);
    let calls = growing.grow_above(min_share);
    let cutting = Cutting { path: &[], least_share: min_share, most_depth: usize::MAX };
    let rows = calls.cut(&cutting).nodes.into_iter().map(|node| TreeRow {
        depth: node.depth,
        cum: node.cum,
        flat: node.flat,
        moved: node.moved,
        kind: match node.frame {
            Some(frame) => TreeRowKind::Frame(frames.name(frame).clone()),
            None => TreeRowKind::Merged { frames: node.merged },
        },
    });
    let rows = rows.collect();
    let total = profile.total(sample_type);
    Tree { sample_type, total, magnitude: magnitude(profile, sample_type), min_share, rows }
}
