//! The heap of a Go program over time, as if it were recorded. Its runtime counts the samples of each stack and size; it does not say how
//! old they are.
//!
//! Samples that are new at a look count as allocated one after the other since the look before, and one that is freed was the latest of its
//! stack and size. So what is added to a stack, and stays, has the age of the growth: a pool whose blocks are replaced is as old as when it was
//! filled. The first look goes on from the last one that a history has, or a mark.

use ramson_apart::for_process;
use ramson_format::{
    EPOCH_OPEN, GO_FAMILY, HEALTH, Health, KINDS, Kind, LIFETIME_BUCKETS, LookupAddress, flags,
    lifetime_bucket, stack_flags, stack_hash, state,
};
use ramson_paths::executable_identity;
use ramson_process::clock::{monotonic_ns, since_boot_ns, unix_ns};
use ramson_process::go::{Bucket, GoHeap, NoGoHeap, heap_of};
use ramson_process::stat::Stat;
use ramson_process::{Mapping as Mapped, mappings, processes, text};
use ramson_profile::{ReturnAddress, sampling_probability};
use ramson_reader::{Header, LiveSample, Mapping, Snapshot, Stack};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Samples that are live at most: with a MemProfileRate of 1 each block is one.
const MOST_LIVE: usize = 1 << 23;
/// Of another user's program, which may lie.
const MOST_LIVE_OF_OTHERS: usize = 1 << 20;
/// Clocks are read one after the other.
const SAME_NS: u64 = 10_000_000;

/// The programs that this process has looked at, and still run.
static COURSES: Mutex<Option<HashMap<u32, Course>>> = Mutex::new(None);

/// A program at one look.
pub struct Look {
    /// Its samples.
    pub snapshot: Snapshot,
    /// When it was looked at, on the clock of the profile's times.
    pub at_ns: u64,
}

/// Why there is no look at a Go program.
pub enum NoLook {
    /// Its heap cannot be read.
    Heap(NoGoHeap),
    /// More samples are live than are kept, which are so many.
    TooMany(usize),
}

/// Looks at a program. `None`: it is no Go program, or cannot be looked at. The first time it goes on from what `earlier` returns for its header, of
/// which process ID and start are known.
pub fn look(
    pid: u32,
    earlier: impl FnOnce(&Header) -> Option<Snapshot>,
) -> Option<Result<Look, NoLook>> {
    let stat = Stat::of(pid)?;
    let heap = match heap_of(pid)? {
        Ok(heap) => heap,
        Err(defect) => return Some(Err(NoLook::Heap(defect))),
    };
    let mut courses = courses();
    let courses = courses.get_or_insert_default();
    if courses.get(&pid).is_none_or(|course| !course.is_of(stat)) {
        courses.retain(|&pid, course| Stat::of(pid).is_some_and(|it| course.is_of(it)));
    }
    let course = courses.entry(pid).or_insert_with(|| Course::begin(pid, stat, earlier));
    course.look(pid, &heap)
}

fn most_live_of(pid: u32) -> usize {
    if for_process(pid).is_some() { MOST_LIVE_OF_OTHERS } else { MOST_LIVE }
}

/// Makes a look of a heap without an earlier or a later one.
pub fn look_once(pid: u32, heap: &GoHeap) -> Option<Result<Look, NoLook>> {
    Course::new(Stat::of(pid)?, most_live_of(pid)).look(pid, heap)
}

/// What another ramson knew of a program.
pub struct Earlier {
    /// When it looked, on the clock of the profile's times.
    pub at_ns: u64,
    /// Addresses of live samples, and when they were allocated.
    pub samples: Vec<(u64, u64)>,
    /// How long freed samples lived, by the hash of the stack.
    pub lifetimes: HashMap<u64, [u64; LIFETIME_BUCKETS]>,
}

impl Earlier {
    fn of(snapshot: &Snapshot) -> Self {
        let of_stack = |stack: &Stack| {
            let hash = stack_hash(stack.kind(), stack.epoch, stack.frames.iter().copied());
            (hash, stack.lifetimes)
        };
        let samples = snapshot.live.iter().filter(|it| it.family == GO_FAMILY);
        Self {
            at_ns: snapshot.go_now_ns().unwrap_or(0),
            samples: samples.map(|it| (it.address, it.monotonic_ns)).collect(),
            lifetimes: snapshot.stacks.iter().filter(|it| is_of_go(it)).map(of_stack).collect(),
        }
    }
}

