//! The values that flags take.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use ramson_analysis::question;
use ramson_apart::Budget;
use ramson_format::settings::{self, MAX_INTERVAL_BYTES, parse_bound};
use ramson_history::duration;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The reader itself takes some.
const LEAST_BUDGET_BYTES: u64 = 16 << 20;
/// The kernel counts processor time in hundredths of a second.
const LEAST_BUDGET_TIME: Duration = Duration::from_millis(1);
pub const DAY_NS: u64 = 86_400_000_000_000;
/// One of some words.
pub fn one_of<T: Clone + Send + Sync + 'static, const N: usize>(
    choices: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    let words = PossibleValuesParser::new(choices.each_ref().map(|(word, _)| *word));
    words.try_map(move |text| {
        let found = choices.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| value.clone()).ok_or("no such word")
    })
}

pub fn parse_interval(text: &str) -> Result<u64, String> {
    match parse_size(text) {
        Some(bytes) if (1..=MAX_INTERVAL_BYTES).contains(&bytes) => Ok(bytes),
        Some(0) => Err("0 would sample nothing; use 1 to record every allocation, or run the program without ramson".into()),
        _ => Err("not a size between 1 and 1024T; use bytes, or K, M, G as in 512K".into()),
    }
}

/// As libramson.so reads it, which is where it goes.
pub fn parse_max_overhead(text: &str) -> Result<String, String> {
    if parse_bound(text.as_bytes()).is_some() {
        return Ok(text.to_owned());
    }
    Err("not a percentage from 0.001 to 90, as in 0.5; 0 or off sets no bound".into())
}

/// The same sizes that libramson.so reads: a whole number with an optional K, M, G or T and an
/// optional B or iB.
pub fn parse_size(text: &str) -> Option<u64> {
    settings::parse_size(text.as_bytes())
}

/// A size within bounds; `expected` says which.
pub fn size(
    bounds: RangeInclusive<u64>,
    expected: &'static str,
) -> impl Fn(&str) -> Result<u64, &'static str> + Clone {
    move |text| parse_size(text).filter(|bytes| bounds.contains(bytes)).ok_or(expected)
}

/// A time within bounds, in nanoseconds; `expected` says which.
pub fn time(
    bounds: RangeInclusive<u64>,
    expected: &'static str,
) -> impl Fn(&str) -> Result<u64, &'static str> + Clone {
    move |text| duration(text).filter(|ns| bounds.contains(ns)).ok_or(expected)
}

/// `30d`, `12h`, `45m`, `90s`, in nanoseconds; `off`, the largest, for no bound.
pub fn parse_age(text: &str) -> Result<u64, &'static str> {
    let age = if text == "off" { Some(u64::MAX) } else { duration(text) };
    age.ok_or("not an age: a number with d, h, m or s, as in 30d, or off")
}

/// A size as everywhere; `off`, the largest, for no bound.
pub fn parse_total(text: &str) -> Result<u64, &'static str> {
    let total = if text == "off" { Some(u64::MAX) } else { parse_size(text) };
    total.ok_or("not a size: bytes, or with K, M or G, as in 1G, or off")
}

/// A size and a time, as in `2G,60s`.
pub fn parse_budget(text: &str) -> Result<Budget, &'static str> {
    let parsed = text.split_once(',').and_then(|(size, time)| {
        let memory_bytes = parse_size(size).filter(|bytes| *bytes >= LEAST_BUDGET_BYTES)?;
        let time = Duration::from_nanos(question::time(time).ok()?);
        (time >= LEAST_BUDGET_TIME).then_some(Budget { memory_bytes, time: Some(time) })
    });
    parsed.ok_or("not a size of at least 16M and a time of at least 1ms, as in 2G,60s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_size_and_time() {
        let budget = parse_budget("2G,60s").unwrap();
        assert_eq!((budget.memory_bytes, budget.time), (2 << 30, Some(Duration::from_secs(60))));
        for wrong in ["", "2G", "60s", "2G,", "1K,60s", "2G,60", "2G,0s", "16M,1ns", "2G,60s,1"] {
            assert!(parse_budget(wrong).is_err(), "{wrong}");
        }
    }
}
