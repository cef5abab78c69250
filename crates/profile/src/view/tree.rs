//! Who called whom, from the root down, and what was too small to show.

use super::{by_magnitude, magnitude, recorded};
use crate::estimate::Estimate;
use crate::format;
use crate::frames::{FrameId, FrameName, FrameTable};
use crate::model::{Profile, SampleType};
use std::collections::HashMap;

/// All calls as an indented list.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// What the values count.
    pub sample_type: SampleType,
    /// Sum over all stacks; equals the sum of the rows of depth 0.
    pub total: Estimate,
    /// Sum of |value| over all stacks: base of shares. Equals `total.value` unless the profile is a diff.
    pub magnitude: f64,
    /// The share below which frames were merged, 0…1.
    pub min_share: f64,
    /// Each caller before its callees, callees by |cum|, the merged rest last.
    pub rows: Vec<TreeRow>,
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeRow {
    /// 0 for the root frames.
    pub depth: usize,
    /// Stacks that pass through here.
    pub cum: Estimate,
    /// Stacks that end here; 0 for a merged row.
    pub flat: Estimate,
    /// A frame, or the rest.
    pub kind: TreeRowKind,
}

/// What a line of the list stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum TreeRowKind {
    /// One function, called along this path. Recursion is not folded: each activation is a level.
    Frame(FrameName),
    /// Callees below the minimum share, with everything beneath them.
    Merged {
        /// How many frames of the tree these are, callees of callees included.
        frames: usize,
    },
}

impl Tree {
    /// What is written on a merged row: `(212 frames < 0.02 %: 31.0 MiB)`.
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
    let frames = FrameTable::new(profile);
    let mut nodes = build(profile, sample_type, &frames);
    let magnitude = magnitude(profile, sample_type);
    let cutoff = magnitude * min_share;
    count_descendants(&mut nodes);
    let mut rows = Vec::new();
    // A stack of its own: a foreign profile may be deeper than this thread's.
    let mut pending: Vec<Pending> = Vec::new();
    push_children(&nodes, &mut pending, ROOT, 0, cutoff);
    while let Some(next) = pending.pop() {
        let (cum, flat, kind) = match next.what {
            What::Rest { frames, cum } => {
                (cum, Estimate::default(), TreeRowKind::Merged { frames })
            }
            What::Node(index) => {
                push_children(&nodes, &mut pending, index, next.depth + 1, cutoff);
                let node = &nodes[index];
                let name = frames.name(node.frame.expect("only the root has none")).clone();
                (node.cum, node.flat, TreeRowKind::Frame(name))
            }
        };
        rows.push(TreeRow { depth: next.depth, cum, flat, kind });
    }
    let total = profile.total(sample_type);
    Tree { sample_type, total, magnitude, min_share, rows }
}

const ROOT: usize = 0;

#[derive(Default)]
struct Node {
    /// `None` for the root, which stands for the whole profile.
    frame: Option<FrameId>,
    parent: usize,
    children: Vec<usize>,
    cum: Estimate,
    flat: Estimate,
    /// Sum of |value| of the stacks through here.
    moved: f64,
    /// Frames in this subtree, this one included.
    frames: usize,
}

struct Pending {
    depth: usize,
    what: What,
}

enum What {
    Node(usize),
    Rest { frames: usize, cum: Estimate },
}

/// Parents have smaller indices than their children.
fn build(profile: &Profile, sample_type: SampleType, frames: &FrameTable) -> Vec<Node> {
    let mut nodes = vec![Node::default()];
    let mut child_of: HashMap<(usize, FrameId), usize> = HashMap::new();
    for (sample, value) in recorded(profile, sample_type) {
        let mut current = ROOT;
        for at in frames.stack(sample).rev() {
            let parent = current;
            current = *child_of.entry((parent, at.frame)).or_insert_with(|| {
                nodes.push(Node { frame: Some(at.frame), parent, ..Node::default() });
                let child = nodes.len() - 1;
                nodes[parent].children.push(child);
                child
            });
            nodes[current].cum += value;
            nodes[current].moved += value.value.abs();
        }
        nodes[current].flat += value;
    }
    nodes
}

fn count_descendants(nodes: &mut [Node]) {
    for index in (1..nodes.len()).rev() {
        nodes[index].frames += 1;
        let (frames, parent) = (nodes[index].frames, nodes[index].parent);
        nodes[parent].frames += frames;
    }
}

/// Puts the callees on the stack so that the largest is popped first and the merged rest last.
fn push_children(
    nodes: &[Node],
    pending: &mut Vec<Pending>,
    parent: usize,
    depth: usize,
    cutoff: f64,
) {
    let shown = |child: &usize| nodes[*child].moved >= cutoff;
    let (mut shown, small): (Vec<usize>, Vec<usize>) =
        nodes[parent].children.iter().partition(|child| shown(child));
    if !small.is_empty() {
        let frames = small.iter().map(|&child| nodes[child].frames).sum();
        let cum = small.iter().map(|&child| nodes[child].cum).sum();
        pending.push(Pending { depth, what: What::Rest { frames, cum } });
    }
    shown.sort_by(|&a, &b| by_magnitude(nodes[a].cum, nodes[b].cum).then(a.cmp(&b)));
    let rows = shown.into_iter().rev();
    pending.extend(rows.map(|child| Pending { depth, what: What::Node(child) }));
}
