//! The system calls that ramson makes, without the C library: nothing here allocates, locks or touches errno.

use crate::arch::syscall;
use crate::permission;
use core::ffi::CStr;

mod memory;
use memory::map;
#[cfg(not(any(test, fuzzing)))]
pub use memory::while_writable;
pub use memory::{
    advise, has_page, is_refused_memory, map_own, protect, replace_by_zeroes, unlock_zeroes, unmap,
};

/// A failed call's errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// See errno(3).
pub const EEXIST: Errno = Errno(17);
/// See errno(3).
const EFAULT: Errno = Errno(14);
const EINTR: Errno = Errno(4);
/// See errno(3).
const ENOMEM: Errno = Errno(12);
/// A call that was not made: see `permission`.
const EPERM: Errno = Errno(1);

pub const O_RDONLY: i32 = 0;
pub const O_RDWR: i32 = 2;
pub const O_CREAT: i32 = 0o100;
pub const O_EXCL: i32 = 0o200;
pub const O_DIRECTORY: i32 = 0o200_000;
pub const O_NOFOLLOW: i32 = 0o400_000;
pub const O_CLOEXEC: i32 = 0o2_000_000;
pub const AT_FDCWD: i32 = -100;

/// No read-ahead: a fault brings in its own page and no zeroes around it.
pub const MADV_RANDOM: i32 = 1;
pub const MADV_NOHUGEPAGE: i32 = 15;
pub const MADV_DONTDUMP: i32 = 16;
pub const MADV_WIPEONFORK: i32 = 18;
pub const MADV_POPULATE_WRITE: i32 = 23;

const PROT_NONE: usize = 0;
const PROT_READ: usize = 1;
const PROT_READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
const MAP_NORESERVE: usize = 0x4000;

/// An open file that closes itself.
pub struct File(i32);

impl Drop for File {
    fn drop(&mut self) {
        let _ = call(nr::CLOSE, [self.0 as usize, 0, 0, 0, 0, 0]);
    }
}

mod nr {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const FSTAT: usize = 5;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const MPROTECT: usize = 10;
    pub const MREMAP: usize = 25;
    pub const MADVISE: usize = 28;
    pub const NANOSLEEP: usize = 35;
    pub const SETITIMER: usize = 38;
    pub const GETPID: usize = 39;
    pub const FLOCK: usize = 73;
    pub const FTRUNCATE: usize = 77;
    pub const UNLINK: usize = 87;
    pub const READLINK: usize = 89;
    pub const GETUID: usize = 102;
    pub const SIGALTSTACK: usize = 131;
    pub const MUNLOCK: usize = 150;
    pub const PRCTL: usize = 157;
    pub const GETTID: usize = 186;
    pub const CLOCK_GETTIME: usize = 228;
    pub const OPENAT: usize = 257;
    pub const MKDIRAT: usize = 258;
    pub const UNLINKAT: usize = 263;
    pub const FALLOCATE: usize = 285;
    pub const PRLIMIT64: usize = 302;
    pub const NEWFSTATAT: usize = 262;
    pub const PROCESS_VM_READV: usize = 310;
    pub const MEMFD_CREATE: usize = 319;
}

