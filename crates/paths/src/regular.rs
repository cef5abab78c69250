//! A regular file, looked at before it is opened.

use pathrs::HandleRef;
use pathrs::error::{Error, ErrorKind};
use pathrs::flags::OpenFlags;
use ramson_apart::{Owner, proc};
use rustix::fs::{AtFlags, FileType, Stat, StatxFlags, fstat, fstatfs, statx};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// linux/magic.h.
pub(crate) const OVERLAY: u64 = 0x794c_7630;

/// File systems whose regular files are no stored bytes (linux/magic.h). Reading `/proc/kmsg` takes lines away from syslog; a write to a file in
/// /sys acts, and an open in debugfs may wait.
const PSEUDO_FILE_SYSTEMS: [u64; 17] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x27_e0eb,   // cgroup
    0x6367_7270, // cgroup2
    0xcafe_4a11, // bpf
    0x6265_6570, // configfs
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0xf97c_ff8c, // selinux
    0x4343_5d53, // smack
    0x6e73_6673, // nsfs
    0x1cd1,      // devpts
    0x4249_4e4d, // binfmt_misc
    0x1980_0202, // mqueue
];

/// A regular file, open for reading.
#[derive(Debug)]
pub struct RegularFile {
    /// Its content, open.
    pub file: File,
    /// Facts about the file when it was opened.
    pub facts: Facts,
    /// Name that the kernel gave the file then.
    pub(crate) path: Option<PathBuf>,
}

/// Which file it is, and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Device of the file system, as stat has it.
    pub device: u64,
    /// Number of the file there.
    pub inode: u64,
    /// Length.
    pub bytes: u64,
    /// Bytes that the file takes on disk.
    pub allocated_bytes: u64,
    /// Whose it is.
    pub owner: Owner,
    /// Group ID.
    pub group: u32,
    /// Kind of the file system (linux/magic.h); 0: not asked.
    pub file_system: u64,
    /// Permission bits.
    pub mode: u32,
    /// Time of the last change of its content, since 1970.
    pub modified_ns: i128,
    /// When it was made, since 1970; 0: not asked, or the file system does not tell.
    pub created_ns: i128,
}

impl RegularFile {
    /// Takes a file that was opened elsewhere.
    pub fn given(file: File) -> io::Result<Self> {
        let facts = Facts::of(&fstat(&file)?);
        Ok(Self { file, facts, path: None })
    }

    /// The name that the kernel gave the file when it was opened.
    pub fn name(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl Facts {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            bytes: stat.st_size.cast_unsigned(),
            allocated_bytes: stat.st_blocks.cast_unsigned() * 512,
            owner: Owner::of_user(stat.st_uid),
            group: stat.st_gid,
            file_system: 0,
            mode: stat.st_mode & 0o7777,
            modified_ns: modified_ns(stat),
            created_ns: 0,
        }
    }

    /// Whether it belongs to root or to the user who runs this.
    pub fn is_trusted(&self) -> bool {
        self.owner.is_trusted()
    }

    /// Whether every user may read it.
    pub fn is_public(&self) -> bool {
        self.mode & 0o004 != 0
    }
}

/// Why a path was not opened.
#[derive(Debug)]
pub enum Refusal {
    /// Nothing is there.
    Missing,
    /// Something else than a file with bytes.
    NotRegular(Kind),
    /// A file that the kernel makes up.
    Pseudo,
    /// A link where none may be.
    Link,
    /// Another file system is mounted there, which may be another user's.
    Mount,
    /// Another file than the one that is mapped.
    OtherFile,
    /// It belongs to this user, and the directory to another.
    OtherOwner(u32),
    /// The kernel refused.
    Io(io::Error),
}

