//! Labels of samples: each distinct set once.

use super::strings::Strings;
use super::wire::{Fields, Value};
use hashbrown::HashMap;
use ramson_profile::{Label, LabelValue};
use std::sync::Arc;

/// A label with indices into the string table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct RawLabel {
    key: u64,
    text: u64,
    number: u64,
    unit: u64,
}

/// Labels beyond these are not kept: a sample has a few.
const MOST_LABELS: usize = 64;

#[derive(Default)]
pub struct LabelSets {
    known: HashMap<Box<[RawLabel]>, u32>,
    /// Of the sample that is being read.
    current: Vec<RawLabel>,
    /// Set of every sample; the empty one is `NONE`.
    of_sample: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl LabelSets {
    pub fn begin_sample(&mut self) {
        self.current.clear();
    }

    /// Takes a label of the current sample; `None` where the bytes make no sense.
    pub fn take(&mut self, bytes: &[u8]) -> Option<()> {
        let mut label = RawLabel::default();
        let mut fields = Fields::of(bytes);
        for (field, value) in &mut fields {
            let Value::Number(number) = value else { continue };
            match field {
                1 => label.key = number,
                2 => label.text = number,
                3 => label.number = number,
                4 => label.unit = number,
                _ => {}
            }
        }
        if self.current.len() < MOST_LABELS {
            self.current.push(label);
        }
        (!fields.is_damaged).then_some(())
    }

    /// Ends the current sample; returns the bytes used.
    pub fn end_sample(&mut self) -> usize {
        if self.current.is_empty() {
            self.of_sample.push(NONE);
            return size_of::<u32>();
        }
        let next = self.known.len() as u32;
        let (set, added) = match self.known.get(self.current.as_slice()) {
            Some(&set) => (set, 0),
            None => {
                self.known.insert(self.current.as_slice().into(), next);
                let labels = self.current.len() * (size_of::<RawLabel>() + size_of::<Label>());
                (next, labels + 3 * super::OVERHEAD_BYTES)
            }
        };
        self.of_sample.push(set);
        added + size_of::<u32>()
    }

    /// The labels of every sample in the order they came.
    pub fn resolve(self, strings: &Strings) -> impl Iterator<Item = Arc<[Label]>> {
        let mut texts: HashMap<u64, Arc<str>> = HashMap::new();
        let mut text =
            |index: u64| texts.entry(index).or_insert_with(|| strings.get(index).into()).clone();
        let mut sets: Vec<Arc<[Label]>> = vec![Arc::default(); self.known.len()];
        for (raw, set) in self.known {
            let labels = raw.iter().map(|raw| Label {
                key: text(raw.key),
                value: match raw.text {
                    0 => LabelValue::Number { value: raw.number as i64, unit: text(raw.unit) },
                    index => LabelValue::Text(text(index)),
                },
            });
            sets[set as usize] = labels.collect();
        }
        let none: Arc<[Label]> = Arc::default();
        self.of_sample.into_iter().map(move |set| sets.get(set as usize).unwrap_or(&none).clone())
    }
}
