//! Collections of a Go program, and the stacks that make its collector work: read from the memory of a running process, or from the lines that
//! GODEBUG=gctrace=1 prints.

mod trace;

use crate::go_library::is_of_library;
use crate::question::{Question, Shown};
use crate::report::{View, report};
use crate::stack_table::{FunctionSum, StackTable};
use ramson_process::clock::unix_ns;
use ramson_process::go_collector::{self, Look, Watch};
use ramson_process::go_memory::Collector;
use ramson_profile::{Estimate, FrameName, SampleType};
use ramson_source::go::{Allocations, unreadable};
use ramson_source::{Failure, Members, Opened, Recording, Target, find_target};
use serde::Serialize;
use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

pub use trace::of_trace;

/// Between two looks: a heap is seen as it was at most so long before its collection ended.
pub const BETWEEN: Duration = Duration::from_millis(50);
/// Looks of which the heap is kept: an hour.
const MOST_LOOKS: usize = 72_000;

/// Collections of a time.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Gc {
    /// The process, or the file.
    pub origin: String,
    /// Its ID here; null: a file.
    pub pid: Option<u32>,
    /// The collector's settings and figures at the end; null: a file.
    pub collector: Option<Collector>,
    /// The time; seconds.
    pub seconds: f64,
    /// Collections in it, oldest first; the runtime notes the last 256.
    pub collections: Vec<Collection>,
    /// The collector's part of the CPU time that the program could have had since its start, from 0 to 1.
    pub cpu_share: Option<f64>,
    /// Allocations by stack, from one collection to another in this time; null: see `no_stacks`.
    pub allocated: Option<StackTable>,
    /// The function of the program, and not of Go's library, whose stacks allocated most.
    pub largest: Option<FunctionSum>,
    /// The seconds between these two collections.
    pub allocated_in_seconds: f64,
    /// Why it is not known which stacks allocated.
    pub no_stacks: Option<String>,
    /// Lines about collections that could not be read.
    pub bad_lines: usize,
}

/// A collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Collection {
    /// From 1 on.
    pub number: u32,
    /// When it ended: in a process, nanoseconds since 1970; in a file, since the program's start.
    pub end_ns: u64,
    /// How long it stopped the program.
    pub pause_ns: u64,
    /// CPU time that goroutines had to give to it before they could allocate (mark assist); null: not seen.
    pub assist_ns: Option<u64>,
    /// Bytes of the heap before it, as they were up to 50 ms before its end in a running process; null: not seen.
    pub before_bytes: Option<u64>,
    /// Bytes that were live when it ended; null: not seen.
    pub live_bytes: Option<u64>,
    /// The size at which it was to end by GOGC; null: not seen, or GOGC is off.
    pub goal_bytes: Option<u64>,
    /// Bytes of the heap's arenas that were returned to the kernel when it was seen; null: not seen.
    pub released_bytes: Option<u64>,
    /// The program asked for it; null: not seen.
    pub is_forced: Option<bool>,
}

