//! How `ramson explain` writes amounts: each estimate with its ±, and with its share of RSS.

use ramson_profile::format::{
    format_amount, format_bytes, format_half_width, format_percent, format_relative_error,
    format_share, format_term,
};
use ramson_profile::{Estimate, NORMAL_QUANTILE_975, SampleUnit};

/// Frames that name a call site: the one next to malloc alone is often a wrapper.
const SHOWN_FRAMES: usize = 2;

/// `30.1 MiB (±701 KiB; 39.0%)`: bytes with their share of RSS.
pub fn amount(bytes: Estimate, rss_bytes: u64) -> String {
    // An estimate may exceed the whole.
    if bytes.value > rss_bytes as f64 {
        return measured(bytes);
    }
    let value = format_amount(bytes, SampleUnit::Bytes);
    let share = format_percent(bytes.value, rss_bytes as f64);
    if bytes.is_part() {
        format!("At least {value} ({share})")
    } else if is_exact(bytes) {
        format!("{value} ({share})")
    } else {
        format!("{value} ({}; {share})", format_half_width(bytes, SampleUnit::Bytes))
    }
}

/// `28.0 KiB (±1.20 KiB)`; without ± where it was counted.
pub fn measured(bytes: Estimate) -> String {
    let value = format_amount(bytes, SampleUnit::Bytes);
    if bytes.is_part() {
        format!("at least {value}")
    } else if is_exact(bytes) {
        value
    } else if bytes.half_width_95() >= bytes.value.abs() {
        format_term(bytes)
    } else {
        format!("{value} ({})", format_half_width(bytes, SampleUnit::Bytes))
    }
}

/// `65.4% (±12%)`: what part is of the whole, of which it is one of independent parts. `None` where records were lost.
pub fn share(part: Estimate, whole: Estimate) -> Option<String> {
    let rest = (whole.value - part.value).max(0.0);
    let sum = part.value + rest;
    let of_rest = (whole.variance - part.variance).max(0.0);
    let variance = (rest.powi(2) * part.variance + part.value.powi(2) * of_rest) / sum.powi(4);
    let share = Estimate::new(part.value / sum, variance);
    if !share.value.is_finite() || !variance.is_finite() {
        return None;
    }
    let value = format_share(share.value);
    let is_sure = half_width_is_invisible(share);
    Some(if is_sure { value } else { format!("{value} ({})", format_relative_error(share)) })
}

/// A value whose 95% interval is known.
pub fn with_half_width(value: f64, half_width_95: f64) -> Estimate {
    Estimate::new(value, (half_width_95 / NORMAL_QUANTILE_975).powi(2))
}

pub fn size(bytes: u64) -> String {
    format_bytes(bytes as f64)
}

/// The frames next to malloc.
pub fn site(frames: &[String]) -> String {
    match &frames[..SHOWN_FRAMES.min(frames.len())] {
        [] => "(no frames)".into(),
        frames => frames.join(" ← "),
    }
}

/// A clause or sentence as a sentence.
pub fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str() + "."
}

fn is_exact(bytes: Estimate) -> bool {
    bytes.variance.is_nan() || bytes.half_width_95() < 0.5
}

fn half_width_is_invisible(share: Estimate) -> bool {
    share.half_width_95() < 5e-5
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;

    fn estimate(mib: f64, half_width_mib: f64) -> Estimate {
        with_half_width(mib * MIB, half_width_mib * MIB)
    }

    #[test]
    fn estimates_have_intervals_and_counts_none() {
        let rss = 100 << 20;
        assert_eq!(amount(estimate(30.0, 0.0), rss), "30.0 MiB (30.0%)");
        assert_eq!(amount(estimate(30.0, 2.0), rss), "30.0 MiB (±2.00 MiB; 30.0%)");
        assert_eq!(amount(estimate(30.0, 2.0).as_part(), rss), "At least 30.0 MiB (30.0%)");
        assert_eq!(measured(estimate(30.0, 2.0)), "30.0 MiB (±2.00 MiB)");
        assert_eq!(measured(estimate(30.0, 0.0)), "30.0 MiB");
    }

    #[test]
    fn share_has_uncertainty_of_both_parts() {
        // 60 ± 12 of 60 ± 12 + 40 ± 9: by the delta method (40² · 12² + 60² · 9²)^½ / 100².
        let (part, rest) = (estimate(60.0, 12.0), estimate(40.0, 9.0));
        assert_eq!(share(part, part + rest).unwrap(), "60.0% (±12%)");
        assert_eq!(share(part, part).unwrap(), "100%");
        assert_eq!(share(part.as_part(), (part + rest).as_part()), None);
        assert_eq!(share(Estimate::default(), Estimate::default()), None);
    }
}
