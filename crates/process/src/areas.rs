//! The areas of a process, as the text of /proc/PID/smaps tells them.

use crate::asked::MOST_BYTES;
use crate::mappings::{Mapping, UNNAMED, mappings};
use borsh::{BorshDeserialize, BorshSerialize};
use rustix::fs::makedev;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Result as IoResult};
use std::ops::Range;

/// Asked of smaps at once. The kernel writes whole entries until it has as much, and counts the pages of an area once more if its entry does
/// not fit into the rest of a page. It fits where only this much is before it.
const SMAPS_READ_BYTES: usize = 1024;
/// Most bytes of areas that are read whole: the variables of a C library or loader.
const MOST_WHOLE_BYTES: u64 = 64 << 20;
/// Most bytes of all areas' paths: beyond that, paths lose their directory.
const MOST_PATH_BYTES: usize = 32 << 20;

/// Backing of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Nothing: the heap, mmap'd memory, stacks.
    Anonymous,
    /// A file.
    File,
    /// Memory that processes share: tmpfs, memfd, System V.
    Shmem,
    /// The kernel: vdso, vvar, vsyscall.
    Kernel,
}

/// One area. Bytes throughout.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Area {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// `rw-p` and the like.
    pub permissions: [u8; 4],
    /// Offset in the file.
    pub offset: u64,
    /// Device of the file, as maps shows it; 0 if there is no file.
    pub device: u64,
    /// Inode of the file; 0 if there is no file.
    pub inode: u64,
    /// File, `[heap]`, a name that the program gave it, or empty.
    pub path: String,
    /// Resident.
    pub rss: u64,
    /// Resident, and not (or no longer) a file's page.
    pub anonymous: u64,
    /// Resident, and mapped more than once, by this process or by others.
    pub shared: u64,
    /// Resident, each page divided by how often it is mapped, by this process and by others.
    pub pss: u64,
    /// Resident, freed by MADV_FREE and not used since: the kernel takes it back when it needs memory.
    pub lazy_free: u64,
    /// Anonymous memory in transparent huge pages.
    pub anonymous_huge: u64,
    /// In hugetlbfs, which is not part of RSS.
    pub hugetlb: u64,
    /// Swapped out.
    pub swap: u64,
    /// Left out of core dumps, as the kernel was told.
    pub is_not_dumped: bool,
    /// Never in transparent huge pages, as the kernel was told.
    pub is_never_huge: bool,
    /// Grows downwards when it is used, as the first thread's stack does.
    pub grows_down: bool,
}

impl Area {
    /// Returns the backing of the area, as far as its name tells.
    pub fn backing(&self) -> Backing {
        const SHARED: [&str; 4] = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"];
        match self.path.as_str() {
            "[vdso]" | "[vvar]" | "[vvar_vclock]" | "[vsyscall]" => Backing::Kernel,
            path if SHARED.iter().any(|shared| path.starts_with(shared)) => Backing::Shmem,
            path if path.starts_with('/') => Backing::File,
            path if path.starts_with("[anon_shmem:") => Backing::Shmem,
            _ => Backing::Anonymous,
        }
    }

    /// Whether the process may read and write it.
    pub fn is_writable(&self) -> bool {
        self.permissions.starts_with(b"rw")
    }

    /// Whether it is anonymous memory of hugetlbfs, whose pages are not part of RSS.
    pub fn is_huge(&self) -> bool {
        self.path.starts_with("/anon_hugepage")
    }

    /// Whether `address` is in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

pub(crate) fn parse_file(smaps: File) -> IoResult<Vec<Area>> {
    parse(BufReader::with_capacity(SMAPS_READ_BYTES, smaps))
}

/// Whether they can be the areas of a process: to be asked of those that came from another process.
pub(crate) fn are_possible(areas: &[Area]) -> bool {
    let is_area = |it: &Area| {
        let bytes = [it.rss, it.pss, it.anonymous, it.shared, it.lazy_free];
        let bytes = bytes.into_iter().chain([it.anonymous_huge, it.hugetlb, it.swap]);
        it.start < it.end && bytes.max() <= Some(MOST_BYTES)
    };
    areas.iter().all(is_area) && areas.windows(2).all(|pair| pair[0].end <= pair[1].start)
}

/// The areas of process `pid` without what of them is resident: the kernel tells that many times as fast.
pub fn read_outline(pid: u32) -> IoResult<Vec<Area>> {
    let mut names = HashMap::new();
    let mut path_bytes = 0;
    let mut all: Vec<Area> = Vec::new();
    for Mapping { start, end, access, offset, device, inode, path } in mappings(pid)? {
        if inode != 0 && path != UNNAMED {
            names.entry((device, inode)).or_insert_with(|| path.clone());
        }
        let area = Area {
            start,
            end,
            permissions: access,
            offset,
            device,
            inode,
            path,
            ..Area::default()
        };
        all.push(area);
    }
    for area in &mut all {
        if area.path == UNNAMED
            && let Some(name) = names.get(&(area.device, area.inode))
        {
            area.path.clone_from(name);
        }
        path_bytes += area.path.len();
        if path_bytes > MOST_PATH_BYTES {
            area.path = without_directory(&area.path);
        }
    }
    Ok(all)
}

/// The areas without these ranges, which do not overlap: what is left of each is an area of its own.
pub fn without(areas: &[Area], ranges: &[Range<u64>]) -> Vec<Area> {
    let mut left = Vec::new();
    for area in areas {
        let mut start = area.start;
        let first = ranges.partition_point(|range| range.end <= area.start);
        for range in ranges[first..].iter().take_while(|range| range.start < area.end) {
            if start < range.start {
                left.push(Area { start, end: range.start, ..area.clone() });
            }
            start = range.end;
        }
        if start < area.end {
            left.push(Area { start, ..area.clone() });
        }
    }
    left
}

/// The area that an address is in.
pub fn area_at(areas: &[Area], address: u64) -> Option<&Area> {
    let behind = areas.partition_point(|area| area.start <= address);
    areas.get(behind.checked_sub(1)?).filter(|area| area.contains(address))
}

/// Those of areas that are to be read whole: a process may have mapped one file any number of times.
pub fn bounded<'a>(areas: impl Iterator<Item = &'a Area>) -> impl Iterator<Item = &'a Area> {
    areas.scan(0, |bytes: &mut u64, area| {
        *bytes = bytes.saturating_add(area.end - area.start);
        (*bytes <= MOST_WHOLE_BYTES).then_some(area)
    })
}

