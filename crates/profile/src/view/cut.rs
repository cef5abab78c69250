//! The call tree as far as a picture can show it: what is narrower than a share, or deeper than a bound, is merged and counted.

use super::calls::{CallTree, Values, Walk};
use super::magnitude::by_magnitude;
use crate::estimate::Estimate;
use crate::frames::FrameId;

/// How much of a tree.
pub struct Cutting<'a> {
    /// The frames from the start to the one that is zoomed to; what is not in the tree ends it.
    pub path: &'a [FrameId],
    /// Least share of the zoomed frame's value; narrower frames are merged.
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
    /// Sum of |value| of the stacks that pass through here.
    pub moved: f64,
    /// The other figure of the stacks that pass through here.
    pub beside: Estimate,
}

/// A frame of a tree: a node, and how many frames of its run lead to it, this one included.
#[derive(Clone, Copy)]
struct Place {
    node: usize,
    taken: usize,
}

const WHOLE: Place = Place { node: 0, taken: 0 };

impl CallTree {
    /// Cuts the tree. Takes time for what is shown and its neighbours only.
    pub fn cut(&self, cutting: &Cutting) -> Cut {
        let mut total = self.cut_node(WHOLE, 0);
        total.frame = None;
        let places = self.along(cutting.path);
        let path = places.iter().zip(0..).map(|(&place, depth)| self.cut_node(place, depth));
        let zoomed = places.last().copied().unwrap_or(WHOLE);
        let cutoff = self.moved(zoomed.node) * cutting.least_share;
        Cut { total, path: path.collect(), nodes: self.shown(zoomed, cutoff, cutting.most_depth) }
    }

    /// For each function, the value that it allocates itself in the stacks that begin with `path`, and how many objects; the largest first.
    /// Takes time for all of the tree that is below.
    pub fn flat(&self, path: &[FrameId]) -> Vec<(FrameId, Estimate, Estimate)> {
        let sums = self.flat_sums(self.along(path).last().map_or(0, |zoomed| zoomed.node));
        let is_there =
            |(_, [value, objects]): &(u32, Values)| !value.is_nothing() || !objects.is_nothing();
        let of =
            |(index, [value, objects]): (u32, Values)| (FrameId::of_index(index), value, objects);
        let mut all: Vec<_> = (0..).zip(sums).filter(is_there).map(of).collect();
        all.sort_by(|a, b| by_magnitude(a.1, b.1).then(a.0.cmp(&b.0)));
        all
    }

    /// The places that these frames lead to one after another, as far as they are in the tree.
    fn along(&self, path: &[FrameId]) -> Vec<Place> {
        let mut at = WHOLE;
        let place = |&frame: &FrameId| {
            at = self.next(at).find(|&next| self.frame(next) == Some(frame))?;
            Some(at)
        };
        path.iter().map_while(place).collect()
    }

    fn frame(&self, place: Place) -> Option<FrameId> {
        Some(self.run(place.node)[place.taken.checked_sub(1)?])
    }

    /// The places that a place leads to.
    fn next(&self, place: Place) -> impl Iterator<Item = Place> {
        let Place { node, taken } = place;
        let further = (taken < self.run(node).len()).then_some(Place { node, taken: taken + 1 });
        let below = further.is_none().then(|| self.children(node));
        let below = below.into_iter().flatten().map(|node| Place { node, taken: 1 });
        further.into_iter().chain(below)
    }

    fn cut_node(&self, place: Place, depth: usize) -> CutNode {
        let Place { node, taken } = place;
        let [cum, objects] = self.nodes[node].cum;
        let is_last = taken == self.run(node).len();
        let ended = is_last.then(|| self.ended(node)).flatten();
        let flat = ended.map_or(Estimate::default(), |[flat, _]| flat);
        CutNode {
            depth,
            frame: self.frame(place),
            cum,
            flat,
            objects,
            merged: 0,
            moved: self.moved(node),
            beside: self.beside(node),
        }
    }

    /// The nodes below the zoomed place.
    fn shown(&self, zoomed: Place, cutoff: f64, most_depth: usize) -> Vec<CutNode> {
        let mut nodes = Vec::new();
        let mut pending: Vec<(Option<Place>, CutNode)> = Vec::new();
        let mut of = zoomed;
        let mut depth = 0;
        loop {
            let before = pending.len();
            let mut rest = CutNode { depth, ..CutNode::default() };
            for place in self.next(of) {
                if depth < most_depth && self.moved(place.node) >= cutoff {
                    pending.push((Some(place), self.cut_node(place, depth)));
                    continue;
                }
                let node = &self.nodes[place.node];
                // Those of the run that lead to this place are not below it.
                rest.merged += node.frames as usize + 1 - place.taken;
                rest.cum += node.cum[0];
                rest.objects += node.cum[1];
                rest.moved += self.moved(place.node);
                rest.beside += self.beside(place.node);
            }
            if rest.merged > 0 {
                pending.push((None, rest));
            }
            pending[before..].reverse();
            loop {
                let Some((place, node)) = pending.pop() else { return nodes };
                depth = node.depth + 1;
                nodes.push(node);
                let Some(place) = place else { continue };
                of = place;
                break;
            }
        }
    }

    /// By `FrameId::index`.
    fn flat_sums(&self, node: usize) -> Vec<Values> {
        let mut sums = Vec::new();
        let mut add = |frame: Option<&FrameId>, [value, objects]: Values| {
            let Some(index) = frame.map(|frame| frame.index()) else { return };
            if index >= sums.len() {
                sums.resize(index + 1, Values::default());
            }
            let sum = &mut sums[index];
            sum[0] += value;
            sum[1] += objects;
        };
        match (self.walk, node) {
            (Walk::Callees, _) => {
                for index in node..node + self.nodes[node].span as usize {
                    if let Some(ended) = self.ended(index) {
                        add(self.run(index).last(), ended);
                    }
                }
            }
            (Walk::Callers, 0) => {
                self.children(0)
                    .for_each(|index| add(self.run(index).first(), self.nodes[index].cum));
            }
            // All stacks through here begin with one function, that of the first frame.
            (Walk::Callers, _) => {
                let first = self.children(0).take_while(|&first| first <= node).last();
                add(first.and_then(|first| self.run(first).first()), self.nodes[node].cum);
            }
        }
        sums
    }
}

#[cfg(test)]
#[path = "../cut_tests.rs"]
mod tests;
