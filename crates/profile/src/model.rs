//! Parts of a heap profile: stacks with four values each, and the mappings, locations and functions that name
//! the stacks.

use crate::estimate::{Estimate, SampleUnit};
use crate::frames::Granularity;
use crate::labels::{KIND, Label, LabelValue};
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_format::LookupAddress;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The quantity that a value counts. The order is pprof's for heap profiles and never changes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, BorshSerialize, BorshDeserialize,
)]
pub enum SampleType {
    /// Objects allocated since the start.
    AllocObjects,
    /// Bytes allocated since the start.
    AllocSpace,
    /// Objects live now.
    InuseObjects,
    /// Bytes live now.
    InuseSpace,
}

/// A file-backed executable range of the process.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct Mapping {
    /// First runtime address.
    pub start: u64,
    /// One past the last runtime address.
    pub end: u64,
    /// Offset in the file of `start`.
    pub file_offset: u64,
    /// Runtime address − file address ("bias").
    pub bias: u64,
    /// Path as the process saw it; `[vdso]` and the like for the kernel's.
    pub path: String,
    /// Lower-case hex of the GNU build ID; empty if the binary has none.
    pub build_id: String,
    /// Name that the program was started as, if its file has another one; else empty.
    pub started_as: String,
}

/// One code address, and the source lines it stands for once it is symbolized.
#[derive(Clone, Debug, PartialEq)]
pub struct Location {
    /// Index into `Profile::mappings`; `None` for code outside every mapping (JIT).
    pub mapping: Option<usize>,
    /// In the process; 0 where a format has names only.
    pub address: LookupAddress,
    /// Inlined frames innermost first; empty until symbolized, and where there is no name.
    pub lines: Vec<Line>,
    /// Offset of the address in the function that the symbol table has there, in bytes; `None` if unknown.
    pub offset: Option<u32>,
}

/// One source position inside a location.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// Index into `Profile::functions`.
    pub function: usize,
    /// 1-based; 0 if unknown.
    pub line: u32,
}

/// A function as named by symbols.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// Demangled, with parameters.
    pub name: Arc<str>,
    /// As in the symbol table (mangled).
    pub system_name: Arc<str>,
    /// Source file; empty if unknown.
    pub file: Arc<str>,
}

/// The four estimates of one stack (or of that part of it that has the same labels), indexed by `SampleType as usize`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StackSample {
    /// Indices into `Profile::locations`, leaf first. Empty: the overflow stack (bytes that could not be attributed). Four bytes
    /// each: with a million stacks they are most of a profile.
    pub locations: Vec<u32>,
    /// In the order of `SampleType`.
    pub values: [Estimate; 4],
    /// Further facts about these allocations. Samples of one stack with different labels are different samples.
    /// Shared: profiles have few distinct sets.
    pub labels: Arc<[Label]>,
}

/// A heap profile: symbolized or not, whole or a diff.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Mean bytes between samples when the profile was taken.
    pub interval_bytes: u64,
    /// When the process (or the first sample) started; nanoseconds since 1970, 0 if unknown.
    pub start_unix_ns: u64,
    /// When the state was taken; nanoseconds since 1970, 0 if unknown.
    pub time_unix_ns: u64,
    /// Command name, for headings. May be empty.
    pub command: String,
    /// Executable ranges.
    pub mappings: Vec<Mapping>,
    /// Code addresses.
    pub locations: Vec<Location>,
    /// Functions named by `locations`.
    pub functions: Vec<Function>,
    /// One entry per distinct stack and labels.
    pub samples: Vec<StackSample>,
    /// The code that counts as one frame in views and text formats.
    pub granularity: Granularity,
}

/// Its name.
impl Serialize for SampleType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for SampleType {
    fn schema_name() -> Cow<'static, str> {
        "SampleType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": SampleType::ALL.map(SampleType::name) })
    }
}

impl SampleType {
    /// All four, in the order of `StackSample::values`.
    pub const ALL: [SampleType; 4] = [
        SampleType::AllocObjects,
        SampleType::AllocSpace,
        SampleType::InuseObjects,
        SampleType::InuseSpace,
    ];

