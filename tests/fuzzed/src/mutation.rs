//! Inputs made of others, the same each time.

use ramson_format::mix;

/// Values at which most of the readers' branches are.
const NOTABLE: [u64; 8] = [0, 1, 0x7f, 0xff, 0x8000, 0xffff_ffff, 1 << 62, u64::MAX];
const MOST_CHANGES: u64 = 6;
const FRESH_BYTES: u64 = 96;

/// Mutation number `number` of the input; of none, bytes that are as good as random.
pub fn mutated(input: &[u8], number: u64) -> Vec<u8> {
    let mut state = mix(0x6675_7a7a, number);
    let mut below = |bound: usize| {
        state = mix(state, number);
        (state >> 8) as usize % bound.max(1)
    };
    if input.is_empty() {
        return (0..below(FRESH_BYTES as usize)).map(|_| below(256) as u8).collect();
    }
    let mut bytes = input.to_vec();
    for _ in 0..1 + below(MOST_CHANGES as usize) {
        let at = below(bytes.len());
        let notable = NOTABLE[below(NOTABLE.len())].to_le_bytes();
        match below(6) {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << below(8)),
            1 => bytes.iter_mut().skip(at).zip(notable).for_each(|(byte, new)| *byte = new),
            2 => bytes.truncate(at),
            3 => drop(bytes.splice(at..at, notable)),
            4 => {
                let piece = bytes[at..(at + below(64)).min(bytes.len())].to_vec();
                let to = below(bytes.len() + 1);
                drop(bytes.splice(to..to, piece));
            }
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = below(256) as u8),
        }
    }
    bytes
}
