//! From what a SRC turned out to be to a named profile.

use crate::naming::{self, Names};
use crate::recording::what_is_missing;
use crate::{biases, extents, inside};
use hashbrown::{HashMap, HashSet};
use ramson_format::{Kind, stack_flags};
use ramson_process::clock::unix_ns;
use ramson_process::text;
use ramson_profile::{
    Estimate, Excess, FrameTable, Label, LabelValue, Location, LookupAddress, Mapping, Profile,
    SampleType, SampleUnit, StackSample, cut_excess, drop_allocator_frames, show_as_runtime_pprof,
};
use ramson_reader::{Snapshot, Stack};
use ramson_source::{Failure, Opened, Recording, name_of};
use ramson_symbols::{SymbolDefect, Symbolizer};
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::Arc;

pub use ramson_reader::Counting;

/// A profile with names, and what kept it from having more of them.
#[derive(Clone, Default)]
pub struct Named {
    /// With names.
    pub profile: Profile,
    /// Reasons why frames have no names.
    pub missing_symbols: Vec<SymbolDefect>,
}

/// How far samples are told apart.
#[derive(Clone, Copy, PartialEq)]
pub enum Detail {
    /// One sample per stack.
    Stacks,
    /// Live samples of one stack also by block size and thread.
    Labels,
    /// One sample per stack of the snapshot, also where stacks have the same frames (`stack_number`).
    Numbered,
}

/// Which kinds of memory a profile is of.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Kinds {
    /// Heap of a recording; all that a foreign file has.
    #[default]
    Usual,
    /// One.
    Only(Kind),
    /// Heap and extents, added up.
    All,
}

impl Kinds {
    /// Extents, and nothing else.
    pub fn is_mmap(self) -> bool {
        self == Self::Only(Kind::Mmap)
    }

    /// Returns the only kind to take from a recording; `None`: all kinds.
    pub fn of_recording(self) -> Option<Kind> {
        match self {
            Self::Usual => Some(Kind::Heap),
            Self::Only(kind) => Some(kind),
            Self::All => None,
        }
    }
}

/// From here on live bytes are counted in this way.
pub fn count(opened: &mut [Opened], counting: Counting) {
    for opened in opened {
        if let Opened::Recording(recording) = opened {
            recording.snapshot.counting = counting;
        }
    }
}

/// Lists the defects of a source.
pub fn defects(opened: &Opened) -> Vec<String> {
    match opened {
        Opened::Recording(recording) => what_is_missing(recording),
        Opened::Foreign(foreign) => {
            foreign.imported.defects.iter().map(ToString::to_string).collect()
        }
    }
}

/// The profile of a source with its names. A foreign one is moved out, as it may be large.
pub fn take_named(
    opened: &mut Opened,
    names: &Names,
    detail: Detail,
    kinds: Kinds,
) -> Result<Named, Failure> {
    match opened {
        Opened::Recording(recording) if names.search.binary.is_some() => {
            Err(Failure::usage(format!(
                "--binary: {} already names its binaries. Leave out --binary, or pass --sysroot DIR if they are elsewhere",
                recording.origin
            )))
        }
        Opened::Recording(recording) => assemble(recording, names, detail, kinds.of_recording()),
        Opened::Foreign(foreign) => {
            let mut profile = std::mem::take(&mut foreign.imported.profile);
            if let Kinds::Only(kind) = kinds {
                let is_of = |sample: &StackSample| sample.kind().unwrap_or("heap") == kind.name();
                profile.samples.retain(is_of);
            }
            let owner = naming::owner_of_foreign(&foreign.origin);
            biases::find_biases(&mut profile, names.search.sysroot.as_deref(), owner);
            if let Some(binary) = &names.search.binary {
                biases::place_in(&mut profile, binary);
                foreign.forget_missing_mappings();
            }
            let mut symbolizer = names.search.symbolizer_of_foreign(&foreign.origin)?;
            let missing_symbols = naming::name(&mut profile, None, &mut symbolizer);
            foreign.drop_frames(&mut profile);
            names.show(&mut profile);
            Ok(Named { profile, missing_symbols })
        }
    }
}

/// Returns the sample type that all sources count: the one that was asked for, or the first source's own first choice.
pub fn common_sample_type(
    opened: &[Opened],
    asked: Option<SampleType>,
) -> Result<SampleType, Failure> {
    let counted = opened.iter().try_fold(asked, |counted, opened| match opened {
        Opened::Recording(_) => Ok(counted.or(Some(SampleType::InuseSpace))),
        Opened::Foreign(foreign) => foreign.sample_type(counted).map(Some),
    });
    Ok(counted?.unwrap_or(SampleType::InuseSpace))
}

/// The sum of several sources, as `take_named` has them. One stays as it is.
pub fn take_sum(
    opened: &mut [Opened],
    names: &Names,
    detail: Detail,
    kinds: Kinds,
) -> Result<Named, Failure> {
    let named = opened.iter_mut().map(|opened| take_named(opened, names, detail, kinds));
    let mut all = named.collect::<Result<Vec<Named>, Failure>>()?;
    match all.len() {
        1 => Ok(all.remove(0)),
        _ => sum(all, opened),
    }
}

