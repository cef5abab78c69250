//! What flags take as values.

use ramson_format::settings::{self, MAX_INTERVAL_BYTES, parse_bound};
use ramson_profile::SampleType;

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

/// The same sizes that libramson.so reads: a whole number with an optional K, M, G or T and an optional B or iB.
pub fn parse_size(text: &str) -> Option<u64> {
    settings::parse_size(text.as_bytes())
}

pub fn parse_sample_type(text: &str) -> Result<SampleType, String> {
    SampleType::from_name(text)
        .ok_or_else(|| "one of inuse_space, inuse_objects, alloc_space, alloc_objects".into())
}
