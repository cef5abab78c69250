//! libramson.so is brought into a process: as a file in memory that the process makes for it, so that nothing has to be in its root
//! directory, and then by the process's own dlopen(3).

use super::guest::LOADED_BY;
use super::loader::RESTART;
use super::object::Object;
use crate::outside::{Callee, NOTHING, refused};
use ramson_inject::{Argument, Step};
use ramson_process::glibc::LibraryData;
use ramson_process::identify::base_name;
use ramson_source::{Failure, Target};
use rustix::fs::{AtFlags, CWD, MemfdFlags, OFlags, Statx, StatxFlags, memfd_create, statx};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Readers know the library by the end of it.
const NAME: &[u8] = b"ramson/libramson.so\0";
/// Name of the file in /proc/PID/fd.
pub const LINK: &str = "/memfd:ramson/libramson.so";
const MFD_CLOEXEC: u64 = 1;
/// Since Linux 6.3; without it a system may be set up to refuse the code in such a file.
const MFD_EXEC: u64 = 0x10;
const RTLD_NOW: u64 = 2;
/// glibc's own callers of `__libc_dlopen_mode` give it.
const RTLD_DLOPEN: u64 = 0x8000_0000;
/// Arguments of a call: the name, which begins the step's data, and 0.
const DATA: [Argument; 2] = [Argument::Data(0), Argument::Word(0)];

/// How calls are made in a process: on a thread that holds none of the locks that they take.
pub struct Caller<'a> {
    pub callee: &'a Callee<'a>,
    pub locks: Option<&'a LibraryData>,
    pub is_loader_free: &'a dyn Fn(Duration) -> bool,
}

/// How long threads were stopped.
#[derive(Default)]
pub struct Stops(pub Vec<Duration>);

impl Caller<'_> {
    pub fn call(&self, steps: &[Step], stops: &mut Stops) -> Result<(), Failure> {
        let called = self.callee.call_library(steps, self.locks, self.is_loader_free)?;
        stops.0.push(called.stopped);
        Ok(())
    }
}

/// The functions of the C library that are called.
pub struct Functions {
    memfd_create: u64,
    close: u64,
    dlopen: u64,
    dlopen_mode: u64,
    dlerror: Option<u64>,
    pub dl_iterate_phdr: u64,
    /// pthread_mutex_trylock(3) and pthread_mutex_unlock(3); before 2.34 not in programs without threads.
    pub mutex: Option<[u64; 2]>,
}

/// Starts of the C library's names. Before 2.34 a link had the first one, and the file the other.
const LIBC: [&str; 2] = ["libc.so.6", "libc-2."];

fn is_named(path: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| base_name(path).starts_with(start))
}

impl Functions {
    pub fn find(callee: &mut Callee, objects: &[Object]) -> Result<Self, Failure> {
        let names = [
            "memfd_create",
            "close",
            "dl_iterate_phdr",
            "dlopen",
            "dlerror",
            "__libc_dlopen_mode",
            "pthread_mutex_trylock",
            "pthread_mutex_unlock",
        ];
        let is_libc = |object: &&Object| is_named(&object.name, &LIBC);
        if let Some(libc) = objects.iter().find(is_libc) {
            callee.return_through(libc.dynamic_at)?;
        }
        let callee = &*callee;
        let of = |starts: &[&str]| {
            let is_it = |object: &&Object| is_named(&object.name, starts);
            // The process says where they are, and the kernel which file that is.
            objects.iter().filter(is_it).find_map(|object| {
                let code = callee.code_of(object.dynamic_at)?;
                is_named(&code.path, starts)
                    .then(|| callee.functions(&names, |area| ptr::eq(area, code)))?
            })
        };
        let libraries = [&LIBC[..], &["libdl"], &["libpthread"]];
        let [libc, libdl, libpthread] =
            libraries.map(|names| of(names).unwrap_or_else(|| vec![None; 8]));
        let mutex = [&libpthread, &libc].map(|library| library[6].zip(library[7]));
        let missing =
            |name: &str| refused(callee.target, &format!("its C library has no {name}"), RESTART);
        let needed = |place: usize| libc[place].ok_or_else(|| missing(names[place]));
        let (dlopen, dlopen_mode) = match (libc[3].or(libdl[3]), libc[5]) {
            (Some(dlopen), _) => (dlopen, RTLD_NOW),
            // Before 2.34, where libdl is not loaded.
            (None, Some(dlopen)) => (dlopen, RTLD_NOW | RTLD_DLOPEN),
            (None, None) => return Err(missing("dlopen")),
        };
        Ok(Self {
            memfd_create: needed(0)?,
            close: needed(1)?,
            dl_iterate_phdr: needed(2)?,
            dlopen,
            dlopen_mode,
            dlerror: libc[4].or(libdl[4]),
            mutex: mutex.into_iter().flatten().next().map(|(try_lock, unlock)| [try_lock, unlock]),
        })
    }
}

/// The file in memory that was made for the library, as the process has it open. The program may close any descriptor at any time, and have
/// another file under its number then.
pub struct Place {
    pid: u32,
    number: u64,
    inode: u64,
}

impl Place {
    fn is_still(&self) -> bool {
        inode_at(&format!("/proc/{}/fd/{}", self.pid, self.number)) == Some(self.inode)
    }
}

