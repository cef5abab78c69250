//! A process that is simulated, and looked at every minute: the counts have to say what it did.

use super::*;
use ramson_profile::sampling_probability;
use ramson_reader::Header;

const INTERVAL: u64 = 512 << 10;
const SECOND: u64 = 1_000_000_000;
/// Ten minutes before midnight.
const START_UNIX_NS: u64 = (20_000 * 24 * 60 - 10) * NS_PER_MINUTE;

struct Process {
    seed: u64,
    now_ns: u64,
    snapshot: Snapshot,
    /// By the time at which they are freed.
    ends: BTreeMap<u64, Vec<LiveSample>>,
    lifetimes: HashMap<(StackKey, u8), u64>,
    allocated: HashMap<StackKey, u64>,
}

impl Counted {
    /// Counts what has changed. A step is applied twice where its batch was kept, and the agent was killed.
    fn look(&mut self, now: &Snapshot, look: Look) -> Counts {
        let (step, counts) = self.changes(&Keyed::of(now), look);
        let bytes = borsh::to_vec(&step).unwrap();
        self.apply(step);
        let once = self.clone();
        self.apply(borsh::from_slice(&bytes).unwrap());
        assert_eq!(*self, once);
        counts
    }
}

impl Process {
    fn new(stacks: u64) -> Self {
        let stack = |number| Stack {
            frames: vec![ramson_reader::LookupAddress(number)],
            ..Stack::default()
        };
        let header = Header { interval_bytes: INTERVAL, ..Header::default() };
        let snapshot =
            Snapshot { header, stacks: (0..stacks).map(stack).collect(), ..Snapshot::default() };
        Self {
            seed: 7,
            now_ns: SECOND,
            snapshot,
            ends: BTreeMap::new(),
            lifetimes: HashMap::new(),
            allocated: HashMap::new(),
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 33) % below
    }

    fn allocate(&mut self) {
        let stack = self.random(self.snapshot.stacks.len() as u64) as usize;
        let size = 16 << self.random(12);
        let sample = LiveSample {
            address: self.random(1 << 30) << 16 | self.now_ns & 0xffff,
            size,
            inverse_probability: 1.0
                / sampling_probability(size, self.snapshot.header.interval_bytes),
            monotonic_ns: self.now_ns,
            stack,
            ..LiveSample::default()
        };
        // From milliseconds to an hour.
        let lifetime_ns = 1 << (20 + self.random(22));
        self.ends.entry(self.now_ns + lifetime_ns).or_default().push(sample);
        let of = &mut self.snapshot.stacks[stack];
        of.sampled_alloc_objects += 1;
        of.sampled_alloc_bytes += size;
        of.alloc_objects += sample.inverse_probability;
        *self.allocated.entry(key(of)).or_default() += 1;
        self.snapshot.live.push(sample);
    }

    fn run(&mut self, to_ns: u64) {
        while self.now_ns < to_ns {
            self.now_ns += self.random(SECOND);
            self.allocate();
            while let Some(first) =
                self.ends.first_entry().filter(|first| *first.key() <= self.now_ns)
            {
                let at_ns = *first.key();
                for sample in first.remove() {
                    let lifetime = lifetime_bucket(at_ns - sample.monotonic_ns);
                    let of = &mut self.snapshot.stacks[sample.stack];
                    of.sampled_freed_objects += 1;
                    of.lifetimes[lifetime] += 1;
                    *self.lifetimes.entry((key(of), lifetime as u8)).or_default() += 1;
                    self.snapshot.live.retain(|live| live.address != sample.address);
                }
            }
        }
    }

    fn look(&self) -> Look {
        Look { monotonic_ns: self.now_ns, unix_ns: START_UNIX_NS + self.now_ns }
    }

    fn live(&self) -> BTreeMap<(StackKey, u64, u64), i64> {
        let mut live = BTreeMap::new();
        for block in super::live(&Keyed::of(&self.snapshot)).values() {
            *live.entry((block.stack, block.size, block.interval)).or_default() += 1;
        }
        live
    }
}

/// What is live at the end of the last day, by the counts of that day.
fn live_of(counts: &Counts) -> BTreeMap<(StackKey, u64, u64), i64> {
    let last_day = counts.keys().map(|group| group.minute / (24 * 60)).max().unwrap_or(0);
    let mut live = BTreeMap::new();
    for (group, &n) in counts.iter().filter(|(group, _)| group.minute / (24 * 60) == last_day) {
        let sign = if group.age <= age::ALLOCATED { 1 } else { -1 };
        *live.entry((group.stack, group.size, group.interval)).or_default() += sign * n as i64;
    }
    live.retain(|_, n| *n != 0);
    live
}

