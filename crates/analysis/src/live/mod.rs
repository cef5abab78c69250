//! A profiled process as it changes: `watch` reads it, `shape` names its stacks, `sums` and `rows` make numbers and rows of
//! both, `picture` holds them. `processes` are all of this machine.

pub mod picture;
pub mod processes;
pub mod row;
pub mod rows;
pub mod shape;
pub mod sums;
pub mod watch;
