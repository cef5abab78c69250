//! From bytes to a `Snapshot`, by the algorithm of FORMAT.md.

use crate::ReadAt;
use crate::bytes::Entry;
use ramson_format as format;
use ramson_format::{
    COMMITTED, EPOCH_OPEN, FILE_BYTES_RANGE, HEALTH, KEY_RESERVED, LIFETIME_BUCKETS, MAGIC,
    MAX_DEPTH, PAGE_BYTES, RegionKind, VERSION, live_check, mapping_check, stack_hash, state,
};
use std::collections::HashMap;
use std::fmt;
use std::mem::offset_of;

/// Why bytes are not a profile that can be read at all.
#[derive(Debug)]
pub enum ReadError {
    /// The operating system refused.
    Io(std::io::Error),
    /// No bytes.
    Empty,
    /// Not our magic number; these are the first bytes.
    NotAProfile(Vec<u8>),
    /// A version that this program does not know.
    Version(u32),
    /// The process died, or is still busy, before the header was complete.
    Unfinished,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Empty => write!(f, "the file is empty"),
            Self::NotAProfile(first) => {
                write!(f, "not a profile (starts with {}{})", Hex(first), looks_like(first))
            }
            Self::Version(version) => {
                write!(f, "profile format version {version}; this ramson reads version {VERSION}")
            }
            Self::Unfinished => {
                write!(f, "the profile was never begun: its process ended while making the file")
            }
        }
    }
}

impl std::error::Error for ReadError {}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (index, byte) in self.0.iter().take(4).enumerate() {
            write!(f, "{}{byte:02x}", if index > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

fn looks_like(first: &[u8]) -> &'static str {
    match first {
        [0x7f, b'E', b'L', b'F', ..] => ": an ELF program?",
        [0x1f, 0x8b, ..] => ": a gzip file, perhaps pprof's?",
        [b'h', b'e', b'a', b'p', ..] => ": a text heap profile?",
        [b'#', b'!', ..] => ": a script?",
        _ if !first.is_empty() && first.iter().all(|byte| (32..127).contains(byte)) => ": text?",
        _ => "",
    }
}

/// Something that was not whole; the rest of the snapshot stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A region reaches beyond the bytes that are there.
    CutRegion {
        /// Its name.
        region: &'static str,
        /// Bytes that are missing.
        missing_bytes: u64,
    },
    /// A region's entry in the directory makes no sense; nothing of it was read.
    BadRegion(&'static str),
    /// Live samples reserved and never published, or being removed at this moment.
    TornSamples(u64),
    /// Live samples whose check fails.
    BadSamples(u64),
    /// Live samples of a stack that is not there; they count for stack 0.
    StacklessSamples(u64),
    /// Stacks begun and never committed, or whose hash fails.
    BadStacks(u64),
    /// Mappings begun and never committed, or whose check fails.
    BadMappings(u64),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::CutRegion { region, missing_bytes } => {
                write!(f, "the file is cut: {missing_bytes} bytes of its {region} are missing")
            }
            Self::BadRegion(region) => write!(f, "the directory entry of the {region} is damaged"),
            Self::TornSamples(count) => write!(f, "{count} samples were being written"),
            Self::BadSamples(count) => write!(f, "{count} samples are damaged and left out"),
            Self::StacklessSamples(count) => write!(f, "{count} samples have lost their stack"),
            Self::BadStacks(count) => {
                write!(f, "{count} stacks are incomplete or damaged and left out")
            }
            Self::BadMappings(count) => {
                write!(f, "{count} mappings are incomplete or damaged and left out")
            }
        }
    }
}

/// The header's facts. Times in ns; see FORMAT.md for each.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Header {
    pub state: u32,
    pub off_reason: u32,
    pub pid: u32,
    pub interval_bytes: u64,
    pub start_monotonic_ns: u64,
    pub start_realtime_ns: u64,
    pub process_start_ticks: u64,
    pub last_monotonic_ns: u64,
    pub run_id: u64,
    pub exit_status: i32,
    pub flags: u32,
    pub comm: String,
    pub exe: String,
    pub command: Vec<String>,
    /// In the order of `ramson_format::HEALTH`.
    pub health: Vec<u64>,
}

/// One executable range.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub file_offset: u64,
    pub bias: u64,
    pub epochs: std::ops::Range<u32>,
    pub path: String,
    pub build_id: Vec<u8>,
}

