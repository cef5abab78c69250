//! What another user's process runs, has mapped, or has in its root directory is opened by a process that this one can leave alone with it.
//!
//! It may be on a file system of that user's, such as one of FUSE below an overlay: one that never answers keeps whoever looks at a file
//! waiting, and not even a kill ends that.

use crate::mapped::{self, MappedFile};
use crate::regular::{Facts, Kind, Refusal, RegularFile};
use crate::root::{Links, Root, RootIdentity};
use borsh::{BorshDeserialize, BorshSerialize};
use pathrs::HandleRef;
use pathrs::flags::OpenFlags;
use ramson_apart::{Apart, Failure, Opened};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[derive(BorshSerialize, BorshDeserialize)]
struct Request {
    pid: u32,
    what: What,
}

#[derive(BorshSerialize, BorshDeserialize)]
pub(crate) enum What {
    Executable,
    Mapped(Mapped),
    /// One of the links in map_files.
    MappedLink(Vec<u8>),
    /// At a path in its root directory.
    Open(Vec<u8>, Links),
    /// The same, without opening it.
    Look(Vec<u8>, Links),
    /// Which directory its root is.
    Identity,
    /// What to write into a file that it has mapped, and where.
    Write(Mapped, u64, Vec<u8>),
}

/// A [`MappedFile`], without the process.
#[derive(BorshSerialize, BorshDeserialize)]
pub(crate) struct Mapped {
    start: u64,
    end: u64,
    device: u64,
    inode: u64,
    path: String,
}

impl From<&MappedFile<'_>> for Mapped {
    fn from(mapped: &MappedFile) -> Self {
        let &MappedFile { range: Range { start, end }, device, inode, path, .. } = mapped;
        Self { start, end, device, inode, path: path.into() }
    }
}

impl Mapped {
    fn open(&self, pid: u32) -> Result<RegularFile, Refusal> {
        let &Self { start, end, device, inode, ref path } = self;
        mapped::mapped_here(&MappedFile { pid, range: start..end, device, inode, path })
    }
}

/// What the other process has found. A file comes as a descriptor.
#[derive(BorshSerialize, BorshDeserialize)]
enum Found {
    File(Facts),
    Facts(Facts),
    Root(RootIdentity),
}

/// A refusal, as it is told.
#[derive(BorshSerialize, BorshDeserialize)]
enum Refused {
    Missing,
    NotRegular(Kind),
    Pseudo,
    Link,
    OtherFile,
    OtherOwner(u32),
    /// The kernel's number, or what there is instead.
    Io(Option<i32>, String),
}

/// Has it opened.
pub(crate) fn open(by: &Apart, pid: u32, what: What) -> Result<RegularFile, Refusal> {
    match ask(by, pid, what)? {
        (Found::File(facts), Some(file)) => Ok(RegularFile { file, facts }),
        _ => Err(Refusal::Apart(Failure::BadAnswer)),
    }
}

/// Has it looked at.
pub(crate) fn look(by: &Apart, pid: u32, path: &Path, links: Links) -> Result<Facts, Refusal> {
    match ask(by, pid, What::Look(bytes(path), links))? {
        (Found::Facts(facts), None) => Ok(facts),
        _ => Err(Refusal::Apart(Failure::BadAnswer)),
    }
}

/// Has the root directory of a process looked at.
pub(crate) fn identity(by: &Apart, pid: u32) -> Result<RootIdentity, Refusal> {
    match ask(by, pid, What::Identity)? {
        (Found::Root(identity), None) => Ok(identity),
        _ => Err(Refusal::Apart(Failure::BadAnswer)),
    }
}

/// Has it written into a file that another user's process has mapped.
pub fn write_mapped(
    by: &Apart,
    mapped: &MappedFile,
    offset: u64,
    bytes: &[u8],
) -> Result<(), Refusal> {
    ask(by, mapped.pid, What::Write(mapped.into(), offset, bytes.to_vec())).map(drop)
}

fn ask(by: &Apart, pid: u32, what: What) -> Result<(Found, Option<File>), Refusal> {
    let bad = |_| Refusal::Apart(Failure::BadAnswer);
    let request = borsh::to_vec(&Request { pid, what }).map_err(bad)?;
    let (answer, files) = by.open(&request).map_err(Refusal::Apart)?;
    let found: Result<Found, Refused> = borsh::from_slice(&answer).map_err(bad)?;
    Ok((found.map_err(Refusal::from)?, files.into_iter().next()))
}

/// In the process that opens: answers [`Apart::open`].
pub fn answer(request: &[u8]) -> Option<Opened> {
    let Request { pid, what } = borsh::from_slice(request).ok()?;
    let (found, file) = match find(pid, what) {
        Ok((found, file)) => (Ok(found), file),
        Err(refusal) => (Err(Refused::from(refusal)), None),
    };
    Some((borsh::to_vec(&found).ok()?, file.into_iter().collect()))
}

fn find(pid: u32, what: What) -> Result<(Found, Option<File>), Refusal> {
    let opened = match what {
        What::Executable => mapped::executable_here(pid)?,
        What::Mapped(mapped) => mapped.open(pid)?,
        What::MappedLink(name) => mapped::link_here(pid, OsStr::from_bytes(&name))?,
        What::Open(path, links) => {
            root_here(pid)?.open(Path::new(OsStr::from_bytes(&path)), links)?
        }
        What::Look(path, links) => {
            let facts = root_here(pid)?.look(Path::new(OsStr::from_bytes(&path)), links)?;
            return Ok((Found::Facts(facts), None));
        }
        What::Write(mapped, offset, bytes) => {
            let RegularFile { file, facts } = mapped.open(pid)?;
            let again = HandleRef::from_fd(file.as_fd()).reopen(OpenFlags::O_WRONLY)?;
            again.write_all_at(&bytes, offset).map_err(Refusal::Io)?;
            return Ok((Found::Facts(facts), None));
        }
        What::Identity => return Ok((Found::Root(root_here(pid)?.identity()?), None)),
    };
    Ok((Found::File(opened.facts), Some(opened.file)))
}

fn root_here(pid: u32) -> Result<Root, Refusal> {
    Root::at(Path::new(&format!("/proc/{pid}/root")))
}

pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Missing => Self::Missing,
            Refusal::NotRegular(kind) => Self::NotRegular(kind),
            Refusal::Pseudo => Self::Pseudo,
            Refusal::Link => Self::Link,
            Refusal::OtherFile => Self::OtherFile,
            Refusal::OtherOwner(user) => Self::OtherOwner(user),
            Refusal::Apart(failure) => Self::Io(None, failure.to_string()),
            Refusal::Io(error) => Self::Io(error.raw_os_error(), error.to_string()),
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Missing => Self::Missing,
            Refused::NotRegular(kind) => Self::NotRegular(kind),
            Refused::Pseudo => Self::Pseudo,
            Refused::Link => Self::Link,
            Refused::OtherFile => Self::OtherFile,
            Refused::OtherOwner(user) => Self::OtherOwner(user),
            Refused::Io(Some(number), _) => Self::Io(io::Error::from_raw_os_error(number)),
            Refused::Io(None, text) => Self::Io(io::Error::other(text)),
        }
    }
}
