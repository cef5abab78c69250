//! One process that is recorded: looked at often and cheaply, read as a whole when there is a reason.

use super::kernel::{Group, Pressure, Process};
use super::monotonic_ns;
use crate::source::{Source, reader_of};
use ramson_format::{Health, state};
use ramson_history::{Observation, Rules, Taken, Triggers, Watch};
use ramson_reader::{Header, ReadAt, Snapshot, Stack};

/// What tells a profile from all others: process, its start, the start of the profile, and its number.
pub type Identity = (u32, u64, u64, u64);

pub struct Followed {
    pub name: String,
    /// Another image of the process has begun.
    pub has_ended: bool,
    header: Header,
    reader: Box<dyn ReadAt>,
    /// As it is called here, and since when; `None`: it had ended before it was found.
    process: Option<(u32, Process)>,
    group: Group,
    /// From the first look on.
    watch: Option<Watch>,
    /// Its end is being written.
    is_ending: bool,
    /// It ended, and its end is kept.
    is_over: bool,
    /// A reason that could not be acted upon.
    pending: Triggers,
}

const END: [Triggers; 2] = [Triggers::EXIT, Triggers::DEATH];

/// A snapshot and its circumstances.
pub struct Shot {
    snapshot: Snapshot,
    time_ns: u64,
    monotonic_ns: u64,
    rss: Option<u64>,
    triggers: Triggers,
}

impl Shot {
    pub fn taken<'a>(&'a self, name: &'a str) -> Taken<'a> {
        Taken {
            snapshot: &self.snapshot,
            name,
            time_ns: self.time_ns,
            monotonic_ns: self.monotonic_ns,
            rss: self.rss,
            triggers: self.triggers,
        }
    }

    pub fn triggers(&self) -> Triggers {
        self.triggers
    }

    /// What it takes in memory, nearly.
    pub fn bytes(&self) -> usize {
        let stacks = self.snapshot.stacks.iter();
        let stacks = stacks.map(|stack| size_of::<Stack>() + size_of_val(&*stack.frames));
        stacks.sum::<usize>() + size_of_val(&*self.snapshot.live)
    }
}

impl Followed {
    /// `None` if its bytes cannot be read again.
    pub fn new(source: &Source) -> Option<Self> {
        let process = source.running.and_then(|pid| Some((pid, Process::of(pid)?)));
        Some(Self {
            name: source.name().to_owned(),
            has_ended: false,
            header: source.snapshot.header.clone(),
            reader: reader_of(source)?,
            process,
            group: process.map_or_else(Group::default, |(pid, _)| Group::of(pid)),
            watch: None,
            is_ending: false,
            is_over: false,
            pending: Triggers::NONE,
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }

    pub fn identity(&self) -> Identity {
        let header = &self.header;
        (header.pid, header.process_start_ticks, header.start_realtime_ns, header.run_id)
    }

    /// Whether both are of one profile.
    pub fn is_same(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    /// Whether this is what the process ran before.
    pub fn is_image_before(&self, new: &Self) -> bool {
        let pid =
            |followed: &Self| followed.process.map(|(pid, process)| (pid, process.start_ticks));
        pid(self).is_some()
            && pid(self) == pid(new)
            && self.header.start_realtime_ns < new.header.start_realtime_ns
    }

    /// Looks, and takes a snapshot if there is a reason.
    pub fn look(&mut self, time_ns: u64, rules: &Rules) -> Option<Shot> {
        if self.is_ending {
            return None;
        }
        let now = self.process.and_then(|(pid, first)| {
            Process::of(pid).filter(|process| process.start_ticks == first.start_ticks)
        });
        let Ok(header) = Header::read(&*self.reader) else {
            // Its memory went with it; what was taken last stays the last.
            self.is_over = now.is_none();
            return None;
        };
        let end = match header.state {
            state::EXITED => Triggers::EXIT,
            _ if self.has_ended => Triggers::EXIT,
            _ if now.is_none() => Triggers::DEATH,
            _ => Triggers::NONE,
        };
        let observation = self.observation(&header, time_ns, now);
        let seen = match &mut self.watch {
            Some(watch) => watch.observe(observation, rules),
            None => {
                self.watch = Some(Watch::new(observation));
                Triggers::START
            }
        };
        self.pending = self.pending.and(seen).and(end);
        if self.pending.is_empty() {
            return None;
        }
        let snapshot = Snapshot::read(&*self.reader).ok()?;
        let monotonic_ns = match end.is_empty() {
            true => monotonic_ns(),
            false => snapshot.header.last_monotonic_ns,
        };
        let rss = now.and_then(|process| process.rss);
        Some(Shot { snapshot, time_ns, monotonic_ns, rss, triggers: self.pending })
    }

    fn observation(&self, header: &Header, time_ns: u64, now: Option<Process>) -> Observation {
        let pressure = Pressure::of(&self.group);
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

    /// A snapshot is on its way into the history.
    pub fn hand_over(&mut self, shot: &Shot) {
        self.pending = Triggers::NONE;
        self.is_ending = END.iter().any(|&end| shot.triggers.has(end));
    }

    /// What was kept needs not be kept again, and a process that ended is over.
    pub fn settle(&mut self, triggers: Triggers, is_kept: bool) {
        if is_kept {
            self.is_over |= self.is_ending && END.iter().any(|&end| triggers.has(end));
        } else {
            self.pending = self.pending.and(triggers);
            self.is_ending = false;
        }
    }
}
