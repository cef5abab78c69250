//! Profiles of other tools: what they are called, what is said of them, and what of theirs has to be worked out here.

use crate::failure::Failure;
use ramson_import::{ACCEPTED, DropFrames, Format, ImportError, Imported, InuseAt};
use ramson_profile::{Profile, SampleType, drop_allocator_frames, drop_frames};
use std::fs::File;
use std::io::Read;

/// A foreign profile without its stacks, and with them until they are taken out.
pub struct Foreign {
    /// File, address or `standard input`.
    pub origin: String,
    /// With its stacks until they are taken out.
    pub profile: Profile,
    /// What the reader could not read.
    pub defects: Vec<ramson_import::ImportDefect>,
    /// What wrote it.
    pub format: Format,
    /// What it counts.
    pub sample_types: Vec<SampleType>,
    default_sample_type: SampleType,
    drop_frames: DropFrames,
}

/// Reads a foreign profile from a pipe or the like.
pub fn open(origin: &str, stream: impl Read, inuse_at: InuseAt) -> Result<Foreign, Failure> {
    taken(origin, ramson_import::import(stream, inuse_at), inuse_at)
}

/// Reads a regular file.
pub fn open_file(origin: &str, file: File, inuse_at: InuseAt) -> Result<Foreign, Failure> {
    taken(origin, ramson_import::import_file(file, inuse_at), inuse_at)
}

fn taken(
    origin: &str,
    imported: Result<Imported, ImportError>,
    inuse_at: InuseAt,
) -> Result<Foreign, Failure> {
    let imported = imported.map_err(|error| unreadable(origin, &error))?;
    if inuse_at == InuseAt::Peak && imported.format != Format::Heaptrack {
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
}
