//! A simulated writer, for `bench/run history` and for tests that kill it.
//!
//! `simulate FILE days PROCESSES STACKS DAYS RATE`: fills a history as DAYS of recording would, and prints what it cost. A snapshot
//! older than an hour that the levels would thin away is not written in the first place, so that days pass in minutes; the last hour
//! is written whole, and measured.
//! `simulate FILE forever`: writes rounds as fast as it can, and prints the number of each when it is kept.

use ramson_format::{HEALTH, Health, Kind, lifetime_bucket, mix};
use ramson_history::{History, HistoryWriter, Levels, Taken, Triggers};
use ramson_profile::sampling_probability;
use ramson_reader::{Header, LiveSample, LookupAddress, Mapping, Snapshot, Stack};
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const START_NS: u64 = 1_790_000_000 * SECOND;
const INTERVAL: u64 = 512 << 10;
/// Samples of 1,000 that live for 10 minutes on average, and those that live for a day; the others are freed within a second.
const TEN_MINUTES_OF_1000: u64 = 90;
const A_DAY_OF_1000: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[1..] {
        [file, "forever"] => forever(Path::new(file)),
        [file, "days", processes, stacks, days, rate] => days_of(
            Path::new(file),
            processes.parse()?,
            stacks.parse()?,
            days.parse()?,
            rate.parse()?,
        ),
        _ => Err("simulate FILE forever, or simulate FILE days PROCESSES STACKS DAYS RATE".into()),
    }
}

/// A fixed sequence that looks random.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = mix(self.0, 0x5eed);
        self.0
    }

    /// Uniform in (0, 1].
    fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Exponential, in nanoseconds.
    fn time(&mut self, mean_seconds: u64) -> u64 {
        (-self.share().ln() * (mean_seconds * SECOND) as f64) as u64
    }
}

/// A program whose stacks allocate: few of them most, each its own size, every fifth several.
struct Program {
    snapshot: Snapshot,
    /// When each live sample will be freed.
    ends: Vec<u64>,
    sequence: Sequence,
    now_ns: u64,
}

impl Program {
    fn new(pid: u32, stacks: u64) -> Self {
        let mut list = [Kind::Heap, Kind::Mmap].map(Stack::overflow).to_vec();
        let mut sequence = Sequence(u64::from(pid));
        list.extend((0..stacks).map(|number| {
            Stack {
                frames: (0..20)
                    .map(|frame| LookupAddress(0x40_0000 + mix(number >> frame, frame) % (4 << 20)))
                    .collect(),
                epoch: 1,
                first_monotonic_ns: number + 1,
                ..Stack::default()
            }
        }));
        let header = Header {
            state: 1,
            pid,
            interval_bytes: INTERVAL,
            start_realtime_ns: START_NS,
            process_start_ticks: sequence.next() >> 32,
            exit_status: -1,
            comm: "simulated".into(),
            exe: "/usr/bin/simulated".into(),
            health: vec![0; HEALTH.len()],
            ..Header::default()
        };
        let mapping = Mapping {
            start: 0x40_0000,
            end: 0x80_0000,
            file_offset: 0,
            bias: 0,
            epochs: 0..u32::MAX,
            path: "/usr/bin/simulated".into(),
            build_id: vec![1; 20],
        };
        let snapshot =
            Snapshot { header, mappings: vec![mapping], stacks: list, ..Snapshot::default() };
        Self { snapshot, ends: Vec::new(), sequence, now_ns: 0 }
    }

    fn run_until(&mut self, now_ns: u64, samples_per_second: u64) {
        let span_ns = now_ns - self.now_ns;
        for _ in 0..span_ns / SECOND * samples_per_second {
            let at = self.now_ns + (self.sequence.share() * span_ns as f64) as u64;
            self.allocate(at, now_ns);
        }
        self.now_ns = now_ns;
        self.free_what_ended();
        let header = &mut self.snapshot.header;
        header.health[Health::Samples as usize] += span_ns / SECOND * samples_per_second;
        header.health[Health::Frees as usize] =
            header.health[Health::Samples as usize] - self.snapshot.live.len() as u64;
        header.last_monotonic_ns = now_ns;
        header.cpu_ns += span_ns / 10;
    }

    fn allocate(&mut self, at: u64, now_ns: u64) {
        let sequence = &mut self.sequence;
        let stacks = self.snapshot.stacks.len() - 2;
        let number = (stacks as f64 * sequence.share().powi(3)) as usize % stacks;
        let mixed = if number.is_multiple_of(5) { sequence.next() % 4 } else { 0 };
        let size = (16 << (number % 14)) + 24 * mixed;
        let lifetime = match sequence.next() % 1000 {
            0..A_DAY_OF_1000 => sequence.time(DAY),
            A_DAY_OF_1000..TEN_MINUTES_OF_1000 => sequence.time(600),
            _ => sequence.next() % SECOND,
        };
        let weight = 1.0 / sampling_probability(size, INTERVAL);
        let stack = &mut self.snapshot.stacks[number + 2];
        stack.sampled_alloc_objects += 1;
        stack.sampled_alloc_bytes += size;
        stack.alloc_objects += weight;
        stack.alloc_space += weight * size as f64;
        stack.alloc_objects_variance += weight * (weight - 1.0);
        stack.alloc_space_variance += weight * (weight - 1.0) * (size * size) as f64;
        if at + lifetime <= now_ns {
            stack.lifetimes[lifetime_bucket(lifetime)] += 1;
            return;
        }
        self.ends.push(at + lifetime);
        self.snapshot.live.push(LiveSample {
            address: 0x7f00_0000_0000 + sequence.next() % (1 << 33) / 16 * 16,
            size,
            inverse_probability: weight,
            monotonic_ns: at,
            stack: number + 2,
            tid: 1000 + (sequence.next() % 8) as u32,
            family: 0,
        });
    }