fn call(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    let _permission = permission::enter(number, &arguments).ok_or(EPERM)?;
    // SAFETY: each caller below passes pointers that are valid for what the call reads or writes.
    let result = unsafe { syscall(number, arguments) };
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// Whether the loader itself makes such a call when it starts a program.
pub fn is_of_the_loader(number: usize, arguments: &[usize; 6]) -> bool {
    match number {
        nr::READ | nr::CLOSE => true,
        nr::OPENAT => arguments[2] == (O_RDONLY | O_CLOEXEC) as usize,
        nr::MMAP => arguments[3] & MAP_SHARED == 0,
        nr::MPROTECT => matches!(arguments[2], PROT_READ | PROT_READ_WRITE),
        _ => false,
    }
}

/// Opens a file for reading, as the loader opens libraries.
pub fn open_to_read(path: &CStr) -> Result<File, Errno> {
    open_at(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0)
}

/// Does nothing for so long, less than a second.
pub fn pause(ns: u64) {
    let mut left = [0, ns];
    let address = left.as_mut_ptr() as usize;
    // After a signal the kernel has written what is left.
    while call(nr::NANOSLEEP, [address, address, 0, 0, 0, 0]) == Err(EINTR) {}
}

/// openat(2).
pub fn open_at(directory: i32, path: &CStr, open_flags: i32, mode: u32) -> Result<File, Errno> {
    let arguments =
        [directory as usize, path.as_ptr() as usize, open_flags as usize, mode as usize, 0, 0];
    call(nr::OPENAT, arguments).map(|fd| File(fd as i32))
}

/// mkdir(2).
pub fn make_directory(path: &CStr, mode: u32) -> Result<(), Errno> {
    call(nr::MKDIRAT, [AT_FDCWD as usize, path.as_ptr() as usize, mode as usize, 0, 0, 0]).map(drop)
}

/// unlink(2).
pub fn unlink(path: &CStr) -> Result<(), Errno> {
    call(nr::UNLINK, [path.as_ptr() as usize, 0, 0, 0, 0, 0]).map(drop)
}

/// readlink(2); the number of bytes put in `target`, which is not terminated.
pub fn read_link(path: &CStr, target: &mut [u8]) -> Result<usize, Errno> {
    let arguments = [path.as_ptr() as usize, target.as_mut_ptr() as usize, target.len(), 0, 0, 0];
    call(nr::READLINK, arguments)
}

/// An anonymous file that lives as long as somebody maps it.
pub fn memfd(name: &CStr) -> Result<File, Errno> {
    const MFD_CLOEXEC: usize = 1;
    call(nr::MEMFD_CREATE, [name.as_ptr() as usize, MFD_CLOEXEC, 0, 0, 0, 0])
        .map(|fd| File(fd as i32))
}

/// Device and inode: what tells one file from another, whatever their names.
pub type Identity = [u64; 2];

/// The file that now has the name `path`.
pub fn identity_of(path: &CStr) -> Result<Identity, Errno> {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    let mut stat = [0u64; 18];
    let name = path.as_ptr() as usize;
    let arguments =
        [AT_FDCWD as usize, name, stat.as_mut_ptr() as usize, AT_SYMLINK_NOFOLLOW, 0, 0];
    call(nr::NEWFSTATAT, arguments)?;
    Ok([stat[0], stat[1]])
}

/// The file that `path` leads to.
pub fn identity_of_target(path: &CStr) -> Result<Identity, Errno> {
    let mut stat = [0u64; 18];
    let arguments =
        [AT_FDCWD as usize, path.as_ptr() as usize, stat.as_mut_ptr() as usize, 0, 0, 0];
    call(nr::NEWFSTATAT, arguments)?;
    Ok([stat[0], stat[1]])
}

/// Owner and permission bits.
pub struct Owner {
    pub uid: u32,
    pub mode: u32,
}

impl File {
    /// Fills `buffer` from the file's position as far as the file goes.
    pub fn read(&self, buffer: &mut [u8]) -> usize {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let arguments = [self.0 as usize, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0];
            match call(nr::READ, arguments) {
                Ok(count) if count > 0 => filled += count,
                _ => break,
            }
        }
        filled
    }

    /// fstat(2).
    pub fn owner(&self) -> Result<Owner, Errno> {
        let mut stat = [0u64; 18];
        call(nr::FSTAT, [self.0 as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0])?;
        // struct stat of x86-64: st_mode at byte 24, st_uid at byte 28.
        Ok(Owner { mode: stat[3] as u32, uid: (stat[3] >> 32) as u32 })
    }

    /// See `Identity`.
    pub fn identity(&self) -> Result<Identity, Errno> {
        let mut stat = [0u64; 18];
        call(nr::FSTAT, [self.0 as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0])?;
        Ok([stat[0], stat[1]])
    }

    /// The link under which /proc shows this file.
    pub fn number(&self) -> u64 {
        self.0 as u64
    }

    /// ftruncate(2).
    pub fn set_length(&self, bytes: u64) -> Result<(), Errno> {
        call(nr::FTRUNCATE, [self.0 as usize, bytes as usize, 0, 0, 0, 0]).map(drop)
    }

    /// fallocate(2): the space is there afterwards, or an error says that it is not.
    pub fn allocate(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        call(nr::FALLOCATE, [self.0 as usize, 0, offset as usize, bytes as usize, 0, 0]).map(drop)
    }

    /// flock(2), shared: it lasts as long as the file is mapped, here or in a forked child, also after its descriptor is closed.
    pub fn lock_shared(&self) -> Result<(), Errno> {
        const LOCK_SH_NB: usize = 1 | 4;
        call(nr::FLOCK, [self.0 as usize, LOCK_SH_NB, 0, 0, 0, 0]).map(drop)
    }

    /// Maps the first `bytes` shared, readable and writable.
    pub fn map_shared(&self, bytes: u64) -> Result<*mut u8, Errno> {
        map(bytes as usize, MAP_SHARED, self.0 as usize)
    }
}

