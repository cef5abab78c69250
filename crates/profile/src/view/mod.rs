//! Contents of the tables of `report`, as values; `format` says how they are written.
//!
//! - `top`: one row per function.
//! - `tree`: the calls from the root down, or (`callers`) from the leaf up.
//! - `calls`: the call tree in flat arrays; `cut`: that as far as a picture can show it.
//! - `flame`: where the boxes of `tree` lie in a flame graph.
//! - `peek`: the neighbours of some functions.
//! - `largest`: the stacks that hold most.
//! - `sizes`, `threads`: the blocks by size, and by the thread that allocated them.
//! - `magnitude`: the stacks that count, and how much.
//!
//! A function here is what the profile's granularity makes a frame; each inlined line is a frame of
//! its own.
//!
//! *flat* of a function: the stacks whose innermost frame it is. *cum*: the stacks it occurs in, each counted once
//! however often it recurs, so that cum never exceeds the total of a profile that is not a diff.

mod calls;
mod cut;
mod flame;
mod largest;
mod magnitude;
mod peek;
mod sizes;
mod threads;
mod top;
mod tree;

pub use calls::{CallTree, Growing, Walk};
pub use cut::{Cut, CutNode, Cutting};
pub use flame::{FlameBox, FlameGraph, FlameKind, flame};
pub use largest::{LargestStack, largest_stacks};
pub use magnitude::magnitude;
pub use peek::{Neighbour, Peek, PeekTable, peek};
pub use sizes::{SizeRow, SizeTable, sizes};
pub use threads::{ThreadRow, ThreadTable, threads};
pub use top::{Row, Sort, TopTable, top};
pub use tree::{Tree, TreeRow, TreeRowKind, callers, tree};

#[cfg(test)]
#[path = "../view_tests.rs"]
mod tests;
