//! Profiles of other tools: what they are called, what is said of them, and what of theirs has to be worked out here.

use crate::failure::Failure;
use object::read::ReadCache;
use object::{Object, ObjectSegment};
use ramson_import::{ACCEPTED, DropFrames, Format, ImportError, Imported, Moment};
use ramson_profile::format::{format_bytes, format_objects, format_relative_error};
use ramson_profile::{Estimate, Mapping, Profile, SampleType, drop_allocator_frames, drop_frames};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A foreign profile without its stacks, and with them until they are taken out.
pub struct Foreign {
    /// File, address or `standard input`.
    pub origin: String,
    pub profile: Profile,
    pub defects: Vec<ramson_import::Defect>,
    format: Format,
    sample_types: Vec<SampleType>,
    default_sample_type: SampleType,
    drop_frames: DropFrames,
}

/// Reads a foreign profile from a pipe or the like.
pub fn open(origin: &str, stream: impl Read, moment: Moment) -> Result<Foreign, Failure> {
    taken(origin, ramson_import::import(stream, moment), moment)
}

/// Reads a regular file.
pub fn open_file(origin: &str, file: File, moment: Moment) -> Result<Foreign, Failure> {
    taken(origin, ramson_import::import_file(file, moment), moment)
}

fn taken(
    origin: &str,
    imported: Result<Imported, ImportError>,
    moment: Moment,
) -> Result<Foreign, Failure> {
    let imported = imported.map_err(|error| unreadable(origin, &error))?;
    if moment == Moment::Peak && imported.format != Format::Heaptrack {
        return Err(Failure::usage(format!(
            "{origin}@peak: a {} file holds one moment only. Pass {origin}",
            imported.format
        )));
    }
    Ok(Foreign {
        origin: origin.to_owned(),
        profile: imported.profile,
        defects: imported.defects,
        format: imported.format,
        sample_types: imported.sample_types,
        default_sample_type: imported.default_sample_type,
        drop_frames: imported.drop_frames,
    })
}

fn unreadable(origin: &str, error: &ImportError) -> Failure {
    let next = match error {
        ImportError::Io(_) => "Check that it can be read".to_owned(),
        ImportError::Empty | ImportError::Unrecognized(_) => {
            format!("Pass a ramson profile (\"ramson run ./prog\" creates one), {ACCEPTED}")
        }
        ImportError::NotAHeapProfile(_) => "Pass a heap profile".to_owned(),
        ImportError::Nothing(_) => "Take the profile again".to_owned(),
        ImportError::RawHeaptrack => "Interpret it first: heaptrack --interpret FILE".to_owned(),
        ImportError::HeaptrackVersion(_) => {
            "Convert it with heaptrack_print --print-flamegraph".to_owned()
        }
    };
    Failure::failed(format!("{origin}: {error}. {next}"))
}

impl Foreign {
    /// What to count: what was asked for, if the file counts it.
    pub fn sample_type(&self, asked: Option<SampleType>) -> Result<SampleType, Failure> {
        let wanted = asked.unwrap_or(self.default_sample_type);
        if self.sample_types.contains(&wanted) {
            return Ok(wanted);
        }
        let there: Vec<&str> = self.sample_types.iter().map(|there| there.name()).collect();
        Err(Failure::usage(format!(
            "{}: it does not count {wanted}. Pass --sample-index {}",
            self.origin,
            there.join(" or ")
        )))
    }

    /// A foreign file does not say what its recording cost.
    pub fn no_health(&self) -> Failure {
        Failure::usage(format!(
            "{}: a {} file says nothing of how it was recorded. Pass another --view",
            self.origin, self.format
        ))
    }

    /// Frees need a ring of them.
    pub fn no_frees(&self) -> Failure {
        Failure::usage(format!(
            "{}: a {} file does not say who freed a block. Pass a profile that ramson made",
            self.origin, self.format
        ))
    }

    /// Ages need samples with their times.
    pub fn no_ages(&self) -> Failure {
        Failure::usage(format!(
            "{}: a {} file does not say how old its blocks are. Pass a profile that ramson made; \"ramson diff\" compares others",
            self.origin, self.format
        ))
    }

