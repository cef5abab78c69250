//! Asks the kernel about one mapping.

use linux_raw_sys::general::procmap_query;
use std::fs::File;
use std::io::{Error, Result};
use std::ops::Range;
use std::os::fd::AsRawFd;

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: u64 =
    3 << 30 | (size_of::<procmap_query>() as u64) << 16 | (b'f' as u64) << 8 | 17;
/// Longest name of a mapping, in bytes (PATH_MAX).
const MOST_NAME_BYTES: usize = 4096;

/// A mapping, as /proc/PID/maps has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    pub range: Range<u64>,
    /// `rw-p` and the like.
    pub permissions: String,
    pub path: String,
}

/// The mapping that an address is in; fails where the kernel cannot be asked (PROCMAP_QUERY, Linux 6.11).
pub fn mapping_at(maps: &File, address: u64) -> Result<Option<Mapping>> {
    let mut name = vec![0; MOST_NAME_BYTES];
    // SAFETY: all zero is a valid value of a structure of integers.
    let mut query: procmap_query = unsafe { std::mem::zeroed() };
    query.size = size_of::<procmap_query>() as u64;
    query.query_addr = address;
    query.vma_name_addr = name.as_mut_ptr() as u64;
    query.vma_name_size = name.len() as u32;
    // SAFETY: the kernel reads and writes one `procmap_query`, and writes at most `vma_name_size` bytes of `name`; both outlive the call.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    if result != 0 {
        let error = Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ENOENT) { Ok(None) } else { Err(error) };
    }
    let bit = |number: u32, letter| if query.vma_flags >> number & 1 == 1 { letter } else { '-' };
    let is_shared = query.vma_flags >> 3 & 1 == 1;
    name.truncate((query.vma_name_size as usize).saturating_sub(1));
    let letters = [bit(0, 'r'), bit(1, 'w'), bit(2, 'x'), if is_shared { 's' } else { 'p' }];
    Ok(Some(Mapping {
        range: query.vma_start..query.vma_end,
        permissions: letters.iter().collect(),
        path: String::from_utf8_lossy(&name).into_owned(),
    }))
}
