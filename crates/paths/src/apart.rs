//! Opens what another user's process runs or has mapped, and the paths that another user's process or profile names, by a process that this one can
//! leave alone with them.
//!
//! A file may be on a file system of that user's, such as one of FUSE: one that never answers keeps whoever looks at a file waiting, and not even a
//! kill ends that.

use crate::mapped::{self, MappedFile};
use crate::ours::is_ours;
use crate::regular::{Facts, OVERLAY, Refusal, RegularFile};
use crate::root::{Links, Root, RootIdentity, link_of};
use borsh::{BorshDeserialize, BorshSerialize};
use pathrs::HandleRef;
use pathrs::flags::OpenFlags;
use ramson_apart::{Apart, Failure, Opened, Owner, sealed};
use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// linux/magic.h.
const FUSE: u64 = 0x6573_5546;

#[derive(BorshSerialize, BorshDeserialize)]
struct Request {
    base: Base,
    /// Who names it.
    user: Owner,
    what: What,
}

/// A directory that paths begin at.
#[derive(Clone, BorshSerialize, BorshDeserialize)]
pub(crate) enum Base {
    /// The root directory of a process.
    Process(u32),
    /// The root directory of this process.
    Own,
    /// At this path in that.
    Told(Vec<u8>),
}

#[derive(BorshSerialize, BorshDeserialize)]
pub(crate) enum What {
    /// The executable of the process.
    Executable,
    /// A file that the process has mapped.
    Mapped(Mapped),
    /// One of its links in map_files.
    MappedLink(Vec<u8>),
    /// At a path.
    Open(Vec<u8>, Links),
    /// The same, if nothing leads on from its name.
    OpenItself(Vec<u8>),
    /// The same, without opening it.
    Look(Vec<u8>, Links),
    /// Whether every user may search the directories on the way to a path.
    IsSearchableTo(Vec<u8>),
    /// Which directory it is that paths begin at.
    Identity,
    /// Bytes to write into a file that the process has mapped, if it is this one, and where.
    Write(Mapped, Facts, u64, Vec<u8>),
}

impl Base {
    pub fn root_here(&self) -> Result<Root, Refusal> {
        match self {
            Self::Process(pid) => Root::at(&link_of(*pid)),
            Self::Own => Root::at(Path::new("/")),
            Self::Told(path) => Root::told_here(path_of(path)),
        }
    }

