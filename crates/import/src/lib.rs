//! Foreign heap profiles in: what other tools write becomes ramson's one `Profile`.
//!
//! `recognize` tells formats apart by their content, `input` unpacks (a large file `ahead` of its reader) and bounds what a
//! file may cost, `weight` says
//! what sampled numbers stand for, `build` joins names and stacks; `pprof`, `heap_text`, `heaptrack` and `collapsed`
//! are one format each. What each keeps and loses is in docs/formats.md.
//!
//! A reader returns what it could read and the list of defects. Values that a format does not have are NaN in the
//! profile, never 0; so is the variance where a format does not say how it sampled.
#![forbid(unsafe_code)]

mod ahead;
mod build;
mod collapsed;
mod defect;
mod heap_text;
mod heaptrack;
mod input;
mod pprof;
mod recognize;
mod weight;

pub use defect::{Defect, ImportError};
pub use input::{BYTES_PER_BYTE, BYTES_PER_PACKED_BYTE, FREE_BYTES, MOST_EXPANSION};
pub use recognize::{ACCEPTED, Format, looks_like};

use input::Input;
use ramson_profile::{Pattern, Profile, SampleType};
use std::fs::File;
use std::io::Read;

/// Which moment of a recording `inuse` is about. Only heaptrack's files know more than one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moment {
    /// When the recording ended.
    #[default]
    End,
    /// When most bytes were live.
    Peak,
}

/// Frames that a reader of the profile is meant to cut off at the leaf.
#[derive(Clone, Debug)]
pub enum DropFrames {
    /// The allocator's, by ramson's own list: the format does not say.
    Allocators,
    /// Those that the file names.
    Named {
        /// Full-match expression of functions to drop with all they called.
        drop: Pattern,
        /// Full-match expression of exceptions.
        keep: Option<Pattern>,
    },
    /// None.
    Nothing,
}

/// A foreign profile.
#[derive(Debug)]
pub struct Imported {
    /// What it became. Its indices are valid.
    pub profile: Profile,
    /// What it was.
    pub format: Format,
    /// What it counts, in pprof's order; the other sample types are NaN.
    pub sample_types: Vec<SampleType>,
    /// What to show first.
    pub default_sample_type: SampleType,
    /// Frames to cut off, once all have names.
    pub drop_frames: DropFrames,
    /// What is missing.
    pub defects: Vec<Defect>,
}

/// Reads a foreign profile of any known format, packed with gzip, zstd or not at all.
pub fn import(source: impl Read, moment: Moment) -> Result<Imported, ImportError> {
    read(Input::new(source).map_err(ImportError::Io)?, moment)
}

/// The same from the start of a regular file, with two threads where it is large and packed.
pub fn import_file(file: File, moment: Moment) -> Result<Imported, ImportError> {
    read(Input::of_file(file).map_err(ImportError::Io)?, moment)
}

fn read(mut input: Input, moment: Moment) -> Result<Imported, ImportError> {
    let format = recognize::recognize(&mut input)?;
    let mut imported = match format {
        Format::Pprof => pprof::read(&mut input)?,
        Format::Jemalloc => heap_text::read_jemalloc(&mut input)?,
        Format::Gperftools => heap_text::read_gperftools(&mut input)?,
        Format::Heaptrack => heaptrack::read(&mut input, moment)?,
        Format::Collapsed => collapsed::read(&mut input)?,
    };
    let mut defects = input.into_defects();
    if imported.profile.samples.is_empty() && !defects.is_empty() {
        return Err(ImportError::Nothing(defects.into_iter().next()));
    }
    defects.append(&mut imported.defects);
    imported.defects = defects;
    Ok(imported)
}
