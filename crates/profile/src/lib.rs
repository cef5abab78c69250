//! The one model that every input becomes and every output comes from: stacks × four sample types, with the
//! uncertainty of each value, plus the mappings and functions that give the stacks their names.
//!
//! `model` says what a profile is, `estimate` how certain its numbers are, `frames` what a code address is called,
//! `drop_frames` which frames are the allocator's, `view` what the tables of `report` contain, and `format` how numbers
//! are written.
#![forbid(unsafe_code)]

mod drop_frames;
mod estimate;
pub mod format;
mod frames;
mod model;
pub mod view;

pub use drop_frames::{DROP_FRAMES, drop_allocator_frames};
pub use estimate::{Estimate, SampleUnit, sampling_probability};
pub use frames::{FrameAt, FrameId, FrameName, FrameTable, STACKS_NOT_RECORDED};
pub use model::{BrokenIndex, Function, Line, Location, Mapping, Profile, SampleType, StackSample};
pub use regex::Regex;
