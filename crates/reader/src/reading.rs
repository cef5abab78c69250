//! From bytes to the parts of a `Snapshot`, by the algorithm of FORMAT.md.

use crate::ReadAt;
use crate::defect::{Defect, REGION_NAMES, ReadError};
use crate::entries;
use crate::extents::without_overlap;
use crate::fields::Entry;
use crate::follow::Follower;
use crate::region::{Part, Region};
use crate::settle::{Copied, newest_of_each_address, settle};
use crate::snapshot::{
    Allocator, Extent, FailedAllocation, Freed, Header, LiveSample, Mapping, Snapshot, Stack,
};
use ramson_format as format;
use ramson_format::{
    ABORT_OFFSET, FAILURE_OFFSET, FILE_BYTES_RANGE, KEY_CANCELLED, KINDS, Kind, MAGIC, PAGE_BYTES,
    REGION_KINDS, REGIONS, RegionKind, VERSION, live_flags, plan, state,
};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::mem::offset_of;
use std::ops::Range;

impl Snapshot {
    /// Reads a snapshot. Never panics, whatever the bytes; takes memory in proportion to the bytes that are present.
    pub fn read<S: ReadAt + ?Sized>(source: &S) -> Result<Self, ReadError> {
        Ok(std::mem::take(Follower::default().read(source)?))
    }

    /// The same of the header, the mappings and what lives only, in a fraction of the time: all of it is of overflow stacks, and what is damaged is not
    /// told.
    pub fn read_live<S: ReadAt + ?Sized>(source: &S) -> Result<Self, ReadError> {
        if let Some(passed) = source.apart() {
            return passed.snapshot();
        }
        let mut reading = Reading::begin(source)?;
        let (keys, samples) = reading.live_table()?;
        let mut header = reading.facts();
        reading.add_failures(&mut header, |_| None);
        let (live, extents) = reading.live(&keys, &samples, &[]);
        let stacks = KINDS.map(Stack::overflow).to_vec();
        // They tell how sizes are rounded.
        let (mappings, allocators) = reading.objects()?;
        Ok(Self { header, mappings, allocators, stacks, live, extents, ..Self::default() })
    }
}

impl Header {
    /// Reads the first page only.
    pub fn read<S: ReadAt + ?Sized>(source: &S) -> Result<Self, ReadError> {
        match source.apart() {
            Some(passed) => passed.header(),
            None => Ok(Reading::begin(source)?.facts()),
        }
    }

    /// Since when its live samples are recorded, on the monotonic clock: since the latest attach, which forgets those from before.
    pub fn live_since_ns(&self) -> u64 {
        self.attached_monotonic_ns.max(self.start_monotonic_ns)
    }
}

/// Ranges in the source of the entries of each region that can hold something, in the order of the directory. `None`: the region's row
/// is damaged, or another region has a part of its place.
pub fn regions<S: ReadAt + ?Sized>(source: &S) -> Result<[Option<Range<u64>>; REGIONS], ReadError> {
    let reading = Reading::begin(source)?;
    Ok(REGION_KINDS.map(|kind| {
        let Range { start, end } = reading.place(kind).filter(|it| reading.is_apart(kind, it))?;
        let used = reading.used(kind, (end - start) / kind.entry_bytes());
        Some(start..start + used * kind.entry_bytes())
    }))
}

pub struct Reading<'a, S: ReadAt + ?Sized> {
    source: &'a S,
    length: u64,
    /// Bytes that may still be copied.
    room: u64,
    header: Vec<u8>,
    pub defects: Vec<Defect>,
}

impl<'a, S: ReadAt + ?Sized> Reading<'a, S> {
    pub fn begin(source: &'a S) -> Result<Self, ReadError> {
        let length = source.length().map_err(ReadError::Io)?.min(FILE_BYTES_RANGE.1);
        let room = source.most_bytes();
        let mut reading = Self { source, length, room, header: Vec::new(), defects: Vec::new() };
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

    /// Notes a defect of so many, if any.
    pub fn count(&mut self, number: u64, defect: fn(u64) -> Defect) {
        self.defects.extend((number > 0).then(|| defect(number)));
    }

    pub fn header(&self) -> Entry<'_> {
        Entry(&self.header)
    }

    /// The committed entries of a region, as far as they are present.
    pub fn region(&mut self, kind: RegionKind) -> Result<Region, ReadError> {
        let source = self.source;
        self.copy(kind, |rest| source.next_present(rest))
    }

    /// Reads no entries of a region, but tells whether the source is cut there.
    pub fn unread(&mut self, kind: RegionKind) -> Result<Region, ReadError> {
        self.copy(kind, |_| None)
    }