/// The next look at a program goes on from what another ramson knew.
pub fn go_on_from(pid: u32, earlier: Earlier) {
    let mut courses = courses();
    if let Some(course) = courses.get_or_insert_default().get_mut(&pid) {
        course.buckets.clear();
        course.begin_at(earlier);
    }
}

fn courses() -> MutexGuard<'static, Option<HashMap<u32, Course>>> {
    COURSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds what Go's runtime has sampled to the profile of its process. Its stacks stay where they were added first.
pub fn add(snapshot: &mut Snapshot, of_go: Snapshot) {
    let known = snapshot.stacks.iter().enumerate().filter(|(_, stack)| is_of_go(stack));
    let known: HashMap<Vec<LookupAddress>, usize> =
        known.map(|(number, stack)| (stack.frames.clone(), number)).collect();
    let mut numbers = Vec::with_capacity(of_go.stacks.len());
    for stack in of_go.stacks {
        if !is_of_go(&stack) {
            numbers.push(0);
        } else if let Some(&number) = known.get(&stack.frames) {
            snapshot.stacks[number] = stack;
            numbers.push(number);
        } else {
            numbers.push(snapshot.stacks.len());
            snapshot.stacks.push(stack);
        }
    }
    snapshot.go_as_of_ns = Some(of_go.header.last_monotonic_ns);
    let live = of_go.live.into_iter();
    snapshot.live.extend(live.map(|sample| LiveSample { stack: numbers[sample.stack], ..sample }));
    for mapping in of_go.mappings {
        if !snapshot.mappings.iter().any(|it| (it.start, it.epochs.start) == (mapping.start, 0)) {
            snapshot.mappings.push(mapping);
        }
    }
}

/// Looks at a program as `look` does, and remembers those that are not Go's, or cannot be read.
pub fn look_beside(
    pid: u32,
    earlier: impl FnOnce(&Header) -> Option<Snapshot>,
) -> Option<Snapshot> {
    let program = (pid, executable_identity(pid)?);
    if others().get_or_insert_default().contains(&program) {
        return None;
    }
    let look = look(pid, earlier).and_then(Result::ok);
    if look.is_none() {
        let mut others = others();
        let others = others.get_or_insert_default();
        others.retain(|other| Stat::of(other.0).is_some());
        others.insert(program);
    }
    look.map(|look| look.snapshot)
}

/// A process and its executable.
pub type Program = (u32, (u64, u64));
/// Those that are not Go's, or cannot be read.
static OTHERS: Mutex<Option<HashSet<Program>>> = Mutex::new(None);

pub fn others() -> MutexGuard<'static, Option<HashSet<Program>>> {
    OTHERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_of_go(stack: &Stack) -> bool {
    stack.flags & stack_flags::GO != 0
}

/// A program that is looked at again and again.
struct Course {
    start_ticks: u64,
    /// Samples that are kept at most.
    most_live: usize,
    /// When the process began, on the clock of the profile's times, and since 1970.
    start_monotonic_ns: u64,
    start_unix_ns: u64,
    /// The moments that the first look and the latest one are as of; 0: there was none.
    began_ns: u64,
    now_ns: u64,
    /// By the number of the bucket.
    buckets: HashMap<u64, Samples>,
    /// How long those samples lived that had been freed when this ramson looked first, by the hash of the stack.
    lifetimes: HashMap<u64, [u64; LIFETIME_BUCKETS]>,
    /// Samples that have addresses out of the order of their bucket.
    numbered: u64,
}

/// Those of one stack and size.
#[derive(Default)]
struct Samples {
    /// When it was seen first; 0: not yet.
    first_ns: u64,
    /// The oldest first.
    live: Vec<Sample>,
    /// At the latest look, if it was this ramson's.
    freed: Option<u64>,
    /// Most have none.
    lifetimes: Option<Box<[u64; LIFETIME_BUCKETS]>>,
}

struct Sample {
    born_ns: u64,
    address: u64,
}

