//! The numbers of a difference, by column, in one zstd frame. One walk over the data serves both ways: `Written` takes the numbers that it is
//! given, `Read` ignores them and answers those that were written.

use prost::encoding::{decode_varint, encode_varint};
use ruzstd::decoding::StreamingDecoder;
use std::io::Read as _;
use zstd::bulk::Compressor;

/// Columns of numbers, in their order in the frame.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    Header,
    Gone,
    NewTime,
    NewAddress,
    NewStack,
    NewSize,
    NewThread,
    NewWeight,
    NewFlags,
    Stack,
    Objects,
    Bytes,
    WeightedObjects,
    WeightedBytes,
    ObjectsVariance,
    BytesVariance,
    Buckets,
    Bucket,
    Freed,
}

const COLUMNS: usize = Column::Freed as usize + 1;
const COMPRESSION_LEVEL: i32 = 9;

/// The bytes are not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// Either direction.
pub trait Columns {
    /// The next number of this column.
    fn number(&mut self, column: Column, number: u64) -> Result<u64, Damaged>;

    /// The number `now`, kept as its difference from `before`. The sign is the lowest bit.
    fn change(&mut self, column: Column, before: u64, now: u64) -> Result<u64, Damaged> {
        let change = now.wrapping_sub(before) as i64;
        let number = self.number(column, (change << 1 ^ change >> 63) as u64)?;
        Ok(before.wrapping_add(number >> 1 ^ (number & 1).wrapping_neg()))
    }
}

/// To bytes.
#[derive(Default)]
pub struct Written(pub [Vec<u8>; COLUMNS]);

impl Written {
    pub fn finish(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for column in &self.0 {
            encode_varint(column.len() as u64, &mut bytes);
        }
        bytes.extend(self.0.iter().flatten());
        let mut compressor = Compressor::new(COMPRESSION_LEVEL).expect("the level is a known one");
        compressor.include_checksum(true).expect("zstd has checksums");
        compressor.compress(&bytes).expect("the buffer is as large as zstd asks")
    }
}

impl Columns for Written {
    fn number(&mut self, column: Column, number: u64) -> Result<u64, Damaged> {
        encode_varint(number, &mut self.0[column as usize]);
        Ok(number)
    }
}

/// From bytes.
pub struct Read<'a>([&'a [u8]; COLUMNS]);

/// The content of a frame. Foreign bytes may say that there is any amount of it.
pub fn unpack(frame: &[u8], most_bytes: u64) -> Result<Vec<u8>, Damaged> {
    let mut bytes = Vec::new();
    let mut decoder = StreamingDecoder::new(frame).map_err(|_| Damaged)?;
    (&mut decoder).take(most_bytes).read_to_end(&mut bytes).map_err(|_| Damaged)?;
    let decoder = decoder.into_frame_decoder();
    let is_whole = decoder.is_finished()
        && decoder.get_checksum_from_data() == decoder.get_calculated_checksum();
    if is_whole { Ok(bytes) } else { Err(Damaged) }
}

impl<'a> Read<'a> {
    pub fn new(mut bytes: &'a [u8]) -> Result<Self, Damaged> {
        let mut lengths = [0; COLUMNS];
        for length in &mut lengths {
            *length = decode_varint(&mut bytes).map_err(|_| Damaged)? as usize;
        }
        let mut columns = [&[][..]; COLUMNS];
        for (column, length) in columns.iter_mut().zip(lengths) {
            (*column, bytes) = bytes.split_at_checked(length).ok_or(Damaged)?;
        }
        Ok(Self(columns))
    }
}

impl Columns for Read<'_> {
    fn number(&mut self, column: Column, _: u64) -> Result<u64, Damaged> {
        decode_varint(&mut self.0[column as usize]).map_err(|_| Damaged)
    }
}
