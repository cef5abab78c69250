//! How numbers are written: bytes in binary units, objects, shares and intervals. Every function takes any `f64`; what
//! is not a number becomes `–`.

use crate::estimate::{Estimate, SampleUnit};
use jiff::Timestamp;
use jiff::tz::TimeZone;

const NOT_A_NUMBER: &str = "–";
const BINARY_UNITS: [&str; 9] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"];
const DECIMAL_UNITS: [&str; 5] = ["", "k", "M", "G", "T"];

/// Beside a wider interval, relative to the value, a third digit says nothing.
const ROUGH_SHARE: f64 = 0.1;

/// A value of a sample type: `format_bytes` or `format_objects`.
pub fn format_value(value: f64, unit: SampleUnit) -> String {
    match unit {
        SampleUnit::Bytes => format_bytes(value),
        SampleUnit::Objects => format_objects(value),
    }
}

/// Bytes in binary units with three significant digits: `0 B`, `512 B`, `4.05 MiB`, `-31.0 MiB`.
pub fn format_bytes(bytes: f64) -> String {
    let Some((number, unit)) = scaled(bytes, 1024.0, &BINARY_UNITS) else {
        return NOT_A_NUMBER.into();
    };
    format!("{number} {unit}")
}

/// A count, rounded, with thousands separators: `1,234,567`.
pub fn format_objects(objects: f64) -> String {
    if objects.is_nan() {
        return NOT_A_NUMBER.into();
    }
    // Adding 0.0 turns −0.0, which is what −0.4 rounds to, into 0.
    let digits = format!("{:.0}", objects.round().clamp(-1e18, 1e18) + 0.0);
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits.as_str()),
    };
    let mut out = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count for a narrow column, with three significant digits: `999`, `12.3k`, `4.05M`.
pub fn format_objects_short(objects: f64) -> String {
    match scaled(objects, 1000.0, &DECIMAL_UNITS) {
        Some((number, unit)) => number + unit,
        None => NOT_A_NUMBER.into(),
    }
}

/// `part` of `whole` in percent: `29.6%`; `0.00%` for nothing of nothing, `–` for something of nothing.
pub fn format_percent(part: f64, whole: f64) -> String {
    if part == 0.0 {
        return format_share(0.0);
    }
    format_share(part / whole)
}

/// A share of 1 in percent: `0.02%`, `29.6%`, `100%`, `-3.10%`; never more precise than 0.01%.
pub fn format_share(share: f64) -> String {
    if !share.is_finite() {
        return NOT_A_NUMBER.into();
    }
    format!("{}%", three_digits((share * 100.0).clamp(-1e6, 1e6)))
}

/// An estimated value, with as many digits as its interval leaves: three, or two if it is wider than ±10%.
pub fn format_amount(estimate: Estimate, unit: SampleUnit) -> String {
    let is_rough = estimate.half_width_95() > ROUGH_SHARE * estimate.value.abs();
    if !is_rough || estimate.is_part() {
        return format_value(estimate.value, unit);
    }
    match unit {
        SampleUnit::Bytes => format_rough_bytes(estimate.value),
        SampleUnit::Objects => format_objects(rounded_to_two(estimate.value)),
    }
}

/// A value with its interval: `108 MiB (±8.3%)`, `3.0 MiB (≤7.8 MiB)`; `108 MiB` where all was counted, `≥ 108 MiB` where records were
/// lost, `0 B` of nothing.
pub fn format_estimate(estimate: Estimate, unit: SampleUnit) -> String {
    let value = format_amount(estimate, unit);
    if estimate.is_part() {
        format!("≥ {value}")
    } else if estimate.variance.is_nan() || estimate.half_width_95() < 0.5 {
        value
    } else {
        format!("{value} ({})", format_error(estimate, unit))
    }
}

/// Bytes of a term of a sum: `108 MiB (±8.3%)`; `108 MiB` where all was counted, `up to 31 MiB` where the interval is wider than
/// the value.
pub fn format_term(bytes: Estimate) -> String {
    let half_width = bytes.half_width_95();
    if bytes.is_part() {
        return format!("≥ {}", format_bytes(bytes.value));
    }
    if half_width == 0.0 || half_width.is_nan() {
        return format_bytes(bytes.value);
    }
    if half_width >= bytes.value.abs() {
        return format!("up to {}", format_rough_bytes(bytes.value + half_width));
    }
    let value = format_amount(bytes, SampleUnit::Bytes);
    format!("{value} ({})", format_relative_error(bytes))
}

/// The uncertainty of a value that rests on samples: its interval, or an upper bound if there are fewer than 10 samples: `±13%`, `≤7.8 MiB`.
pub fn format_error(estimate: Estimate, unit: SampleUnit) -> String {
    if !estimate.has_few_samples() || estimate.value <= 0.0 || !estimate.variance.is_normal() {
        return format_relative_error(estimate);
    }
    let bound = Estimate::new(estimate.upper_bound_95(), estimate.variance);
    format!("≤{}", format_amount(bound, unit))
}

