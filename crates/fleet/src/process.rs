//! A look at a process: what has changed since the one before, as rows.

use crate::changes::{Counted, Counts, Keyed, Look, StackKey, Step, put};
use crate::layout::{HeapRow, MemoryRow, ProcessRow};
use crate::names::Dictionary;
use crate::queue::Change;
use crate::rows::Rows;
use crate::state::{Record, State};
use crate::time::{NS_PER_MILLISECOND, SECONDS_PER_MINUTE, seconds};
use ramson_analysis::end;
use ramson_analysis::rss::Rss;
use ramson_analysis::terms::Terms;
use ramson_follow::{Followed, Identity, Pace};
use ramson_format::{Health, state};
use ramson_process::allocators::Allocators;
use ramson_process::clock::unix_ns;
use ramson_reader::{Follower, Header, Snapshot};
use ramson_source::Recording;
use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

/// Share of one core that reading the memory of all processes may take.
const SURVEY_SHARE: f64 = 0.001;
/// Digits of a build ID that tell one build from another.
const VERSION_BYTES: usize = 6;
const SECONDS_PER_DAY: u32 = 24 * 60 * 60;
/// Resident memory that differs by a smaller part than one of so many is not read again by itself.
const SAME_SHARE: u64 = 100;

/// A process that is followed.
pub struct Process {
    followed: Followed,
    row: ProcessRow,
    /// It began to be recorded after us: all that it did is counted.
    is_new: bool,
    /// Samples, frees and mappings at the last reading, and its day; nothing has changed if these are the same.
    seen: Option<([u64; 3], u32)>,
    /// It runs another program now.
    pub is_replaced: bool,
    /// It was seen to have ended, and how was not known.
    is_ending: bool,
    /// Why the last reading failed, while it runs.
    pub failure: Option<String>,
    allocators: Option<Allocators>,
    survey: Pace,
    /// Resident bytes at the latest survey.
    surveyed: u64,
}

/// What a look finds.
#[derive(Default)]
struct Found {
    /// Of new stacks.
    names: Vec<(StackKey, u64)>,
    step: Step,
    counts: Counts,
}

impl Process {
    /// `None`: its profile cannot be read again.
    pub fn of(recording: Recording, row: ProcessRow, is_new: bool) -> Option<Self> {
        let followed = Followed::of(recording);
        followed.is_readable().then(|| Self {
            followed,
            row,
            is_new,
            seen: None,
            is_replaced: false,
            is_ending: false,
            failure: None,
            allocators: None,
            survey: Pace::new(Duration::ZERO, SURVEY_SHARE),
            surveyed: 0,
        })
    }

    /// Finds again at the next look what the last one found, which was not kept.
    pub fn forget(&mut self) {
        self.seen = None;
    }

    /// Identity of its profile.
    pub fn identity(&self) -> Identity {
        self.followed.identity()
    }

    /// Whether this is what the process ran before.
    pub fn is_image_before(&self, new: &Self) -> bool {
        let process =
            |of: &Self| of.followed.first().map(|first| (of.followed.pid, first.start_ticks));
        let began = |of: &Self| of.followed.recording.snapshot.header.start_realtime_ns;
        process(self).is_some() && process(self) == process(new) && began(self) < began(new)
    }

    /// Adds what has changed since the state that was `kept`. Whether the process has ended.
    pub fn look(
        &mut self,
        kept: impl Fn() -> Option<Vec<u8>>,
        processes: usize,
        dictionary: &mut Dictionary,
        rows: &mut Rows,
    ) -> bool {
        let has_ended = self.look_whole(kept, processes, dictionary, rows);
        // It is read anew each time: those of all processes would not fit.
        self.followed.follower = Follower::default();
        has_ended
    }

