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

/// `part` of `whole` in percent: `29.6 %`; `0.00 %` for nothing of nothing, `–` for something of nothing.
pub fn format_percent(part: f64, whole: f64) -> String {
    if part == 0.0 {
        return format_share(0.0);
    }
    format_share(part / whole)
}

/// A share of 1 in percent: `0.02 %`, `29.6 %`, `100 %`, `-3.10 %`; never more precise than 0.01 %.
pub fn format_share(share: f64) -> String {
    if !share.is_finite() {
        return NOT_A_NUMBER.into();
    }
    format!("{} %", three_digits((share * 100.0).clamp(-1e6, 1e6)))
}

/// An estimated value, with as many digits as its interval leaves: three, or two if it is wider than ±10 %.
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

/// A value with its interval: `108 MiB (±8.3 %)`, `3.0 MiB (≤7.8 MiB)`; `≥ 108 MiB` where records were lost, `0 B` of nothing.
pub fn format_estimate(estimate: Estimate, unit: SampleUnit) -> String {
    let value = format_amount(estimate, unit);
    if estimate.is_part() {
        format!("≥ {value}")
    } else if estimate.is_nothing() || estimate.variance.is_nan() {
        value
    } else {
        format!("{value} ({})", format_error(estimate, unit))
    }
}

/// Bytes of a term of a sum: `108 MiB (±8.3 %)`; `108 MiB` where all was counted, `up to 31 MiB` where the interval is wider than
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

/// The uncertainty of a value that rests on samples: its interval, or an upper bound if there are fewer than 10 samples: `±13 %`, `≤7.8 MiB`.
pub fn format_error(estimate: Estimate, unit: SampleUnit) -> String {
    if !estimate.has_few_samples() || estimate.value <= 0.0 || !estimate.variance.is_normal() {
        return format_relative_error(estimate);
    }
    let bound = Estimate::new(estimate.upper_bound_95(), estimate.variance);
    format!("≤{}", format_amount(bound, unit))
}

/// The 95 % interval relative to the value: `±1.8 %`; `±0 %` where everything was recorded, `±>999 %` where the
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
        return "±0 %".into();
    }
    let percent = 100.0 * half_width / estimate.value.abs();
    match percent {
        _ if percent.is_nan() => NOT_A_NUMBER.into(),
        _ if percent >= 999.5 => "±>999 %".into(),
        _ if percent >= 9.95 => format!("±{percent:.0} %"),
        _ if percent < 0.05 => "±<0.1 %".into(),
        _ => format!("±{percent:.1} %"),
    }
}

/// The 95 % interval in the value's own unit: `±73.1 MiB`.
pub fn format_half_width(estimate: Estimate, unit: SampleUnit) -> String {
    if estimate.is_part() {
        return "± unknown".into();
    }
    format!("±{}", format_value(estimate.half_width_95(), unit))
}

/// Bytes per hour with their 95 % interval: `12.0 MiB/h (±1.41 MiB)`; without ± where all was counted.
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

