//! A directory that we chose, beneath which a path that others wrote is resolved.

use crate::apart::{self, Base, What};
use crate::directory::open_at;
use crate::ours;
use crate::regular::{Facts, Refusal, RegularFile, descriptor_path, look_at, open_regular};
use borsh::{BorshDeserialize, BorshSerialize};
use pathrs::flags::ResolverFlags;
use ramson_apart::{Apart, Owner, for_owner, for_process, proc};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, fstat, makedev, openat, statx};
use std::ffi::OsStr;
use std::fs::read_link;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Treatment of symbolic links on the way.
#[derive(Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Links {
    /// They are resolved as if the root were `/`.
    WithinRoot,
    /// They are refused.
    Refused,
}

/// Identity of a directory, which tells it from another one that is at its path later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
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
    /// Looked into by a process of its own, for another user's sake.
    Apart(Base, Apart),
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

    /// The root directory of process `pid`, as it sees it.
    pub fn of_process(pid: u32) -> Result<Self, Refusal> {
        Self::found(Base::Process(pid), for_process(pid))
    }

    /// Our own, for paths that a program, a profile or a file of this user names.
    pub fn own(named_by: Option<Owner>) -> Result<Self, Refusal> {
        Self::found(Base::Own, named_by.and_then(for_owner))
    }

    /// A directory whose path one of this user has told: it is resolved in our own root directory, without links.
    pub fn told(path: &Path, told_by: Option<Owner>) -> Result<Self, Refusal> {
        Self::found(Base::Told(apart::bytes(path)), told_by.and_then(for_owner))
    }

    /// Our own, for paths that strangers name: only what is root's on the whole way is found.
    pub fn ours() -> Self {
        Self(Place::Ours)
    }

    fn found(base: Base, by: Option<Apart>) -> Result<Self, Refusal> {
        match by {
            None if proc::is_inside() => Ok(Self(Place::Inside)),
            Some(by) => Ok(Self(Place::Apart(base, by))),
            None => base.root_here(),
        }
    }

    pub(crate) fn told_here(path: &Path) -> Result<Self, Refusal> {
        let own = pathrs::Root::open("/")?;
        let found = resolved(&own, path, Links::Refused)?;
        let mode = fstat(&found)?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Directory => Ok(Self(Place::Here(pathrs::Root::from_fd(found)))),
            _ => Err(Refusal::Missing),
        }
    }

    /// Which directory it is.
    pub fn identity(&self) -> Result<RootIdentity, Refusal> {
        let wanted = StatxFlags::BTIME | StatxFlags::INO;
        let facts = match &self.0 {
            Place::Here(root) => statx(root, "", AtFlags::EMPTY_PATH, wanted)?,
            Place::Inside | Place::Ours => statx(CWD, "/", AtFlags::empty(), wanted)?,
            Place::Apart(base, by) => return apart::identity(by, base),
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
            Place::Apart(Base::Process(pid), _) => read_link(link_of(*pid)).ok(),
            Place::Inside | Place::Ours | Place::Apart(Base::Own, _) => Some("/".into()),
            Place::Apart(Base::Told(path), _) => Some(OsStr::from_bytes(path).into()),
        }
    }

    /// The regular file at `path`, which is taken as absolute here.
    pub fn open(&self, path: &Path, links: Links) -> Result<RegularFile, Refusal> {
        match &self.0 {
            Place::Apart(base, by) => apart::open(by, base, What::Open(apart::bytes(path), links)),
            place => open_regular(place.find(path, links)?),
        }
    }

    /// The same, if it is there itself: no link of that name, and nothing that is mounted on it. In a directory where every user may put
    /// something, such a link or mount could be another user's, and claim to be anyone's.
    pub fn open_itself(&self, path: &Path) -> Result<RegularFile, Refusal> {
        if let Place::Apart(base, by) = &self.0 {
            return apart::open(by, base, What::OpenItself(apart::bytes(path)));
        }
        let parent = path.parent().ok_or(Refusal::Missing)?;
        let name = path.file_name().ok_or(Refusal::Missing)?;
        let folder = self.0.find(parent, Links::WithinRoot)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        open_regular(open_at(&folder, name.as_ref(), flags, false)?)
    }

    /// Returns the facts about the regular file at `path`, which is not opened.
    pub fn look(&self, path: &Path, links: Links) -> Result<Facts, Refusal> {
        match &self.0 {
            Place::Apart(base, by) => apart::look(by, base, path, links),
            place => look_at(place.find(path, links)?),
        }
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
        if let Place::Apart(base, by) = &self.0 {
            return apart::is_searchable_to(by, base, path);
        }
        let is_searchable = |folder: &Path| {
            let folder = self.0.find(folder, Links::Refused).ok();
            let stat = folder.and_then(|folder| fstat(&folder).ok());
            stat.is_some_and(|stat| stat.st_mode & 0o001 != 0)
        };
        path.ancestors().skip(1).all(is_searchable)
    }
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
            Self::Apart(..) => Err(Refusal::Missing),
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

/// The kernel's link to the root directory of process `pid`.
pub(crate) fn link_of(pid: u32) -> PathBuf {
    format!("/proc/{pid}/root").into()
}