    fn pid(&self) -> Result<u32, Refusal> {
        match self {
            Self::Process(pid) => Ok(*pid),
            Self::Own | Self::Told(_) => Err(Refusal::Missing),
        }
    }
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

/// Answer of the other process. A file comes as a descriptor, sealed if this process is not to read it.
#[derive(BorshSerialize, BorshDeserialize)]
enum Found {
    /// And what the kernel calls it.
    File(Facts, Option<Vec<u8>>),
    Facts(Facts),
    Root(RootIdentity),
    Answer(bool),
}

/// Has it opened.
pub(crate) fn open(by: &Apart, base: &Base, what: What) -> Result<RegularFile, Refusal> {
    match ask(by, base, what)? {
        (Found::File(facts, path), Some(file)) => {
            Ok(RegularFile { file, facts, path: path.map(|path| path_of(&path).to_owned()) })
        }
        _ => Err(Refusal::Apart(Failure::BadAnswer)),
    }
}

/// Has it looked at.
pub(crate) fn look(by: &Apart, base: &Base, path: &Path, links: Links) -> Result<Facts, Refusal> {
    match ask(by, base, What::Look(bytes(path), links))? {
        (Found::Facts(facts), None) => Ok(facts),
        _ => Err(Refusal::Apart(Failure::BadAnswer)),
    }
}

/// Has a root directory looked at.
pub(crate) fn identity(by: &Apart, base: &Base) -> Result<RootIdentity, Refusal> {
    match ask(by, base, What::Identity)? {
        (Found::Root(identity), None) => Ok(identity),
        _ => Err(Refusal::Apart(Failure::BadAnswer)),
    }
}

/// Has the directories on the way to `path` looked at; false where that fails.
pub(crate) fn is_searchable_to(by: &Apart, base: &Base, path: &Path) -> bool {
    let answer = ask(by, base, What::IsSearchableTo(bytes(path)));
    matches!(answer, Ok((Found::Answer(true), None)))
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
    let what = What::Write(mapped.into(), seen, offset, bytes.to_vec());
    ask(by, &Base::Process(mapped.pid), what).map(drop)
}

fn ask(by: &Apart, base: &Base, what: What) -> Result<(Found, Option<File>), Refusal> {
    let bad = |_| Refusal::Apart(Failure::BadAnswer);
    let request = Request { base: base.clone(), user: by.owner(), what };
    let request = borsh::to_vec(&request).map_err(bad)?;
    let (answer, files) = by.open(&request).map_err(Refusal::Apart)?;
    let found: Result<Found, Refusal> = borsh::from_slice(&answer).map_err(bad)?;
    Ok((found?, files.into_iter().next()))
}

/// In the process that opens: answers [`Apart::open`].
pub fn answer(request: &[u8]) -> Option<Opened> {
    let Request { base, user, what } = borsh::from_slice(request).ok()?;
    let (found, file) = match find(&base, user, what) {
        Ok((found, file)) => (Ok(found), file),
        Err(refusal) => (Err(refusal), None),
    };
    Some((borsh::to_vec(&found).ok()?, file.into_iter().collect()))
}

fn find(base: &Base, user: Owner, what: What) -> Result<(Found, Option<File>), Refusal> {
    let opened = match what {
        What::Executable => mapped::executable_here(base.pid()?)?,
        What::Mapped(mapped) => mapped.open(base.pid()?)?,
        What::MappedLink(name) => mapped::link_here(base.pid()?, OsStr::from_bytes(&name))?,
        What::Open(path, links) => base.root_here()?.open(path_of(&path), links)?,
        What::OpenItself(path) => base.root_here()?.open_itself(path_of(&path))?,
        What::Look(path, links) => {
            let facts = base.root_here()?.look(path_of(&path), links)?;
            return Ok((Found::Facts(owned(facts, Some(path_of(&path)), user)), None));
        }
        What::IsSearchableTo(path) => {
            let answer = base.root_here()?.is_searchable_to(path_of(&path));
            return Ok((Found::Answer(answer), None));
        }
        What::Write(mapped, seen, offset, bytes) => {
            let RegularFile { file, facts, .. } = mapped.open(base.pid()?)?;
            let is_seen = (facts.device, facts.inode) == (seen.device, seen.inode);
            if !is_seen || facts.owner.user != user.user {
                return Err(Refusal::OtherFile);
            }
            let again = HandleRef::from_fd(file.as_fd()).reopen(OpenFlags::O_WRONLY)?;
            again.write_all_at(&bytes, offset).map_err(Refusal::Io)?;
            return Ok((Found::Facts(facts), None));
        }
        What::Identity => return Ok((Found::Root(base.root_here()?.identity()?), None)),
    };
    let RegularFile { file, facts, path } = opened;
    let facts = owned(facts, path.as_deref(), user);
    let file = if facts.is_trusted() { file } else { sealed(file).map_err(Refusal::Io)? };
    Ok((Found::File(facts, path.map(|path| bytes(&path))), Some(file)))
}

/// A server in user space says what it likes about its files, and so does an overlay above it that a user may have mounted. Nor is a file root's
/// because it says so, if another user can have put it there.
fn owned(facts: Facts, path: Option<&Path>, user: Owner) -> Facts {
    let is_only_said = facts.is_trusted() || [FUSE, OVERLAY].contains(&facts.file_system);
    let is_so = !is_only_said || path.is_some_and(|path| is_ours(path, &facts));
    Facts { owner: if is_so { facts.owner } else { user }, ..facts }
}

pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getuid;
    use std::io;
    use std::process::{Child, Command, Stdio};

