//! The messages of pprof's `profile.proto`, with the fields that ramson writes. Names and numbers are the format's;
//! `i64` fields called a string are positions in `string_table`.

/// A whole profile.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Profile {
    /// What each of a sample's values is.
    #[prost(message, repeated, tag = "1")]
    pub(super) sample_type: Vec<ValueType>,
    /// One per stack.
    #[prost(message, repeated, tag = "2")]
    pub(super) sample: Vec<Sample>,
    /// The first is the main binary.
    #[prost(message, repeated, tag = "3")]
    pub(super) mapping: Vec<Mapping>,
    /// Code addresses.
    #[prost(message, repeated, tag = "4")]
    pub(super) location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub(super) function: Vec<Function>,
    /// The first is empty.
    #[prost(string, repeated, tag = "6")]
    pub(super) string_table: Vec<String>,
    /// String: full-match regexp of frames to cut off, with everything they called.
    #[prost(int64, tag = "7")]
    pub(super) drop_frames: i64,
    /// String: full-match regexp of exceptions to `drop_frames`.
    #[prost(int64, tag = "8")]
    pub(super) keep_frames: i64,
    /// When the profile was taken: nanoseconds since 1970.
    #[prost(int64, tag = "9")]
    pub(super) time_nanos: i64,
    /// Nanoseconds covered.
    #[prost(int64, tag = "10")]
    pub(super) duration_nanos: i64,
    /// What `period` counts.
    #[prost(message, optional, tag = "11")]
    pub(super) period_type: Option<ValueType>,
    /// The sampling interval: mean bytes between samples.
    #[prost(int64, tag = "12")]
    pub(super) period: i64,
    /// Strings: free text.
    #[prost(int64, repeated, tag = "13")]
    pub(super) comment: Vec<i64>,
    /// String: name of the sample type to show first.
    #[prost(int64, tag = "14")]
    pub(super) default_sample_type: i64,
}

/// Name and unit of a value.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct ValueType {
    /// String: `inuse_space` and the like.
    #[prost(int64, tag = "1")]
    pub(super) r#type: i64,
    /// String: `count` or `bytes`.
    #[prost(int64, tag = "2")]
    pub(super) unit: i64,
}

/// A stack and its values.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Sample {
    /// `Location::id`, leaf first.
    #[prost(uint64, repeated, tag = "1")]
    pub(super) location_id: Vec<u64>,
    /// Weighted, in the units and the order of `Profile::sample_type`; negative in a diff.
    #[prost(int64, repeated, tag = "2")]
    pub(super) value: Vec<i64>,
    /// One per key.
    #[prost(message, repeated, tag = "3")]
    pub(super) label: Vec<Label>,
}

/// A note on a sample: a text or a number.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Label {
    /// String.
    #[prost(int64, tag = "1")]
    pub(super) key: i64,
    /// String; 0 if the label is a number.
    #[prost(int64, tag = "2")]
    pub(super) str: i64,
    /// In `num_unit`.
    #[prost(int64, tag = "3")]
    pub(super) num: i64,
    /// String.
    #[prost(int64, tag = "4")]
    pub(super) num_unit: i64,
}

/// A file-backed executable range.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Mapping {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    /// First runtime address.
    #[prost(uint64, tag = "2")]
    pub(super) memory_start: u64,
    /// One past the last runtime address.
    #[prost(uint64, tag = "3")]
    pub(super) memory_limit: u64,
    /// Bytes from the start of the file to what is at `memory_start`.
    #[prost(uint64, tag = "4")]
    pub(super) file_offset: u64,
    /// String: path.
    #[prost(int64, tag = "5")]
    pub(super) filename: i64,
    /// String: lower-case hex.
    #[prost(int64, tag = "6")]
    pub(super) build_id: i64,
    /// Whether functions were looked up; if not, the reader may do so.
    #[prost(bool, tag = "7")]
    pub(super) has_functions: bool,
    /// Whether source files were looked up.
    #[prost(bool, tag = "8")]
    pub(super) has_filenames: bool,
    /// Whether line numbers were looked up.
    #[prost(bool, tag = "9")]
    pub(super) has_line_numbers: bool,
    /// Whether inlined frames were expanded.
    #[prost(bool, tag = "10")]
    pub(super) has_inline_frames: bool,
}

/// A code address.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Location {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    /// `Mapping::id`; 0 for none.
    #[prost(uint64, tag = "2")]
    pub(super) mapping_id: u64,
    /// Runtime lookup address: return address − 1 for a caller.
    #[prost(uint64, tag = "3")]
    pub(super) address: u64,
    /// Innermost inlined frame first.
    #[prost(message, repeated, tag = "4")]
    pub(super) line: Vec<Line>,
}

/// A source position.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Line {
    /// `Function::id`.
    #[prost(uint64, tag = "1")]
    pub(super) function_id: u64,
    /// 1-based; 0 if unknown.
    #[prost(int64, tag = "2")]
    pub(super) line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Function {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    /// String: demangled, with parameters.
    #[prost(int64, tag = "2")]
    pub(super) name: i64,
    /// String: as in the symbol table.
    #[prost(int64, tag = "3")]
    pub(super) system_name: i64,
    /// String: source file.
    #[prost(int64, tag = "4")]
    pub(super) filename: i64,
    /// Line of the declaration, 1-based; 0 if unknown.
    #[prost(int64, tag = "5")]
    pub(super) start_line: i64,
}