    fn look_whole(
        &mut self,
        kept: impl Fn() -> Option<Vec<u8>>,
        processes: usize,
        dictionary: &mut Dictionary,
        rows: &mut Rows,
    ) -> bool {
        if self.seen.is_none()
            && self.followed.recording.is_of_go()
            && let Some(state) = kept().and_then(|bytes| State::read(&bytes))
        {
            self.followed.go_on_from(state.counted.of_go());
        }
        let now = self.followed.stat().filter(|_| !self.is_replaced);
        let header = self.followed.header();
        let has_ended =
            now.is_none() || header.as_ref().is_some_and(|it| it.state == state::EXITED);
        // Who started it notes how it ended, right afterwards.
        let is_noted = header.as_ref().is_none_or(|header| header.end.is_some());
        if has_ended && !is_noted && !mem::replace(&mut self.is_ending, true) {
            return false;
        }
        let health = |header: &Header| {
            [Health::Samples, Health::Frees, Health::Extents].map(|it| header.health[it as usize])
        };
        let today = seconds(unix_ns()) / SECONDS_PER_DAY;
        let seen = header.as_ref().map(|header| (health(header), today));
        let resident = now.and_then(|stat| stat.rss).unwrap_or(0);
        let is_same_memory = resident.abs_diff(self.surveyed) <= resident / SAME_SHARE;
        if self.seen == seen && (is_same_memory || !self.survey.is_due()) && !has_ended {
            return false;
        }
        let read = header.is_some().then(|| self.followed.read(!has_ended));
        let is_read = matches!(read, Some(Ok(())));
        let failure = read.and_then(Result::err).filter(|_| !has_ended);
        self.failure = failure.map(|error| format!("{}: {error}", self.followed.recording.origin));
        let kept = kept();
        let state = kept.as_deref().and_then(State::read);
        let is_damaged = kept.is_some() && state.is_none();
        if is_damaged {
            let origin = &self.followed.recording.origin;
            self.failure = Some(format!(
                "{origin}: its state in the agent's folder was damaged. What changed since the last look is lost"
            ));
        }
        // What was in memory only goes with its process: then it ends as it was last seen.
        if !is_read && (!has_ended || state.is_none()) {
            return has_ended;
        }
        self.seen = seen;
        let was_looked_at = state.is_some();
        let mut state = state.unwrap_or_default();
        let recording = &self.followed.recording;
        let (header, monotonic_ns) = (&recording.snapshot.header, recording.read_ns);
        let ended = || Recording { running: None, ..recording.with(recording.snapshot.clone()) };
        let ended = has_ended.then(ended);
        let look = match &ended {
            Some(ended) => last_look(ended, was_looked_at.then(|| state.counted.latest())),
            None => Look { monotonic_ns, unix_ns: header.unix_ns(monotonic_ns) },
        };
        let began_ns = header.start_realtime_ns;
        // All frees since the process began are of this day, so none is left out by counting from its start.
        let began_today =
            seconds(began_ns) / SECONDS_PER_DAY == seconds(look.unix_ns) / SECONDS_PER_DAY;
        // A Go program has samples from before the first look; how long those lived that it has freed is not known.
        let is_new = (self.is_new || began_today) && !recording.is_of_go();
        let is_known = was_looked_at || is_new;
        let mut found = Found::default();
        if is_read {
            if self.row.version.is_empty() {
                self.row.version = version(self.followed.snapshot());
            }
            found = self.changes(&state, is_known, look, dictionary, rows);
            // It was counted before.
            if is_damaged {
                let keyed = Keyed::of(self.followed.snapshot());
                (found.step, found.counts) = (Counted::taken_up(&keyed, look).0, Counts::new());
            }
        }
        let Found { names, step, mut counts } = found;
        self.row.seen = unix_ns() / NS_PER_MILLISECOND;
        put(&mut state.names, names.clone());
        let change = if let Some(ended) = &ended {
            state.counted.apply(step);
            for (group, n) in state.counted.end(look) {
                *counts.entry(group).or_default() += n;
            }
            self.row.ended = seconds(look.unix_ns);
            self.row.end = end::state_of(ended);
            let cause = end::cause_of(ended);
            if cause.is_memory() {
                self.row.end += &format!(", {}", cause.name());
            }
            rows.heap.extend(heap_rows(&self.row, &state.names, &counts));
            Change::End
        } else {
            self.survey(look, processes, rows);
            rows.heap.extend(heap_rows(&self.row, &state.names, &counts));
            state.change(Record { row: self.row.clone(), names, step })
        };
        rows.states.push((self.row.process, change));
        rows.processes.push(self.row.clone());
        has_ended
    }

