//! From bytes to the parts of a `Snapshot`, by the algorithm of FORMAT.md.

use crate::ReadAt;
use crate::defect::{Defect, ReadError};
use crate::entries;
use crate::extents::without_overlap;
use crate::fields::Entry;
use crate::follow::Follower;
use crate::settle::{Copied, newest_of_each_address, settle};
use crate::snapshot::{Extent, Freed, Header, LiveSample, Mapping, Snapshot};
use ramson_format as format;
use ramson_format::{
    FILE_BYTES_RANGE, KEY_CANCELLED, Kind, MAGIC, PAGE_BYTES, REGION_KINDS, REGIONS, RegionKind,
    VERSION, live_flags, state,
};
use std::cmp::Reverse;
use std::mem::offset_of;

impl Snapshot {
    /// Reads a snapshot. Never panics, whatever the bytes; takes memory in proportion to the committed bytes.
    pub fn read<S: ReadAt + ?Sized>(source: &S) -> Result<Self, ReadError> {
        Ok(std::mem::take(Follower::default().read(source)?))
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
}

const REGION_NAMES: [&str; REGIONS] =
    ["stacks", "frames", "live keys", "live samples", "mappings", "strings", "recent frees"];

impl<'a, S: ReadAt + ?Sized> Reading<'a, S> {
    pub fn begin(source: &'a S) -> Result<Self, ReadError> {
        let length = source.length().map_err(ReadError::Io)?.min(FILE_BYTES_RANGE.1);
        let mut reading = Self { source, length, header: Vec::new(), defects: Vec::new() };
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
            return Err(match is_blank {
                true => ReadError::Unfinished,
                false => ReadError::NotAProfile(bytes),
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

    /// Notes a defect of so many, if any.
    pub fn count(&mut self, number: u64, defect: fn(u64) -> Defect) {
        self.defects.extend((number > 0).then(|| defect(number)));
    }

    pub fn header(&self) -> Entry<'_> {
        Entry(&self.header)
    }

    /// The committed bytes of a region, as far as they are there.
    pub fn region(&mut self, kind: RegionKind) -> Vec<u8> {
        let name = REGION_NAMES[kind as usize];
        let row = kind.row();
        let header = self.header();
        let [offset, capacity, committed] = [0, 8, 16].map(|field| header.u64(row + field));
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
            let missing_bytes = wanted - count as u64;
            self.defects.push(Defect::CutRegion { region: name, missing_bytes });
        }
        bytes
    }

    /// Where a region is in the source, and its copy.
    fn copied<'b>(&self, kind: RegionKind, bytes: &'b mut [u8]) -> Copied<'b> {
        let offset = self.header().u64(kind.row());
        Copied { offset, entry_bytes: kind.entry_bytes() as usize, bytes }
    }

    /// Keys and entries of the live table.
    pub fn live_table(&mut self) -> (Vec<u8>, Vec<u8>) {
        let mut keys = self.region(RegionKind::LiveKeys);
        let mut entries = self.region(RegionKind::LiveSamples);
        let arrays = [
            self.copied(RegionKind::LiveKeys, &mut keys),
            self.copied(RegionKind::LiveSamples, &mut entries),
        ];
        settle(self.source, arrays, |[key, entry]| {
            let key = Entry(key).u64(0);
            key == 0 || (key > KEY_CANCELLED && entries::live(key, Entry(entry)).is_some())
        });
        (keys, entries)
    }

    /// Recent frees, the latest first, by the file's numbers of stacks, and how many there can be.
    pub fn freed(&mut self) -> (Vec<Freed>, u64) {
        let kind = RegionKind::RecentFrees;
        let is_empty = |entry: &[u8]| entry.iter().all(|&byte| byte == 0);
        let mut ring = self.region(kind);
        // Each entry is its own commit.
        settle(self.source, [self.copied(kind, &mut ring)], |[entry]| {
            is_empty(entry) || entries::freed(Entry(entry)).is_some()
        });
        let (mut freed, mut torn) = (Vec::new(), 0);
        for entry in ring.chunks_exact(kind.entry_bytes() as usize) {
            match entries::freed(Entry(entry)) {
                Some(whole) => freed.push(whole),
                None => torn += !is_empty(entry) as u64,
            }
        }
        freed.sort_unstable_by_key(|freed| Reverse(freed.number));
        self.count(torn, Defect::TornFrees);
        (freed, self.header().u64(kind.row() + offset_of!(format::Region, capacity)))
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
        let committed = REGION_KINDS.iter().fold(PAGE_BYTES, |sum, kind| {
            let entries = self.header().u64(kind.row() + 16);
            sum.saturating_add(entries.saturating_mul(kind.entry_bytes()))
        });
        committed.min(self.length)
    }

    pub fn facts(&self) -> Header {
        let mut header = Header { committed_bytes: self.committed_bytes(), ..Header::default() };
        header.walk(&mut self.header());
        let end = self.header().slice(format::END_OFFSET as usize, format::END_BYTES);
        header.end = format::End::from_bytes(end).map(Box::new);
        header
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
        self.count(bad, Defect::BadMappings);
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
            if key <= KEY_CANCELLED {
                torn += key;
                continue;
            }
            let Some((mut sample, flags, number)) = entries::live(key, Entry(bytes)) else {
                bad += 1;
                continue;
            };
            let is_extent = flags & live_flags::EXTENT != 0;
            let kind = if is_extent { Kind::Mmap } else { Kind::Heap };
            let known = renumbered.get(sample.stack).copied().flatten();
            stackless += known.is_none() as u64;
            sample.stack = known.unwrap_or(kind.overflow_stack() as usize);
            if is_extent {
                extents.push((Extent::of(&sample, flags), (sample.monotonic_ns, number)));
            } else {
                samples.push(sample);
            }
        }
        self.count(torn, Defect::TornSamples);
        self.count(bad, Defect::BadSamples);
        self.count(stackless, Defect::StacklessSamples);
        (newest_of_each_address(samples), without_overlap(extents))
    }
}
