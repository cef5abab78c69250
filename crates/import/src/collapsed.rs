//! Collapsed stacks: `root;child;leaf 123`, one stack a line, read line by line. The format does not say what the
//! numbers count; they are taken for live bytes.

use crate::build::{Builder, UNKNOWN};
use crate::defect::ImportError;
use crate::format::Format;
use crate::import::{DropFrames, Imported};
use crate::input::{Input, Stop};
use memchr::memchr_iter;
use ramson_profile::{Estimate, SampleType};

/// Stack and value of a line; `None` if it is not one.
pub fn split(line: &[u8]) -> Option<(&[u8], f64)> {
    let line = line.trim_ascii_end();
    let space = line.iter().rposition(|&byte| byte == b' ' || byte == b'\t')?;
    let stack = line[..space].trim_ascii_end();
    let value = str::from_utf8(&line[space + 1..]).ok()?.parse().ok();
    let value = value.filter(|value: &f64| value.is_finite())?;
    (!stack.is_empty()).then_some((stack, value))
}

pub fn read(input: &mut Input) -> Result<Imported, ImportError> {
    let mut builder = Builder::default();
    let mut stack = Vec::new();
    input.each_line(|input, line| match split(line) {
        Some((_, 0.0)) => Ok(()),
        Some((frames, value)) => add(&mut builder, input, frames, value, &mut stack),
        None if line.trim_ascii().is_empty() || line.starts_with(b"#") => Ok(()),
        None => Err(Stop::BadLine),
    })?;
    Ok(Imported {
        profile: builder.profile,
        format: Format::Collapsed,
        sample_types: vec![SampleType::InuseSpace],
        default_sample_type: SampleType::InuseSpace,
        drop_frames: DropFrames::Nothing,
        defects: Vec::new(),
    })
}

fn add(
    builder: &mut Builder,
    input: &mut Input,
    frames: &[u8],
    value: f64,
    stack: &mut Vec<u32>,
) -> Result<(), Stop> {
    stack.clear();
    let mut start = 0;
    for end in memchr_iter(b';', frames).chain([frames.len()]) {
        let name = frames[start..end].trim_ascii();
        start = end + 1;
        if !name.is_empty() {
            let name = String::from_utf8_lossy(name);
            stack.push(builder.location_named(input, &name)?);
        }
    }
    stack.reverse();
    let live = Estimate::new(value, f64::NAN);
    builder.add(input, stack, [UNKNOWN, UNKNOWN, UNKNOWN, live])
}