    /// Returns pprof's name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            SampleType::AllocObjects => "alloc_objects",
            SampleType::AllocSpace => "alloc_space",
            SampleType::InuseObjects => "inuse_objects",
            SampleType::InuseSpace => "inuse_space",
        }
    }

    /// Returns the word for people, as in `--count`.
    pub fn word(self) -> &'static str {
        match self {
            SampleType::AllocObjects => "allocations",
            SampleType::AllocSpace => "allocated",
            SampleType::InuseObjects => "live-objects",
            SampleType::InuseSpace => "live",
        }
    }

    /// Returns the sample type of that pprof name or word; `None` for any other text.
    pub fn from_name(name: &str) -> Option<SampleType> {
        SampleType::ALL.into_iter().find(|of| of.name() == name || of.word() == name)
    }

    /// The unit of the value.
    pub fn unit(self) -> SampleUnit {
        match self {
            SampleType::AllocObjects | SampleType::InuseObjects => SampleUnit::Objects,
            SampleType::AllocSpace | SampleType::InuseSpace => SampleUnit::Bytes,
        }
    }

    /// The type that counts the bytes of the same allocations: itself, or the bytes beside the objects.
    pub fn space(self) -> SampleType {
        match self {
            SampleType::AllocObjects | SampleType::AllocSpace => SampleType::AllocSpace,
            SampleType::InuseObjects | SampleType::InuseSpace => SampleType::InuseSpace,
        }
    }

    /// The type that counts the objects of the same allocations: itself, or the objects beside the bytes.
    pub fn objects(self) -> SampleType {
        match self {
            SampleType::AllocObjects | SampleType::AllocSpace => SampleType::AllocObjects,
            SampleType::InuseObjects | SampleType::InuseSpace => SampleType::InuseObjects,
        }
    }
}

impl fmt::Display for SampleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Mapping {
    /// Name in tables: the one that the program was started as, or the file's.
    pub fn shown_name(&self) -> &str {
        if self.started_as.is_empty() { self.basename() } else { &self.started_as }
    }

    /// Last component of `path`.
    pub fn basename(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

impl StackSample {
    /// The kind of memory, as its label says.
    pub fn kind(&self) -> Option<&str> {
        let label = self.labels.iter().find(|label| &*label.key == KIND)?;
        match &label.value {
            LabelValue::Text(name) => Some(name),
            LabelValue::Number { .. } => None,
        }
    }

    /// The estimate of one sample type.
    pub fn value(&self, sample_type: SampleType) -> Estimate {
        self.values[sample_type as usize]
    }
}

/// An index in a profile that points past the end of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenIndex {
    /// `samples[sample]` names a location that does not exist.
    SampleLocation {
        /// Index into `Profile::samples`.
        sample: usize,
    },
    /// `locations[location]` names a mapping that does not exist.
    LocationMapping {
        /// Index into `Profile::locations`.
        location: usize,
    },
    /// `locations[location]` names a function that does not exist.
    LocationFunction {
        /// Index into `Profile::locations`.
        location: usize,
    },
}

impl fmt::Display for BrokenIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrokenIndex::SampleLocation { sample } => {
                write!(f, "sample {sample} names a location that does not exist")
            }
            BrokenIndex::LocationMapping { location } => {
                write!(f, "location {location} names a mapping that does not exist")
            }
            BrokenIndex::LocationFunction { location } => {
                write!(f, "location {location} names a function that does not exist")
            }
        }
    }
}

impl std::error::Error for BrokenIndex {}

impl Profile {
    /// Sum over all stacks.
    pub fn total(&self, sample_type: SampleType) -> Estimate {
        self.samples.iter().map(|sample| sample.value(sample_type)).sum()
    }

    /// Whether every index points into its table. Views and encoders panic on a profile that fails this, so whoever
    /// builds one from foreign bytes asks first.
    pub fn check_indices(&self) -> Result<(), BrokenIndex> {
        for (index, location) in self.locations.iter().enumerate() {
            if location.mapping.is_some_and(|mapping| mapping >= self.mappings.len()) {
                return Err(BrokenIndex::LocationMapping { location: index });
            }
            if location.lines.iter().any(|line| line.function >= self.functions.len()) {
                return Err(BrokenIndex::LocationFunction { location: index });
            }
        }
        for (index, sample) in self.samples.iter().enumerate() {
            if sample.locations.iter().any(|&location| location as usize >= self.locations.len()) {
                return Err(BrokenIndex::SampleLocation { sample: index });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_types_follow_pprof_order() {
        for (index, sample_type) in SampleType::ALL.into_iter().enumerate() {
            assert_eq!(sample_type as usize, index);
            assert_eq!(SampleType::from_name(sample_type.name()), Some(sample_type));
            assert_eq!(SampleType::from_name(sample_type.word()), Some(sample_type));
        }
        assert_eq!(SampleType::from_name("space"), None);
    }

    #[test]
    fn broken_index_is_named() {
        let mut profile = Profile {
            locations: vec![Location {
                mapping: None,
                address: LookupAddress(1),
                lines: vec![],
                offset: None,
            }],
            samples: vec![StackSample { locations: vec![0], ..StackSample::default() }],
            ..Profile::default()
        };
        assert_eq!(profile.check_indices(), Ok(()));
        profile.samples[0].locations[0] = 1;
        assert_eq!(profile.check_indices(), Err(BrokenIndex::SampleLocation { sample: 0 }));
        profile.locations[0].lines.push(Line { function: 0, line: 0 });
        assert_eq!(profile.check_indices(), Err(BrokenIndex::LocationFunction { location: 0 }));
        profile.locations[0].mapping = Some(0);
        assert_eq!(profile.check_indices(), Err(BrokenIndex::LocationMapping { location: 0 }));
    }
}
