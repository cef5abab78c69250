//! The mappings of a process: those that may be its profile, what may be read through them, and which of its memory is no file's.

use ramson_format::FILE_BYTES_RANGE;
use ramson_paths::{Links, MapIdentity, MappedFile, RegularFile, Root, mapped_file};
use ramson_process::stat::Stat;
use ramson_process::{Mapping, mappings, mappings_of_files, processes};
use ramson_reader::{Header, MappedBytes, ProcessFiles, ProcessRange, ReadAt, Snapshot};
use std::cell::OnceCell;
use std::io;
use std::ops::Range;
use std::path::{Path, absolute};
use std::rc::Rc;
use std::sync::Arc;

/// The regular file of this name. The user did not name it, or it may have been replaced.
pub fn open_found(path: impl AsRef<Path>) -> Option<RegularFile> {
    let path = absolute(path.as_ref()).ok()?;
    Root::at(Path::new("/")).ok()?.open(&path, Links::WithinRoot).ok()
}

/// Whether a process runs and still has a file mapped: a process ID may be in use again, and exec keeps it.
pub fn has_mapped(pid: u32, identity: &MapIdentity) -> io::Result<bool> {
    let is_it = |map: Map| map.may_be_profile() && identity.is(map.device, map.inode);
    Ok(maps(pid)?.any(is_it))
}

/// A mapping. Files that are neither shared nor code have no name.
#[derive(Clone)]
pub struct Map {
    range: Range<u64>,
    access: [u8; 4],
    offset: u64,
    device: u64,
    inode: u64,
    pub path: String,
}

impl From<Mapping> for Map {
    fn from(mapping: Mapping) -> Self {
        let Mapping { start, end, access, offset, device, inode, path } = mapping;
        Self { range: start..end, access, offset, device, inode, path }
    }
}

impl Map {
    /// Whether it may be a profile: a file that is shared, or private memory.
    pub fn may_be_profile(&self) -> bool {
        let is_large = self.range.end.saturating_sub(self.range.start) >= FILE_BYTES_RANGE.0;
        let is_memory = self.inode == 0 && self.path.is_empty() && is_large;
        self.offset == 0 && (self.access == *b"rw-s" || self.access == *b"rw-p" && is_memory)
    }

    /// The file that is mapped there, if it still has a name.
    pub fn file(&self, pid: u32) -> Option<MappedFile<'_>> {
        let &Self { ref range, device, inode, ref path, .. } = self;
        // A memfd's name ends so, too.
        let has_name = path.starts_with('/') && !path.ends_with(" (deleted)");
        has_name.then(|| MappedFile { pid, range: range.clone(), device, inode, path })
    }

    /// Whether it is of the library in the program.
    pub fn is_library(&self) -> bool {
        self.path.contains("/libramson.so")
    }

    /// Whether it is memory that is no file's.
    fn is_anonymous(&self) -> bool {
        // The kernel's names for shared anonymous memory, and for that in huge pages.
        let is_named = ["/dev/zero (deleted)", "/anon_hugepage (deleted)"].contains(&&*self.path);
        self.inode == 0 || is_named
    }
}

/// Its mappings, one after the other: a process may have very many, with long paths. A process that is just gone has none.
pub fn maps(pid: u32) -> io::Result<impl Iterator<Item = Map>> {
    Ok(mappings(pid)?.map(Map::from))
}

/// Those that may be its profile, if it has the library.
pub fn profile_maps(pid: u32) -> io::Result<Option<Vec<Map>>> {
    if !mappings_of_files(pid)?.map(Map::from).any(|map| map.is_library()) {
        return Ok(None);
    }
    Ok(Some(maps(pid)?.filter(Map::may_be_profile).collect()))
}

/// Whether the process of this profile, which does not write it, is there and runs another program: one without the library, or of another
/// executable.
pub fn runs_another_program(header: &Header) -> bool {
    let stat = Stat::of(header.pid);
    let is_there = stat.is_some_and(|stat| stat.start_ticks == header.process_start_ticks);
    let has_other_executable = || {
        let path = processes::executable(header.pid);
        path.is_some_and(|path| !path.to_string_lossy().starts_with(&header.exe))
    };
    is_there && (matches!(profile_maps(header.pid), Ok(None)) || has_other_executable())
}

/// A process whose memory is opened once, if it is needed.
#[derive(Clone)]
pub struct ProcessBytes {
    pid: u32,
    files: Rc<OnceCell<Option<Arc<ProcessFiles>>>>,
}

impl ProcessBytes {
    pub fn of(pid: u32) -> Self {
        Self { pid, files: Rc::default() }
    }

    fn files(&self) -> Option<Arc<ProcessFiles>> {
        self.files.get_or_init(|| ProcessFiles::open(self.pid).ok().map(Arc::new)).clone()
    }
}

/// The bytes that may be read as a profile that is mapped there, each with their place: of the file, then of the memory.
pub fn bytes_of_map(
    process: &ProcessBytes,
    map: Map,
) -> impl Iterator<Item = (Box<dyn ReadAt>, String)> + use<> {
    let Map { range, access, .. } = map.clone();
    let (process, pid) = (process.clone(), process.pid);
    let file = std::iter::once_with(move || {
        let found = bytes_of(file_of_map(pid, &map)?);
        Some((Box::new(found) as Box<dyn ReadAt>, map.path))
    });
    let memory = std::iter::once_with(move || {
        // Memory that is shared may be present where this process has not touched it.
        let memory = ProcessRange::new(process.files()?, &range, access[3] == b'p');
        Some((Box::new(memory) as Box<dyn ReadAt>, format!("memory of process {pid}")))
    });
    file.flatten().chain(memory.flatten())
}

/// The bytes of a file that is mapped.
pub fn bytes_of(RegularFile { file, facts, .. }: RegularFile) -> MappedBytes {
    MappedBytes { file, owner: facts.owner, bytes: facts.bytes }
}

/// The very file that is mapped there, if it still has a name.
pub fn file_of_map(pid: u32, map: &Map) -> Option<RegularFile> {
    let mapped = map.file(pid)?;
    mapped_file(&mapped).ok()
}

/// Leaves of the extents what process `pid`, whose snapshot it is, has mapped now: a hole that the program unmapped inside one
/// is not in its record.
pub fn clip_extents(snapshot: &mut Snapshot, pid: u32) {
    if snapshot.extents.is_empty() {
        return;
    }
    let Ok(maps) = maps(pid) else { return };
    let anonymous: Vec<_> = maps.filter(Map::is_anonymous).map(|map| map.range).collect();
    // A process that is just gone has none.
    if !anonymous.is_empty() {
        snapshot.clip_extents(&anonymous);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_maps_are_recognized() {
        for (line, is_anonymous) in [
            ("7f0000000000-7f0000002000 rw-p 00000000 00:00 0 ", true),
            ("7f0000000000-7f0000002000 ---p 00000000 00:00 0 [anon: a name]", true),
            ("7f0000000000-7f0000002000 rw-s 00000000 00:01 2055      /dev/zero (deleted)", true),
            ("7f0000000000-7f0000002000 rw-p 00000000 08:01 7         /var/lib/data", false),
            ("7f0000000000-7f0000002000 rw-s 00000000 00:01 9         /memfd:x (deleted)", false),
        ] {
            let map = Map::from(Mapping::parse(line).unwrap());
            assert_eq!(map.range, 0x7f00_0000_0000..0x7f00_0000_2000);
            assert_eq!(map.is_anonymous(), is_anonymous, "{line}");
        }
    }
}