    #[test]
    fn write_goes_into_examined_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let seen = RegularFile::given(file.reopen().unwrap()).unwrap().facts;
        let write = |seen: Facts| {
            // A range that is no mapping: its file is found by its name.
            let path = file.path().to_str().unwrap();
            let own = std::process::id();
            let mapped = Mapped {
                start: 0x1000,
                end: 0x2000,
                device: seen.device,
                inode: seen.inode,
                path: path.into(),
            };
            find(&Base::Process(own), seen.owner, What::Write(mapped, seen, 3, b"note".to_vec()))
                .map(drop)
        };
        let other = write(Facts { owner: Owner::of_user(1501), ..seen });
        assert!(matches!(other, Err(Refusal::OtherFile)), "{other:?}");
        assert_eq!(std::fs::read(file.path()).unwrap(), b"");
        write(seen).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"\0\0\0note");
    }

    /// Until the process runs a program of this name.
    fn run(command: &mut Command, name: &str) -> Child {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        let runs =
            || std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with(name));
        while !runs() {
            assert!(child.try_wait().unwrap().is_none(), "{command:?}");
        }
        child
    }

    #[test]
    fn overlay_root_files_belong_to_user() {
        const USER: Owner = Owner::of_user(77);
        let owner = |child: &Child| match find(&Base::Process(child.id()), USER, What::Executable) {
            Ok((Found::File(facts, _), Some(file))) => {
                assert_eq!(file.read_at(&mut [0], 0).is_ok(), facts.is_trusted());
                facts.owner
            }
            other => panic!("{:?}", other.err()),
        };
        let script = "mount -t overlay overlay -o lowerdir=/usr:/etc /mnt && exec /mnt/bin/cat";
        let unshare = ["--user", "--map-root-user", "--mount", "sh", "-c", script];
        let within = run(Command::new("unshare").args(unshare), "mnt/bin/cat");
        assert_eq!(owner(&within), USER);
        // Also of a process that has nothing of its own mounted.
        let path = format!("/proc/{}/root/mnt/bin/cat", within.id());
        let here = run(&mut Command::new(path), "mnt/bin/cat");
        assert_eq!(owner(&here), USER);
        // A file system that is mounted there is mounted here, too.
        let unshare = ["--user", "--map-root-user", "--mount", "cat"];
        let shared = run(Command::new("unshare").args(unshare), "bin/cat");
        assert_eq!(owner(&shared), Owner::of_user(0));
        [here, within, shared].into_iter().for_each(end);
    }

    #[test]
    fn fuse_owner_is_ignored() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stored = RegularFile::given(file.reopen().unwrap()).unwrap().facts;
        let [own, user, other] = [getuid().as_raw(), 1501, 1502].map(Owner::of_user);
        for owner in [own, other] {
            let said = Facts { owner, file_system: FUSE, ..stored };
            assert_eq!(owned(said, Some(file.path()), user).owner, user);
        }
        assert_eq!(owned(Facts { owner: other, ..stored }, None, user).owner, other);
        // In a directory where everybody may put files.
        assert_eq!(owned(Facts { owner: own, ..stored }, Some(file.path()), user).owner, user);
    }

    #[test]
    fn mounts_and_links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("map"), "").unwrap();
        std::os::unix::fs::symlink(path("map"), path("link")).unwrap();
        let (map, link) = (path("map"), path("link"));
        let script = format!("mount --bind /proc/self/exe {} && exec cat", map.display());
        let unshare = ["--user", "--map-root-user", "--mount", "sh", "-c", &script];
        let within = run(Command::new("unshare").args(unshare), "bin/cat");
        let its = Base::Process(within.id());
        let open = |base: &Base, path: &Path| {
            find(base, Owner::of_user(1501), What::OpenItself(bytes(path))).map(drop)
        };
        assert!(matches!(open(&its, &map), Err(Refusal::Mount)));
        assert!(open(&Base::Own, &map).is_ok());
        assert!(matches!(open(&Base::Own, &link), Err(Refusal::Link)));
        end(within);
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn refusal_survives_transfer() {
        let missing = io::Error::from_raw_os_error(13);
        for refusal in [Refusal::Link, Refusal::OtherOwner(7), Refusal::Io(missing)] {
            let told: Refusal = borsh::from_slice(&borsh::to_vec(&refusal).unwrap()).unwrap();
            assert_eq!(told.to_string(), refusal.to_string());
        }
    }
}
