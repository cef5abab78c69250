//! The promises of FORMAT.md on profiles of real programs: cut, damaged, read in the middle of everything.

use ramson_format::{self as format, COMMITTED, Health, PAGE_BYTES, RegionKind, plan, state};
use ramson_reader::{Defect, LiveSample, LookupAddress, ReadError, Snapshot};
use ramson_tests::{Random, Run, health, profiles_in, program, read, read_bytes};
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;
use std::sync::OnceLock;
use std::time::Duration;

const FILE_BYTES: u64 = 2 << 20;

/// A profile with three stacks and two live objects for each of many paths, and what it says when it is whole.
struct Whole {
    bytes: Vec<u8>,
    snapshot: Snapshot,
}

/// 384 stacks.
fn whole() -> &'static Whole {
    static WHOLE: OnceLock<Whole> = OnceLock::new();
    WHOLE.get_or_init(|| Whole::with_levels(7))
}

/// 48 stacks, for tests that read very often.
fn small() -> &'static Whole {
    static SMALL: OnceLock<Whole> = OnceLock::new();
    SMALL.get_or_init(|| Whole::with_levels(4))
}

impl Whole {
    fn with_levels(levels: u32) -> Self {
        let run = Run::new(program("stacks.c")).arg("stacks").arg(levels.to_string());
        let finished = run.env("RAMSON_MAX_FILE", "2M").succeed();
        let bytes = std::fs::read(&finished.profiles[0]).unwrap();
        assert_eq!(bytes.len() as u64, FILE_BYTES);
        let snapshot = read_bytes(&bytes).unwrap();
        assert_eq!(snapshot.defects, []);
        assert!(snapshot.live.len() >= 2 << levels && snapshot.stacks.len() > 3 << levels);
        assert_eq!(health(&snapshot, Health::DroppedStacks), 0);
        Self { bytes, snapshot }
    }

    fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes[offset..offset + 8].try_into().unwrap())
    }

    fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes[offset..offset + 4].try_into().unwrap())
    }

    /// First byte and committed entries of a region.
    fn region(&self, kind: RegionKind) -> (usize, usize) {
        let row = kind.row();
        assert_eq!(self.u64(row), plan(FILE_BYTES)[kind as usize].offset);
        (self.u64(row) as usize, self.u64(row + 16) as usize)
    }

    /// For each live sample: where its key and where its fields end.
    fn live_ends(&self) -> Vec<(usize, usize)> {
        let ((keys, count), (samples, _)) =
            (self.region(RegionKind::LiveKeys), self.region(RegionKind::LiveSamples));
        (0..count)
            .filter(|slot| self.u64(keys + slot * 8) > 1)
            .map(|slot| {
                (keys + slot * 8 + 8, samples + (slot + 1) * size_of::<format::LiveSample>())
            })
            .collect()
    }

    /// For each stack but the overflow stacks: where its entry and where its frames end.
    fn stack_ends(&self) -> Vec<(usize, usize)> {
        let ((stacks, _), (frames, _)) =
            (self.region(RegionKind::Stacks), self.region(RegionKind::Frames));
        let count = self.u32(offset_of!(format::Header, stack_count)) as usize;
        (format::KINDS.len()..count)
            .map(|index| {
                let entry = stacks + index * size_of::<format::Stack>();
                assert_eq!(self.u32(entry), COMMITTED);
                let depth = self.u32(entry + offset_of!(format::Stack, depth)) as usize;
                let first = self.u64(entry + offset_of!(format::Stack, first_frame)) as usize;
                (entry + size_of::<format::Stack>(), frames + (first + depth) * 8)
            })
            .collect()
    }

    /// The bytes that hold something, region by region.
    fn used(&self) -> Vec<std::ops::Range<usize>> {
        let begun = |kind: RegionKind, committed: usize| match kind {
            RegionKind::Stacks => self.u32(offset_of!(format::Header, stack_count)) as usize,
            RegionKind::Frames => self.u64(offset_of!(format::Header, frame_count)) as usize,
            RegionKind::Mappings => self.u32(offset_of!(format::Header, mapping_count)) as usize,
            RegionKind::Strings => self.u32(offset_of!(format::Header, string_bytes)) as usize,
            _ => committed,
        };
        let used = format::REGION_KINDS.iter().map(|&kind| {
            let (start, committed) = self.region(kind);
            start..start + begun(kind, committed) * kind.entry_bytes() as usize
        });
        used.filter(|bytes| !bytes.is_empty()).collect()
    }

    /// A byte of a region, each region as likely as the other.
    fn random_position(&self, random: &mut Random) -> usize {
        let used = self.used();
        let region = &used[random.below(used.len() as u64) as usize];
        region.start + random.below(region.len() as u64) as usize
    }
}