impl Course {
    fn begin(pid: u32, stat: Stat, earlier: impl FnOnce(&Header) -> Option<Snapshot>) -> Self {
        let mut course = Self::new(stat, most_live_of(pid));
        let start_realtime_ns = course.start_unix_ns;
        let known = Header { pid, start_realtime_ns, ..Header::default() };
        let earlier = earlier(&known).filter(|it| it.stacks.iter().any(is_of_go));
        earlier.into_iter().for_each(|earlier| course.begin_at(Earlier::of(&earlier)));
        course
    }

    fn new(stat: Stat, most_live: usize) -> Self {
        let age_ns = processes::age_ns(stat.start_ticks);
        // The same each time that the process is looked at.
        let boot_unix_ns = unix_ns().saturating_sub(since_boot_ns()).next_multiple_of(SAME_NS);
        let start_unix_ns = (boot_unix_ns + since_boot_ns()).saturating_sub(age_ns);
        let start_unix_ns = start_unix_ns.next_multiple_of(SAME_NS);
        let age_ns = unix_ns().saturating_sub(start_unix_ns);
        Self {
            start_ticks: stat.start_ticks,
            most_live,
            start_monotonic_ns: monotonic_ns().saturating_sub(age_ns),
            start_unix_ns,
            began_ns: 0,
            now_ns: 0,
            buckets: HashMap::new(),
            lifetimes: HashMap::new(),
            numbered: 0,
        }
    }

    fn begin_at(&mut self, earlier: Earlier) {
        let Earlier { at_ns, mut samples, lifetimes } = earlier;
        let times = || samples.iter().map(|(_, born_ns)| *born_ns);
        self.began_ns = times().min().unwrap_or(at_ns);
        self.now_ns = times().max().unwrap_or(0).max(at_ns);
        self.lifetimes = lifetimes;
        samples.retain(|(address, _)| *address < OUT_OF_ORDER);
        samples.sort_unstable();
        for (address, born_ns) in samples {
            let of_bucket = self.buckets.entry(address / BUCKET_BYTES).or_default();
            of_bucket.live.push(Sample { born_ns, address });
        }
        let first = |of: &Samples| of.live.iter().map(|sample| sample.born_ns).min();
        self.buckets.values_mut().for_each(|it| it.first_ns = first(it).unwrap_or(0));
    }

    fn look(&mut self, pid: u32, heap: &GoHeap) -> Option<Result<Look, NoLook>> {
        let mappings = code_of(pid, heap.at, heap.bias)?;
        Some(self.go_on(heap).map(|(stacks, live)| {
            let header = self.header(pid, heap);
            let snapshot = Snapshot { header, mappings, stacks, live, ..Snapshot::default() };
            Look { snapshot, at_ns: monotonic_ns() }
        }))
    }

    fn is_of(&self, stat: Stat) -> bool {
        stat.start_ticks == self.start_ticks
    }

    fn header(&self, pid: u32, heap: &GoHeap) -> Header {
        let sum = |of: fn(&Bucket) -> u64| heap.buckets.iter().map(of).fold(0, u64::saturating_add);
        let mut health = vec![0; HEALTH.len()];
        health[Health::Samples as usize] = sum(|it| it.allocated);
        health[Health::Frees as usize] = sum(|it| it.freed);
        Header {
            state: state::RECORDING,
            flags: flags::GO,
            interval_bytes: heap.interval,
            configured_interval_bytes: heap.interval,
            start_monotonic_ns: self.start_monotonic_ns,
            start_realtime_ns: self.start_unix_ns,
            process_start_ticks: self.start_ticks,
            attached_monotonic_ns: self.began_ns,
            last_monotonic_ns: self.now_ns,
            health,
            ..header_of(pid)
        }
    }

