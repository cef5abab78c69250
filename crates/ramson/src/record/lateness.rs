//! Rounds that come late, or not at all, are said: one remark when it begins, one when it is over.

use crate::output::remark;
use ramson_history::Rules;
use ramson_profile::format::format_duration;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two remarks on a machine that is too busy again and again.
const LEAST_PAUSE: Duration = Duration::from_secs(600);
const LEAST_LATENESS: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Lateness {
    last_round: Option<Instant>,
    said: Option<Instant>,
    /// Since when the disk takes long.
    behind: Option<Instant>,
    /// Rounds by the clock that were not taken meanwhile, and the last of them.
    missed: u64,
    last_missed: u64,
}

impl Lateness {
    /// A round begins. It should have begun more than one interval ago: not because of the disk,
    /// but because we did not get to run.
    pub fn begin_round(&mut self, rules: &Rules, path: &Path) {
        let now = Instant::now();
        let since = self.last_round.replace(now).map_or(Duration::ZERO, |last| now - last);
        let is_late = since > 2 * Self::most(rules);
        let is_new = self.said.is_none_or(|said| now - said >= LEAST_PAUSE);
        if is_late && is_new {
            self.said = Some(now);
            remark(format_args!(
                "{}: no round for {}, this machine is too busy. \"ramson timeline\" shows such gaps; --every 1m needs less",
                path.display(),
                seconds(since)
            ));
        }
    }

    /// `behind`: since when the oldest round waits to be written.
    pub fn say_if_behind(&mut self, behind: Option<Duration>, rules: &Rules, path: &Path) {
        let Some(behind) = behind.filter(|&behind| behind > Self::most(rules)) else { return };
        if self.behind.is_none() {
            self.behind = Some(Instant::now() - behind);
            self.missed = 0;
            remark(format_args!(
                "{}: the disk has not taken a round for {}. Snapshots wait in memory; if it goes on, -o on another disk",
                path.display(),
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
    pub fn say_if_over(&mut self, path: &Path) {
        let Some(since) = self.behind.take() else { return };
        let missed = match self.missed {
            0 => "no round was missed".into(),
            1 => "1 round was missed".into(),
            missed => format!("{missed} rounds were missed"),
        };
        remark(format_args!(
            "{}: the disk has taken all that waited, after {}; {missed}",
            path.display(),
            seconds(since.elapsed())
        ));
    }

    fn most(rules: &Rules) -> Duration {
        Duration::from_nanos(rules.every_ns).max(LEAST_LATENESS)
    }
}

fn seconds(duration: Duration) -> String {
    format_duration(duration.as_nanos() as u64)
}
