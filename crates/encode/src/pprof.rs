//! A profile as pprof's `profile.proto`, gzip'd: what `go tool pprof`, Parca, Pyroscope, speedscope and others read.
//!
//! Four sample types in a fixed order (merging and diffing fail otherwise), values weighted and rounded to integers. The
//! leaf is the first location; addresses of callers are return address − 1, as in the model.

use flate2::Compression;
use flate2::write::GzEncoder;
use indexmap::IndexSet;
use prost::Message;
use ramson_profile::pprof as message;
use ramson_profile::{
    BLOCK_SIZE, DROP_FRAMES, Function, LANGUAGE, LabelValue, Language, Mapping, Profile,
    STACKS_NOT_RECORDED, SampleType, SampleUnit, StackSample, printable,
};
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};

/// Name that Go's proposal 79179 gives the sample type that adds up to resident memory.
const MEMORY_SPACE: &str = "memory_space";
/// The frame of live memory that the profile's estimate lacks, or exceeds the live term of resident memory by.
const BEYOND_ESTIMATE: &str = "[beyond the estimate]";
/// Samples that are encoded at a time.
const SAMPLES_PER_PART: usize = 1 << 10;

/// Writes the gzip'd protobuf; `default_sample_type` is shown unless the reader asks for another. `time_nanos` is
/// `time_unix_ns`, `duration_nanos` the time since `start_unix_ns` if both are known. The allocator's frames are named in
/// `drop_frames`: readers cut them off, so a profile shows the same numbers here and there only after `drop_allocator_frames`.
///
/// A binary none of whose locations has a name is marked unsymbolized, which makes pprof look for the file itself, and
/// warn if it is not there.
pub fn write(
    profile: &Profile,
    out: &mut dyn Write,
    default_sample_type: SampleType,
) -> io::Result<()> {
    Encoder::new(profile, &[]).write(default_sample_type.name(), out)
}

/// The same with a fifth sample type, which is the default: `memory_space`, whose samples add up to the process's resident memory. Each is
/// below one of the `terms` of that, as a frame at the root: the live stacks below the first, with what the profile's estimate
/// lacks of it, or exceeds it by.
pub fn write_memory(
    profile: &Profile,
    out: &mut dyn Write,
    terms: &[(String, i64)],
) -> io::Result<()> {
    Encoder::new(profile, terms).write(MEMORY_SPACE, out)
}

struct Encoder<'a> {
    profile: &'a Profile,
    /// Each text once, the empty one first.
    strings: IndexSet<Cow<'a, str>>,
    /// Id of the location that stands for an empty stack; `None` if there is no such stack.
    not_recorded: Option<u64>,
    /// Language of each function.
    languages: Vec<Option<Language>>,
    /// Terms of resident memory, in bytes. Without terms, there are four sample types.
    terms: &'a [(String, i64)],
}

impl<'a> Encoder<'a> {
    fn new(profile: &'a Profile, terms: &'a [(String, i64)]) -> Self {
        let has_empty = profile.samples.iter().any(|sample| sample.locations.is_empty());
        let not_recorded = has_empty.then(|| id(profile.locations.len()));
        let language = |function: &Function| Language::of(&function.system_name);
        let languages = profile.functions.iter().map(language).collect();
        Encoder { profile, strings: IndexSet::from(["".into()]), not_recorded, languages, terms }
    }

    /// Parts of a message, one after the other, are the message: so no more than one part is held at a time.
    fn write(mut self, default_sample_type: &'static str, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.profile;
        let mut gzip = GzEncoder::new(out, Compression::fast());
        let mut put = |part: message::Profile| gzip.write_all(&part.encode_to_vec());
        let none = message::Profile::default;
        let mut types = SampleType::ALL.map(|t| self.value_type(t.name(), unit_name(t))).to_vec();
        let memory = (!self.terms.is_empty()).then(|| self.value_type(MEMORY_SPACE, "bytes"));
        types.extend(memory);
        put(message::Profile { sample_type: types, ..none() })?;
        for samples in profile.samples.chunks(SAMPLES_PER_PART) {
            let sample = samples.iter().map(|sample| self.sample(sample)).collect();
            put(message::Profile { sample, ..none() })?;
        }
        put(message::Profile { sample: self.memory_samples(), ..none() })?;
        put(message::Profile { mapping: self.mappings(), ..none() })?;
        put(message::Profile { location: self.locations(), ..none() })?;
        put(message::Profile { function: self.functions(), ..none() })?;
        let known = profile.start_unix_ns != 0 && profile.time_unix_ns != 0;
        let duration = profile.time_unix_ns.saturating_sub(profile.start_unix_ns);
        let rest = message::Profile {
            drop_frames: self.string(DROP_FRAMES),
            time_nanos: signed(profile.time_unix_ns),
            duration_nanos: if known { signed(duration) } else { 0 },
            period_type: Some(self.value_type("space", "bytes")),
            period: signed(profile.interval_bytes),
            default_sample_type: self.string(default_sample_type),
            ..none()
        };
        let string_table = self.strings.into_iter().map(Cow::into_owned).collect();
        put(message::Profile { string_table, ..none() })?;
        put(rest)?;
        gzip.finish()?.flush()
    }

