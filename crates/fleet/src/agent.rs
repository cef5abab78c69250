//! The agent: follows the profiled processes of a host, and once in a while puts what has changed into the queue and sends what is there.

use crate::changes::{Counted, Counts, Look, StackKey, key};
use crate::clickhouse::ClickHouse;
use crate::config::Config;
use crate::labels::Labels;
use crate::layout::{FrameRow, HeapRow, MemoryRow, ProcessRow, Row, StackRow, Table};
use crate::queue::{Batch, Queue};
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_analysis::end;
use ramson_analysis::named::{assemble_stacks, stack_number};
use ramson_analysis::naming::Names;
use ramson_analysis::rss::Rss;
use ramson_analysis::terms::Terms;
use ramson_follow::{Followed, Pace, Search};
use ramson_format::{Health, Kind, state};
use ramson_process::allocators::Allocators;
use ramson_process::cgroup::Groups;
use ramson_process::clock::unix_ns;
use ramson_process::text;
use ramson_profile::{FrameTable, OwnFrames};
use ramson_reader::{Follower, Header, Snapshot};
use ramson_source::Recording;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::mem;
use std::time::Duration;

const NS_PER_SECOND: u64 = 1_000_000_000;
const NS_PER_MILLISECOND: u64 = 1_000_000;
const SECONDS_PER_MINUTE: u32 = 60;
/// Share of one core that reading the memory of all processes may take.
const SURVEY_SHARE: f64 = 0.005;
/// Rows and states are put on disk when they have so many.
const MOST_BYTES: usize = 4 << 20;
/// Digits of a build ID that tell one build from another.
const VERSION_BYTES: usize = 6;

/// Follows processes.
pub struct Agent {
    host: String,
    start_ns: u64,
    is_first: bool,
    search: Search,
    found: Vec<Recording>,
    processes: BTreeMap<u64, Process>,
    /// Stacks and frames that the server has been told.
    stacks: HashSet<u64>,
    frames: HashSet<u64>,
}

/// Rows that were found since they were kept last.
#[derive(Default)]
pub struct Rows {
    heap: Vec<HeapRow>,
    stacks: Vec<StackRow>,
    frames: Vec<FrameRow>,
    processes: Vec<ProcessRow>,
    memory: Vec<MemoryRow>,
    states: Vec<(u64, Option<Vec<u8>>)>,
}

/// Takes rows, and has the states of processes.
pub trait Keep {
    /// Keeps rows with the states of their processes.
    fn keep(&mut self, rows: Rows) -> io::Result<()>;
    /// State of a process; `None`: it is not known.
    fn state(&self, process: u64) -> Option<Vec<u8>>;
    /// All processes of which something is counted.
    fn processes(&self) -> Vec<u64>;
}

impl Keep for Queue {
    fn keep(&mut self, rows: Rows) -> io::Result<()> {
        self.put(&rows.batch())
    }

    fn state(&self, process: u64) -> Option<Vec<u8>> {
        Self::state(self, process)
    }

    fn processes(&self) -> Vec<u64> {
        Self::processes(self)
    }
}

/// Rows for people to read, a JSON object per line; no state is kept.
#[derive(Default)]
pub struct JsonLines(pub String);

impl Keep for JsonLines {
    fn keep(&mut self, rows: Rows) -> io::Result<()> {
        self.0 += &rows.to_json_lines();
        Ok(())
    }

    fn state(&self, _: u64) -> Option<Vec<u8>> {
        None
    }

