//! One row per function: flat, cum and objects.

use super::{by_magnitude, magnitude, recorded};
use crate::estimate::Estimate;
use crate::frames::{FrameAt, FrameName, FrameTable};
use crate::model::{Profile, SampleType};
use hashbrown::HashMap;
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
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// As `FrameName::name`.
    pub name: Arc<str>,
    /// Source file; empty if unknown.
    pub file: Arc<str>,
    /// The line with the largest flat or, if the function has no flat, the largest cum; 0 if unknown.
    pub line: u32,
    /// As `FrameName::line`: `line` where lines are told apart, else 0.
    pub frame_line: u32,
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
    let frames = FrameTable::new(profile);
    let places = Places::new(profile, &frames);
    let mut own = vec![Own::default(); frames.len()];
    let mut cums = vec![Cum::default(); frames.len()];
    let mut lines = vec![LineSums::default(); places.list.len()];
    for (index, (sample, value)) in recorded(profile, sample_type).enumerate() {
        let stamp = index as u32 + 1;
        let leaf = match sample.locations.first() {
            Some(&location) => places.of_location(location)[0],
            None => places.not_recorded,
        };
        let own = &mut own[leaf.frame as usize];
        own.flat += value;
        own.objects += sample.value(sample_type.objects());
        let moved = value.value.abs();
        lines[leaf.line as usize].flat += moved;
        // A function counts once per stack, and so does each of its lines.
        let mut count = |place: Place| {
            let line = &mut lines[place.line as usize];
            if line.stamp != stamp {
                line.stamp = stamp;
                line.cum += moved;
            }
            let cum = &mut cums[place.frame as usize];
            if cum.stamp != stamp {
                cum.stamp = stamp;
                cum.cum += value;
            }
        };
        if sample.locations.is_empty() {
            count(places.not_recorded);
        }
        for &location in &sample.locations {
            places.of_location(location).iter().copied().for_each(&mut count);
        }
    }
    let lines = hottest_lines(&places.list, &lines, frames.len());
    let seen = frames.ids().filter(|id| cums[id.index()].stamp != 0);
    let mut rows: Vec<Row> = seen
        .map(|id| {
            let FrameName { name, file, line: frame_line } = frames.name(id).clone();
            let line = lines[id.index()];
            let Own { flat, objects } = own[id.index()];
            let cum = cums[id.index()].cum;
            Row { name, file, line, frame_line, flat, cum, objects }
        })
        .collect();
    sort_rows(&mut rows, sort);
    let total = profile.total(sample_type);
    TopTable { sample_type, total, magnitude: magnitude(profile, sample_type), rows }
}

/// Every distinct frame with its line, numbered, so that a stack is summed up without looking anything up. The tables that
/// every frame of every stack goes through are small: they are what a large profile waits for.
struct Places {
    list: Vec<FrameAt>,
    /// Of all locations end to end.
    places: Vec<Place>,
    /// Where those of each location begin, and where the last ones end.
    starts: Vec<u32>,
    not_recorded: Place,
}

#[derive(Clone, Copy)]
struct Place {
    /// Index into `Places::list`.
    line: u32,
    /// `FrameId::index`.
    frame: u32,
}

impl Places {
    fn new(profile: &Profile, frames: &FrameTable) -> Places {
        let mut known: HashMap<FrameAt, u32> = HashMap::new();
        let mut list = Vec::new();
        let mut place = |at: FrameAt| {
            let line = *known.entry(at).or_insert_with(|| {
                list.push(at);
                list.len() as u32 - 1
            });
            Place { line, frame: at.frame.index() as u32 }
        };
        let mut places = Vec::with_capacity(profile.locations.len());
        let mut starts = vec![0];
        for location in 0..profile.locations.len() {
            places.extend(frames.of_location(location).iter().copied().map(&mut place));
            starts.push(places.len() as u32);
        }
        let not_recorded = place(frames.not_recorded());
        Places { list, places, starts, not_recorded }
    }

    /// Innermost first, as `FrameTable::of_location`; never empty.
    fn of_location(&self, location: usize) -> &[Place] {
        &self.places[self.starts[location] as usize..self.starts[location + 1] as usize]
    }
}

#[derive(Clone, Copy, Default)]
struct Own {
    flat: Estimate,
    objects: Estimate,
}

#[derive(Clone, Copy, Default)]
struct Cum {
    cum: Estimate,
    /// Number from 1 of the last sample that was counted; 0: none.
    stamp: u32,
}

/// Magnitudes at one line of a function.
#[derive(Clone, Copy, Default)]
struct LineSums {
    flat: f64,
    cum: f64,
    stamp: u32,
}

/// Per frame, the line with the largest flat, then cum; the first one of equals. 0 where no line is known.
fn hottest_lines(places: &[FrameAt], sums: &[LineSums], frames: usize) -> Vec<u32> {
    let mut hottest: Vec<Option<(u32, LineSums)>> = vec![None; frames];
    for (at, sum) in places.iter().zip(sums).filter(|(at, sum)| at.line != 0 && sum.stamp != 0) {
        let best = &mut hottest[at.frame.index()];
        let is_hotter = best.is_none_or(|(line, best)| {
            let by_value = sum.flat.total_cmp(&best.flat).then(sum.cum.total_cmp(&best.cum));
            by_value.then(line.cmp(&at.line)).is_gt()
        });
        if is_hotter {
            *best = Some((at.line, *sum));
        }
    }
    hottest.into_iter().map(|best| best.map_or(0, |(line, _)| line)).collect()
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
