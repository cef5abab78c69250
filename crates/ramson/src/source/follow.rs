//! What the bytes of a profile can be read from again and again while its process runs, and after it is gone.

use super::{Source, open_found, profile_maps};
use ramson_reader::{Header, ProcessMemory, ReadAt};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;

/// The file behind a source, as seen from the process where that runs elsewhere; else its memory.
pub fn reader_of(source: &Source) -> Option<Box<dyn ReadAt>> {
    let wanted = &source.snapshot.header;
    let is_it = |reader: &dyn ReadAt| {
        Header::read(reader).is_ok_and(|header| identity(&header) == identity(wanted))
    };
    let inside = source.running.map(|pid| format!("/proc/{pid}/root{}", source.origin));
    let paths = [Some(source.origin.clone()), inside].into_iter().flatten();
    let file = paths.filter_map(open_found).find(|file| is_it(file));
    if let Some(file) = file {
        return Some(Box::new(file));
    }
    let pid = source.running?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let memory = profile_maps(&maps)
        .filter_map(|map| ProcessMemory::open(pid, map.start, map.end).ok())
        .find(|memory| is_it(memory));
    Some(Box::new(memory?))
}

/// Opens a profile that is open for reading once more. libramson makes it read-only, so that nobody cuts it by mistake; its owner
/// must allow himself to write, for a moment. Another ramson may end that moment, so it is tried again.
pub fn open_to_write(profile: &File) -> io::Result<File> {
    const OWNER_WRITES: u32 = 0o200;
    const ATTEMPTS: usize = 5;
    let again = format!("/proc/self/fd/{}", profile.as_raw_fd());
    let open = || File::options().read(true).write(true).open(&again);
    let is_denied = |opened: &io::Result<File>| {
        opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    let mut opened = open();
    for _ in 0..ATTEMPTS {
        if !is_denied(&opened) {
            break;
        }
        let mode = profile.metadata()?.permissions().mode();
        profile.set_permissions(Permissions::from_mode(mode | OWNER_WRITES))?;
        opened = open();
        profile.set_permissions(Permissions::from_mode(mode & !OWNER_WRITES))?;
    }
    opened
}

fn identity(header: &Header) -> (u32, u64, u64, u64) {
    (header.pid, header.process_start_ticks, header.start_realtime_ns, header.run_id)
}
