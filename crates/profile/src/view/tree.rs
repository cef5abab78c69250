//! Who called whom, from the root down or from the leaf up, and what was too small to show.

use super::calls::Walk;
use super::magnitude::{by_magnitude, magnitude, recorded};
use crate::estimate::Estimate;
use crate::format;
use crate::frames::{FrameId, FrameName, FrameTable};
use crate::model::{Profile, SampleType};
use crate::stacks::{Group, Stacks};
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
    /// The text of a merged row: `(212 frames < 0.02 %: 31.0 MiB)`.
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
    let mut calls = Calls::new(profile, sample_type, &frames, walk);
    let magnitude = magnitude(profile, sample_type);
    let cutoff = magnitude * min_share;
    let mut rows = Vec::new();
    // A stack of its own: a foreign profile may be deeper than this thread's.
    let mut pending: Vec<Pending> = Vec::new();
    let all = calls.stacks.all();
    calls.push_children(&mut pending, &all, cutoff);
    while let Some(next) = pending.pop() {
        rows.push(match next {
            Pending::Rest { depth, frames, cum, moved } => {
                let kind = TreeRowKind::Merged { frames };
                TreeRow { depth, cum, flat: Estimate::default(), moved, kind }
            }
            Pending::Node(Node { group, cum, moved }) => {
                let flat = calls.push_children(&mut pending, &group, cutoff);
                let word = calls.stacks.last_word(&group).expect("only all stacks have none");
                let kind = TreeRowKind::Frame(frames.name(FrameId::of_index(word)).clone());
                TreeRow { depth: group.depth - 1, cum, flat, moved, kind }
            }
        });
    }
    let total = profile.total(sample_type);
    Tree { sample_type, total, magnitude, min_share, rows }
}

/// The stacks from the start on, and their values. A node of the tree is a group of them, and only what is shown becomes one.
struct Calls {
    stacks: Stacks,
    values: Vec<Estimate>,
}

struct Node {
    group: Group,
    cum: Estimate,
    /// Sum of |value| of the stacks through here.
    moved: f64,
}

enum Pending {
    Node(Node),
    Rest { depth: usize, frames: usize, cum: Estimate, moved: f64 },
}

impl Calls {
    fn new(profile: &Profile, sample_type: SampleType, frames: &FrameTable, walk: Walk) -> Calls {
        let words = profile.samples.iter().map(|sample| sample.locations.len()).sum();
        let mut stacks = Stacks::with_capacity(profile.samples.len(), words);
        let mut values = Vec::with_capacity(profile.samples.len());
        for (sample, value) in recorded(profile, sample_type) {
            let leaf_first = frames.stack(sample).map(|at| at.frame.index() as u32);
            match walk {
                Walk::Callees => stacks.push(leaf_first.rev()),
                Walk::Callers => stacks.push(leaf_first),
            }
            values.push(value);
        }
        Calls { stacks, values }
    }

    /// Puts the callees on the stack so that the largest is popped first and the merged rest last; returns the flat.
    fn push_children(&mut self, pending: &mut Vec<Pending>, of: &Group, cutoff: f64) -> Estimate {
        let mut groups = Vec::new();
        let ended = self.stacks.split(of, &mut groups);
        // In the order of the profile, so that sums and ties do not depend on how stacks are sorted.
        groups.sort_unstable_by_key(|group| self.stacks.first(group));
        let nodes = groups.into_iter().map(|group| self.node(group));
        let (mut shown, small): (Vec<Node>, Vec<Node>) =
            nodes.partition(|node| node.moved >= cutoff);
        if !small.is_empty() {
            let frames = small.iter().map(|node| self.stacks.count_beginnings(&node.group)).sum();
            let cum = small.iter().map(|node| node.cum).sum();
            let moved = small.iter().map(|node| node.moved).sum();
            pending.push(Pending::Rest { depth: of.depth, frames, cum, moved });
        }
        shown.sort_by(|a, b| by_magnitude(a.cum, b.cum));
        pending.extend(shown.into_iter().rev().map(Pending::Node));
        self.stacks.members(&ended).map(|index| self.values[index]).sum()
    }

    fn node(&self, group: Group) -> Node {
        let values = || self.stacks.members(&group).map(|index| self.values[index]);
        let cum = values().sum();
        let moved = values().map(|value| value.value.abs()).sum();
        Node { group, cum, moved }
    }
}
