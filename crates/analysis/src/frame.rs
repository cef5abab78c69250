//! A frame as answers have it.

use ramson_profile::{FrameAt, FrameTable};
use serde::Serialize;
use std::sync::Arc;

/// One function activation.
#[derive(Clone, Debug, Serialize)]
pub struct Frame {
    /// Its name.
    pub function: Arc<str>,
    /// Source file; empty: not known.
    pub file: Arc<str>,
    /// 0: not known.
    pub line: u32,
}

impl Frame {
    /// The frame behind an entry of a table.
    pub fn of(frames: &FrameTable, at: FrameAt) -> Self {
        let name = frames.name(at.frame);
        Self { function: name.name.clone(), file: name.file.clone(), line: at.line }
    }
}
