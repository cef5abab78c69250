//! The one model that every input becomes and every output comes from: stacks × four sample types, with the
//! uncertainty of each value, plus the mappings and functions that give the stacks their names.
#![forbid(unsafe_code)]

use std::sync::Arc;

/// A number that was estimated from samples: the Horvitz–Thompson sum and the variance of that sum.
/// The derivation is in `docs/sampling.md`. Units are those of the sample type (bytes or objects).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Unbiased estimate. Negative only in a diff.
    pub value: f64,
    /// Estimated variance of `value`, in squared units; 0 where every allocation was recorded.
    pub variance: f64,
}

/// What a value counts. The order is pprof's for heap profiles and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
#[derive(Clone, Debug, PartialEq)]
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
}

/// One code address, and the source lines it stands for once it is symbolized.
#[derive(Clone, Debug, PartialEq)]
pub struct Location {
    /// Index into `Profile::mappings`; `None` for code outside every mapping (JIT).
    pub mapping: Option<usize>,
    /// Runtime lookup address: return address − 1 for a caller.
    pub address: u64,
    /// Inlined frames innermost first; empty until symbolized, and where there is no name.
    pub lines: Vec<Line>,
}

/// One source position inside a location.
#[derive(Clone, Debug, PartialEq)]
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

/// The four estimates of one stack, indexed by `SampleType as usize`.
#[derive(Clone, Debug, PartialEq)]
pub struct StackSample {
    /// Indices into `Profile::locations`, leaf first. Empty: the overflow stack (bytes that could not be attributed).
    pub locations: Vec<usize>,
    /// In the order of `SampleType`.
    pub values: [Estimate; 4],
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
    /// One entry per distinct stack.
    pub samples: Vec<StackSample>,
}
