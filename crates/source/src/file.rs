//! Files and mappings that hold a profile, and what is read from them.

use crate::failure::Failure;
use crate::foreign::Foreign;
use crate::maps::{
    Map, ProcessBytes, bytes_of, bytes_of_map, has_mapped, maps, open_found, profile_maps,
};
use crate::places::open_directory_of;
use crate::recording::{Recording, complete};
use crate::root_note::note_root;
use crate::running::{self, is_running, running_elsewhere};
use crate::theirs::{self, Choice, Found, TheirBytes};
use ramson_apart::{Apart, NOBODY, Owner, bounds, for_owner, for_process};
use ramson_format::{FILE_BYTES_RANGE, MAGIC, flags, state};
use ramson_import::{Budget, ImportError, Imported, InuseAt, MallocInfo};
use ramson_paths::{Links, MapIdentity, Refusal, RegularFile, Root};
use ramson_process::{processes, watched};
use ramson_reader::{Header, MappedBytes, Passed, ReadAt, ReadError, Snapshot};
use ramson_symbols::CarriedNames;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::HashSet;
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

/// A process has its own profile mapped, and those of its ancestors that it inherited.
const MOST_MAPPED: usize = 64;

/// The profile that a SRC turned out to be.
#[expect(clippy::large_enum_variant, reason = "there are few of them")]
pub enum Opened {
    /// A profile that libramson wrote.
    Recording(Recording),
    /// A profile of another tool.
    Foreign(Foreign),
}

impl Opened {
    /// The words that the user typed, or the place where the profile was found.
    pub fn origin(&self) -> &str {
        match self {
            Self::Recording(recording) => &recording.origin,
            Self::Foreign(foreign) => &foreign.origin,
        }
    }
}

/// Fails unless a file that is stored is at `path`, or nothing: no pipe, socket or device, and no file that the kernel makes up, of which even
/// a read may have effects.
pub fn check_stored(path: &Path) -> Result<(), Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        let shown = path.display();
        Failure::usage(format!("{shown}: {why}. Save the profile to a file, and pass that"))
    };
    let whole = std::path::absolute(path).map_err(|error| failed(&error))?;
    let looked = Root::at("/".as_ref()).and_then(|root| root.look(&whole, Links::WithinRoot));
    match looked {
        Ok(_) | Err(Refusal::Missing) => Ok(()),
        Err(refusal) => Err(failed(&refusal)),
    }
}

/// Opens a file of any format.
pub fn open_any_file(path: &Path, inuse_at: InuseAt) -> Result<Opened, Failure> {
    let file = open_to_read(path)?;
    let facts = file.metadata().ok();
    let owner = facts.as_ref().map(|facts| Owner::of_user(facts.uid()));
    if !facts.is_some_and(|facts| facts.is_file()) {
        let owner = owner.unwrap_or(NOBODY);
        return open_stream(&path.display().to_string(), file, owner, inuse_at);
    }
    let mut head = [0; 4 * MAGIC.len()];
    // A profile of ours that was never begun is all zeroes; a CPU profile of gperftools only begins so.
    let is_own = match rustix::io::pread(&file, &mut head, 0) {
        Ok(0) | Err(_) => true,
        Ok(bytes) => {
            head[..bytes].iter().all(|&byte| byte == 0)
                || MAGIC.starts_with(&head[..bytes.min(MAGIC.len())])
        }
    };
    if is_own {
        return open_file(path).map(Opened::Recording);
    }
    let imported = import(file, owner, inuse_at);
    Foreign::of(&path.display().to_string(), imported, inuse_at).map(Opened::Foreign)
}

/// Reads another tool's file, within what its owner may take.
fn import(file: File, owner: Option<Owner>, inuse_at: InuseAt) -> Result<Imported, ImportError> {
    let is_trusted = owner.is_some_and(Owner::is_trusted);
    match owner.and_then(for_owner) {
        Some(by) => ramson_import::import_apart(&by, &file, inuse_at),
        None if is_trusted => ramson_import::import_file(Budget::OWN, file, inuse_at),
        None => ramson_import::import_file(Budget::stranger(), file, inuse_at),
    }
}

