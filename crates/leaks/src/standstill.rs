//! A standstill: a time in which hardly anything was added, unlike before and after it. Growth is not averaged over it, and has ended if
//! it lasts until now. Several pauses of similar length are a wave, which is one rate.

use std::ops::Range;

/// The time is divided into so many parts of equal length.
const PARTS: usize = 64;
/// A part is quiet if it has less than this share of the mean.
const QUIET_SHARE: f64 = 0.25;
/// So many rows of quiet parts, none of them twice as long as another, are waves.
const LEAST_WAVES: usize = 3;
/// Least logarithm of the likelihood ratio of two rates and one: ln 1,000, for each of the pairs of parts with which it may begin and end.
const LEAST_GAIN: f64 = 6.9 + 2.0 * 4.16;

/// A time without growth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Standstill {
    /// It lasts until now.
    Lasts,
    /// It ended at this age.
    EndedAt(u64),
}

impl Standstill {
    /// The youngest one, from the age `from_ns` on, which no sample is below; `ages` ascend.
    pub fn of(ages: &[u64], from_ns: u64) -> Option<Self> {
        let part_ns = (ages.last()? - from_ns).div_ceil(PARTS as u64).max(1);
        let mut counts = [0; PARTS];
        for age_ns in ages {
            counts[(((age_ns - from_ns) / part_ns) as usize).min(PARTS - 1)] += 1;
        }
        let mut rows = quiet_rows(&counts, QUIET_SHARE * ages.len() as f64 / PARTS as f64);
        let longest = rows.iter().map(Range::len).max()?;
        rows.retain(|row| row.len() * 2 > longest);
        let youngest = rows.first().filter(|_| rows.len() < LEAST_WAVES)?;
        let samples = counts[youngest.clone()].iter().sum();
        if gain(samples, youngest.len(), ages.len()) < LEAST_GAIN {
            return None;
        }
        Some(match youngest.start {
            0 => Self::Lasts,
            part => Self::EndedAt(from_ns + part as u64 * part_ns),
        })
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
