//! Holds a directory of profiles to its bounds while programs put profiles there.

use super::prune::{Bounds, prune};
use crate::output::remark;
use ramson_profile::format::format_objects;
use ramson_source::places::{open_directory, own_profile_directory};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Between two looks at the directory, …
const LEAST_PAUSE: Duration = Duration::from_millis(250);
/// … so many times as long as the last look took, if that found the directory within its bounds, …
const PAUSE_PER_LOOK: u32 = 3;
/// … or this, if it did not: more may come at once.
const SHORT_PAUSE: Duration = Duration::from_millis(50);
/// Files grow, and processes end, without a change of the directory.
const MOST_UNSEEN: Duration = Duration::from_secs(10);

/// As long as there is this, one thread looks after the directory.
pub struct Keeper {
    stop: Sender<()>,
    thread: Option<JoinHandle<u64>>,
}

impl Keeper {
    /// Prunes the usual directory while the program and its descendants put profiles there. The program's own profile stays.
    pub fn of_program(pid: u32) -> Self {
        let bounds = Bounds { spared: Some(pid), ..Bounds::from_environment() };
        Self::start(own_profile_directory(), bounds)
    }

    /// Starts the thread that prunes `directory`. If no further thread can start, nothing is pruned.
    pub fn start(directory: PathBuf, bounds: Bounds) -> Self {
        let (stop, stopped) = channel::<()>();
        // Profiles that are written until the next look need room, too.
        let early = Bounds { total_bytes: bounds.total_bytes / 4 * 3, ..bounds };
        let path = directory.clone();
        let look = move |bounds| prune(&directory, bounds).map_or(0, |pruned| pruned.summed);
        let looks = move || {
            let mut summed = 0;
            let mut pause = LEAST_PAUSE;
            let mut seen_ns = None;
            let mut last = Instant::now();
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let changed_ns = open_directory(&path).ok().map(|it| it.modified_ns());
                if changed_ns == seen_ns && last.elapsed() < MOST_UNSEEN {
                    continue;
                }
                seen_ns = changed_ns;
                last = Instant::now();
                let found = look(early);
                summed += found;
                let is_within = found == 0;
                let long_pause = (last.elapsed() * PAUSE_PER_LOOK).max(LEAST_PAUSE);
                pause = if is_within { long_pause } else { SHORT_PAUSE };
            }
            summed + look(bounds)
        };
        Self { stop, thread: Builder::new().spawn(looks).ok() }
    }

    /// Looks once more, ends, and says how many profiles were summed, if any were.
    pub fn end(self) {
        let Self { stop, thread } = self;
        drop(stop);
        let profiles = match thread.and_then(|thread| thread.join().ok()).unwrap_or(0) {
            0 => return,
            1 => "1 profile of an ended process was".into(),
            count => format!("{} profiles of ended processes were", format_objects(count as f64)),
        };
        remark(format_args!(
            "{profiles} summed, because they exceeded RAMSON_PRUNE_SIZE: ramson list sum-"
        ));
    }
}
