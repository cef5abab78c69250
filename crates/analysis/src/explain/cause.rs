//! A part of RSS in plain words.

use ramson_profile::Estimate;
use serde::Serialize;

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
