//! How a process gives up what it does not need for reading: its root directory, its user, its capabilities, the network, and more memory than allowed.
//!
//! The order matters: the filter comes last, as it forbids the rest.

use crate::namespace::set_file_ids;
use borsh::{BorshDeserialize, BorshSerialize};
use libc::c_long;
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Gid, Resource, Rlimit, Uid, getpid, getrlimit, set_dumpable_behavior,
    setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities,
    set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};
use std::fs::read_to_string;
use std::io;

/// Descriptors that it may have open; it needs few.
const MOST_DESCRIPTORS: u64 = 1 << 12;
/// Largest file in memory, such as unpacked mini debug information, in bytes.
const MOST_FILE_BYTES: u64 = 128 << 20;
/// PAGEMAP_SCAN of linux/fs.h: which pages of a process are present.
const PAGEMAP_SCAN: u64 = 0xc060_6610;
/// PROCMAP_QUERY of linux/fs.h: a mapping of a process.
const PROCMAP_QUERY: u64 = 0xc068_6611;

/// User and group to become, and those whose files are opened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Ids {
    /// User of the process: who has the same one may signal, renice, limit and trace it.
    pub user: u32,
    pub group: u32,
    /// User by whose rights it opens files, those of /proc included.
    pub file_user: u32,
    pub file_group: u32,
}

/// Gives up all rights, for good. `ids`: whom to become; it takes root.
pub fn confine(ids: Option<Ids>) -> Result<(), String> {
    give_up_rights(ids).map_err(|error| format!("user: {error}"))?;
    let filter = filter().map_err(|error| format!("filter: {error}"))?;
    apply_filter(&filter).map_err(|error| format!("filter: {error}"))
}

/// Limits what this process may take, to so many bytes beyond what it has. To be called where /proc is: a jail has none.
pub fn limit(memory_bytes: u64) -> io::Result<()> {
    let own_bytes = address_space_bytes().ok_or(io::ErrorKind::InvalidData)?;
    let limits = [
        (Resource::Core, 0),
        (Resource::Nofile, MOST_DESCRIPTORS),
        (Resource::Fsize, MOST_FILE_BYTES),
        (Resource::As, own_bytes.saturating_add(memory_bytes)),
    ];
    for (resource, most) in limits {
        // Only root can raise one.
        let most = getrlimit(resource).maximum.map_or(most, |before| before.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Returns the address space that the program itself takes, in bytes.
fn address_space_bytes() -> Option<u64> {
    let sizes = read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split(' ').next()?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn give_up_rights(ids: Option<Ids>) -> Result<(), Errno> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    if let Some(Ids { user, group, file_user, file_group }) = ids {
        let user = Uid::from_raw(user);
        let group = Gid::from_raw(group);
        set_thread_groups(&[])?;
        // They are needed once more, for the IDs that count for files.
        set_keep_capabilities(true)?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        let ids = CapabilitySet::SETUID | CapabilitySet::SETGID;
        let inheritable = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: ids, permitted: ids, inheritable })?;
        set_file_ids(file_user, file_group)?;
        set_keep_capabilities(false)?;
    }
    // Before Linux 4.3 there is no such set.
    let _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    // A change of the user may have changed it, as fs.suid_dumpable says.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// Allows the system calls that reading takes, and no more. A forbidden call fails, and readers go on without it.
fn filter() -> Result<BpfProgram, seccompiler::Error> {
    // Calls with this value as this argument.
    let with = |argument, value| {
        let length = SeccompCmpArgLen::Dword;
        let is_it = SeccompCondition::new(argument, length, SeccompCmpOp::Eq, value)?;
        SeccompRule::new(vec![is_it])
    };
    let mut rules: Vec<(c_long, Vec<SeccompRule>)> =
        ALLOWED.iter().map(|&call| (call, Vec::new())).collect();
    // The call that abort(3) makes.
    let own_pid = getpid().as_raw_nonzero().get();
    rules.push((libc::SYS_tgkill, vec![with(0, own_pid as u64)?]));
    // At which it is answered by who keeps a file for it.
    rules.push((libc::SYS_socketpair, vec![with(0, libc::AF_UNIX as u64)?]));
    rules.push((libc::SYS_ioctl, vec![with(1, PAGEMAP_SCAN)?, with(1, PROCMAP_QUERY)?]));
    // For reading only. The flags of openat2 are in memory, where a filter does not see them.
    let writes = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64;
    let reads = SeccompCmpOp::MaskedEq(writes);
    let reads = SeccompCondition::new(2, SeccompCmpArgLen::Dword, reads, 0)?;
    rules.push((libc::SYS_openat, vec![SeccompRule::new(vec![reads])?]));
    let filter = SeccompFilter::new(
        rules.into_iter().collect(),
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?;
    Ok(filter.try_into()?)
}

/// No call changes, executes or starts anything, sends a signal to another process, or reaches the network.
const ALLOWED: [c_long; 43] = [
    // Files that it opened or got, and memory that looks like a file.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_fcntl,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_close,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    // The socket that it was started with.
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_ppoll,
    // Its own memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    // Itself.
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];
