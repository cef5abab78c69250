//! The one model that every input becomes and every output comes from: stacks × four sample types, with the
//! uncertainty of each value, plus the mappings and functions that give the stacks their names.
//!
//! `model` says what a profile is, `labels` what else a sample may tell, `estimate` how certain its numbers are, `frames`
//! what a code address is called, `drop_frames` which frames are the allocator's, `own_frames` which are the program's, `excess` what only
//! a made-up profile has. `filter` (with `pattern` and `tag_filter`) makes a profile smaller, `merge` makes one of several, `diff` compares
//! two. `view` is what the tables of `report` contain, `stacks` how trees and sorted lists come about, `pprof` the messages of that
//! format, `format` how numbers are written, `invisible` which characters of a name are shown escaped, and `processors` does two things
//! at once.
#![forbid(unsafe_code)]

mod diff;
mod drop_frames;
mod estimate;
mod excess;
mod filter;
pub mod format;
mod frames;
mod labels;
mod language;
mod merge;
mod model;
mod own_frames;
mod pattern;
pub mod pprof;
mod printable;
mod processors;
mod short_name;
mod stacks;
mod tag_filter;
pub mod view;

pub use diff::{Diff, DiffRow, DiffTable};
pub use drop_frames::{DROP_FRAMES, drop_allocator_frames, drop_frames, show_as_runtime_pprof};
pub use estimate::{Calibration, Estimate, NORMAL_QUANTILE_975, SampleUnit, sampling_probability};
pub use excess::{Excess, MOST_NAME_BYTES, beginning, cut_excess};
pub use filter::{Filters, Step};
pub use frames::{
    FrameAt, FrameId, FrameName, FrameTable, Granularity, NO_MAPPING, STACKS_NOT_RECORDED,
};
pub use labels::{BLOCK_SIZE, KIND, LANGUAGE, Label, LabelValue, THREAD};
pub use language::{CompiledFunction, Language};
pub use merge::{DifferentTypes, merge, merge_equal_samples};
pub use model::{BrokenIndex, Function, Line, Location, Mapping, Profile, SampleType, StackSample};
pub use own_frames::OwnFrames;
pub use pattern::{BadPattern, Pattern};
pub use printable::{is_printable, printable, push_printable};
pub use ramson_format::{LookupAddress, ReturnAddress};
pub use short_name::{fold_addresses, is_address, short_name};
pub use stacks::{Group, Stacks};
pub use tag_filter::TagFilter;
