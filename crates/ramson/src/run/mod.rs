//! `ramson run`: start a program with libramson.so preloaded, pass signals and status through, keep its profiles.

mod absent;
pub mod compact;
mod confined;
mod end_note;
pub mod keeper;
mod languages;
pub mod library;
pub mod prune;
mod roots;
mod settings;
mod signals;
mod summing;
mod watch;

use crate::flags::RunFlags;
use crate::output::remark;
use crate::output_file::check_free_file;
use crate::table::symbols_hint::debug_package;
use crate::trim;
use confined::Filters;
use keeper::Keeper;
use prune::Bounds;
use ramson_analysis::rss::live_text;
use ramson_analysis::{MmapSums, end, inside, live_heap, lost_text};
use ramson_format::{Health, state};
use ramson_process::clock::unix_ns;
use ramson_process::{executable, program};
use ramson_profile::format::format_bytes;
use ramson_reader::{Header, Way};
use ramson_source::{Failure, Recording, files_in, files_since, places};
use rustix::fs::{Access, StatVfs, access, statvfs};
use rustix::io::Errno;
use rustix::process::getuid;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, OnceLock};
use watch::{Ended, Watch, start_ticks_of};

/// Statuses of `run` itself, as env(1) and timeout(1) have them.
const RAMSON_FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Room that a profile needs at least.
const LEAST_FREE_BYTES: u64 = 256 << 10;

const MAX_REPORTED: usize = 4;

const CANNOT_STAY: &str =
    "systemd tracks it by process ID, or no second process is allowed: it replaces ramson (exec)";

pub fn run(flags: &RunFlags) -> Result<u8, Failure> {
    let fail = |message: String| Failure::Message(RAMSON_FAILED, message);
    let inherited = ramson_launch::inherited();
    if flags.command[0].as_encoded_bytes().starts_with(b"-") {
        let option = flags.command[0].to_string_lossy();
        let message = format!("{option}: no such option. \"ramson run --help\" lists them");
        return Err(Failure::usage(message));
    }
    let output =
        flags.output.as_deref().map(|path| prepare_output(path, flags.force)).transpose()?;
    let mut found = program::find(&flags.command[0]).map_err(|problem| match problem {
        program::Problem::NotFound(message) => Failure::Message(NOT_FOUND, message),
        program::Problem::NotExecutable(message) => Failure::Message(NOT_EXECUTABLE, message),
    })?;
    found.obstacle = found.obstacle.or_else(|| settings::obstacle(std::env::vars_os()));
    let mut command = Command::new(&found.path);
    command.args(&flags.command[1..]);
    let shown = found.path.display();
    let run_id = new_run_id();
    let mut is_kept = true;
    let library = match found.obstacle {
        None => library::for_program(&found.path).map_err(fail)?,
        Some(_) => None,
    };
    if let Some(library) = &library {
        languages::say_frames(&found.path, flags, &mut command);
        let filters = record_with(library, &mut command, flags, output.as_deref(), run_id);
        is_kept = !make_place(output.as_deref()) & !filters.warn(&found.path);
    }
    let trims = trim::schedule(&flags.trims).map_err(fail)?;
    ramson_launch::as_started(&mut command, &flags.command[0])
        .map_err(|error| cannot_execute(&found, &error))?;
    let watch = Watch::begin();
    let (child, its_end) = match start(&mut command) {
        Ok(started) => started,
        Err(error) if !is_refused(&error) => return Err(cannot_execute(&found, &error)),
        Err(_) => {
            say_obstacle(&found);
            if trims.is_some() {
                remark(format!("{shown}: {CANNOT_STAY}, which then cannot trim"));
            }
            return Err(cannot_execute(&found, &command.exec()));
        }
    };
    say_obstacle(&found);
    let is_outside = library.is_some() && !settings::is_inside(flags);
    let unseen = if is_outside { unseen(&found.path) } else { None };
    if let Some(unseen) = &unseen {
        remark(format_args!("{shown}: {unseen}; now only what it maps itself is recorded"));
    }
    ramson_launch::let_go(&inherited);
    let keeper = (library.is_some() && output.is_none()).then(|| Keeper::of_program(child.id()));
    let trim = |child: &Child| trims.into_iter().for_each(|trims| trim::until_end(trims, child));
    let ended = watch
        .wait(child, trim)
        .map_err(|error| fail(format!("cannot wait for the program: {error}")))?;
    let _ = its_end.set(ended.end.way);
    keeper.into_iter().for_each(Keeper::end);
    if library.is_some() {
        let is_seen = unseen.is_none();
        let nameless = || if is_outside { None } else { nameless(&found.path) };
        let output = output.as_deref();
        report_profiles(run_id, output, is_kept, is_seen, &nameless, flags.languages, &ended);
    }
    Ok(signals::end_alike(ended.end.way))
}