/// The sum of named profiles, which are of `opened`.
pub fn sum(all: Vec<Named>, opened: &[Opened]) -> Result<Named, Failure> {
    let mut profiles = Vec::new();
    let mut missing_symbols = Vec::new();
    for mut named in all {
        // Each process has a calibration of its own.
        for value in named.profile.samples.iter_mut().flat_map(|sample| &mut sample.values) {
            *value = value.settled();
        }
        profiles.push(named.profile);
        for defect in named.missing_symbols {
            if !missing_symbols.contains(&defect) {
                missing_symbols.push(defect);
            }
        }
    }
    let profile = ramson_profile::merge(profiles).map_err(|different| {
        let origin = opened[different.index].origin();
        Failure::usage(format!("{origin}: {different}. Pass profiles of the same kind"))
    })?;
    Ok(Named { profile, missing_symbols })
}

/// Builds the profile of one kind of memory, or of both (`None`), and looks up its names.
pub fn assemble(
    recording: &Recording,
    names: &Names,
    detail: Detail,
    kind: Option<Kind>,
) -> Result<Named, Failure> {
    let mut symbolizer = names.search.symbolizer(Some(recording))?;
    Ok(name(recording, names, &mut symbolizer, unnamed(recording, detail, kind)))
}

/// Only these stacks of the snapshot, each as one sample with its `stack_number` and no values, with their names.
pub fn assemble_stacks(
    recording: &Recording,
    names: &Names,
    stacks: &BTreeSet<usize>,
) -> Result<Named, Failure> {
    let mut locations = Locations::default();
    let samples = stacks.iter().map(|&number| StackSample {
        locations: locations.of(&recording.snapshot, number),
        labels: [numbered(number)].into(),
        ..StackSample::default()
    });
    let profile = profile_of(recording, samples.collect(), locations);
    let mut symbolizer = names.search.symbolizer(Some(recording))?;
    Ok(name(recording, names, &mut symbolizer, profile))
}

/// Looks up the names of what `unnamed` built.
pub fn name(
    recording: &Recording,
    names: &Names,
    symbolizer: &mut Symbolizer,
    mut profile: Profile,
) -> Named {
    let mut missing_symbols = naming::name(&mut profile, Some(recording), symbolizer);
    let Excess { frames, names: cut_names } = cut_excess(&mut profile);
    let is_cut = frames > 0 || cut_names > 0;
    missing_symbols.extend(is_cut.then_some(SymbolDefect::Excess { frames, names: cut_names }));
    put_executable_first(&mut profile, recording);
    drop_allocator_frames(&mut profile);
    show_go(&mut profile, &recording.snapshot);
    names.show(&mut profile);
    Named { profile, missing_symbols }
}

/// Shows stacks of Go's runtime, and those of C that begin in a goroutine.
fn show_go(profile: &mut Profile, snapshot: &Snapshot) {
    if !profile.functions.iter().any(|function| &*function.name == "runtime.goexit") {
        return;
    }
    let of_go = snapshot.stacks.iter().filter(|stack| stack.flags & stack_flags::GO != 0);
    let addresses: HashSet<LookupAddress> =
        of_go.flat_map(|stack| stack.frames.iter().copied()).collect();
    show_as_runtime_pprof(profile, |location| addresses.contains(&location.address));
}

/// The profile before its names are known.
pub fn unnamed(recording: &Recording, detail: Detail, kind: Option<Kind>) -> Profile {
    let snapshot = &recording.snapshot;
    let mut locations = Locations::default();
    let of_stack = |(number, stack): (usize, &Stack)| {
        let mut sample = StackSample {
            locations: locations.of(snapshot, number),
            labels: labels(number, stack, detail, kind),
            ..StackSample::default()
        };
        if kind.is_none_or(|kind| kind == stack.kind()) {
            let [objects, space, ..] = &mut sample.values;
            *objects = Estimate::new(stack.alloc_objects, stack.alloc_objects_variance);
            *space = Estimate::new(stack.alloc_space, stack.alloc_space_variance);
        }
        sample
    };
    let mut samples: Vec<StackSample> = snapshot.stacks.iter().enumerate().map(of_stack).collect();
    let mut labelled: BTreeMap<(usize, u64, u32, u8), StackSample> = BTreeMap::new();
    let mut threads = HashMap::new();
    let inside = inside::of(snapshot).into_iter();
    let allocators: HashMap<u8, Label> =
        inside.map(|it| (it.family, Label::allocator(&it.full_name()))).collect();
    for live in extents::live(snapshot, kind) {
        let mut new = || {
            let thread = threads.entry(live.tid).or_insert_with(|| thread(recording, live.tid));
            let of_thread = Some(thread.clone()).filter(|_| live.tid != 0);
            let own = iter::once(Label::block_size(live.size)).chain(of_thread);
            let own = own.chain(kind_label(&snapshot.stacks[live.stack], kind));
            StackSample {
                locations: samples[live.stack].locations.clone(),
                labels: own.chain(allocators.get(&live.family).cloned()).collect(),
                ..StackSample::default()
            }
        };
        let sample = match detail {
            Detail::Labels => {
                let key = (live.stack, live.size, live.tid, live.family);
                labelled.entry(key).or_insert_with(&mut new)
            }
            Detail::Stacks | Detail::Numbered => &mut samples[live.stack],
        };
        let [.., objects, space] = &mut sample.values;
        *objects += live.estimate(SampleUnit::Objects);
        *space += live.estimate(SampleUnit::Bytes);
    }
    samples.extend(labelled.into_values());
    samples.retain(|sample| sample.values.iter().any(|value| *value != Estimate::default()));
    profile_of(recording, samples, locations)
}

