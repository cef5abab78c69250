//! The numbers of a sample, which are most bytes of a file, read as fast as they are written: packed, and mostly of one to three bytes.

use prost::Message;
use prost::encoding::{DecodeContext, decode_key, decode_varint, skip_field};
use ramson_profile::pprof::Sample;

/// Tags of the fields, where their numbers are packed.
const LOCATION_IDS: u8 = 1 << 3 | 2;
const VALUES: u8 = 2 << 3 | 2;

/// The same as `Sample::merge`; `None`: it is no message.
pub fn merge(sample: &mut Sample, mut bytes: &[u8]) -> Option<()> {
    while let [tag, rest @ ..] = bytes {
        let tag = *tag;
        if tag != LOCATION_IDS && tag != VALUES {
            let field = bytes;
            let (number, wire_type) = decode_key(&mut bytes).ok()?;
            skip_field(wire_type, number, &mut bytes, DecodeContext::default()).ok()?;
            sample.merge(&field[..field.len() - bytes.len()]).ok()?;
            continue;
        }
        bytes = rest;
        let length = usize::try_from(varint(&mut bytes)?).ok()?;
        let (mut numbers, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        while !numbers.is_empty() {
            let number = varint(&mut numbers)?;
            match tag {
                LOCATION_IDS => sample.location_id.push(number),
                _ => sample.value.push(number as i64),
            }
        }
    }
    Some(())
}

#[inline(always)]
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let part = |byte: u8, place: u32| u64::from(byte & 0x7f) << (7 * place);
    let (number, length) = match **bytes {
        [a, ..] if a < 0x80 => (part(a, 0), 1),
        [a, b, ..] if b < 0x80 => (part(a, 0) | part(b, 1), 2),
        [a, b, c, ..] if c < 0x80 => (part(a, 0) | part(b, 1) | part(c, 2), 3),
        _ => return decode_varint(bytes).ok(),
    };
    *bytes = &bytes[length..];
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of both readers for the same bytes.
    fn both(bytes: &[u8]) -> [Option<Sample>; 2] {
        let mut own = Sample::default();
        let own = merge(&mut own, bytes).map(|()| own);
        [own, Sample::decode(bytes).ok()]
    }

    #[test]
    fn a_sample_is_what_prost_reads() {
        let label = ramson_profile::pprof::Label { key: 1, num: -1, ..Default::default() };
        let sample = Sample {
            location_id: vec![
                0,
                1,
                127,
                128,
                16_383,
                16_384,
                2_097_151,
                2_097_152,
                1 << 63,
                u64::MAX,
            ],
            value: vec![0, -1, 300, i64::MIN, i64::MAX],
            label: vec![label, label],
        };
        let bytes = sample.encode_to_vec();
        assert_eq!(both(&bytes), [Some(sample.clone()), Some(sample)]);
        // One number at a time, an unknown field, and the same field twice.
        let odd = [8, 1, 0x0a, 2, 2, 3, 16, 4, 0x0a, 1, 9, 0x2a, 1, 7];
        let [own, prost] = both(&odd);
        assert!(own.is_some() && own == prost, "{own:?} {prost:?}");
    }

    #[test]
    fn bytes_that_prost_refuses_are_refused() {
        let sample = Sample {
            location_id: vec![1, 200, 70_000, 1 << 40],
            value: vec![1, -1],
            label: vec![Default::default()],
        };
        let bytes = sample.encode_to_vec();
        for length in 0..bytes.len() {
            let [own, prost] = both(&bytes[..length]);
            assert_eq!(own, prost, "cut at {length}");
        }
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                let [own, prost] = both(&bytes);
                assert_eq!(own, prost, "{value} at {at}");
            }
        }
    }
}