/// Has the command recorded by the library, as the flags say, under the filters that it will have.
fn record_with(
    library: &Path,
    command: &mut Command,
    flags: &RunFlags,
    output: Option<&Path>,
    run_id: u64,
) -> Filters {
    // Ours first, so that it sees calls before other preloaded libraries do; those are kept.
    command.env("LD_PRELOAD", library::with_own(library.as_os_str(), "LD_PRELOAD"));
    // AddressSanitizer ends a program that has anything preloaded before it, though it works
    // behind libramson.so as any allocator does. The user's own options count, because they come later.
    command.env(
        "ASAN_OPTIONS",
        library::with_own("verify_asan_link_order=0".as_ref(), "ASAN_OPTIONS"),
    );
    command.env("RAMSON_KEEP", "1").env("RAMSON_RUN_ID", run_id.to_string());
    settings::configure(command, flags, output);
    let filters = Filters::find(library, settings::is_inside(flags));
    filters.pass_on(command);
    filters
}

/// Starts the program beside us; what is sent to us is sent to it.
fn start(command: &mut Command) -> std::io::Result<(Child, Arc<OnceLock<Way>>)> {
    if is_addressed_by_id() {
        // As where there may be no further process.
        return Err(Errno::AGAIN.into());
    }
    let (program, its_end) = signals::catch()?;
    let child = command.spawn()?;
    let _ = program.send(child.id());
    Ok((child, its_end))
}

fn is_refused(error: &std::io::Error) -> bool {
    let refusals =
        [Errno::AGAIN, Errno::NOMEM, Errno::PERM, Errno::NOSYS, Errno::MFILE, Errno::NFILE];
    Errno::from_io_error(error).is_some_and(|error| refusals.contains(&error))
}

/// Our starter has told the program its process ID, or listens to that process alone: systemd does
/// both (sd_listen_fds(3), sd_watchdog_enabled(3), sd_notify(3)). Then we must become the program.
fn is_addressed_by_id() -> bool {
    let own = std::process::id().to_string();
    let is_own = |name: &str| std::env::var(name).is_ok_and(|id| id == own);
    // Before version 248 systemd does not tell whom it started.
    let is_its = std::env::var_os("SYSTEMD_EXEC_PID").is_none() && is_child_of_systemd();
    let is_heard = std::env::var_os("NOTIFY_SOCKET").is_some();
    is_heard && (is_its || is_own("SYSTEMD_EXEC_PID"))
        || is_own("LISTEN_PID")
        || is_own("WATCHDOG_PID")
}

fn is_child_of_systemd() -> bool {
    let comm = format!("/proc/{}/comm", std::os::unix::process::parent_id());
    fs::read(comm).is_ok_and(|name| name == b"systemd\n")
}

/// Why the program's allocator is not seen, if it is not.
fn unseen(path: &Path) -> Option<String> {
    executable::unseen_in_file(&program::binary_of(path))
}

/// Says that an allocator inside the program cannot be recorded, because it has no names.
fn nameless(path: &Path) -> Option<String> {
    let binary = program::binary_of(path);
    let found = executable::allocators_in_file(&binary);
    let allocator = found.first()?;
    let remedy = match debug_package(&binary.to_string_lossy()) {
        Some(package) => format!("Install {package}"),
        None => "Build it without -s and \"strip\", or install its debug file under /usr/lib/debug"
            .into(),
    };
    Some(format!(
        "{}: {allocator} is inside it, but not recorded: it was stripped of the names of its functions. {remedy}",
        path.display()
    ))
}

