//! One row per function: flat, cum and objects.

use super::magnitude::{by_magnitude, recorded};
use crate::estimate::Estimate;
use crate::frames::{FrameAt, FrameName, FrameTable};
use crate::language::Language;
use crate::model::{Profile, SampleType, StackSample};
use crate::processors::both;
use serde::Serialize;

use hashbrown::HashMap;
use std::cmp::Ordering;
use std::ops::AddAssign;
use std::sync::Arc;

/// From so many stacks on, a second thread is worth its start.
pub(super) const MANY_STACKS: usize = 1 << 14;

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
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
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
    /// As `FrameName::language`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Its own allocations, in the unit of the sample type.
    pub flat: Estimate,
    /// Its own and its callees', in the unit of the sample type.
    pub cum: Estimate,
    /// Objects of its own allocations (alloc or inuse as the sample type); equals `flat` where that counts objects.
    pub objects: Estimate,
}

/// All functions with a recorded stack.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TopTable {
    /// The sample type that `flat` and `cum` count.
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
        FrameName {
            name: self.name.clone(),
            file: self.file.clone(),
            line: self.frame_line,
            language: self.language,
        }
    }

    /// The value that an error is shown for: flat, or cum where there is no flat.
    pub fn shown(&self) -> Estimate {
        if self.flat.is_nothing() { self.cum } else { self.flat }
    }
}

/// Flat and cum of every function.
pub fn top(profile: &Profile, sample_type: SampleType, sort: Sort) -> TopTable {
    let frames = &FrameTable::new(profile);
    let numbers = Numbers::of_frames(profile, frames);
    let (lines, Functions { own, cums, total, magnitude }) = both(
        profile.samples.len() >= MANY_STACKS,
        || hottest_lines(profile, sample_type, frames),
        || sum_functions(profile, sample_type, &numbers, frames.len()),
    );
    let seen = frames.ids().filter(|id| cums[id.index()].stamp != 0);
    let mut rows: Vec<Row> = seen
        .map(|id| {
            let FrameName { name, file, line: frame_line, language } = frames.name(id).clone();
            let line = lines[id.index()];
            let Own { flat, objects } = own[id.index()];
            let cum = cums[id.index()].sum;
            Row { name, file, line, frame_line, language, flat, cum, objects }
        })
        .collect();
    sort_rows(&mut rows, sort);
    TopTable { sample_type, total, magnitude, rows }
}

/// Sums over the stacks for every frame, by `FrameId::index`, and in all.
struct Functions {
    own: Vec<Own>,
    cums: Vec<Once<Estimate>>,
    total: Estimate,
    magnitude: f64,
}

#[derive(Clone, Copy, Default)]
struct Own {
    flat: Estimate,
    objects: Estimate,
}