/// Resident bytes of what no file is behind.
pub fn anonymous_bytes(areas: &[Area]) -> u64 {
    let anonymous = areas.iter().filter(|area| area.backing() == Backing::Anonymous);
    anonymous.map(|area| area.rss).sum()
}

/// The areas that the text of smaps tells.
pub fn parse_smaps(smaps: &[u8]) -> Vec<Area> {
    parse(smaps).unwrap_or_default()
}

/// An area that grows between two reads is listed again: only its last entry counts.
fn parse(mut smaps: impl BufRead) -> IoResult<Vec<Area>> {
    let mut all: Vec<Area> = Vec::new();
    let mut bytes = Vec::new();
    let mut path_bytes = 0;
    while smaps.read_until(b'\n', &mut bytes)? > 0 {
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        // Figures begin with a capital, addresses with a digit.
        if line.first().is_some_and(u8::is_ascii_uppercase) {
            if let Some((last, at)) = all.last_mut().zip(memchr::memchr(b':', line)) {
                add_figure(last, &line[..at], &line[at + 1..]);
            }
        // A file's name may be any bytes.
        } else if let Some(mut area) = parse_head(&String::from_utf8_lossy(line)) {
            while all.pop_if(|last| area.start < last.end).is_some() {}
            path_bytes += area.path.len();
            if path_bytes > MOST_PATH_BYTES {
                area.path = without_directory(&area.path);
            }
            all.push(area);
        }
        bytes.clear();
    }
    all.shrink_to_fit();
    Ok(all)
}

fn add_figure(area: &mut Area, key: &[u8], value: &[u8]) {
    let digits =
        || value.iter().skip_while(|byte| **byte == b' ').take_while(|byte| byte.is_ascii_digit());
    let number =
        |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    let bytes = || digits().fold(0, number).saturating_mul(1024);
    match key {
        b"Rss" => area.rss = bytes(),
        b"Pss" => area.pss = bytes(),
        b"Anonymous" => area.anonymous = bytes(),
        b"LazyFree" => area.lazy_free = bytes(),
        b"Shared_Clean" | b"Shared_Dirty" => {
            area.shared = area.shared.saturating_add(bytes());
        }
        b"AnonHugePages" => area.anonymous_huge = bytes(),
        b"Shared_Hugetlb" | b"Private_Hugetlb" => {
            area.hugetlb = area.hugetlb.saturating_add(bytes());
        }
        b"Swap" => area.swap = bytes(),
        b"VmFlags" => {
            for flag in value.split(|&byte| byte == b' ') {
                area.is_not_dumped |= flag == b"dd";
                area.is_never_huge |= flag == b"nh";
                area.grows_down |= flag == b"gd";
            }
        }
        _ => {}
    }
}

/// Cuts a path to its file name, which tells files apart well enough if a process has too many long paths.
pub(crate) fn without_directory(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((_, name)) if path.starts_with('/') => format!("/…/{name}"),
        _ => path.into(),
    }
}

fn parse_head(line: &str) -> Option<Area> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    Some(Area {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        permissions: fields.next()?.as_bytes().try_into().ok()?,
        offset: u64::from_str_radix(fields.next()?, 16).ok()?,
        device: device(fields.next()?)?,
        inode: fields.next()?.parse().ok()?,
        path: fields.next().unwrap_or_default().trim_start().into(),
        ..Area::default()
    })
}

/// `MAJOR:minor`, in the number base of maps.
pub fn device(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some(makedev(number(major)?, number(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_that_cannot_be_are_refused() {
        let area = |start, end, rss| Area { start, end, rss, ..Area::default() };
        assert!(are_possible(&[area(1, 2, MOST_BYTES), area(2, 3, 0)]));
        assert!(!are_possible(&[area(2, 3, 0), area(1, 2, 0)]));
        assert!(!are_possible(&[area(1, 3, 0), area(2, 4, 0)]));
        assert!(!are_possible(&[area(1, 1, 0)]));
        assert!(!are_possible(&[area(1, 2, MOST_BYTES + 1)]));
    }
}