/// One distinct stack. `sampled_*` are raw, the others weighted.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Stack {
    /// Lookup addresses, leaf first; empty for the overflow stack.
    pub frames: Vec<u64>,
    pub epoch: u32,
    pub flags: u32,
    pub sampled_alloc_objects: u64,
    pub sampled_alloc_bytes: u64,
    pub sampled_freed_objects: u64,
    pub sampled_freed_bytes: u64,
    pub alloc_objects: f64,
    pub alloc_space: f64,
    pub freed_objects: f64,
    pub freed_space: f64,
    pub alloc_objects_variance: f64,
    pub alloc_space_variance: f64,
    pub first_monotonic_ns: u64,
    pub lifetimes: [u64; LIFETIME_BUCKETS],
}

/// One sampled allocation that was live.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct LiveSample {
    pub address: u64,
    pub size: u64,
    pub inverse_probability: f64,
    pub monotonic_ns: u64,
    /// Index into `Snapshot::stacks`.
    pub stack: usize,
    pub tid: u32,
}

/// An immutable copy of a profile file at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// What the process said of itself.
    pub header: Header,
    /// In the order in which they were met.
    pub mappings: Vec<Mapping>,
    /// Distinct stacks; index 0 is the overflow stack.
    pub stacks: Vec<Stack>,
    /// Samples not freed.
    pub live: Vec<LiveSample>,
    /// What was not whole.
    pub defects: Vec<Defect>,
}

impl Snapshot {
    /// Reads a snapshot. Never panics, whatever the bytes; takes memory in proportion to the committed bytes.
    pub fn read<S: ReadAt + ?Sized>(source: &S) -> Result<Self, ReadError> {
        let mut reading = Reading::begin(source)?;
        let keys = reading.region(RegionKind::LiveKeys);
        let samples = reading.region(RegionKind::LiveSamples);
        // Stacks and counts that are newer than the samples: none of those may name a stack that we do not know yet.
        reading.read_header()?;
        let stacks = reading.region(RegionKind::Stacks);
        let frames = reading.region(RegionKind::Frames);
        let mappings = reading.region(RegionKind::Mappings);
        let strings = reading.region(RegionKind::Strings);
        let header = reading.facts();
        let mappings = reading.mappings(&mappings, &strings);
        let (stacks, renumbered) = reading.stacks(&stacks, &frames);
        let live = reading.live(&keys, &samples, &renumbered);
        Ok(Self { header, mappings, stacks, live, defects: reading.defects })
    }

    /// The mapping that was at `address` for stacks of `epoch`.
    pub fn mapping_at(&self, address: u64, epoch: u32) -> Option<usize> {
        self.mappings.iter().position(|mapping| {
            (mapping.start..mapping.end).contains(&address) && mapping.epochs.contains(&epoch)
        })
    }
}

struct Reading<'a, S: ReadAt + ?Sized> {
    source: &'a S,
    length: u64,
    header: Vec<u8>,
    defects: Vec<Defect>,
}

const REGION_NAMES: [&str; 6] =
    ["stacks", "frames", "live keys", "live samples", "mappings", "strings"];

impl<'a, S: ReadAt + ?Sized> Reading<'a, S> {
    fn begin(source: &'a S) -> Result<Self, ReadError> {
        let length = source.length().map_err(ReadError::Io)?.min(FILE_BYTES_RANGE.1);
        let mut reading = Self { source, length, header: Vec::new(), defects: Vec::new() };
        reading.read_header()?;
        Ok(reading)
    }

    fn read_header(&mut self) -> Result<(), ReadError> {
        let mut bytes = vec![0; PAGE_BYTES as usize];
        let count = self.source.read_at(0, &mut bytes).map_err(ReadError::Io)?;
        bytes.truncate(count);
        if count == 0 {
            return Err(ReadError::Empty);
        }
        if !bytes.starts_with(&MAGIC) {
            // The magic number is stored last; before that the file is all zeroes.
            let is_blank =
                count as u64 == PAGE_BYTES && bytes[..MAGIC.len()].iter().all(|&byte| byte == 0);
            bytes.truncate(16);
            return Err(if is_blank {
                ReadError::Unfinished
            } else {
                ReadError::NotAProfile(bytes)
            });
        }
        let header = Entry(&bytes);
        let version = header.u32(offset_of!(format::Header, version));
        if version != VERSION {
            return Err(ReadError::Version(version));
        }
        if header.u32(offset_of!(format::Header, state)) == state::MAKING {
            return Err(ReadError::Unfinished);
        }
        self.header = bytes;
        Ok(())
    }

