//! From what was read to a profile: identifiers become indices, value columns become sample types.

use super::ids::Ids;
use super::sample_types::heap_type;
use super::strings::Strings;
use super::{MOST_TYPES, OWN_TYPES, Raw};
use crate::build::{OVERHEAD_BYTES, UNKNOWN};
use crate::defect::{ImportDefect, ImportError};
use crate::format::Format;
use crate::import::{DropFrames, Imported};
use crate::input::Input;
use crate::weight::{Pair, of_weighted};
use hashbrown::HashMap;
use ramson_profile::{
    Estimate, Function, Mapping, Pattern, Profile, SampleType, merge_equal_samples,
};
use std::sync::Arc;

pub fn finish(mut raw: Raw, input: &mut Input) -> Result<Imported, ImportError> {
    let (columns, other_types) = columns(&raw);
    let mut sample_types = SampleType::ALL.to_vec();
    sample_types.retain(|&of| columns[of as usize].is_some());
    // pprof shows the last one of the file unless that names another.
    let Some(&last) =
        sample_types.iter().max_by_key(|&&of| columns[of as usize].map(|column| column.at))
    else {
        return Err(match (other_types.is_empty(), input.defects.first()) {
            (false, None) => ImportError::NotAHeapProfile(other_types),
            (_, defect) => ImportError::Nothing(defect.cloned()),
        });
    };
    // The strings come last.
    let has_names = raw.rest.function.iter().all(|function| raw.strings.has(function.name));
    if let Some(defect) = input.defects.first().filter(|_| !has_names) {
        return Err(ImportError::Nothing(Some(defect.clone())));
    }
    let default_sample_type = default_sample_type(&raw, &columns).unwrap_or(last);
    let mut defects = Vec::new();
    if !other_types.is_empty() {
        defects.push(ImportDefect::OtherSampleTypes(other_types));
    }
    let drop_frames = drop_frames(&raw, &mut defects);
    let interval_bytes = interval_bytes(&raw);
    let mut samples = std::mem::take(&mut raw.samples);
    let more_values = std::mem::take(&mut raw.more_values);
    let more_types = raw.more_types.unwrap_or(0);
    let mut index = 0;
    let mut bad_records = raw.bad_records + replace_ids(&mut raw);
    let location_of = Ids::new(raw.location_ids.iter().map(|&number| number.into()));
    let mut labels = std::mem::take(&mut raw.labels).resolve(&raw.strings);
    samples.retain_mut(|sample| {
        sample.labels = labels.next().unwrap_or_default();
        let more = &more_values[index * more_types..(index + 1) * more_types];
        index += 1;
        sample.values = weighted(&sample.values, more, &columns, interval_bytes);
        if sample.values.iter().all(|value| value.value == 0.0 || value.value.is_nan()) {
            // It counts something else than a heap.
            return false;
        }
        let is_known = location_of.replace(&mut sample.locations);
        bad_records += u64::from(!is_known);
        is_known
    });
    let rest = &raw.rest;
    let mut profile = Profile {
        interval_bytes,
        start_unix_ns: match rest.duration_nanos as u64 {
            0 => 0,
            duration => (rest.time_nanos as u64).saturating_sub(duration),
        },
        time_unix_ns: rest.time_nanos as u64,
        samples,
        ..Profile::default()
    };
    let mut texts = Texts::of(&raw.strings);
    profile.mappings = mappings(&raw, &mut texts, input);
    profile.functions = functions(&raw, &mut texts, input);
    drop(texts);
    profile.locations = raw.locations;
    profile.command = profile.mappings.first().map_or("", Mapping::basename).to_owned();
    merge_equal_samples(&mut profile.samples);
    if bad_records > 0 {
        defects.push(ImportDefect::BadRecords(bad_records));
    }
    let format = Format::Pprof;
    Ok(Imported { profile, format, sample_types, default_sample_type, drop_frames, defects })
}

/// A column of values.
#[derive(Clone, Copy)]
struct Column {
    at: usize,
    /// From its unit to ramson's.
    factor: f64,
}

type Columns = [Option<Column>; 4];

