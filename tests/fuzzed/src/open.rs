//! Seeds that still break a reader.

/// Target and seed. They are not replayed, nor are mutations for a target that stands here; `replay --open SEED TARGET` tries one.
pub const OPEN: &[(&str, &str)] = &[];
