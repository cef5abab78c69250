//! The statistics of the C library's allocator: its arenas, what is in use in them, and what was freed and kept. Nothing here
//! stops the process. The walk of a busy heap may tear: what could not be walked is counted as such, never guessed.

mod caches;
mod find;
mod heaps;
mod layout;
mod lists;
mod map;
mod mapped_chunks;
mod mapped_main;
mod piece;
mod pins;
mod possible;
mod reading;
mod runs;
mod statistics;
mod strata;
mod sums;
mod survey;
mod tails;
mod walk;
mod window;

pub use find::{LibraryData, Parameters};
pub use map::{Cell, HeapMap};
pub use pins::{Beside, beside};
pub use reading::{Effort, MOST_WALKED_BYTES, read};
pub use statistics::{Arena, Kept, Range, Space, Spreads, Statistics};
pub use strata::Spread;
