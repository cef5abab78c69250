//! From bytes to a `Snapshot`, by the algorithm of FORMAT.md.

use crate::ReadAt;
use crate::bytes::Entry;
use crate::defect::{Defect, ReadError};
use crate::entries;
use crate::settle::{newest_of_each_address, settle};
use crate::snapshot::{Header, LiveSample, Mapping, Snapshot, Stack};
use ramson_format as format;
use ramson_format::{
    FILE_BYTES_RANGE, HEALTH, KEY_RESERVED, MAGIC, PAGE_BYTES, RegionKind, VERSION, state,
};
use std::collections::HashMap;
use std::mem::offset_of;

impl Snapshot {
    /// Reads a snapshot. Never panics, whatever the bytes; takes memory in proportion to the committed bytes.
    pub fn read<S: ReadAt + ?Sized>(source: &S) -> Result<Self, ReadError> {
        let mut reading = Reading::begin(source)?;
        let mut keys = reading.region(RegionKind::LiveKeys);
        let mut samples = reading.region(RegionKind::LiveSamples);
        let at = |kind| reading.region_offset(kind);
        let (keys_at, samples_at) = (at(RegionKind::LiveKeys), at(RegionKind::LiveSamples));
        settle(source, (keys_at, &mut keys), (samples_at, &mut samples));
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
}

struct Reading<'a, S: ReadAt + ?Sized> {
    source: &'a S,
    length: u64,
    header: Vec<u8>,
    defects: Vec<Defect>,
}

const REGION_NAMES: [&str; 6] =
    ["stacks", "frames", "live keys", "live samples", "mappings", "strings"];

fn directory_row(kind: RegionKind) -> usize {
    offset_of!(format::Header, regions) + kind as usize * size_of::<format::Region>()
}

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

    /// Where a region's entry in the directory says that it begins.
    fn region_offset(&self, kind: RegionKind) -> u64 {
        self.header().u64(directory_row(kind))
    }

    /// The committed bytes of a region, as far as they are there.
    fn region(&mut self, kind: RegionKind) -> Vec<u8> {
        let name = REGION_NAMES[kind as usize];
        let row = directory_row(kind);
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
            match entries::mapping(Entry(bytes), strings) {
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
                stacks[0] = entries::counters(entry);
                renumbered.push(Some(0));
                continue;
            }
            let Some(stack) = entries::stack(entry, frames) else {
                bad += 1;
                renumbered.push(None);
                continue;
            };
            let index =
                *distinct.entry((stack.epoch, stack.frames.clone())).or_insert(stacks.len());
            renumbered.push(Some(index));
            match stacks.get_mut(index) {
                Some(same) => entries::add_counters(same, &stack),
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
                _ => match entries::live_sample(key, Entry(bytes)) {
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
        newest_of_each_address(live)
    }
}