/// What glibc's malloc_info wrote into a file; `None` if it is another file.
pub fn malloc_info(path: &Path) -> Option<MallocInfo> {
    // To open a FIFO would wait for its writer.
    let file = File::open(Some(path).filter(|path| path.is_file())?).ok()?;
    let owner = Owner::of_user(file.metadata().ok()?.uid());
    match import(file, Some(owner), InuseAt::End) {
        Err(ImportError::MallocInfo(info)) => Some(info),
        _ => None,
    }
}

/// Opens what comes through a pipe. A worker reads it once all of it has come.
fn open_copy(
    origin: &str,
    stream: impl Read,
    by: &Apart,
    budget: Budget,
    inuse_at: InuseAt,
) -> Result<Opened, Failure> {
    let unreadable_stream = |error| unreadable(origin, &ReadError::Io(error));
    let most_bytes = budget.input_bytes.min(bounds(false).memory_bytes);
    let file = copied(stream, most_bytes).map_err(unreadable_stream)?;
    if file.metadata().is_ok_and(|facts| facts.len() > most_bytes) {
        return Foreign::of(origin, Err(ImportError::OverBudget(most_bytes)), inuse_at)
            .map(Opened::Foreign);
    }
    let mut magic = [0; MAGIC.len()];
    if rustix::io::pread(&file, &mut magic, 0).is_ok() && magic == MAGIC {
        let read = Passed::file(by.clone(), &file, most_bytes).snapshot();
        let snapshot = read.map_err(|error| unreadable(origin, &error))?;
        let names = CarriedNames::in_copy(&file).map(Arc::new);
        let recording = Recording::of(snapshot, None, origin.to_owned());
        return Ok(Opened::Recording(Recording { names, ..recording }));
    }
    let imported = ramson_import::import_apart(by, &file, inuse_at);
    Foreign::of(origin, imported, inuse_at).map(Opened::Foreign)
}

/// All that comes, in a file in memory; one byte more than allowed if there is more.
fn copied(stream: impl Read, most_bytes: u64) -> io::Result<File> {
    let mut file = File::from(memfd_create("ramson-copy", MemfdFlags::CLOEXEC)?);
    io::copy(&mut stream.take(most_bytes.saturating_add(1)), &mut file)?;
    file.rewind()?;
    Ok(file)
}

/// Opens what comes through a pipe: a profile of another tool, or a whole one of ours.
pub fn open_stream(
    origin: &str,
    mut stream: impl Read,
    owner: Owner,
    inuse_at: InuseAt,
) -> Result<Opened, Failure> {
    let budget = if owner.is_trusted() { Budget::OWN } else { Budget::stranger() };
    if let Some(by) = for_owner(owner) {
        return open_copy(origin, stream, &by, budget, inuse_at);
    }
    let mut head = Vec::new();
    let unreadable_stream = |error| unreadable(origin, &ReadError::Io(error));
    (&mut stream).take(MAGIC.len() as u64).read_to_end(&mut head).map_err(unreadable_stream)?;
    if head != MAGIC {
        let imported = ramson_import::import_within(budget, head.chain(stream), inuse_at);
        return Foreign::of(origin, imported, inuse_at).map(Opened::Foreign);
    }
    let (_, most_bytes) = FILE_BYTES_RANGE;
    let most_bytes = most_bytes.min(budget.memory_bytes);
    stream.take(most_bytes).read_to_end(&mut head).map_err(unreadable_stream)?;
    if head.len() as u64 >= most_bytes {
        let exceeded = Err(ImportError::OverBudget(most_bytes));
        return Foreign::of(origin, exceeded, inuse_at).map(Opened::Foreign);
    }
    let snapshot = Snapshot::read(head.as_slice()).map_err(|error| unreadable(origin, &error))?;
    let names = CarriedNames::in_bytes(&head).map(Arc::new);
    let recording = Recording::of(snapshot, None, origin.to_owned());
    Ok(Opened::Recording(Recording { names, ..recording }))
}

/// Opens a profile file of ours.
pub fn open_file(path: &Path) -> Result<Recording, Failure> {
    let file = open_to_read(path)?;
    let mut recording = read_file(path, &file)?;
    if recording.running.is_none()
        && let Ok(identity) = MapIdentity::of(&file)
        && let Some(pid) = running_elsewhere(&recording.snapshot.header, &identity)
    {
        recording.begin_to_run(pid);
    }
    // Its maps have whole paths without links.
    if recording.running.is_some()
        && let Ok(whole) = path.canonicalize()
    {
        recording.origin = whole.display().to_string();
    }
    Ok(recording)
}