/// Returns the labels of a stack's allocations. Allocations are counted per stack only, so their size label is the average.
fn labels(number: usize, stack: &Stack, detail: Detail, kind: Option<Kind>) -> Arc<[Label]> {
    let own = match detail {
        Detail::Numbered => return [numbered(number)].into(),
        Detail::Labels if stack.alloc_objects > 0.0 => {
            let average = (stack.alloc_space / stack.alloc_objects).round();
            Some(Label::block_size(average as u64))
        }
        Detail::Labels | Detail::Stacks => None,
    };
    own.into_iter().chain(kind_label(stack, kind)).collect()
}

fn profile_of(recording: &Recording, samples: Vec<StackSample>, locations: Locations) -> Profile {
    let snapshot = &recording.snapshot;
    let header = &snapshot.header;
    Profile {
        interval_bytes: header.interval_bytes,
        start_unix_ns: header.start_realtime_ns,
        time_unix_ns: match recording.running {
            Some(_) => unix_ns(),
            None => header.unix_ns(header.last_monotonic_ns),
        },
        command: name_of(header).to_owned(),
        mappings: snapshot.mappings.iter().map(mapping).collect(),
        locations: locations.list,
        samples,
        ..Profile::default()
    }
}

/// The label that tells samples of this stack from others; a profile of the heap alone has none.
fn kind_label(stack: &Stack, kind: Option<Kind>) -> Option<Label> {
    (kind != Some(Kind::Heap)).then(|| Label::kind(stack.kind().name()))
}

/// `NAME/TID`, or the ID alone: only names of running threads are known, and that of the first.
fn thread(recording: &Recording, tid: u32) -> Label {
    let header = &recording.snapshot.header;
    let of_running = recording.running.and_then(|pid| thread_name(pid, tid));
    let name = of_running.or_else(|| (tid == header.pid).then(|| header.comm.clone()));
    Label::thread(name.map_or_else(|| tid.to_string(), |name| format!("{name}/{tid}")).into())
}

/// Returns the name of a running thread.
pub fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let name = text::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Key of the label with the stack's number.
const STACK_NUMBER: &str = "ramson.stack";

/// The label of a stack's number.
pub fn numbered(number: usize) -> Label {
    let value = LabelValue::Number { value: number as i64, unit: "".into() };
    Label { key: STACK_NUMBER.into(), value }
}

/// Index into `Snapshot::stacks` of a sample of a profile with this detail.
pub fn stack_number(sample: &StackSample) -> Option<usize> {
    match sample.labels.iter().find(|label| &*label.key == STACK_NUMBER)?.value {
        LabelValue::Number { value, .. } => usize::try_from(value).ok(),
        LabelValue::Text(_) => None,
    }
}

/// The frames of a stack as `name:line` in short, leaf first.
pub fn short_frames<'a>(
    table: &'a FrameTable,
    sample: &'a StackSample,
) -> impl Iterator<Item = String> + 'a {
    table.stack(sample).map(|at| table.name_at(at).short())
}

/// Readers of pprof files take the first mapping for the program itself.
fn put_executable_first(profile: &mut Profile, recording: &Recording) {
    let is_own = |mapping: &Mapping| mapping.path == recording.snapshot.header.exe;
    for own in profile.mappings.iter_mut().filter(|mapping| is_own(mapping)) {
        own.started_as = recording.name().to_owned();
    }
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

pub(crate) fn mapping(mapping: &ramson_reader::Mapping) -> Mapping {
    Mapping {
        start: mapping.start,
        end: mapping.end,
        file_offset: mapping.file_offset,
        bias: mapping.bias,
        path: mapping.path.clone(),
        build_id: mapping.build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        ..Mapping::default()
    }
}

/// Distinct code addresses. An address counts once per mapping that was there.
#[derive(Default)]
struct Locations {
    list: Vec<Location>,
    known: HashMap<(LookupAddress, Option<usize>), u32>,
}

impl Locations {
    /// The locations of a stack, leaf first.
    fn of(&mut self, snapshot: &Snapshot, stack: usize) -> Vec<u32> {
        let stack = &snapshot.stacks[stack];
        let index = |&address| {
            let mapping = snapshot.mapping_at(address, stack.epoch);
            *self.known.entry((address, mapping)).or_insert_with(|| {
                self.list.push(Location { mapping, address, lines: Vec::new(), offset: None });
                self.list.len() as u32 - 1
            })
        };
        stack.frames.iter().map(index).collect()
    }
}
