//! Calls to look at another process: its memory by process_vm_readv(2), and PAGEMAP_SCAN (Linux 6.7 and later), which finds
//! present pages for less than half of what it costs to read an entry for each.

use linux_raw_sys::general::{PAGE_IS_PFNZERO, PAGE_IS_PRESENT, page_region, pm_scan_arg};
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::ptr::without_provenance_mut;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 =
    3 << 30 | (size_of::<pm_scan_arg>() as u64) << 16 | (b'f' as u64) << 8 | 16;
/// Places read at once: the kernel takes no more (UIO_MAXIOV).
const MOST_PLACES: usize = 1024;
/// Runs taken at once.
const MOST_RUNS: usize = 512;

/// Fills `buffer` from `address` on in process `pid`; false if that cannot be done, or not for all of it.
pub fn read(pid: u32, address: u64, buffer: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote =
        libc::iovec { iov_base: without_provenance_mut(address as usize), iov_len: buffer.len() };
    // SAFETY: the kernel writes to `buffer` alone, as many bytes as it has; `address` is the other process's, and
    // is not accessed by us. A length beyond `buffer` in `local` would break it.
    let copied = unsafe {
        libc::process_vm_readv(pid.cast_signed(), &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(copied) == Ok(buffer.len())
}

/// Fills `buffer` with `length` bytes from each of the addresses, as many of them as one call takes; says of how many, from the first on.
pub fn read_places(pid: u32, addresses: &[u64], length: usize, buffer: &mut [u8]) -> usize {
    let count = addresses.len().min(MOST_PLACES).min(buffer.len() / length);
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: count * length };
    let remote = |&address: &u64| libc::iovec {
        iov_base: without_provenance_mut(address as usize),
        iov_len: length,
    };
    let remote: Vec<libc::iovec> = addresses[..count].iter().map(remote).collect();
    // SAFETY: the kernel writes to `buffer` alone, at most `count * length` bytes, which it has; `remote` outlives the call and holds
    // `count` places, which are the other process's and are not accessed by us.
    let copied = unsafe {
        libc::process_vm_readv(
            pid.cast_signed(),
            &raw const local,
            1,
            remote.as_ptr(),
            count as libc::c_ulong,
            0,
        )
    };
    usize::try_from(copied).map_or(0, |copied| copied / length)
}

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
        // Where it ends early, the list was full.
        at = argument.walk_end.max(at + 1);
    }
    Ok(())
}
