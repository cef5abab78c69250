//! Where a program that died of memory had it: the last words that an allocator would say.

use super::lack::Lack;
use super::{cause_of, end_of, fate, rss_text};
use crate::named::{Detail, unnamed};
use crate::naming;
use ramson_profile::format::{format_percent, format_relative_error, format_value};
use ramson_profile::is_library_function;
use ramson_profile::short_name;
use ramson_profile::{
    FrameTable, Label, LabelValue, Location, LookupAddress, Profile, SampleType, SampleUnit,
    StackSample, drop_allocator_frames,
};
use ramson_source::Recording;
use ramson_source::places;
use ramson_symbols::{CarriedNames, Options, Symbolizer};

/// With the line that says where the profile is, five.
const MAX_LINES: usize = 4;
const MAX_FRAMES: usize = 5;

/// A dead process's profile with names. No server is asked: the program's caller waits for its status.
pub struct LastProfile {
    profile: Profile,
    /// The same names for keeping in the file.
    pub names: CarriedNames,
}

impl LastProfile {
    /// Of a process that has ended.
    pub fn of(source: &Recording) -> Self {
        let mut profile = unnamed(source, Detail::Stacks, None);
        let mut symbolizer = Symbolizer::new(Options {
            debug_paths: Vec::new(),
            sysroot: None,
            servers: None,
            carried: source.names.clone(),
            cache_dir: places::symbol_cache(),
        });
        naming::name(&mut profile, Some(source), &mut symbolizer);
        let names = naming::carried(&profile);
        if let Some((_, noted)) = Lack::of(source) {
            profile.samples.push(sample_of_failure(&profile, source, noted.stack));
        }
        drop_allocator_frames(&mut profile);
        Self { profile, names }
    }

    /// What to say of it; nothing unless it died of memory.
    pub fn lines(&self, source: &Recording) -> Vec<String> {
        if !cause_of(source).is_memory() {
            return Vec::new();
        }
        let live = self.profile.total(SampleType::InuseSpace);
        let unit = SampleUnit::Bytes;
        let mut lines = vec![format!(
            "{} (pid {}) {}: {}, live {} ({})",
            source.name(),
            source.pid(),
            fate(source),
            rss_text(end_of(source).as_ref()),
            format_value(live.value, unit),
            format_relative_error(live),
        )];
        let frames = FrameTable::new(&self.profile);
        if let Some((lack, _)) = Lack::of(source)
            && let Some(sample) = self.profile.samples.iter().find(|sample| is_of_failure(sample))
        {
            let (bytes, word) = lack.columns();
            lines.push(format!("{bytes:>10} {word:>7}  {}", stack_text(&frames, sample)));
        }
        let value = |sample: &StackSample| sample.value(SampleType::InuseSpace).value;
        let mut samples: Vec<&StackSample> =
            self.profile.samples.iter().filter(|sample| value(sample) > 0.0).collect();
        samples.sort_by(|a, b| value(b).total_cmp(&value(a)));
        for sample in samples.iter().take(MAX_LINES - lines.len()) {
            lines.push(format!(
                "{:>10} {:>7}  {}",
                format_value(value(sample), unit),
                format_percent(value(sample), live.value).replace(' ', ""),
                stack_text(&frames, sample),
            ));
        }
        lines
    }
}

/// Label of the sample without value that has the stack of the failed allocation.
const FAILED: &str = "ramson.failed";

fn is_of_failure(sample: &StackSample) -> bool {
    sample.labels.iter().any(|label| &*label.key == FAILED)
}

/// Nothing was allocated there, so the profile has the addresses but no sample.
fn sample_of_failure(profile: &Profile, source: &Recording, stack: usize) -> StackSample {
    let snapshot = &source.snapshot;
    let stack = &snapshot.stacks[stack];
    let location = |&at: &ramson_reader::LookupAddress| {
        let mapping = snapshot.mapping_at(at, stack.epoch);
        let address = LookupAddress(at.0);
        let is_it = |known: &Location| known.address == address && known.mapping == mapping;
        profile.locations.iter().position(is_it).map(|index| index as u32)
    };
    let value = LabelValue::Text("".into());
    StackSample {
        locations: stack.frames.iter().filter_map(location).collect(),
        values: Default::default(),
        labels: [Label { key: FAILED.into(), value }].into(),
    }
}

fn stack_text(frames: &FrameTable, sample: &StackSample) -> String {
    let mut shown = Vec::new();
    for at in frames.stack(sample) {
        let name = &*frames.name(at.frame).name;
        match at.line {
            _ if is_library_function(name) => continue,
            0 => shown.push(short_name(name)),
            line => shown.push(format!("{}:{line}", short_name(name))),
        }
        // What called main is the same in every program.
        if name == "main" || shown.len() == MAX_FRAMES {
            break;
        }
    }
    shown.join(" ← ")
}
