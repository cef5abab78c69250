//! Calls to look at another process: PAGEMAP_SCAN (Linux 6.7 and later), which finds present pages for less than half of what it
//! costs to read an entry for each, and PROCMAP_QUERY (6.11), which tells a mapping without its name.

use crate::mappings::{Mapping, UNNAMED};
use linux_raw_sys::general::{
    PAGE_IS_PFNZERO, PAGE_IS_PRESENT, page_region, pm_scan_arg, procmap_query, procmap_query_flags,
    procmap_query_flags::*,
};
use rustix::fs::makedev;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 =
    3 << 30 | (size_of::<pm_scan_arg>() as u64) << 16 | (b'f' as u64) << 8 | 16;
/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: u64 =
    3 << 30 | (size_of::<procmap_query>() as u64) << 16 | (b'f' as u64) << 8 | 17;
/// The kernel tells no longer name (PATH_MAX).
const MOST_NAME_BYTES: usize = 4096;
/// Runs taken at once.
const MOST_RUNS: usize = 512;

/// Passes the runs of present pages to `visit`, in order; fails at once where there is no such call.
pub fn present_runs(
    pagemap: &File,
    start: u64,
    end: u64,
    visit: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let mut runs = [page_region { start: 0, end: 0, categories: 0 }; MOST_RUNS];
    let mut at = start;
    while at < end {
        let mut argument = pm_scan_arg {
            size: size_of::<pm_scan_arg>() as u64,
            flags: 0,
            start: at,
            end,
            walk_end: 0,
            vec: runs.as_mut_ptr() as u64,
            vec_len: MOST_RUNS as u64,
            max_pages: 0,
            category_inverted: PAGE_IS_PFNZERO.into(),
            // The kernel's page of zeros, where memory was read and never written, is no part of RSS.
            category_mask: (PAGE_IS_PRESENT | PAGE_IS_PFNZERO).into(),
            category_anyof_mask: 0,
            return_mask: PAGE_IS_PRESENT.into(),
        };
        // SAFETY: the kernel reads and writes one `pm_scan_arg`, and writes at most `vec_len` of the runs that `vec` points to; both outlive
        // the call. Nothing of the process that is looked at is changed without flags.
        let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
        let found = usize::try_from(found).map_err(|_| Error::last_os_error())?;
        runs.iter().take(found).for_each(|run| visit(run.start, run.end));
        // A scan that ends early has filled the list.
        at = argument.walk_end.max(at + 1);
    }
    Ok(())
}

/// Returns the mapping that covers `address`, else the next one, if there is one, of a file or of any kind. Fails if the kernel lacks the call.
/// Naming a file costs more than the rest: only code, shared memory, memory without a file, and huge pages get their names.
pub fn mapping(maps: &File, address: u64, of_file: bool) -> Result<Option<Mapping>> {
    let kind = if of_file { PROCMAP_QUERY_FILE_BACKED_VMA as u64 } else { 0 };
    let Some(found) = query(maps, address, kind, &mut [])? else { return Ok(None) };
    let has = |flag: procmap_query_flags| found.vma_flags & flag as u64 != 0;
    let bit = |flag, letter| if has(flag) { letter } else { b'-' };
    let is_shared = has(PROCMAP_QUERY_VMA_SHARED);
    let is_code = has(PROCMAP_QUERY_VMA_EXECUTABLE);
    let is_huge = found.vma_page_size > rustix::param::page_size() as u64;
    let is_named = found.inode == 0 || is_shared || is_code || is_huge;
    let path = match is_named.then(|| name(maps, &found)) {
        None => UNNAMED.to_owned(),
        Some(path) => path?,
    };
    Ok(Some(Mapping {
        start: found.vma_start,
        end: found.vma_end,
        access: [
            bit(PROCMAP_QUERY_VMA_READABLE, b'r'),
            bit(PROCMAP_QUERY_VMA_WRITABLE, b'w'),
            bit(PROCMAP_QUERY_VMA_EXECUTABLE, b'x'),
            if is_shared { b's' } else { b'p' },
        ],
        offset: found.vma_offset,
        device: makedev(found.dev_major, found.dev_minor),
        inode: found.inode,
        path,
    }))
}

/// As the text of maps has it. Another mapping may be there by now, or none.
fn name(maps: &File, found: &procmap_query) -> Result<String> {
    let mut name = [0; MOST_NAME_BYTES];
    let again = match query(maps, found.vma_start, 0, &mut name) {
        Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => return Ok(UNNAMED.into()),
        again => again?,
    };
    let is_it = |again: &procmap_query| again.inode == found.inode;
    let length = again.filter(is_it).map_or(0, |again| again.vma_name_size as usize);
    let name = name[..length.min(MOST_NAME_BYTES)].strip_suffix(b"\0").unwrap_or_default();
    Ok(String::from_utf8_lossy(name).replace('\n', "\\012"))
}

/// Queries the mapping at `address`, or the next one, of a kind, which is a flag of the query.
fn query(maps: &File, address: u64, kind: u64, name: &mut [u8]) -> Result<Option<procmap_query>> {
    // SAFETY: all zero is a valid value of a structure of integers.
    let mut query: procmap_query = unsafe { std::mem::zeroed() };
    query.size = size_of::<procmap_query>() as u64;
    query.query_flags = PROCMAP_QUERY_COVERING_OR_NEXT_VMA as u64 | kind;
    query.query_addr = address;
    query.vma_name_size = name.len() as u32;
    query.vma_name_addr = if name.is_empty() { 0 } else { name.as_mut_ptr() as u64 };
    // SAFETY: the kernel reads and writes one `procmap_query`, and writes at most `vma_name_size` bytes of `name`; both outlive the call.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    match result {
        0 => Ok(Some(query)),
        _ => match Error::last_os_error() {
            // Behind the last one; or the process is gone.
            error if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(None),
            error => Err(error),
        },
    }
}