    fn processes(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// A process that is followed.
struct Process {
    followed: Followed,
    row: ProcessRow,
    /// It began to be recorded after us: all that it did is counted.
    is_new: bool,
    /// Samples, frees and mappings at the last reading, and its day; nothing has changed if these are the same.
    seen: Option<([u64; 3], u64)>,
    /// It runs another program now.
    is_replaced: bool,
    /// It was seen to have ended, and how was not known.
    is_ending: bool,
    allocators: Option<Allocators>,
    survey: Pace,
}

/// Facts about a process that outlive the agent.
#[derive(Clone, Default, BorshSerialize, BorshDeserialize)]
struct State {
    row: ProcessRow,
    counted: Counted,
    /// Hashes of the names of its stacks.
    names: HashMap<StackKey, u64>,
}

impl Agent {
    /// Finds the processes that are there.
    pub fn begin(config: &Config) -> Self {
        let start_ns = unix_ns();
        let (search, found) = Search::begin(Vec::new(), true);
        let host = match &*config.host {
            "" => text::read("/proc/sys/kernel/hostname").unwrap_or_default().trim().into(),
            host => host.into(),
        };
        Self {
            host,
            start_ns,
            is_first: true,
            search,
            found,
            processes: BTreeMap::new(),
            stacks: HashSet::new(),
            frames: HashSet::new(),
        }
    }

    /// Looks at all processes. Returns a line for each profile that cannot be read.
    pub fn round(&mut self, kept: &mut impl Keep) -> io::Result<Vec<String>> {
        let others = self.search.found();
        let found = mem::take(&mut self.found).into_iter().chain(others.found);
        found.for_each(|recording| self.follow(recording));
        let mut rows = Rows::default();
        if mem::take(&mut self.is_first) {
            self.end_missed(kept, &mut rows);
        }
        let count = self.processes.len();
        let mut ended = Vec::new();
        for (&id, process) in &mut self.processes {
            let mut dictionary = Dictionary { stacks: &mut self.stacks, frames: &mut self.frames };
            let state = kept.state(id).and_then(|state| borsh::from_slice(&state).ok());
            if process.look(state, count, &mut dictionary, &mut rows) {
                ended.push(id);
            }
            // It is read anew each time: those of all processes would not fit.
            process.followed.follower = Follower::default();
            if rows.bytes() > MOST_BYTES {
                kept.keep(mem::take(&mut rows))?;
            }
        }
        ended.iter().for_each(|id| drop(self.processes.remove(id)));
        if !rows.is_empty() {
            kept.keep(rows)?;
        }
        Ok(others.unreadable)
    }

    fn follow(&mut self, recording: Recording) {
        let header = &recording.snapshot.header;
        let id = self.process_id(header);
        if self.processes.contains_key(&id) {
            return;
        }
        let process = Process {
            is_new: header.start_realtime_ns >= self.start_ns,
            row: self.row(id, &recording),
            followed: Followed::of(recording),
            seen: None,
            is_replaced: false,
            is_ending: false,
            allocators: None,
            survey: Pace::new(Duration::ZERO, SURVEY_SHARE),
        };
        if !process.followed.is_readable() {
            return;
        }
        for other in self.processes.values_mut() {
            other.is_replaced |= other.is_image_before(&process);
        }
        self.processes.insert(id, process);
    }

    /// Ends the processes that ended while no agent ran. What they did after the last look is not known.
    fn end_missed(&self, kept: &impl Keep, rows: &mut Rows) {
        let missed = kept.processes().into_iter().filter(|id| !self.processes.contains_key(id));
        for id in missed {
            let state = kept.state(id).and_then(|state| borsh::from_slice(&state).ok());
            let Some(State { mut row, mut counted, names }) = state else { continue };
            let look = counted.latest();
            row.seen = unix_ns() / NS_PER_MILLISECOND;
            row.ended = seconds(look.unix_ns);
            rows.heap.extend(heap_rows(&row, &names, &counted.end(look)));
            rows.processes.push(row);
            rows.states.push((id, None));
        }
    }

    fn process_id(&self, header: &Header) -> u64 {
        let boot = text::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let (pid, start, run) = header.identity();
        let numbers = [u64::from(pid), start, run, header.process_start_ticks];
        let numbers: Vec<u8> = numbers.into_iter().flat_map(u64::to_be_bytes).collect();
        hash([self.host.as_bytes(), boot.as_bytes(), &numbers])
    }

    fn row(&self, id: u64, recording: &Recording) -> ProcessRow {
        let header = &recording.snapshot.header;
        let groups = recording.running.map(Groups::of).unwrap_or_default();
        let group = groups.of_memory().map(|group| group.path.clone());
        let ended =
            header.end.as_ref().map(|end| String::from_utf8_lossy(end.cgroup_path()).into_owned());
        let labels = Labels::of_group(&group.or(ended).unwrap_or_default());
        let program = recording.name().to_owned();
        let of_executable = recording.snapshot.mappings.iter().find(|it| it.path == header.exe);
        let build = of_executable.map_or(&[][..], |mapping| &mapping.build_id);
        ProcessRow {
            process: id,
            service: labels.service(&program),
            version: build.iter().take(VERSION_BYTES).map(|byte| format!("{byte:02x}")).collect(),
            host: self.host.clone(),
            unit: labels.unit,
            container: labels.container,
            pod: labels.pod,
            program,
            pid: recording.pid(),
            started: seconds(header.start_realtime_ns),
            ..ProcessRow::default()
        }
    }
}

impl Process {
    fn is_image_before(&self, new: &Self) -> bool {
        let process =
            |of: &Self| of.followed.first().map(|first| (of.followed.pid, first.start_ticks));
        let began = |of: &Self| of.followed.recording.snapshot.header.start_realtime_ns;
        process(self).is_some() && process(self) == process(new) && began(self) < began(new)
    }

    /// Adds what has changed since `state`. Whether the process has ended.
    fn look(
        &mut self,
        state: Option<State>,
        processes: usize,
        dictionary: &mut Dictionary,
        rows: &mut Rows,
    ) -> bool {
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
        let today = unix_ns() / NS_PER_SECOND / 86_400;
        let seen = header.as_ref().map(|header| (health(header), today));
        if self.seen == seen && !has_ended {
            return false;
        }
        let is_read = header.is_some() && self.followed.read(!has_ended).is_ok();
        // What was in memory only goes with its process: then it ends as it was last seen.
        if !is_read && (!has_ended || state.is_none()) {
            return has_ended;
        }
        self.seen = seen;
        let is_known = state.is_some() || self.is_new;
        let mut state = state.unwrap_or_default();
        let mut look = state.counted.latest();
        let mut counts = Counts::new();
        if is_read {
            let recording = &self.followed.recording;
            let header = &recording.snapshot.header;
            let monotonic_ns = if has_ended { header.last_monotonic_ns } else { recording.read_ns };
            look = Look { monotonic_ns, unix_ns: header.unix_ns(monotonic_ns) };
            counts = self.changes(&mut state, is_known, look, dictionary, rows);
        }
        self.row.seen = unix_ns() / NS_PER_MILLISECOND;
        if has_ended {
            for (group, n) in state.counted.end(look) {
                *counts.entry(group).or_default() += n;
            }
            self.row.ended = seconds(look.unix_ns);
            let recording = &self.followed.recording;
            let ended = Recording { running: None, ..recording.with(recording.snapshot.clone()) };
            self.row.end = end::state_of(&ended);
        } else {
            self.survey(look, processes, rows);
        }
        state.row.clone_from(&self.row);
        rows.heap.extend(heap_rows(&self.row, &state.names, &counts));
        rows.processes.push(self.row.clone());
        rows.states.push((self.row.process, borsh::to_vec(&state).ok().filter(|_| !has_ended)));
        has_ended
    }

    fn changes(
        &self,
        state: &mut State,
        is_known: bool,
        look: Look,
        dictionary: &mut Dictionary,
        rows: &mut Rows,
    ) -> Counts {
        let snapshot = self.followed.snapshot();
        let is_new = |number: &usize| {
            let stack = &snapshot.stacks[*number];
            stack.kind() == Kind::Heap && !state.names.contains_key(&key(stack))
        };
        let new: BTreeSet<usize> = (0..snapshot.stacks.len()).filter(is_new).collect();
        if !new.is_empty() {
            dictionary.name(&self.followed.recording, snapshot, &new, &mut state.names, rows);
        }
        if is_known {
            return state.counted.changes(snapshot, look);
        }
        let (counted, counts) = Counted::taken_up(snapshot, look);
        state.counted = counted;
        counts
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

/// Rows by the names of the stacks, of which several may have the same.
fn heap_rows(
    process: &ProcessRow,
    names: &HashMap<StackKey, u64>,
    counts: &Counts,
) -> Vec<HeapRow> {
    let mut all: BTreeMap<(u64, u32, u64, u8, u64), u64> = BTreeMap::new();
    for (group, n) in counts {
        let stack = names.get(&group.stack).copied().unwrap_or_default();
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

/// Stacks and frames that the server has been told.
struct Dictionary<'a> {
    stacks: &'a mut HashSet<u64>,
    frames: &'a mut HashSet<u64>,
}

impl Dictionary<'_> {
    /// Names stacks of a snapshot. Without names a stack is known by its addresses.
    fn name(
        &mut self,
        recording: &Recording,
        snapshot: &Snapshot,
        new: &BTreeSet<usize>,
        names: &mut HashMap<StackKey, u64>,
        rows: &mut Rows,
    ) {
        let recording = recording.with(snapshot.clone());
        let Ok(mut named) = assemble_stacks(&recording, &Names::default(), new) else { return };
        OwnFrames::default().fold(&mut named.profile);
        let table = FrameTable::new(&named.profile);
        for sample in &named.profile.samples {
            let Some(number) = stack_number(sample) else { continue };
            let frames: Vec<FrameRow> = table
                .stack(sample)
                .map(|at| {
                    let frame = table.name_at(at);
                    FrameRow {
                        frame: hash([frame.name.as_bytes(), frame.file.as_bytes()]),
                        function: frame.name.to_string(),
                        file: frame.file.to_string(),
                    }
                })
                .collect();
            let stack = hash(frames.iter().map(|frame| frame.function.as_bytes()));
            names.insert(key(&snapshot.stacks[number]), stack);
            if self.stacks.insert(stack) {
                rows.stacks
                    .push(StackRow { stack, frames: frames.iter().map(|it| it.frame).collect() });
                rows.frames.extend(frames.into_iter().filter(|it| self.frames.insert(it.frame)));
            }
        }
    }
}

impl Rows {
    /// As they are sent.
    fn batch(self) -> Batch {
        // What others refer to comes first.
        let tables = [
            Table::of(&self.frames),
            Table::of(&self.stacks),
            Table::of(&self.processes),
            Table::of(&self.memory),
            Table::of(&self.heap),
        ];
        Batch {
            tables: tables.into_iter().filter(|table| table.rows > 0).collect(),
            states: self.states,
        }
    }

    /// About so many bytes in memory.
    fn bytes(&self) -> usize {
        let states = self.states.iter().flat_map(|(_, state)| state).map(Vec::len).sum::<usize>();
        states + self.heap.len() * size_of::<HeapRow>() + self.frames.len() * size_of::<FrameRow>()
    }

    /// A line for each, for people to read.
    fn to_json_lines(&self) -> String {
        let of_table = |name: &str, rows: serde_json::Result<Value>| match rows {
            Ok(Value::Array(rows)) => rows
                .into_iter()
                .map(|row| format!("{{\"table\":\"{name}\",\"row\":{row}}}\n"))
                .collect(),
            _ => String::new(),
        };
        [
            of_table(FrameRow::TABLE, serde_json::to_value(&self.frames)),
            of_table(StackRow::TABLE, serde_json::to_value(&self.stacks)),
            of_table(ProcessRow::TABLE, serde_json::to_value(&self.processes)),
            of_table(MemoryRow::TABLE, serde_json::to_value(&self.memory)),
            of_table(HeapRow::TABLE, serde_json::to_value(&self.heap)),
        ]
        .concat()
    }

    /// Whether there is nothing to send.
    fn is_empty(&self) -> bool {
        self.heap.is_empty() && self.processes.is_empty() && self.memory.is_empty()
    }
}

/// Sends what waits, the oldest first. Returns how many batches were sent.
pub fn send(queue: &mut Queue, server: &ClickHouse) -> Result<usize, String> {
    let broken = |error: io::Error| format!("the agent's queue: {error}");
    let mut sent = 0;
    if queue.waiting() > 0 {
        server.check()?;
    }
    while let Some((number, batch)) = queue.first().map_err(broken)? {
        server.send(&batch, &format!("{}-{number}", queue.id))?;
        queue.remove(number).map_err(broken)?;
        sent += 1;
    }
    Ok(sent)
}

/// Of texts one after the other; the first 64 bits of SHA-256.
pub fn hash<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text);
        hash.update([0]);
    }
    u64::from_be_bytes(*hash.finalize().first_chunk().expect("it has 32 bytes"))
}

fn seconds(unix_ns: u64) -> u32 {
    (unix_ns / NS_PER_SECOND) as u32
}