/// Content of a sample, with the frames of its stack instead of the stack's number.
type Told<'a> = (u64, u64, u64, u64, u32, &'a [LookupAddress]);

fn told<'a>(snapshot: &'a Snapshot, sample: &LiveSample) -> Told<'a> {
    let LiveSample { size, inverse_probability, monotonic_ns, stack, tid, .. } = *sample;
    let frames = snapshot.stacks[stack].frames.as_slice();
    (sample.key(), size, inverse_probability.to_bits(), monotonic_ns, tid, frames)
}

#[test]
fn cut_header_is_refused_or_empty() {
    let whole = whole();
    for cut in 0..=PAGE_BYTES as usize {
        match read_bytes(&whole.bytes[..cut]) {
            Ok(snapshot) => {
                assert_eq!((snapshot.live.len(), snapshot.mappings.len()), (0, 0), "cut at {cut}");
                assert_eq!(snapshot.stacks.len(), format::KINDS.len(), "cut at {cut}");
                assert!(!snapshot.defects.is_empty(), "cut at {cut}");
            }
            Err(ReadError::Empty) => assert_eq!(cut, 0),
            Err(ReadError::NotAProfile(first)) => assert!(cut < 8 && first.len() == cut),
            Err(ReadError::Version(0)) => assert!(cut < 12),
            Err(ReadError::Unfinished) => assert!(cut < 16),
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
}

#[test]
fn cut_profile_yields_every_committed_record() {
    let whole = whole();
    let live = whole.live_ends();
    let stacks = whole.stack_ends();
    let mappings = whole.region(RegionKind::Mappings).0;
    let known: HashSet<Told> =
        whole.snapshot.live.iter().map(|sample| told(&whole.snapshot, sample)).collect();
    let mut random = Random::new(1);
    for round in 0..3000 {
        // A third at the ends of records and next to them.
        let cut = match round % 6 {
            0 => live[random.below(live.len() as u64) as usize].1 - random.below(2) as usize,
            1 => stacks[random.below(stacks.len() as u64) as usize].1 - random.below(2) as usize,
            _ => whole.random_position(&mut random),
        };
        let snapshot = read_bytes(&whole.bytes[..cut]).unwrap();
        let expected_live =
            live.iter().filter(|(key, sample)| *key <= cut && *sample <= cut).count();
        let expected_stacks =
            stacks.iter().filter(|(entry, frames)| *entry <= cut && *frames <= cut).count();
        let entry_bytes = size_of::<format::Mapping>();
        let expected_mappings =
            (cut.saturating_sub(mappings) / entry_bytes).min(whole.snapshot.mappings.len());
        assert_eq!(snapshot.live.len(), expected_live, "live samples before {cut}");
        assert_eq!(snapshot.stacks.len(), format::KINDS.len() + expected_stacks, "at {cut}");
        assert_eq!(snapshot.mappings.len(), expected_mappings, "mappings before {cut}");
        for sample in &snapshot.live {
            assert!(known.contains(&told(&snapshot, sample)), "cut at {cut}: {sample:?}");
        }
        let is_cut = |defect: &Defect| matches!(defect, Defect::CutRegion { .. });
        assert!(snapshot.defects.iter().any(is_cut), "cut at {cut}: {:?}", snapshot.defects);
    }
}

#[test]
fn flipped_header_bit_invents_no_sample() {
    let whole = small();
    let known: HashSet<_> = whole.snapshot.live.iter().map(without_stack).collect();
    let mut bytes = whole.bytes.clone();
    let end = size_of::<format::Header>();
    for bit in 0..end * 8 {
        let (at, mask) = (bit / 8, 1 << (bit % 8));
        bytes[at] ^= mask;
        let result = read_bytes(&bytes);
        bytes[at] ^= mask;
        let snapshot = match result {
            Ok(snapshot) => snapshot,
            Err(ReadError::NotAProfile(_)) if at < 8 => continue,
            Err(ReadError::Version(found)) if at < 12 => {
                assert_eq!(found, format::VERSION ^ (1 << (bit - 64)));
                continue;
            }
            Err(error) => panic!("bit {bit}: {error}"),
        };
        assert!(at >= 12, "bit {bit} of magic number and version is not looked at");
        for sample in &snapshot.live {
            assert!(known.contains(&without_stack(sample)), "bit {bit}: {sample:?}");
            assert!(sample.stack < snapshot.stacks.len());
        }
    }
}

fn without_stack(sample: &LiveSample) -> (u64, u64, u64, u64, u32) {
    let LiveSample { size, inverse_probability, monotonic_ns, tid, .. } = *sample;
    (sample.key(), size, inverse_probability.to_bits(), monotonic_ns, tid)
}

#[test]
fn flipped_record_bit_invents_nothing() {
    let whole = small();
    let known: HashSet<Told> =
        whole.snapshot.live.iter().map(|sample| told(&whole.snapshot, sample)).collect();
    let stacks: HashSet<_> = whole.snapshot.stacks.iter().map(|stack| &stack.frames).collect();
    let [_, _, keys, samples, ..] = &whole.used()[..] else { panic!("six regions") };
    let live_count = whole.snapshot.live.len();
    let mut random = Random::new(2);
    let mut bytes = whole.bytes.clone();
    for _ in 0..20_000 {
        let (at, mask) = (whole.random_position(&mut random), 1 << random.below(8));
        bytes[at] ^= mask;
        let snapshot = read_bytes(&bytes).unwrap();
        bytes[at] ^= mask;
        let mut stackless = 0;
        for sample in &snapshot.live {
            let told = told(&snapshot, sample);
            if told.5.is_empty() {
                stackless += 1;
            } else {
                assert!(known.contains(&told), "byte {at}: {sample:?}");
            }
        }
        assert!(snapshot.stacks.iter().all(|stack| stacks.contains(&stack.frames)), "byte {at}");
        let lost = live_count - snapshot.live.len();
        if keys.contains(&at) || samples.contains(&at) {
            let bad =
                |defect: &Defect| matches!(defect, Defect::BadSamples(1) | Defect::TornSamples(1));
            assert!(lost <= 1 && (lost == 0 || snapshot.defects.iter().all(bad)), "byte {at}");
            assert_eq!(stackless, 0, "byte {at}");
        } else {
            assert_eq!(lost, 0, "byte {at}");
            assert!(
                stackless == 0 || snapshot.defects.contains(&Defect::StacklessSamples(stackless))
            );
        }
    }
}

#[test]
fn flipped_live_sample_is_rejected() {
    let whole = small();
    let (keys, samples) =
        (whole.region(RegionKind::LiveKeys).0, whole.region(RegionKind::LiveSamples).0);
    let mut random = Random::new(3);
    let mut bytes = whole.bytes.clone();
    let ends = whole.live_ends();
    for round in 0..2000 {
        let (key_end, sample_end) = ends[random.below(ends.len() as u64) as usize];
        // The last word of a sample is reserved.
        let at = match round % 5 {
            0 => key_end - 8 + random.below(8) as usize,
            _ => sample_end - 48 + random.below(40) as usize,
        };
        assert!(at >= keys.min(samples));
        bytes[at] ^= 1 << random.below(8);
        let snapshot = read_bytes(&bytes).unwrap();
        bytes[at] = whole.bytes[at];
        assert_eq!(snapshot.live.len(), whole.snapshot.live.len() - 1, "byte {at}");
    }
}

#[test]
fn mutated_profile_invents_no_sample() {
    let whole = small();
    let known: HashSet<_> = whole.snapshot.live.iter().map(without_stack).collect();
    let mut random = Random::new(4);
    for _ in 0..3000 {
        let mut bytes = whole.bytes[..whole.used().last().unwrap().end].to_vec();
        for _ in 0..=random.below(6) {
            let header = [0, 12, 84, 128, 160, 192, 224, 256, 288, 320, 424];
            let at = match random.below(3) {
                0 => header[random.below(11) as usize] + random.below(32) as usize,
                _ => whole.random_position(&mut random),
            };
            let value = [0, 1, 2, 0x7f, 0x80, 0xff][random.below(6) as usize];
            let length = [1, 1, 4, 8, 64, 4096][random.below(6) as usize];
            let end = (at + length).min(bytes.len());
            if random.below(4) == 0 {
                let from = whole.random_position(&mut random).min(bytes.len() - length);
                bytes.copy_within(from..from + (end - at), at);
            } else {
                bytes[at..end].fill(value);
            }
        }
        bytes.truncate(random.below(2 * bytes.len() as u64) as usize);
        if let Ok(snapshot) = read_bytes(&bytes) {
            for sample in &snapshot.live {
                assert!(known.contains(&without_stack(sample)), "{sample:?}");
                assert!(sample.stack < snapshot.stacks.len());
            }
        }
    }
}

const THREADS: u64 = 4;
const INTERVAL: u64 = 4096;

fn busy() -> Run {
    Run::new(program("stacks.c")).arg("busy").arg(THREADS.to_string()).env("RAMSON_INTERVAL", "4K")
}

struct KilledOnDrop(std::process::Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fails unless the snapshot keeps the rules that hold at every instant. Each thread may be in the middle of one record.
#[track_caller]
fn assert_consistent(snapshot: &Snapshot) {
    for defect in &snapshot.defects {
        use Defect::{BadMappings, BadStacks, TornFrees, TornSamples};
        let (TornSamples(count) | TornFrees(count) | BadStacks(count) | BadMappings(count)) =
            defect
        else {
            panic!("{defect}");
        };
        assert!(*count <= THREADS, "{defect}");
    }
    let mut addresses = HashSet::new();
    let mut live_of = HashMap::<usize, u64>::new();
    for sample in &snapshot.live {
        assert!(addresses.insert(sample.address), "{:x} is there twice", sample.address);
        *live_of.entry(sample.stack).or_default() += 1;
        let p = -f64::exp_m1(-(sample.size as f64) / INTERVAL as f64);
        assert!((sample.inverse_probability * p - 1.0).abs() < 1e-9, "{sample:?}");
        assert!(sample.monotonic_ns >= snapshot.header.start_monotonic_ns, "{sample:?}");
        assert!(!snapshot.stacks[sample.stack].frames.is_empty() || sample.stack == 0);
    }
    for (stack, live) in live_of {
        let counted = snapshot.stacks[stack].sampled_alloc_objects;
        assert!(counted >= live, "stack {stack}: {live} live of {counted} allocated");
    }
    for mapping in &snapshot.mappings {
        assert!(mapping.path.starts_with('/') || mapping.path.contains("vdso"), "{mapping:?}");
    }
}

#[test]
fn killed_process_leaves_every_committed_record() {
    let mut random = Random::new(5);
    let mut readable = 0;
    let mut samples = 0;
    let mut round = 0;
    while readable < 150 || samples <= 10_000 {
        round += 1;
        assert!(round <= 3_000, "{readable} readable files with {samples} samples");
        let mut run = busy();
        let mut child = run.spawn();
        std::thread::sleep(Duration::from_micros(random.below(14_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        for path in profiles_in(&run.profiles_directory()) {
            let snapshot = match read(&path) {
                Ok(snapshot) => snapshot,
                // Killed while it was making the file.
                Err(ReadError::Empty | ReadError::Unfinished) => continue,
                Err(error) => panic!("round {round}: {error}"),
            };
            assert_consistent(&snapshot);
            assert_eq!(snapshot.header.state, state::RECORDING);
            assert_dead_counts(&snapshot);
            readable += 1;
            samples += health(&snapshot, Health::Samples);
        }
    }
}

/// Allocated − freed = live, but for what each thread had in its hands when it died, and for what came while the file was
/// being made: that is charged to the overflow stack.
#[track_caller]
fn assert_dead_counts(snapshot: &Snapshot) {
    let allocated: u64 = snapshot.stacks.iter().map(|stack| stack.sampled_alloc_objects).sum();
    let freed: u64 = snapshot.stacks.iter().map(|stack| stack.sampled_freed_objects).sum();
    let live = snapshot.live.len() as u64;
    assert!(live + freed <= allocated, "{live} + {freed} > {allocated}");
    let early = health(snapshot, Health::DroppedWalks);
    assert_eq!(early, snapshot.stacks[0].sampled_alloc_objects, "{:?}", snapshot.header.health);
    let missing = allocated - freed - live;
    assert!(missing <= THREADS + early, "{missing} records are missing, {early} were early");
    let samples = health(snapshot, Health::Samples);
    assert!(allocated.abs_diff(samples) <= THREADS, "{allocated} {samples}");
}

#[test]
fn running_profile_reads_consistently() {
    let mut run = busy();
    let mut child = KilledOnDrop(run.spawn());
    let directory = run.profiles_directory();
    let path = loop {
        match profiles_in(&directory).pop() {
            Some(path) if read(&path).is_ok() => break path,
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let mut before = 0;
    let mut allocated = 0.0;
    for _ in 0..200 {
        let snapshot = read(&path).unwrap();
        assert_consistent(&snapshot);
        let samples = health(&snapshot, Health::Samples);
        let space: f64 = snapshot.stacks.iter().map(|stack| stack.alloc_space).sum();
        assert!(samples >= before && space >= allocated, "a counter went back");
        before = samples;
        allocated = space;
        assert!(snapshot.live.len() <= (THREADS * 400) as usize, "{}", snapshot.live.len());
    }
    assert!(child.0.try_wait().unwrap().is_none(), "the program ended by itself");
    assert!(before > 10_000, "only {before} samples were taken");
}