fn open_to_read(path: &Path) -> Result<File, Failure> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::not_found(format!(
            "{shown}: no such file. Pass a process ID, name:NAME, a file, an http address or -; \"ramson list\" lists the profiles"
        )),
        ErrorKind::PermissionDenied => {
            Failure::failed(format!("{shown}: permission denied. Run ramson as the file's owner or as root"))
        }
        _ => Failure::failed(format!("{shown}: {error}")),
    })?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Failure::failed(format!("{shown}: a directory. Pass one of the files in it")));
    }
    Ok(file)
}

/// `open_file` without looking for its process in other PID namespaces.
pub fn read_file(path: &Path, file: &File) -> Result<Recording, Failure> {
    let shown = path.display().to_string();
    let snapshot = Snapshot::read(file).map_err(|error| unreadable(&shown, &error))?;
    let running = Some(snapshot.header.pid).filter(|_| is_running(&snapshot.header, file));
    let names = CarriedNames::in_file(file).map(Arc::new);
    let owner = file.metadata().ok().map(|facts| Owner::of_user(facts.uid()));
    Ok(Recording { names, owner, ..Recording::of(snapshot, running, shown) })
}

/// The same as far as a list needs it: header and what lives, no stacks and no names. `pids` ran before the file was opened.
pub fn list_file(
    path: &Path,
    bytes: &MappedBytes,
    pids: &HashSet<u32>,
) -> Result<Recording, Failure> {
    let shown = path.display().to_string();
    let snapshot = Snapshot::read_live(bytes).map_err(|error| unreadable(&shown, &error))?;
    let header = &snapshot.header;
    // To look for each of thousands takes longer than to read them.
    let may_run = header.state != state::EXITED || pids.contains(&header.pid);
    let running = Some(header.pid).filter(|_| may_run && is_running(header, &bytes.file));
    Ok(Recording { owner: Some(bytes.owner), ..Recording::of(snapshot, running, shown) })
}

/// The same of the header only.
pub fn outline_file(path: &Path, file: &File, header: Header) -> Recording {
    let running = Some(header.pid).filter(|_| is_running(&header, file));
    let owner = file.metadata().ok().map(|facts| Owner::of_user(facts.uid()));
    let snapshot = Snapshot { header, ..Snapshot::default() };
    Recording { owner, ..Recording::of(snapshot, running, path.display().to_string()) }
}

/// Why the profile at `path` cannot be read.
pub fn failure_of(path: &Path, error: &ReadError) -> Failure {
    unreadable(&path.display().to_string(), error)
}

fn unreadable(object: &str, error: &ReadError) -> Failure {
    let next = match error {
        ReadError::Version(_) => "Use the ramson that came with the library that wrote it",
        ReadError::Unfinished => "Record the program again",
        ReadError::Io(_) => "Check that it can be read",
        ReadError::TooLarge(_) => "Run ramson as its owner, or allow more, as in --budget 2G,60s",
        ReadError::Apart(failure) => failure.next_step(),
        ReadError::Empty | ReadError::NotAProfile(_) => {
            "Pass the profile file; \"ramson run ./prog\" creates one"
        }
    };
    match error {
        ReadError::NotAProfile(_) => Failure::NoProfile {
            object: object.to_owned(),
            finding: error.to_string(),
            next: next.to_owned(),
        },
        _ => Failure::failed(format!("{object}: {error}. {next}")),
    }
}

/// The profile of a running process, if it has one of its own: a forked child still has its parent's mapped, too.
pub fn open_member(pid: u32) -> Option<Recording> {
    profile_of(pid, Choice::Own)?.ok()?.open(pid)
}

/// The same with its header only.
pub fn open_outline(pid: u32) -> Option<Recording> {
    let Mapped { header, origin, .. } = profile_of(pid, Choice::Own)?.ok()?;
    Some(Recording::of(Snapshot { header, ..Snapshot::default() }, Some(pid), origin))
}

