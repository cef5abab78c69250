//! The matrix: small hostile programs, each run plain and under ramson, over every allocator and at every interval. The
//! results that a user of the program could see must be equal; what ramson says of the program must be true.
//!
//! `program` reads what a program's first comment says, `build` compiles it, `cell` runs it once, `verdict` compares,
//! `known` holds the cells that `docs/internals/edge-cases.md` gives up, `matrix` runs them all and counts.

mod build;
mod cell;
mod known;
mod matrix;
mod program;
mod verdict;

pub use cell::{Allocator, Interval};
pub use known::Known;
pub use matrix::{Matrix, Outcome};
pub use program::{Program, programs};
