//! From a snapshot to a named profile.

use crate::failure::Failure;
use crate::places;
use crate::source::{Source, name_of};
use ramson_profile::{
    Estimate, Function, Line, Location, Mapping, Profile, SampleType, SampleUnit, StackSample,
    drop_allocator_frames,
};
use ramson_reader::Snapshot;
use ramson_symbols::{Binary, Defect, Frame, Options, Symbolizer};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A profile with names, and what kept it from having more of them.
pub struct Named {
    pub profile: Profile,
    pub missing_symbols: Vec<Defect>,
}

/// Builds the profile and looks up its names.
pub fn assemble(source: &Source, debug_paths: &[PathBuf]) -> Result<Named, Failure> {
    let mut profile = unnamed(source);
    let options = Options { debug_paths: debug_paths.to_vec(), cache_dir: places::symbol_cache() };
    let missing_symbols = name(&mut profile, source.running, Symbolizer::new(options));
    put_executable_first(&mut profile, &source.snapshot.header.exe);
    profile
        .check_indices()
        .map_err(|broken| Failure::failed(format!("{}: {broken:?}", source.origin)))?;
    drop_allocator_frames(&mut profile);
    Ok(Named { profile, missing_symbols })
}

/// The profile before its names are known.
fn unnamed(source: &Source) -> Profile {
    let snapshot = &source.snapshot;
    let header = &snapshot.header;
    let mut locations = Locations::default();
    let mut samples: Vec<StackSample> = snapshot
        .stacks
        .iter()
        .map(|stack| StackSample {
            locations: stack
                .frames
                .iter()
                .map(|&address| locations.index_of(snapshot, address, stack.epoch))
                .collect(),
            values: [
                Estimate { value: stack.alloc_objects, variance: stack.alloc_objects_variance },
                Estimate { value: stack.alloc_space, variance: stack.alloc_space_variance },
                Estimate::default(),
                Estimate::default(),
            ],
        })
        .collect();
    for live in &snapshot.live {
        let values = &mut samples[live.stack].values;
        values[SampleType::InuseObjects as usize] +=
            Estimate::of_sample(live.size, live.inverse_probability, SampleUnit::Objects);
        values[SampleType::InuseSpace as usize] +=
            Estimate::of_sample(live.size, live.inverse_probability, SampleUnit::Bytes);
    }
    samples.retain(|sample| sample.values.iter().any(|value| *value != Estimate::default()));
    let recorded_ns = header.last_monotonic_ns.saturating_sub(header.start_monotonic_ns);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    let ended = header.start_realtime_ns.saturating_add(recorded_ns);
    Profile {
        interval_bytes: header.interval_bytes,
        start_unix_ns: header.start_realtime_ns,
        time_unix_ns: if source.running.is_some() { now } else { ended },
        command: name_of(header).to_owned(),
        mappings: snapshot.mappings.iter().map(mapping).collect(),
        locations: locations.list,
        functions: Vec::new(),
        samples,
    }
}

/// Readers of pprof files take the first mapping for the program itself.
fn put_executable_first(profile: &mut Profile, executable: &str) {
    let is_own = |mapping: &Mapping| mapping.path == executable;
    let Some(own) = profile.mappings.iter().position(is_own) else { return };
    profile.mappings.swap(0, own);
    for mapping in profile.locations.iter_mut().filter_map(|location| location.mapping.as_mut()) {
        *mapping = match *mapping {
            0 => own,
            index if index == own => 0,
            index => index,
        };
    }
}

fn mapping(mapping: &ramson_reader::Mapping) -> Mapping {
    Mapping {
        start: mapping.start,
        end: mapping.end,
        file_offset: mapping.file_offset,
        bias: mapping.bias,
        path: mapping.path.clone(),
        build_id: mapping.build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// Distinct code addresses. An address counts once per mapping that was there.
#[derive(Default)]
struct Locations {
    list: Vec<Location>,
    known: HashMap<(u64, Option<usize>), usize>,
}

impl Locations {
    fn index_of(&mut self, snapshot: &Snapshot, address: u64, epoch: u32) -> usize {
        let mapping = snapshot.mapping_at(address, epoch);
        *self.known.entry((address, mapping)).or_insert_with(|| {
            self.list.push(Location { mapping, address, lines: Vec::new() });
            self.list.len() - 1
        })
    }
}

/// Looks up names binary by binary.
fn name(profile: &mut Profile, pid: Option<u32>, mut symbolizer: Symbolizer) -> Vec<Defect> {
    let mut of_mapping: Vec<Vec<usize>> = vec![Vec::new(); profile.mappings.len()];
    for (index, location) in profile.locations.iter().enumerate() {
        if let Some(mapping) = location.mapping {
            of_mapping[mapping].push(index);
        }
    }
    let mut functions = Functions::default();
    let mut defects = Vec::new();
    for (mapping, locations) in profile.mappings.iter().zip(&of_mapping) {
        if locations.is_empty() {
            continue;
        }
        let binary = Binary { path: mapping.path.clone(), build_id: mapping.build_id.clone(), pid };
        let address_of =
            |&index: &usize| profile.locations[index].address.wrapping_sub(mapping.bias);
        let addresses: Vec<u64> = locations.iter().map(address_of).collect();
        let symbolized = symbolizer.symbolize(&binary, &addresses);
        defects.extend(symbolized.defect);
        for (&index, frames) in locations.iter().zip(symbolized.frames) {
            profile.locations[index].lines = frames
                .into_iter()
                .map(|frame| Line { line: frame.line, function: functions.index_of(frame) })
                .collect();
        }
    }
    profile.functions = functions.list;
    defects
}

#[derive(Default)]
struct Functions {
    list: Vec<Function>,
    known: HashMap<Function, usize>,
}

impl Functions {
    fn index_of(&mut self, frame: Frame) -> usize {
        let file = frame.file.unwrap_or_else(|| Arc::from(""));
        let function = Function { name: frame.function, system_name: frame.system_name, file };
        *self.known.entry(function).or_insert_with_key(|function| {
            self.list.push(function.clone());
            self.list.len() - 1
        })
    }
}
