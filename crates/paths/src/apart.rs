//! What another user's process runs, has mapped, or has in its root directory is opened by a process that this one can leave alone with it.
//!
//! It may be on a file system of that user's, such as one of FUSE below an overlay: one that never answers keeps whoever looks at a file
//! waiting, and not even a kill ends that.

use crate::mapped::{self, MappedFile};
use crate::regular::{Facts, Refusal, RegularFile};
use crate::root::{Links, Root, RootIdentity};
use borsh::{BorshDeserialize, BorshSerialize};
use pathrs::HandleRef;
use pathrs::flags::OpenFlags;
use ramson_apart::{Apart, Failure, Opened};
use std::ffi::OsStr;
use std::fs::File;
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
    /// What to write into a file that it has mapped, if it is this one, and where.
    Write(Mapped, Facts, u64, Vec<u8>),
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

/// Has it written into a file that another user's process has mapped, if that is still the one that was looked at: the process may have mapped
/// one of somebody else there.
pub fn write_mapped(
    by: &Apart,
    mapped: &MappedFile,
    seen: Facts,
    offset: u64,
    bytes: &[u8],
) -> Result<(), Refusal> {
    ask(by, mapped.pid, What::Write(mapped.into(), seen, offset, bytes.to_vec())).map(drop)
}

fn ask(by: &Apart, pid: u32, what: What) -> Result<(Found, Option<File>), Refusal> {
    let bad = |_| Refusal::Apart(Failure::BadAnswer);
    let request = borsh::to_vec(&Request { pid, what }).map_err(bad)?;
    let (answer, files) = by.open(&request).map_err(Refusal::Apart)?;
    let found: Result<Found, Refusal> = borsh::from_slice(&answer).map_err(bad)?;
    Ok((found?, files.into_iter().next()))
}

/// In the process that opens: answers [`Apart::open`].
pub fn answer(request: &[u8]) -> Option<Opened> {
    let Request { pid, what } = borsh::from_slice(request).ok()?;
    let (found, file) = match find(pid, what) {
        Ok((found, file)) => (Ok(found), file),
        Err(refusal) => (Err(refusal), None),
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
        What::Write(mapped, seen, offset, bytes) => {
            let RegularFile { file, facts } = mapped.open(pid)?;
            let is_it = |facts: Facts| (facts.device, facts.inode, facts.owner);
            if is_it(facts) != is_it(seen) {
                return Err(Refusal::OtherFile);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn what_is_written_goes_into_the_file_that_was_looked_at() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let seen = RegularFile::given(file.reopen().unwrap()).unwrap().facts;
        let write = |seen: Facts| {
            // A range that is no mapping: its file is found by its name.
            let (path, own) = (file.path().to_str().unwrap(), std::process::id());
            let mapped = Mapped {
                start: 0x1000,
                end: 0x2000,
                device: seen.device,
                inode: seen.inode,
                path: path.into(),
            };
            find(own, What::Write(mapped, seen, 3, b"note".to_vec())).map(drop)
        };
        let other = write(Facts { owner: seen.owner + 1, ..seen });
        assert!(matches!(other, Err(Refusal::OtherFile)), "{other:?}");
        assert_eq!(std::fs::read(file.path()).unwrap(), b"");
        write(seen).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"\0\0\0note");
    }

    #[test]
    fn a_refusal_is_the_same_when_it_was_told() {
        let missing = io::Error::from_raw_os_error(13);
        for refusal in [Refusal::Link, Refusal::OtherOwner(7), Refusal::Io(missing)] {
            let told: Refusal = borsh::from_slice(&borsh::to_vec(&refusal).unwrap()).unwrap();
            assert_eq!(told.to_string(), refusal.to_string());
        }
    }
}
