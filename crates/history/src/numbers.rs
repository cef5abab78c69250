//! Models of numbers: small ones and those that come often take few bits, and none takes much more than its own length.

use crate::coder::{Bit, Coder, model};

/// Bits below the leading one that are learnt; the others are as likely one as zero.
const LEARNT_BITS: u32 = 3;
/// The same of a choice.
const LEARNT_BITS_OF_CHOICE: u32 = 20;
/// Numbers below two to the power of two to the power of this are short.
const SHORT: u32 = 2;

/// A number: whether it is 0, then its length, then its bits.
#[derive(Clone, Debug, Default)]
pub struct Number {
    is_zero: Bit,
    is_short: Bit,
    short_lengths: Vec<Bit>,
    lengths: Vec<Bit>,
    /// By length.
    leading: Vec<Vec<Bit>>,
}

impl Number {
    pub fn code(&mut self, coder: &mut impl Coder, number: u64) -> u64 {
        if coder.bit(&mut self.is_zero, number == 0) {
            return 0;
        }
        let length = u64::from(number.max(1).ilog2());
        let length = if coder.bit(&mut self.is_short, length < 1 << SHORT) {
            coder.bits(&mut self.short_lengths, SHORT, length)
        } else {
            coder.bits(&mut self.lengths, 6, length)
        };
        let leading = model(&mut self.leading, length as usize);
        below_leading(coder, leading, length as u32, LEARNT_BITS, number)
    }
}

/// The number that has these bits below its leading one, of which so many are learnt at most.
fn below_leading(
    coder: &mut impl Coder,
    models: &mut Vec<Bit>,
    length: u32,
    most_learnt: u32,
    number: u64,
) -> u64 {
    let learnt = length.min(most_learnt);
    let rest = length - learnt;
    let mut out = 1 << learnt | coder.bits(models, learnt, number >> rest);
    for shift in (0..rest).rev() {
        out = out << 1 | u64::from(coder.code(1 << 15, number >> shift & 1 == 1));
    }
    out
}

/// A number of any sign.
#[derive(Clone, Debug, Default)]
pub struct Signed {
    magnitude: Number,
    is_negative: Bit,
}

impl Signed {
    pub fn code(&mut self, coder: &mut impl Coder, number: i64) -> i64 {
        let magnitude = self.magnitude.code(coder, number.unsigned_abs());
        if magnitude != 0 && coder.bit(&mut self.is_negative, number < 0) {
            magnitude.wrapping_neg() as i64
        } else {
            magnitude as i64
        }
    }
}

/// One of at most 2^20 things, of which each is learnt.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    lengths: Vec<Bit>,
    /// By length.
    bits: Vec<Vec<Bit>>,
}

impl Choice {
    /// Answers up to 2^32 − 2, whatever was given.
    pub fn code(&mut self, coder: &mut impl Coder, choice: u32) -> u32 {
        let number = u64::from(choice) + 1;
        let length = coder.bits(&mut self.lengths, 5, u64::from(number.ilog2())) as u32;
        let bits = model(&mut self.bits, length.min(LEARNT_BITS_OF_CHOICE) as usize);
        (below_leading(coder, bits, length, LEARNT_BITS_OF_CHOICE, number) - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coder::{Decoder, Encoder};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_of_any_sign_and_size_come_back(numbers: Vec<(u64, i64, u32)>) {
            let bounded = |choice: u32| choice >> (16 + choice % 16);
            let mut encoder = Encoder::new();
            let (mut number, mut signed, mut choice) = <(Number, Signed, Choice)>::default();
            for &(a, b, c) in &numbers {
                number.code(&mut encoder, a);
                signed.code(&mut encoder, b);
                choice.code(&mut encoder, bounded(c));
            }
            let bytes = encoder.finish();
            let mut decoder = Decoder::new(&bytes);
            let (mut number, mut signed, mut choice) = <(Number, Signed, Choice)>::default();
            for (a, b, c) in numbers {
                prop_assert_eq!(number.code(&mut decoder, 0), a);
                prop_assert_eq!(signed.code(&mut decoder, 0), b);
                prop_assert_eq!(choice.code(&mut decoder, 0), bounded(c));
            }
            prop_assert!(decoder.is_sound());
        }

        #[test]
        fn any_bytes_give_numbers(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(&bytes);
            let (mut number, mut signed) = <(Number, Signed)>::default();
            while decoder.is_sound() {
                number.code(&mut decoder, 0);
                signed.code(&mut decoder, 0);
                // Whatever is left, it is used up.
                for _ in 0..8 {
            decoder.code(1 << 15, false);
        }
            }
        }
    }

    #[test]
    fn numbers_that_repeat_are_learnt() {
        let mut encoder = Encoder::new();
        let mut choice = Choice::default();
        for round in 0..4_000 {
            choice.code(&mut encoder, if round % 2 == 0 { 1_234 } else { 77_777 });
        }
        let bytes = encoder.finish().len();
        // A bit each is what telling the two apart takes.
        assert!((500..600).contains(&bytes), "{bytes}");
    }
}
