//! process_vm_readv(2): the memory of another process in one call.

use std::ptr::without_provenance_mut;

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
