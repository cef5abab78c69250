//! The call tree as far as a picture can show it: what is narrower than a share, or deeper than a bound, is merged and counted. Only
//! what is shown becomes a node, so that a tree of millions costs what its picture has.

use super::magnitude::{by_magnitude, recorded};
use crate::estimate::Estimate;
use crate::frames::{FrameId, FrameTable};
use crate::model::{Profile, SampleType};
use crate::stacks::{Group, Stacks};
use hashbrown::HashMap;

/// Which way a tree leads from its first frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// From the outermost callers to what they call.
    Callees,
    /// From the allocating functions to what calls them.
    Callers,
}

/// Which tree, and how much of it.
pub struct Cutting<'a> {
    /// What is counted.
    pub sample_type: SampleType,
    /// Which way.
    pub walk: Walk,
    /// The tree begins at the outermost frame of one of these functions, by `FrameId::index`, and has only stacks with one.
    pub begin: Option<&'a [bool]>,
    /// The frames from the start to the one that is zoomed to; what is not in the tree ends it.
    pub path: &'a [FrameId],
    /// Of the zoomed frame's value; narrower frames are merged.
    pub least_share: f64,
    /// Frames below the zoomed one; deeper ones are merged.
    pub most_depth: usize,
}

/// The tree below the zoomed frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// All stacks of the tree, zoomed or not.
    pub total: CutNode,
    /// The zoomed frame and those that lead to it, outermost first. The last is the zoomed one; none: it is the whole.
    pub path: Vec<CutNode>,
    /// Each before what it leads to, by |cum|, merged ones last. Depth 0 is directly below the zoomed frame.
    pub nodes: Vec<CutNode>,
    /// What each function of the zoomed stacks allocates itself, and how many objects; the largest first.
    pub flat: Vec<(FrameId, Estimate, Estimate)>,
}

/// A frame of the tree, or several that are merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CutNode {
    /// 0 for the first frames.
    pub depth: usize,
    /// `None`: merged, or the whole.
    pub frame: Option<FrameId>,
    /// Stacks that pass through here.
    pub cum: Estimate,
    /// Stacks that end here, where the tree leads.
    pub flat: Estimate,
    /// How many allocations `cum` is.
    pub objects: Estimate,
    /// How many frames are merged here; 0: it is a frame.
    pub merged: usize,
}

/// Cuts the tree. `frames` are of `profile`.
pub fn cut(profile: &Profile, frames: &FrameTable, cutting: &Cutting) -> Cut {
    let mut tree = CutTree::new(profile, frames, cutting);
    let mut zoomed = tree.stacks.all();
    let mut total = tree.node(&zoomed);
    total.frame = None;
    let mut path = Vec::new();
    for &frame in cutting.path {
        let (_, groups) = tree.split(&zoomed);
        let next = groups.into_iter().find(|group| tree.frame(group) == Some(frame));
        let Some(next) = next else { break };
        zoomed = next;
        let mut node = tree.node(&zoomed);
        node.flat = tree.split(&zoomed).0;
        path.push(node);
    }
    let cutoff = tree.moved(&zoomed) * cutting.least_share;
    let flat = tree.flat(&zoomed, cutting.walk);
    let (own, nodes) = tree.nodes(&zoomed, cutoff, cutting.most_depth);
    path.last_mut().unwrap_or(&mut total).flat = own;
    Cut { total, path, nodes, flat }
}

/// Stacks from where the tree begins, with their values.
struct CutTree<'a> {
    stacks: Stacks,
    values: Vec<[Estimate; 2]>,
    frames: &'a FrameTable,
}

impl<'a> CutTree<'a> {
    fn new(profile: &Profile, frames: &'a FrameTable, cutting: &Cutting) -> Self {
        let words = profile.samples.iter().map(|sample| sample.locations.len()).sum();
        let mut stacks = Stacks::with_capacity(profile.samples.len(), words);
        let mut values = Vec::with_capacity(profile.samples.len());
        let mut root_first = Vec::new();
        for (sample, value) in recorded(profile, cutting.sample_type) {
            root_first.clear();
            root_first.extend(frames.stack(sample).map(|at| at.frame.index() as u32).rev());
            let begin = match cutting.begin {
                None => 0..root_first.len(),
                Some(is_begin) => {
                    let found = root_first.iter().position(|&word| is_begin[word as usize]);
                    let Some(found) = found else { continue };
                    if cutting.walk == Walk::Callees {
                        found..root_first.len()
                    } else {
                        0..found + 1
                    }
                }
            };
            let shown = root_first[begin].iter().copied();
            match cutting.walk {
                Walk::Callees => stacks.push(shown),
                Walk::Callers => stacks.push(shown.rev()),
            }
            values.push([value, sample.value(cutting.sample_type.objects())]);
        }
        Self { stacks, values, frames }
    }

