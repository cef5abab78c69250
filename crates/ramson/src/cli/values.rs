//! What flags take as values.

use ramson_profile::SampleType;

pub fn parse_interval(text: &str) -> Result<u64, String> {
    const MOST: u64 = 1 << 50;
    match parse_size(text) {
        Some(bytes) if (1..=MOST).contains(&bytes) => Ok(bytes),
        Some(0) => Err("0 would sample nothing; use 1 to record every allocation, or run the program without ramson".into()),
        _ => Err("not a size between 1 and 1024T; use bytes, or K, M, G as in 512K".into()),
    }
}

/// As libramson.so reads it, which is where it goes.
pub fn parse_max_overhead(text: &str) -> Result<String, String> {
    const LEAST: f64 = ramson_format::MAX_OVERHEAD_PPM_RANGE.0 as f64 / 1e4;
    const MOST: f64 = ramson_format::MAX_OVERHEAD_PPM_RANGE.1 as f64 / 1e4;
    let has_form = |(whole, decimals): (&str, &str)| {
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number(whole)
            && is_number(decimals)
            && !whole.is_empty()
            && (1..=4).contains(&decimals.len())
    };
    let is_plain = has_form(text.split_once('.').unwrap_or((text, "0")));
    let is_in_range = |percent: f64| percent == 0.0 || (LEAST..=MOST).contains(&percent);
    let is_number = is_plain && text.parse().is_ok_and(is_in_range);
    if text == "off" || is_number {
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
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let value: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].to_ascii_uppercase();
    let shift = match unit.trim_end_matches("IB").trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    (value <= u64::MAX >> shift).then(|| value << shift)
}

pub fn parse_sample_type(text: &str) -> Result<SampleType, String> {
    SampleType::from_name(text)
        .ok_or_else(|| "one of inuse_space, inuse_objects, alloc_space, alloc_objects".into())
}
