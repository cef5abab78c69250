//! Colours of a call tree: how old its bytes are, how fast they grow, or what changed since an earlier moment. Each sample has a figure,
//! and every frame shows the sum over the samples that pass through it.

use crate::comparison;
use crate::extents;
use crate::flame::Wanted;
use crate::named::{Detail, Named, assemble, numbered, stack_number, sum};
use crate::suspects::{growth_of_stacks, moment_ns};
use ramson_format::Kind;
use ramson_profile::view::CutNode;
use ramson_profile::{Diff, Estimate, Label, LabelValue, Profile, SampleType, StackSample, merge};
use ramson_source::{Failure, Members, Opened, Recording};
use serde::Serialize;

/// Figure that can colour a call tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tint {
    /// The mean age of what is live, in ns.
    Age,
    /// Bytes per hour of the leak suspects.
    Growth,
    /// Later − earlier.
    Change,
}

impl Tint {
    /// Returns the figure of a frame, or of several that are merged.
    pub(crate) fn figure(self, node: &CutNode) -> Estimate {
        match self {
            Self::Age => Estimate::exact(node.beside.value / node.cum.value),
            Self::Growth | Self::Change => node.beside,
        }
    }
}

/// Figure that colours frames, and its value for the whole.
#[derive(Serialize, schemars::JsonSchema)]
pub struct TintTotal {
    /// Figure that colours frames.
    pub by: Tint,
    /// Value in ns, bytes per hour, or the unit of the values. For ages it is the mean, without an interval.
    pub figure: Estimate,
}

/// A profile, and the figure of each of its samples.
pub struct Tinted {
    /// With the frames that are asked for.
    pub profile: Profile,
    /// Figures in the order of the profile's samples. For ages, each is the sum over what is live, in ns.
    pub figures: Vec<Estimate>,
    /// Kind of the figures.
    pub by: Tint,
    /// Whether frames were taken out that are not asked for.
    pub is_folded: bool,
}

/// Key of the label of samples that are only in the earlier or only in the later profile.
const SIDE: &str = "ramson.side";
const OLD: &str = "old";
const NEW: &str = "new";
/// A stack's number is below this; what is above is the number of its source.
const SOURCE_SHIFT: u32 = 40;

/// Reads what is coloured; `None`: nothing is to be. `old` is the earlier source where that is by changes.
pub fn read(
    members: &mut Members,
    old: Option<&mut Members>,
    wanted: &Wanted,
    counted: SampleType,
) -> Result<Option<Tinted>, Failure> {
    match (wanted.tint, old) {
        (None, _) => Ok(None),
        (Some(Tint::Change), Some(old)) => of_change(old, members, wanted, counted).map(Some),
        (Some(tint), _) => of_live(members, tint, wanted, counted).map(Some),
    }
}

/// The sum of all sources, coloured by age or growth.
pub fn of_live(
    members: &Members,
    tint: Tint,
    wanted: &Wanted,
    counted: SampleType,
) -> Result<Tinted, Failure> {
    if !matches!(counted, SampleType::InuseSpace | SampleType::InuseObjects) {
        return Err(Failure::usage(format!(
            "{}: allocations have no age or growth to colour by. Use count=live or count=live-objects",
            counted.word()
        )));
    }
    let mut all = Vec::new();
    let mut figures = Vec::new();
    for (source, opened) in members.opened.iter().enumerate() {
        let recording = match opened {
            Opened::Recording(recording) => recording,
            Opened::Foreign(foreign) => {
                return Err(
                    foreign.lacks("does not say when its blocks were allocated. Colour by library")
                );
            }
        };
        figures.push(match tint {
            Tint::Growth => growth_of_stacks(recording, wanted.names)?,
            Tint::Age | Tint::Change => ages(recording, counted),
        });
        let mut named = assemble(recording, wanted.names, Detail::Numbered, Some(Kind::Heap))?;
        for sample in &mut named.profile.samples {
            let number = stack_number(sample).unwrap_or(0);
            sample.labels = [numbered(source << SOURCE_SHIFT | number)].into();
        }
        all.push(named);
    }
    let Named { mut profile, .. } = sum(all, &members.opened)?;
    let is_folded = wanted.shown.fold(&mut profile);
    let of_sample = |sample: &StackSample| {
        let number = stack_number(sample)?;
        figures.get(number >> SOURCE_SHIFT)?.get(number & ((1 << SOURCE_SHIFT) - 1)).copied()
    };
    let figures = profile.samples.iter().map(|sample| of_sample(sample).unwrap_or_default());
    Ok(Tinted { figures: figures.collect(), profile, by: tint, is_folded })
}

/// By the number of the stack: the sum of the ages of what is live, in ns.
fn ages(recording: &Recording, counted: SampleType) -> Vec<Estimate> {
    let snapshot = &recording.snapshot;
    let now_ns = moment_ns(recording);
    let mut ages = vec![Estimate::default(); snapshot.stacks.len()];
    for live in extents::live(snapshot, Some(Kind::Heap)) {
        let age_ns = now_ns.saturating_sub(live.monotonic_ns) as f64;
        ages[live.stack].value += live.estimate(counted.unit()).value * age_ns;
    }
    ages
}

/// Returns the later of two sources, coloured by what changed. Stacks that only the earlier one has count nothing, but show their change.
fn of_change(
    old: &mut Members,
    new: &mut Members,
    wanted: &Wanted,
    counted: SampleType,
) -> Result<Tinted, Failure> {
    let (diff, _) =
        comparison::parts(&mut old.opened, &mut new.opened, wanted.names, Detail::Stacks)?;
    let Diff { mut old, mut new, shared } = diff;
    let (start_unix_ns, time_unix_ns) = (old.time_unix_ns, new.time_unix_ns);
    for (profile, side) in [(&mut old, OLD), (&mut new, NEW)] {
        let label = Label { key: SIDE.into(), value: LabelValue::Text(side.into()) };
        profile.samples.iter_mut().for_each(|sample| sample.labels = [label.clone()].into());
    }
    // Files of other tools have no shared part, and an empty part counts no sample type that the others could agree with.
    let mut sides = vec![new, shared, old];
    sides.retain(|side| !side.samples.is_empty());
    let merged = merge(sides).map_err(|different| Failure::usage(format!("{different}")))?;
    let mut profile = Profile { start_unix_ns, time_unix_ns, ..merged };
    let is_folded = wanted.shown.fold(&mut profile);
    let figures = profile.samples.iter_mut().map(|sample| match side_of(sample) {
        Some(NEW) => sample.value(counted),
        Some(_) => {
            let change = -sample.value(counted);
            sample.values = Default::default();
            change
        }
        None => Estimate::default(),
    });
    Ok(Tinted { figures: figures.collect(), profile, by: Tint::Change, is_folded })
}

/// `None`: both have it.
fn side_of(sample: &StackSample) -> Option<&'static str> {
    let label = sample.labels.iter().find(|label| &*label.key == SIDE)?;
    let is_new = label.value == LabelValue::Text(NEW.into());
    Some(if is_new { NEW } else { OLD })
}