fn add(all: &mut Counts, new: Counts) {
    new.into_iter().for_each(|(group, n)| *all.entry(group).or_default() += n);
}

#[test]
fn counts_tell_what_is_live_and_what_was_freed() {
    let mut process = Process::new(5);
    let mut counted = Counted::default();
    let mut all = Counts::new();
    // Over midnight.
    for minute in 1..=25 {
        if minute == 15 {
            process.snapshot.header.interval_bytes = INTERVAL / 8;
        }
        process.run(minute * 60 * SECOND);
        add(&mut all, counted.look(&process.snapshot, process.look()));
        assert_eq!(live_of(&all), process.live(), "minute {minute}");
    }
    let of = |stack: StackKey, is_it: &dyn Fn(u8) -> bool| -> u64 {
        let of_it = all.iter().filter(|(group, _)| group.stack == stack && is_it(group.age));
        of_it.map(|(_, n)| n).sum()
    };
    for (&stack, &n) in &process.allocated {
        assert_eq!(of(stack, &|age| age == age::ALLOCATED), n);
    }
    // A lifetime between two looks may be of either of two buckets.
    let freed = |lowest: u8, highest: u8| -> u64 {
        let of_it =
            process.lifetimes.iter().filter(|((_, bucket), _)| (lowest..=highest).contains(bucket));
        of_it.map(|(_, n)| n).sum()
    };
    let counted_freed = |lowest: u8, highest: u8| -> u64 {
        let range = age::FREED + lowest..=age::FREED + highest;
        all.iter().filter(|(group, _)| range.contains(&group.age)).map(|(_, n)| n).sum()
    };
    assert_eq!(counted_freed(0, 31), freed(0, 31));
    for bucket in 0..32 {
        assert_eq!(counted_freed(bucket, bucket), freed(bucket, bucket), "bucket {bucket}");
    }
    add(&mut all, counted.end(process.look()));
    assert!(live_of(&all).is_empty());
}

#[test]
fn process_is_taken_up_with_its_state() {
    let mut process = Process::new(3);
    process.run(20 * 60 * SECOND);
    let (step, mut all) = Counted::taken_up(&Keyed::of(&process.snapshot), process.look());
    let mut counted = Counted::default();
    counted.apply(step);
    assert_eq!(live_of(&all), process.live());
    assert!(all.keys().all(|group| group.age == age::STATE));
    assert!(counted.look(&process.snapshot, process.look()).is_empty());
    process.run(30 * 60 * SECOND);
    // As if the agent had ended and begun again.
    let whole = borsh::to_vec(&counted.whole()).unwrap();
    let mut counted = Counted::default();
    counted.apply(borsh::from_slice(&whole).unwrap());
    add(&mut all, counted.look(&process.snapshot, process.look()));
    assert_eq!(live_of(&all), process.live());
}

/// While a process runs, its counters are ahead of what was found live.
#[test]
fn counters_ahead_of_live_samples_are_counted_later() {
    let mut process = Process::new(1);
    process.run(60 * SECOND);
    let mut counted = Counted::default();
    let mut all = counted.look(&process.snapshot, process.look());
    let early = process.snapshot.live.clone();
    process.run(90 * SECOND);
    let torn = Snapshot { live: early, ..process.snapshot.clone() };
    add(&mut all, counted.look(&torn, process.look()));
    process.run(150 * SECOND);
    add(&mut all, counted.look(&process.snapshot, process.look()));
    assert_eq!(live_of(&all), process.live());
    let allocated: u64 =
        all.iter().filter(|(group, _)| group.age == age::ALLOCATED).map(|(_, n)| n).sum();
    assert_eq!(allocated, process.allocated.values().sum::<u64>());
}

#[test]
fn forged_counters_are_counted_in_parts() {
    let mut process = Process::new(3);
    for stack in &mut process.snapshot.stacks {
        (stack.sampled_alloc_objects, stack.sampled_freed_objects) = (u64::MAX, u64::MAX);
        (stack.sampled_alloc_bytes, stack.alloc_objects) = (u64::MAX, f64::NAN);
        stack.lifetimes = [u64::MAX; LIFETIME_BUCKETS];
    }
    let counts = Counted::default().look(&process.snapshot, process.look());
    let allocated = counts.iter().filter(|(group, _)| group.age == age::ALLOCATED);
    assert_eq!(allocated.map(|(_, n)| n).sum::<u64>(), MOST_SHORT_LIVED);
    assert!(live_of(&counts).is_empty());
}
