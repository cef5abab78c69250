//! Profile files with right checks and impossible proportions: many mappings with one long path, regions that overlap or reach
//! far beyond what is there.

use crate::choices::Choices;
use ramson_format::{
    COMMITTED, FILE_BYTES_RANGE, Header, KEY_CANCELLED, LiveSample, MAGIC, Mapping, PAGE_BYTES,
    REGION_KINDS, RegionKind, Stack, VERSION, state,
};
use ramson_reader::{Entry, live_check, mapping_check};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

const MOST_MAPPINGS: u64 = 1 << 18;
const MOST_PATH_BYTES: u64 = 4 << 20;
const MOST_SAMPLES: u64 = 1 << 16;
const MOST_STACKS: u64 = 1 << 12;

/// A profile file, sparse where nothing was written.
pub struct Image {
    regions: [Vec<u8>; REGION_KINDS.len()],
    /// Offset in the file and entries of each region.
    rows: [(u64, u64); REGION_KINDS.len()],
    length: u64,
}

fn put<const N: usize>(bytes: &mut [u8], offset: usize, field: [u8; N]) {
    bytes[offset..offset + N].copy_from_slice(&field);
}

fn mapping(index: u64, path_bytes: u32) -> [u8; size_of::<Mapping>()] {
    let mut entry = [0; size_of::<Mapping>()];
    put(&mut entry, offset_of!(Mapping, commit), COMMITTED.to_le_bytes());
    put(&mut entry, offset_of!(Mapping, start), ((index + 1) * PAGE_BYTES).to_le_bytes());
    put(&mut entry, offset_of!(Mapping, end), ((index + 2) * PAGE_BYTES).to_le_bytes());
    put(&mut entry, offset_of!(Mapping, epoch_to), u32::MAX.to_le_bytes());
    put(&mut entry, offset_of!(Mapping, path_bytes), path_bytes.to_le_bytes());
    let check = mapping_check(Entry(&entry));
    put(&mut entry, offset_of!(Mapping, check), check.to_le_bytes());
    entry
}

fn sample(index: u64, stacks: u64) -> ([u8; 8], [u8; size_of::<LiveSample>()]) {
    let mut entry = [0; size_of::<LiveSample>()];
    let stack = (index % stacks.max(1)) as u32;
    put(&mut entry, offset_of!(LiveSample, size), 64_u64.to_le_bytes());
    put(&mut entry, offset_of!(LiveSample, inverse_probability), 1.0_f64.to_le_bytes());
    put(&mut entry, offset_of!(LiveSample, stack), stack.to_le_bytes());
    let key = KEY_CANCELLED + 1 + index * 64;
    let check = live_check(key, Entry(&entry));
    put(&mut entry, offset_of!(LiveSample, check), check.to_le_bytes());
    (key.to_le_bytes(), entry)
}

/// A stack of one frame, all of them at the same place of the frames region or each at its own.
fn stack(index: u64, is_shared: bool) -> ([u8; 8], [u8; size_of::<Stack>()]) {
    let frame = if is_shared { PAGE_BYTES } else { PAGE_BYTES + index };
    let mut entry = [0; size_of::<Stack>()];
    let known = ramson_reader::Stack {
        frames: vec![ramson_format::LookupAddress(frame)],
        ..Default::default()
    };
    let first = if is_shared { 0 } else { index };
    let hash = ramson_format::stack_hash(known.kind(), 0, known.frames.iter().copied());
    put(&mut entry, offset_of!(Stack, commit), COMMITTED.to_le_bytes());
    put(&mut entry, offset_of!(Stack, depth), 1_u32.to_le_bytes());
    put(&mut entry, offset_of!(Stack, first_frame), first.to_le_bytes());
    put(&mut entry, offset_of!(Stack, hash), hash.to_le_bytes());
    (frame.to_le_bytes(), entry)
}

