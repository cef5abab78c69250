//! The protobuf wire format: fields of a message that is in memory.

/// A field's value; groups do not occur.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message in their order. Ends early, with `is_damaged`, where the bytes make no sense.
pub struct Fields<'a> {
    bytes: &'a [u8],
    pub is_damaged: bool,
}

impl<'a> Fields<'a> {
    pub fn of(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, is_damaged: false }
    }

    fn read(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = varint(&mut self.bytes)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut self.bytes)?),
            1 => Value::Number(u64::from_le_bytes(*take(&mut self.bytes, 8)?.first_chunk()?)),
            2 => {
                let length = varint(&mut self.bytes)?;
                Value::Bytes(take(&mut self.bytes, usize::try_from(length).ok()?)?)
            }
            5 => {
                let bytes = *take(&mut self.bytes, 4)?.first_chunk()?;
                Value::Number(u32::from_le_bytes(bytes).into())
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<(u64, Value<'a>)> {
        if self.bytes.is_empty() || self.is_damaged {
            return None;
        }
        let field = self.read();
        self.is_damaged = field.is_none();
        field
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

/// A base-128 number; `None` if it is cut or longer than 64 bits.
#[inline]
pub fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(first.into());
    }
    // Identifiers of locations mostly have two bytes.
    if let Some((&second, rest)) = rest.split_first()
        && second < 0x80
    {
        *bytes = rest;
        return Some(u64::from(first & 0x7f) | u64::from(second) << 7);
    }
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

/// Appends a repeated number, packed or not; `None` where the bytes make no sense.
pub fn extend(list: &mut Vec<u64>, value: Value) -> Option<()> {
    match value {
        Value::Number(number) => list.push(number),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                match extend_by_two(list, packed) {
                    Some(taken) => packed = &packed[taken..],
                    None => list.push(varint(&mut packed)?),
                }
            }
        }
    }
    Some(())
}

/// Appends the two numbers that lie in the next eight bytes, and returns how many bytes they are; `None` where there are
/// fewer bytes or longer numbers. Without a branch for each byte, as lengths cannot be predicted.
#[inline]
fn extend_by_two(list: &mut Vec<u64>, packed: &[u8]) -> Option<usize> {
    let word = u64::from_le_bytes(*packed.first_chunk()?);
    // The highest bit of the last byte of each number.
    let ends = !word & 0x8080_8080_8080_8080;
    let after = ends & ends.wrapping_sub(1);
    if after == 0 {
        return None;
    }
    let (first_bits, both_bits) = (ends.trailing_zeros() + 1, after.trailing_zeros() + 1);
    let first = word & (u64::MAX >> (64 - first_bits));
    let second = (word & (u64::MAX >> (64 - both_bits))) >> first_bits;
    list.extend([number_in(first), number_in(second)]);
    Some(both_bits as usize / 8)
}

/// The lower seven bits of each byte, put together.
#[inline]
fn number_in(bytes: u64) -> u64 {
    let sevens = bytes & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = sevens & 0x007f_007f_007f_007f | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
    let quads = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    quads & 0x0000_0000_0fff_ffff | (quads & 0x0fff_ffff_0000_0000) >> 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_are_read_and_longer_ones_refused() {
        for (bytes, number) in [
            (&[0][..], Some(0)),
            (&[0x7f], Some(127)),
            (&[0x80, 1], Some(128)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], Some(u64::MAX)),
            (&[0x80; 11], None),
            (&[0x80], None),
            (&[], None),
        ] {
            assert_eq!(varint(&mut &*bytes), number, "{bytes:?}");
        }
    }

    #[test]
    fn packed_numbers_of_all_lengths_side_by_side_are_read_as_one_by_one() {
        let numbers: Vec<u64> = (0..64).map(|bits| u64::MAX >> bits).collect();
        for step in 1..64 {
            let mut expected: Vec<u64> = (0..200).map(|at| numbers[at * step % 64]).collect();
            expected.push(u64::from(step as u32));
            let mut packed = Vec::new();
            for &number in &expected {
                let mut rest = number;
                while rest > 0x7f {
                    packed.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                packed.push(rest as u8);
            }
            let mut list = Vec::new();
            assert_eq!(extend(&mut list, Value::Bytes(&packed)), Some(()));
            assert_eq!(list, expected);
            packed.push(0x80);
            assert_eq!(extend(&mut list, Value::Bytes(&packed)), None);
        }
    }

    #[test]
    fn a_damaged_message_ends_at_the_damage() {
        let mut fields = Fields::of(&[0x08, 5, 0x12, 9, 1]);
        assert!(matches!(fields.next(), Some((1, Value::Number(5)))));
        assert!(fields.next().is_none() && fields.is_damaged);
    }
}