fn say_obstacle(found: &program::Program) {
    if let Some(obstacle) = &found.obstacle {
        let shown = found.path.display();
        let program::Obstacle { finding, remedy } = obstacle;
        remark(format_args!("{shown}: {finding}. It runs without a profile. {remedy}"));
    }
}

fn cannot_execute(found: &program::Program, error: &std::io::Error) -> Failure {
    let shown = found.path.display();
    if error.kind() == ErrorKind::NotFound {
        return Failure::Message(NOT_FOUND, format!("{shown}: {error}"));
    }
    let message = match &found.obstacle {
        Some(obstacle) => format!("{shown}: cannot be executed ({error}): {obstacle}"),
        None => format!("{shown}: cannot be executed: {error}"),
    };
    Failure::Message(NOT_EXECUTABLE, message)
}

/// An absolute path for the profile, whose old file is out of the way.
fn prepare_output(path: &Path, force: bool) -> Result<std::path::PathBuf, Failure> {
    let fail = |message: String| Failure::Message(RAMSON_FAILED, message);
    let shown = path.display();
    let absolute = std::path::absolute(path).map_err(|error| fail(format!("{shown}: {error}")))?;
    check_free_file(path, force).map_err(|failure| fail(failure.to_string()))?;
    if absolute.symlink_metadata().is_ok() {
        fs::remove_file(&absolute)
            .map_err(|error| fail(format!("{shown}: cannot be replaced: {error}")))?;
    }
    Ok(absolute)
}

/// Removes old profiles where a new one will be, and says so if there is no place for it all the
/// same: then it lives in memory, and ends with the program. True if that was said.
fn make_place(output: Option<&Path>) -> bool {
    if output.is_none() {
        prune::prune(&places::own_profile_directory(), Bounds::from_environment());
    }
    let own = places::own_profile_directory;
    let directory = output.and_then(Path::parent).map_or_else(own, Path::to_path_buf);
    let free = |space: &StatVfs| space.f_bavail.saturating_mul(space.f_frsize);
    let objection = places::objection(&directory, getuid().as_raw());
    // libramson makes its own.
    let is_made = output.is_some() || directory.exists();
    let place =
        if is_made { directory.as_path() } else { directory.parent().unwrap_or(&directory) };
    let lost = "will be lost when the program ends";
    let (problem, fate) = match access(place, Access::WRITE_OK).map(|()| statvfs(place)) {
        Err(error) => (format!("not writable ({error})"), lost),
        Ok(_) if let Some(objection) = objection => (objection, lost),
        Ok(Ok(space)) if free(&space) < LEAST_FREE_BYTES => {
            ("no space".into(), "will be incomplete, or lost when the program ends")
        }
        Ok(_) => return false,
    };
    let next = if output.is_some() { "Choose another FILE" } else { "Set RAMSON_DIR or use -o" };
    remark(format_args!("{}: {problem}: the profile {fate}. {next}", directory.display()));
    true
}

fn new_run_id() -> u64 {
    (std::process::id() as u64) << 32 | (unix_ns() & 0xffff_ffff)
}

