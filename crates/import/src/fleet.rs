//! Stacks of a fleet as ClickHouse answers deploy/clickhouse/questions/profile.sql, in its format TabSeparatedWithNames: live objects and bytes
//! with their variances, then the functions, leaf first, one a line within their column.

use crate::build::{Builder, UNKNOWN};
use crate::defect::ImportError;
use crate::format::Format;
use crate::import::{DropFrames, Imported};
use crate::input::{Input, Stop};
use ramson_profile::{Estimate, SampleType};
use std::mem;

/// The first line.
pub const HEAD: &str =
    "live_objects\tlive_objects_variance\tlive_bytes\tlive_bytes_variance\tfunctions";

pub fn read(input: &mut Input) -> Result<Imported, ImportError> {
    let mut builder = Builder::default();
    let mut is_head = true;
    input.each_line(|input, line| {
        if mem::take(&mut is_head) {
            return Ok(());
        }
        let line = String::from_utf8_lossy(line);
        let mut columns = line.split('\t');
        let mut number = || {
            let number = columns.next().and_then(|text| text.parse().ok());
            number.filter(|it: &f64| it.is_finite() && *it >= 0.0).ok_or(Stop::BadLine)
        };
        let objects = Estimate::new(number()?, number()?);
        let bytes = Estimate::new(number()?, number()?);
        let functions = columns.next().ok_or(Stop::BadLine)?;
        let stack: Result<Vec<u32>, Stop> =
            lines(functions).iter().map(|name| builder.location_named(input, name)).collect();
        builder.add(input, &stack?, [UNKNOWN, UNKNOWN, objects, bytes])
    })?;
    Ok(Imported {
        profile: builder.profile,
        format: Format::Fleet,
        sample_types: vec![SampleType::InuseObjects, SampleType::InuseSpace],
        default_sample_type: SampleType::InuseSpace,
        drop_frames: DropFrames::Nothing,
        defects: Vec::new(),
    })
}

/// The lines of a column, without the backslashes that ClickHouse puts before some characters; without empty ones.
fn lines(column: &str) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    let mut characters = column.chars();
    while let Some(character) = characters.next() {
        let escaped = if character == '\\' { characters.next() } else { None };
        match escaped {
            Some('n') => lines.push(mem::take(&mut line)),
            Some('t') => line.push('\t'),
            _ => line.push(escaped.unwrap_or(character)),
        }
    }
    lines.push(line);
    lines.retain(|line| !line.is_empty());
    lines
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn backslashes_are_taken_away_once() {
        assert_eq!(lines("main\\nApp\\\\notify\\n\\ta\\'b"), ["main", "App\\notify", "\ta'b"]);
        assert!(lines("").is_empty());
    }
}