/// Returns the inode of a file that has our name. Others are not even looked at, because their file systems may be anyone's.
fn inode_at(path: &str) -> Option<u64> {
    let link = fs::read_link(path).ok()?;
    let is_it = link.to_str()?.strip_suffix(" (deleted)") == Some(LINK);
    is_it.then(|| facts_at(path))?.map(|facts| facts.stx_ino)
}

/// Facts as the kernel has them already: another user's file system may never answer, and a file of it can have our name, too.
fn facts_at(path: &str) -> Option<Statx> {
    let wanted = StatxFlags::INO | StatxFlags::NLINK;
    statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted).ok()
}

/// One that is open still, as after a ramson that was killed.
pub fn left_open(pid: u32) -> Option<Place> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut places = entries.filter_map(|entry| {
        let inode = inode_at(entry.path().to_str()?)?;
        Some(Place { pid, number: entry.file_name().to_str()?.parse().ok()?, inode })
    });
    places.next()
}

/// Closes it, if it is still that file when the thread has stopped.
pub fn close(
    caller: &Caller,
    functions: &Functions,
    place: &Place,
    stops: &mut Stops,
) -> Result<(), Failure> {
    let arguments = [Argument::Word(place.number)];
    let is_still = || place.is_still();
    let step = Step { condition: Some(&is_still), ..Step::new(functions.close, &arguments) };
    caller.call(&[step], stops)
}

/// Loads the library.
pub fn load(
    caller: &Caller,
    functions: &Functions,
    library: &[u8],
    stops: &mut Stops,
) -> Result<(), Failure> {
    const MOST_TRIES: u32 = 4;
    let target = caller.callee.target;
    for _ in 0..MOST_TRIES {
        let place = match left_open(target.pid) {
            Some(place) => place,
            None => make(caller, functions, stops)?,
        };
        if write(target, &place, library)? && open(caller, functions, &place, stops)? {
            return Ok(());
        }
    }
    Err(refused(target, "it keeps closing descriptors that it did not open", "Try again"))
}

/// False: the place had another file when the thread had stopped, and nothing was called.
fn open(
    caller: &Caller,
    functions: &Functions,
    place: &Place,
    stops: &mut Stops,
) -> Result<bool, Failure> {
    let path = format!("{LOADED_BY}{}\0", place.number);
    let has_been = AtomicBool::new(false);
    let is_still = || place.is_still();
    let is_there = || {
        has_been.store(place.is_still(), Relaxed);
        has_been.load(Relaxed)
    };
    let close = [Argument::Word(place.number)];
    let open = [Argument::Data(0), Argument::Word(functions.dlopen_mode)];
    let steps = [
        Step {
            data: path.as_bytes(),
            condition: Some(&is_there),
            ..Step::new(functions.dlopen, &open)
        },
        Step { condition: Some(&is_still), ..Step::new(functions.close, &close) },
    ];
    caller.call(&steps, stops)?;
    Ok(has_been.load(Relaxed))
}

/// Takes the loader's message about a load that failed away, because the message is nothing for the program.
pub fn forget_error(caller: &Caller, functions: &Functions, stops: &mut Stops) {
    if let Some(function) = functions.dlerror {
        // Nothing to be done about it.
        let _ = caller.call(&[Step::new(function, &[])], stops);
    }
}

// Hazard, never seen: the program opens a descriptor, or forks, in the milliseconds in which the file is open. The file has the lowest free
// number, so the program gets the next one. The child keeps the file until it calls exec.
fn make(caller: &Caller, functions: &Functions, stops: &mut Stops) -> Result<Place, Failure> {
    let target = caller.callee.target;
    for flags in [MFD_CLOEXEC | MFD_EXEC, MFD_CLOEXEC] {
        let arguments = [DATA[0], Argument::Word(flags)];
        let step = Step { data: NAME, ..Step::new(functions.memfd_create, &arguments) };
        caller.call(&[step], stops)?;
        if let Some(place) = left_open(target.pid) {
            return Ok(place);
        }
    }
    let why = "it cannot create a file in memory (memfd_create): too many open files, or the system forbids it";
    Err(refused(target, why, RESTART))
}

/// Writes the library into the process's file in memory, and into no other: a process may give its descriptors any meaning at any time. False:
/// another file has its number by now.
fn write(target: &Target, place: &Place, library: &[u8]) -> Result<bool, Failure> {
    let failed = |error: io::Error| {
        refused(target, &format!("its file in memory cannot be written: {error}"), NOTHING)
    };
    let path = format!("/proc/{}/fd/{}", target.pid, place.number);
    // Without an effect on what it is.
    let held = File::options().read(true).custom_flags(OFlags::PATH.bits() as i32).open(path);
    let Ok(held) = held else { return Ok(false) };
    let own =
        File::from(memfd_create("ramson", MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?);
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    if inode_at(&path) != Some(place.inode) {
        return Ok(false);
    }
    let own = facts_at(&format!("/proc/self/fd/{}", own.as_raw_fd()));
    let device = |facts: &Statx| (facts.stx_dev_major, facts.stx_dev_minor);
    let is_like = |(facts, own)| device(&facts) == device(&own) && facts.stx_nlink == 0;
    if !facts_at(&path).zip(own).is_some_and(is_like) {
        return Ok(false);
    }
    let written = File::options().write(true).truncate(true).open(path);
    written.and_then(|mut file| file.write_all(library)).map_err(failed)?;
    Ok(true)
}