    fn header(&self) -> Entry<'_> {
        Entry(&self.header)
    }

    /// The committed bytes of a region, as far as they are there.
    fn region(&mut self, kind: RegionKind) -> Vec<u8> {
        let name = REGION_NAMES[kind as usize];
        let row = offset_of!(format::Header, regions) + kind as usize * size_of::<format::Region>();
        let header = self.header();
        let offset = header.u64(row);
        let capacity = header.u64(row + 8);
        let committed = header.u64(row + 16);
        let is_sane = header.u32(row + 24) as u64 == kind.entry_bytes()
            && header.u32(row + 28) == kind.code()
            && offset >= PAGE_BYTES
            && offset.is_multiple_of(PAGE_BYTES)
            && committed <= capacity
            && committed
                .checked_mul(kind.entry_bytes())
                .is_some_and(|bytes| bytes <= FILE_BYTES_RANGE.1);
        if !is_sane {
            self.defects.push(Defect::BadRegion(name));
            return Vec::new();
        }
        let wanted = self.used(kind, committed) * kind.entry_bytes();
        let present = wanted.min(self.length.saturating_sub(offset));
        let mut bytes = vec![0; present as usize];
        let count = self.source.read_at(offset, &mut bytes).unwrap_or(0);
        bytes.truncate(count);
        if (count as u64) < wanted {
            self.defects
                .push(Defect::CutRegion { region: name, missing_bytes: wanted - count as u64 });
        }
        bytes
    }

    /// Entries of a region that can hold something.
    fn used(&self, kind: RegionKind, committed: u64) -> u64 {
        let header = self.header();
        let begun = match kind {
            RegionKind::Stacks => header.u32(offset_of!(format::Header, stack_count)) as u64,
            RegionKind::Frames => header.u64(offset_of!(format::Header, frame_count)),
            RegionKind::Mappings => header.u32(offset_of!(format::Header, mapping_count)) as u64,
            RegionKind::Strings => header.u32(offset_of!(format::Header, string_bytes)) as u64,
            RegionKind::LiveKeys | RegionKind::LiveSamples => committed,
        };
        begun.min(committed)
    }

    fn facts(&self) -> Header {
        use format::Header as H;
        let header = self.header();
        let text = |offset, length: u32, most: usize| {
            String::from_utf8_lossy(header.slice(offset, (length as usize).min(most))).into_owned()
        };
        let comm = header.slice(offset_of!(H, comm), 16);
        let comm = comm.split(|&byte| byte == 0).next().unwrap_or_default();
        let command_bytes = header.u32(offset_of!(H, command_bytes));
        let command = text(offset_of!(H, command), command_bytes, format::COMMAND_BYTES);
        Header {
            state: header.u32(offset_of!(H, state)),
            off_reason: header.u32(offset_of!(H, off_reason)),
            pid: header.u32(offset_of!(H, pid)),
            interval_bytes: header.u64(offset_of!(H, interval_bytes)),
            start_monotonic_ns: header.u64(offset_of!(H, start_monotonic_ns)),
            start_realtime_ns: header.u64(offset_of!(H, start_realtime_ns)),
            process_start_ticks: header.u64(offset_of!(H, process_start_ticks)),
            last_monotonic_ns: header.u64(offset_of!(H, last_monotonic_ns)),
            run_id: header.u64(offset_of!(H, run_id)),
            exit_status: header.u32(offset_of!(H, exit_status)) as i32,
            flags: header.u32(offset_of!(H, flags)),
            comm: String::from_utf8_lossy(comm).into_owned(),
            exe: text(offset_of!(H, exe), header.u32(offset_of!(H, exe_bytes)), format::EXE_BYTES),
            command: command
                .split('\0')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect(),
            health: HEALTH
                .iter()
                .map(|&(kind, _)| header.u64(offset_of!(H, health) + kind as usize * 8))
                .collect(),
        }
    }

    fn mappings(&mut self, entries: &[u8], strings: &[u8]) -> Vec<Mapping> {
        let mut bad = 0;
        let mut mappings: Vec<Mapping> = Vec::new();
        for bytes in entries.chunks_exact(size_of::<format::Mapping>()) {
            match mapping(Entry(bytes), strings) {
                // Two threads that met an object at once each wrote it.
                Some(mapping) if mappings.contains(&mapping) => {}
                Some(mapping) => mappings.push(mapping),
                None => bad += 1,
            }
        }
        if bad > 0 {
            self.defects.push(Defect::BadMappings(bad));
        }
        mappings
    }

    /// Distinct stacks, and for each entry of the file the index of its stack among them.
    fn stacks(&mut self, entries: &[u8], frames: &[u8]) -> (Vec<Stack>, Vec<Option<usize>>) {
        let mut bad = 0;
        let mut distinct: HashMap<(u32, Vec<u64>), usize> = HashMap::new();
        let mut stacks = vec![Stack::default()];
        let mut renumbered = Vec::new();
        for (number, bytes) in entries.chunks_exact(size_of::<format::Stack>()).enumerate() {
            let entry = Entry(bytes);
            if number == 0 {
                stacks[0] = counters(entry);
                renumbered.push(Some(0));
                continue;
            }
            let Some(stack) = stack(entry, frames) else {
                bad += 1;
                renumbered.push(None);
                continue;
            };
            let index =
                *distinct.entry((stack.epoch, stack.frames.clone())).or_insert(stacks.len());
            renumbered.push(Some(index));
            match stacks.get_mut(index) {
                Some(same) => add_counters(same, &stack),
                None => stacks.push(stack),
            }
        }
        if bad > 0 {
            self.defects.push(Defect::BadStacks(bad));
        }
        (stacks, renumbered)
    }

    fn live(
        &mut self,
        keys: &[u8],
        samples: &[u8],
        renumbered: &[Option<usize>],
    ) -> Vec<LiveSample> {
        let (mut torn, mut bad, mut stackless) = (0, 0, 0);
        let mut live = Vec::new();
        let entries = samples.chunks_exact(size_of::<format::LiveSample>());
        for (key, bytes) in keys.chunks_exact(8).zip(entries) {
            let key = Entry(key).u64(0);
            match key {
                0 => continue,
                KEY_RESERVED => torn += 1,
                _ => match live_sample(key, Entry(bytes)) {
                    Some(mut sample) => {
                        sample.stack =
                            renumbered.get(sample.stack).copied().flatten().unwrap_or_else(|| {
                                stackless += 1;
                                0
                            });
                        live.push(sample);
                    }
                    None => bad += 1,
                },
            }
        }
        let counts = [
            Defect::TornSamples(torn),
            Defect::BadSamples(bad),
            Defect::StacklessSamples(stackless),
        ];
        let is_there = |defect: &Defect| {
            !matches!(
                defect,
                Defect::TornSamples(0) | Defect::BadSamples(0) | Defect::StacklessSamples(0)
            )
        };
        self.defects.extend(counts.into_iter().filter(is_there));
        live
    }
}

