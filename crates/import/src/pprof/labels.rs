//! Labels of samples: each distinct set once.

use super::strings::Strings;
use crate::build::OVERHEAD_BYTES;
use hashbrown::HashMap;
use ramson_profile::{Label, LabelValue, beginning, pprof};
use std::sync::Arc;

/// Labels beyond these are not kept: a sample has a few.
const MOST_LABELS: usize = 64;
const MOST_TEXT_BYTES: usize = 1 << 10;

#[derive(Default)]
pub struct LabelSets {
    known: HashMap<Box<[pprof::Label]>, u32>,
    /// Set of every sample.
    of_sample: Vec<u32>,
}

impl LabelSets {
    /// Takes the labels of the next sample; returns the bytes used.
    pub fn push(&mut self, labels: &[pprof::Label]) -> usize {
        let labels = labels.get(..MOST_LABELS).unwrap_or(labels);
        if let Some(&set) = self.known.get(labels) {
            self.of_sample.push(set);
            return size_of::<u32>();
        }
        let set = self.known.len() as u32;
        self.known.insert(labels.into(), set);
        self.of_sample.push(set);
        let label_bytes = size_of::<pprof::Label>() + size_of::<Label>();
        size_of::<u32>() + labels.len() * label_bytes + 3 * OVERHEAD_BYTES
    }

    /// The labels of every sample in the order they came. Sets are compared by their texts: a long one, which no real label has,
    /// loses its end.
    pub fn resolve(self, strings: &Strings) -> impl Iterator<Item = Arc<[Label]>> {
        let mut texts: HashMap<i64, Arc<str>> = HashMap::new();
        let cut = |text: &str| Arc::from(beginning(text, MOST_TEXT_BYTES));
        let mut text =
            |index: i64| texts.entry(index).or_insert_with(|| cut(&strings.get(index))).clone();
        let mut sets: Vec<Arc<[Label]>> = vec![Arc::default(); self.known.len()];
        for (labels, set) in self.known {
            let labels = labels.iter().map(|label| Label {
                key: match text(label.key) {
                    // Datadog's and Node's name.
                    key if *key == *"thread name" => "thread".into(),
                    key => key,
                },
                value: match label.str {
                    0 => LabelValue::Number { value: label.num, unit: text(label.num_unit) },
                    index => LabelValue::Text(text(index)),
                },
            });
            sets[set as usize] = labels.collect();
        }
        self.of_sample.into_iter().map(move |set| sets[set as usize].clone())
    }
}