fn sum_functions(
    profile: &Profile,
    sample_type: SampleType,
    numbers: &Numbers,
    frames: usize,
) -> Functions {
    let mut own = vec![Own::default(); frames];
    let mut cums = vec![Once::default(); frames];
    let mut total = Estimate::default();
    let mut magnitude = 0.0;
    for (index, (sample, value)) in recorded(profile, sample_type).enumerate() {
        total += value;
        magnitude += value.value.abs();
        let own = &mut own[numbers.of_leaf(sample) as usize];
        own.flat += value;
        own.objects += sample.value(sample_type.objects());
        numbers.each_of(sample, |frame| cums[frame as usize].add(index, value));
    }
    Functions { own, cums, total, magnitude }
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

/// A number for every frame of every location, so that a stack is summed up without looking anything up. The tables that
/// every frame of every stack goes through are small: they are what a large profile waits for.
pub(super) struct Numbers {
    /// By location; `SEVERAL` where it has inlined frames.
    single: Vec<u32>,
    /// The numbers of all locations end to end, innermost first.
    all: Vec<u32>,
    /// The index of each location's first number, and the end of the last location's numbers.
    starts: Vec<u32>,
    not_recorded: u32,
}

const SEVERAL: u32 = u32::MAX;

impl Numbers {
    fn new(profile: &Profile, frames: &FrameTable, mut number: impl FnMut(FrameAt) -> u32) -> Self {
        let mut all = Vec::with_capacity(profile.locations.len());
        let mut single = Vec::with_capacity(profile.locations.len());
        let mut starts = vec![0];
        for location in 0..profile.locations.len() {
            let start = all.len();
            all.extend(frames.of_location(location).iter().map(|&at| number(at)));
            single.push(if all.len() == start + 1 { all[start] } else { SEVERAL });
            starts.push(all.len() as u32);
        }
        let not_recorded = number(frames.not_recorded());
        Numbers { single, all, starts, not_recorded }
    }

    /// Each frame's `FrameId::index`.
    pub fn of_frames(profile: &Profile, frames: &FrameTable) -> Self {
        Self::new(profile, frames, |at| at.frame.index() as u32)
    }

    /// Gives every frame the number that stands at its number so far.
    fn renumber(&mut self, by: &[u32]) {
        let numbers = self.single.iter_mut().filter(|number| **number != SEVERAL);
        for number in numbers.chain(&mut self.all).chain([&mut self.not_recorded]) {
            *number = by[*number as usize];
        }
    }

    fn of_leaf(&self, sample: &StackSample) -> u32 {
        match sample.locations.first() {
            Some(&location) => self.all[self.starts[location as usize] as usize],
            None => self.not_recorded,
        }
    }

    #[inline]
    pub fn each_of(&self, sample: &StackSample, mut each: impl FnMut(u32)) {
        if sample.locations.is_empty() {
            each(self.not_recorded);
        }
        for &location in &sample.locations {
            match self.single[location as usize] {
                SEVERAL => {
                    let [start, end] = [location, location + 1].map(|at| self.starts[at as usize]);
                    self.all[start as usize..end as usize].iter().copied().for_each(&mut each);
                }
                number => each(number),
            }
        }
    }
}

/// Per frame, the line with the largest flat, then cum; the first one of equals. 0 where no line is known. Cum is summed up
/// only for lines that flat leaves equal: it takes every frame of every stack, flat only the leaves.
fn hottest_lines(profile: &Profile, sample_type: SampleType, frames: &FrameTable) -> Vec<u32> {
    let mut known = HashMap::new();
    let mut list = Vec::new();
    let mut numbers = Numbers::new(profile, frames, |at| {
        *known.entry(at).or_insert_with(|| {
            list.push(at);
            list.len() as u32 - 1
        })
    });
    let mut flats = vec![0.0; list.len()];
    for (sample, value) in recorded(profile, sample_type) {
        flats[numbers.of_leaf(sample) as usize] += value.value.abs();
    }
    let mut hottest = vec![Hottest::default(); frames.len()];
    for (at, flat) in list.iter().zip(&flats).filter(|(at, _)| at.line != 0) {
        hottest[at.frame.index()].take(at.line, *flat);
    }
    // The first is for all lines that need no sum.
    let mut equal = vec![FrameAt { line: 0, ..frames.not_recorded() }];
    let renumbered = list.iter().zip(flats).map(|(&at, flat)| {
        let Hottest { value, lines, .. } = hottest[at.frame.index()];
        if at.line == 0 || lines < 2 || flat.total_cmp(&value).is_ne() {
            return 0;
        }
        equal.push(at);
        equal.len() as u32 - 1
    });
    numbers.renumber(&renumbered.collect::<Vec<_>>());
    if equal.len() > 1 {
        let mut cums = vec![Once::default(); equal.len()];
        for (index, (sample, value)) in recorded(profile, sample_type).enumerate() {
            let moved = value.value.abs();
            numbers.each_of(sample, |line| cums[line as usize].add(index, moved));
        }
        equal.iter().for_each(|at| hottest[at.frame.index()] = Hottest::default());
        for (at, cum) in equal.iter().zip(cums).skip(1).filter(|(_, cum)| cum.stamp != 0) {
            hottest[at.frame.index()].take(at.line, cum.sum);
        }
    }
    hottest.into_iter().map(|hottest| hottest.line).collect()
}

/// The line of a function with the largest value; the lowest one of equals.
#[derive(Clone, Copy, Default)]
struct Hottest {
    line: u32,
    value: f64,
    /// How many have that value.
    lines: u32,
}

impl Hottest {
    fn take(&mut self, line: u32, value: f64) {
        match value.total_cmp(&self.value) {
            Ordering::Less if self.lines > 0 => {}
            Ordering::Equal if self.lines > 0 => {
                self.lines += 1;
                self.line = self.line.min(line);
            }
            _ => *self = Hottest { line, value, lines: 1 },
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
