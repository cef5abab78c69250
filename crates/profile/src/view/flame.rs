//! Where the boxes of a flame graph lie; drawing them is the encoders' business.

use super::tree::{Tree, TreeRowKind};
use crate::estimate::Estimate;
use crate::format;
use crate::model::SampleType;
use std::sync::Arc;

/// A flame graph of unit width.
#[derive(Clone, Debug, PartialEq)]
pub struct FlameGraph {
    /// What the values count.
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
    /// The function's name; `all` for the whole; `(212 frames < 0.02 %: 31.0 MiB)` for merged frames.
    pub name: Arc<str>,
    /// Source file; empty if unknown.
    pub file: Arc<str>,
    /// How many frames are merged here, too narrow or too deep for boxes of their own; 0: none.
    pub merged_frames: usize,
}

impl FlameGraph {
    /// How many frames have no box of their own, and what passes through those boxes that stand for them.
    pub fn merged(&self) -> (usize, Estimate) {
        let merged = || self.boxes.iter().filter(|one| one.merged_frames > 0);
        (merged().map(|one| one.merged_frames).sum(), merged().map(|one| one.cum).sum())
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
        name: "all".into(),
        file: "".into(),
        merged_frames: 0,
    };
    let mut boxes = vec![whole];
    // Per level, where the next box begins.
    let mut edges = vec![0.0; most_levels.max(2) + 1];
    let last_level = edges.len() - 2;
    for row in &tree.rows {
        let level = row.depth + 1;
        let width = if tree.magnitude > 0.0 { row.moved / tree.magnitude } else { 0.0 };
        let (name, file, merged_frames) = match &row.kind {
            TreeRowKind::Frame(frame) => (frame.name.clone(), frame.file.clone(), 0),
            TreeRowKind::Merged { frames } => {
                (tree.merged_label(*frames, row.cum).into(), "".into(), *frames)
            }
        };
        if level < last_level {
            let left = edges[level];
            edges[level] = left + width;
            edges[level + 1] = left;
            let (cum, flat) = (row.cum, row.flat);
            boxes.push(FlameBox { level, left, width, cum, flat, name, file, merged_frames });
            continue;
        }
        // What one caller at the last level but one has below it follows that caller.
        if boxes.last().is_none_or(|last| last.level < last_level) {
            boxes.push(FlameBox {
                level: last_level,
                left: edges[last_level],
                width: 0.0,
                cum: Estimate::default(),
                merged_frames: 0,
                ..boxes[0].clone()
            });
        }
        if let Some(deep) = boxes.last_mut() {
            deep.merged_frames += merged_frames.max(1);
            if level == last_level {
                deep.cum += row.cum;
                deep.width += width;
            }
        }
    }
    for deep in boxes.iter_mut().filter(|one| one.level == last_level) {
        let noun = if deep.merged_frames == 1 { "frame" } else { "frames" };
        let count = format::format_objects(deep.merged_frames as f64);
        let value = format::format_value(deep.cum.value, tree.sample_type.unit());
        deep.name = format!("({count} {noun} deeper: {value})").into();
    }
    let levels = boxes.iter().map(|one| one.level + 1).max().unwrap_or(1);
    FlameGraph { sample_type: tree.sample_type, magnitude: tree.magnitude, levels, boxes }
}

#[cfg(test)]
#[path = "../flame_tests.rs"]
mod tests;