    /// Goes on to what the runtime counts now.
    fn go_on(&mut self, heap: &GoHeap) -> Result<(Vec<Stack>, Vec<LiveSample>), NoLook> {
        // The counters are as of the end of a collection: until the next one ends, no time passes.
        let after_start_ns = heap.as_of_unix_ns.saturating_sub(self.start_unix_ns);
        let as_of_ns = self.start_monotonic_ns.saturating_add(after_start_ns);
        let before_ns = if self.now_ns == 0 { as_of_ns } else { self.now_ns };
        // A program may lie.
        self.now_ns = as_of_ns.min(monotonic_ns()).max(before_ns);
        if self.began_ns == 0 {
            self.began_ns = self.now_ns;
        }
        let mut stacks: Vec<Stack> = KINDS.map(Stack::overflow).into();
        let mut numbers: HashMap<&[u64], usize> = HashMap::with_capacity(heap.buckets.len());
        stacks.reserve(heap.buckets.len());
        self.buckets.reserve(heap.buckets.len().saturating_sub(self.buckets.len()));
        let mut live = Vec::new();
        // The runtime puts new ones in front: a stack keeps its number.
        for bucket in heap.buckets.iter().rev() {
            let samples = self.buckets.entry(number_of(bucket)).or_default();
            let count = (bucket.allocated - bucket.freed) as usize;
            if count > self.most_live - live.len() {
                return Err(NoLook::TooMany(self.most_live));
            }
            samples.go_on(bucket, [before_ns, self.now_ns], &mut self.numbered);
            let stack = *numbers.entry(&bucket.stack).or_insert_with(|| {
                let frames = bucket.stack.iter().map(|&address| ReturnAddress(address).lookup());
                let frames: Vec<LookupAddress> = frames.collect();
                let hash = stack_hash(Kind::Heap, 0, frames.iter().copied());
                stacks.push(Stack {
                    flags: Kind::Heap.stack_flags() | stack_flags::GO,
                    first_monotonic_ns: u64::MAX,
                    lifetimes: self.lifetimes.get(&hash).copied().unwrap_or_default(),
                    frames,
                    ..Stack::default()
                });
                stacks.len() - 1
            });
            let inverse_probability = inverse_probability(bucket.size, heap.interval);
            samples.count(bucket, inverse_probability, &mut stacks[stack]);
            live.extend(samples.live.iter().map(|sample| LiveSample {
                address: sample.address,
                size: bucket.size,
                inverse_probability,
                monotonic_ns: sample.born_ns,
                stack,
                tid: 0,
                family: GO_FAMILY,
            }));
        }
        Ok((stacks, live))
    }
}

impl Samples {
    fn go_on(&mut self, bucket: &Bucket, [before_ns, now_ns]: [u64; 2], numbered: &mut u64) {
        /// How long those have lived that came and went between two looks, at most: nobody knows.
        const SHORT_NS: u64 = 1_000_000_000;
        let count = (bucket.allocated - bucket.freed) as usize;
        let gone = self.live.len().saturating_sub(count);
        for sample in self.live.drain(self.live.len() - gone..) {
            let lifetimes = self.lifetimes.get_or_insert_default();
            lifetimes[lifetime_bucket(now_ns.saturating_sub(sample.born_ns))] += 1;
        }
        if let Some(freed) = self.freed {
            let short_lived = bucket.freed.saturating_sub(freed).saturating_sub(gone as u64);
            let lifetime_ns = now_ns.saturating_sub(before_ns).min(SHORT_NS);
            if short_lived > 0 {
                let lifetimes = self.lifetimes.get_or_insert_default();
                let count = &mut lifetimes[lifetime_bucket(lifetime_ns)];
                *count = count.saturating_add(short_lived);
            }
        }
        self.freed = Some(bucket.freed);
        if self.first_ns == 0 {
            self.first_ns = before_ns;
        }
        let new = count - self.live.len();
        let step_ns = now_ns.saturating_sub(before_ns) / (new as u64 + 1);
        for number in 1..=new as u64 {
            let address = address(bucket, self.live.len(), numbered);
            self.live.push(Sample { born_ns: before_ns + step_ns * number, address });
        }
    }

