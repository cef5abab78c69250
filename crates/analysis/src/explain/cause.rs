//! A part of RSS in plain words.

use ramson_profile::Estimate;
use serde::Serialize;

/// Less than this, and less than this share of RSS, is not worth a sentence …
const LEAST_BYTES: u64 = 1 << 20;
/// … nor a change.
const LEAST_SHARE: f64 = 0.05;

/// A part of RSS, and why it is there.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Cause {
    /// The name in `--json`.
    pub cause: &'static str,
    /// Resident bytes; of `growing`, live ones.
    pub bytes: Estimate,
    /// For people.
    pub sentence: String,
}

/// Bytes from which on a part of so much RSS is worth a sentence.
pub fn least(rss_bytes: u64) -> u64 {
    LEAST_BYTES.max((rss_bytes as f64 * LEAST_SHARE) as u64)
}