    fn free_what_ended(&mut self) {
        let mut index = 0;
        while index < self.ends.len() {
            if self.ends[index] > self.now_ns {
                index += 1;
                continue;
            }
            let end = self.ends.swap_remove(index);
            let live = self.snapshot.live.swap_remove(index);
            let bucket = lifetime_bucket(end - live.monotonic_ns);
            self.snapshot.stacks[live.stack].lifetimes[bucket] += 1;
        }
    }

    fn taken(&self, triggers: Triggers) -> Taken<'_> {
        Taken {
            snapshot: &self.snapshot,
            name: "simulated",
            time_ns: START_NS + self.now_ns,
            monotonic_ns: self.now_ns,
            rss: Some(1 << 30),
            free: None,
            terms: None,
            triggers,
        }
    }
}

fn forever(file: &Path) -> Result<(), Box<dyn Error>> {
    let mut writer =
        HistoryWriter::open(file, Levels::new(10 * SECOND, 30 * DAY * SECOND), 4 << 20)?;
    let mut programs = [1, 2].map(|pid| Program::new(pid, 300));
    let mut out = std::io::stdout().lock();
    for round in 1.. {
        for program in &mut programs {
            program.run_until(round * 10 * SECOND, 20);
        }
        let taken = programs.each_ref().map(|program| program.taken(Triggers::CLOCK));
        writer.append(&taken)?;
        if round % 20 == 0 {
            writer.tidy(START_NS + round * 10 * SECOND)?;
        }
        writeln!(out, "{}", START_NS + round * 10 * SECOND)?;
        out.flush()?;
    }
    Ok(())
}

fn days_of(
    file: &Path,
    processes: u32,
    stacks: u64,
    days: u64,
    rate: u64,
) -> Result<(), Box<dyn Error>> {
    let levels = Levels::new(10 * SECOND, 30 * DAY * SECOND);
    let mut writer = HistoryWriter::open(file, levels, u64::MAX)?;
    let mut programs: Vec<Program> = (1..=processes).map(|pid| Program::new(pid, stacks)).collect();
    let end = days * DAY;
    let mut encoding = 0.0;
    let mut now = 0;
    while now < end {
        let is_within = |span: u64| end - now <= span;
        now += if is_within(HOUR) {
            10
        } else if is_within(DAY) {
            60
        } else {
            600
        };
        for program in &mut programs {
            program.run_until(now * SECOND, rate);
        }
        let before = cpu_seconds()?;
        let taken: Vec<Taken> =
            programs.iter().map(|program| program.taken(Triggers::CLOCK)).collect();
        writer.append(&taken)?;
        if now % 60 == 0 {
            while writer.tidy(START_NS + now * SECOND)?.has_more {}
        }
        if end - now < HOUR {
            encoding += cpu_seconds()? - before;
        }
    }
    let used = writer.used_bytes()?;
    let live: usize = programs.iter().map(|program| program.snapshot.live.len()).sum();
    drop(writer);
    println!("result {used} {} {encoding} {live}", fs::metadata(file)?.len());
    queries(file, end)
}

/// Wall time of a range over all of it, and of single moments, each with a history opened anew.
fn queries(file: &Path, end: u64) -> Result<(), Box<dyn Error>> {
    let mut slowest = 0f64;
    for (from, to) in
        [(600, end), (end / 2, end / 2 + 3 * HOUR), (end - 2 * HOUR, end - HOUR), (end - 1800, end)]
    {
        let start = Instant::now();
        let history = History::open(file)?;
        let process = history.processes()?.pop().ok_or("no process")?.id;
        let at = |seconds: u64| history.at(process, START_NS + seconds * SECOND);
        let (earlier, later) = (at(from)?.ok_or("no moment")?, at(to)?.ok_or("no moment")?);
        let earlier = history.snapshot(process, &earlier)?;
        let range = ramson_history::between(&earlier, history.snapshot(process, &later)?);
        let series = history.series(process, START_NS + from * SECOND, START_NS + to * SECOND)?;
        let seconds = start.elapsed().as_secs_f64();
        println!("query {from} {to} {seconds} {} {}", range.stacks.len(), series.len());
        slowest = slowest.max(seconds);
    }
    println!("slowest {slowest}");
    Ok(())
}

fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    // Nanoseconds on a processor: the first field.
    let schedstat = fs::read_to_string("/proc/self/schedstat")?;
    let ns: f64 = schedstat.split(' ').next().ok_or("empty")?.parse()?;
    Ok(ns / 1e9)
}
