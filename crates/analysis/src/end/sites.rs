//! Stacks that held the memory of a program that died of memory: the last words that an allocator would say.

use super::{Lack, cause_of, end_of, fate, rss_text};
use crate::extents::lost_text;
use crate::named::{Detail, numbered, short_frames, stack_number, unnamed};
use crate::naming;
use ramson_profile::format::{format_bytes, format_estimate, format_percent};
use ramson_profile::{
    FrameTable, Location, OwnFrames, Profile, SampleType, SampleUnit, StackSample,
    drop_allocator_frames, fold_addresses,
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
    /// Reads the last profile of a process that has ended.
    pub fn of(source: &Recording) -> Self {
        let mut profile = unnamed(source, Detail::Stacks, None);
        let mut symbolizer = Symbolizer::new(Options {
            carried: source.names.clone(),
            root: naming::other_root(source),
            named_by: naming::owner_of(source),
            cache_dir: places::symbol_cache(),
            ..Options::default()
        });
        naming::name(&mut profile, Some(source), &mut symbolizer);
        let names = naming::carried(&profile);
        if let Some(lack) = Lack::of(source) {
            profile.samples.push(sample_of_failure(&profile, source, lack.noted.stack));
        }
        drop_allocator_frames(&mut profile);
        OwnFrames::default().fold(&mut profile);
        Self { profile, names }
    }

    /// Returns the lines about the process; none unless it died of memory.
    pub fn lines(&self, source: &Recording) -> Vec<String> {
        if !cause_of(source).is_memory() {
            return Vec::new();
        }
        let live = self.profile.total(SampleType::InuseSpace);
        let mut lines = vec![format!(
            "{} (pid {}) {}: {}, live {}{}",
            source.name(),
            source.pid(),
            fate(source),
            rss_text(end_of(source).as_ref()),
            format_estimate(live, SampleUnit::Bytes),
            lost_text(&source.snapshot),
        )];
        let frames = FrameTable::new(&self.profile);
        let line = |bytes: f64, word: &str, sample: &StackSample| {
            format!("{:>10} {word:>7}  {}", format_bytes(bytes), stack_text(&frames, sample))
        };
        let samples = &self.profile.samples;
        if let Some(lack) = Lack::of(source)
            && let Some(sample) = samples.iter().find(|sample| stack_number(sample).is_some())
        {
            let word = if lack.is_at_abort { "refused" } else { "failed" };
            lines.push(line(lack.noted.size as f64, word, sample));
        }
        let bytes = |sample: &StackSample| sample.value(SampleType::InuseSpace).value;
        let mut samples: Vec<_> = samples.iter().filter(|sample| bytes(sample) > 0.0).collect();
        samples.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)));
        for sample in samples.iter().take(MAX_LINES - lines.len()) {
            let share = format_percent(bytes(sample), live.value).replace(' ', "");
            lines.push(line(bytes(sample), &share, sample));
        }
        lines
    }
}

/// Nothing was allocated there, so the profile has the addresses but no sample. This one has no value; its number tells it
/// from the others.
fn sample_of_failure(profile: &Profile, source: &Recording, number: usize) -> StackSample {
    let snapshot = &source.snapshot;
    let stack = &snapshot.stacks[number];
    let location = |&address: &ramson_reader::LookupAddress| {
        let mapping = snapshot.mapping_at(address, stack.epoch);
        let is_it = |known: &Location| known.address == address && known.mapping == mapping;
        profile.locations.iter().position(is_it).map(|index| index as u32)
    };
    StackSample {
        locations: stack.frames.iter().filter_map(location).collect(),
        labels: [numbered(number)].into(),
        ..StackSample::default()
    }
}

/// Names the frames up to main, because the callers of main are the same in every program.
fn stack_text(frames: &FrameTable, sample: &StackSample) -> String {
    let mut shown = fold_addresses(short_frames(frames, sample).take(MAX_FRAMES));
    let is_main = |frame: &String| frame == "main" || frame.starts_with("main:");
    if let Some(main) = shown.iter().position(is_main) {
        shown.truncate(main + 1);
    }
    shown.join(" ← ")
}