    /// Cuts off the frames that the format, or the file itself, wants cut off.
    pub fn drop_frames(&self, profile: &mut Profile) {
        match &self.drop_frames {
            DropFrames::Allocators => drop_allocator_frames(profile),
            DropFrames::Named { drop, keep } => drop_frames(profile, |name| {
                drop.is_match(name) && !keep.as_ref().is_some_and(|keep| keep.is_match(name))
            }),
            DropFrames::Nothing => {}
        }
    }

    /// What the profile is of, and what it does not hold.
    pub fn heading(&self, profile: &Profile) -> String {
        let live = profile.total(SampleType::InuseSpace);
        let mut out = format!("RSS unknown, a {} file does not say", self.format);
        if self.sample_types.contains(&SampleType::InuseSpace) {
            let _ = write!(out, "; live {}", with_error(live));
        }
        let _ = write!(out, "\n{}", self.origin);
        if !profile.command.is_empty() {
            let _ = write!(out, " ({})", profile.command);
        }
        let _ = match profile.interval_bytes {
            0 => write!(out, ": sampling unknown"),
            1 => write!(out, ": every allocation recorded"),
            interval => write!(out, ": interval {}", format_bytes(interval as f64)),
        };
        // Samples of one stack come as one, unless labels tell them apart.
        let is_labelled = profile.samples.iter().any(|sample| !sample.labels.is_empty());
        let by = if is_labelled { " by label" } else { "" };
        let count = profile.samples.len();
        let stacks = if count == 1 { "stack" } else { "stacks" };
        let _ = writeln!(out, ", {} {stacks}{by}", format_objects(count as f64));
        for defect in &self.defects {
            let _ = writeln!(out, "not complete: {defect}");
        }
        out.push('\n');
        out
    }

    /// The same as fields of an object.
    pub fn add_to(&self, object: &mut Value) {
        object["origin"] = json!(self.origin);
        object["format"] = json!(self.format.to_string());
        object["sample_types"] =
            self.sample_types.iter().map(|sample_type| json!(sample_type.name())).collect();
    }
}

fn with_error(live: Estimate) -> String {
    match live.variance.is_nan() {
        true => format_bytes(live.value),
        false => format!("{} ({})", format_bytes(live.value), format_relative_error(live)),
    }
}

/// Asks the binaries how their segments lie, for mappings whose locations have no names yet. Foreign formats tell where a file
/// was mapped, but not from which address in it. A copy of the binary in `sysroot` is asked rather than what is here.
pub fn find_biases(profile: &mut Profile, sysroot: Option<&Path>) {
    let mut is_asked = vec![false; profile.mappings.len()];
    for location in profile.locations.iter().filter(|location| location.lines.is_empty()) {
        if let Some(mapping) = location.mapping {
            is_asked[mapping] = true;
        }
    }
    let asked = profile.mappings.iter_mut().zip(is_asked).filter(|(_, is_asked)| *is_asked);
    for (mapping, _) in asked {
        let copy = sysroot.map(|root| root.join(mapping.path.trim_start_matches('/')));
        let paths = copy.into_iter().chain([PathBuf::from(&mapping.path)]);
        if let Some(bias) = paths.into_iter().find_map(|path| bias_of(mapping, &path)) {
            mapping.bias = bias;
        }
    }
}

fn bias_of(mapping: &Mapping, path: &Path) -> Option<u64> {
    // A path in a foreign file may name anything; only regular files are opened.
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let cache = ReadCache::new(File::open(path).ok().filter(|_| is_file)?);
    let binary = object::File::parse(&cache).ok()?;
    let segments = binary.segments().map(|segment| (segment.address(), segment.file_range()));
    let page = |offset: u64| offset & !0xfff;
    segments
        .filter(|&(_, (offset, bytes))| {
            page(offset) <= mapping.file_offset && mapping.file_offset < offset + bytes
        })
        .map(|(address, (offset, _))| {
            let mapped = address.wrapping_sub(offset).wrapping_add(mapping.file_offset);
            mapping.start.wrapping_sub(mapped)
        })
        .last()
}