    /// The same of those parts that `next` finds in what is left of the region.
    fn copy(
        &mut self,
        kind: RegionKind,
        mut next: impl FnMut(Range<u64>) -> Option<Range<u64>>,
    ) -> Result<Region, ReadError> {
        let mut region = Region::new(kind);
        let Some(place) = self.place(kind).filter(|place| self.is_apart(kind, place)) else {
            self.defects.push(Defect::BadRegion(REGION_NAMES[kind as usize]));
            return Ok(region);
        };
        let entry_bytes = kind.entry_bytes();
        let committed = (place.end - place.start) / entry_bytes;
        let wanted_end = place.start + self.used(kind, committed) * entry_bytes;
        let end = wanted_end.min(self.length.max(place.start));
        let mut missing_bytes = wanted_end - end;
        // Always the start of an entry.
        let mut at = place.start;
        while at < end
            && let Some(present) = next(at..end)
        {
            let first = (present.start - place.start) / entry_bytes;
            let start = place.start + first * entry_bytes;
            let whole_bytes = (present.end - start).next_multiple_of(entry_bytes);
            at = (start + whole_bytes).min(end);
            let bytes = self.bytes(start..at)?;
            missing_bytes += at - start - bytes.len() as u64;
            region.parts.push(Part { first, bytes });
        }
        region.absent = (end - place.start) / entry_bytes - region.count();
        if missing_bytes > 0 {
            let region = REGION_NAMES[kind as usize];
            self.defects.push(Defect::CutRegion { region, missing_bytes });
        }
        Ok(region)
    }

