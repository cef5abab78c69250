//! The goroutines of a Go program: where they wait, who started them, and which become more and more.

use crate::go_library::is_of_library;
use crate::named::{assemble_stacks, stack_number};
use crate::naming::Names;
use ramson_process::go_goroutines::{Group, Waiting};
use ramson_profile::{FrameName, FrameTable, printable};
use ramson_source::Failure;
use ramson_source::go::{self, Goroutines as Look};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// Functions of the library in which a goroutine waits, with Go's own words for that (waitReasonStrings of runtime/runtime2.go); a call of C is
/// "syscall" there.
const REASONS: [(&str, &str); 19] = [
    ("runtime.chanrecv", "chan receive"),
    ("runtime.chansend", "chan send"),
    ("runtime.selectgo", "select"),
    ("runtime.block", "select (no cases)"),
    ("runtime.coroswitch", "coroutine"),
    ("runtime.cgocall", "cgo call"),
    ("runtime.notetsleepg", "syscall"),
    ("syscall.", "syscall"),
    ("internal/runtime/syscall.", "syscall"),
    ("runtime.netpollblock", "IO wait"),
    ("runtime.timeSleep", "sleep"),
    ("time.Sleep", "sleep"),
    ("runtime.notifyListWait", "sync.Cond.Wait"),
    ("sync.runtime_notifyListWait", "sync.Cond.Wait"),
    ("sync.(*WaitGroup).Wait", "sync.WaitGroup.Wait"),
    ("sync.(*Mutex).", "sync.Mutex.Lock"),
    ("sync.(*RWMutex).RLock", "sync.RWMutex.RLock"),
    ("sync.(*RWMutex).rlock", "sync.RWMutex.RLock"),
    ("sync.(*RWMutex).", "sync.RWMutex.Lock"),
];
/// Fewer more are no growth.
const LEAST_GROWTH: u64 = 10;
/// A rise to which one of these parts of the window adds less than a tenth is made of steps.
const PARTS: usize = 4;
const LEAST_PART: u64 = 10;
/// Between two looks is so many times what one takes.
const PAUSE: u32 = 9;
/// A rise of which more than a tenth was lost in between is none.
const MOST_FALL: u64 = 10;

/// Those of a process.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Goroutines {
    /// How many there are, without those of Go's runtime itself.
    pub count: u64,
    /// Bytes of their stacks.
    pub stack_bytes: u64,
    /// By where they are and who started them, the largest first.
    pub places: Vec<Place>,
}

/// Goroutines that are in one function, and were started in one.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Place {
    /// How many there are.
    pub count: u64,
    /// Bytes of their stacks.
    pub stack_bytes: u64,
    /// The innermost function that is not of Go's library.
    pub within: FrameName,
    /// Reason why they wait, in Go's words; null: it is not known, or they run.
    pub reason: Option<&'static str>,
    /// The function with their go statement; null: the runtime started them, as it does the first one.
    pub started_in: Option<FrameName>,
    /// About how long the first of them waits, in ns; null: no collection has found one waiting.
    pub longest_ns: Option<u64>,
    /// The stack of most of them, leaf first; the last frame is the go statement.
    pub frames: Vec<FrameName>,
}

/// Goroutines that have become more during a time.
#[derive(Serialize, schemars::JsonSchema)]
pub struct GrowingPlace {
    /// As they are now.
    #[serde(flatten)]
    pub place: Place,
    /// How many more are stuck there than when the time began.
    pub grown: u64,
    /// The time, in ns.
    pub window_ns: u64,
}

impl Place {
    /// `wait in main.handle (chan receive), started in main.serve`.
    pub fn phrase(&self) -> String {
        let name = |frame: &FrameName| printable(&frame.short()).into_owned();
        let within = name(&self.within);
        let started = self.started_in.as_ref().map(|it| format!(", started in {}", name(it)));
        let reason = self.reason.map_or(String::new(), |reason| format!(" ({reason})"));
        let are = if self.reason.is_some() { "wait" } else { "are" };
        format!("{are} in {within}{reason}{}", started.unwrap_or_default())
    }
}

/// Looks at the goroutines of a process. `None`: it is no Go program, or they cannot be read.
pub fn goroutines(pid: u32, names: &Names) -> Option<Result<Goroutines, Failure>> {
    let look = go::goroutines(pid)?.ok()?;
    let all = 0..look.groups.len();
    Some(named(&look, names, all.collect()).map(|named| {
        let places = places(&look, named).into_iter().map(|(place, _)| place);
        let mut places: Vec<Place> = places.collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.count));
        Goroutines {
            count: places.iter().map(|it| it.count).sum(),
            // A program may lie.
            stack_bytes: places.iter().fold(0, |sum: u64, it| sum.saturating_add(it.stack_bytes)),
            places,
        }
    }))
}

