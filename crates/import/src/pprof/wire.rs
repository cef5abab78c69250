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
                list.push(varint(&mut packed)?);
            }
        }
    }
    Some(())
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
    fn a_damaged_message_ends_at_the_damage() {
        let mut fields = Fields::of(&[0x08, 5, 0x12, 9, 1]);
        assert!(matches!(fields.next(), Some((1, Value::Number(5)))));
        assert!(fields.next().is_none() && fields.is_damaged);
    }
}
