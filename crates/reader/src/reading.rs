//! From bytes to the parts of a `Snapshot`, by the algorithm of FORMAT.md.

use crate::ReadAt;
use crate::bytes::Entry;
use crate::defect::{Defect, ReadError};
use crate::entries::{self, Live};
use crate::extents::without_overlap;
use crate::follow::Follower;
use crate::frees;
use crate::settle::{Copied, newest_of_each_address, settle};
use crate::snapshot::{Extent, Freed, Header, LiveSample, Mapping, Snapshot};
use ramson_format as format;
use ramson_format::{
    FILE_BYTES_RANGE, HEALTH, KEY_RESERVED, Kind, MAGIC, PAGE_BYTES, REGION_KINDS, REGIONS,
    RegionKind, VERSION, state,
};
use std::mem::offset_of;

impl Snapshot {
    /// Reads a snapshot. Never panics, whatever the bytes; takes memory in proportion to the committed bytes.
    pub fn read<S: ReadAt + ?Sized>(source: &S) -> Result<Self, ReadError> {
        let mut follower = Follower::default();
        follower.read(source)?;
        Ok(follower.into_snapshot().expect("it was read"))
    }
}

impl Header {
    /// Reads the first page only.
    pub fn read<S: ReadAt + ?Sized>(source: &S) -> Result<Self, ReadError> {
        Ok(Reading::begin(source)?.facts())
    }
}

pub struct Reading<'a, S: ReadAt + ?Sized> {
    source: &'a S,
    length: u64,
    header: Vec<u8>,
    pub defects: Vec<Defect>,
    /// Memory of an earlier copy of each region, which is overwritten.
    pub buffers: [Vec<u8>; REGIONS],
}

const REGION_NAMES: [&str; REGIONS] =
    ["stacks", "frames", "live keys", "live samples", "mappings", "strings", "recent frees"];

impl<'a, S: ReadAt + ?Sized> Reading<'a, S> {
    pub fn begin(source: &'a S) -> Result<Self, ReadError> {
        let length = source.length().map_err(ReadError::Io)?.min(FILE_BYTES_RANGE.1);
        let mut reading = Self {
            source,
            length,
            header: Vec::new(),
            defects: Vec::new(),
            buffers: Default::default(),
        };
        reading.read_header()?;
        Ok(reading)
    }

    pub fn read_header(&mut self) -> Result<(), ReadError> {
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

    pub fn header(&self) -> Entry<'_> {
        Entry(&self.header)
    }

    /// Where a region's entry in the directory says that it begins.
    fn region_offset(&self, kind: RegionKind) -> u64 {
        self.header().u64(kind.row())
    }

    /// The committed bytes of a region, as far as they are there.
    pub fn region(&mut self, kind: RegionKind) -> Vec<u8> {
        let name = REGION_NAMES[kind as usize];
        let row = kind.row();
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
        let mut bytes = std::mem::take(&mut self.buffers[kind as usize]);
        bytes.resize(present as usize, 0);
        let count = self.source.read_at(offset, &mut bytes).unwrap_or(0);
        bytes.truncate(count);
        if (count as u64) < wanted {
            self.defects
                .push(Defect::CutRegion { region: name, missing_bytes: wanted - count as u64 });
        }
        bytes
    }

    /// Keys and entries of the live table.
    pub fn live_table(&mut self) -> (Vec<u8>, Vec<u8>) {
        let mut keys = self.region(RegionKind::LiveKeys);
        let mut entries = self.region(RegionKind::LiveSamples);
        settle::<S, { size_of::<format::LiveSample>() }>(
            self.source,
            Copied { offset: self.region_offset(RegionKind::LiveKeys), bytes: &mut keys },
            Copied { offset: self.region_offset(RegionKind::LiveSamples), bytes: &mut entries },
            |key, entry| entries::live(key, entry).is_some(),
        );
        (keys, entries)
    }

    /// Recent frees, by the file's numbers of stacks, and how many there can be.
    pub fn freed(&mut self) -> (Vec<Freed>, u64) {
        let row = RegionKind::RecentFrees.row();
        let mut ring = self.region(RegionKind::RecentFrees);
        let offset = self.region_offset(RegionKind::RecentFrees);
        let (freed, torn) = frees::freed(self.source, offset, &mut ring);
        if torn > 0 {
            self.defects.push(Defect::TornFrees(torn));
        }
        self.buffers[RegionKind::RecentFrees as usize] = ring;
        (freed, self.header().u64(row + offset_of!(format::Region, capacity)))
    }

