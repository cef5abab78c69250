//! The call tree in flat arrays: built once, so that a picture of it costs what it shows.
//!
//! A node is a run of frames, each of which the same stacks pass through: trees of ten million frames come to a million and a half. Nodes
//! stand in the order of the tree, each before what it leads to and the largest of siblings first, so that what is below a node follows it.

use super::magnitude::by_magnitude;
use crate::estimate::Estimate;
use crate::frames::{FrameId, FrameTable};
use crate::model::{Profile, SampleType};
use crate::stacks::{Group, Stacks};

/// Which way a tree leads from its first frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// From the outermost callers to what they call.
    Callees,
    /// From the allocating functions to what calls them.
    Callers,
}

/// The calls of a profile, with what one sample type counts.
pub struct CallTree {
    pub(super) walk: Walk,
    /// The frames of all nodes' runs, in their order.
    pub(super) frames: Vec<FrameId>,
    /// The first is the whole, whose run is empty.
    pub(super) nodes: Vec<Node>,
    /// Values of the stacks that end at nodes that lead further, by `Node::ending`.
    ends: Vec<Values>,
    /// Sum of |value| through each node, where that is more than the value's own: in a diff.
    moved: Vec<f64>,
    /// Another figure of each node; empty if there is none.
    beside: Vec<Estimate>,
    /// The other figure of the stacks that end at nodes that lead further, by `Node::ending`.
    ends_beside: Vec<Estimate>,
}

/// The value that is counted, and the number of objects.
pub(super) type Values = [Estimate; 2];

pub(super) struct Node {
    /// The index at which its run begins among the frames. The run ends where the next node's begins.
    start: u32,
    /// Nodes from this one to the end of what it leads to.
    pub span: u32,
    /// Frames of these nodes.
    pub frames: u32,
    /// Index of what ends here; `NOTHING`: all if it leads nowhere, else nothing.
    ending: u32,
    /// Stacks that pass through here.
    pub cum: Values,
}

const NOTHING: u32 = u32::MAX;

impl CallTree {
    /// The tree from the outermost callers. `frames` are of `profile`, and `beside` is another figure of each of its samples, which
    /// nodes sum, too.
    pub fn new(
        profile: &Profile,
        frames: &FrameTable,
        sample_type: SampleType,
        beside: Option<&[Estimate]>,
    ) -> CallTree {
        Growing::new(profile, frames, sample_type, beside).grow()
    }

    /// The same stacks from where the allocating functions are.
    pub fn callers(&self) -> CallTree {
        self.regrown(Walk::Callers, |stack| Some(stack))
    }

    /// The stacks through some functions, by `FrameId::index`, from the outermost of these on: what they call, or what calls them.
    pub fn around(&self, functions: &[bool], walk: Walk) -> CallTree {
        self.regrown(walk, |stack| {
            let found = stack.iter().position(|&word| functions[word as usize])?;
            Some(match walk {
                Walk::Callees => &stack[found..],
                Walk::Callers => &stack[..=found],
            })
        })
    }