/// The names of the stacks of some groups.
fn named(
    look: &Look,
    names: &Names,
    groups: BTreeSet<usize>,
) -> Result<Vec<(usize, Vec<FrameName>)>, Failure> {
    let profile = assemble_stacks(&look.recording, names, &groups)?.profile;
    let table = FrameTable::new(&profile);
    let frames = profile.samples.iter().filter_map(|sample| {
        let frames: Vec<FrameName> = table.stack(sample).map(|at| table.name_at(at)).collect();
        Some((stack_number(sample)?, frames))
    });
    Ok(frames.collect())
}

/// Groups that are in one place, each with the groups.
fn places(look: &Look, named: Vec<(usize, Vec<FrameName>)>) -> Vec<(Place, Vec<usize>)> {
    let mut found: HashMap<_, (Place, Vec<usize>)> = HashMap::new();
    let mut named: Vec<_> =
        named.into_iter().filter(|(_, frames)| !is_of_runtime(frames)).collect();
    named.sort_by_key(|&(number, _)| std::cmp::Reverse(look.groups[number].count));
    for (number, frames) in named {
        let Group { count, stack_bytes, since_ns, .. } = look.groups[number];
        let Some((started_in, stack)) = frames.split_last() else { continue };
        // cgo writes functions between Go and C.
        let is_own = |name: &str| !is_of_library(name) && !name.contains("._Cfunc_");
        let own = stack.iter().find(|frame| is_own(&frame.name));
        let Some(within) = own.or(stack.last()) else { continue };
        let reason = reason(stack);
        let longest_ns = (since_ns != 0).then(|| look.at_ns.saturating_sub(since_ns));
        let key = (within.name.to_string(), started_in.name.to_string(), reason);
        let (place, groups) = found.entry(key).or_insert_with(|| {
            let is_of_runtime = started_in.name.starts_with("runtime.");
            let started_in = Some(started_in.clone()).filter(|_| !is_of_runtime);
            let within = within.clone();
            let place = Place {
                count: 0,
                stack_bytes: 0,
                within,
                reason,
                started_in,
                longest_ns,
                frames: frames.clone(),
            };
            (place, Vec::new())
        });
        place.count += count;
        place.stack_bytes = place.stack_bytes.saturating_add(stack_bytes);
        place.longest_ns = place.longest_ns.max(longest_ns);
        groups.push(number);
    }
    found.into_values().collect()
}

/// Whether a goroutine is one of the runtime's own (isSystemGoroutine of runtime/traceback.go).
fn is_of_runtime(frames: &[FrameName]) -> bool {
    const OF_THE_PROGRAM: [&str; 3] =
        ["runtime.main", "runtime.corostart", "runtime.handleAsyncEvent"];
    let function = frames.len().checked_sub(2).map(|last| &*frames[last].name);
    function.is_some_and(|it| it.starts_with("runtime.") && !OF_THE_PROGRAM.contains(&it))
}

/// Returns the reason of the outermost function of the library that has one.
fn reason(stack: &[FrameName]) -> Option<&'static str> {
    let library = stack.iter().take_while(|frame| is_of_library(&frame.name));
    let known = |frame: &FrameName| {
        let found = REASONS.iter().find(|(start, _)| frame.name.starts_with(start));
        found.map(|&(_, reason)| reason)
    };
    library.filter_map(known).last()
}

/// Looks at the goroutines of one process again and again: which of them have not run since the look before.
#[derive(Default)]
pub struct Watched {
    /// Numbers of the stacks that were seen.
    stacks: HashMap<Vec<u64>, usize>,
    /// At the last look, by their IDs: the stack, its pointer, and how often it has stopped.
    waiting: HashMap<u64, (usize, u64, u8)>,
    /// By stack, for each look but the first: goroutines that had not run since the look before.
    stuck: Vec<Vec<u64>>,
    looks: usize,
    began_ns: u64,
    last: Option<Look>,
    /// It has none that can be read.
    has_none: bool,
    /// Until then there is no other look: a hundred thousand goroutines take a while.
    next: Option<Instant>,
}

