//! PAGEMAP_SCAN (Linux 6.7 and later): runs of present pages, for less than half of what it costs to read an entry for each page.
//!
//! The numbers and the structures are those of include/uapi/linux/fs.h.

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;

/// `PAGEMAP_SCAN`: _IOWR('f', 16, struct pm_scan_arg).
const PAGEMAP_SCAN: u64 = 3 << 30 | (size_of::<Argument>() as u64) << 16 | (b'f' as u64) << 8 | 16;
const PAGE_IS_PRESENT: u64 = 1 << 3;
/// Runs taken at once.
const MOST_RUNS: usize = 512;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Argument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    runs: u64,
    run_count: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Run {
    start: u64,
    end: u64,
    categories: u64,
}

/// Passes the runs of present pages of `start..end` to `visit`, in their order. Fails where the kernel has no such call, before anything
/// was passed.
pub fn present_runs(
    pagemap: &File,
    start: u64,
    end: u64,
    visit: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let mut runs = [Run::default(); MOST_RUNS];
    let mut at = start;
    while at < end {
        let mut argument = Argument {
            size: size_of::<Argument>() as u64,
            start: at,
            end,
            runs: runs.as_mut_ptr() as u64,
            run_count: MOST_RUNS as u64,
            all_of: PAGE_IS_PRESENT,
            returned: PAGE_IS_PRESENT,
            ..Argument::default()
        };
        // SAFETY: the kernel reads and writes one `Argument`, and writes at most `run_count` of the runs that `runs` points to; both outlive
        // the call. Nothing of the process that is looked at is changed without flags.
        let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
        let found = usize::try_from(found).map_err(|_| Error::last_os_error())?;
        runs.iter().take(found).for_each(|run| visit(run.start, run.end));
        // Where it ends early, the list was full.
        at = argument.walk_end.max(at + 1);
    }
    Ok(())
}
