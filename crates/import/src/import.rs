//! Result of reading a foreign profile: one profile of ramson's, and what the format says about it.

use crate::defect::ImportDefect;
use crate::format::Format;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_profile::{Pattern, Profile, SampleType};

/// Which moment of a recording `inuse` is about. Only heaptrack's files know more than one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InuseAt {
    /// When the recording ended.
    #[default]
    End,
    /// When most bytes were live.
    Peak,
}

/// Frames that a reader of the profile is meant to cut off at the leaf.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
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
    /// No frames.
    Nothing,
}

/// A foreign profile.
#[derive(Debug)]
pub struct Imported {
    /// The profile in ramson's form. Its indices are valid.
    pub profile: Profile,
    /// Format of the file.
    pub format: Format,
    /// Sample types that the file counts, in pprof's order; the other sample types are NaN.
    pub sample_types: Vec<SampleType>,
    /// Sample type to show first.
    pub default_sample_type: SampleType,
    /// Frames to cut off, once all have names.
    pub drop_frames: DropFrames,
    /// Parts that are missing.
    pub defects: Vec<ImportDefect>,
}