    /// Entries of a region that can hold something.
    fn used(&self, kind: RegionKind, committed: u64) -> u64 {
        let header = self.header();
        let begun = match kind {
            RegionKind::Stacks => header.u32(offset_of!(format::Header, stack_count)) as u64,
            RegionKind::Frames => header.u64(offset_of!(format::Header, frame_count)),
            RegionKind::Mappings => header.u32(offset_of!(format::Header, mapping_count)) as u64,
            RegionKind::Strings => header.u32(offset_of!(format::Header, string_bytes)) as u64,
            RegionKind::LiveKeys | RegionKind::LiveSamples | RegionKind::RecentFrees => committed,
        };
        begun.min(committed)
    }

    /// Header and committed parts of the regions, as the directory says.
    fn committed_bytes(&self) -> u64 {
        let committed = REGION_KINDS.map(|kind| {
            let entries = self.header().u64(kind.row() + 16);
            entries.saturating_mul(kind.entry_bytes())
        });
        committed.iter().fold(PAGE_BYTES, |sum, &bytes| sum.saturating_add(bytes)).min(self.length)
    }

    pub fn facts(&self) -> Header {
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
            configured_interval_bytes: header.u64(offset_of!(H, configured_interval_bytes)),
            max_overhead_ppm: header.u32(offset_of!(H, max_overhead_ppm)),
            interval_changes: header.u32(offset_of!(H, interval_changes)),
            start_cycles: header.u64(offset_of!(H, start_cycles)),
            start_cycles_ns: header.u64(offset_of!(H, start_cycles_ns)),
            last_cycles: header.u64(offset_of!(H, last_cycles)),
            last_cycles_ns: header.u64(offset_of!(H, last_cycles_ns)),
            cpu_ns: header.u64(offset_of!(H, cpu_ns)),
            end: format::End::from_bytes(
                header.slice(format::END_OFFSET as usize, format::END_BYTES),
            )
            .map(Box::new),
            failures: header.u64(format::FAILURE_OFFSET as usize),
            last_failure: None,
            aborts: header.u64(format::ABORT_OFFSET as usize),
            last_abort: None,
            committed_bytes: self.committed_bytes(),
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

    pub fn mappings(&mut self, entries: &[u8], strings: &[u8]) -> Vec<Mapping> {
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

    /// Samples and extents.
    pub fn live(
        &mut self,
        keys: &[u8],
        entries: &[u8],
        renumbered: &[Option<usize>],
    ) -> (Vec<LiveSample>, Vec<Extent>) {
        let (mut torn, mut bad, mut stackless) = (0, 0, 0);
        let (mut samples, mut extents) = (Vec::new(), Vec::new());
        let entries = entries.chunks_exact(size_of::<format::LiveSample>());
        for (key, bytes) in keys.chunks_exact(8).zip(entries) {
            let key = Entry(key).u64(0);
            if key <= KEY_RESERVED {
                torn += key;
                continue;
            }
            let Some(mut live) = entries::live(key, Entry(bytes)) else {
                bad += 1;
                continue;
            };
            let known = renumbered.get(*live.stack()).copied().flatten();
            stackless += known.is_none() as u64;
            match live {
                Live::Sample(sample) => {
                    let stack = known.unwrap_or(Kind::Heap.overflow_stack() as usize);
                    samples.push(LiveSample { stack, ..sample });
                }
                Live::Extent(extent, moment) => {
                    let stack = known.unwrap_or(Kind::Mmap.overflow_stack() as usize);
                    extents.push((Extent { stack, ..extent }, moment));
                }
            }
        }
        let counts = [
            (torn, Defect::TornSamples(torn)),
            (bad, Defect::BadSamples(bad)),
            (stackless, Defect::StacklessSamples(stackless)),
        ];
        let defects = counts.into_iter().filter(|(count, _)| *count > 0);
        self.defects.extend(defects.map(|(_, defect)| defect));
        (newest_of_each_address(samples), without_overlap(extents))
    }
}
