//! How large the blocks are: bytes and objects by size class. Rests on the label of the block size.

use super::magnitude::recorded;
use crate::estimate::Estimate;
use crate::labels::{BLOCK_SIZE, LabelValue};
use crate::model::{Profile, SampleType, StackSample};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// All size classes with a recorded block, the smallest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeTable {
    /// Whether live or all allocations are counted; `space` and `objects` are of its two types.
    pub sample_type: SampleType,
    /// Sum over all stacks; equals the sum of all `space`.
    pub space: Estimate,
    /// Sum over all stacks; equals the sum of all `objects`.
    pub objects: Estimate,
    /// Blocks of a known size, then those of an unknown one.
    pub rows: Vec<SizeRow>,
}

/// One size class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeRow {
    /// Requested bytes, from a power of two to the next less 1 (0 by itself); `None`: the profile does not say.
    #[serde(flatten, serialize_with = "least_and_most")]
    pub block_bytes: Option<RangeInclusive<u64>>,
    /// Bytes of these blocks.
    pub space: Estimate,
    /// Number of these blocks.
    pub objects: Estimate,
}

/// `"least_bytes"` and `"most_bytes"`, both null where the size is not known.
fn least_and_most<S: Serializer>(
    range: &Option<RangeInclusive<u64>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_struct("Range", 2)?;
    object.serialize_field("least_bytes", &range.as_ref().map(RangeInclusive::start))?;
    object.serialize_field("most_bytes", &range.as_ref().map(RangeInclusive::end))?;
    object.end()
}

/// The histogram of block sizes, of the live or of all allocations, as `sample_type` is.
pub fn sizes(profile: &Profile, sample_type: SampleType) -> SizeTable {
    let (space_type, objects_type) = (sample_type.space(), sample_type.objects());
    // By log2 of the size, plus 1; what is not known sorts last.
    let mut classes: BTreeMap<u32, SizeRow> = BTreeMap::new();
    for (sample, space) in recorded(profile, space_type) {
        let size = block_size(sample);
        let class = size.map_or(u32::MAX, |bytes| bytes.checked_ilog2().map_or(0, |log| log + 1));
        let row = classes.entry(class).or_insert_with(|| SizeRow {
            block_bytes: size.map(class_of),
            space: Estimate::default(),
            objects: Estimate::default(),
        });
        row.space += space;
        row.objects += sample.value(objects_type);
    }
    SizeTable {
        sample_type,
        space: profile.total(space_type),
        objects: profile.total(objects_type),
        rows: classes.into_values().collect(),
    }
}

fn class_of(bytes: u64) -> RangeInclusive<u64> {
    match bytes.checked_ilog2() {
        None => 0..=0,
        Some(log) => 1 << log..=u64::MAX >> (63 - log),
    }
}

fn block_size(sample: &StackSample) -> Option<u64> {
    let label = sample.labels.iter().find(|label| &*label.key == BLOCK_SIZE)?;
    match label.value {
        LabelValue::Number { value, .. } => u64::try_from(value).ok(),
        LabelValue::Text(_) => None,
    }
}
