//! Profiles as another user could write them to do harm.

use ramson_format::{
    Header, MAGIC, PAGE_BYTES, REGION_KINDS, RegionKind, VERSION, mapping_check, state,
};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, chown};
use std::path::Path;

/// Other users, without an entry in /etc/passwd.
pub const STRANGER: u32 = 1501;
/// Another one.
pub const VICTIM: u32 = 1502;

/// The first page of a profile, whose regions are yet to be placed.
pub struct Forged(pub Vec<u8>);

impl Forged {
    /// Makes the first page of a process that is recording.
    pub fn new(pid: u32) -> Self {
        let mut forged = Self(vec![0; PAGE_BYTES as usize]);
        forged.put(0, &MAGIC);
        forged.put(offset_of!(Header, version), &VERSION.to_le_bytes());
        forged.put(offset_of!(Header, state), &state::RECORDING.to_le_bytes());
        forged.put(offset_of!(Header, pid), &pid.to_le_bytes());
        forged.put(offset_of!(Header, comm), b"forged");
        for (index, kind) in REGION_KINDS.into_iter().enumerate() {
            forged.place(kind, PAGE_BYTES * (1 + index as u64), 0);
        }
        forged
    }

    /// Writes bytes.
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Puts so many entries of a region at `offset`, all begun.
    pub fn place(&mut self, kind: RegionKind, offset: u64, entries: u64) {
        let sizes = kind.entry_bytes() | u64::from(kind.code()) << 32;
        for (index, word) in [offset, entries, entries, sizes].into_iter().enumerate() {
            self.put(kind.row() + index * 8, &word.to_le_bytes());
        }
        let short = (entries as u32).to_le_bytes();
        match kind {
            RegionKind::Stacks => self.put(offset_of!(Header, stack_count), &short),
            RegionKind::Mappings => self.put(offset_of!(Header, mapping_count), &short),
            RegionKind::Strings => self.put(offset_of!(Header, string_bytes), &short),
            RegionKind::Frames => {
                self.put(offset_of!(Header, frame_count), &entries.to_le_bytes());
            }
            RegionKind::LiveKeys
            | RegionKind::LiveSamples
            | RegionKind::RecentFrees
            | RegionKind::Allocators => {}
        }
    }

    /// Makes a sparse file of this length with the page at its start.
    pub fn write(&self, path: &Path, length: u64) -> File {
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(length).unwrap();
        file.write_all_at(&self.0, 0).unwrap();
        file
    }
}

/// An entry of the region of mappings, whose path is so long a part of the strings.
pub fn forged_mapping(start: u64, path_bytes: u32) -> Vec<u8> {
    use ramson_format::Mapping as M;
    let mut entry = vec![0; size_of::<M>()];
    let path = u64::from(path_bytes) << 32;
    let check = mapping_check(&[start, start + 4096, 0, 0, 0, path, 0, 0, 0, 0, 0]);
    for (at, word) in [
        (offset_of!(M, commit), ramson_format::COMMITTED.into()),
        (offset_of!(M, start), start),
        (offset_of!(M, end), start + 4096),
        (offset_of!(M, epoch_from), u64::from(u32::MAX) << 32),
        (offset_of!(M, path_offset), path),
        (offset_of!(M, check), check),
    ] {
        entry[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    entry
}

/// Gives a file or a directory to another user, as root may.
#[track_caller]
pub fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).expect("these tests run as root");
}
