//! A binary arithmetic coder, and models of numbers that learn from what they coded. One walk over the data serves both ways: an `Encoder`
//! takes what it is given, a `Decoder` ignores that and answers what was taken. So both see the same models.
//!
//! An interval of 64 bits is divided at each bit in proportion to how probable the model holds a one; the leading bytes that both ends share are the
//! output. Bytes are not trusted: after their end come zeros, and `Decoder::is_sound` says so; who loops asks.

/// How probable a one is, of 65,536, after what was seen.
#[derive(Clone, Copy, Debug)]
pub struct Bit {
    one: u16,
    seen: u8,
}

/// So many bits are remembered: what is older fades.
const MOST_SEEN: u8 = 250;
/// What the next bit weighs after so many, of 32,768: as if one and a half had been seen before the first.
const SHARES: [i32; MOST_SEEN as usize + 1] = {
    let mut shares = [0; MOST_SEEN as usize + 1];
    let mut seen = 0;
    while seen < shares.len() {
        shares[seen] = (1 << 16) / (2 * seen as i32 + 3);
        seen += 1;
    }
    shares
};
/// No bit is certain.
const LEAST: i32 = 16;

impl Default for Bit {
    fn default() -> Self {
        Self { one: 1 << 15, seen: 0 }
    }
}

impl Bit {
    fn learn(&mut self, is_one: bool) {
        let (one, seen) = (i32::from(self.one), usize::from(self.seen));
        let goal = if is_one { 1 << 16 } else { 0 };
        let next = one + (((goal - one) * SHARES[seen]) >> 15);
        self.one = next.clamp(LEAST, (1 << 16) - LEAST) as u16;
        self.seen = (self.seen + 1).min(MOST_SEEN);
    }
}

/// Either direction.
pub trait Coder {
    /// One bit whose ones are so probable, of 65,536.
    fn code(&mut self, one: u16, is_one: bool) -> bool;

    /// Whether all that was answered was in the bytes.
    fn is_sound(&self) -> bool;

    /// One bit, of which the model learns.
    fn bit(&mut self, model: &mut Bit, is_one: bool) -> bool {
        let is_one = self.code(model.one, is_one);
        model.learn(is_one);
        is_one
    }

    /// So many bits, the highest first. `models` grows to one for each value that they can have.
    fn bits(&mut self, models: &mut Vec<Bit>, count: u32, value: u64) -> u64 {
        model(models, (1 << count) - 1);
        let mut node = 1;
        for shift in (0..count).rev() {
            let is_one = self.bit(&mut models[node], value >> shift & 1 == 1);
            node = node << 1 | usize::from(is_one);
        }
        node as u64 & !(1 << count)
    }
}

/// The model with this index; one that was not asked for before has learnt nothing.
pub fn model<T: Clone + Default>(models: &mut Vec<T>, index: usize) -> &mut T {
    if models.len() <= index {
        models.resize(index + 1, T::default());
    }
    &mut models[index]
}

fn divide(low: u64, high: u64, one: u16) -> u64 {
    low + ((u128::from(high - low) * u128::from(one)) >> 16) as u64
}

/// To bytes.
pub struct Encoder {
    out: Vec<u8>,
    low: u64,
    high: u64,
}

impl Encoder {
    pub fn new() -> Self {
        Self { out: Vec::new(), low: 0, high: u64::MAX }
    }

    /// As few bytes as tell where in the interval it ended.
    pub fn finish(mut self) -> Vec<u8> {
        for kept in (0..=56).rev().step_by(8) {
            let rest = (1u64 << kept) - 1;
            let Some(up) = self.low.checked_add(rest) else { continue };
            if up & !rest <= self.high {
                let bytes = (up & !rest).to_be_bytes();
                self.out.extend_from_slice(&bytes[..8 - kept / 8]);
                break;
            }
        }
        self.out
    }
}

impl Coder for Encoder {
    fn code(&mut self, one: u16, is_one: bool) -> bool {
        let middle = divide(self.low, self.high, one);
        if is_one {
            self.high = middle;
        } else {
            self.low = middle + 1;
        }
        while (self.low ^ self.high) >> 56 == 0 {
            self.out.push((self.low >> 56) as u8);
            self.low <<= 8;
            self.high = self.high << 8 | 0xff;
        }
        is_one
    }

    fn is_sound(&self) -> bool {
        true
    }
}

/// Bytes that a decoder holds.
const READ_AHEAD: usize = 8;

/// From bytes.
pub struct Decoder<'a> {
    bytes: &'a [u8],
    /// How many were read, zeros after the end included.
    read: usize,
    low: u64,
    high: u64,
    at: u64,
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut decoder = Self { bytes, read: 0, low: 0, high: u64::MAX, at: 0 };
        (0..READ_AHEAD).for_each(|_| decoder.read());
        decoder
    }

    fn read(&mut self) {
        self.at = self.at << 8 | self.bytes.get(self.read).map_or(0, |&byte| u64::from(byte));
        self.read += 1;
    }
}

impl Coder for Decoder<'_> {
    fn code(&mut self, one: u16, _: bool) -> bool {
        let middle = divide(self.low, self.high, one);
        let is_one = self.at <= middle;
        if is_one {
            self.high = middle;
        } else {
            self.low = middle + 1;
        }
        while (self.low ^ self.high) >> 56 == 0 {
            self.low <<= 8;
            self.high = self.high << 8 | 0xff;
            self.read();
        }
        is_one
    }

    fn is_sound(&self) -> bool {
        self.read < self.bytes.len() + READ_AHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_of_any_probability_come_back(bits: Vec<(bool, u16)>) {
            let mut encoder = Encoder::new();
            for &(is_one, one) in &bits {
                encoder.code(one.max(1), is_one);
            }
            let bytes = encoder.finish();
            let mut decoder = Decoder::new(&bytes);
            for &(is_one, one) in &bits {
                prop_assert_eq!(decoder.code(one.max(1), false), is_one);
            }
            prop_assert!(decoder.is_sound());
        }
    }

    #[test]
    fn what_is_expected_costs_next_to_nothing_and_what_is_not_known_a_bit() {
        let (mut encoder, mut model) = (Encoder::new(), Bit::default());
        for _ in 0..10_000 {
            encoder.bit(&mut model, false);
        }
        assert!(encoder.finish().len() < 10);
        let (mut encoder, mut model) = (Encoder::new(), Bit::default());
        for round in 0..8_000 {
            encoder.bit(&mut model, ramson_format::mix(round, 7) & 1 == 1);
        }
        let bytes = encoder.finish().len();
        assert!((990..1_020).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_decoder_that_is_asked_for_more_than_there_is_says_so() {
        let mut encoder = Encoder::new();
        for bit in 0..64 {
            encoder.code(1 << 15, bit % 3 == 0);
        }
        let bytes = encoder.finish();
        let mut decoder = Decoder::new(&bytes);
        for _ in 0..64 {
            decoder.code(1 << 15, false);
        }
        assert!(decoder.is_sound());
        for _ in 0..128 {
            decoder.code(1 << 15, false);
        }
        assert!(!decoder.is_sound());
    }
}
