//! The messages of pprof's `profile.proto`, with the fields that ramson reads or writes. Names and numbers are the
//! format's; `i64` fields called a string are positions in `string_table`.

/// A whole profile.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Profile {
    /// The type of each of a sample's values.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// One per stack.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// The first is the main binary.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Code addresses.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// The first is empty.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// String: full-match regexp of frames to cut off, with everything they called.
    #[prost(int64, tag = "7")]
    pub drop_frames: i64,
    /// String: full-match regexp of exceptions to `drop_frames`.
    #[prost(int64, tag = "8")]
    pub keep_frames: i64,
    /// When the profile was taken: nanoseconds since 1970.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// Nanoseconds covered.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// The type of `period`.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// The sampling interval: mean bytes between samples.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// String: name of the sample type to show first.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// Name and unit of a value.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ValueType {
    /// String: `inuse_space` and the like.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// String: `count` or `bytes`.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A stack and its values.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Sample {
    /// `Location::id`, leaf first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// Weighted, in the units and the order of `Profile::sample_type`; negative in a diff.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// One per key.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A note on a sample: a text or a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Label {
    /// String.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// String; 0 if the label is a number.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// In `num_unit`.
    #[prost(int64, tag = "3")]
    pub num: i64,
    /// String.
    #[prost(int64, tag = "4")]
    pub num_unit: i64,
}

/// A file-backed executable range.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Mapping {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// First runtime address.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// One past the last runtime address.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// Bytes from the start of the file to what is at `memory_start`.
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    /// String: path.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// String: lower-case hex.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// Whether functions were looked up; if not, the reader may do so.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// Whether source files were looked up.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Whether line numbers were looked up.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// Whether inlined frames were expanded.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A code address.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Location {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// `Mapping::id`; 0 for none.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// Runtime lookup address: return address − 1 for a caller.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// Innermost inlined frame first.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// A source position.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Line {
    /// `Function::id`.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// 1-based; 0 if unknown.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Function {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// String: demangled, with parameters.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// String: as in the symbol table.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// String: source file.
    #[prost(int64, tag = "4")]
    pub filename: i64,
}
