//! A profile on its way from a worker: each text and each set of labels once.

use borsh::{BorshDeserialize, BorshSerialize};
use hashbrown::HashMap;
use ramson_profile::{
    Estimate, Function, Granularity, Label, LabelValue, Line, Location, LookupAddress, Mapping,
    Profile, StackSample,
};
use std::sync::Arc;

/// A `Profile`.
#[derive(BorshSerialize, BorshDeserialize)]
pub struct WireProfile {
    interval_bytes: u64,
    start_unix_ns: u64,
    time_unix_ns: u64,
    command: String,
    granularity: Granularity,
    texts: Vec<String>,
    mappings: Vec<Mapping>,
    locations: Vec<WireLocation>,
    /// Name, system name, file.
    functions: Vec<[u32; 3]>,
    label_sets: Vec<Vec<WireLabel>>,
    samples: Vec<WireSample>,
}

#[derive(BorshSerialize, BorshDeserialize)]
struct WireLocation {
    mapping: Option<u32>,
    address: u64,
    /// Function and line.
    lines: Vec<(u32, u32)>,
}

#[derive(BorshSerialize, BorshDeserialize)]
struct WireLabel {
    key: u32,
    value: WireValue,
}

#[derive(BorshSerialize, BorshDeserialize)]
enum WireValue {
    Text(u32),
    Number(i64, u32),
}

#[derive(BorshSerialize, BorshDeserialize)]
struct WireSample {
    locations: Vec<u32>,
    values: [Estimate; 4],
    label_set: u32,
}

/// Texts by their numbers.
#[derive(Default)]
struct Texts {
    list: Vec<String>,
    known: HashMap<Arc<str>, u32>,
}

impl Texts {
    fn number(&mut self, text: &Arc<str>) -> u32 {
        *self.known.entry_ref(text).or_insert_with(|| {
            self.list.push(text.to_string());
            self.list.len() as u32 - 1
        })
    }

    fn label(&mut self, label: &Label) -> WireLabel {
        let value = match &label.value {
            LabelValue::Text(text) => WireValue::Text(self.number(text)),
            LabelValue::Number { value, unit } => WireValue::Number(*value, self.number(unit)),
        };
        WireLabel { key: self.number(&label.key), value }
    }
}

impl From<Profile> for WireProfile {
    fn from(profile: Profile) -> Self {
        let mut texts = Texts::default();
        let functions = profile.functions.iter();
        let functions = functions
            .map(|it| [&it.name, &it.system_name, &it.file].map(|text| texts.number(text)))
            .collect();
        let mut label_sets = Vec::new();
        let mut known = HashMap::new();
        let mut samples = Vec::with_capacity(profile.samples.len());
        for StackSample { locations, values, labels } in profile.samples {
            let label_set = *known.entry(labels).or_insert_with_key(|labels: &Arc<[Label]>| {
                label_sets.push(labels.iter().map(|label| texts.label(label)).collect());
                label_sets.len() as u32 - 1
            });
            samples.push(WireSample { locations, values, label_set });
        }
        Self {
            interval_bytes: profile.interval_bytes,
            start_unix_ns: profile.start_unix_ns,
            time_unix_ns: profile.time_unix_ns,
            command: profile.command,
            granularity: profile.granularity,
            mappings: profile.mappings,
            locations: profile.locations.into_iter().map(WireLocation::from).collect(),
            functions,
            label_sets,
            samples,
            texts: texts.list,
        }
    }
}

impl From<Location> for WireLocation {
    fn from(location: Location) -> Self {
        let lines = location.lines.iter().map(|line| (line.function as u32, line.line));
        Self {
            mapping: location.mapping.map(|mapping| mapping as u32),
            address: location.address.0,
            lines: lines.collect(),
        }
    }
}