    fn count(&self, bucket: &Bucket, inverse_probability: f64, stack: &mut Stack) {
        let &Bucket { size, allocated, freed, .. } = bucket;
        let variance = allocated as f64 * inverse_probability * (inverse_probability - 1.0);
        let [objects, gone] = [allocated, freed].map(|it| it as f64 * inverse_probability);
        // A program may lie.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut stack.sampled_alloc_objects, allocated);
        add(&mut stack.sampled_alloc_bytes, allocated.saturating_mul(size));
        add(&mut stack.sampled_freed_objects, freed);
        add(&mut stack.sampled_freed_bytes, freed.saturating_mul(size));
        stack.alloc_objects += objects;
        stack.alloc_space += objects * size as f64;
        stack.freed_objects += gone;
        stack.freed_space += gone * size as f64;
        stack.alloc_objects_variance += variance;
        stack.alloc_space_variance += variance * (size as f64).powi(2);
        stack.first_monotonic_ns = stack.first_monotonic_ns.min(self.first_ns);
        if let Some(lifetimes) = &self.lifetimes {
            stack.lifetimes.iter_mut().zip(&**lifetimes).for_each(|(sum, &count)| add(sum, count));
        }
    }
}

/// A bucket has more bytes than this.
const LEAST_BUCKET: u64 = 1 << 7;
/// Addresses that a bucket has for its samples.
const BUCKET_BYTES: u64 = 1 << 18;
const SAMPLE_BYTES: u64 = 4;
/// Where the addresses of the others begin.
const OUT_OF_ORDER: u64 = 1 << 57;

fn number_of(bucket: &Bucket) -> u64 {
    (bucket.at & ((1 << 46) - 1)) / LEAST_BUCKET
}

/// An address that no other sample of the process has: the runtime does not tell those of its blocks. It is the same when another ramson looks.
fn address(bucket: &Bucket, index: usize, numbered: &mut u64) -> u64 {
    let offset = index as u64 * SAMPLE_BYTES;
    if offset < BUCKET_BYTES {
        return number_of(bucket) * BUCKET_BYTES + offset;
    }
    *numbered += 1;
    OUT_OF_ORDER + *numbered * SAMPLE_BYTES
}

/// Where code is mapped: the executable's, in which `at` lies, and that of plugins.
pub fn code_of(pid: u32, at: u64, bias: u64) -> Option<Vec<Mapping>> {
    let all: Vec<Mapped> = mappings(pid).ok()?.collect();
    let executable = all.iter().find(|it| (it.start..it.end).contains(&at))?;
    let file = |it: &Mapped| (it.device, it.inode);
    let code = all.iter().filter(|it| it.is_code() && it.inode != 0).map(|it| Mapping {
        start: it.start,
        end: it.end,
        file_offset: it.offset,
        // Linkers lay others out so that addresses and offsets agree.
        bias: if file(it) == file(executable) { bias } else { it.start.wrapping_sub(it.offset) },
        epochs: 0..EPOCH_OPEN,
        path: it.path.clone(),
        build_id: Vec::new(),
    });
    Some(code.collect())
}

/// Which process it is.
pub fn header_of(pid: u32) -> Header {
    let exe = processes::executable(pid).unwrap_or_default();
    Header {
        pid,
        comm: name_of(pid),
        exe: exe.to_string_lossy().into_owned(),
        command: processes::command(pid),
        ..Header::default()
    }
}

/// The name of its first thread.
pub fn name_of(pid: u32) -> String {
    text::read(format!("/proc/{pid}/comm")).unwrap_or_default().trim().into()
}

