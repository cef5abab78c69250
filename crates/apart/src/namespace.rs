//! Calls of the kernel that no library wraps: which namespace encloses which, who made one, and the IDs that count for files only.

use rustix::fs::fstat;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// linux/nsfs.h.
const NS_GET_PARENT: u64 = 0xb702;
const NS_GET_OWNER_UID: u64 = 0xb704;
/// The kernel nests user and PID namespaces no deeper.
const MOST_LEVELS: usize = 32;

/// Sets the user and the group by which this thread opens files. They give nobody a right over this process.
pub fn set_file_ids(user: u32, group: u32) -> Result<(), Errno> {
    /// Changes nothing, and tells what it is.
    const ASK: u32 = u32::MAX;
    // SAFETY: the calls take numbers and no pointer, so no memory is at stake. They change this thread only: a worker has no other. Were they
    // to fail, files would be opened with other rights, so the result is asked for.
    let is_set = unsafe {
        libc::setfsgid(group);
        libc::setfsuid(user);
        (libc::setfsuid(ASK), libc::setfsgid(ASK)) == (user.cast_signed(), group.cast_signed())
    };
    if is_set { Ok(()) } else { Err(Errno::PERM) }
}

/// Kinds that are nested.
#[derive(Clone, Copy)]
pub enum NamespaceKind {
    /// User namespaces.
    User,
    /// PID namespaces.
    Pid,
}

/// One that is held open.
pub struct Namespace {
    file: File,
    kind: NamespaceKind,
}

impl Namespace {
    /// The one that a process is in.
    pub fn of_process(pid: u32, kind: NamespaceKind) -> Option<Self> {
        Self::open(&pid.to_string(), kind)
    }

    fn open(process: &str, kind: NamespaceKind) -> Option<Self> {
        let name = match kind {
            NamespaceKind::User => "user",
            NamespaceKind::Pid => "pid",
        };
        Some(Self { file: File::open(format!("/proc/{process}/ns/{name}")).ok()?, kind })
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        fstat(&self.file).map_or(0, |facts| facts.st_ino)
    }

    /// The largest one that encloses it and not us; `None`: we are in it ourselves.
    pub fn outermost_foreign(self) -> Option<Self> {
        let own = Self::open("self", self.kind)?.id();
        let mut outermost = None;
        let mut next = Some(self);
        for _ in 0..MOST_LEVELS {
            let Some(namespace) = next.filter(|namespace| namespace.id() != own) else { break };
            next = namespace.parent();
            outermost = Some(namespace);
        }
        outermost
    }

    /// `None`: we may not look at the one around it.
    fn parent(&self) -> Option<Self> {
        // SAFETY: the request takes no pointer, so the kernel writes nothing into our memory.
        let descriptor = unsafe { libc::ioctl(self.file.as_raw_fd(), NS_GET_PARENT) };
        // SAFETY: the kernel has just opened it for us, and nothing else knows it.
        let owned = (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })?;
        Some(Self { file: owned.into(), kind: self.kind })
    }

    /// The user who made a user namespace, by the ID here.
    pub fn owner(&self) -> Option<u32> {
        let mut user: libc::uid_t = 0;
        // SAFETY: the kernel writes one `uid_t` there, which outlives the call.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), NS_GET_OWNER_UID, &raw mut user) };
        (result == 0).then_some(user)
    }
}