/// getpid(2), never cached.
pub fn process_id() -> u32 {
    call(nr::GETPID, [0; 6]).unwrap_or(0) as u32
}

/// gettid(2).
pub fn thread_id() -> u32 {
    call(nr::GETTID, [0; 6]).unwrap_or(0) as u32
}

/// getuid(2).
pub fn user_id() -> u32 {
    call(nr::GETUID, [0; 6]).unwrap_or(0) as u32
}

/// The calling thread's name.
pub fn thread_name() -> [u64; 2] {
    const PR_GET_NAME: usize = 16;
    let mut name = [0u64; 2];
    let _ = call(nr::PRCTL, [PR_GET_NAME, name.as_mut_ptr() as usize, 0, 0, 0, 0]);
    name
}

/// Soft limit on the length of files that this process writes; beyond it SIGXFSZ would kill the program.
pub fn file_size_limit() -> u64 {
    const RLIMIT_FSIZE: usize = 1;
    let mut limit = [0u64; 2];
    match call(nr::PRLIMIT64, [0, RLIMIT_FSIZE, 0, limit.as_mut_ptr() as usize, 0, 0]) {
        Ok(_) => limit[0],
        Err(_) => 0,
    }
}

/// Nanoseconds of a clock (see clock_gettime(2)), by system call.
pub fn clock_ns(clock: usize) -> u64 {
    let mut time = [0u64; 2];
    let _ = call(nr::CLOCK_GETTIME, [clock, time.as_mut_ptr() as usize, 0, 0, 0, 0]);
    time[0] * 1_000_000_000 + time[1]
}

/// The calling thread's alternate signal stack, if it has one.
pub struct SignalStack {
    pub low: u64,
    pub high: u64,
    /// The thread is on it now.
    pub is_in_use: bool,
}

/// sigaltstack(2).
pub fn signal_stack() -> Result<SignalStack, Errno> {
    const SS_ONSTACK: u64 = 1;
    // struct stack_t of x86-64: ss_sp, ss_flags (an int), ss_size.
    let mut stack = [0u64; 3];
    call(nr::SIGALTSTACK, [0, stack.as_mut_ptr() as usize, 0, 0, 0, 0])?;
    let [low, stack_flags, bytes] = stack;
    Ok(SignalStack { low, high: low + bytes, is_in_use: stack_flags & SS_ONSTACK != 0 })
}

/// unlink(2) relative to an open directory.
pub fn unlink_at(directory: &File, name: &CStr) -> Result<(), Errno> {
    call(nr::UNLINKAT, [directory.0 as usize, name.as_ptr() as usize, 0, 0, 0, 0]).map(drop)
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
