//! The agent: follows the profiled processes of a host, and once in a while puts what has changed into the queue and sends what is there.

use crate::config::Config;
use crate::labels::Labels;
use crate::layout::ProcessRow;
use crate::names::Dictionary;
use crate::process::{Process, heap_rows};
use crate::queue::{Change, Queue};
use crate::rows::{Keep, Rows};
use crate::server::{check, insert};
use crate::state::State;
use crate::time::{NS_PER_MILLISECOND, seconds};
use ramson_analysis::hash::hash;
use ramson_follow::{Scope, Search};
use ramson_process::cgroup::Groups;
use ramson_process::clock::unix_ns;
use ramson_process::text;
use ramson_reader::Header;
use ramson_source::Recording;
use ramson_source::clickhouse::ClickHouse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use std::{io, mem};

/// Rows and states are put on disk when they have so many bytes.
const MOST_BYTES: usize = 4 << 20;
/// Follows processes.
pub struct Agent {
    host: String,
    start_ns: u64,
    is_first: bool,
    search: Search,
    found: Vec<Recording>,
    processes: BTreeMap<u64, Process>,
    /// Those whose end is counted. Their files are found again as long as they are there.
    ended: BTreeSet<u64>,
    dictionary: Dictionary,
    /// Lines that `unreadable` returned last.
    told: BTreeSet<String>,
}

impl Agent {
    /// Finds the processes that are there, and those that began after `last_ns`, when an agent looked last, and have ended.
    pub fn begin(config: &Config, last_ns: Option<u64>) -> Self {
        let start_ns = last_ns.map_or_else(unix_ns, |last_ns| last_ns.min(unix_ns()));
        let every = Duration::from_secs(config.every_seconds);
        let scope = if config.go { Scope::RecordedAndGo } else { Scope::Recorded };
        let (search, found) = Search::begin(scope, every, start_ns);
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
            ended: BTreeSet::new(),
            dictionary: Dictionary::default(),
            told: BTreeSet::new(),
        }
    }

    /// Searches for new processes. It takes a while: what one search finds, a later one returns.
    pub fn search(&mut self) {
        let processes = &self.processes;
        let found = self.search.found(|| processes.values().map(Process::identity).collect());
        self.found.extend(found);
    }

    /// Looks at all processes. What cannot be kept is found again at the next round.
    pub fn round(&mut self, kept: &mut impl Keep) -> io::Result<()> {
        kept.settle()?;
        self.search();
        mem::take(&mut self.found).into_iter().for_each(|recording| self.follow(recording));
        let done = self.look(kept);
        if done.is_err() {
            self.dictionary = Dictionary::default();
            self.processes.values_mut().for_each(Process::forget);
        }
        done
    }

    fn look(&mut self, kept: &mut impl Keep) -> io::Result<()> {
        let mut rows = Rows::default();
        let mut ended = BTreeSet::new();
        if self.is_first {
            self.end_missed(kept, &mut rows);
        }
        let all: Vec<u64> = self.processes.keys().copied().collect();
        for id in &all {
            let Some(process) = self.processes.get_mut(id) else { continue };
            if process.look(|| kept.state(*id), all.len(), &mut self.dictionary, &mut rows) {
                ended.insert(*id);
            }
            if rows.bytes() > MOST_BYTES {
                self.keep(kept, mem::take(&mut rows), mem::take(&mut ended))?;
            }
        }
        self.keep(kept, rows, ended)
    }

    fn keep(&mut self, kept: &mut impl Keep, rows: Rows, ended: BTreeSet<u64>) -> io::Result<()> {
        if !rows.is_empty() {
            kept.keep(rows)?;
        }
        self.is_first = false;
        self.processes.retain(|id, _| !ended.contains(id));
        self.ended.extend(ended);
        Ok(())
    }

    /// Returns a line for each profile that cannot be read and was not told.
    pub fn unreadable(&mut self) -> Vec<String> {
        let now = self.search.unreadable.iter();
        let failures = self.processes.values().filter_map(|process| process.failure.as_ref());
        let all: BTreeSet<String> = now.chain(failures).cloned().collect();
        let new = all.difference(&self.told).cloned().collect();
        self.told = all;
        new
    }

    fn follow(&mut self, recording: Recording) {
        let header = &recording.snapshot.header;
        let id = self.process_id(header);
        if self.processes.contains_key(&id) || self.ended.contains(&id) {
            return;
        }
        let is_new = header.start_realtime_ns >= self.start_ns;
        let row = self.row(id, &recording);
        let Some(process) = Process::of(recording, row, is_new) else { return };
        for other in self.processes.values_mut() {
            other.is_replaced |= other.is_image_before(&process);
        }
        self.processes.insert(id, process);
    }

    /// Ends the processes that ended while no agent ran. What they did after the last look is not known.
    fn end_missed(&self, kept: &impl Keep, rows: &mut Rows) {
        let missed = kept.processes().into_iter().filter(|id| !self.processes.contains_key(id));
        for id in missed {
            let state = kept.state(id).and_then(|bytes| State::read(&bytes));
            let Some(State { mut row, mut counted, names, .. }) = state else { continue };
            let look = counted.latest();
            row.seen = unix_ns() / NS_PER_MILLISECOND;
            row.ended = seconds(look.unix_ns);
            rows.heap.extend(heap_rows(&row, &names, &counted.end(look)));
            rows.processes.push(row);
            rows.states.push((id, Change::End));
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
        ProcessRow {
            process: id,
            service: labels.service(&program),
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

/// Sends what waits, the oldest first, for about so long. Returns how many batches were sent.
pub fn send(queue: &mut Queue, server: &ClickHouse, most: Duration) -> Result<usize, String> {
    let began = Instant::now();
    let broken = |error: io::Error| format!("the agent's queue: {error}");
    let mut sent = 0;
    if queue.waiting() > 0 {
        check(server)?;
    }
    while let Some((number, batch)) = queue.first().map_err(broken)? {
        insert(server, &batch, &format!("{}-{number}", queue.id))?;
        queue.remove(number).map_err(broken)?;
        sent += 1;
        if began.elapsed() > most {
            break;
        }
    }
    Ok(sent)
}