/// A time in ns since 1970 as `2026-11-21 20:57:03 UTC`.
pub fn format_utc(unix_ns: u64) -> String {
    let time = timestamp(unix_ns).to_zoned(TimeZone::UTC);
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A time in ns since 1970 in this machine's time zone, as `SRC@` reads it: `2026-11-21T20:57:03`.
pub fn format_local_time(unix_ns: u64) -> String {
    let time = timestamp(unix_ns).to_zoned(TimeZone::system());
    time.strftime("%Y-%m-%dT%H:%M:%S").to_string()
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
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;

    #[test]
    fn bytes_have_binary_units() {
        for (bytes, text) in [
            (0.0, "0 B"),
            (-0.0, "0 B"),
            (-0.3, "0 B"),
            (1.0, "1 B"),
            (1023.4, "1023 B"),
            (1023.6, "1.00 KiB"),
            (1024.0, "1.00 KiB"),
            (4.05 * MIB, "4.05 MiB"),
            (40.5 * MIB, "40.5 MiB"),
            (405.0 * MIB, "405 MiB"),
            (9.996 * MIB, "10.0 MiB"),
            (1023.4 * MIB, "1023 MiB"),
            (1023.6 * MIB, "1.00 GiB"),
            (-31.0 * MIB, "-31.0 MiB"),
            (u64::MAX as f64, "16.0 EiB"),
        ] {
            assert_eq!(format_bytes(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn rough_values_have_two_digits() {
        let of = |value: f64, share: f64| Estimate::new(value, (share * value / 1.959964).powi(2));
        for (estimate, text) in [
            (of(4.056 * MIB, 0.09), "4.06 MiB"),
            (of(4.056 * MIB, 0.11), "4.1 MiB"),
            (of(40.5 * MIB, 0.2), "41 MiB"),
            (of(743.0 * MIB, 0.2), "740 MiB"),
            (of(1019.0 * MIB, 0.2), "1000 MiB"),
            (of(1023.7 * MIB, 0.2), "1.0 GiB"),
            (of(314.0, 0.2), "310 B"),
            (of(-4.056 * MIB, 0.11), "-4.1 MiB"),
        ] {
            assert_eq!(format_amount(estimate, SampleUnit::Bytes), text);
        }
        assert_eq!(format_amount(of(251_682.0, 0.2), SampleUnit::Objects), "250,000");
        assert_eq!(format_amount(of(251_682.0, 0.02), SampleUnit::Objects), "251,682");
    }

    /// Samples of 512 KiB each: 3, and 12.
    #[test]
    fn few_samples_have_an_upper_bound() {
        let of = |samples: f64| Estimate::new(samples * MIB / 2.0, samples * MIB * MIB / 4.0);
        assert_eq!(format_estimate(of(3.0), SampleUnit::Bytes), "1.5 MiB (≤3.9 MiB)");
        assert_eq!(format_estimate(of(12.0), SampleUnit::Bytes), "6.0 MiB (±57 %)");
    }

    #[test]
    fn term_within_its_interval_is_a_bound() {
        let of = |value: f64, half_width: f64| {
            format_term(Estimate::new(value * MIB, (half_width * MIB / 1.959964).powi(2)))
        };
        assert_eq!(of(113.0, 174.0), "up to 290 MiB");
        assert_eq!(of(113.0, 100.0), "110 MiB (±88 %)");
        assert_eq!(of(113.0, 0.0), "113 MiB");
        assert_eq!(of(113.0, 5.0), "113 MiB (±4.4 %)");
    }

    #[test]
    fn objects_have_thousands_separators() {
        for (objects, text) in [
            (0.0, "0"),
            (-0.4, "0"),
            (999.0, "999"),
            (1000.0, "1,000"),
            (-1234567.4, "-1,234,567"),
            (100000.0, "100,000"),
        ] {
            assert_eq!(format_objects(objects), text, "{objects}");
        }
    }

    #[test]
    fn short_objects_have_decimal_units() {
        for (objects, text) in
            [(0.0, "0"), (999.0, "999"), (999.6, "1.00k"), (12345.0, "12.3k"), (-4.05e6, "-4.05M")]
        {
            assert_eq!(format_objects_short(objects), text, "{objects}");
        }
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(format_percent(29.6, 100.0), "29.6 %");
        assert_eq!(format_percent(1.0, 1.0), "100 %");
        assert_eq!(format_percent(-3.1, 100.0), "-3.10 %");
        assert_eq!(format_percent(0.0, 0.0), "0.00 %");
        assert_eq!(format_percent(1.0, 0.0), "–");
        assert_eq!(format_percent(-1e-9, 1.0), "0.00 %");
    }

    #[test]
    fn intervals_are_relative_or_absolute() {
        let of = |value, half_width: f64| Estimate::new(value, (half_width / 1.959964).powi(2));
        assert_eq!(format_relative_error(of(100.0, 1.8)), "±1.8 %");
        assert_eq!(format_relative_error(of(-100.0, 18.2)), "±18 %");
        assert_eq!(format_relative_error(of(100.0, 0.01)), "±<0.1 %");
        assert_eq!(format_relative_error(of(100.0, 0.0)), "±0 %");
        assert_eq!(format_relative_error(of(0.0, 5.0)), "±>999 %");
        assert_eq!(format_relative_error(of(0.0, 0.0)), "–");
        assert_eq!(format_half_width(of(0.0, 73.1 * MIB), SampleUnit::Bytes), "±73.1 MiB");
        assert_eq!(format_per_hour(of(2048.0 * MIB, 416.0 * MIB)), "2.00 GiB/h (±416 MiB)");
        assert_eq!(format_per_hour(of(-3.0 * MIB, 0.0)), "-3.00 MiB/h");
    }

    #[test]
    fn lost_records_give_lower_bound() {
        let of = |value, half_width: f64| {
            let variance = (half_width / 1.959964).powi(2);
            Estimate::new(value * MIB, variance * MIB * MIB)
        };
        let text = |estimate| format_estimate(estimate, SampleUnit::Bytes);
        assert_eq!(text(of(108.0, 13.0)), "110 MiB (±12 %)");
        assert_eq!(text(of(108.0, 0.0)), "108 MiB (±0 %)");
        assert_eq!(text(of(0.0, 0.0)), "0 B");
        assert_eq!(text(of(177.0, 0.0).as_part()), "≥ 177 MiB");
        assert_eq!(text(of(177.0, 0.0).as_part() + of(3.0, 1.0)), "≥ 180 MiB");
        assert_eq!(format_relative_error(of(177.0, 0.0).as_part()), "≥");
    }

    #[test]
    fn durations_keep_two_or_three_digits() {
        for (seconds, text) in [
            (0.0, "0 ms"),
            (0.02, "20 ms"),
            (8.7, "8.7 s"),
            (42.0, "42 s"),
            (180.0, "3 min"),
            (18_000.0, "5.0 h"),
            (181_440.0, "2.1 d"),
        ] {
            assert_eq!(format_duration((seconds * 1e9) as u64), text, "{seconds}");
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let second = 1_000_000_000;
        assert_eq!(format_utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(format_utc(951_782_399 * second), "2000-02-28 23:59:59 UTC");
        assert_eq!(format_utc(951_782_400 * second), "2000-02-29 00:00:00 UTC");
        assert_eq!(format_utc(1_798_761_599 * second), "2026-12-31 23:59:59 UTC");
        assert_eq!(format_utc(4_107_542_400 * second), "2100-03-01 00:00:00 UTC");
    }

    #[test]
    fn strange_numbers_never_print_nan() {
        let strange = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            0.0,
            -0.0,
            1e30,
        ];
        for a in strange {
            for b in strange {
                let estimate = Estimate::new(a, b);
                for text in [
                    format_bytes(a),
                    format_objects(a),
                    format_objects_short(a),
                    format_percent(a, b),
                    format_share(a),
                    format_relative_error(estimate),
                    format_half_width(estimate, SampleUnit::Bytes),
                    format_half_width(estimate, SampleUnit::Objects),
                    format_per_hour(estimate),
                ] {
                    let lower = text.to_lowercase();
                    assert!(!lower.contains("nan") && !lower.contains("inf"), "{a} {b}: {text}");
                    assert!(!text.starts_with("-0 ") && text != "-0", "{a} {b}: {text}");
                    assert!(text.chars().count() < 30, "{a} {b}: {text}");
                }
            }
        }
    }
}
