//! What serving a request needs of the recorder.

use super::Recorder;
use crate::walk::{Caller, StackView};
use core::sync::atomic::Ordering::*;
use ramson_format::Requests;

/// CLOCK_MONOTONIC, which whoever asks reads too.
const MONOTONIC: usize = 1;

impl Recorder {
    /// Whether something is asked of this process, or was not taken back: one load, at every sample.
    #[inline(always)]
    pub fn is_asked(&self) -> bool {
        self.file.requests().request.number.load(Relaxed) != 0
    }

    /// In the profile file, where others can write too.
    pub fn requests(&self) -> &Requests {
        self.file.requests()
    }

    /// This process's id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The clock of deadlines; as of the latest tick where the cycle counter may not be read.
    pub fn precise_ns(&self) -> u64 {
        self.clock_ns(MONOTONIC)
    }

    /// See `Walker::is_whole`.
    pub fn is_whole(&self, caller: Caller, view: &StackView, visit: impl FnMut(u64)) -> bool {
        self.walker.is_whole(caller, view, self, visit)
    }
}