fn mapping(entry: Entry, strings: &[u8]) -> Option<Mapping> {
    use format::Mapping as M;
    if entry.u32(offset_of!(M, commit)) != COMMITTED {
        return None;
    }
    let build_id_bytes = entry.u32(offset_of!(M, build_id_bytes));
    let epoch_from = entry.u32(offset_of!(M, epoch_from));
    let path_offset = entry.u32(offset_of!(M, path_offset));
    let path_bytes = entry.u32(offset_of!(M, path_bytes));
    let start = entry.u64(offset_of!(M, start));
    let end = entry.u64(offset_of!(M, end));
    let file_offset = entry.u64(offset_of!(M, file_offset));
    let bias = entry.u64(offset_of!(M, bias));
    let id_at = offset_of!(M, build_id);
    let check = mapping_check(&[
        start,
        end,
        file_offset,
        bias,
        epoch_from as u64,
        path_offset as u64 | (path_bytes as u64) << 32,
        build_id_bytes as u64,
        entry.u64(id_at),
        entry.u64(id_at + 8),
        entry.u64(id_at + 16),
        entry.u64(id_at + 24),
    ]);
    if check != entry.u64(offset_of!(M, check)) || build_id_bytes > 32 {
        return None;
    }
    let path = Entry(strings).slice(path_offset as usize, path_bytes as usize);
    let epoch_to = entry.u32(offset_of!(M, epoch_to));
    Some(Mapping {
        start,
        end,
        file_offset,
        bias,
        epochs: epoch_from..if epoch_to == EPOCH_OPEN { u32::MAX } else { epoch_to },
        path: String::from_utf8_lossy(path).into_owned(),
        build_id: entry.slice(id_at, build_id_bytes as usize).to_vec(),
    })
}