    fn string(&mut self, text: &'a str) -> i64 {
        self.strings.insert_full(printable(text)).0 as i64
    }

    fn value_type(&mut self, name: &'static str, unit: &'static str) -> message::ValueType {
        message::ValueType { r#type: self.string(name), unit: self.string(unit) }
    }

    fn sample(&mut self, sample: &'a StackSample) -> message::Sample {
        let mut value = sample.values.map(|estimate| estimate.value.round() as i64).to_vec();
        value.extend((!self.terms.is_empty()).then_some(0));
        message::Sample { location_id: self.stack(sample), value, label: self.labels(sample) }
    }

    /// Returns the numbers of a stack's locations, leaf first.
    fn stack(&self, sample: &StackSample) -> Vec<u64> {
        let recorded = sample.locations.iter().map(|&at| id(at as usize));
        recorded.chain(self.not_recorded.filter(|_| sample.locations.is_empty())).collect()
    }

    /// Returns the samples that add up to resident memory.
    fn memory_samples(&self) -> Vec<message::Sample> {
        let Some(((_, live_bytes), others)) = self.terms.split_first() else { return Vec::new() };
        let first = self.first_term();
        let sample = |location_id: Vec<u64>, bytes: i64| message::Sample {
            location_id,
            value: vec![0, 0, 0, 0, bytes],
            label: Vec::new(),
        };
        let mut samples = Vec::new();
        let mut estimated = 0;
        for live in &self.profile.samples {
            let bytes = live.value(SampleType::InuseSpace).value.round() as i64;
            if bytes != 0 {
                estimated += bytes;
                let mut stack = self.stack(live);
                stack.push(first);
                samples.push(sample(stack, bytes));
            }
        }
        let beyond = first + self.terms.len() as u64;
        samples.push(sample(vec![beyond, first], live_bytes - estimated));
        samples.extend((first + 1..).zip(others).map(|(at, (_, bytes))| sample(vec![at], *bytes)));
        samples.retain(|sample| sample.value[4] != 0);
        samples
    }

    /// Id of the location that stands for the first term; the others follow, and then the one for what the estimate lacks. Their functions'
    /// ids are as far apart.
    fn first_term(&self) -> u64 {
        id(self.profile.locations.len()) + u64::from(self.not_recorded.is_some())
    }

    /// Returns the names of the terms' locations, in the order of their ids.
    fn term_names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let beyond = (!self.terms.is_empty()).then_some(BEYOND_ESTIMATE);
        self.terms.iter().map(|(name, _)| name.as_str()).chain(beyond)
    }

    /// The sample's own labels, the language of its innermost frame that has one, and the block size where there is none.
    fn labels(&mut self, sample: &'a StackSample) -> Vec<message::Label> {
        let own = sample.labels.iter().map(|label| match &label.value {
            LabelValue::Text(text) => self.text(&label.key, text),
            LabelValue::Number { value, unit } => self.number(&label.key, *value, unit),
        });
        let mut labels: Vec<message::Label> = own.collect();
        let language = self.language(sample);
        labels.extend(language.map(|language| self.text(LANGUAGE, language.name())));
        if !sample.labels.iter().any(|label| &*label.key == BLOCK_SIZE) {
            let size = block_size(&sample.values.map(|estimate| estimate.value));
            labels.extend(size.map(|size| self.number(BLOCK_SIZE, size, "bytes")));
        }
        labels
    }

    fn text(&mut self, key: &'a str, text: &'a str) -> message::Label {
        message::Label { key: self.string(key), str: self.string(text), ..Default::default() }
    }

    fn number(&mut self, key: &'a str, num: i64, unit: &'a str) -> message::Label {
        message::Label { key: self.string(key), str: 0, num, num_unit: self.string(unit) }
    }

    fn mappings(&mut self) -> Vec<message::Mapping> {
        let profile = self.profile;
        let binary = |mapping: &'a Mapping| (mapping.path.as_str(), mapping.build_id.as_str());
        // By binary, not by mapping: pprof joins adjacent mappings of one file and keeps the first one's flags.
        let named = profile.locations.iter().filter(|location| !location.lines.is_empty());
        let symbolized: HashSet<_> = named
            .filter_map(|location| Some(binary(&profile.mappings[location.mapping?])))
            .collect();
        let mut messages = Vec::new();
        for (index, mapping) in profile.mappings.iter().enumerate() {
            let has_names = symbolized.contains(&binary(mapping));
            messages.push(message::Mapping {
                id: id(index),
                memory_start: mapping.start,
                memory_limit: mapping.end,
                file_offset: mapping.file_offset,
                filename: self.string(or_unknown(&mapping.path)),
                build_id: self.string(&mapping.build_id),
                has_functions: has_names,
                has_filenames: has_names,
                has_line_numbers: has_names,
                has_inline_frames: has_names,
            });
        }
        if messages.is_empty() {
            // Without any mapping pprof makes one up, and then misses its binary.
            let filename = self.string(or_unknown(""));
            messages.push(message::Mapping { id: id(0), filename, ..Default::default() });
        }
        messages
    }

