//! A directory in which another user may write, such as one with profiles.

use crate::regular::{
    Facts, Refusal, RegularFile, descriptor_path, is_pseudo, look_at, modified_ns, open_regular,
};
use ramson_apart::Owner;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat, flock, fstat,
    mkdirat, openat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A directory, held open, so that what is at its path later makes no difference.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
    owner: u32,
    mode: u32,
    modified_ns: i128,
    /// Files of other users are in it, too.
    is_of_all: bool,
    /// Not in another user's: what is mounted there may never answer.
    enters_mounts: bool,
}

/// A regular file in a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Within the directory.
    pub name: OsString,
    /// Facts about the file.
    pub facts: Facts,
}

impl Directory {
    /// The directory at `path`, which by its name is this user's; not a link to one. Only its owner's files count.
    pub fn open(path: &Path, user: u32) -> Result<Self, Refusal> {
        let parent = path.parent().ok_or(Refusal::Missing)?;
        let name = path.file_name().ok_or(Refusal::Missing)?;
        let enters_mounts = Owner::of_user(user).is_trusted();
        let parent = openat(CWD, parent, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let descriptor = open_directory(&parent, name.as_ref(), OFlags::NOFOLLOW, enters_mounts)?;
        Self::of(descriptor, path.to_owned(), false, enters_mounts)
    }

    /// A directory that the user chose: a link may lead to it, and the files of all users count.
    pub fn open_chosen(path: &Path) -> Result<Self, Refusal> {
        let descriptor = open_directory(CWD, path, OFlags::empty(), true)?;
        Self::of(descriptor, path.to_owned(), true, true)
    }

    fn of(
        descriptor: OwnedFd,
        path: PathBuf,
        is_of_all: bool,
        enters_mounts: bool,
    ) -> Result<Self, Refusal> {
        let stat = fstat(&descriptor)?;
        Ok(Self {
            owner: stat.st_uid,
            mode: stat.st_mode & 0o7777,
            modified_ns: modified_ns(&stat),
            descriptor,
            path,
            is_of_all,
            enters_mounts,
        })
    }

    /// The directory of this name in it, not a link to one; made for its owner only if it is missing. Only its owner's files count.
    pub fn make_directory(&self, name: &OsStr) -> Result<Self, Refusal> {
        // It may exist; what counts is what is opened.
        let _ = mkdirat(&self.descriptor, plain(name)?, Mode::RWXU);
        self.directory(name)
    }

    /// The same without making it.
    pub fn directory(&self, name: &OsStr) -> Result<Self, Refusal> {
        let name = plain(name)?;
        let mounts = self.enters_mounts;
        let descriptor = open_directory(&self.descriptor, name.as_ref(), OFlags::NOFOLLOW, mounts)?;
        Self::of(descriptor, self.path.join(name), false, mounts)
    }

    /// As it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether files can be kept there: not in /proc, for one.
    pub fn stores_files(&self) -> bool {
        !is_pseudo(&self.descriptor).unwrap_or(false)
    }

    /// The user whom it belongs to.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether others than its owner may put files here.
    pub fn is_shared(&self) -> bool {
        self.mode & 0o022 != 0
    }

    /// Whether only its owner may enter it.
    pub fn is_private(&self) -> bool {
        self.mode & 0o077 == 0
    }

    /// Whether a user may put files here who is in no group of it.
    pub fn may_be_written_by(&self, user: u32) -> bool {
        let bit = if user == self.owner { 0o200 } else { 0o002 };
        user == 0 || self.mode & bit != 0
    }

    /// When a file was made in it last, or removed, since 1970.
    pub fn modified_ns(&self) -> i128 {
        self.modified_ns
    }

    /// The names of all that is in it, in no order.
    pub fn names(&self) -> Result<impl Iterator<Item = OsString>, Refusal> {
        let entries = Dir::read_from(&self.descriptor)?.filter_map(Result::ok);
        Ok(entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned()))
    }

    /// The regular files that count, in no order. Links, devices, FIFOs and the files of other users are left out, none is opened.
    pub fn entries(&self) -> Result<Vec<Entry>, Refusal> {
        let found = self.names()?.filter_map(|name| {
            let stat = self.stat(&name).ok()?;
            let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            let facts = is_regular.then(|| Facts::of(&stat))?;
            self.counts(facts).then_some(Entry { name, facts })
        });
        Ok(found.collect())
    }

