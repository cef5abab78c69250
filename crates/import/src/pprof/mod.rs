//! google/pprof's `profile.proto`, read in one pass: a message is dropped once its numbers are in the profile.
//!
//! Fields may come in any order, and writers put the strings last, so identifiers are kept as they come and replaced in
//! the end (`finish`). Values are weighted already and never weighted again.

mod finish;
mod ids;
mod labels;
mod strings;
pub mod wire;

use crate::build::{OVERHEAD_BYTES, TABLE_BYTES, sample_bytes};
use crate::defect::{ImportDefect, ImportError};
use crate::import::Imported;
use crate::input::Input;
use ids::Numbers;
use labels::LabelSets;
use ramson_profile::{Estimate, Line, Location, LookupAddress, StackSample};
use strings::Strings;
use wire::{Fields, Value};

/// Sample types of one file that are kept; a heap profile has four.
const MOST_TYPES: usize = 4;

/// Indices into the string table.
#[derive(Clone, Copy, Default)]
struct Names {
    name: u64,
    system_name: u64,
    file: u64,
}

#[derive(Clone, Copy, Default)]
struct RawMapping {
    id: u64,
    start: u64,
    end: u64,
    file_offset: u64,
    path: u64,
    build_id: u64,
}

/// What was read, with the file's own identifiers in place of indices.
#[derive(Default)]
struct Raw {
    /// Name and unit.
    sample_types: Vec<(u64, u64)>,
    /// `locations` are `Location::id` as `location_numbers` has them, values in the order of `sample_types`.
    samples: Vec<StackSample>,
    labels: LabelSets,
    mappings: Vec<RawMapping>,
    location_numbers: Numbers,
    /// Numbers of the identifiers.
    location_ids: Vec<u32>,
    /// `mapping` and `Line::function` are identifiers.
    locations: Vec<Location>,
    function_ids: Vec<u64>,
    functions: Vec<Names>,
    strings: Strings,
    drop_frames: u64,
    keep_frames: u64,
    time_nanos: u64,
    duration_nanos: u64,
    period_type: (u64, u64),
    period: u64,
    default_sample_type: u64,
    bad_records: u64,
    /// Reused from sample to sample.
    ids: Vec<u64>,
    values: Vec<u64>,
}

pub fn read(input: &mut Input) -> Result<Imported, ImportError> {
    let mut raw = Raw::default();
    while let Some(field) = next_field(input) {
        let Some(taken) = field else {
            let offset = input.unpacked_bytes();
            input.defects.push(ImportDefect::Damaged { offset });
            break;
        };
        match taken {
            (field, Top::Number(number)) => raw.take_number(field, number),
            (field, Top::Message(length)) => {
                if raw.take_message(field, length, input).is_none() {
                    break;
                }
            }
        }
    }
    finish::finish(raw, input)
}

/// A field of the whole profile.
enum Top {
    Number(u64),
    /// With its length; the bytes follow.
    Message(usize),
}

/// The next tag and length; `None` at the end, `Some(None)` where the bytes make no sense.
#[allow(clippy::option_option)]
fn next_field(input: &mut Input) -> Option<Option<(u64, Top)>> {
    const MOST_BYTES: usize = 20;
    let head = input.peek(MOST_BYTES);
    if head.is_empty() {
        return None;
    }
    let mut rest = head;
    let mut read = || {
        let tag = wire::varint(&mut rest)?;
        let top = match tag & 7 {
            0 => Top::Number(wire::varint(&mut rest)?),
            2 => Top::Message(usize::try_from(wire::varint(&mut rest)?).ok()?),
            _ => return None,
        };
        Some((tag >> 3, top))
    };
    let field = read();
    let taken = head.len() - rest.len();
    input.take(taken);
    Some(field.filter(|(number, _)| *number > 0))
}

impl Raw {
    fn take_number(&mut self, field: u64, number: u64) {
        match field {
            7 => self.drop_frames = number,
            8 => self.keep_frames = number,
            9 => self.time_nanos = number,
            10 => self.duration_nanos = number,
            12 => self.period = number,
            14 => self.default_sample_type = number,
            _ => {}
        }
    }

    /// `None` where reading has to stop.
    fn take_message(&mut self, field: u64, length: usize, input: &mut Input) -> Option<()> {
        if !matches!(field, 1..=6 | 11) {
            return match input.skip(length as u64) {
                true => Some(()),
                false => cut(input),
            };
        }
        let Some(bytes) = input.take(length) else { return cut(input) };
        let used = match field {
            1 => self.sample_type(bytes),
            2 => self.sample(bytes),
            3 => self.mapping(bytes),
            4 => self.location(bytes),
            5 => self.function(bytes),
            6 => Some(self.strings.push(bytes)),
            _ => self.period_type(bytes),
        };
        match used {
            Some(bytes) => input.may_use(bytes).then_some(()),
            None => {
                self.bad_records += 1;
                Some(())
            }
        }
    }

