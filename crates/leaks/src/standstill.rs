//! A standstill: a time in which hardly anything was added, unlike before and after it. Growth is not averaged over it, and has ended if
//! it lasts until now. Several pauses of similar length are a wave, which is one rate.

use std::ops::Range;

/// The time is divided into so many parts of equal length.
const PARTS: usize = 64;
/// A part is quiet if it has less than this share of the mean.
const QUIET_SHARE: f64 = 0.25;
/// Rows of quiet parts, none of them twice as long as another, are waves if there are this many.
const LEAST_WAVES: usize = 3;
/// Least logarithm of the likelihood ratio of two rates and one: ln 1,000, for each of the pairs of parts with which it may begin and end.
const LEAST_GAIN: f64 = 6.9 + 2.0 * 4.16;

/// A time without growth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standstill {
    /// The age at which it began.
    pub began_ns: u64,
    /// The age at which it ended: there is an older sample; `None`: it lasts until now.
    pub ended_ns: Option<u64>,
}

impl Standstill {
    /// The youngest one, from the age `from_ns` on, which no sample is below; `ages` ascend.
    pub fn of(ages: &[u64], from_ns: u64) -> Option<Self> {
        let span_ns = u128::from(ages.last()? - from_ns);
        let parts = PARTS as u128;
        // From here on the oldest sample is in the last part.
        if span_ns < parts {
            return None;
        }
        let mut counts = [0; PARTS];
        for age_ns in ages {
            counts[(u128::from(age_ns - from_ns) * parts / (span_ns + 1)) as usize] += 1;
        }
        let mut rows = quiet_rows(&counts, QUIET_SHARE * ages.len() as f64 / PARTS as f64);
        let longest = rows.iter().map(Range::len).max()?;
        rows.retain(|row| row.len() * 2 > longest);
        let youngest = rows.first().filter(|_| rows.len() < LEAST_WAVES)?;
        let samples = counts[youngest.clone()].iter().sum();
        if gain(samples, youngest.len(), ages.len()) < LEAST_GAIN {
            return None;
        }
        let age_ns = |part: usize| from_ns + (part as u128 * (span_ns + 1)).div_ceil(parts) as u64;
        let ended_ns = (youngest.start > 0).then(|| age_ns(youngest.start));
        Some(Self { began_ns: age_ns(youngest.end), ended_ns })
    }
}

/// Parts with fewer samples, as far as they follow each other.
fn quiet_rows(counts: &[usize], below: f64) -> Vec<Range<usize>> {
    let mut rows: Vec<Range<usize>> = Vec::new();
    for (part, _) in counts.iter().enumerate().filter(|(_, count)| (**count as f64) < below) {
        match rows.last_mut() {
            Some(row) if row.end == part => row.end += 1,
            _ => rows.push(part..part + 1),
        }
    }
    rows
}

/// Logarithm of the likelihood ratio of samples that come at one rate in these parts and at another one in the rest, and at one rate in all (Poisson).
fn gain(samples: usize, parts: usize, all: usize) -> f64 {
    let likelihood = |samples: usize, parts: usize| match samples {
        0 => 0.0,
        _ => samples as f64 * (samples as f64 / parts as f64).ln(),
    };
    likelihood(samples, parts) + likelihood(all - samples, PARTS - parts) - likelihood(all, PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_standstill_cuts_something_off() {
        let cases = [vec![7; 500], (0..500).map(|number| number / 9).collect(), {
            let mut ages: Vec<u64> = (0..500).chain(20_000..20_500).collect();
            ages.push(90_000);
            ages
        }];
        for ages in cases {
            for scale in [1, 2, 3, 1_000_003] {
                let mut left: Vec<u64> = ages.iter().map(|age| age * scale).collect();
                while let Some(ended_ns) = Standstill::of(&left, 0).and_then(|it| it.ended_ns) {
                    let before = left.len();
                    left.retain(|&age_ns| age_ns < ended_ns);
                    assert!(left.len() < before, "{ended_ns}");
                }
            }
        }
    }

    #[test]
    fn standstill_ends_where_samples_begin() {
        let ages: Vec<u64> = (0..500).chain(20_000..20_500).map(|age| age * 1000).collect();
        let found = Standstill::of(&ages, 0).unwrap();
        assert!((499_000..1_200_000).contains(&found.ended_ns.unwrap()), "{found:?}");
        assert!((19_000_000..=20_000_000).contains(&found.began_ns), "{found:?}");
        let lasts: Vec<u64> = (20_000..20_500).map(|age| age * 1000).collect();
        assert_eq!(Standstill::of(&lasts, 0).unwrap().ended_ns, None);
        let steady: Vec<u64> = (0..500).map(|age| age * 1000).collect();
        assert_eq!(Standstill::of(&steady, 0), None);
    }
}