    /// Opens the regular file of this name, if it counts.
    pub fn open_file(&self, name: &OsStr) -> Result<RegularFile, Refusal> {
        let opened = if self.is_own() {
            self.open_own(plain(name)?)?
        } else {
            open_regular(self.path_only(name)?)?
        };
        let owner = opened.facts.owner;
        if self.counts(opened.facts) { Ok(opened) } else { Err(Refusal::OtherOwner(owner.user)) }
    }

    /// Makes a file that was not there, for its owner only, to be written.
    pub fn create_file(&self, name: &OsStr) -> Result<File, Refusal> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = openat(&self.descriptor, plain(name)?, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(made.into())
    }

    /// Whether there is anything of this name, be it a link.
    pub fn has(&self, name: &OsStr) -> bool {
        self.stat(name).is_ok()
    }

    /// Gives a file in it another name, in place of what had that name.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), Refusal> {
        Ok(renameat(&self.descriptor, plain(from)?, &self.descriptor, plain(to)?)?)
    }

    /// Takes the lock of those who replace or remove profiles in it, until this is dropped. False: another has it.
    pub fn lock(&self) -> bool {
        flock(&self.descriptor, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Removes the name of a file, or of a link.
    pub fn remove(&self, name: &OsStr) -> Result<(), Refusal> {
        Ok(unlinkat(&self.descriptor, plain(name)?, AtFlags::empty())?)
    }

    /// Whether nobody but its user, who runs this, and root put anything into it.
    fn is_own(&self) -> bool {
        self.owner == geteuid().as_raw() && !self.is_shared()
    }

    /// Opens what nobody else can have put there, or replaces meanwhile, with a tenth of the system calls.
    fn open_own(&self, name: &OsStr) -> Result<RegularFile, Refusal> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let path_only = self.path_only(name)?;
        let seen = look_at(&path_only)?;
        let opened = openat(&self.descriptor, name, flags | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&opened)?;
        let file = File::from(opened);
        let is_it = (stat.st_dev, stat.st_ino) == (seen.device, seen.inode);
        let opened = RegularFile { facts: seen, path: descriptor_path(&file), file };
        if is_it { Ok(opened) } else { Err(Refusal::OtherFile) }
    }

    fn counts(&self, facts: Facts) -> bool {
        self.is_of_all || facts.owner == Owner::of_user(self.owner)
    }

    fn stat(&self, name: &OsStr) -> Result<Stat, Refusal> {
        if !self.enters_mounts {
            return Ok(fstat(self.path_only(name)?)?);
        }
        Ok(statat(&self.descriptor, plain(name)?, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn path_only(&self, name: &OsStr) -> Result<OwnedFd, Refusal> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(open_at(&self.descriptor, plain(name)?.as_ref(), flags, self.enters_mounts)?)
    }
}

/// Before Linux 5.6, and where a seccomp filter does not know the call, mounts are entered anyway.
pub(crate) fn open_at(
    at: impl AsFd,
    path: &Path,
    flags: OFlags,
    enters_mounts: bool,
) -> rustix::io::Result<OwnedFd> {
    if !enters_mounts {
        match openat2(&at, path, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return opened,
        }
    }
    openat(at, path, flags, Mode::empty())
}

/// Says also what is there instead of a directory.
fn open_directory(
    at: impl AsFd,
    path: &Path,
    flags: OFlags,
    enters_mounts: bool,
) -> Result<OwnedFd, Refusal> {
    let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open_at(&at, path, flags, enters_mounts).map_err(|error| {
        // To look at it would enter it.
        if error == Errno::XDEV {
            return Refusal::Mount;
        }
        let found = statat(&at, path, AtFlags::SYMLINK_NOFOLLOW);
        match found.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Symlink) if flags.contains(OFlags::NOFOLLOW) => Refusal::Link,
            Ok(_) => Refusal::Io(error.into()),
            Err(_) => error.into(),
        }
    })
}

/// The name of something in the directory itself.
fn plain(name: &OsStr) -> Result<&OsStr, Refusal> {
    let leads_away = name.as_bytes().contains(&b'/') || name == OsStr::new("..");
    if leads_away { Err(Refusal::Missing) } else { Ok(name) }
}
