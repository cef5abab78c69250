//! Stacks of a fleet as ClickHouse answers deploy/clickhouse/questions/profile.sql, in its format TabSeparatedWithNames: live objects and bytes
//! with their variances, then the functions, leaf first, one a line within their column.

use crate::build::{Builder, UNKNOWN};
use crate::defect::ImportError;
use crate::format::Format;
use crate::import::{DropFrames, Imported};
use crate::input::{Input, Stop};
use ramson_profile::{Estimate, SampleType};

/// The first line.
pub const HEAD: &str =
    "live_objects\tlive_objects_variance\tlive_bytes\tlive_bytes_variance\tfunctions";
/// A line feed in a column.
const LINE_FEED: &str = "\\n";

pub fn read(input: &mut Input) -> Result<Imported, ImportError> {
    let mut builder = Builder::default();
    let mut is_head = true;
    input.each_line(|input, line| {
        if std::mem::take(&mut is_head) {
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
        let functions = functions.split(LINE_FEED).filter(|name| !name.is_empty());
        let stack: Result<Vec<u32>, Stop> =
            functions.map(|name| builder.location_named(input, &unescaped(name))).collect();
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

/// Without the backslashes that ClickHouse puts before some characters.
fn unescaped(name: &str) -> String {
    let mut characters = name.chars();
    let mut out = String::new();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('r') => '\r',
                Some('0') => '\0',
                Some(other) => other,
                None => break,
            },
            other => other,
        });
    }
    out
}