    fn locations(&self) -> Vec<message::Location> {
        let locations = self.profile.locations.iter().enumerate().map(|(index, location)| {
            let lines = location.lines.iter().map(|line| message::Line {
                function_id: id(line.function),
                line: line.line.into(),
            });
            message::Location {
                id: id(index),
                mapping_id: location.mapping.map_or(0, id),
                address: location.address.0,
                line: lines.collect(),
            }
        });
        let not_recorded = self.not_recorded.map(|location_id| message::Location {
            id: location_id,
            line: vec![message::Line { function_id: id(self.profile.functions.len()), line: 0 }],
            ..Default::default()
        });
        let functions = self.profile.functions.len() + usize::from(self.not_recorded.is_some());
        let terms = self.term_names().zip(0..).map(|(_, term)| message::Location {
            id: self.first_term() + term as u64,
            line: vec![message::Line { function_id: id(functions + term), line: 0 }],
            ..Default::default()
        });
        locations.chain(not_recorded).chain(terms).collect()
    }

    fn language(&self, sample: &StackSample) -> Option<Language> {
        let locations = sample.locations.iter().map(|&at| &self.profile.locations[at as usize]);
        locations.flat_map(|at| &at.lines).find_map(|line| self.languages[line.function])
    }

    fn functions(&mut self) -> Vec<message::Function> {
        let functions = &self.profile.functions;
        let named = functions.iter().enumerate().map(|(index, function)| message::Function {
            id: id(index),
            name: self.string(&function.name),
            system_name: self.string(system_name(&function.name, &function.system_name)),
            filename: self.string(&function.file),
        });
        let mut messages: Vec<message::Function> = named.collect();
        if self.not_recorded.is_some() {
            let name = self.string(STACKS_NOT_RECORDED);
            messages.push(message::Function {
                id: id(functions.len()),
                name,
                ..Default::default()
            });
        }
        for name in self.term_names() {
            let name = self.string(name);
            messages.push(message::Function { id: id(messages.len()), name, ..Default::default() });
        }
        messages
    }
}

/// Ids are positions + 1: 0 means "none".
fn id(index: usize) -> u64 {
    index as u64 + 1
}

/// pprof warns of a file without a name, but takes one in brackets for the kernel's.
fn or_unknown(path: &str) -> &str {
    if path.is_empty() { "[unknown]" } else { path }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unit_name(sample_type: SampleType) -> &'static str {
    match sample_type.unit() {
        SampleUnit::Objects => "count",
        SampleUnit::Bytes => "bytes",
    }
}

/// Average size of the stack's allocations, of the live ones if no others are known. `None` where a diff or an empty
/// stack leaves no such size. Go labels each sample with its block size; ours may be merged per stack.
fn block_size(values: &[f64; 4]) -> Option<i64> {
    let average = |objects: SampleType, space: SampleType| {
        let objects = values[objects as usize];
        let space = values[space as usize];
        let size = (space / objects).round();
        (objects != 0.0 && size.is_finite() && size >= 1.0).then_some(size as i64)
    };
    average(SampleType::AllocObjects, SampleType::AllocSpace)
        .or_else(|| average(SampleType::InuseObjects, SampleType::InuseSpace))
}

/// Returns the system name to write: empty if it equals a name that is demangled already. pprof demangles a function again whose two
/// names are equal, and then strips parameters and template arguments.
fn system_name<'a>(name: &str, system_name: &'a str) -> &'a str {
    if name == system_name && name.contains(['(', '<']) { "" } else { system_name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_size_is_an_average() {
        assert_eq!(block_size(&[4.0, 66.0, 1.0, 100.0]), Some(17));
        assert_eq!(block_size(&[0.0, 0.0, 2.0, 64.0]), Some(32));
        assert_eq!(block_size(&[-2.0, -64.0, 0.0, 0.0]), Some(32));
        assert_eq!(block_size(&[-2.0, 64.0, 0.0, 0.0]), None);
        assert_eq!(block_size(&[0.0; 4]), None);
    }

    #[test]
    fn only_demangled_system_name_is_omitted() {
        assert_eq!(system_name("f(int)", "_Z1fi"), "_Z1fi");
        assert_eq!(system_name("f(int)", "f(int)"), "");
        assert_eq!(system_name("main", "main"), "main");
        assert_eq!(system_name("_Z1fi", "_Z1fi"), "_Z1fi");
    }
}
