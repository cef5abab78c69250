//! A directory in which another user may write, such as one with profiles.

use crate::regular::{Facts, Refusal, RegularFile, look_at, open_regular};
use rustix::fs::{CWD, Dir, Mode, OFlags, fstat, openat};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A directory, held open, so that what is at its path later makes no difference.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
    owner: u32,
    mode: u32,
}

/// A regular file of the directory's owner.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Within the directory.
    pub name: OsString,
    /// What it is.
    pub facts: Facts,
}

impl Directory {
    /// The directory at `path`, not a link to one.
    pub fn open(path: &Path) -> Result<Self, Refusal> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = openat(CWD, path, flags, Mode::empty())?;
        let stat = fstat(&descriptor)?;
        Ok(Self {
            descriptor,
            path: path.to_owned(),
            owner: stat.st_uid,
            mode: stat.st_mode & 0o7777,
        })
    }

    /// As it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user whom it belongs to.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether others than its owner may put files here.
    pub fn is_shared(&self) -> bool {
        self.mode & 0o022 != 0
    }

    /// The regular files of its owner, in no order. Links, devices, FIFOs and the files of other users are left out, none is opened.
    pub fn entries(&self) -> Result<Vec<Entry>, Refusal> {
        let entries = Dir::read_from(&self.descriptor)?.filter_map(Result::ok);
        let found = entries.filter_map(|entry| {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let facts = look_at(self.path_only(name).ok()?).ok()?;
            (facts.owner == self.owner).then(|| Entry { name: name.to_owned(), facts })
        });
        Ok(found.collect())
    }

    /// Opens the regular file of this name, which belongs to the directory's owner.
    pub fn open_file(&self, name: &OsStr) -> Result<RegularFile, Refusal> {
        let opened = open_regular(self.path_only(name)?)?;
        match opened.facts.owner == self.owner {
            true => Ok(opened),
            false => Err(Refusal::OtherOwner(opened.facts.owner)),
        }
    }

    fn path_only(&self, name: &OsStr) -> Result<OwnedFd, Refusal> {
        if name.as_bytes().contains(&b'/') || name == OsStr::new("..") {
            return Err(Refusal::Missing);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.descriptor, name, flags, Mode::empty())?)
    }
}