/// Kind of a file that is not a regular one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A list of files.
    Directory,
    /// A pipe with a name.
    Fifo,
    /// A socket of the Unix domain.
    Socket,
    /// A block or character device.
    Device,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "a directory",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::Device => "a device",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no such file"),
            Self::NotRegular(kind) => write!(f, "{kind}, not a regular file"),
            Self::Pseudo => f.write_str("a kernel file (as in /proc), not one on a disk"),
            Self::Link => f.write_str("a symbolic link, which is not followed there"),
            Self::Mount => f.write_str("another file system is mounted there"),
            Self::OtherFile => f.write_str("replaced: another file is mapped"),
            Self::OtherOwner(user) => {
                write!(f, "it belongs to user {user}, who does not own the directory")
            }
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Io(error) => error,
            Refusal::Missing => io::ErrorKind::NotFound.into(),
            other => Self::other(other.to_string()),
        }
    }
}

impl Refusal {
    /// Why the kernel refused.
    pub(crate) fn from_io(error: io::Error) -> Self {
        rustix::io::Errno::from_io_error(&error).map_or(Self::Io(error), Self::from)
    }
}

impl From<rustix::io::Errno> for Refusal {
    fn from(error: rustix::io::Errno) -> Self {
        match error {
            rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => Self::Missing,
            rustix::io::Errno::LOOP => Self::Link,
            rustix::io::Errno::XDEV => Self::Mount,
            other => Self::Io(other.into()),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::OsError(Some(number)) => rustix::io::Errno::from_raw_os_error(number).into(),
            _ => Self::Io(io::Error::other(error.to_string())),
        }
    }
}

/// Time of the last change, since 1970.
pub(crate) fn modified_ns(stat: &Stat) -> i128 {
    nanoseconds(stat.st_mtime, stat.st_mtime_nsec)
}

fn nanoseconds(seconds: i64, rest: u64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(rest)
}

/// Opens for reading what an O_PATH descriptor refers to, if that is a regular file that is stored.
pub(crate) fn open_regular(path_only: impl AsFd) -> Result<RegularFile, Refusal> {
    let facts = look_at(path_only.as_fd())?;
    let file = if proc::is_inside() {
        proc::open_again(&path_only)?.into()
    } else {
        // Without O_NONBLOCK a lease that the owner holds would delay the open.
        let flags = OpenFlags::O_RDONLY | OpenFlags::O_NONBLOCK;
        let flags = flags | OpenFlags::O_NOCTTY | OpenFlags::O_CLOEXEC;
        HandleRef::from_fd(path_only.as_fd()).reopen(flags)?
    };
    Ok(RegularFile { facts, path: descriptor_path(&file), file })
}

/// Returns the facts about a regular file that is stored.
pub(crate) fn look_at(path_only: impl AsFd) -> Result<Facts, Refusal> {
    let stat = fstat(&path_only)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => None,
        FileType::Directory => Some(Kind::Directory),
        FileType::Fifo => Some(Kind::Fifo),
        FileType::Socket => Some(Kind::Socket),
        FileType::Symlink => return Err(Refusal::Link),
        _ => Some(Kind::Device),
    };
    if let Some(kind) = kind {
        return Err(Refusal::NotRegular(kind));
    }
    let file_system = file_system_of(&path_only)?;
    if PSEUDO_FILE_SYSTEMS.contains(&file_system) {
        return Err(Refusal::Pseudo);
    }
    Ok(Facts { file_system, created_ns: created_ns(&path_only), ..Facts::of(&stat) })
}

fn created_ns(file: impl AsFd) -> i128 {
    let facts = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    facts.map_or(0, |facts| nanoseconds(facts.stx_btime.tv_sec, facts.stx_btime.tv_nsec.into()))
}

/// Returns the kernel's path of the file that one of our descriptors refers to.
pub(crate) fn descriptor_path(descriptor: impl AsFd) -> Option<PathBuf> {
    // To read a link of /proc's asks no file system.
    proc::name_of(&descriptor).ok()
}

/// Whether its file system stores no bytes.
pub(crate) fn is_pseudo(file: impl AsFd) -> rustix::io::Result<bool> {
    Ok(PSEUDO_FILE_SYSTEMS.contains(&file_system_of(file)?))
}

/// Its kind (linux/magic.h).
pub(crate) fn file_system_of(file: impl AsFd) -> rustix::io::Result<u64> {
    Ok(fstatfs(file)?.f_type.cast_unsigned() & 0xffff_ffff)
}
