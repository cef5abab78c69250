//! Arguments of system calls that are the same on every architecture.

pub const O_RDONLY: i32 = 0;
pub const O_RDWR: i32 = 2;
pub const O_CREAT: i32 = 0o100;
pub const O_EXCL: i32 = 0o200;
pub const O_NONBLOCK: i32 = 0o4000;
pub const O_CLOEXEC: i32 = 0o2_000_000;
pub const AT_FDCWD: i32 = -100;
pub const AT_SYMLINK_NOFOLLOW: i32 = 0x100;

/// No read-ahead: a fault brings in its own page and no zeroes around it.
pub const MADV_RANDOM: i32 = 1;
pub const MADV_WILLNEED: i32 = 3;
pub const MADV_DONTNEED: i32 = 4;
pub const MADV_NOHUGEPAGE: i32 = 15;
pub const MADV_DONTDUMP: i32 = 16;
pub const MADV_WIPEONFORK: i32 = 18;
pub const MADV_POPULATE_READ: i32 = 22;
pub const MADV_POPULATE_WRITE: i32 = 23;

pub const PROT_NONE: usize = 0;
pub const PROT_READ: usize = 1;
pub const PROT_READ_WRITE: usize = 3;
pub const PROT_READ_EXEC: usize = 5;
pub const MAP_SHARED: usize = 1;
pub const MAP_PRIVATE: usize = 2;
pub const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
pub const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
pub const MAP_NORESERVE: usize = 0x4000;
