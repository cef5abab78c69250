//! A path that others wrote, and the directory that it is resolved beneath: the root directory here, a process's, or one that the user named.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{NOBODY, Owner, for_owner};
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
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub struct NotedRoot {
    /// From our own root directory.
    #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
    pub path: PathBuf,
    /// Who owns the profile, if that is known.
    pub owner: Option<Owner>,
}

/// Place of a file. The root is opened anew each time: held open, it would keep a container's file system from being unmounted.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub(crate) struct RootedPath {
    base: Base,
    #[borsh(serialize_with = "write_path", deserialize_with = "read_path")]
    inner: PathBuf,
}

/// The root directory, and who named it or the path in it.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
enum Base {
    /// Ours, for a path of our own.
    Own,
    /// Ours, for a path that a program or a profile of another user names: only what is root's on the whole way is found.
    Ours,
    /// The root directory of a process.
    Process(u32),
    /// One that a profile of user `by` tells.
    Told {
        #[borsh(serialize_with = "write_path", deserialize_with = "read_path")]
        root: PathBuf,
        by: Owner,
    },
    /// A directory that the user named, so its files may be another user's.
    Chosen(#[borsh(serialize_with = "write_path", deserialize_with = "read_path")] PathBuf),
}

impl RootedPath {
    /// As the kernel would find it from here.
    pub fn here(path: &Path) -> Self {
        Self { base: Base::Own, inner: absolute(path) }
    }

    /// The same, as a program, a profile or a file of `user` names it.
    pub fn named(user: Owner, path: &Path) -> Self {
        let base = if for_owner(user).is_some() { Base::Ours } else { Base::Own };
        Self { base, inner: absolute(path) }
    }

    /// As process `pid` sees it.
    pub fn in_process(pid: u32, path: &Path) -> Self {
        Self { base: Base::Process(pid), inner: path.to_owned() }
    }

    /// In the root directory that a profile tells of its process.
    pub fn told(root: &NotedRoot, path: &Path) -> Self {
        let by = root.owner.unwrap_or(NOBODY);
        Self { base: Base::Told { root: root.path.clone(), by }, inner: path.to_owned() }
    }

    /// In a directory that the user named.
    pub fn within(root: &Path, path: &Path) -> Self {
        Self { base: Base::Chosen(root.to_owned()), inner: path.to_owned() }
    }

    /// The same as `here`, of a path that the user named.
    pub fn named_by_user(path: &Path) -> Self {
        Self::within(Path::new("/"), &absolute(path))
    }

    /// Whether the user named the directory.
    pub fn is_named_by_user(&self) -> bool {
        matches!(self.base, Base::Chosen(_))
    }

    /// Whether its root can be looked into.
    pub fn has_root(&self) -> bool {
        self.root().is_ok_and(|root| root.path().is_some())
    }

    /// `path`, which never leads out of the root, begins here if it is relative.
    pub fn join(&self, path: &Path) -> Self {
        self.with_inner(self.inner.join(path))
    }

    /// `folder`, also an absolute one, below this directory.
    pub fn below(&self, folder: &str) -> Self {
        self.join(Path::new(folder.trim_start_matches('/')))
    }

    /// The directory that it is in.
    pub fn parent(&self) -> Self {
        self.with_inner(self.inner.parent().unwrap_or(&self.inner).to_owned())
    }

    /// With `suffix` behind the file's name.
    pub fn with_suffix(&self, suffix: &str) -> Self {
        let mut inner = self.inner.clone().into_os_string();
        inner.push(suffix);
        self.with_inner(inner.into())
    }

    fn with_inner(&self, inner: PathBuf) -> Self {
        Self { base: self.base.clone(), inner }
    }

    fn root(&self) -> Result<Root, Refusal> {
        match &self.base {
            Base::Own => Root::at(Path::new("/")),
            Base::Ours => Ok(Root::ours()),
            Base::Process(pid) => Root::of_process(*pid),
            Base::Told { root, .. } => Root::told(root),
            Base::Chosen(root) => Root::at(root),
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
        match self.base {
            Base::Told { by, .. } if by != opened.facts.owner && !opened.facts.is_trusted() => {
                Err(Refusal::Missing)
            }
            _ => Ok(opened),
        }
    }

    /// Opens the file. `Ok(None)`: not every user may read it.
    pub fn open_to_all(&self) -> Result<Option<RegularFile>, Refusal> {
        let opened = self.open()?;
        Ok(Root::at(Path::new("/"))?.is_open_to_all(&opened).then_some(opened))
    }

    /// Facts of the file, if it is a regular file.
    pub fn look(&self) -> Option<Facts> {
        self.root().ok()?.look(&self.inner, Links::WithinRoot).ok()
    }

    /// The directory of `file`, which was opened here, wherever links have led.
    pub fn folder_of(&self, file: &RegularFile) -> Option<Self> {
        let real = self.root().ok()?.path_of(file)?;
        Some(self.with_inner(real.parent()?.to_owned()))
    }

    /// For messages.
    pub fn shown(&self) -> PathBuf {
        let root = match &self.base {
            Base::Own | Base::Ours => "/".into(),
            Base::Process(pid) => format!("/proc/{pid}/root").into(),
            Base::Told { root, .. } | Base::Chosen(root) => root.clone(),
        };
        root.join(self.inner.strip_prefix("/").unwrap_or(&self.inner))
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| Path::new("/").join(path))
}

pub(crate) fn write_path(path: &Path, out: &mut impl Write) -> io::Result<()> {
    path.as_os_str().as_bytes().serialize(out)
}

/// The same of a field.
#[expect(clippy::ptr_arg, reason = "it is called with the field's type")]
pub(crate) fn write_buf(path: &PathBuf, out: &mut impl Write) -> io::Result<()> {
    write_path(path, out)
}

pub(crate) fn read_path(input: &mut impl Read) -> io::Result<PathBuf> {
    Vec::deserialize_reader(input).map(|bytes| OsString::from_vec(bytes).into())
}

pub(crate) fn write_paths(paths: &[PathBuf], out: &mut impl Write) -> io::Result<()> {
    let paths: Vec<&[u8]> = paths.iter().map(|path| path.as_os_str().as_bytes()).collect();
    paths.serialize(out)
}

pub(crate) fn read_paths(input: &mut impl Read) -> io::Result<Vec<PathBuf>> {
    let paths = Vec::<Vec<u8>>::deserialize_reader(input)?;
    Ok(paths.into_iter().map(|bytes| OsString::from_vec(bytes).into()).collect())
}

#[expect(clippy::ref_option, reason = "it is called with the field's type")]
pub(crate) fn write_option(path: &Option<PathBuf>, out: &mut impl Write) -> io::Result<()> {
    write_paths(path.as_slice(), out)
}

pub(crate) fn read_option(input: &mut impl Read) -> io::Result<Option<PathBuf>> {
    Ok(read_paths(input)?.pop())
}
