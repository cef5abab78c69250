//! One row per function: flat, cum and objects.

use super::{by_magnitude, magnitude, recorded};
use crate::estimate::Estimate;
use crate::frames::{FrameAt, FrameTable};
use crate::model::{Profile, SampleType};
use std::collections::HashMap;
use std::sync::Arc;

/// Order of the rows. Values are compared by magnitude (for a diff), the largest first; ties by the other value, then by
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// By flat.
    Flat,
    /// By cum.
    Cum,
    /// By name, then file.
    Name,
}

/// One function.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// As `FrameName::name`.
    pub name: Arc<str>,
    /// Source file; empty if unknown.
    pub file: Arc<str>,
    /// The line with the largest flat or, if the function has no flat, the largest cum; 0 if unknown.
    pub line: u32,
    /// Its own allocations, in the unit of the sample type.
    pub flat: Estimate,
    /// Its own and its callees', in the unit of the sample type.
    pub cum: Estimate,
    /// Objects of its own allocations (alloc or inuse as the sample type); equals `flat` where that counts objects.
    pub objects: Estimate,
}

/// All functions with a recorded stack.
#[derive(Clone, Debug, PartialEq)]
pub struct TopTable {
    /// What `flat` and `cum` count.
    pub sample_type: SampleType,
    /// Sum over all stacks; equals the sum of all `flat`.
    pub total: Estimate,
    /// Sum of |value| over all stacks: base of percentages. Equals `total.value` unless the profile is a diff.
    pub magnitude: f64,
    /// In the order asked for; none is left out.
    pub rows: Vec<Row>,
}

/// Flat and cum of every function.
pub fn top(profile: &Profile, sample_type: SampleType, sort: Sort) -> TopTable {
    let frames = FrameTable::new(profile);
    let mut sums = vec![Sums::default(); frames.len()];
    let mut stack: Vec<FrameAt> = Vec::new();
    for (sample, value) in recorded(profile, sample_type) {
        stack.clear();
        stack.extend(frames.stack(sample));
        let leaf = stack[0];
        let sum = &mut sums[leaf.frame.index()];
        sum.flat += value;
        sum.objects += sample.value(sample_type.objects());
        sum.lines.entry(leaf.line).or_default().flat += value.value.abs();
        // A function counts once per stack, and so does each of its lines.
        stack.sort_unstable();
        stack.dedup();
        for (position, at) in stack.iter().enumerate() {
            let sum = &mut sums[at.frame.index()];
            sum.lines.entry(at.line).or_default().cum += value.value.abs();
            if position == 0 || stack[position - 1].frame != at.frame {
                sum.cum += value;
                sum.seen = true;
            }
        }
    }
    let seen = frames.ids().filter(|id| sums[id.index()].seen);
    let mut rows: Vec<Row> = seen
        .map(|id| {
            let (name, sum) = (frames.name(id).clone(), &sums[id.index()]);
            let line = sum.hottest_line();
            let Sums { flat, cum, objects, .. } = *sum;
            Row { name: name.name, file: name.file, line, flat, cum, objects }
        })
        .collect();
    sort_rows(&mut rows, sort);
    let total = profile.total(sample_type);
    TopTable { sample_type, total, magnitude: magnitude(profile, sample_type), rows }
}

#[derive(Clone, Default)]
struct Sums {
    flat: Estimate,
    cum: Estimate,
    objects: Estimate,
    seen: bool,
    lines: HashMap<u32, LineSums>,
}

/// Magnitudes at one line of a function.
#[derive(Clone, Copy, Default)]
struct LineSums {
    flat: f64,
    cum: f64,
}

impl Sums {
    fn hottest_line(&self) -> u32 {
        let known = self.lines.iter().filter(|&(&line, _)| line != 0);
        let hottest = known.max_by(|(left_line, left), (right_line, right)| {
            let by_value = left.flat.total_cmp(&right.flat).then(left.cum.total_cmp(&right.cum));
            by_value.then(right_line.cmp(left_line))
        });
        hottest.map_or(0, |(&line, _)| line)
    }
}

fn sort_rows(rows: &mut [Row], sort: Sort) {
    let by_name = |a: &Row, b: &Row| (&a.name, &a.file).cmp(&(&b.name, &b.file));
    let by_flat = |a: &Row, b: &Row| by_magnitude(a.flat, b.flat);
    let by_cum = |a: &Row, b: &Row| by_magnitude(a.cum, b.cum);
    rows.sort_by(|a, b| match sort {
        Sort::Flat => by_flat(a, b).then_with(|| by_cum(a, b)).then_with(|| by_name(a, b)),
        Sort::Cum => by_cum(a, b).then_with(|| by_flat(a, b)).then_with(|| by_name(a, b)),
        Sort::Name => by_name(a, b),
    });
}