/// Watches a process for so long, or until `is_stopped`.
pub fn watch(
    question: &Question,
    window: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Gc, Failure> {
    let mut watcher = Watcher::begin(question)?;
    while watcher.began.elapsed() < window && !is_stopped() {
        thread::sleep(BETWEEN.min(window.saturating_sub(watcher.began.elapsed())));
        watcher.look()?;
    }
    watcher.found()
}

/// A process whose collections are watched.
pub struct Watcher {
    question: Question,
    pid: u32,
    name: String,
    watch: Watch,
    began: Instant,
    seen: Seen,
    /// Since the end of the collection of this number.
    allocations: Option<(u32, Allocations)>,
    /// Why nothing is known of allocations.
    off: Option<String>,
}

impl Watcher {
    /// Begins now.
    pub fn begin(question: &Question) -> Result<Self, Failure> {
        let [source] = question.sources.as_slice() else {
            return Err(Failure::usage("one SRC at a time. Pass one process"));
        };
        let Target { pid, name, .. } = find_target(source)?;
        let watch = match Watch::of(pid) {
            Some(Ok(watch)) => watch,
            Some(Err(defect)) => return Err(unreadable(pid, &name, &defect)),
            None => return Err(no_go(pid, &name)),
        };
        let first = watch.look(u32::MAX).ok_or_else(|| no_go(pid, &name))?;
        let off = Allocations::of(pid).and_then(Result::err).map(|failure| failure.to_string());
        let (began, seen) = (Instant::now(), Seen::of(&first));
        Ok(Self {
            question: question.clone(),
            pid,
            name,
            watch,
            began,
            seen,
            allocations: None,
            off,
        })
    }

    /// Looks at it; to be called every `BETWEEN`.
    pub fn look(&mut self) -> Result<(), Failure> {
        self.seen.add(self.watch.look(self.seen.last()).ok_or_else(|| self.gone())?);
        // Samples that the runtime shows from then on were allocated within the time.
        if self.off.is_none() && self.allocations.is_none() && self.seen.collections.len() >= 2 {
            let (look, begun) =
                at_rest(&self.watch, || Allocations::of(self.pid)).ok_or_else(|| self.gone())?;
            let begun = begun.ok_or_else(|| self.gone())??;
            self.allocations = Some((look.collector.collections, begun));
        }
        Ok(())
    }

    /// For how long it is watched.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    fn gone(&self) -> Failure {
        Failure::not_found(format!("process {} ({}): it has ended", self.pid, self.name))
    }

    /// Bytes of its heap at each look of late, with the time in nanoseconds since 1970.
    pub fn heap(&self) -> &[(u64, u64)] {
        &self.seen.heap
    }

    /// Returns all that was seen until now, with the stacks that allocated.
    pub fn found(&mut self) -> Result<Gc, Failure> {
        let mut allocated = None;
        let mut allocated_in_seconds = 0.0;
        if let Some((begin, allocations)) = &self.allocations {
            let (last, opened) =
                at_rest(&self.watch, || allocations.until_now()).ok_or_else(|| self.gone())?;
            self.seen.add(self.watch.look(self.seen.last()).ok_or_else(|| self.gone())?);
            let (begin, end) = (*begin, last.collector.collections);
            if begin < end {
                let end_of = |number: u32| {
                    let found = self.seen.collections.iter().find(|one| one.number == number);
                    found.map_or(0, |one| one.end_ns)
                };
                let [from, to] = [begin, end].map(|number| end_of(number - 1));
                allocated = Some(by_stack(opened?, &self.question)?);
                allocated_in_seconds = to.saturating_sub(from) as f64 / 1e9;
            }
        }
        let few = "that takes at least 3 collections in the window. Pass a longer --window";
        let is_unknown = allocated.is_none() && !self.seen.collections.is_empty();
        let no_stacks = self.off.clone().or_else(|| is_unknown.then(|| few.into()));
        let largest = allocated.as_ref().and_then(largest);
        if let Some(table) = allocated.as_mut().filter(|_| self.question.rows > 0) {
            table.rows.truncate(self.question.rows);
        }
        Ok(Gc {
            origin: self.name.clone(),
            pid: Some(self.pid),
            collector: Some(self.seen.before.clone()),
            seconds: self.began.elapsed().as_secs_f64(),
            collections: self.seen.collections.clone(),
            cpu_share: Some(self.seen.cpu_share),
            allocated,
            largest,
            allocated_in_seconds,
            no_stacks,
            bad_lines: 0,
        })
    }
}

/// Reads while no collection ends, nor has just ended: after that, the runtime brings its profile up to date.
fn at_rest<T>(watch: &Watch, read: impl Fn() -> T) -> Option<(Look, T)> {
    const TRIES: u32 = 20;
    const UPDATED_AFTER: Duration = Duration::from_millis(20);
    let mut tries = 0;
    loop {
        tries += 1;
        let look = watch.look(u32::MAX)?;
        let ago = Duration::from_nanos(unix_ns().saturating_sub(look.collector.last_unix_ns));
        if ago >= UPDATED_AFTER || tries > TRIES {
            let found = read();
            let is_same = watch.look(u32::MAX)?.collector.collections == look.collector.collections;
            if is_same || tries > TRIES {
                return Some((look, found));
            }
        }
        thread::sleep(UPDATED_AFTER);
    }
}

fn no_go(pid: u32, name: &str) -> Failure {
    Failure::not_found(format!(
        "process {pid} ({name}): no Go program, or one that cannot be read. \"ramson explain {pid}\" explains its memory"
    ))
}

fn by_stack(allocated: Recording, question: &Question) -> Result<StackTable, Failure> {
    let mut members = Members { opened: vec![Opened::Recording(allocated)], unprofiled: 0 };
    let sample_type = Some(SampleType::AllocSpace);
    let question = Question { sample_type, view: Shown::Stacks, rows: 0, ..question.clone() };
    match report(&mut members, &question)?.view {
        View::Stacks(table) => Ok(table),
        _ => Err(Failure::failed("no stacks")),
    }
}

