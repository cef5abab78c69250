//! Memory of ours: mapped, given back, asked about.

use super::flags::*;
use super::permit::{self, Errno, call};
use crate::arch::nr;
use ramson_format::atomic::AtomicU64;

/// See errno(3).
const EFAULT: Errno = Errno(14);
const ENOMEM: Errno = Errno(12);

/// Private zeroed memory for our tables, taken from the kernel as it is touched, left out of core dumps.
pub fn map_own(bytes: usize) -> Result<*mut u8, Errno> {
    let address = map(bytes, MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE, usize::MAX)?;
    // Advice only: without it a core dump is larger, and a huge page may be resident.
    let _ = advise(address, bytes, MADV_NOHUGEPAGE);
    let _ = advise(address, bytes, MADV_DONTDUMP);
    Ok(address)
}

/// mmap(2), readable and writable. Not locked where the program has whatever is mapped locked, and thus taken at once (mlockall with MCL_FUTURE).
pub fn map(bytes: usize, flags: usize, file: usize) -> Result<*mut u8, Errno> {
    if !permit::is_full() {
        let address = call(nr::MMAP, [0, bytes, PROT_READ_WRITE, flags, file, 0])?;
        return Ok(address as *mut u8);
    }
    // The kernel takes nothing for what cannot be touched.
    let address = call(nr::MMAP, [0, bytes, PROT_NONE, flags, file, 0])?;
    let _ = call(nr::MUNLOCK, [address, bytes, 0, 0, 0, 0]);
    let writable = call(nr::MPROTECT, [address, bytes, PROT_READ_WRITE, 0, 0, 0]);
    let address = address as *mut u8;
    writable.map(|_| address).inspect_err(|_| unmap(address, bytes))
}

/// Memory for code within `reach` of `address`: never writable, so that no page is writable and executable at once. It is written to by
/// `open_own_memory`.
pub fn map_code(bytes: usize, address: u64, reach: u64) -> Result<u64, Errno> {
    /// Of addresses that are tried below an object; an executable without relocation begins at 4 MiB.
    const STEP: u64 = 256 << 10;
    const MOST_STEPS: u64 = 1 << 12;
    let flags = MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE;
    let map = |at: u64, flags| {
        call(nr::MMAP, [at as usize, bytes, PROT_READ_EXEC, flags, usize::MAX, 0])
            .map(|address| address as u64)
    };
    let is_near = |at: u64| at.abs_diff(address) < reach;
    // Where the kernel puts it, if that is near; else below the object, as the heap grows behind an executable.
    let anywhere = map(0, flags)?;
    if is_near(anywhere) {
        return Ok(anywhere);
    }
    unmap(anywhere as *mut u8, bytes);
    for step in 1..(reach / STEP).min(MOST_STEPS) {
        let Some(at) = (address & !(STEP - 1)).checked_sub(step * STEP) else { break };
        match map(at, flags | MAP_FIXED_NOREPLACE) {
            Ok(found) if is_near(found) => return Ok(found),
            Ok(elsewhere) => unmap(elsewhere as *mut u8, bytes),
            Err(_) => {}
        }
    }
    Err(ENOMEM)
}

/// munmap(2) of memory of ours that nobody has seen.
pub fn unmap(address: *mut u8, bytes: usize) {
    let _ = call(nr::MUNMAP, [address as usize, bytes, 0, 0, 0, 0]);
}

/// Gives back what the kernel has taken of memory of ours that is all zero, if the program had it locked.
pub fn unlock_zeroes(address: *const u8, bytes: usize) {
    let _ = call(nr::MUNLOCK, [address as usize, bytes, 0, 0, 0, 0]);
    let _ = advise(address, bytes, MADV_DONTNEED);
}

/// Whether the kernel refuses a private mapping of so many bytes. The address space is as before when it returns.
pub fn is_refused_memory(bytes: usize) -> bool {
    if !permit::is_full() {
        return false;
    }
    match call(nr::MMAP, [0, bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, usize::MAX, 0]) {
        Err(error) => error == ENOMEM,
        Ok(address) => {
            let _ = call(nr::MUNMAP, [address, bytes, 0, 0, 0, 0]);
            false
        }
    }
}

/// Puts zeroed memory of this process in the place of a mapping of ours, into which references stay valid.
pub fn replace_by_zeroes(address: *mut u8, bytes: usize) -> Result<(), Errno> {
    const MREMAP_MAYMOVE_FIXED: usize = 1 | 2;
    let zeroes = map(bytes, MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE, usize::MAX)? as usize;
    // At once, as other threads may be reading there.
    call(nr::MREMAP, [zeroes, bytes, bytes, MREMAP_MAYMOVE_FIXED, address as usize, 0])?;
    let _ = advise(address, bytes, MADV_DONTDUMP);
    Ok(())
}

