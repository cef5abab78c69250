//! google/pprof's `profile.proto`, read in one pass: a message is dropped once its numbers are in the profile.
//!
//! Fields may come in any order, and writers put the strings last, so identifiers are kept as they come and replaced in
//! the end (`finish`). Values are weighted already and never weighted again.

mod finish;
mod ids;
mod labels;
mod packed;
mod sample_types;
mod strings;

use crate::build::{OVERHEAD_BYTES, TABLE_BYTES, sample_bytes};
use crate::defect::{ImportDefect, ImportError};
use crate::import::Imported;
use crate::input::{Input, Stop};
use ids::Numbers;
use labels::LabelSets;
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use ramson_profile::{Estimate, Function, Line, Location, LookupAddress, StackSample, pprof};
use std::iter;
use strings::Strings;

/// Values that a sample holds itself; a heap profile has four.
const OWN_TYPES: usize = 4;
/// Sample types of one file that are kept.
const MOST_TYPES: usize = 64;
/// Most bytes of a field's tag and its length or number.
const MOST_HEAD_BYTES: usize = 20;
/// A longer message is left out: decoded, it could take twelve times its bytes.
const MOST_MESSAGE_BYTES: usize = 4 << 20;
/// Bytes that a function takes here and in the profile; a mapping or a sample type takes less.
const RECORD_BYTES: usize = size_of::<pprof::Function>() + size_of::<Function>() + TABLE_BYTES;

/// Content that was read, with the file's own identifiers in place of indices.
#[derive(Default)]
struct Raw {
    /// All fields but samples, locations and strings.
    rest: pprof::Profile,
    /// `locations` are `Location::id` as `location_numbers` has them, values in the order of `sample_type`.
    samples: Vec<StackSample>,
    /// Values of each sample after its own ones; `more_types` each.
    more_values: Vec<i64>,
    /// As many as the first sample has.
    more_types: Option<usize>,
    labels: LabelSets,
    location_numbers: Numbers,
    /// Numbers of the identifiers.
    location_ids: Vec<u32>,
    /// `mapping` and `Line::function` are identifiers.
    locations: Vec<Location>,
    strings: Strings,
    bad_records: u64,
    /// Number of the field before.
    last_number: u32,
    /// Numbers of the fields met that a profile has once, as bits.
    met: u32,
    /// Reused from sample to sample.
    sample: pprof::Sample,
}

pub fn read(input: &mut Input) -> Result<Imported, ImportError> {
    let mut raw = Raw::default();
    while !input.peek(1).is_empty() {
        let Some(head) = next_head(input) else {
            let offset = input.unpacked_bytes();
            input.defects.push(ImportDefect::Damaged { offset });
            break;
        };
        if raw.is_of_next_profile(&head) {
            return Err(ImportError::Concatenated);
        }
        if raw.take(head, input).is_err() {
            break;
        }
    }
    finish::finish(raw, input)
}

/// Number and size of a field, and how many of its bytes come before the message, if it is one.
struct Head {
    number: u32,
    size_bytes: usize,
    head_bytes: usize,
}

/// The head of the next field; `None` where the bytes make no sense.
fn next_head(input: &mut Input) -> Option<Head> {
    let bytes = input.peek(MOST_HEAD_BYTES);
    let mut rest = bytes;
    let (number, wire_type) = decode_key(&mut rest).ok()?;
    let value = decode_varint(&mut rest).ok()?;
    let head_bytes = bytes.len() - rest.len();
    let size_bytes = match wire_type {
        WireType::Varint => head_bytes,
        WireType::LengthDelimited => usize::try_from(value).ok()?.checked_add(head_bytes)?,
        _ => return None,
    };
    Some(Head { number, size_bytes, head_bytes })
}

impl Raw {
    /// Whether another profile begins before this field or began before: its strings start again with the empty one, or the time, the
    /// period or the default sample type comes again. Numbers of strings would mean the first profile's.
    fn is_of_next_profile(&mut self, head: &Head) -> bool {
        let is_first_string =
            head.number == 6 && head.size_bytes == head.head_bytes && !self.strings.is_empty();
        let begins_again = is_first_string && self.last_number != 6;
        let bit = if matches!(head.number, 9 | 11 | 12 | 14) { 1 << head.number } else { 0 };
        let comes_again = self.met & bit != 0;
        self.met |= bit;
        self.last_number = head.number;
        begins_again || comes_again
    }

    fn take(&mut self, head: Head, input: &mut Input) -> Result<(), Stop> {
        let Head { number, size_bytes, head_bytes } = head;
        let is_too_long = size_bytes > MOST_MESSAGE_BYTES && matches!(number, 1..=12 | 14);
        if is_too_long || !matches!(number, 1..=12 | 14) {
            if number == 6 {
                // The others keep their places.
                self.strings.push(b"");
            }
            self.bad_records += u64::from(is_too_long);
            return if input.skip(size_bytes as u64) { Ok(()) } else { cut(input) };
        }
        let Some(field) = input.take(size_bytes) else { return cut(input) };
        let message = &field[head_bytes..];
        let used = match number {
            2 => self.sample(message),
            4 => self.location(message),
            6 => Some(self.strings.push(message)),
            _ => self.rest.merge(field).ok().map(|()| RECORD_BYTES),
        };
        self.bad_records += u64::from(used.is_none());
        input.charge(used.unwrap_or(0))
    }

    fn sample(&mut self, bytes: &[u8]) -> Option<usize> {
        self.sample.clear();
        packed::merge(&mut self.sample, bytes)?;
        let pprof::Sample { location_id: ids, value, label } = &self.sample;
        if value.iter().all(|&value| value == 0) {
            return Some(0);
        }
        let mut values = [Estimate::default(); OWN_TYPES];
        for (estimate, &value) in values.iter_mut().zip(value) {
            *estimate = Estimate::exact(value as f64);
        }
        let known = self.location_numbers.len();
        let mut locations = Vec::with_capacity(ids.len());
        for &id in ids {
            locations.push(self.location_numbers.of(id)?);
        }
        let added = (self.location_numbers.len() - known) * OVERHEAD_BYTES;
        self.samples.push(StackSample { locations, values, ..StackSample::default() });
        let more = value.get(OWN_TYPES..).unwrap_or_default();
        let more_types = *self.more_types.get_or_insert(more.len().min(MOST_TYPES - OWN_TYPES));
        self.more_values.extend(more.iter().chain(iter::repeat(&0)).take(more_types));
        let more_bytes = more_types * size_of::<i64>();
        Some(sample_bytes(ids.len()) + added + more_bytes + self.labels.push(label))
    }

    fn location(&mut self, bytes: &[u8]) -> Option<usize> {
        let message = pprof::Location::decode(bytes).ok().filter(|message| message.id != 0)?;
        let lines = message.line.iter().map(|line| Line {
            function: line.function_id as usize,
            line: u32::try_from(line.line).unwrap_or(0),
        });
        let mapping = Some(message.mapping_id as usize).filter(|&id| id > 0);
        let address = LookupAddress(message.address);
        self.location_ids.push(self.location_numbers.of(message.id)?);
        self.locations.push(Location { mapping, address, lines: lines.collect(), offset: None });
        let lines = message.line.len() * size_of::<Line>();
        Some(size_of::<Location>() + size_of::<u64>() + lines + 2 * OVERHEAD_BYTES + TABLE_BYTES)
    }
}

fn cut(input: &mut Input) -> Result<(), Stop> {
    // Packed bytes that end early have been told of already.
    if input.defects.is_empty() {
        input.defects.push(ImportDefect::Cut);
    }
    Err(Stop::End)
}
