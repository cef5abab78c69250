//! Rounds that come late, or not at all, are said: one remark when it begins, one when it is over.

use crate::output::remark;
use ramson_profile::format::format_duration;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two remarks on a machine that is too busy again and again.
const LEAST_PAUSE: Duration = Duration::from_secs(600);
const LEAST_LATENESS: Duration = Duration::from_secs(1);

pub struct Lateness {
    path: PathBuf,
    /// Time that a round may take.
    most: Duration,
    last_round: Option<Instant>,
    said: Option<Instant>,
    /// Since when the disk takes long.
    behind: Option<Instant>,
    /// Rounds by the clock that were not taken meanwhile, and the last of them.
    missed: u64,
    last_missed: u64,
}

impl Lateness {
    pub fn new(path: PathBuf, every_ns: u64) -> Self {
        let most = Duration::from_nanos(every_ns).max(LEAST_LATENESS);
        Self { path, most, last_round: None, said: None, behind: None, missed: 0, last_missed: 0 }
    }

    /// A round begins. It should have begun more than one interval ago: not because of the disk,
    /// but because we did not get to run.
    pub fn begin_round(&mut self) {
        let now = Instant::now();
        let since = self.last_round.replace(now).map_or(Duration::ZERO, |last| now - last);
        let is_new = self.said.is_none_or(|said| now - said >= LEAST_PAUSE);
        if since > 2 * self.most && is_new {
            self.said = Some(now);
            remark(format_args!(
                "{}: no snapshot for {}: ramson did not get to run (a busy or suspended machine). \"ramson timeline\" shows such gaps",
                self.path.display(),
                seconds(since)
            ));
        }
    }

    /// `behind`: since when the oldest round waits to be written.
    pub fn say_if_behind(&mut self, behind: Option<Duration>) {
        let Some(behind) = behind.filter(|&behind| behind > self.most) else { return };
        if self.behind.is_none() {
            self.behind = Some(Instant::now() - behind);
            self.missed = 0;
            remark(format_args!(
                "{}: no snapshot has been written for {}. They wait in memory; if this continues, use -o on another disk",
                self.path.display(),
                seconds(behind)
            ));
        }
    }

    /// A round was not taken as too much waits already, or could not be kept.
    pub fn miss(&mut self, number: u64) {
        if number != std::mem::replace(&mut self.last_missed, number) {
            self.missed += 1;
        }
    }

    /// Nothing waits any more, and the last round was kept.
    pub fn say_if_over(&mut self) {
        let Some(since) = self.behind.take() else { return };
        let missed = match self.missed {
            0 => "nothing was missed".into(),
            1 => "1 round of snapshots was missed".into(),
            missed => format!("{missed} rounds of snapshots were missed"),
        };
        remark(format_args!(
            "{}: all waiting snapshots are written, after {}; {missed}",
            self.path.display(),
            seconds(since.elapsed())
        ));
    }
}

fn seconds(duration: Duration) -> String {
    format_duration(duration.as_nanos() as u64)
}
