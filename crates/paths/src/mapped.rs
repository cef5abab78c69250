//! The files that a running process has mapped.

use crate::apart::{self, Base, What};
use crate::regular::{Facts, OVERLAY, Refusal, RegularFile, file_system_of, open_regular};
use crate::root::Links;
use ramson_apart::for_process;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, read_dir, read_link};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// File systems where stat names another device than a process's maps do (linux/magic.h): btrfs, overlayfs.
const DEVICES_DIFFER: [u64; 2] = [0x9123_683e, OVERLAY];

/// A process has at most this many mappings by default (`vm.max_map_count`).
const MAX_MAPPINGS: usize = 1 << 16;
/// Bytes of all their names together; nothing is known of further ones.
const MOST_NAME_BYTES: usize = 32 << 20;

/// Which file one is, as maps tell it.
pub struct MapIdentity {
    device: u64,
    inode: u64,
    has_other_device: bool,
}

impl MapIdentity {
    /// Returns the identity of an open file.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from(Facts { file_system: file_system_of(file)?, ..Facts::of(&fstat(file)?) }))
    }

    /// Whether a map with this device and inode is of this file. If stat names another device, the inode has to do.
    pub fn is(&self, device: u64, inode: u64) -> bool {
        self.inode == inode && (self.has_other_device || self.device == device)
    }
}

/// Returns the identity of a file that was looked at: nothing more is asked of its file system.
impl From<Facts> for MapIdentity {
    fn from(facts: Facts) -> Self {
        let Facts { device, inode, file_system, .. } = facts;
        Self { device, inode, has_other_device: DEVICES_DIFFER.contains(&file_system) }
    }
}

/// A line of `/proc/PID/maps`.
pub struct MappedFile<'a> {
    /// The process.
    pub pid: u32,
    /// Its addresses.
    pub range: Range<u64>,
    /// As stat has it.
    pub device: u64,
    /// Number of the file there.
    pub inode: u64,
    /// In the process's own root directory.
    pub path: &'a str,
}

/// The very file that is mapped, also where another one has its name by now.
///
/// By the kernel's own link where that may be followed, which takes root; else by its name, if device and inode are those of the map: in the
/// process's root directory, or in ours, as the process may have opened it before a chroot.
pub fn mapped_file(mapped: &MappedFile) -> Result<RegularFile, Refusal> {
    match for_process(mapped.pid) {
        None => mapped_here(mapped),
        Some(by) => apart::open(&by, &Base::Process(mapped.pid), What::Mapped(mapped.into())),
    }
}

pub(crate) fn mapped_here(mapped: &MappedFile) -> Result<RegularFile, Refusal> {
    let Range { start, end } = mapped.range;
    let link = format!("{start:x}-{end:x}");
    let by_name = |base: Base| base.root_here()?.open(Path::new(mapped.path), Links::WithinRoot);
    // Another file may be mapped there since the line was read.
    let is_it =
        |found: &RegularFile| MapIdentity::from(found.facts).is(mapped.device, mapped.inode);
    let checked =
        |found: RegularFile| if is_it(&found) { Ok(found) } else { Err(Refusal::OtherFile) };
    let by_link = link_here(mapped.pid, link.as_ref()).and_then(checked);
    // The refusal that is reported is the one in the process's own root directory.
    by_link.or_else(|_| {
        let of_process = by_name(Base::Process(mapped.pid)).and_then(checked);
        of_process.or_else(|why| by_name(Base::Own).and_then(checked).map_err(|_| why))
    })
}

/// The executable of process `pid`.
pub fn executable_of(pid: u32) -> Result<RegularFile, Refusal> {
    match for_process(pid) {
        None => executable_here(pid),
        Some(by) => apart::open(&by, &Base::Process(pid), What::Executable),
    }
}

pub(crate) fn executable_here(pid: u32) -> Result<RegularFile, Refusal> {
    open_link(format!("/proc/{pid}/exe").as_ref())
}

/// A file that a process has mapped, by the kernel's own link.
pub struct MappedLink {
    pid: u32,
    /// In map_files; `None`: the executable's.
    link: Option<OsString>,
    /// Name that the kernel gives the file.
    pub name: PathBuf,
}

impl MappedLink {
    /// The file, also if it was deleted or replaced.
    pub fn open(&self) -> Result<RegularFile, Refusal> {
        match (&self.link, for_process(self.pid)) {
            (None, _) => executable_of(self.pid),
            (Some(link), None) => link_here(self.pid, link),
            (Some(link), Some(by)) => {
                let what = What::MappedLink(link.as_bytes().to_vec());
                apart::open(&by, &Base::Process(self.pid), what)
            }
        }
    }
}

/// The executable of process `pid`, then what else it has mapped, once for each mapping. The kernel lets only root look at more than the
/// executable.
pub fn mapped_links(pid: u32) -> Vec<MappedLink> {
    let folder = format!("/proc/{pid}/map_files");
    let entries = read_dir(&folder).ok().into_iter().flatten();
    let links = entries.take(MAX_MAPPINGS).flatten().map(|entry| Some(entry.file_name()));
    let named = std::iter::once(None).chain(links).filter_map(|link| {
        let path = link
            .as_ref()
            .map_or(format!("/proc/{pid}/exe").into(), |link| Path::new(&folder).join(link));
        Some(MappedLink { pid, name: read_link(path).ok()?, link })
    });
    let mut bytes = 0;
    let named = named.take_while(|link| {
        bytes += link.name.as_os_str().len();
        bytes <= MOST_NAME_BYTES
    });
    named.collect()
}

/// Opens the file that a link in map_files leads to.
pub(crate) fn link_here(pid: u32, link: &OsStr) -> Result<RegularFile, Refusal> {
    open_link(&Path::new(&format!("/proc/{pid}/map_files")).join(link))
}

/// Opens the file that a link of `/proc/PID` leads to.
fn open_link(link: &Path) -> Result<RegularFile, Refusal> {
    open_regular(openat(CWD, link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_device_is_another_file() {
        for (has_other_device, is_it) in [(false, false), (true, true)] {
            let file = MapIdentity { device: 7, inode: 8, has_other_device };
            assert!(file.is(7, 8) && !file.is(7, 9));
            assert_eq!(file.is(6, 8), is_it);
        }
    }
}
