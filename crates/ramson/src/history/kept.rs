//! One process of the history: looked at often and cheaply, read as a whole when there is a reason.

use crate::output::remark;
use ramson_analysis::rss::Rss;
use ramson_analysis::terms::Terms;
use ramson_analysis::timeline::Split;
use ramson_follow::{Followed, Identity, Pace};
use ramson_format::{Health, state};
use ramson_history::{Free, Observation, Rules, Taken, Triggers, Watch};
use ramson_process::allocators::Allocators;
use ramson_process::cgroup::Groups;
use ramson_process::clock::monotonic_ns;
use ramson_process::stat::Stat;
use ramson_reader::{Follower, Header};
use ramson_source::Recording;
use std::time::Duration;

/// Share of one core that reading the allocators of all processes may take.
const SURVEY_SHARE: f64 = 0.01;

pub struct Kept {
    pub followed: Followed,
    pub name: String,
    /// Another image of the process has begun.
    pub has_ended: bool,
    groups: Groups,
    /// When its allocator may be read again.
    survey_pace: Pace,
    /// Found once: they do not change while a program runs.
    allocators: Option<Allocators>,
    /// From the first look on.
    watch: Option<Watch>,
    /// Its end is being written.
    is_ending: bool,
    /// It was told that its profile cannot be read.
    is_unreadable: bool,
    /// It ended, and its end is kept.
    pub is_over: bool,
    /// A reason that could not be acted upon.
    pending: Triggers,
}

/// A snapshot and its circumstances.
pub struct Shot {
    /// Identity in the header of its profile.
    pub identity: (u32, u64, u64),
    name: String,
    /// Its snapshot is the one that was taken.
    pub follower: Follower,
    time_ns: u64,
    monotonic_ns: u64,
    rss: Option<u64>,
    free: Option<Free>,
    terms: Option<Terms>,
    triggers: Triggers,
}

impl Shot {
    pub fn taken(&self) -> Option<Taken<'_>> {
        Some(Taken {
            snapshot: self.follower.snapshot()?,
            name: &self.name,
            time_ns: self.time_ns,
            monotonic_ns: self.monotonic_ns,
            rss: self.rss,
            free: self.free,
            terms: self.terms.map(|terms| terms.0),
            triggers: self.triggers,
        })
    }
}

impl Kept {
    /// `None` if its bytes cannot be read again.
    pub fn new(source: Recording) -> Option<Self> {
        let name = source.name().to_owned();
        let running = source.running;
        let followed = Followed::of(source);
        followed.is_readable().then(|| Self {
            followed,
            name,
            has_ended: false,
            groups: running.map_or_else(Groups::default, Groups::of),
            survey_pace: Pace::new(Duration::ZERO, SURVEY_SHARE),
            allocators: None,
            watch: None,
            is_ending: false,
            is_unreadable: false,
            is_over: false,
            pending: Triggers::empty(),
        })
    }

    /// Identity of its profile.
    pub fn identity(&self) -> Identity {
        self.followed.identity()
    }

    pub fn header(&self) -> &Header {
        &self.followed.recording.snapshot.header
    }

    /// Whether this is what the process ran before.
    pub fn is_image_before(&self, new: &Self) -> bool {
        let process =
            |of: &Self| of.followed.first().map(|first| (of.followed.pid, first.start_ticks));
        process(self).is_some()
            && process(self) == process(new)
            && self.header().start_realtime_ns < new.header().start_realtime_ns
    }

    /// Looks, and takes a snapshot if there is a reason: it is then on its way into the history.
    pub fn look(&mut self, time_ns: u64, rules: &Rules) -> Option<Shot> {
        if self.is_ending {
            return None;
        }
        let now = self.followed.stat();
        let Some(header) = self.followed.header() else {
            // Its memory went with it; what was taken last stays the last.
            self.is_over = now.is_none();
            return None;
        };
        let end = match now {
            _ if self.has_ended || header.state == state::EXITED => Triggers::EXIT,
            None => Triggers::DEATH,
            Some(_) => Triggers::empty(),
        };
        let observation = self.observation(&header, time_ns, now);
        let seen = match &mut self.watch {
            Some(watch) => watch.observe(observation, rules),
            None => {
                self.watch = Some(Watch::new(observation));
                Triggers::START
            }
        };
        self.pending |= seen | end;
        if self.pending.is_empty() {
            return None;
        }
        if let Err(error) = self.followed.read(now.is_some()) {
            if now.is_some() && !std::mem::replace(&mut self.is_unreadable, true) {
                remark(format_args!("{}: {error}", self.followed.recording.origin));
            }
            return None;
        }
        let last_ns = self.header().last_monotonic_ns;
        let triggers = std::mem::take(&mut self.pending);
        self.is_ending = is_end(triggers);
        Some(Shot {
            identity: self.identity(),
            name: self.name.clone(),
            follower: std::mem::take(&mut self.followed.follower),
            time_ns,
            // Go's own samples are as of a moment before.
            monotonic_ns: if end.is_empty() && !self.followed.recording.is_of_go() {
                monotonic_ns()
            } else {
                last_ns
            },
            rss: now.and_then(|process| process.rss),
            free: None,
            terms: None,
            triggers,
        })
    }

    /// Reads the terms of RSS, what the allocator has free among them, if that has not just taken more than its share: of so many processes.
    pub fn survey(&mut self, shot: &mut Shot, processes: usize) {
        if shot.rss.is_none() || !self.survey_pace.is_due() {
            return;
        }
        let Some(snapshot) = shot.follower.snapshot() else { return };
        let pid = self.followed.pid;
        let origin = &self.followed.recording.origin;
        let read = || Rss::read(pid, origin, snapshot, &mut self.allocators);
        if let Some(rss) = self.survey_pace.run_for(pid, processes, read) {
            let Split { rss, free, terms } = Split::of(&rss);
            shot.rss = Some(rss);
            shot.free = free;
            shot.terms = Some(terms);
        }
    }

    fn observation(&self, header: &Header, time_ns: u64, now: Option<Stat>) -> Observation {
        let pressure = self.groups.pressure();
        Observation {
            time_ns,
            samples: header.health[Health::Samples as usize],
            frees: header.health[Health::Frees as usize],
            interval_bytes: header.interval_bytes,
            rss: now.and_then(|process| process.rss),
            limit_events: pressure.limit_events,
            is_stalled: pressure.is_stalled,
        }
    }

    /// Settles a shot: its reasons are due again unless it was kept, and a process whose end was kept is over. The next snapshot
    /// goes on from this one if there is room for it.
    pub fn settle(&mut self, shot: Shot, is_kept: bool, has_room: bool) {
        if is_kept {
            self.is_over |= self.is_ending && is_end(shot.triggers);
        } else {
            self.pending |= shot.triggers;
            self.is_ending = false;
        }
        if has_room {
            self.followed.follower = shot.follower;
        }
    }
}

fn is_end(triggers: Triggers) -> bool {
    triggers.intersects(Triggers::EXIT | Triggers::DEATH)
}
