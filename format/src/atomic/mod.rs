//! The atomic words that the format is made of: the processor's own, or, under `--cfg loom`, words that loom watches, so that a
//! model runs the recorder's real code on a real file.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, fence};

#[cfg(loom)]
mod modelled;
#[cfg(loom)]
pub use modelled::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Seen, copy, fence, model};
