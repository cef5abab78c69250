//! What the bytes of a profile can be read from again and again while its process runs, and after it is gone.

use crate::maps::{ProfileMap, bytes_of_map, has_mapped, open_found, profile_maps};
use crate::recording::Recording;
use ramson_reader::{Header, ProcessRange, ReadAt, Snapshot};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;

/// The file behind a source, as seen from the process where that runs elsewhere; else its memory.
pub fn reader_of(source: &Recording) -> Option<Box<dyn ReadAt>> {
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
        .filter_map(|map| ProcessRange::open(pid, map.start, map.end).ok())
        .find(|memory| is_it(memory));
    Some(Box::new(memory?))
}

/// Opens a profile that is open for reading once more. libramson makes it read-only, so that it is
/// not truncated by mistake; its owner must allow himself to write, for a moment. Another ramson
/// may end that moment, so it is tried again.
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

impl Recording {
    /// The bytes of its profile, to be read again; `None` where they are gone, or came through a pipe.
    pub fn bytes(&self) -> Option<Box<dyn ReadAt>> {
        let Some(pid) = self.running else {
            return Some(Box::new(open_found(&self.origin)?));
        };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let is_it = |bytes: &dyn ReadAt| {
            let header = Snapshot::read(bytes).map(|snapshot| snapshot.header);
            header.is_ok_and(|header| {
                header.start_monotonic_ns == self.snapshot.header.start_monotonic_ns
                    && header.pid == self.snapshot.header.pid
            })
        };
        profile_maps(&maps)
            .flat_map(|map| bytes_of_map(pid, &map))
            .find_map(|(bytes, _)| is_it(&*bytes).then_some(bytes))
    }

    /// Whether its process still has it mapped, also where its file was removed: exec keeps the process ID. `file` is what was opened
    /// under its name, which may be gone, or another file's.
    pub fn is_still_mapped(&self, file: Option<&File>) -> bool {
        let Some(pid) = self.running else { return false };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let is_it = |map: ProfileMap| map.path.trim_end_matches(" (deleted)") == self.origin;
        self.origin.starts_with("memory of ")
            || profile_maps(&maps).any(is_it)
            || file.is_some_and(|file| has_mapped(pid, file))
    }
}
