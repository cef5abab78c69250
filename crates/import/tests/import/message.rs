//! Writes protobuf messages, good and bad.

/// A field with a number.
pub fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field with bytes.
pub fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [&varint(field << 3 | 2), &varint(value.len() as u64), value].concat()
}

/// Numbers of a packed field.
pub fn packed(field: u64, values: &[u64]) -> Vec<u8> {
    bytes(field, &values.iter().flat_map(|&value| varint(value)).collect::<Vec<u8>>())
}

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
    out
}
