//! How large the blocks are: bytes and objects by size class. Rests on the label of the block size.

use super::magnitude::recorded;
use crate::estimate::Estimate;
use crate::labels::{BLOCK_SIZE, LabelValue};
use crate::model::{Profile, SampleType, StackSample};
use serde::Serialize;
use std::collections::BTreeMap;

/// All size classes with a recorded block, the smallest first.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SizeRow {
    /// Requested bytes: a power of two (or 0); `None`: the profile does not say.
    pub least_bytes: Option<u64>,
    /// The next power of two less 1 (or 0).
    pub most_bytes: Option<u64>,
    /// Bytes of these blocks.
    pub space: Estimate,
    /// Number of these blocks.
    pub objects: Estimate,
}

/// The histogram of block sizes, of the live or of all allocations, as `sample_type` is.
pub fn sizes(profile: &Profile, sample_type: SampleType) -> SizeTable {
    let space_type = sample_type.space();
    let objects_type = sample_type.objects();
    // By log2 of the size, plus 1; what is not known sorts last.
    let mut classes: BTreeMap<u32, SizeRow> = BTreeMap::new();
    for (sample, space) in recorded(profile, space_type) {
        let size = block_size(sample);
        let class = size.map_or(u32::MAX, |bytes| bytes.checked_ilog2().map_or(0, |log| log + 1));
        let row = classes.entry(class).or_insert_with(|| SizeRow {
            least_bytes: size.map(|bytes| bytes.checked_ilog2().map_or(0, |log| 1 << log)),
            most_bytes: size
                .map(|bytes| bytes.checked_ilog2().map_or(0, |log| u64::MAX >> (63 - log))),
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

fn block_size(sample: &StackSample) -> Option<u64> {
    let label = sample.labels.iter().find(|label| &*label.key == BLOCK_SIZE)?;
    match label.value {
        LabelValue::Number { value, .. } => u64::try_from(value).ok(),
        LabelValue::Text(_) => None,
    }
}
