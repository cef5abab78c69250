//! Files and their names.

use super::flags::{AT_FDCWD, MAP_PRIVATE, MAP_SHARED, O_CLOEXEC, O_RDONLY, O_RDWR, PROT_READ};
use super::memory::map;
use super::permit::{Errno, call};
use crate::arch::{Stat, nr};
use core::ffi::CStr;

/// An open file that closes itself.
pub struct File(i32);

impl Drop for File {
    fn drop(&mut self) {
        let _ = call(nr::CLOSE, [self.0 as usize, 0, 0, 0, 0, 0]);
    }
}

/// Opens a file for reading, as the loader opens libraries.
pub fn open_to_read(path: &CStr) -> Result<File, Errno> {
    open_at(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0)
}

/// Opens this process's memory, in which the kernel writes where a store would fault.
pub fn open_own_memory() -> Result<File, Errno> {
    open_at(AT_FDCWD, c"/proc/self/mem", O_RDWR | O_CLOEXEC, 0)
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

/// The file that has the name `path`: with `AT_SYMLINK_NOFOLLOW` among the flags the link itself, if it is one.
pub fn identity_of(path: &CStr, flags: i32) -> Result<Identity, Errno> {
    let mut stat = Stat::default();
    let name = path.as_ptr() as usize;
    let to = (&raw mut stat) as usize;
    call(nr::NEWFSTATAT, [AT_FDCWD as usize, name, to, flags as usize, 0, 0])?;
    Ok([stat.device, stat.inode])
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

    /// See `Identity`.
    pub fn identity(&self) -> Result<Identity, Errno> {
        self.stat().map(|stat| [stat.device, stat.inode])
    }

    /// fstat(2).
    pub fn stat(&self) -> Result<Stat, Errno> {
        let mut stat = Stat::default();
        call(nr::FSTAT, [self.0 as usize, (&raw mut stat) as usize, 0, 0, 0, 0])?;
        Ok(stat)
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

    /// Maps the first `bytes` to be read: shared, as the kernel writes uprobes into private mappings, and private where that cannot be.
    pub fn map_to_read(&self, bytes: usize) -> Result<*const u8, Errno> {
        let map = |sharing| call(nr::MMAP, [0, bytes, PROT_READ, sharing, self.0 as usize, 0]);
        map(MAP_SHARED).or_else(|_| map(MAP_PRIVATE)).map(|address| address as *const u8)
    }

    /// pwrite(2) of all of `bytes`.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> bool {
        let arguments =
            [self.0 as usize, bytes.as_ptr() as usize, bytes.len(), offset as usize, 0, 0];
        call(nr::PWRITE64, arguments) == Ok(bytes.len())
    }

    /// Maps the first `bytes` shared, readable and writable.
    pub fn map_shared(&self, bytes: u64) -> Result<*mut u8, Errno> {
        map(bytes as usize, MAP_SHARED, self.0 as usize)
    }
}

/// unlink(2) relative to an open directory.
pub fn unlink_at(directory: &File, name: &CStr) -> Result<(), Errno> {
    call(nr::UNLINKAT, [directory.0 as usize, name.as_ptr() as usize, 0, 0, 0, 0]).map(drop)
}
