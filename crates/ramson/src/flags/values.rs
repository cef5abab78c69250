//! What flags take as values.

use ramson_format::settings::{self, MAX_INTERVAL_BYTES, parse_bound};
use ramson_profile::{Pattern, SampleType};
use std::time::Duration;

const DAY: u64 = 86_400;

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

pub fn parse_max_file(text: &str) -> Result<u64, String> {
    let (least, most) = ramson_format::FILE_BYTES_RANGE;
    parse_size(text)
        .filter(|bytes| (least..=most).contains(bytes))
        .ok_or_else(|| "not a size between 1M and 4G".into())
}

/// The same sizes that libramson.so reads: a whole number with an optional K, M, G or T and an
/// optional B or iB.
pub fn parse_size(text: &str) -> Option<u64> {
    settings::parse_size(text.as_bytes())
}

pub fn parse_sample_type(text: &str) -> Result<SampleType, String> {
    SampleType::from_name(text)
        .ok_or_else(|| "one of inuse_space, inuse_objects, alloc_space, alloc_objects".into())
}

/// `500ms`, `30s`, `10m`, `6h`, `7d`, in nanoseconds.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    const MOST_NS: u64 = 1000 * 86_400_000_000_000;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit_ns = match &text[digits..] {
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => 0,
    };
    let value: Option<u64> = text[..digits].parse().ok();
    value
        .and_then(|value| value.checked_mul(unit_ns))
        .filter(|ns| (1..=MOST_NS).contains(ns))
        .ok_or_else(|| "not a time up to 1000d; as 500ms, 30s, 10m, 6h or 7d".into())
}

/// An amount of memory to trim after: not 0.
pub fn parse_freed(text: &str) -> Result<u64, String> {
    parse_size(text).filter(|&bytes| bytes > 0).ok_or_else(|| "not a size, as 512M or 1GiB".into())
}

/// For flags that are regular expressions.
pub fn parse_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text).map_err(|error| error.to_string())
}

/// A flag's value. `None`: off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound<T>(pub Option<T>);

/// `30d`, `12h`, `45m`, `90s`; `off` for no bound.
pub fn parse_age(text: &str) -> Result<Bound<Duration>, String> {
    if text == "off" {
        return Ok(Bound(None));
    }
    let units = [('d', DAY), ('h', 3600), ('m', 60), ('s', 1)];
    let age = units.iter().find_map(|&(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(seconds).map(Duration::from_secs)
    });
    age.map(|age| Bound(Some(age)))
        .ok_or_else(|| "not an age: a number with d, h, m or s, as in 30d, or off".into())
}

/// A size as everywhere; `off` for no bound.
pub fn parse_total(text: &str) -> Result<Bound<u64>, String> {
    if text == "off" {
        return Ok(Bound(None));
    }
    let size = parse_size(text);
    size.map(|size| Bound(Some(size)))
        .ok_or_else(|| "not a size: bytes, or with K, M or G, as in 1G, or off".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_an_end() {
        assert_eq!(parse_duration("10m"), Ok(600_000_000_000));
        assert_eq!(parse_duration("500ms"), Ok(500_000_000));
        for wrong in ["", "10", "m", "0s", "1.5h", "-1s", "1w", "1001d", "99999999999999999999s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