/// Says where the profiles are. Our own words go to standard error, so the program's output stays its own.
fn report_profiles(
    run_id: u64,
    output: Option<&Path>,
    is_kept: bool,
    is_seen: bool,
    nameless: &dyn Fn() -> Option<String>,
    has_names: bool,
    ended: &Ended,
) {
    let began_ticks = start_ticks_of(std::process::id());
    let mut profiles = files_since(began_ticks, |header| header.run_id == run_id);
    profiles.extend(output.into_iter().flat_map(|output| files_beside(output, run_id)));
    let in_its_root = absent::directory_in_its_root(ended);
    let in_its_root = in_its_root.and_then(|path| places::open_directory(&path).ok());
    let is_its = |header: &Header| header.run_id == run_id;
    profiles.extend(in_its_root.iter().flat_map(|root| files_in(root, |_| true, is_its)));
    profiles.extend(ended.elsewhere.iter().flat_map(|path| files_beside(path, run_id)));
    for recording in profiles.iter_mut().filter(|recording| may_run_elsewhere(recording, ended)) {
        recording.look_elsewhere();
    }
    profiles.retain(|source| source.origin.starts_with('/'));
    profiles.sort_by(|a, b| a.origin.cmp(&b.origin));
    profiles.dedup_by(|a, b| a.origin == b.origin);
    let live = |of: &Recording| live_heap(&of.snapshot).value;
    profiles.sort_by(|a, b| live(b).total_cmp(&live(a)));
    end_note::note_ends(&mut profiles, ended);
    let dead = profiles.iter().filter(|source| source.running.is_none());
    let last_words: Vec<_> = dead.map(|source| compact::keep(source, has_names)).collect();
    if let Some(path) = absent::emptied(output, ended) {
        let path = path.display();
        remark(format_args!(
            "{path}: the file was emptied while the program ran, which ended the recording"
        ));
    } else if profiles.is_empty() && !is_seen {
        // It was said at the start why there is none.
    } else if profiles.iter().all(|source| source.snapshot.allocators.is_empty())
        && let Some(nameless) = nameless()
    {
        remark(nameless);
    } else if profiles.is_empty() && is_kept {
        remark(absent::reason(output, ended));
    } else if profiles.is_empty() {
        remark(format_args!("no profile is left: it could not be written to a file"));
    }
    if profiles.iter().any(|source| is_hooked_inside(source) && crashed(source)) {
        remark("if it crashes under ramson only, start it with --inside off");
    }
    for line in last_words.iter().find(|lines| !lines.is_empty()).into_iter().flatten() {
        remark(line);
    }
    profiles.iter().take(MAX_REPORTED).for_each(say_profile);
    say_early_children(&profiles);
    if profiles.len() > MAX_REPORTED {
        remark(format_args!("and {} more: ramson list", profiles.len() - MAX_REPORTED));
    }
}

fn is_hooked_inside(source: &Recording) -> bool {
    inside::of(&source.snapshot).iter().any(|it| !it.hooked.is_empty())
}

/// Whether a process ended as one does whose code is wrong.
fn crashed(source: &Recording) -> bool {
    const SIGNALS: [u32; 4] = [4, 5, 7, 11];
    let end = source.snapshot.header.end.as_ref();
    end.is_some_and(|end| matches!(end.way, Way::Signalled(signal) if SIGNALS.contains(&signal)))
}

/// Names a profile, and the report that has most of its memory.
fn say_profile(source: &Recording) {
    let live = live_heap(&source.snapshot);
    let mapped = MmapSums::of(&source.snapshot).mapped;
    let (mmap, kind) = if mapped.value > live.value {
        (format!(", mmap {}", format_bytes(mapped.value)), " --kind all")
    } else {
        (String::new(), "")
    };
    remark(format_args!(
        "{} (pid {}) {}, live {}{}{mmap}: ramson report {}{kind}",
        source.name(),
        source.pid(),
        end::state_of(source),
        live_text(live),
        lost_text(&source.snapshot),
        source.origin
    ));
}

fn say_early_children(profiles: &[Recording]) {
    let count = |counter| {
        let of = |source: &Recording| source.snapshot.header.health[counter as usize];
        profiles.iter().map(of).sum::<u64>()
    };
    let early = count(Health::Children).saturating_sub(count(Health::ChildrenWithFile));
    if early > 0 {
        let children = if early == 1 { "child" } else { "children" };
        remark(format_args!("{early} forked {children} ended before a profile file was made"));
    }
}

/// A descendant that did not exit may run on in a PID namespace of its own. To find it takes a look at
/// every process.
fn may_run_elsewhere(recording: &Recording, ended: &Ended) -> bool {
    let header = &recording.snapshot.header;
    recording.running.is_none() && header.pid != ended.pid && header.state != state::EXITED
}

/// The output file, and those of further processes: its name with .PID added.
fn files_beside(output: &Path, run_id: u64) -> Vec<Recording> {
    let Ok((directory, name)) = places::open_directory_of(output) else { return Vec::new() };
    let begins_so = |other: &OsStr| other.as_encoded_bytes().starts_with(name.as_encoded_bytes());
    files_in(&directory, begins_so, |header| header.run_id == run_id)
}
