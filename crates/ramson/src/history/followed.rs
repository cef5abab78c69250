//! One process that is recorded: looked at often and cheaply, read as a whole when there is a reason.

use ramson_analysis::live::pace::{Pace, thread_cpu_time};
use ramson_analysis::rss::Rss;
use ramson_analysis::terms::Terms;
use ramson_analysis::timeline::Split;
use ramson_apart::for_process;
use ramson_format::{Health, state};
use ramson_history::{Free, Observation, Rules, Taken, Triggers, Watch};
use ramson_process::allocators::Allocators;
use ramson_process::cgroup::Groups;
use ramson_process::clock::monotonic_ns;
use ramson_process::stat::Stat;
use ramson_reader::{Follower, Header, ReadAt};
use ramson_source::{Recording, complete, find_again};
use std::time::{Duration, Instant};

/// Share of one core that reading the allocators of all processes may take.
const SURVEY_SHARE: f64 = 0.01;

pub struct Followed {
    pub name: String,
    /// Another image of the process has begun.
    pub has_ended: bool,
    pub header: Header,
    reader: Box<dyn ReadAt>,
    /// Holds the last snapshot; moved into its [`Shot`] while the snapshot is on its way into the history.
    pub follower: Follower,
    /// As it is called here, and since when; `None`: it had ended before it was found.
    process: Option<(u32, Stat)>,
    groups: Groups,
    /// Place of its profile.
    origin: String,
    /// When its allocator may be read again.
    survey_pace: Pace,
    /// Found once: they do not change while a program runs.
    allocators: Option<Allocators>,
    /// From the first look on.
    watch: Option<Watch>,
    /// Its end is being written.
    is_ending: bool,
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

impl Followed {
    /// `None` if its bytes cannot be read again.
    pub fn new(source: &Recording) -> Option<Self> {
        let process = source.running.and_then(|pid| Some((pid, Stat::of(pid)?)));
        Some(Self {
            name: source.name().to_owned(),
            has_ended: false,
            header: source.snapshot.header.clone(),
            reader: source.bytes()?,
            follower: Follower::default(),
            process,
            groups: process.map_or_else(Groups::default, |(pid, _)| Groups::of(pid)),
            origin: source.origin.clone(),
            survey_pace: Pace::new(Duration::ZERO, SURVEY_SHARE),
            allocators: None,
            watch: None,
            is_ending: false,
            is_over: false,
            pending: Triggers::empty(),
        })
    }

    /// As it is called here, or as it called itself if it had ended before it was found.
    pub fn pid(&self) -> u32 {
        self.process.map_or(self.header.pid, |(pid, _)| pid)
    }

    /// Whether this is what the process ran before.
    pub fn is_image_before(&self, new: &Self) -> bool {
        let process = |of: &Self| of.process.map(|(pid, process)| (pid, process.start_ticks));
        process(self).is_some()
            && process(self) == process(new)
            && self.header.start_realtime_ns < new.header.start_realtime_ns
    }

    /// Looks, and takes a snapshot if there is a reason: it is then on its way into the history.
    pub fn look(&mut self, time_ns: u64, rules: &Rules) -> Option<Shot> {
        if self.is_ending {
            return None;
        }
        let now = self.process.and_then(|(pid, first)| {
            Stat::of(pid).filter(|process| process.start_ticks == first.start_ticks)
        });
        let header = Header::read(&*self.reader).or_else(|error| {
            // It may have moved to a file.
            let pid = self.process.filter(|_| now.is_some()).map(|(pid, _)| pid);
            let found = pid.and_then(|pid| find_again(pid, &self.header));
            let found = found.and_then(|found| Some((found.bytes()?, found.origin)));
            (self.reader, self.origin) = found.ok_or(error)?;
            Header::read(&*self.reader)
        });
        let Ok(header) = header else {
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
        let snapshot = self.follower.read(&*self.reader).ok()?;
        if let (Some((pid, _)), true) = (self.process, now.is_some()) {
            complete(snapshot, pid);
        }
        let monotonic_ns = match end.is_empty() {
            true => monotonic_ns(),
            false => snapshot.header.last_monotonic_ns,
        };
        let triggers = std::mem::take(&mut self.pending);
        self.is_ending = is_end(triggers);
        Some(Shot {
            identity: self.header.identity(),
            name: self.name.clone(),
            follower: std::mem::take(&mut self.follower),
            time_ns,
            monotonic_ns,
            rss: now.and_then(|process| process.rss),
            free: None,
            terms: None,
            triggers,
        })
    }

    /// Reads the terms of RSS, what the allocator has free among them, if that has not just taken more than its share: of so many processes.
    pub fn survey(&mut self, shot: &mut Shot, processes: usize) {
        let Some((pid, _)) = self.process.filter(|_| shot.rss.is_some()) else { return };
        let Some(snapshot) = shot.follower.snapshot().filter(|_| self.survey_pace.is_due()) else {
            return;
        };
        let (start, before) = (Instant::now(), thread_cpu_time());
        let rss = Rss::read(pid, &self.origin, snapshot, &mut self.allocators);
        // The CPU time of a helper is not this thread's CPU time.
        let cost = match for_process(pid) {
            None => thread_cpu_time().saturating_sub(before),
            Some(_) => start.elapsed(),
        };
        self.survey_pace.put_off(cost * processes as u32);
        if let Some(rss) = rss {
            let Split { rss, free, terms } = Split::of(&rss);
            (shot.rss, shot.free, shot.terms) = (Some(rss), free, Some(terms));
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
            self.follower = shot.follower;
        }
    }
}

fn is_end(triggers: Triggers) -> bool {
    triggers.intersects(Triggers::EXIT | Triggers::DEATH)
}
