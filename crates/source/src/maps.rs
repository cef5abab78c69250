//! The mappings of a process that may be its profile, and what may be read through them.

use ramson_format::FILE_BYTES_RANGE;
use ramson_reader::{ProcessRange, ReadAt};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A file that the user did not name: it may be a FIFO, and opening one waits for a writer.
pub fn open_found(path: impl AsRef<Path>) -> Option<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(|facts| facts.is_file()).then_some(file)
}

/// Whether a process runs and still has `file` mapped: a process ID may be in use again, and exec keeps it.
pub fn has_mapped(pid: u32, file: &File) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    profile_maps(&maps).any(|map| map.inode == metadata.ino() && map.is_on(metadata.dev()))
}

/// A mapping that may be a profile, as a line of /proc/PID/maps tells: a file that is shared, or private memory.
pub struct ProfileMap<'a> {
    pub start: u64,
    pub end: u64,
    pub device: (u32, u32),
    pub inode: u64,
    pub path: &'a str,
}

impl ProfileMap<'_> {
    fn is_on(&self, device: u64) -> bool {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        // Some file systems (overlayfs, btrfs) give maps another device than stat; the inode then has to do.
        self.device == (major, minor) || self.device.0 == 0 || major == 0
    }
}

pub fn profile_maps(maps: &str) -> impl Iterator<Item = ProfileMap<'_>> {
    maps.lines().filter_map(|line| {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let access = fields.next()?;
        if fields.next()? != "00000000" {
            return None;
        }
        let (major, minor) = fields.next()?.split_once(':')?;
        let map = ProfileMap {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
            inode: fields.next()?.parse().ok()?,
            path: fields.next().unwrap_or_default().trim_start(),
        };
        let is_large = map.end.saturating_sub(map.start) >= FILE_BYTES_RANGE.0;
        let is_private = access == "rw-p" && map.inode == 0 && map.path.is_empty() && is_large;
        (access == "rw-s" || is_private).then_some(map)
    })
}

/// What may be read as that profile, and where it is.
pub fn bytes_of_map(
    pid: u32,
    map: &ProfileMap,
) -> impl Iterator<Item = (Box<dyn ReadAt>, String)> + use<> {
    let is_file = map.path.starts_with('/') && !map.path.starts_with("/memfd:");
    let (path, inode, range) = (map.path.to_owned(), map.inode, map.start..map.end);
    let candidates = [format!("/proc/{pid}/root{path}"), path.clone()];
    let files = candidates.into_iter().filter(move |_| is_file).filter_map(move |candidate| {
        let file = open_found(candidate)?;
        let is_it = file.metadata().is_ok_and(|metadata| metadata.ino() == inode);
        is_it.then(|| (Box::new(file) as Box<dyn ReadAt>, path.clone()))
    });
    let memory = std::iter::once_with(move || {
        let memory = ProcessRange::open(pid, range.start, range.end).ok()?;
        Some((Box::new(memory) as Box<dyn ReadAt>, format!("memory of process {pid}")))
    });
    files.chain(memory.flatten())
}
