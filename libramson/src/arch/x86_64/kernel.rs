//! Layouts and numbers of the kernel that differ from those on other architectures.

/// Numbers of system calls.
pub mod nr {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const FSTAT: usize = 5;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const PWRITE64: usize = 18;
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
    pub const FUTEX: usize = 202;
    pub const CLOCK_GETTIME: usize = 228;
    pub const OPENAT: usize = 257;
    pub const MKDIRAT: usize = 258;
    pub const NEWFSTATAT: usize = 262;
    pub const UNLINKAT: usize = 263;
    pub const FALLOCATE: usize = 285;
    pub const PRLIMIT64: usize = 302;
    pub const PROCESS_VM_READV: usize = 310;
    pub const SECCOMP: usize = 317;
    pub const MEMFD_CREATE: usize = 319;
}

/// Flags of open(2).
pub const O_DIRECTORY: i32 = 0o200_000;
pub const O_NOFOLLOW: i32 = 0o400_000;

/// struct stat.
#[repr(C)]
#[derive(Default)]
pub struct Stat {
    pub device: u64,
    pub inode: u64,
    links: u64,
    pub mode: u32,
    pub uid: u32,
    group_and_device: [u64; 2],
    pub bytes: u64,
    others: [u64; 11],
}
