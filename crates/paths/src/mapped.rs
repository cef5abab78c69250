//! The files that a running process has mapped.

use crate::regular::{Facts, OVERLAY, Refusal, RegularFile, file_system_of, open_regular};
use crate::root::{Links, Root};
use ramson_apart::proc;
use rustix::fs::{AtFlags, StatxFlags, fstat, makedev, statx};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
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
    let Range { start, end } = mapped.range;
    let link = format!("{start:x}-{end:x}");
    let by_name =
        |root: Result<Root, Refusal>| root?.open(Path::new(mapped.path), Links::WithinRoot);
    // Another file may be mapped there since the line was read.
    let is_it =
        |found: &RegularFile| MapIdentity::from(found.facts).is(mapped.device, mapped.inode);
    let checked =
        |found: RegularFile| if is_it(&found) { Ok(found) } else { Err(Refusal::OtherFile) };
    let by_link = open_mapped(mapped.pid, link.as_ref()).and_then(checked);
    // The refusal that is reported is the one in the process's own root directory.
    by_link.or_else(|_| {
        let of_process = by_name(Root::of_process(mapped.pid)).and_then(checked);
        of_process
            .or_else(|why| by_name(Root::at(Path::new("/"))).and_then(checked).map_err(|_| why))
    })
}

/// The executable of process `pid`.
pub fn executable_of(pid: u32) -> Result<RegularFile, Refusal> {
    open_link(&format!("{pid}/exe"))
}

/// Device and inode of the executable of process `pid`. Nothing is asked of its file system, which may be a stranger's.
pub fn executable_identity(pid: u32) -> Option<(u64, u64)> {
    let found = proc::look(&format!("{pid}/exe")).ok()?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let facts = statx(&found, "", flags, StatxFlags::INO).ok()?;
    Some((makedev(facts.stx_dev_major, facts.stx_dev_minor), facts.stx_ino))
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
        match &self.link {
            None => executable_of(self.pid),
            Some(link) => open_mapped(self.pid, link),
        }
    }
}

/// The executable of process `pid`, then what else it has mapped, once for each mapping. The kernel lets only root look at more than the
/// executable.
pub fn mapped_links(pid: u32) -> Vec<MappedLink> {
    let executable = proc::link(&format!("{pid}/exe")).ok();
    let executable = executable.map(|name| MappedLink { pid, name, link: None });
    let maps = proc::open(&format!("{pid}/maps")).map(BufReader::new);
    let lines = maps.into_iter().flat_map(|maps| maps.split(b'\n').map_while(Result::ok));
    let mapped = lines.take(MAX_MAPPINGS).filter_map(|line| {
        let mut words = line.splitn(6, |&byte| byte == b' ');
        let (start, end) = str::from_utf8(words.next()?).ok()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let link = format!("{:x}-{:x}", number(start)?, number(end)?);
        let name = OsStr::from_bytes(words.nth(4)?.trim_ascii_start());
        let is_file = name.as_bytes().starts_with(b"/");
        is_file.then(|| MappedLink { pid, name: name.into(), link: Some(link.into()) })
    });
    let mut bytes = 0;
    let named = executable.into_iter().chain(mapped).take_while(|link| {
        bytes += link.name.as_os_str().len();
        bytes <= MOST_NAME_BYTES
    });
    named.collect()
}

/// Opens the file that a link in map_files leads to.
fn open_mapped(pid: u32, link: &OsStr) -> Result<RegularFile, Refusal> {
    open_link(&format!("{pid}/map_files/{}", link.display()))
}

/// Opens the file that a link of /proc leads to.
fn open_link(link: &str) -> Result<RegularFile, Refusal> {
    open_regular(proc::look(link).map_err(Refusal::from_io)?)
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
