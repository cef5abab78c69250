//! Which threads allocated. Rests on the label of the thread.

use super::magnitude::{by_magnitude, magnitude, recorded};
use crate::estimate::Estimate;
use crate::labels::{LabelValue, THREAD};
use crate::model::{Profile, SampleType, StackSample};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// All threads with a recorded allocation.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ThreadTable {
    /// The sample type that the values count.
    pub sample_type: SampleType,
    /// Sum over all stacks; equals the sum of all rows.
    pub total: Estimate,
    /// Sum of |value| over all stacks: base of percentages. Equals `total.value` unless the profile is a diff.
    #[serde(skip)]
    pub magnitude: f64,
    /// By |value|.
    pub rows: Vec<ThreadRow>,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ThreadRow {
    /// As labelled; `None`: the profile does not say.
    pub thread: Option<Arc<str>>,
    /// The thread's allocations, in the unit of the sample type.
    pub value: Estimate,
    /// Objects of the same allocations.
    pub objects: Estimate,
}

/// The allocations of each thread.
pub fn threads(profile: &Profile, sample_type: SampleType) -> ThreadTable {
    let mut sums: HashMap<Option<Arc<str>>, (Estimate, Estimate)> = HashMap::new();
    for (sample, value) in recorded(profile, sample_type) {
        let sum = sums.entry(thread(sample)).or_default();
        sum.0 += value;
        sum.1 += sample.value(sample_type.objects());
    }
    let mut rows: Vec<ThreadRow> = sums
        .into_iter()
        .map(|(thread, (value, objects))| ThreadRow { thread, value, objects })
        .collect();
    rows.sort_by(|a, b| by_magnitude(a.value, b.value).then_with(|| a.thread.cmp(&b.thread)));
    let total = profile.total(sample_type);
    ThreadTable { sample_type, total, magnitude: magnitude(profile, sample_type), rows }
}

fn thread(sample: &StackSample) -> Option<Arc<str>> {
    let mut labels = sample.labels.iter().filter(|label| &*label.key == THREAD);
    labels.find_map(|label| match &label.value {
        LabelValue::Text(name) => Some(name.clone()),
        LabelValue::Number { .. } => None,
    })
}