/// Column of each of ramson's sample types among the file's, and what other types there are.
fn columns(raw: &Raw) -> (Columns, Vec<String>) {
    let mut columns = [None; 4];
    let mut others = Vec::new();
    for (at, of) in raw.rest.sample_type.iter().enumerate() {
        let name = raw.strings.get(of.r#type);
        let unit = raw.strings.get(of.unit);
        match heap_type(&name, &unit) {
            Some((of, factor)) if at < MOST_TYPES && columns[of as usize].is_none() => {
                columns[of as usize] = Some(Column { at, factor });
            }
            _ if others.len() == MOST_TYPES => {}
            _ if name.is_empty() => others.push("an unnamed value".into()),
            _ => others.push(format!("{name}/{unit}")),
        }
    }
    (columns, others)
}

/// The sample type that the file names as its default.
fn default_sample_type(raw: &Raw, columns: &Columns) -> Option<SampleType> {
    let name = raw.strings.get(raw.rest.default_sample_type);
    let is_named = |column: Column| raw.strings.get(raw.rest.sample_type[column.at].r#type) == name;
    SampleType::ALL.into_iter().find(|&of| columns[of as usize].is_some_and(is_named))
}

/// Only a period in bytes says how a heap was sampled.
fn interval_bytes(raw: &Raw) -> u64 {
    let of = raw.rest.period_type.unwrap_or_default();
    let (name, unit) = (raw.strings.get(of.r#type), raw.strings.get(of.unit));
    // `space/bytes`, `inuse_space/bytes`.
    let is_heap = *unit == *"bytes" && heap_type(&name, &unit).is_some();
    let is_possible = is_heap && (1..1 << 62).contains(&raw.rest.period);
    if is_possible { raw.rest.period as u64 } else { 0 }
}

/// `more` are the values after the sample's own ones.
fn weighted(
    values: &[Estimate; OWN_TYPES],
    more: &[i64],
    columns: &Columns,
    interval_bytes: u64,
) -> [Estimate; 4] {
    let at = |at: usize| match values.get(at) {
        Some(own) => own.value,
        None => more.get(at - OWN_TYPES).map_or(0.0, |&value| value as f64),
    };
    let value = |of: SampleType| {
        columns[of as usize].map_or(f64::NAN, |column| column.factor * at(column.at))
    };
    let pair = |objects, bytes| {
        let pair = Pair { objects: value(objects), bytes: value(bytes) };
        of_weighted(interval_bytes, pair)
            .map(|estimate| if estimate.value.is_nan() { UNKNOWN } else { estimate })
    };
    let [alloc_objects, alloc_space] = pair(SampleType::AllocObjects, SampleType::AllocSpace);
    let [inuse_objects, inuse_space] = pair(SampleType::InuseObjects, SampleType::InuseSpace);
    [alloc_objects, alloc_space, inuse_objects, inuse_space]
}

/// Replaces identifiers by indices in locations. A line of a function that does not exist is left out and counted.
fn replace_ids(raw: &mut Raw) -> u64 {
    let mut bad = 0;
    let function_of = Ids::new(raw.rest.function.iter().map(|function| function.id));
    let mapping_of = Ids::new(raw.rest.mapping.iter().map(|mapping| mapping.id));
    for location in &mut raw.locations {
        location.mapping = location.mapping.and_then(|id| mapping_of.index(id as u64));
        let known = location.lines.len();
        location.lines.retain_mut(|line| {
            let function = function_of.index(line.function as u64);
            line.function = function.unwrap_or_default();
            function.is_some()
        });
        bad += (known - location.lines.len()) as u64;
    }
    bad
}

/// Each mapping has its own copy of its path, which counts. Past the memory bound mappings are nameless.
fn mappings(raw: &Raw, texts: &mut Texts, input: &mut Input) -> Vec<Mapping> {
    let mut text = |index: i64| {
        let text = texts.get(index, input);
        if input.charge(text.len()).is_ok() { text.to_string() } else { String::new() }
    };
    let mappings = raw.rest.mapping.iter().map(|mapping| Mapping {
        start: mapping.memory_start,
        end: mapping.memory_limit,
        file_offset: mapping.file_offset,
        // The bias is right if segments lie in the file as in memory; the binary can tell better.
        bias: mapping.memory_start.wrapping_sub(mapping.file_offset),
        path: text(mapping.filename),
        build_id: text(mapping.build_id).to_lowercase(),
        ..Mapping::default()
    });
    mappings.collect()
}

fn functions(raw: &Raw, texts: &mut Texts, input: &mut Input) -> Vec<Function> {
    let functions = raw.rest.function.iter().map(|function| Function {
        name: texts.get(function.name, input),
        system_name: texts.get(function.system_name, input),
        file: texts.get(function.filename, input),
    });
    functions.collect()
}

/// Strings as names, each once. Past the memory bound they are empty.
struct Texts<'a> {
    strings: &'a Strings,
    known: HashMap<i64, Arc<str>>,
    empty: Arc<str>,
}

impl<'a> Texts<'a> {
    fn of(strings: &'a Strings) -> Self {
        Self { strings, known: HashMap::new(), empty: "".into() }
    }

    fn get(&mut self, index: i64, input: &mut Input) -> Arc<str> {
        if let Some(text) = self.known.get(&index) {
            return text.clone();
        }
        let text = self.strings.get(index);
        let fits = input.charge(text.len() + 2 * OVERHEAD_BYTES).is_ok();
        let text = if fits { text.into() } else { self.empty.clone() };
        self.known.insert(index, text.clone());
        text
    }
}

fn drop_frames(raw: &Raw, defects: &mut Vec<ImportDefect>) -> DropFrames {
    let mut compile = |index: i64| {
        let expression = raw.strings.get(index);
        if expression.is_empty() {
            return None;
        }
        match Pattern::new(&format!("^({expression})$")) {
            Ok(pattern) => Some(pattern),
            Err(_) => {
                defects.push(ImportDefect::FrameExpression(expression.chars().take(60).collect()));
                None
            }
        }
    };
    match compile(raw.rest.drop_frames) {
        Some(drop) => DropFrames::Named { drop, keep: compile(raw.rest.keep_frames) },
        None => DropFrames::Nothing,
    }
}