    fn frame(&self, group: &Group) -> Option<FrameId> {
        self.stacks.last_word(group).map(|word| self.frames.id(word))
    }

    /// What ends at a group, and the groups below it in the order of the profile.
    fn split(&mut self, group: &Group) -> (Estimate, Vec<Group>) {
        let mut groups = Vec::new();
        let ended = self.stacks.split(group, &mut groups);
        groups.sort_unstable_by_key(|group| self.stacks.first(group));
        (self.stacks.members(&ended).map(|index| self.values[index][0]).sum(), groups)
    }

    fn node(&self, group: &Group) -> CutNode {
        let values = || self.stacks.members(group).map(|index| self.values[index]);
        CutNode {
            depth: group.depth.saturating_sub(1),
            frame: self.frame(group),
            cum: values().map(|[value, _]| value).sum(),
            flat: Estimate::default(),
            objects: values().map(|[_, objects]| objects).sum(),
            merged: 0,
        }
    }

    /// Sum of |value|: what is a picture's width.
    fn moved(&self, group: &Group) -> f64 {
        self.stacks.members(group).map(|index| self.values[index][0].value.abs()).sum()
    }

    fn flat(&self, group: &Group, walk: Walk) -> Vec<(FrameId, Estimate, Estimate)> {
        let mut sums: HashMap<u32, [Estimate; 2]> = HashMap::new();
        for index in self.stacks.members(group) {
            let words = self.stacks.get(index);
            let leaf = if walk == Walk::Callees { words.last() } else { words.first() };
            let Some(&leaf) = leaf else { continue };
            let [value, objects] = sums.entry(leaf).or_default();
            *value += self.values[index][0];
            *objects += self.values[index][1];
        }
        let of =
            |(word, [value, objects]): (u32, [Estimate; 2])| (self.frames.id(word), value, objects);
        let mut all: Vec<_> = sums.into_iter().map(of).collect();
        all.sort_by(|a, b| by_magnitude(a.1, b.1).then(a.0.cmp(&b.0)));
        all
    }

    fn nodes(
        &mut self,
        zoomed: &Group,
        cutoff: f64,
        most_depth: usize,
    ) -> (Estimate, Vec<CutNode>) {
        let mut nodes = Vec::new();
        let mut pending = Vec::new();
        let own = self.push(&mut pending, zoomed, cutoff, zoomed.depth + most_depth);
        while let Some((group, mut node)) = pending.pop() {
            if let Some(group) = group {
                node.flat = self.push(&mut pending, &group, cutoff, zoomed.depth + most_depth);
            }
            node.depth -= zoomed.depth;
            nodes.push(node);
        }
        (own, nodes)
    }

    /// Puts what is below a group on the stack, the largest on top and the merged rest lowest; returns what ends at it.
    fn push(
        &mut self,
        pending: &mut Vec<(Option<Group>, CutNode)>,
        of: &Group,
        cutoff: f64,
        last_depth: usize,
    ) -> Estimate {
        let (ended, groups) = self.split(of);
        let mut rest = CutNode { depth: of.depth, ..CutNode::default() };
        let mut shown = Vec::new();
        for group in groups {
            let node = self.node(&group);
            if group.depth <= last_depth && self.moved(&group) >= cutoff {
                shown.push((Some(group), node));
                continue;
            }
            rest.merged += self.stacks.count_beginnings(&group);
            rest.cum += node.cum;
            rest.objects += node.objects;
        }
        if rest.merged > 0 {
            pending.push((None, rest));
        }
        shown.sort_by(|a, b| by_magnitude(a.1.cum, b.1.cum));
        pending.extend(shown.into_iter().rev());
        ended
    }
}

#[cfg(test)]
#[path = "../cut_tests.rs"]
mod tests;