    /// A tree of a part of each stack, which `part` is given from the outermost caller on.
    fn regrown(&self, walk: Walk, part: impl Fn(&[u32]) -> Option<&[u32]>) -> CallTree {
        debug_assert!(
            self.walk == Walk::Callees,
            "only such a tree has stacks from the outermost caller on"
        );
        let stacks = Stacks::with_capacity(0, 0);
        let has_beside = !self.beside.is_empty();
        let mut growing =
            Growing { walk, stacks, values: Vec::new(), beside: has_beside.then(Vec::new) };
        let mut stack: Vec<u32> = Vec::new();
        // For each node that the current one is below: the index where the node ends, and the length of the stack without it.
        let mut open: Vec<(usize, usize)> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            while let Some((_, length)) = open.pop_if(|(end, _)| *end <= index) {
                stack.truncate(length);
            }
            open.push((index + node.span as usize, stack.len()));
            stack.extend(self.run(index).iter().map(|frame| frame.index() as u32));
            let Some((ended, part)) = self.ended(index).zip(part(&stack)) else { continue };
            match walk {
                Walk::Callees => growing.stacks.push(part.iter().copied()),
                Walk::Callers => growing.stacks.push(part.iter().rev().copied()),
            }
            growing.values.push(ended);
            if let Some(beside) = &mut growing.beside {
                beside.push(self.ended_beside(index));
            }
        }
        growing.grow()
    }

    /// All stacks through one of these frames, by `FrameId::index`, each once.
    pub fn through(&self, frames: &[bool]) -> Estimate {
        let mut sum = Estimate::default();
        let mut index = 0;
        while let Some(node) = self.nodes.get(index) {
            let is_through = self.run(index).iter().any(|frame| frames[frame.index()]);
            if is_through {
                sum += node.cum[0];
            }
            index += if is_through { node.span as usize } else { 1 };
        }
        sum
    }

    /// Gives each node what is below it, and lets go of the room that it does not need.
    fn add_up(&mut self, parents: &[u32]) {
        for index in (1..self.nodes.len()).rev() {
            let Node { span, frames, .. } = self.nodes[index];
            let parent = &mut self.nodes[parents[index] as usize];
            parent.span += span;
            parent.frames += frames;
        }
        self.frames.shrink_to_fit();
        self.nodes.shrink_to_fit();
        self.beside.shrink_to_fit();
    }

    /// The memory of the tree, in bytes.
    pub fn bytes(&self) -> usize {
        self.frames.capacity() * size_of::<FrameId>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.ends.capacity() * size_of::<Values>()
            + self.moved.capacity() * size_of::<f64>()
            + (self.beside.capacity() + self.ends_beside.capacity()) * size_of::<Estimate>()
    }

    /// The frames that a node stands for.
    pub(super) fn run(&self, index: usize) -> &[FrameId] {
        let end = self.nodes.get(index + 1).map_or(self.frames.len(), |next| next.start as usize);
        &self.frames[self.nodes[index].start as usize..end]
    }

    /// The values of the stacks that end at the last frame of a node, if any do.
    pub(super) fn ended(&self, index: usize) -> Option<Values> {
        let node = &self.nodes[index];
        match node.ending {
            NOTHING => (node.span == 1).then_some(node.cum),
            ending => Some(self.ends[ending as usize]),
        }
    }

    /// The other figure of the stacks that end there.
    fn ended_beside(&self, index: usize) -> Estimate {
        match self.nodes[index].ending {
            NOTHING => self.beside(index),
            ending => self.ends_beside[ending as usize],
        }
    }

    /// The other figure of a node; nothing where there is none.
    pub(super) fn beside(&self, index: usize) -> Estimate {
        self.beside.get(index).copied().unwrap_or_default()
    }

    /// Sum of |value|: what is a picture's width.
    pub(super) fn moved(&self, index: usize) -> f64 {
        self.moved.get(index).copied().unwrap_or(self.nodes[index].cum[0].value)
    }

    /// The nodes that a node leads to, the largest first.
    pub(super) fn children(&self, index: usize) -> impl Iterator<Item = usize> {
        let end = index + self.nodes[index].span as usize;
        let within = move |child: usize| (child < end).then_some(child);
        let next = move |&child: &usize| within(child + self.nodes[child].span as usize);
        std::iter::successors(within(index + 1), next)
    }
}

/// Stacks that become a tree. They stand alone: what they were taken from is not needed any more.
pub struct Growing {
    walk: Walk,
    stacks: Stacks,
    values: Vec<Values>,
    beside: Option<Vec<Estimate>>,
}

/// A group that becomes a node.
struct Bud {
    group: Group,
    parent: u32,
    cum: Values,
    moved: f64,
}

impl Growing {
    /// Those of a profile, as for `CallTree::new`. A sample that counts nothing stays if its other figure is not nothing.
    pub fn new(
        profile: &Profile,
        frames: &FrameTable,
        sample_type: SampleType,
        beside: Option<&[Estimate]>,
    ) -> Growing {
        Self::along(Walk::Callees, profile, frames, sample_type, beside)
    }

    pub(super) fn along(
        walk: Walk,
        profile: &Profile,
        frames: &FrameTable,
        sample_type: SampleType,
        beside: Option<&[Estimate]>,
    ) -> Growing {
        let words = profile.samples.iter().map(|sample| sample.locations.len()).sum();
        let mut stacks = Stacks::with_capacity(profile.samples.len(), words);
        let mut values = Vec::with_capacity(profile.samples.len());
        let mut kept = beside.map(|_| Vec::with_capacity(profile.samples.len()));
        for (index, sample) in profile.samples.iter().enumerate() {
            let value = sample.value(sample_type);
            let figure = beside.map_or(Estimate::default(), |beside| beside[index]);
            if value.is_nothing() && figure.is_nothing() {
                continue;
            }
            let leaf_first = frames.stack(sample).map(|at| at.frame.index() as u32);
            match walk {
                Walk::Callees => stacks.push(leaf_first.rev()),
                Walk::Callers => stacks.push(leaf_first),
            }
            values.push([value, sample.value(sample_type.objects())]);
            if let Some(kept) = &mut kept {
                kept.push(figure);
            }
        }
        Growing { walk, stacks, values, beside: kept }
    }