impl Watched {
    /// Looks once more.
    pub fn look(&mut self, pid: u32) {
        let began = Instant::now();
        if self.has_none || self.next.is_some_and(|next| began < next) {
            return;
        }
        let Some(Ok(look)) = go::goroutines(pid) else {
            self.has_none = true;
            return;
        };
        let numbers: Vec<usize> =
            look.groups.iter().map(|group| self.number(&group.stack)).collect();
        let of = |it: &Waiting| (it.id, (numbers[it.group as usize], it.stack_pointer, it.stops));
        let waiting: HashMap<u64, _> = look.waiting.iter().map(of).collect();
        if self.last.is_some() {
            self.looks += 1;
            for (id, now) in &waiting {
                if self.waiting.get(id) == Some(now) {
                    let counts = &mut self.stuck[now.0];
                    counts.resize(self.looks, 0);
                    counts[self.looks - 1] += 1;
                }
            }
        } else {
            self.began_ns = look.at_ns;
        }
        (self.waiting, self.last) = (waiting, Some(look));
        self.next = Some(Instant::now() + began.elapsed() * PAUSE);
    }

    fn number(&mut self, stack: &[u64]) -> usize {
        if let Some(&number) = self.stacks.get(stack) {
            return number;
        }
        self.stuck.push(Vec::new());
        self.stacks.insert(stack.to_vec(), self.stuck.len() - 1);
        self.stuck.len() - 1
    }

    /// Those that have become more, the fastest first.
    pub fn growing(&self, names: &Names) -> Result<Vec<GrowingPlace>, Failure> {
        let Some(look) = &self.last else { return Ok(Vec::new()) };
        let all = (0..look.groups.len()).collect();
        let counts = |group: usize| {
            let number = self.stacks.get(&look.groups[group].stack);
            number.map_or(&[][..], |&number| &self.stuck[number])
        };
        let mut growing = Vec::new();
        for (place, groups) in places(look, named(look, names, all)?) {
            let mut sums = vec![0; self.looks];
            for group in groups {
                sums.iter_mut().zip(counts(group)).for_each(|(sum, count)| *sum += count);
            }
            let window_ns = look.at_ns.saturating_sub(self.began_ns);
            growing.extend(growth(&sums).map(|grown| GrowingPlace { place, grown, window_ns }));
        }
        growing.sort_by_key(|it| std::cmp::Reverse(it.grown));
        Ok(growing)
    }
}

/// By how much these counts rise, if they rise all the time.
fn growth(counts: &[u64]) -> Option<u64> {
    let (&first, &last) = (counts.first()?, counts.last()?);
    let grown = last.checked_sub(first)?;
    let fallen: u64 = counts.windows(2).map(|pair| pair[0].saturating_sub(pair[1])).sum();
    let at = |part: usize| counts[(counts.len() - 1) * part / PARTS];
    let rise = |part: usize| at(part + 1).saturating_sub(at(part));
    let is_growth = counts.len() > PARTS
        && grown >= LEAST_GROWTH
        && fallen <= grown / MOST_FALL
        && (0..PARTS).all(|part| rise(part) >= grown / LEAST_PART);
    is_growth.then_some(grown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_rise_is_growth() {
        let rise: Vec<u64> = (0..16).map(|look| 100 + 3 * look).collect();
        assert_eq!(growth(&rise), Some(45));
        // Too few, a step, a step at the end, noise, a fall, nothing.
        let few: Vec<u64> = (0..16).map(|look| 100 + look / 2).collect();
        let step: Vec<u64> = (0..16).map(|look| if look < 4 { 10 } else { 90 }).collect();
        let late: Vec<u64> = (0..16).map(|look| if look < 15 { 10 } else { 90 }).collect();
        let stair: Vec<u64> = (0..16).map(|look| 10 + 40 * ((look + 2) / 6)).collect();
        let noise = [50, 62, 49, 60, 51, 66, 48, 63, 52, 64, 50, 61, 49, 65, 51, 62];
        let fall: Vec<u64> = rise.iter().rev().copied().collect();
        for counts in [&few[..], &step, &late, &stair, &noise, &fall, &[], &[7], &[1, 50, 99]] {
            assert_eq!(growth(counts), None, "{counts:?}");
        }
    }

    #[test]
    fn reasons_are_those_of_the_runtime() {
        let stack = |names: &[&str]| -> Vec<FrameName> {
            names
                .iter()
                .map(|&name| FrameName { name: name.into(), ..FrameName::default() })
                .collect()
        };
        let of = |names: &[&str]| reason(&stack(names));
        assert_eq!(
            of(&["runtime.gopark", "runtime.chanrecv", "runtime.chanrecv1", "main.f"]),
            Some("chan receive")
        );
        assert_eq!(
            of(&["runtime.gopark", "runtime.semacquire1", "sync.(*Mutex).lockSlow", "main.f"]),
            Some("sync.Mutex.Lock")
        );
        assert_eq!(of(&["main.f", "runtime.chanrecv"]), None);
        assert!(is_of_runtime(&stack(&["runtime.gopark", "runtime.bgsweep", "runtime.gcenable"])));
        assert!(!is_of_runtime(&stack(&["main.main", "runtime.main", "runtime.rt0_go"])));
    }
}