    fn changes(
        &self,
        state: &State,
        is_known: bool,
        look: Look,
        dictionary: &mut Dictionary,
        rows: &mut Rows,
    ) -> Found {
        let keyed = Keyed::of(self.followed.snapshot());
        let new = keyed.others_than(state.names.iter().map(|(key, _)| *key));
        let names = dictionary.name(&self.followed, &new, rows);
        let (step, counts) = if is_known {
            state.counted.changes(&keyed, look)
        } else {
            Counted::taken_up(&keyed, look)
        };
        Found { names, step, counts }
    }

    /// Adds the terms of RSS, if reading them has not just taken more than its share.
    fn survey(&mut self, look: Look, processes: usize, rows: &mut Rows) {
        if !self.survey.is_due() {
            return;
        }
        let pid = self.followed.pid;
        let snapshot = self.followed.snapshot();
        let origin = &self.followed.recording.origin;
        let read = || Rss::read(pid, origin, snapshot, &mut self.allocators);
        let Some(rss) = self.survey.run_for(pid, processes, read) else { return };
        self.surveyed = rss.bytes;
        let terms = Terms::of(&rss);
        let row = |(term, bytes): (&str, i64)| MemoryRow {
            service: self.row.service.clone(),
            process: self.row.process,
            minute: seconds(look.unix_ns) / SECONDS_PER_MINUTE * SECONDS_PER_MINUTE,
            term: term.into(),
            bytes,
        };
        rows.memory.extend(terms.known().map(row));
    }
}

/// When a process ended: as was noted; else now, if it was followed until then, and otherwise when it recorded something last.
fn last_look(ended: &Recording, latest: Option<Look>) -> Look {
    let header = &ended.snapshot.header;
    let recorded_ns = header.unix_ns(header.last_monotonic_ns);
    let noted_ns = end::end_of(ended).map_or(0, |end| end.realtime_ns);
    let unix_ns = match (noted_ns, latest) {
        (0, Some(_)) => unix_ns(),
        (0, None) => recorded_ns,
        (noted_ns, _) => noted_ns.min(unix_ns()),
    };
    // A day's state is counted at the first look of that day.
    let unix_ns = latest.map_or(unix_ns, |latest| unix_ns.max(latest.unix_ns));
    let later_ns = unix_ns.saturating_sub(recorded_ns);
    let monotonic_ns = header.last_monotonic_ns.saturating_add(later_ns);
    Look { monotonic_ns, unix_ns }
}

/// Rows by the names of the stacks, of which several may have the same.
pub fn heap_rows(process: &ProcessRow, names: &[(StackKey, u64)], counts: &Counts) -> Vec<HeapRow> {
    let mut all: BTreeMap<(u64, u32, u64, u8, u64), u64> = BTreeMap::new();
    for (group, n) in counts {
        let named = names.binary_search_by_key(&group.stack, |(key, _)| *key);
        let stack = named.map_or(0, |at| names[at].1);
        let of = (stack, group.minute, group.size, group.age, group.interval);
        *all.entry(of).or_default() += n;
    }
    let row = |((stack, minute, size, age, interval), n): (_, u64)| HeapRow {
        service: process.service.clone(),
        version: process.version.clone(),
        stack,
        process: process.process,
        minute: minute * SECONDS_PER_MINUTE,
        size,
        age,
        n: n.try_into().unwrap_or(u32::MAX),
        interval,
    };
    all.into_iter().map(row).collect()
}

/// The first digits of the executable's build ID; empty: it has none.
fn version(snapshot: &Snapshot) -> String {
    let of_executable = snapshot.mappings.iter().find(|it| it.path == snapshot.header.exe);
    let build = of_executable.map_or(&[][..], |mapping| &mapping.build_id);
    build.iter().take(VERSION_BYTES).map(|byte| format!("{byte:02x}")).collect()
}