/// The function with the largest sum, where each stack counts for its first function that is not of Go's library.
fn largest(table: &StackTable) -> Option<FunctionSum> {
    let mut sums: HashMap<&str, (&FrameName, Estimate)> = HashMap::new();
    for row in &table.rows {
        let own = row.frames.iter().find(|frame| !is_of_library(&frame.name));
        let own = own.or(row.frames.first())?;
        sums.entry(&own.name).or_insert((own, Estimate::default())).1 += row.value;
    }
    let (function, value) = sums.into_values().max_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
    Some(FunctionSum { function: FrameName { line: 0, ..function.clone() }, value })
}

/// What was seen of a process.
struct Seen {
    collections: Vec<Collection>,
    /// At the last look.
    before: Collector,
    cpu_share: f64,
    /// Times and bytes of the heap.
    heap: Vec<(u64, u64)>,
}

impl Seen {
    fn of(first: &Look) -> Self {
        let (before, cpu_share) = (first.collector.clone(), first.cpu_share);
        Self { collections: Vec::new(), before, cpu_share, heap: Vec::new() }
    }

    /// The last collection that has ended.
    fn last(&self) -> u32 {
        self.before.collections
    }

    fn add(&mut self, look: Look) {
        let Look { collector, ended, cpu_share } = look;
        let count = ended.len();
        if self.heap.len() == MOST_LOOKS {
            self.heap.drain(..MOST_LOOKS / 2);
        }
        self.heap.push((unix_ns(), collector.in_use));
        for (index, one) in ended.into_iter().enumerate() {
            let mut collection = Collection::of(one);
            // Of several between two looks, the heap was seen before the first and after the last.
            if index == 0 {
                collection.before_bytes = Some(self.before.in_use);
                collection.goal_bytes = self.before.goal;
            }
            if index + 1 == count {
                collection.live_bytes = Some(collector.live);
                collection.released_bytes = Some(collector.released);
            }
            if count == 1 {
                collection.is_forced = Some(collector.forced > self.before.forced);
                collection.assist_ns = collector.assist_ns;
            }
            self.collections.push(collection);
        }
        (self.before, self.cpu_share) = (collector, cpu_share);
    }
}

impl Collection {
    fn of(noted: go_collector::Collection) -> Self {
        Self {
            number: noted.number,
            end_ns: noted.end_unix_ns,
            pause_ns: noted.pause_ns,
            ..Self::default()
        }
    }
}

impl Gc {
    /// Collections in a minute.
    pub fn per_minute(&self) -> f64 {
        self.collections.len() as f64 * 60.0 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// The median pause and the longest one.
    pub fn pauses_ns(&self) -> Option<(u64, u64)> {
        let mut all: Vec<u64> = self.collections.iter().map(|one| one.pause_ns).collect();
        all.sort_unstable();
        Some((*all.get(all.len() / 2)?, *all.last()?))
    }

    /// How long ago the last collection ended.
    pub fn last_ago_ns(&self) -> Option<u64> {
        let collector = self.collector.as_ref().filter(|it| it.collections > 0)?;
        Some(unix_ns().saturating_sub(collector.last_unix_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_process::go_collector;

    fn look(ended: &[u32], in_use: u64, live: u64, forced: u32) -> Look {
        let collector = Collector {
            version: "go1.26.8".into(),
            percent: 100,
            limit: None,
            live,
            in_use,
            released: 0,
            goal: Some(2 * live),
            collections: ended.last().copied().unwrap_or(4),
            forced,
            last_unix_ns: 0,
            assist_ns: None,
            interval: 512 << 10,
        };
        let ended = ended.iter().map(|&number| {
            let (end_unix_ns, pause_ns) = (u64::from(number) * 1000, u64::from(number));
            go_collector::Collection { number, end_unix_ns, pause_ns }
        });
        Look { collector, ended: ended.collect(), cpu_share: 0.02 }
    }

    #[test]
    fn heap_is_seen_before_the_first_and_after_the_last_collection() {
        let mut seen = Seen::of(&look(&[], 70, 40, 1));
        seen.add(look(&[5], 42, 41, 2));
        seen.add(look(&[], 80, 41, 2));
        seen.add(look(&[6, 7, 8], 45, 44, 2));
        let of = |index: usize| {
            let one: &Collection = &seen.collections[index];
            (one.number, one.before_bytes, one.live_bytes, one.goal_bytes, one.is_forced)
        };
        assert_eq!(of(0), (5, Some(70), Some(41), Some(80), Some(true)));
        assert_eq!(of(1), (6, Some(80), None, Some(82), None));
        assert_eq!(of(2), (7, None, None, None, None));
        assert_eq!(of(3), (8, None, Some(44), None, None));
        assert_eq!(seen.last(), 8);
    }
}
