//! A directory that we chose, beneath which a path that others wrote is resolved.

use crate::directory::open_at;
use crate::ours;
use crate::regular::{Facts, Refusal, RegularFile, descriptor_path, look_at, open_regular};
use pathrs::flags::ResolverFlags;
use ramson_apart::proc;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, fstat, makedev, openat, statx};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Treatment of symbolic links on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// They are resolved as if the root were `/`.
    WithinRoot,
    /// They are refused.
    Refused,
}

/// Identity of a directory, which tells it from another one that is at its path later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootIdentity {
    /// Device of its file system, as stat has it.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// When it was made, since 1970; 0: the file system does not tell.
    pub birth_ns: u64,
}

/// The directory that a path begins at, and never leaves.
pub struct Root(Place);

enum Place {
    /// Open.
    Here(pathrs::Root),
    /// The one that this worker has entered.
    Inside,
    /// Ours, for paths that strangers name: as far as nobody else decides what is there.
    Ours,
}

impl Root {
    /// A directory that the caller chose, such as `/` or a sysroot. Its own path is not checked.
    pub fn at(path: &Path) -> Result<Self, Refusal> {
        if proc::is_inside() {
            return Ok(Self(Place::Inside));
        }
        // The root itself may be a link, also one of /proc/PID.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = openat(CWD, path, flags, Mode::empty())?;
        Ok(Self(Place::Here(pathrs::Root::from_fd(descriptor))))
    }

    /// The root directory of process `pid`, as it sees it. Of another user's process, it may only be told from others.
    pub fn of_process(pid: u32) -> Result<Self, Refusal> {
        Self::at(Path::new(&format!("/proc/{pid}/root")))
    }

    /// A directory whose path a profile tells: it is resolved in our own root directory, without links.
    pub fn told(path: &Path) -> Result<Self, Refusal> {
        if proc::is_inside() {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            return Self::directory(openat(CWD, path, flags, Mode::empty())?);
        }
        Self::directory(resolved(&pathrs::Root::open("/")?, path, Links::Refused)?)
    }

    /// The same, as far as only root and the user who runs this decide what is there.
    pub fn told_ours(path: &Path) -> Result<Self, Refusal> {
        Self::directory(ours::find(path)?)
    }

    fn directory(found: impl Into<OwnedFd>) -> Result<Self, Refusal> {
        let found = found.into();
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            FileType::Directory => Ok(Self(Place::Here(pathrs::Root::from_fd(found)))),
            _ => Err(Refusal::Missing),
        }
    }

    /// Our own, for paths that strangers name: only what is root's on the whole way is found.
    pub fn ours() -> Self {
        Self(Place::Ours)
    }

    /// Which directory it is.
    pub fn identity(&self) -> Result<RootIdentity, Refusal> {
        let wanted = StatxFlags::BTIME | StatxFlags::INO;
        // Nothing is asked of its file system, which may be a stranger's.
        let cached = AtFlags::STATX_DONT_SYNC;
        let facts = match &self.0 {
            Place::Here(root) => statx(root, "", AtFlags::EMPTY_PATH | cached, wanted)?,
            Place::Inside | Place::Ours => statx(CWD, "/", cached, wanted)?,
        };
        let born = facts.stx_btime;
        let birth_ns = born.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
        Ok(RootIdentity {
            device: makedev(facts.stx_dev_major, facts.stx_dev_minor),
            inode: facts.stx_ino,
            birth_ns: birth_ns.wrapping_add(born.tv_nsec.into()),
        })
    }

    /// Returns the kernel's path of the directory, from here; for a directory that is in no mount of ours, the path in its own mount.
    pub fn path(&self) -> Option<PathBuf> {
        match &self.0 {
            Place::Here(root) => descriptor_path(root),
            Place::Inside | Place::Ours => Some("/".into()),
        }
    }

    /// The regular file at `path`, which is taken as absolute here.
    pub fn open(&self, path: &Path, links: Links) -> Result<RegularFile, Refusal> {
        open_regular(self.0.find(path, links)?)
    }

    /// The same, if it is there itself: no link of that name, and nothing that is mounted on it. In a directory where every user may put
    /// something, such a link or mount could be another user's, and claim to be anyone's.
    pub fn open_itself(&self, path: &Path) -> Result<RegularFile, Refusal> {
        let parent = path.parent().ok_or(Refusal::Missing)?;
        let name = path.file_name().ok_or(Refusal::Missing)?;
        let folder = self.0.find(parent, Links::WithinRoot)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = open_at(&folder, name.as_ref(), flags, false)?;
        // Where the kernel was not asked to stay in the mount.
        if mount_of(&found) != mount_of(&folder) {
            return Err(Refusal::Mount);
        }
        open_regular(found)
    }

    /// Returns the facts about the regular file at `path`, which is not opened.
    pub fn look(&self, path: &Path, links: Links) -> Result<Facts, Refusal> {
        look_at(self.0.find(path, links)?)
    }

    /// Returns the path of the file in this root, with all links resolved. Another user may have moved it meanwhile, so it is only a path to open
    /// here.
    pub fn path_of(&self, file: &RegularFile) -> Option<PathBuf> {
        let of_root = self.path()?;
        let inner = file.path.as_ref()?.strip_prefix(of_root).ok()?;
        Some(Path::new("/").join(inner))
    }

    /// Whether every user may read the file where it is in this root: it, and every directory on the way.
    pub fn is_open_to_all(&self, file: &RegularFile) -> bool {
        let path = self.path_of(file).filter(|_| file.facts.is_public());
        path.is_some_and(|path| self.is_searchable_to(&path))
    }

    /// Whether every user may search every directory on the way to `path`.
    pub(crate) fn is_searchable_to(&self, path: &Path) -> bool {
        let is_searchable = |folder: &Path| {
            let folder = self.0.find(folder, Links::Refused).ok();
            let stat = folder.and_then(|folder| fstat(&folder).ok());
            stat.is_some_and(|stat| stat.st_mode & 0o001 != 0)
        };
        path.ancestors().skip(1).all(is_searchable)
    }
}

/// The number of the mount that a file is in; `None` before Linux 5.8. Nothing is asked of its file system.
fn mount_of(found: impl AsFd) -> Option<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let facts = statx(found, "", flags, StatxFlags::MNT_ID).ok()?;
    let is_told = facts.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    is_told.then_some(facts.stx_mnt_id)
}

impl Place {
    /// Finds what is at `path`, without opening it.
    fn find(&self, path: &Path, links: Links) -> Result<OwnedFd, Refusal> {
        match self {
            Self::Here(root) => Ok(resolved(root, path, links)?.into()),
            // The kernel itself keeps links within the root directory.
            Self::Inside => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                Ok(openat(CWD, Path::new("/").join(path), flags, Mode::empty())?)
            }
            Self::Ours => ours::find(path),
        }
    }
}

fn resolved(root: &pathrs::Root, path: &Path, links: Links) -> Result<pathrs::Handle, Refusal> {
    let flags = match links {
        Links::WithinRoot => ResolverFlags::empty(),
        Links::Refused => ResolverFlags::NO_SYMLINKS,
    };
    Ok(root.as_ref().with_resolver_flags(flags).resolve(path)?)
}