impl Image {
    /// Builds the profile that the input describes.
    pub fn of(choices: &mut Choices) -> Self {
        let mappings = choices.size(MOST_MAPPINGS);
        let path_bytes = choices.size(MOST_PATH_BYTES);
        let (samples, stacks) = (choices.size(MOST_SAMPLES), choices.size(MOST_STACKS));
        let is_shared = choices.byte() & 1 == 1;
        let mut image =
            Self { regions: Default::default(), rows: Default::default(), length: PAGE_BYTES };
        let mut add = |kind: RegionKind, bytes: &[u8]| {
            image.regions[kind as usize].extend_from_slice(bytes);
        };
        (0..mappings).for_each(|index| {
            add(RegionKind::Mappings, &mapping(index, path_bytes as u32));
        });
        add(RegionKind::Strings, &vec![b'a'; path_bytes as usize]);
        for (key, entry) in (0..samples).map(|index| sample(index, stacks)) {
            add(RegionKind::LiveKeys, &key);
            add(RegionKind::LiveSamples, &entry);
        }
        for (frame, entry) in (0..stacks).map(|index| stack(index, is_shared)) {
            add(RegionKind::Frames, &frame);
            add(RegionKind::Stacks, &entry);
        }
        image.lay_out();
        image.displace(choices);
        image
    }

    /// One behind the other, as they should be.
    fn lay_out(&mut self) {
        for kind in REGION_KINDS {
            let bytes = self.regions[kind as usize].len() as u64;
            self.rows[kind as usize] = (self.length, bytes / kind.entry_bytes());
            self.length += bytes.next_multiple_of(PAGE_BYTES);
        }
    }

    /// Overwrites the length of the file, and the offsets and lengths in the header, with other values.
    fn displace(&mut self, choices: &mut Choices) {
        self.length = self.length.max(choices.size(FILE_BYTES_RANGE.1));
        for _ in 0..choices.byte() {
            let row = usize::from(choices.byte()) % self.rows.len();
            let offset = choices.size(FILE_BYTES_RANGE.1) / PAGE_BYTES * PAGE_BYTES;
            self.rows[row] = (offset, choices.size(FILE_BYTES_RANGE.1));
        }
    }

    fn header(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES as usize];
        put(&mut page, offset_of!(Header, magic), MAGIC);
        put(&mut page, offset_of!(Header, version), VERSION.to_le_bytes());
        put(&mut page, offset_of!(Header, state), state::EXITED.to_le_bytes());
        put(&mut page, offset_of!(Header, interval_bytes), (512_u64 << 10).to_le_bytes());
        let used = |kind: RegionKind| self.rows[kind as usize].1;
        let short = |kind: RegionKind| u32::try_from(used(kind)).unwrap_or(u32::MAX).to_le_bytes();
        put(&mut page, offset_of!(Header, stack_count), short(RegionKind::Stacks));
        let frames = used(RegionKind::Frames).to_le_bytes();
        put(&mut page, offset_of!(Header, frame_count), frames);
        put(&mut page, offset_of!(Header, mapping_count), short(RegionKind::Mappings));
        put(&mut page, offset_of!(Header, string_bytes), short(RegionKind::Strings));
        for kind in REGION_KINDS {
            let (offset, entries) = self.rows[kind as usize];
            let row = kind.row();
            put(&mut page, row, offset.to_le_bytes());
            put(&mut page, row + 8, entries.to_le_bytes());
            put(&mut page, row + 16, entries.to_le_bytes());
            put(&mut page, row + 24, (kind.entry_bytes() as u32).to_le_bytes());
            put(&mut page, row + 28, kind.code().to_le_bytes());
        }
        page
    }

    /// The same as a file in memory that has pages only where something was written.
    pub fn into_file(self) -> File {
        let file = memfd_create("ramson-fuzzed", MemfdFlags::CLOEXEC).expect("a file in memory");
        let file = File::from(file);
        file.set_len(self.length).expect("a length below 4 GiB and a little");
        let write = |bytes: &[u8], offset| file.write_all_at(bytes, offset).expect("it is ours");
        write(&self.header(), 0);
        // The place where the content is, which rows that were displaced no longer tell.
        let mut offset = PAGE_BYTES;
        for region in &self.regions {
            write(region, offset);
            offset += (region.len() as u64).next_multiple_of(PAGE_BYTES);
        }
        file
    }
}
