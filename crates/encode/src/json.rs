//! A whole profile as one JSON object. Version 1: `"ramson": 1`. Fields may be added within a version; a change of
//! meaning makes a new one.
//!
//! Bytes and objects are integers, and every estimate is `{"value": int, "half_width_95": int}`: the true value lies
//! within value ± half_width_95 with 95% probability (0: counted, not estimated). null is unknown: a value that the
//! profile's source does not count, an interval where it does not say how it sampled. Times are nanoseconds since
//! 1970, 0 if unknown. A line of 0 and an empty file are unknown.
//!
//! `{"ramson", "kind": "profile", "command", "interval_bytes", "start_unix_ns", "time_unix_ns",
//! "totals": {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}, "stacks": [{"kind" ("heap" or "mmap";
//! absent: heap), "frames": [{"function", "file", "line"}], and the four estimates}]}`, frames leaf first, inlined frames
//! innermost first.

use ramson_profile::{Estimate, FrameTable, Profile, SampleType, StackSample, is_printable};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::ser::Formatter;
use std::io::{self, Write};

/// Version of all JSON objects.
pub const VERSION: u32 = 1;

/// Writes the profile as one object and a final newline.
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let object = ProfileObject {
        ramson: VERSION,
        kind: "profile",
        command: &profile.command,
        interval_bytes: profile.interval_bytes,
        start_unix_ns: profile.start_unix_ns,
        time_unix_ns: profile.time_unix_ns,
        totals: SampleType::ALL.map(|of| profile.total(of)),
        stacks: Stacks { frames: &FrameTable::new(profile), samples: &profile.samples },
    };
    write_line(&object, out)
}

/// An answer as a document of one line, with version and kind first; `None`: the kind is in the answer. Fields may be added within a version.
pub fn write_document(
    kind: Option<&str>,
    answer: &impl Serialize,
    out: &mut dyn Write,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct Document<'a, T> {
        ramson: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        kind: Option<&'a str>,
        #[serde(flatten)]
        answer: &'a T,
    }
    write_line(&Document { ramson: VERSION, kind, answer }, out)
}

/// Writes any object as a document of one line. Characters that would steer a terminal or that no reader sees are written like `\u202e`.
pub fn write_line(object: &impl Serialize, mut out: &mut dyn Write) -> io::Result<()> {
    object.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Escaped))?;
    out.write_all(b"\n")?;
    out.flush()
}

/// JSON's own escapes are enough for the characters below a space.
struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, found)) = rest.char_indices().find(|&(_, found)| !is_printable(found)) {
            out.write_all(&rest.as_bytes()[..at])?;
            for unit in found.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &rest[at + found.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

/// Returns the JSON schema of a profile.
pub fn schema(generator: &mut SchemaGenerator) -> Schema {
    ProfileObject::json_schema(generator)
}

/// The four sample types.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct ByType {
    alloc_objects: Estimate,
    alloc_space: Estimate,
    inuse_objects: Estimate,
    inuse_space: Estimate,
}

#[derive(Serialize, JsonSchema)]
struct ProfileObject<'a> {
    ramson: u32,
    kind: &'static str,
    command: &'a str,
    interval_bytes: u64,
    start_unix_ns: u64,
    time_unix_ns: u64,
    #[serde(serialize_with = "by_type")]
    #[schemars(with = "ByType")]
    totals: [Estimate; 4],
    #[schemars(with = "Vec<StackObject>")]
    stacks: Stacks<'a>,
}

/// Serialized one by one: a profile may have many stacks.
struct Stacks<'a> {
    frames: &'a FrameTable,
    samples: &'a [StackSample],
}

impl Serialize for Stacks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stack = |sample| {
            let frames = self.frames.stack(sample).map(|at| {
                let name = self.frames.name(at.frame);
                FrameObject { function: &name.name, file: &name.file, line: at.line }
            });
            StackObject { kind: sample.kind(), frames: frames.collect(), values: sample.values }
        };
        serializer.collect_seq(self.samples.iter().map(stack))
    }
}

#[derive(Serialize, JsonSchema)]
struct StackObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    frames: Vec<FrameObject<'a>>,
    #[serde(flatten, serialize_with = "by_type")]
    #[schemars(with = "ByType")]
    values: [Estimate; 4],
}

#[derive(Serialize, JsonSchema)]
struct FrameObject<'a> {
    function: &'a str,
    file: &'a str,
    line: u32,
}

fn by_type<S: Serializer>(values: &[Estimate; 4], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(SampleType::ALL.into_iter().zip(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_restored() {
        let text = "a\u{1b}\u{7f}\u{9b}\u{202e}\u{e0041}\"é日";
        let mut out = Vec::new();
        write_line(&[text], &mut out).unwrap();
        let written = String::from_utf8(out).unwrap();
        let escaped = r#"["a\u001b\u007f\u009b\u202e\udb40\udc41\"é日"]"#;
        assert_eq!(written.trim_end(), escaped);
        assert_eq!(serde_json::from_str::<Vec<String>>(&written).unwrap(), [text]);
    }
}