    fn bytes(&mut self, range: Range<u64>) -> Result<Vec<u8>, ReadError> {
        let length = range.end - range.start;
        let too_large = || ReadError::TooLarge(self.source.most_bytes());
        self.room = self.room.checked_sub(length).ok_or_else(too_large)?;
        let mut bytes = vec![0; length as usize];
        let count = self.source.read_at(range.start, &mut bytes).unwrap_or(0);
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Range in the source of the committed entries of a region, if its row of the directory makes sense by itself.
    fn place(&self, kind: RegionKind) -> Option<Range<u64>> {
        let row = kind.row();
        let header = self.header();
        let [offset, capacity, committed] = [0, 8, 16].map(|field| header.u64(row + field));
        let is_sane = header.u32(row + 24) as u64 == kind.entry_bytes()
            && header.u32(row + 28) == kind.code()
            && offset >= PAGE_BYTES
            && offset.is_multiple_of(PAGE_BYTES)
            && committed <= capacity
            && committed <= plan(FILE_BYTES_RANGE.1)[kind as usize].capacity;
        let end = offset.checked_add(committed.checked_mul(kind.entry_bytes())?)?;
        is_sane.then_some(offset..end)
    }

    /// Whether no other region has a part of that place.
    fn is_apart(&self, kind: RegionKind, place: &Range<u64>) -> bool {
        let others = REGION_KINDS.into_iter().filter(|&other| other != kind);
        let mut others = others.filter_map(|other| self.place(other));
        !others.any(|other| place.start < other.end && other.start < place.end)
    }

    /// A part of a region: its offset in the source, and its copy.
    fn copied<'b>(&self, kind: RegionKind, part: &'b mut Part) -> Copied<'b> {
        let offset = self.header().u64(kind.row()) + part.first * kind.entry_bytes();
        Copied { offset, entry_bytes: kind.entry_bytes() as usize, bytes: &mut part.bytes }
    }

    /// Keys and entries of the live table, in parts of the same slots.
    pub fn live_table(&mut self) -> Result<(Region, Region), ReadError> {
        use RegionKind::{LiveKeys, LiveSamples};
        let mut keys = self.region(LiveKeys)?;
        let [key_bytes, entry_bytes] = [LiveKeys, LiveSamples].map(RegionKind::entry_bytes);
        let offset = self.header().u64(LiveSamples.row());
        let slots = keys.parts.iter().map(|part| {
            let count = part.bytes.len() as u64 / key_bytes;
            part.first..part.first + count
        });
        let mut places =
            slots.map(|slots| offset + slots.start * entry_bytes..offset + slots.end * entry_bytes);
        let mut entries = self.copy(LiveSamples, |rest| {
            let place = places.next()?;
            Some(place.start..place.end.min(rest.end)).filter(|place| !place.is_empty())
        })?;
        for (keys, entries) in keys.parts.iter_mut().zip(&mut entries.parts) {
            let arrays = [self.copied(LiveKeys, keys), self.copied(LiveSamples, entries)];
            settle(self.source, arrays, |[key, entry]| {
                let key = Entry(key).u64(0);
                key == 0 || (key > KEY_CANCELLED && entries::live(key, Entry(entry)).is_some())
            });
        }
        Ok((keys, entries))
    }

    /// Recent frees, the latest first, by the file's numbers of stacks, and how many there can be.
    pub fn freed(&mut self) -> Result<(Vec<Freed>, u64), ReadError> {
        let kind = RegionKind::RecentFrees;
        let is_empty = |entry: &[u8]| entry.iter().all(|&byte| byte == 0);
        let mut ring = self.region(kind)?;
        for part in &mut ring.parts {
            // Each entry is its own commit.
            settle(self.source, [self.copied(kind, part)], |[entry]| {
                is_empty(entry) || entries::freed(Entry(entry)).is_some()
            });
        }
        let mut freed = Vec::new();
        let mut torn = 0;
        for (_, entry) in ring.entries() {
            match entries::freed(Entry(entry)) {
                Some(whole) => freed.push(whole),
                None => torn += !is_empty(entry) as u64,
            }
        }
        freed.sort_unstable_by_key(|freed| Reverse(freed.number));
        self.count(torn, Defect::TornFrees);
        Ok((freed, self.header().u64(kind.row() + offset_of!(format::Region, capacity))))
    }

    /// Entries of a region that can hold something.
    fn used(&self, kind: RegionKind, committed: u64) -> u64 {
        let header = self.header();
        let begun = match kind {
            RegionKind::Stacks => header.u32(offset_of!(format::Header, stack_count)) as u64,
            RegionKind::Frames => header.u64(offset_of!(format::Header, frame_count)),
            RegionKind::Mappings => header.u32(offset_of!(format::Header, mapping_count)) as u64,
            RegionKind::Strings => header.u32(offset_of!(format::Header, string_bytes)) as u64,
            RegionKind::LiveKeys
            | RegionKind::LiveSamples
            | RegionKind::RecentFrees
            | RegionKind::Allocators => committed,
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
        let root = self.header().slice(format::ROOT_OFFSET as usize, format::ROOT_BYTES);
        header.root = format::Root::from_bytes(root).map(Box::new);
        header
    }

    /// The latest allocations that failed; `number` has the indices of stacks.
    pub fn add_failures(&self, header: &mut Header, number: impl Fn(usize) -> Option<usize>) {
        let failure_at = |offset: u64| {
            let failure = entries::failure(self.header(), offset as usize)?;
            let stack = number(failure.stack).unwrap_or(0);
            Some(Box::new(FailedAllocation { stack, ..failure }))
        };
        header.last_failure = failure_at(FAILURE_OFFSET);
        header.last_abort = failure_at(ABORT_OFFSET);
    }

    /// Executable ranges, and the allocators inside objects.
    pub fn objects(&mut self) -> Result<(Vec<Mapping>, Vec<Allocator>), ReadError> {
        let entries = self.region(RegionKind::Mappings)?;
        let strings = self.region(RegionKind::Strings)?;
        let mut mappings = Vec::new();
        // Two threads that met an object at once each wrote it.
        let mut known = HashSet::new();
        let mut bad = entries.absent;
        for (_, bytes) in entries.entries() {
            match entries::mapping(Entry(bytes), &strings) {
                Some(mapping) if known.contains(&mapping) => {}
                Some(mapping) => {
                    known.insert(mapping.clone());
                    mappings.push(mapping);
                }
                None => bad += 1,
            }
        }
        self.count(bad, Defect::BadMappings);
        let entries = self.region(RegionKind::Allocators)?;
        let begun = entries.entries().filter(|(_, bytes)| entries::is_begun(Entry(bytes)));
        let all: Vec<Option<Allocator>> = begun
            .map(|(number, bytes)| entries::allocator(number, Entry(bytes), &strings))
            .collect();
        self.count(all.iter().filter(|it| it.is_none()).count() as u64, Defect::BadAllocators);
        Ok((mappings, all.into_iter().flatten().collect()))
    }

    /// Samples and extents.
    pub fn live(
        &mut self,
        keys: &Region,
        entries: &Region,
        renumbered: &[Option<usize>],
    ) -> (Vec<LiveSample>, Vec<Extent>) {
        let mut torn = 0;
        let mut bad = 0;
        let mut stackless = 0;
        let mut samples = Vec::new();
        let mut extents = Vec::new();
        for ((_, key), (_, bytes)) in keys.entries().zip(entries.entries()) {
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
