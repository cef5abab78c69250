//! One row per function: flat, cum and objects.

use super::magnitude::{by_magnitude, recorded};
use crate::estimate::Estimate;
use crate::frames::{FrameAt, FrameId, FrameName, FrameTable};
use crate::model::{Profile, SampleType};
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::ops::AddAssign;
use std::sync::Arc;

/// Order of the rows. Values are compared by magnitude (for a diff), the largest first; ties by the other value, then by
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// By flat.
    Flat,
    /// By cum.
    Cum,
    /// By name, then file and line.
    Name,
}

/// One function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// As `FrameName::name`.
    #[serde(rename = "function")]
    pub name: Arc<str>,
    /// Source file; empty if unknown.
    pub file: Arc<str>,
    /// The line with the largest flat or, if the function has no flat, the largest cum; 0 if unknown.
    pub line: u32,
    /// As `FrameName::line`: `line` where lines are told apart, else 0.
    #[serde(skip)]
    pub frame_line: u32,
    /// Its own allocations, in the unit of the sample type.
    pub flat: Estimate,
    /// Its own and its callees', in the unit of the sample type.
    pub cum: Estimate,
    /// Objects of its own allocations (alloc or inuse as the sample type); equals `flat` where that counts objects.
    pub objects: Estimate,
}

/// All functions with a recorded stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopTable {
    /// What `flat` and `cum` count.
    pub sample_type: SampleType,
    /// Sum over all stacks; equals the sum of all `flat`.
    pub total: Estimate,
    /// Sum of |value| over all stacks: base of percentages. Equals `total.value` unless the profile is a diff.
    #[serde(skip)]
    pub magnitude: f64,
    /// In the order asked for; none is left out.
    pub rows: Vec<Row>,
}

impl Row {
    /// The frame that the row is of.
    pub fn frame(&self) -> FrameName {
        FrameName { name: self.name.clone(), file: self.file.clone(), line: self.frame_line }
    }

    /// The value that an error is shown for: flat, or cum where there is no flat.
    pub fn shown(&self) -> Estimate {
        if self.flat.is_nothing() { self.cum } else { self.flat }
    }
}

/// Flat and cum of every function.
pub fn top(profile: &Profile, sample_type: SampleType, sort: Sort) -> TopTable {
    top_of(profile, &FrameTable::new(profile), sample_type, sort)
}

/// The same with the table of frames of this profile, where it is there already.
pub fn top_of(
    profile: &Profile,
    frames: &FrameTable,
    sample_type: SampleType,
    sort: Sort,
) -> TopTable {
    let mut own = vec![Own::default(); frames.ids().count()];
    let mut flats = vec![0.0; frames.places().len()];
    let (mut total, mut magnitude) = (Estimate::default(), 0.0);
    for (sample, value) in recorded(profile, sample_type) {
        let moved = value.value.abs();
        total += value;
        magnitude += moved;
        if let Some(leaf) = frames.places_of(sample).next().map(|place| place as usize) {
            flats[leaf] += moved;
            let own = &mut own[frames.places()[leaf].frame.index()];
            own.flat += value;
            own.objects += sample.value(sample_type.objects());
        }
    }
    let undecided = undecided_lines(frames, &flats, own.len());
    let mut cums = vec![Once::default(); own.len()];
    let mut line_cums = vec![Once::default(); flats.len()];
    // What every frame of every stack goes through is small: a large profile waits for nothing else.
    let places: Vec<(FrameId, bool)> =
        frames.places().iter().map(|at| at.frame).zip(undecided).collect();
    for (index, (sample, value)) in recorded(profile, sample_type).enumerate() {
        for location in frames.locations(sample) {
            for &place in frames.at(location) {
                let (frame, is_undecided) = places[place as usize];
                cums[frame.index()].add(index, value);
                if is_undecided {
                    line_cums[place as usize].add(index, value.value.abs());
                }
            }
        }
    }
    let hottest = hottest_lines(frames, &flats, &line_cums, own.len());
    let seen = frames.ids().filter(|id| cums[id.index()].stamp != 0);
    let mut rows: Vec<Row> = seen
        .map(|id| {
            let FrameName { name, file, line: frame_line } = frames.name(id).clone();
            let Own { flat, objects } = own[id.index()];
            let (line, cum) = (hottest[id.index()], cums[id.index()].sum);
            Row { name, file, line, frame_line, flat, cum, objects }
        })
        .collect();
    sort_rows(&mut rows, sort);
    TopTable { sample_type, total, magnitude, rows }
}

#[derive(Clone, Copy, Default)]
struct Own {
    flat: Estimate,
    objects: Estimate,
}

/// Whether cum has to decide between a line and another one of its function: flat, which takes the leaves alone, does not.
fn undecided_lines(frames: &FrameTable, flats: &[f64], functions: usize) -> Vec<bool> {
    // Per function the largest flat, and how many lines have it.
    let mut largest = vec![(0.0, 0); functions];
    for (at, &flat) in frames.places().iter().zip(flats).filter(|(at, _)| at.line != 0) {
        let (most, lines) = &mut largest[at.frame.index()];
        match flat.total_cmp(most) {
            Ordering::Less => {}
            Ordering::Equal => *lines += 1,
            Ordering::Greater => (*most, *lines) = (flat, 1),
        }
    }
    let is_undecided = |(at, flat): (&FrameAt, &f64)| {
        let (most, lines) = largest[at.frame.index()];
        at.line != 0 && *flat == most && (lines > 1 || most == 0.0)
    };
    frames.places().iter().zip(flats).map(is_undecided).collect()
}

/// Per function, the line with the largest flat, then cum; the lowest one of equals. 0 where no line is known.
fn hottest_lines(
    frames: &FrameTable,
    flats: &[f64],
    cums: &[Once<f64>],
    functions: usize,
) -> Vec<u32> {
    let mut hottest = vec![(0.0, 0.0, Reverse(0)); functions];
    for (at, (&flat, cum)) in frames.places().iter().zip(flats.iter().zip(cums)) {
        let hottest = &mut hottest[at.frame.index()];
        if at.line != 0 && (flat, cum.sum, Reverse(at.line)) > *hottest {
            *hottest = (flat, cum.sum, Reverse(at.line));
        }
    }
    hottest.into_iter().map(|(_, _, Reverse(line))| line).collect()
}

/// A sum to which each stack adds once, however often it comes by.
#[derive(Clone, Copy, Default)]
pub(super) struct Once<V> {
    pub sum: V,
    /// Number from 1 of the last stack that was added; 0: none.
    pub stamp: u32,
}

impl<V: AddAssign> Once<V> {
    #[inline]
    pub fn add(&mut self, index: usize, value: V) {
        let stamp = index as u32 + 1;
        if self.stamp != stamp {
            self.stamp = stamp;
            self.sum += value;
        }
    }
}

fn sort_rows(rows: &mut [Row], sort: Sort) {
    let by_name = |a: &Row, b: &Row| (&a.name, &a.file, a.line).cmp(&(&b.name, &b.file, b.line));
    let by_flat = |a: &Row, b: &Row| by_magnitude(a.flat, b.flat);
    let by_cum = |a: &Row, b: &Row| by_magnitude(a.cum, b.cum);
    rows.sort_by(|a, b| match sort {
        Sort::Flat => by_flat(a, b).then_with(|| by_cum(a, b)).then_with(|| by_name(a, b)),
        Sort::Cum => by_cum(a, b).then_with(|| by_flat(a, b)).then_with(|| by_name(a, b)),
        Sort::Name => by_name(a, b),
    });
}