/// Blocks that a sample of this size stands for.
fn inverse_probability(size: u64, interval: u64) -> f64 {
    1.0 / sampling_probability(size.max(1), interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const AT: u64 = 0xc000_0100;

    fn bucket(at: u64, allocated: u64, freed: u64) -> Bucket {
        Bucket { at, size: 1024, allocated, freed, stack: vec![0x40_1000, 0x40_2000] }
    }

    /// When the live samples of a bucket were allocated, in seconds.
    fn births(samples: &Samples) -> Vec<u64> {
        samples.live.iter().map(|sample| sample.born_ns / SECOND).collect()
    }

    #[test]
    fn youngest_of_a_bucket_are_freed() {
        let mut samples = Samples::default();
        let mut look = |[before, now]: [u64; 2], allocated, freed| {
            let times = [before * SECOND, now * SECOND];
            samples.go_on(&bucket(AT, allocated, freed), times, &mut 0);
            births(&samples)
        };
        assert_eq!(look([100, 100], 2, 0), [100, 100]);
        // Three more since the look before, one after the other.
        assert_eq!(look([100, 108], 5, 0), [100, 100, 102, 104, 106]);
        // One of them is gone, and one came and went.
        assert_eq!(look([108, 110], 6, 2), [100, 100, 102, 104]);
        let lived =
            |seconds: u64| samples.lifetimes.as_ref().unwrap()[lifetime_bucket(seconds * SECOND)];
        assert_eq!((lived(4), lived(1)), (1, 1));
        assert_eq!(samples.lifetimes.as_ref().unwrap().iter().sum::<u64>(), 2);
    }

    #[test]
    fn first_look_goes_on_from_an_earlier_one() {
        let stat = Stat { start_ticks: 7, rss: None };
        let mut course = Course::new(stat, MOST_LIVE);
        let sample = |index, born: u64| (address(&bucket(AT, 9, 0), index, &mut 0), born * SECOND);
        let samples = vec![sample(1, 20), sample(0, 10), sample(2, 30)];
        course.begin_at(Earlier { at_ns: 40 * SECOND, samples, lifetimes: HashMap::new() });
        let heap = |allocated, freed| GoHeap {
            version: String::new(),
            interval: 1,
            buckets: vec![bucket(AT, allocated, freed), bucket(AT + 256, 1, 0)],
            bias: 0,
            at: 0,
            as_of_unix_ns: 0,
        };
        let Ok((stacks, live)) = course.go_on(&heap(4, 2)) else { panic!("too many") };
        let of_bucket = &course.buckets[&number_of(&bucket(AT, 0, 0))];
        assert_eq!(births(of_bucket), [10, 20]);
        assert_eq!(of_bucket.lifetimes.as_ref().unwrap().iter().sum::<u64>(), 1);
        // Both sizes have one stack.
        assert_eq!((stacks.len(), live.len()), (KINDS.len() + 1, 3));
        let stack = &stacks[KINDS.len()];
        assert_eq!((stack.sampled_alloc_objects, stack.alloc_space), (5, 5.0 * 1024.0));
        assert_eq!((stack.first_monotonic_ns, course.began_ns), (10 * SECOND, 10 * SECOND));
        let mut addresses: Vec<u64> = live.iter().map(|sample| sample.address).collect();
        addresses.dedup();
        assert_eq!(addresses.len(), 3);
    }

    #[test]
    fn samples_weigh_as_go_tool_pprof_has_them() {
        let bucket = Bucket { size: 100_000, ..bucket(AT, 104, 0) };
        let mut stack = Stack::default();
        let weight = inverse_probability(bucket.size, 512 << 10);
        Samples::default().count(&bucket, weight, &mut stack);
        // scaleHeapSample(104, 10_400_000, 524_288) of runtime/pprof.
        assert_eq!((stack.alloc_objects as u64, stack.alloc_space as u64), (598, 59_891_155));
        assert!(stack.alloc_objects_variance > 0.0);
        assert_eq!(inverse_probability(bucket.size, 1), 1.0);
    }

    #[test]
    fn lies_are_refused_or_bounded() {
        let mut course = Course::new(Stat { start_ticks: 7, rss: None }, MOST_LIVE);
        let heap = |allocated, freed| GoHeap {
            version: String::new(),
            interval: 1,
            buckets: vec![bucket(AT, allocated, freed), bucket(AT + 256, allocated, freed)],
            bias: 0,
            at: 0,
            as_of_unix_ns: u64::MAX,
        };
        assert!(course.go_on(&heap(u64::MAX, 0)).is_err());
        for freed in [u64::MAX, 1, u64::MAX] {
            assert!(course.go_on(&heap(freed, freed)).is_ok());
        }
        assert_eq!(course.header(1, &heap(u64::MAX, 0)).health[0], u64::MAX);
    }

    #[test]
    fn every_sample_has_an_address() {
        let mut samples = Samples::default();
        let count = BUCKET_BYTES / SAMPLE_BYTES + 2;
        samples.go_on(&bucket(AT, count, 0), [1, 1], &mut 0);
        let all: HashSet<u64> = samples.live.iter().map(|sample| sample.address).collect();
        assert_eq!(all.len() as u64, count);
        assert!(all.iter().all(|address| address % SAMPLE_BYTES == 0 && *address < 1 << 58));
    }
}
