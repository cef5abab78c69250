//! A directory that we chose, beneath which a path that others wrote is resolved.

use crate::regular::{Refusal, RegularFile, open_regular};
use pathrs::flags::ResolverFlags;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::path::{Path, PathBuf};

/// What happens to symbolic links on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// They are resolved as if the root were `/`.
    WithinRoot,
    /// They are refused.
    Refused,
}

/// The directory that a path begins at, and never leaves.
#[derive(Debug)]
pub struct Root {
    root: pathrs::Root,
    path: PathBuf,
}

impl Root {
    /// A directory that the caller chose, such as `/` or a sysroot. Its own path is not checked.
    pub fn at(path: &Path) -> Result<Self, Refusal> {
        // The root itself may be a link, also one of /proc/PID.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { root: pathrs::Root::from_fd(descriptor), path: path.to_owned() })
    }

    /// The root directory of process `pid`, as it sees it.
    pub fn of_process(pid: u32) -> Result<Self, Refusal> {
        Self::at(Path::new(&format!("/proc/{pid}/root")))
    }

    /// As it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The regular file at `path`, which is taken as absolute here.
    pub fn open(&self, path: &Path, links: Links) -> Result<RegularFile, Refusal> {
        let flags = match links {
            Links::WithinRoot => ResolverFlags::empty(),
            Links::Refused => ResolverFlags::NO_SYMLINKS,
        };
        open_regular(self.root.as_ref().with_resolver_flags(flags).resolve(path)?)
    }
}
