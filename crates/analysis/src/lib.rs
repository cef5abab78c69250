//! From a source to an answer. Every answer is a value that carries its defects and serializes: `--json` prints it, a table
//! renders it, a server sends it.
//!
//! `named` joins snapshot and symbols to a profile, `naming` looks names up, `selection` takes the part that is asked for, `overlap`
//! tells what two moments of a process share, `delta` what one has more than the other, `lookup` names single addresses, `source_lines`
//! shows source code with what its lines hold, `extents` what the program mapped itself. `rss` explains resident memory, `coverage` what
//! of it the profile does not see and `owners` whose that is, `recording` what recording cost, `end` how a process ended, `summary` is
//! all of these, `members` are several processes as one. `report`, `comparison`, `suspects`, `explain`, `flame` (coloured by a `tint`),
//! `frees`, `gc`, `timeline` (with the `steps` of RSS) and `listing` are the answers, `question` is what they answer; `live` is one that goes on.
#![forbid(unsafe_code)]

pub mod answer;
pub mod attachment;
mod biases;
pub mod calibration;
pub mod comparison;
mod coverage;
pub mod delta;
mod early_ends;
pub mod end;
pub mod explain;
mod extents;
pub mod flame;
pub mod frees;
pub mod gc;
mod go_library;
pub mod goroutines;
pub mod hash;
pub mod inside;
pub mod interval;
pub mod listing;
pub mod live;
pub mod lookup;
mod lost;
pub mod members;
pub mod named;
pub mod naming;
mod overlap;
mod owners;
pub mod question;
pub mod recording;
pub mod report;
pub mod rss;
pub mod selection;
pub mod source_lines;
pub mod stack_table;
pub mod steps;
pub mod summary;
pub mod suspects;
pub mod terms;
pub mod timeline;
pub mod tint;

pub use coverage::Coverage;
pub use extents::{MmapSums, has_go, live_heap, lost_text};
pub use overlap::is_same_process;
pub use selection::{Applied, Selection};
