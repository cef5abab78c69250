//! How `ramson explain` writes amounts: each estimate with its ±, and with its share of RSS.

use ramson_profile::format::{
    format_amount, format_bytes, format_half_width, format_percent, format_term,
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
}
