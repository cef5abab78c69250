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
    assert_eq!(format_estimate(of(12.0), SampleUnit::Bytes), "6.0 MiB (±57%)");
}

#[test]
fn term_within_its_interval_is_a_bound() {
    let of = |value: f64, half_width: f64| {
        format_term(Estimate::new(value * MIB, (half_width * MIB / 1.959964).powi(2)))
    };
    assert_eq!(of(113.0, 174.0), "up to 290 MiB");
    assert_eq!(of(113.0, 100.0), "110 MiB (±88%)");
    assert_eq!(of(113.0, 0.0), "113 MiB");
    assert_eq!(of(113.0, 5.0), "113 MiB (±4.4%)");
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
    assert_eq!(format_percent(29.6, 100.0), "29.6%");
    assert_eq!(format_percent(1.0, 1.0), "100%");
    assert_eq!(format_percent(-3.1, 100.0), "-3.10%");
    assert_eq!(format_percent(0.0, 0.0), "0.00%");
    assert_eq!(format_percent(1.0, 0.0), "–");
    assert_eq!(format_percent(-1e-9, 1.0), "0.00%");
}

#[test]
fn intervals_are_relative_or_absolute() {
    let of = |value, half_width: f64| Estimate::new(value, (half_width / 1.959964).powi(2));
    assert_eq!(format_relative_error(of(100.0, 1.8)), "±1.8%");
    assert_eq!(format_relative_error(of(-100.0, 18.2)), "±18%");
    assert_eq!(format_relative_error(of(100.0, 0.01)), "±<0.1%");
    assert_eq!(format_relative_error(of(100.0, 0.0)), "±0%");
    assert_eq!(format_relative_error(of(0.0, 5.0)), "±>999%");
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
    assert_eq!(text(of(108.0, 13.0)), "110 MiB (±12%)");
    assert_eq!(text(of(108.0, 0.0)), "108 MiB");
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
fn waits_are_never_over() {
    for (ns, text) in [(0, "1.0 s"), (20_000_000, "1.0 s"), (61_200_000_000, "62 s")] {
        assert_eq!(format_wait(ns), text, "{ns}");
    }
}

#[test]
fn times_have_their_zone() {
    let second = 1_000_000_000;
    for (seconds, hours, text) in [
        (0, 0, "1970-01-01T00:00:00Z"),
        (951_782_399, 0, "2000-02-28T23:59:59Z"),
        (951_782_400, 1, "2000-02-29T01:00:00+01:00"),
        (1_798_761_599, -8, "2026-12-31T15:59:59-08:00"),
        (4_107_542_400, 0, "2100-03-01T00:00:00Z"),
    ] {
        let zone = TimeZone::fixed(jiff::tz::offset(hours));
        assert_eq!(zoned_text(seconds * second, zone), text);
    }
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