/// The 95% interval relative to the value: `±1.8%`; `±0%` where everything was recorded, `±>999%` where the
/// value is noise, `≥` where records were lost, `–` of nothing.
pub fn format_relative_error(estimate: Estimate) -> String {
    let half_width = estimate.half_width_95();
    if estimate.is_part() {
        return "≥".into();
    }
    if estimate.is_nothing() {
        return NOT_A_NUMBER.into();
    }
    if half_width == 0.0 {
        return "±0%".into();
    }
    let percent = 100.0 * half_width / estimate.value.abs();
    match percent {
        _ if percent.is_nan() => NOT_A_NUMBER.into(),
        _ if percent >= 999.5 => "±>999%".into(),
        _ if percent >= 9.95 => format!("±{percent:.0}%"),
        _ if percent < 0.05 => "±<0.1%".into(),
        _ => format!("±{percent:.1}%"),
    }
}

/// The 95% interval in the value's own unit: `±73.1 MiB`.
pub fn format_half_width(estimate: Estimate, unit: SampleUnit) -> String {
    if estimate.is_part() {
        return "± unknown".into();
    }
    format!("±{}", format_value(estimate.half_width_95(), unit))
}

/// Bytes per hour with their 95% interval: `12.0 MiB/h (±1.41 MiB)`; without ± where all was counted.
pub fn format_per_hour(bytes: Estimate) -> String {
    let rate = format!("{}/h", format_bytes(bytes.value));
    if bytes.variance.is_nan() || bytes.half_width_95() < 0.5 {
        return rate;
    }
    format!("{rate} ({})", format_half_width(bytes, SampleUnit::Bytes))
}

/// A duration for people, with the precision that its size deserves: `0 ms`, `8.7 s`, `42 s`, `3 min`, `5.0 h`, `2.1 d`.
pub fn format_duration(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match seconds {
        _ if seconds < 0.0995 => format!("{:.0} ms", seconds * 1e3),
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        _ if seconds < 119.5 => format!("{seconds:.0} s"),
        _ if seconds < 7170.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 172_620.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} d", seconds / 86_400.0),
    }
}

/// How long to wait until something is known: in whole seconds, at least one.
pub fn format_wait(ns: u64) -> String {
    const SECOND_NS: u64 = 1_000_000_000;
    format_duration(ns.div_ceil(SECOND_NS).max(1) * SECOND_NS)
}

/// A time in ns since 1970 in this machine's time zone, as `SRC@` reads it: `2026-11-21T20:57:03+01:00`, or with `Z` for UTC.
pub fn format_local_time(unix_ns: u64) -> String {
    zoned_text(unix_ns, TimeZone::system())
}

fn zoned_text(unix_ns: u64, zone: TimeZone) -> String {
    let time = timestamp(unix_ns).to_zoned(zone);
    let zone = if time.offset().is_zero() { "Z" } else { "%:z" };
    time.strftime(&format!("%Y-%m-%dT%H:%M:%S{zone}")).to_string()
}

fn timestamp(unix_ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default()
}

/// Bytes in binary units with two significant digits: `4.1 MiB`, `740 MiB`.
fn format_rough_bytes(bytes: f64) -> String {
    let Some((_, unit)) = scaled(bytes, 1024.0, &BINARY_UNITS) else { return NOT_A_NUMBER.into() };
    let power = BINARY_UNITS.iter().position(|of| *of == unit).unwrap_or(0) as i32;
    let rough = rounded_to_two(bytes / 1024f64.powi(power));
    let decimals = if power > 0 && rough.abs() < 9.95 { 1 } else { 0 };
    format!("{rough:.decimals$} {unit}")
}

fn rounded_to_two(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let step = 10f64.powf(value.abs().log10().floor() - 1.0);
    (value / step).round() * step
}

/// The number with three significant digits and the largest unit in which it is not below 1; whole in the first unit.
/// `None` if it is not a number.
fn scaled(value: f64, step: f64, units: &[&'static str]) -> Option<(String, &'static str)> {
    if value.is_nan() {
        return None;
    }
    let largest = step.powi(units.len() as i32) - 1.0;
    let mut scaled = value.clamp(-largest, largest);
    if scaled.abs().round() < step {
        return Some((format!("{:.0}", scaled.round() + 0.0), units[0]));
    }
    let mut unit = 0;
    // A value that would be printed as a full step belongs to the next unit: 1023.7 KiB is 1.00 MiB.
    while scaled.abs().round() >= step && unit + 1 < units.len() {
        scaled /= step;
        unit += 1;
    }
    Some((three_digits(scaled), units[unit]))
}

fn three_digits(value: f64) -> String {
    let magnitude = value.abs();
    let text = match magnitude {
        _ if magnitude >= 99.95 => format!("{value:.0}"),
        _ if magnitude >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    if text == "-0.00" { "0.00".into() } else { text }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