/// Whether a mapping of ours has the page that begins at `address`. In doubt it has.
pub fn has_page(address: *const u8) -> bool {
    // There is no such timer, but the kernel reads the new value first; the cheapest call that does so and changes nothing.
    const NO_TIMER: usize = 99;
    call(nr::SETITIMER, [NO_TIMER, address as usize, 0, 0, 0, 0]) != Err(EFAULT)
}

/// Adds one to the low half of a counter in a mapping of ours. Nothing happens where its page has gone: the kernel does the addition, in the
/// one system call that does so.
pub fn add_one(counter: &AtomicU64) {
    let _ = add(core::ptr::from_ref(counter) as usize, 1);
}

/// Has the kernel add to an aligned word of 32 bits, atomically; EFAULT where it may not be written to.
fn add(address: usize, number: usize) -> Result<usize, Errno> {
    const FUTEX_WAKE_OP_PRIVATE: usize = 5 | 128;
    const ADD: usize = 1 << 28;
    let operation = ADD | number << 12;
    call(nr::FUTEX, [address, FUTEX_WAKE_OP_PRIVATE, 0, 0, address, operation])
}

/// Makes memory that `map_own` returned readable only.
pub fn protect(address: *const u8, bytes: usize) -> Result<(), Errno> {
    call(nr::MPROTECT, [address as usize, bytes, PROT_READ, 0, 0, 0]).map(drop)
}

/// Runs `work` while read-only memory of ours, and what else is on its pages, can be written.
pub fn while_writable(address: *const u8, bytes: usize, work: impl FnOnce()) -> Result<(), Errno> {
    const PAGE_BYTES: usize = 4096;
    let first = address as usize & !(PAGE_BYTES - 1);
    let length = (address as usize + bytes).next_multiple_of(PAGE_BYTES) - first;
    call(nr::MPROTECT, [first, length, PROT_READ_WRITE, 0, 0, 0])?;
    work();
    protect(first as *const u8, length)
}

// Hazard, never seen: the program changes the protection of the page in the instant in which `work` runs. The page then gets the protection
// that it had before.
/// Runs `work` while a page of the program's, which is writable or readable only, can be written. The kernel is asked which of the two the page
/// is: the loader makes some readable only, and some programs undo that. If it does not answer, the page stays writable: a page that the
/// program writes to must not become readable only.
pub fn with_page_writable(page: *const u8, work: impl FnOnce()) -> Result<(), Errno> {
    const PAGE_BYTES: usize = 4096;
    let is_protected = match add(page as usize, 0) {
        Ok(_) => {
            work();
            return Ok(());
        }
        refused => refused == Err(EFAULT),
    };
    call(nr::MPROTECT, [page as usize, PAGE_BYTES, PROT_READ_WRITE, 0, 0, 0])?;
    work();
    if is_protected { protect(page, PAGE_BYTES) } else { Ok(()) }
}

/// Gives pages of a mapped file of ours space in their file system. They are read first, holes that they are: a fault on a page that is not in
/// memory counts as a major one, and some programs take those for a lack of memory (Poly/ML keeps its heap small, and collects more often).
pub fn give_space(address: *const u8, bytes: usize) -> Result<(), Errno> {
    // Advice only.
    let _ = advise(address, bytes, MADV_WILLNEED);
    advise(address, bytes, MADV_POPULATE_WRITE)
}

/// madvise(2). Only with advice that leaves the contents alone in this process.
pub fn advise(address: *const u8, bytes: usize, advice: i32) -> Result<(), Errno> {
    call(nr::MADVISE, [address as usize, bytes, advice as usize, 0, 0, 0]).map(drop)
}

/// Has the kernel enter the library's code and constants into the page tables, which a fork does not copy: one call instead of a page fault
/// for each 64 KiB.
#[cold]
pub fn populate_code() {
    unsafe extern "C" {
        // By the linker: the first byte of the file, and where its code ends.
        static __ehdr_start: u8;
        static etext: u8;
    }
    if permit::is_full() {
        let (start, end) = (&raw const __ehdr_start, &raw const etext);
        // Linux before 5.14 does not know this advice; then they are page faults.
        let _ = advise(start, end as usize - start as usize, MADV_POPULATE_READ);
    }
}

/// One range of memory for `read_own_memory`: address and length, as struct iovec has them.
pub type Range = [usize; 2];

/// Copies `ranges` of this process into `buffer`, in order; stops at the first unreadable page instead of faulting.
/// Returns the bytes copied.
pub fn read_own_memory(pid: u32, ranges: &[Range], buffer: &mut [u8]) -> usize {
    let local: Range = [buffer.as_mut_ptr() as usize, buffer.len()];
    let local_pointer = (&raw const local) as usize;
    let arguments = [pid as usize, local_pointer, 1, ranges.as_ptr() as usize, ranges.len(), 0];
    call(nr::PROCESS_VM_READV, arguments).unwrap_or(0)
}
