//! Name of a profile file, and identity of this process.

use super::{ProfileFile, read_file};
use crate::arch;
use crate::config::Config;
use crate::counter;
use crate::sys::{self, AT_FDCWD, EEXIST, Errno, File, permit};
use crate::text::Text;
use ramson_format::settings::{PATH_BYTES, parse_number};

/// Images of one process, one exec after the other, that have a file of their own beside the one that the user named.
const MAX_IMAGES: u64 = 1000;
/// The kernel's number of the PID namespace that it starts with (PROC_PID_INIT_INO).
const INITIAL_NAMESPACE: u64 = 0xefff_fffc;
/// See errno(3).
const NAME_TOO_LONG: Errno = Errno(36);

/// Identity of this process among all others on this machine, ever. 0 is "not known".
#[derive(Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// In its own PID namespace.
    pub pid: u32,
    pub start_ticks: u64,
    /// Inode of its PID namespace: in containers that share a directory, ids repeat.
    pub namespace: u64,
}

impl ProcessStat {
    #[inline(never)]
    pub fn read() -> Self {
        let mut buffer = [0u8; PATH_BYTES];
        let length = read_file(c"/proc/self/stat", &mut buffer);
        let text = buffer.get(..length).unwrap_or_default();
        let pid_in_proc = parse_number(text).map_or(0, |(pid, _)| pid as u32);
        // /proc may be that of another namespace.
        let pid = if permit::is_full() { sys::process_id() } else { pid_in_proc };
        let start_ticks = start_ticks_in(text);
        let namespace = sys::identity_of(c"/proc/self/ns/pid", 0).map_or(0, |[_, inode]| inode);
        Self { pid, start_ticks, namespace }
    }

    /// No other process, dead or alive, has the same.
    fn is_known(&self) -> bool {
        self.start_ticks != 0 && self.namespace != 0
    }
}

/// The directory of this user's profiles. In /var/tmp any user can take its name before; for root there is another place, where none can.
#[inline(never)]
fn open_usual_directory(path: &mut Text) -> Option<File> {
    let user = sys::user_id();
    let mut open_in = |parent: &[u8]| {
        path.clear();
        path.push(parent).push(b"/ramson-").push_number(user as u64);
        let opened = make_and_open(path, arch::O_NOFOLLOW);
        let owner = opened.as_ref().map_err(|&error| error).and_then(File::stat);
        match owner {
            Ok(owner) if owner.uid == user && owner.mode & 0o077 == 0 => opened.ok(),
            _ => None,
        }
    };
    open_in(b"/var/tmp").or_else(|| if user == 0 { open_in(b"/var/lib") } else { None })
}

/// A directory, made for this user only if it is missing.
fn make_and_open(path: &Text, flags: i32) -> Result<File, Errno> {
    let path = path.as_c_str().ok_or(NAME_TOO_LONG)?;
    // It may exist; what counts is whose it is.
    let _ = sys::make_directory(path, 0o700);
    let flags = sys::O_RDONLY | arch::O_DIRECTORY | sys::O_CLOEXEC | flags;
    sys::open_at(AT_FDCWD, path, flags, 0)
}

/// Field 22 of /proc/self/stat. The second field is a name in parentheses that may contain anything.
pub fn start_ticks_in(stat: &[u8]) -> u64 {
    let after_name = stat.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    let mut fields = stat.get(after_name..).unwrap_or_default().split(|&byte| byte == b' ');
    // ")" itself is field 2, so field 22 is 20 further on.
    fields.nth(20).and_then(parse_number).map_or(0, |(ticks, _)| ticks)
}

impl ProfileFile {
    /// Opens a new file where the user asked for it, else in the directory of profiles.
    #[inline(never)]
    pub(super) fn open(&mut self, config: &Config, stat: &ProcessStat) -> Option<File> {
        if let Some(output) = &config.output {
            return self.open_output(output, stat.pid);
        }
        let opened = match &config.directory {
            Some(directory) => {
                self.path = *directory;
                make_and_open(&self.path, 0).ok()?
            }
            None => open_usual_directory(&mut self.path)?,
        };
        let mut name = Text::new();
        name.push_number(stat.pid as u64).push(b"-").push_number(stat.start_ticks);
        // An exec ends an attachment without a word, and what is attached to next is not to take the place of its profile.
        if !stat.is_known() || config.is_attached {
            name.push(b"-").push_number(counter::cycles());
        } else if stat.namespace != INITIAL_NAMESPACE {
            name.push(b"-").push_number(stat.namespace);
        }
        name.push(b".ramson");
        self.path.push(b"/").push(name.as_c_str()?.to_bytes());
        match self.open_new() {
            // The same process before it called exec: that image has ended well.
            Err(EEXIST) if stat.is_known() => {
                let _ = sys::unlink_at(&opened, name.as_c_str()?);
                self.open_new().ok()
            }
            file => file.ok(),
        }
    }

    /// FILE, FILE.PID, FILE.PID.2 …: a process that calls exec keeps its id, and each image its profile.
    fn open_output(&mut self, output: &Text, pid: u32) -> Option<File> {
        for attempt in 0..=MAX_IMAGES {
            self.path = *output;
            if attempt > 0 {
                self.path.push(b".").push_number(pid as u64);
            }
            if attempt > 1 {
                self.path.push(b".").push_number(attempt);
            }
            match self.open_new() {
                Err(EEXIST) => {}
                file => return file.ok(),
            }
        }
        None
    }

    /// Keeps what `unlink` needs: the path from the root, as the program may change its directory, and which file it is.
    #[inline(never)]
    pub(super) fn remember(&mut self, file: &File) {
        self.identity = file.identity().unwrap_or_default();
        let mut link = Text::new();
        link.push(b"/proc/self/fd/").push_number(file.number());
        let mut target = [0u8; PATH_BYTES];
        let length = link.as_c_str().and_then(|link| sys::read_link(link, &mut target).ok());
        let absolute = target.get(..length.unwrap_or(0)).unwrap_or_default();
        if absolute.starts_with(b"/") && absolute.len() < PATH_BYTES {
            self.path.clear();
            self.path.push(absolute);
        }
    }

    /// Read-only for everybody else who opens it, its owner too: the program would not survive a slip like `> FILE`.
    fn open_new(&self) -> Result<File, Errno> {
        const MODE: u32 = 0o400;
        let open_flags =
            sys::O_RDWR | sys::O_CREAT | sys::O_EXCL | sys::O_CLOEXEC | arch::O_NOFOLLOW;
        sys::open_at(AT_FDCWD, self.path.as_c_str().ok_or(NAME_TOO_LONG)?, open_flags, MODE)
    }
}
