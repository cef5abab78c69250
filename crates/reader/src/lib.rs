//! The reader: makes an immutable snapshot of a profile file, whole or cut, of a process running or dead.
//!
//! It assumes that the other side is mid-write or hostile. It copies, checks, then uses the copy; it never writes, never maps,
//! and returns what it could read together with the list of what it could not.
#![forbid(unsafe_code)]

mod apart;
mod cost;
mod defect;
mod entries;
mod extents;
mod fields;
mod follow;
mod reading;
mod region;
mod serve;
mod settle;
mod snapshot;
mod source;
mod usable;

pub use apart::{Depth, Passed, is_whole, read_to_depth};
pub use defect::{Defect, ReadError};
pub use entries::{allocator_check, freed_check, live_check, mapping_check};
pub use fields::{Entry, Fields};
pub use follow::Follower;
pub use ramson_format::{End, LookupAddress, Way};
pub use reading::regions;
pub use serve::ProfileReader;
pub use snapshot::{
    Allocator, Counting, Extent, FailedAllocation, Freed, Header, LiveSample, Mapping, Snapshot,
    Stack, object_name,
};
pub use source::{MappedBytes, ProcessFiles, ProcessRange, ReadAt};
pub use usable::Roundings;