fn counters(entry: Entry) -> Stack {
    use format::Stack as S;
    let mut lifetimes = [0; LIFETIME_BUCKETS];
    for (bucket, count) in lifetimes.iter_mut().enumerate() {
        *count = entry.u32(offset_of!(S, lifetimes) + bucket * 4) as u64;
    }
    Stack {
        frames: Vec::new(),
        epoch: entry.u32(offset_of!(S, epoch)),
        flags: entry.u32(offset_of!(S, flags)),
        sampled_alloc_objects: entry.u64(offset_of!(S, sampled_alloc_objects)),
        sampled_alloc_bytes: entry.u64(offset_of!(S, sampled_alloc_bytes)),
        sampled_freed_objects: entry.u64(offset_of!(S, sampled_freed_objects)),
        sampled_freed_bytes: entry.u64(offset_of!(S, sampled_freed_bytes)),
        alloc_objects: entry.float(offset_of!(S, alloc_objects)),
        alloc_space: entry.float(offset_of!(S, alloc_space)),
        freed_objects: entry.float(offset_of!(S, freed_objects)),
        freed_space: entry.float(offset_of!(S, freed_space)),
        alloc_objects_variance: entry.float(offset_of!(S, alloc_objects_variance)),
        alloc_space_variance: entry.float(offset_of!(S, alloc_space_variance)),
        first_monotonic_ns: entry.u64(offset_of!(S, first_monotonic_ns)),
        lifetimes,
    }
}

fn stack(entry: Entry, frames: &[u8]) -> Option<Stack> {
    use format::Stack as S;
    let commit = entry.u32(offset_of!(S, commit));
    let depth = entry.u32(offset_of!(S, depth)) as usize;
    let first_frame = entry.u64(offset_of!(S, first_frame));
    if commit != COMMITTED || depth == 0 || depth > MAX_DEPTH {
        return None;
    }
    let start = usize::try_from(first_frame.checked_mul(8)?).ok()?;
    let end = start.checked_add(depth * 8)?;
    let addresses: Vec<u64> =
        frames.get(start..end)?.chunks_exact(8).map(|word| Entry(word).u64(0)).collect();
    let mut stack = counters(entry);
    if stack_hash(stack.epoch, &addresses) != entry.u64(offset_of!(S, hash)) {
        return None;
    }
    stack.frames = addresses;
    Some(stack)
}

fn add_counters(to: &mut Stack, from: &Stack) {
    to.flags |= from.flags;
    to.sampled_alloc_objects = to.sampled_alloc_objects.saturating_add(from.sampled_alloc_objects);
    to.sampled_alloc_bytes = to.sampled_alloc_bytes.saturating_add(from.sampled_alloc_bytes);
    to.sampled_freed_objects = to.sampled_freed_objects.saturating_add(from.sampled_freed_objects);
    to.sampled_freed_bytes = to.sampled_freed_bytes.saturating_add(from.sampled_freed_bytes);
    to.alloc_objects += from.alloc_objects;
    to.alloc_space += from.alloc_space;
    to.freed_objects += from.freed_objects;
    to.freed_space += from.freed_space;
    to.alloc_objects_variance += from.alloc_objects_variance;
    to.alloc_space_variance += from.alloc_space_variance;
    to.first_monotonic_ns = to.first_monotonic_ns.min(from.first_monotonic_ns);
    to.lifetimes.iter_mut().zip(from.lifetimes).for_each(|(to, from)| *to += from);
}

fn live_sample(address: u64, entry: Entry) -> Option<LiveSample> {
    use format::LiveSample as L;
    let size = entry.u64(offset_of!(L, size));
    let probability_bits = entry.u64(offset_of!(L, inverse_probability));
    let monotonic_ns = entry.u64(offset_of!(L, monotonic_ns));
    let stack = entry.u32(offset_of!(L, stack));
    let tid = entry.u32(offset_of!(L, tid));
    let check = live_check(address, size, probability_bits, monotonic_ns, stack, tid);
    let inverse_probability = f64::from_bits(probability_bits);
    let is_valid = check == entry.u64(offset_of!(L, check))
        && inverse_probability.is_finite()
        && inverse_probability >= 1.0;
    is_valid.then_some(LiveSample {
        address,
        size,
        inverse_probability,
        monotonic_ns,
        stack: stack as usize,
        tid,
    })
}
