//! What the bytes of a profile can be read from again and again while its process runs, and after it is gone.

use crate::maps::{Map, bytes_of_map, has_mapped, maps, open_found};
use crate::recording::Recording;
use ramson_reader::{Header, ReadAt};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;

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

impl Recording {
    /// The bytes of its profile, to be read again: its file, as seen from the process where that runs elsewhere, else the
    /// process's memory. `None` where they are gone, or came through a pipe.
    pub fn bytes(&self) -> Option<Box<dyn ReadAt>> {
        let identity = self.snapshot.header.identity();
        let is_it = |bytes: &Box<dyn ReadAt>| {
            Header::read(&**bytes).is_ok_and(|header| header.identity() == identity)
        };
        let file = open_found(&self.origin).map(|file| Box::new(file) as Box<dyn ReadAt>);
        let mapped = self.running.into_iter().flat_map(|pid| {
            let maps = maps(pid).unwrap_or_default().into_iter().filter(Map::may_be_profile);
            maps.flat_map(move |map| bytes_of_map(pid, map)).map(|(bytes, _)| bytes)
        });
        file.into_iter().chain(mapped).find(is_it)
    }

    /// Whether its process still has it mapped, also where its file was removed: exec keeps the process ID. `file` is what was opened
    /// under its name, which may be gone, or another file's.
    pub fn is_still_mapped(&self, file: Option<&File>) -> bool {
        let Some(pid) = self.running else { return false };
        let is_it = |map: &Map| {
            map.may_be_profile() && map.path.trim_end_matches(" (deleted)") == self.origin
        };
        self.origin.starts_with("memory of ")
            || maps(pid).unwrap_or_default().iter().any(is_it)
            || file.is_some_and(|file| has_mapped(pid, file))
    }
}
