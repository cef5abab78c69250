//! Rewrites the file of a dead process without the room that it did not use: to save space, and for copying and attaching to tickets.

use crate::output_file::replace_in;
use ramson_analysis::end::{self, sites::LastProfile};
use ramson_format::{PAGE_BYTES, REGION_KINDS, Region, RegionKind};
use ramson_paths::Directory;
use ramson_reader::{ReadAt, regions};
use ramson_source::Recording;
use ramson_source::places::open_directory_of;
use rustix::process::geteuid;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Replaces `path` by a file with the same records whose regions follow each other, with a block
/// behind them, as of names. Only for files that are not written any more.
pub fn compact(path: &Path, block: &[u8]) -> io::Result<()> {
    let (directory, name) = open_directory_of(path)?;
    // Else it might come back after it was summed.
    if !has_lock(&directory) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let profile = directory.open_file(name)?.file;
    let mut content = compacted(&profile)?;
    content.extend_from_slice(block);
    replace_in(&directory, name, Some(&profile.metadata()?), |out| out.write_all(&content))
}

/// Makes a dead process's file small, with the names in it where the death deserves a look, or where
/// its root directory was not ours: its binaries may be replaced, or that directory gone, before it is
/// read; as a perf map may be. Returns what to say of a death of memory.
pub fn keep(source: &Recording, has_names: bool) -> Vec<String> {
    let path = Path::new(&source.origin);
    let violent = end::end_of(source).is_some_and(|noted| end::is_violent(&noted));
    let is_elsewhere = source.snapshot.header.root.is_some();
    let last = (violent || is_elsewhere || has_names).then(|| LastProfile::of(source));
    // Another user may not read every binary that we may, and can move the directory while we write.
    if source.file().is_some_and(|found| found.facts.owner.user == geteuid().as_raw()) {
        let block = last.as_ref().map_or_else(Vec::new, |last| last.names.to_block());
        // The sparse original is as good; only its apparent size differs.
        let _ = compact(path, &block);
    }
    last.map_or_else(Vec::new, |last| last.lines(source))
}

/// Whoever has it needs it for a second or two.
fn has_lock(directory: &Directory) -> bool {
    const ATTEMPTS: usize = 250;
    const PAUSE: Duration = Duration::from_millis(10);
    (0..ATTEMPTS).any(|attempt| {
        if attempt > 0 {
            sleep(PAUSE);
        }
        directory.lock()
    })
}

/// The records of `file`, with the regions one after the other.
pub fn compacted(file: &File) -> io::Result<Vec<u8>> {
    let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let places = regions(file).map_err(|error| damaged(&error.to_string()))?;
    let length = file.length()?;
    let mut out = vec![0; PAGE_BYTES as usize];
    file.read_exact_at(&mut out, 0)?;
    // Slots in use of the live table, which is not full.
    let mut taken_slots = Vec::new();
    for (kind, place) in REGION_KINDS.into_iter().zip(places) {
        let place = place.ok_or_else(|| damaged("the profile is damaged"))?;
        let bytes = place.end - place.start;
        let start = out.len();
        if place.end > length || start as u64 + bytes > file.most_bytes() {
            return Err(damaged("the profile is truncated or too large"));
        }
        let mut content = vec![0; bytes as usize];
        file.read_exact_at(&mut content, place.start)?;
        if kind == RegionKind::LiveKeys {
            let slots = content.chunks_exact(size_of::<u64>()).enumerate();
            taken_slots = slots.filter(|(_, key)| **key != [0; 8]).map(|(slot, _)| slot).collect();
        }
        if [RegionKind::LiveKeys, RegionKind::LiveSamples].contains(&kind) {
            content = of_slots(&taken_slots, &content, kind.entry_bytes() as usize);
        }
        out.extend_from_slice(&content);
        out.resize(out.len().next_multiple_of(PAGE_BYTES as usize), 0);
        let row = kind.row();
        out[row..row + 8].copy_from_slice(&(start as u64).to_le_bytes());
        let entries = content.len() as u64 / kind.entry_bytes();
        for field in [offset_of!(Region, capacity), offset_of!(Region, committed)] {
            out[row + field..row + field + 8].copy_from_slice(&entries.to_le_bytes());
        }
    }
    Ok(out)
}

/// The entries of these slots.
fn of_slots(slots: &[usize], table: &[u8], entry_bytes: usize) -> Vec<u8> {
    let entry = |slot: &usize| table.get(slot * entry_bytes..(slot + 1) * entry_bytes);
    slots.iter().filter_map(entry).flatten().copied().collect()
}