    /// The tree.
    pub fn grow(self) -> CallTree {
        self.grow_above(0.0)
    }

    /// The tree for a cut at this share of the whole: it counts the frames of smaller nodes and does not keep them.
    pub(super) fn grow_above(mut self, least_share: f64) -> CallTree {
        let walk = self.walk;
        let mut tree = CallTree {
            walk,
            frames: Vec::new(),
            nodes: Vec::new(),
            ends: Vec::new(),
            moved: Vec::new(),
            beside: Vec::new(),
            ends_beside: Vec::new(),
        };
        let is_diff = self.values.iter().any(|[value, _]| value.value < 0.0);
        let width = |cum: &Values, moved: f64| if is_diff { moved } else { cum[0].value };
        let mut parents = Vec::new();
        let mut groups = Vec::new();
        let whole = self.bud(self.stacks.all(), NOTHING);
        let least = width(&whole.cum, whole.moved) * least_share;
        let mut pending = vec![whole];
        while let Some(Bud { group, parent, cum, moved }) = pending.pop() {
            let index = tree.nodes.len() as u32;
            let start = tree.frames.len() as u32;
            let mut ending = NOTHING;
            tree.beside.extend(self.beside(&group));
            tree.moved.extend(is_diff.then_some(moved));
            parents.push(parent);
            if parent != NOTHING && width(&cum, moved) < least {
                let frames = self.frames_of(group);
                tree.nodes.push(Node { start, span: 1, frames, ending, cum });
                continue;
            }
            let mut common = 0;
            if let Some(from) = group.depth.checked_sub(1) {
                common = self.stacks.common(&group);
                let run = &self.stacks.get(self.stacks.first(&group))[from..common];
                tree.frames.extend(run.iter().map(|&word| FrameId::of_index(word)));
            }
            if group.depth == 0 || !self.stacks.is_one(&group) {
                let ended = self.stacks.split(&group.at_depth(common), &mut groups);
                if self.stacks.members(&ended).next().is_some() && !groups.is_empty() {
                    ending = tree.ends.len() as u32;
                    tree.ends.push(self.sum(&ended).0);
                    tree.ends_beside.extend(self.beside(&ended));
                }
            }
            groups.sort_unstable_by_key(|group| self.stacks.first(group));
            let before = pending.len();
            pending.extend(groups.drain(..).map(|group| self.bud(group, index)));
            pending[before..].sort_by(|a, b| by_magnitude(a.cum[0], b.cum[0]));
            pending[before..].reverse();
            let frames = tree.frames.len() as u32 - start;
            tree.nodes.push(Node { start, span: 1, frames, ending, cum });
        }
        tree.add_up(&parents);
        tree
    }

    /// How many frames a group has from where it begins on.
    fn frames_of(&mut self, group: Group) -> u32 {
        let mut pending = vec![group];
        let mut frames = 0;
        while let Some(group) = pending.pop() {
            let common = self.stacks.common(&group);
            frames += common + 1 - group.depth;
            if !self.stacks.is_one(&group) {
                self.stacks.split(&group.at_depth(common), &mut pending);
            }
        }
        frames as u32
    }

    /// The other figure of a group, if there is one.
    fn beside(&self, group: &Group) -> Option<Estimate> {
        let beside = self.beside.as_ref()?;
        Some(self.stacks.members(group).map(|index| beside[index]).sum())
    }

    fn bud(&self, group: Group, parent: u32) -> Bud {
        let (cum, moved) = self.sum(&group);
        Bud { group, parent, cum, moved }
    }

    fn sum(&self, group: &Group) -> (Values, f64) {
        let mut sum = Values::default();
        let mut moved = 0.0;
        for index in self.stacks.members(group) {
            let [value, objects] = self.values[index];
            sum[0] += value;
            sum[1] += objects;
            moved += value.value.abs();
        }
        (sum, moved)
    }
}
