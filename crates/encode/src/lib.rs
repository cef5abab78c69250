//! Encoders: each turns a profile into bytes of a format that other tools read. Each module is one format and has a `write` that takes
//! the profile and an open output; errors are the output's.
//!
//! A profile whose indices do not point into its tables makes a writer panic: see `Profile::check_indices`.
#![forbid(unsafe_code)]

pub mod collapsed;
pub mod csv;
mod flame;
pub mod heap_text;
pub mod html;
pub mod json;
pub mod markup;
pub mod openmetrics;
pub mod pprof;
pub mod series;
pub mod speedscope;
pub mod svg;