/// The profile of a running process; if it has none of its own, the first that it has mapped.
pub fn open_own_or_first(pid: u32) -> Option<Recording> {
    profile_of(pid, Choice::OwnOrFirst)?.ok()?.open(pid)
}

/// The header of the profile that `open_member` opens, and where it is.
pub fn mapped_header(pid: u32) -> Option<(Header, String)> {
    let found = profile_of(pid, Choice::Own)?.ok()?;
    Some((found.header, found.origin))
}

/// Why `open_member` cannot read what it finds.
pub fn member_failure(pid: u32) -> Option<Failure> {
    match profile_of(pid, Choice::Own)? {
        Ok(found) => {
            Snapshot::read(&*found.bytes).err().map(|error| unreadable(&found.origin, &error))
        }
        Err((error, origin)) => Some(unreadable(&origin, &error)),
    }
}

/// A profile that a process has mapped, or why it cannot be read and where it is.
type Finding = Result<Mapped, (ReadError, String)>;

fn profile_of(pid: u32, choice: Choice) -> Option<Finding> {
    let Some(by) = watched::owner_of(pid).ok()? else { return find_mapped(pid, choice) };
    Some(match theirs::find(&by, pid, choice)? {
        Found::Read(header, origin) => {
            let bytes = Box::new(TheirBytes { by, pid, choice });
            Ok(Mapped { bytes, origin, header: *header })
        }
        Found::Unreadable(error, origin) => Err((error, origin)),
    })
}

/// The same, found by this process.
pub fn find_mapped(pid: u32, choice: Choice) -> Option<Finding> {
    let own = running::own_pid(pid)?;
    let maps = || profile_maps(pid).ok().flatten().unwrap_or_default();
    let is_own = |found: &Mapped| found.header.pid == own;
    if let Some(found) = headers_of(pid, maps()).find(is_own) {
        return Some(Ok(found));
    }
    match choice {
        Choice::Own => other_version(pid).map(Err),
        Choice::OwnOrFirst => headers_of(pid, maps()).next().map(Ok),
    }
}

/// The failure to read a mapped profile, if the library of another ramson wrote it in a version that this ramson does not read.
fn other_version(pid: u32) -> Option<(ReadError, String)> {
    let process = ProcessBytes::of(pid);
    let mut mapped = profile_maps(pid).ok().flatten()?.into_iter();
    mapped.find_map(|map| {
        let (bytes, origin) = bytes_of_map(&process, map).next()?;
        let error = Header::read(&*bytes).err()?;
        matches!(error, ReadError::Version(_)).then_some((error, origin))
    })
}

/// The recording of process `pid` that has this header, where it is now: a forked child moves it from its memory to a file.
pub fn find_again(pid: u32, header: &Header) -> Option<Recording> {
    open_member(pid).filter(|found| found.snapshot.header.identity() == header.identity())
}

/// A profile that a process has mapped, of which the header was read.
pub struct Mapped {
    pub bytes: Box<dyn ReadAt>,
    pub origin: String,
    pub header: Header,
}

impl Mapped {
    fn open(self, pid: u32) -> Option<Recording> {
        let snapshot = Snapshot::read(&*self.bytes).ok()?;
        Some(Recording::of(snapshot, Some(pid), self.origin))
    }
}

fn headers_of(pid: u32, maps: Vec<Map>) -> impl Iterator<Item = Mapped> {
    let process = ProcessBytes::of(pid);
    let found = maps.into_iter().filter_map(move |map| {
        bytes_of_map(&process, map).find_map(|(bytes, origin)| match Header::read(&*bytes) {
            Ok(header) => Some(Mapped { bytes, origin, header }),
            Err(ReadError::Apart(failure)) => {
                watched::note(pid, &failure);
                None
            }
            Err(_) => None,
        })
    });
    found.take(MOST_MAPPED)
}