    fn sample_type(&mut self, bytes: &[u8]) -> Option<usize> {
        self.sample_types.push(value_type(bytes)?);
        Some(size_of::<(u64, u64)>())
    }

    fn period_type(&mut self, bytes: &[u8]) -> Option<usize> {
        self.period_type = value_type(bytes)?;
        Some(0)
    }

    fn sample(&mut self, bytes: &[u8]) -> Option<usize> {
        self.ids.clear();
        self.values.clear();
        let mut fields = Fields::of(bytes);
        self.labels.begin_sample();
        for (field, value) in &mut fields {
            match (field, value) {
                (1, ids) => wire::extend(&mut self.ids, ids)?,
                (2, values) => wire::extend(&mut self.values, values)?,
                (3, Value::Bytes(label)) => self.labels.take(label)?,
                _ => {}
            }
        }
        if fields.is_damaged {
            return None;
        }
        if self.values.iter().all(|&value| value == 0) {
            return Some(0);
        }
        let mut values = [Estimate::default(); MOST_TYPES];
        for (estimate, &value) in values.iter_mut().zip(&self.values) {
            *estimate = Estimate::exact(value as i64 as f64);
        }
        let known = self.location_numbers.len();
        let mut locations = Vec::with_capacity(self.ids.len());
        for &id in &self.ids {
            locations.push(self.location_numbers.of(id)?);
        }
        let added = (self.location_numbers.len() - known) * OVERHEAD_BYTES;
        self.samples.push(StackSample { locations, values, ..StackSample::default() });
        Some(sample_bytes(self.ids.len()) + added + self.labels.end_sample())
    }

    fn mapping(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut mapping = RawMapping::default();
        let mut fields = Fields::of(bytes);
        for (field, value) in &mut fields {
            let Value::Number(number) = value else { continue };
            match field {
                1 => mapping.id = number,
                2 => mapping.start = number,
                3 => mapping.end = number,
                4 => mapping.file_offset = number,
                5 => mapping.path = number,
                6 => mapping.build_id = number,
                _ => {}
            }
        }
        self.mappings.push(mapping);
        let bytes = size_of::<RawMapping>() + size_of::<ramson_profile::Mapping>();
        (!fields.is_damaged).then_some(bytes)
    }

    fn location(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut location = Location { mapping: None, address: LookupAddress(0), lines: Vec::new() };
        let mut id = 0;
        let mut fields = Fields::of(bytes);
        for (field, value) in &mut fields {
            match (field, value) {
                (1, Value::Number(number)) => id = number,
                (2, Value::Number(number)) => {
                    location.mapping = usize::try_from(number).ok().filter(|&id| id > 0);
                }
                (3, Value::Number(number)) => location.address = LookupAddress(number),
                (4, Value::Bytes(line)) => location.lines.push(parse_line(line)?),
                _ => {}
            }
        }
        if fields.is_damaged || id == 0 {
            return None;
        }
        // The list grew by doubling.
        location.lines.shrink_to_fit();
        let lines = location.lines.len() * size_of::<Line>();
        self.location_ids.push(self.location_numbers.of(id)?);
        self.locations.push(location);
        Some(size_of::<Location>() + size_of::<u64>() + lines + 2 * OVERHEAD_BYTES + TABLE_BYTES)
    }

    fn function(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut names = Names::default();
        let mut id = 0;
        let mut fields = Fields::of(bytes);
        for (field, value) in &mut fields {
            let Value::Number(number) = value else { continue };
            match field {
                1 => id = number,
                2 => names.name = number,
                3 => names.system_name = number,
                4 => names.file = number,
                _ => {}
            }
        }
        if fields.is_damaged || id == 0 {
            return None;
        }
        self.functions.push(names);
        self.function_ids.push(id);
        let name = size_of::<ramson_profile::Function>() + size_of::<Names>();
        Some(name + size_of::<u64>() + TABLE_BYTES)
    }
}

fn cut(input: &mut Input) -> Option<()> {
    // Packed bytes that end early have been told of already.
    if input.defects.is_empty() {
        input.defects.push(ImportDefect::Cut);
    }
    None
}

fn value_type(bytes: &[u8]) -> Option<(u64, u64)> {
    let (mut name, mut unit) = (0, 0);
    let mut fields = Fields::of(bytes);
    for (field, value) in &mut fields {
        match (field, value) {
            (1, Value::Number(number)) => name = number,
            (2, Value::Number(number)) => unit = number,
            _ => {}
        }
    }
    (!fields.is_damaged).then_some((name, unit))
}

fn parse_line(bytes: &[u8]) -> Option<Line> {
    let mut line = Line { function: 0, line: 0 };
    let mut fields = Fields::of(bytes);
    for (field, value) in &mut fields {
        match (field, value) {
            (1, Value::Number(number)) => line.function = usize::try_from(number).ok()?,
            (2, Value::Number(number)) => line.line = u32::try_from(number).unwrap_or(0),
            _ => {}
        }
    }
    (!fields.is_damaged).then_some(line)
}
