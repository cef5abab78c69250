//! libramson.so is brought into a process: as a file in memory that the process makes for it, so that nothing has to be in its root
//! directory, and then by the process's own dlopen(3).

use super::loader::RESTART;
use super::object::Object;
use crate::outside::{Callee, NOTHING, refused};
use ramson_inject::{Argument, Step};
use ramson_process::glibc::LibraryData;
use ramson_process::identify::base_name;
use ramson_source::{Failure, Target};
use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::Duration;

/// Readers know the library by the end of it.
const NAME: &[u8] = b"ramson/libramson.so\0";
/// What the file is called in /proc/PID/fd.
const LINK: &str = "/memfd:ramson/libramson.so";
const MFD_CLOEXEC: u64 = 1;
/// Since Linux 6.3; without it a system may be set up to refuse the code in such a file.
const MFD_EXEC: u64 = 0x10;
const RTLD_NOW: u64 = 2;
/// glibc's own callers of `__libc_dlopen_mode` give it.
const RTLD_DLOPEN: u64 = 0x8000_0000;
/// Where the name is in a step's data.
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
}

impl Functions {
    pub fn find(callee: &Callee, objects: &[Object]) -> Result<Self, Failure> {
        let names =
            ["memfd_create", "close", "dl_iterate_phdr", "dlopen", "dlerror", "__libc_dlopen_mode"];
        let of = |start: &str| {
            let is_it = |object: &&Object| base_name(&object.name).starts_with(start);
            let object = objects.iter().find(is_it)?;
            object.symbols(&callee.memory, &names)
        };
        let libc = of("libc.so.6").or_else(|| of("libc-2.")).unwrap_or_else(|| vec![None; 6]);
        let libdl = of("libdl").unwrap_or_else(|| vec![None; 6]);
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
        })
    }
}

/// The number of a file in memory that was made for the library and is open still, as after a ramson that was killed.
pub fn left_open(pid: u32) -> Option<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut numbers = entries.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        is_link(target.to_str()?).then(|| entry.file_name().to_str()?.parse().ok()).flatten()
    });
    numbers.next()
}

/// Closes it.
pub fn close(
    caller: &Caller,
    functions: &Functions,
    number: u64,
    stops: &mut Stops,
) -> Result<(), Failure> {
    let arguments = [Argument::Word(number)];
    caller.call(&[Step { function: functions.close, arguments: &arguments, data: &[] }], stops)
}

/// Loads the library.
pub fn load(
    caller: &Caller,
    functions: &Functions,
    library: &[u8],
    stops: &mut Stops,
) -> Result<(), Failure> {
    let target = caller.callee.target;
    let number = match left_open(target.pid) {
        Some(number) => number,
        None => make(caller, functions, stops)?,
    };
    write(target, number, library)?;
    let path = format!("/proc/self/fd/{number}\0");
    let close = [Argument::Word(number)];
    let open = [Argument::Data(0), Argument::Word(functions.dlopen_mode)];
    let steps = [
        Step { function: functions.dlopen, arguments: &open, data: path.as_bytes() },
        Step { function: functions.close, arguments: &close, data: &[] },
    ];
    caller.call(&steps, stops)
}

/// What the loader says of a load that failed is nothing for the program.
pub fn forget_error(caller: &Caller, functions: &Functions, stops: &mut Stops) {
    if let Some(function) = functions.dlerror {
        // Nothing to be done about it.
        let _ = caller.call(&[Step { function, arguments: &[], data: &[] }], stops);
    }
}

fn make(caller: &Caller, functions: &Functions, stops: &mut Stops) -> Result<u64, Failure> {
    let target = caller.callee.target;
    for flags in [MFD_CLOEXEC | MFD_EXEC, MFD_CLOEXEC] {
        let arguments = [DATA[0], Argument::Word(flags)];
        let step = Step { function: functions.memfd_create, arguments: &arguments, data: NAME };
        caller.call(&[step], stops)?;
        if let Some(number) = left_open(target.pid) {
            return Ok(number);
        }
    }
    let why = "it can make no file in memory (memfd_create): too many open files, or the system forbids it";
    Err(refused(target, why, RESTART))
}

/// Writes the library into the process's file in memory, and into no other: a process may give its descriptors any meaning at any time.
fn write(target: &Target, number: u64, library: &[u8]) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        refused(target, &format!("its file in memory cannot be written: {error}"), NOTHING)
    };
    let place = format!("/proc/{}/fd/{number}", target.pid);
    // Without an effect on what it is.
    let held = File::options().read(true).custom_flags(OFlags::PATH.bits() as i32).open(place);
    let held = held.map_err(failed)?;
    let own =
        File::from(memfd_create("ramson", MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?);
    let (facts, of_own) = (held.metadata().map_err(failed)?, own.metadata().map_err(failed)?);
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    let is_named = fs::read_link(&path).is_ok_and(|link| link.to_str().is_some_and(is_link));
    if facts.dev() != of_own.dev() || facts.nlink() != 0 || !is_named {
        return Err(failed(io::Error::other("another file has its number")));
    }
    let written = File::options().write(true).truncate(true).open(path);
    written.and_then(|mut file| file.write_all(library)).map_err(failed)
}

fn is_link(target: &str) -> bool {
    target.strip_suffix(" (deleted)") == Some(LINK)
}