/// Opens a profile that is open for reading once more. libramson makes it read-only, so that it is
/// not truncated by mistake; its owner must allow himself to write, for a moment. Another ramson
/// may end that moment, so it is tried again.
pub fn open_to_write(profile: &File) -> io::Result<File> {
    const OWNER_WRITES: u32 = 0o200;
    const ATTEMPTS: usize = 5;
    let again = format!("/proc/self/fd/{}", profile.as_raw_fd());
    let open = || File::options().read(true).write(true).open(&again);
    let is_denied = |error: &io::Error| error.kind() == ErrorKind::PermissionDenied;
    let mut opened = open();
    for _ in 0..ATTEMPTS {
        if !opened.as_ref().is_err_and(is_denied) {
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
    /// The file under its name, if that is a regular one; the name may be one that a process told.
    pub fn file(&self) -> Option<RegularFile> {
        let Some(owner) = self.owner.filter(|owner| !owner.is_trusted()) else {
            let is_theirs = self.running.is_some_and(|pid| for_process(pid).is_some());
            return (!is_theirs).then(|| open_found(&self.origin)).flatten();
        };
        let (directory, name) = open_directory_of(Path::new(&self.origin)).ok()?;
        directory.open_file(name).ok().filter(|found| found.facts.owner == owner)
    }

    /// Its process was found elsewhere, and is called `pid` here.
    pub fn begin_to_run(&mut self, pid: u32) {
        self.running = Some(pid);
        complete(&mut self.snapshot, pid);
        note_root(pid, &mut self.snapshot.header, &self.origin);
    }

    /// Looks for its process in other PID namespaces.
    pub fn look_elsewhere(&mut self) {
        let header = &self.snapshot.header;
        if let Some(pid) =
            self.file().and_then(|found| running_elsewhere(header, &found.facts.into()))
        {
            self.begin_to_run(pid);
        }
    }

    fn has_pid_of(&self, pid: u32) -> bool {
        Some(self.snapshot.header.pid) == running::own_pid(pid)
    }

    /// Whether process `pid`, which has it mapped, records in it. A child that may ask for nothing goes on in its copy of what its parent had in
    /// memory, by its parent's number.
    pub fn is_of(&self, pid: u32) -> bool {
        self.has_pid_of(pid) || self.snapshot.header.flags & flags::PRIVATE != 0
    }

    /// The bytes of its profile, to be read again: its file, as seen from the process where that runs elsewhere, else the
    /// process's memory. `None` where they are gone, or came through a pipe.
    pub fn bytes(&self) -> Option<Box<dyn ReadAt>> {
        if self.is_of_go() {
            return None;
        }
        let identity = self.snapshot.header.identity();
        let is_it = |bytes: &dyn ReadAt| {
            Header::read(bytes).is_ok_and(|header| header.identity() == identity)
        };
        let file = self.file().map(|found| Box::new(bytes_of(found)) as Box<dyn ReadAt>);
        if let Some((pid, by)) = self.running.and_then(|pid| Some((pid, for_process(pid)?))) {
            let theirs = [Choice::Own, Choice::OwnOrFirst].map(|choice| {
                Box::new(TheirBytes { by: by.clone(), pid, choice }) as Box<dyn ReadAt>
            });
            return file.into_iter().chain(theirs).find(|bytes| is_it(&**bytes));
        }
        let mapped = self.running.into_iter().flat_map(|pid| {
            let process = ProcessBytes::of(pid);
            let maps = maps(pid).into_iter().flatten().filter(Map::may_be_profile);
            maps.flat_map(move |map| bytes_of_map(&process, map)).map(|(bytes, _)| bytes)
        });
        file.into_iter().chain(mapped).find(|bytes| is_it(&**bytes))
    }

    /// Whether its process still has it mapped, also where its file was removed: exec keeps the process ID. `file` is what was opened
    /// under its name, which may be gone, or another file's.
    pub fn is_still_mapped(&self, file: Option<&RegularFile>) -> bool {
        let Some(pid) = self.running else { return false };
        if self.is_of_go() {
            let exe = processes::executable(pid);
            return exe.is_some_and(|exe| exe.to_string_lossy() == self.snapshot.header.exe);
        }
        let is_it = |map: &Map| {
            map.may_be_profile() && map.path.trim_end_matches(" (deleted)") == self.origin
        };
        self.origin.starts_with("memory of ") && find_again(pid, &self.snapshot.header).is_some()
            || maps(pid).into_iter().flatten().any(|map| is_it(&map))
            || file.is_some_and(|found| has_mapped(pid, &found.facts.into()).unwrap_or(false))
    }
}
