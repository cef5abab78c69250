//! A path that others wrote, and the directory that it is resolved beneath: the root directory here, a process's, or one that the user named.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::NOBODY;
use ramson_paths::{Facts, Links, Refusal, RegularFile, Root};

/// Who must be able to read a file that is used.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Readers {
    /// The user who runs this.
    #[default]
    Caller,
    /// Every user.
    All,
}

/// The root directory of a process that has ended, as its profile tells it.
#[derive(Clone, Debug)]
pub struct NotedRoot {
    /// From our own root directory.
    pub path: PathBuf,
    /// Who owns the profile, if that is known.
    pub owner: Option<u32>,
}

/// Place of a file. The root is opened anew each time: held open, it would keep a container's file system from being unmounted.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize)]
pub(crate) struct RootedPath {
    #[borsh(serialize_with = "write_path", deserialize_with = "read_path")]
    root: PathBuf,
    /// It is the root directory of this process.
    pid: Option<u32>,
    #[borsh(serialize_with = "write_path", deserialize_with = "read_path")]
    inner: PathBuf,
    /// The user named the directory, so its files may be another user's.
    pub is_named_by_user: bool,
    /// A profile of this user told the root.
    told_by: Option<u32>,
    /// A program, a profile or a file of this user named the path.
    named_by: Option<u32>,
}

impl RootedPath {
    /// As the kernel would find it from here.
    pub fn here(path: &Path) -> Self {
        let inner = std::path::absolute(path).unwrap_or_else(|_| Path::new("/").join(path));
        Self { root: "/".into(), inner, ..Self::default() }
    }

    /// The same, as a program, a profile or a file of `user` names it.
    pub fn named(user: u32, path: &Path) -> Self {
        Self { named_by: Some(user), ..Self::here(path) }
    }

    /// As process `pid` sees it.
    pub fn in_process(pid: u32, path: &Path) -> Self {
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        Self { root, pid: Some(pid), inner: path.to_owned(), ..Self::default() }
    }

    /// In the root directory that a profile tells of its process.
    pub fn told(root: &NotedRoot, path: &Path) -> Self {
        let (root, told_by, inner) = (root.path.clone(), root.owner, path.to_owned());
        Self { root, inner, told_by: told_by.or(Some(NOBODY)), ..Self::default() }
    }

    /// In a directory that the user named.
    pub fn within(root: &Path, path: &Path) -> Self {
        let (root, inner) = (root.to_owned(), path.to_owned());
        Self { root, inner, is_named_by_user: true, ..Self::default() }
    }

    /// The same as `here`, of a path that the user named.
    pub fn named_by_user(path: &Path) -> Self {
        Self { is_named_by_user: true, ..Self::here(path) }
    }

    /// Whether its root can be looked into.
    pub fn has_root(&self) -> bool {
        self.root().is_ok_and(|root| root.path().is_some())
    }

    /// `path`, which never leads out of the root, begins here if it is relative.
    pub fn join(&self, path: &Path) -> Self {
        Self { inner: self.inner.join(path), ..self.clone() }
    }

    /// `folder`, also an absolute one, below this directory.
    pub fn below(&self, folder: &str) -> Self {
        self.join(Path::new(folder.trim_start_matches('/')))
    }

    /// The directory that it is in.
    pub fn parent(&self) -> Self {
        let inner = self.inner.parent().unwrap_or(&self.inner).to_owned();
        Self { inner, ..self.clone() }
    }

    /// With `suffix` behind the file's name.
    pub fn with_suffix(&self, suffix: &str) -> Self {
        let mut inner = self.inner.clone().into_os_string();
        inner.push(suffix);
        Self { inner: inner.into(), ..self.clone() }
    }

    fn root(&self) -> Result<Root, Refusal> {
        match (self.pid, self.told_by) {
            (Some(pid), _) => Root::of_process(pid),
            (None, Some(user)) => Root::told(&self.root, Some(user)),
            (None, None) if self.named_by.is_some() => Root::own(self.named_by),
            (None, None) => Root::at(&self.root),
        }
    }

    /// Opens the file. If a profile told the root, the file counts as missing unless it belongs to root, the caller or the profile's owner.
    pub fn open(&self) -> Result<RegularFile, Refusal> {
        self.checked(self.root()?.open(&self.inner, Links::WithinRoot)?)
    }

    /// The same, unless a link or a mount leads on from its name.
    pub fn open_itself(&self) -> Result<RegularFile, Refusal> {
        self.checked(self.root()?.open_itself(&self.inner)?)
    }

    fn checked(&self, opened: RegularFile) -> Result<RegularFile, Refusal> {
        let is_another_s = |by| by != opened.facts.owner && !opened.facts.is_trusted();
        match self.told_by.is_some_and(is_another_s) {
            true => Err(Refusal::Missing),
            false => Ok(opened),
        }
    }

    /// Opens the file. `Ok(None)`: not every user may read it.
    pub fn open_to_all(&self) -> Result<Option<RegularFile>, Refusal> {
        let opened = self.open()?;
        Ok(Root::own(self.told_by.or(self.named_by))?.is_open_to_all(&opened).then_some(opened))
    }

    /// Facts of the file, if it is a regular file.
    pub fn look(&self) -> Option<Facts> {
        self.root().ok()?.look(&self.inner, Links::WithinRoot).ok()
    }

    /// The directory of `file`, which was opened here, wherever links have led.
    pub fn folder_of(&self, file: &RegularFile) -> Option<Self> {
        let real = self.root().ok()?.path_of(file)?;
        Some(Self { inner: real.parent()?.to_owned(), ..self.clone() })
    }

    /// For messages.
    pub fn shown(&self) -> PathBuf {
        self.root.join(self.inner.strip_prefix("/").unwrap_or(&self.inner))
    }
}

pub(crate) fn write_path(path: &Path, out: &mut impl Write) -> io::Result<()> {
    path.as_os_str().as_bytes().serialize(out)
}

pub(crate) fn read_path(input: &mut impl Read) -> io::Result<PathBuf> {
    Vec::deserialize_reader(input).map(|bytes| OsString::from_vec(bytes).into())
}