impl WireProfile {
    /// `None`: a number in it is of nothing.
    pub fn into_profile(self) -> Option<Profile> {
        let texts: Vec<Arc<str>> = self.texts.into_iter().map(Arc::from).collect();
        let text = |number: u32| texts.get(number as usize).cloned();
        let function = |[name, system_name, file]: [u32; 3]| {
            Some(Function { name: text(name)?, system_name: text(system_name)?, file: text(file)? })
        };
        let label = |label: WireLabel| {
            let value = match label.value {
                WireValue::Text(number) => LabelValue::Text(text(number)?),
                WireValue::Number(value, unit) => LabelValue::Number { value, unit: text(unit)? },
            };
            Some(Label { key: text(label.key)?, value })
        };
        let label_sets = self.label_sets.into_iter();
        let label_sets: Vec<Arc<[Label]>> = label_sets
            .map(|labels| labels.into_iter().map(label).collect::<Option<_>>())
            .collect::<Option<_>>()?;
        let sample = |sample: WireSample| {
            let WireSample { locations, values, label_set } = sample;
            let labels = label_sets.get(label_set as usize)?.clone();
            Some(StackSample { locations, values, labels })
        };
        let profile = Profile {
            interval_bytes: self.interval_bytes,
            start_unix_ns: self.start_unix_ns,
            time_unix_ns: self.time_unix_ns,
            command: self.command,
            granularity: self.granularity,
            mappings: self.mappings,
            locations: self.locations.into_iter().map(WireLocation::into_location).collect(),
            functions: self.functions.into_iter().map(function).collect::<Option<_>>()?,
            samples: self.samples.into_iter().map(sample).collect::<Option<_>>()?,
        };
        profile.check_indices().ok().map(|()| profile)
    }
}

impl WireLocation {
    fn into_location(self) -> Location {
        let line = |(function, line): (u32, u32)| Line { function: function as usize, line };
        Location {
            mapping: self.mapping.map(|mapping| mapping as usize),
            address: LookupAddress(self.address),
            offset: None,
            lines: self.lines.into_iter().map(line).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Profile {
        let text = Arc::<str>::from;
        let mapping = Mapping {
            start: 4096,
            end: 8192,
            file_offset: 7,
            bias: 9,
            path: "/bin/a".into(),
            build_id: "ab".into(),
            ..Mapping::default()
        };
        let lines = vec![Line { function: 0, line: 3 }];
        let location =
            Location { mapping: Some(0), address: LookupAddress(4100), lines, offset: None };
        let unknown = Estimate::new(f64::NAN, f64::INFINITY);
        let number = LabelValue::Number { value: -4, unit: text("ms") };
        let labels = [Label { key: text("age"), value: number }, Label::kind("mmap")];
        let sample = StackSample {
            locations: vec![0, 0],
            values: [unknown, Estimate::new(1.5, 0.0), unknown, unknown],
            labels: labels.into(),
        };
        Profile {
            interval_bytes: 1,
            start_unix_ns: 2,
            time_unix_ns: 3,
            command: "a".into(),
            mappings: vec![mapping],
            locations: vec![location],
            functions: vec![Function { name: text("f()"), system_name: text("f"), file: text("") }],
            samples: vec![sample.clone(), StackSample { labels: [].into(), ..sample }],
            granularity: Granularity::Lines,
        }
    }

    #[test]
    fn a_profile_arrives_as_it_was() {
        let wire = borsh::to_vec(&WireProfile::from(example())).unwrap();
        let back: WireProfile = borsh::from_slice(&wire).unwrap();
        let back = back.into_profile().unwrap();
        // NaN is equal to nothing, so the texts are compared.
        assert_eq!(format!("{back:?}"), format!("{:?}", example()));
    }

    #[test]
    fn numbers_of_nothing_are_refused() {
        let broken = |damage: fn(&mut WireProfile)| {
            let mut wire = WireProfile::from(example());
            damage(&mut wire);
            wire.into_profile()
        };
        assert!(broken(|_| {}).is_some());
        assert!(broken(|wire| wire.texts.clear()).is_none());
        assert!(broken(|wire| wire.label_sets.clear()).is_none());
        assert!(broken(|wire| wire.locations.clear()).is_none());
        assert!(broken(|wire| wire.functions.clear()).is_none());
        assert!(broken(|wire| wire.mappings.clear()).is_none());
    }
}
