//! Positions of the boxes of a flame graph; drawing them is the encoders' business.

use super::tree::{Tree, TreeRowKind};
use crate::estimate::Estimate;
use crate::format;
use crate::frames::FrameName;
use crate::model::SampleType;

/// A flame graph of unit width.
#[derive(Clone, Debug, PartialEq)]
pub struct FlameGraph {
    /// The sample type that the values count.
    pub sample_type: SampleType,
    /// Base of shares, as `Tree::magnitude`.
    pub magnitude: f64,
    /// Number of levels that have boxes; 1 if there is nothing but the whole.
    pub levels: usize,
    /// The whole first, then every caller before its callees.
    pub boxes: Vec<FlameBox>,
}

/// A rectangle one level high.
#[derive(Clone, Debug, PartialEq)]
pub struct FlameBox {
    /// 0 for the whole, which lies above (or below) the roots.
    pub level: usize,
    /// Left edge, 0…1.
    pub left: f64,
    /// 0…1; the boxes of a level's callers never overlap.
    pub width: f64,
    /// Stacks that pass through here.
    pub cum: Estimate,
    /// Stacks that end here; 0 where frames are merged.
    pub flat: Estimate,
    /// The frames that it stands for.
    pub kind: FlameKind,
}

/// The frames that a box stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum FlameKind {
    /// All stacks.
    Whole,
    /// A frame of the call tree.
    Frame(FrameName),
    /// Frames too narrow or too deep for boxes of their own.
    Merged {
        /// How many.
        frames: usize,
        /// The text that says so: `(212 frames < 0.02%: 31.0 MiB)`.
        label: String,
    },
}

impl FlameGraph {
    /// How many frames have no box of their own, and what passes through those boxes that stand for them.
    pub fn merged(&self) -> (usize, Estimate) {
        let merged = self.boxes.iter().filter_map(|one| match one.kind {
            FlameKind::Merged { frames, .. } => Some((frames, one.cum)),
            _ => None,
        });
        merged.fold((0, Estimate::default()), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// Lays out the call tree in at most `most_levels` levels, the whole included; what lies deeper is merged below each
/// caller. Widths are sums of |value|, so that a diff has no boxes of negative width.
pub fn flame(tree: &Tree, most_levels: usize) -> FlameGraph {
    let whole = FlameBox {
        level: 0,
        left: 0.0,
        width: 1.0,
        cum: tree.total,
        flat: Estimate::default(),
        kind: FlameKind::Whole,
    };
    let mut boxes = vec![whole];
    // Per level, where the next box begins.
    let mut edges = vec![0.0; most_levels.max(2) + 1];
    let last_level = edges.len() - 2;
    let mut deep: Option<Deep> = None;
    for row in &tree.rows {
        let level = row.depth + 1;
        let width = if tree.magnitude > 0.0 { row.moved / tree.magnitude } else { 0.0 };
        if level >= last_level {
            let deep =
                deep.get_or_insert_with(|| Deep { left: edges[last_level], ..Deep::default() });
            deep.frames += match row.kind {
                TreeRowKind::Frame(_) => 1,
                TreeRowKind::Merged { frames } => frames,
            };
            if level == last_level {
                deep.cum += row.cum;
                deep.width += width;
            }
            continue;
        }
        boxes.extend(deep.take().map(|deep| deep.into_box(tree, last_level)));
        let left = edges[level];
        edges[level] = left + width;
        edges[level + 1] = left;
        let kind = match &row.kind {
            TreeRowKind::Frame(name) => FlameKind::Frame(name.clone()),
            TreeRowKind::Merged { frames } => {
                FlameKind::Merged { frames: *frames, label: tree.merged_label(*frames, row.cum) }
            }
        };
        boxes.push(FlameBox { level, left, width, cum: row.cum, flat: row.flat, kind });
    }
    boxes.extend(deep.map(|deep| deep.into_box(tree, last_level)));
    let levels = boxes.iter().map(|one| one.level + 1).max().unwrap_or(1);
    FlameGraph { sample_type: tree.sample_type, magnitude: tree.magnitude, levels, boxes }
}

/// The frames below one caller at the last level but one.
#[derive(Default)]
struct Deep {
    left: f64,
    width: f64,
    frames: usize,
    cum: Estimate,
}

impl Deep {
    fn into_box(self, tree: &Tree, level: usize) -> FlameBox {
        let noun = if self.frames == 1 { "frame" } else { "frames" };
        let count = format::format_objects(self.frames as f64);
        let value = format::format_value(self.cum.value, tree.sample_type.unit());
        FlameBox {
            level,
            left: self.left,
            width: self.width,
            cum: self.cum,
            flat: Estimate::default(),
            kind: FlameKind::Merged {
                frames: self.frames,
                label: format!("({count} {noun} deeper: {value})"),
            },
        }
    }
}

#[cfg(test)]
#[path = "../flame_tests.rs"]
mod tests;
