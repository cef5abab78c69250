//! Running processes to look at, profiled or not.

use crate::discovery::outlines_with;
use crate::failure::Failure;
use crate::file::{Opened, open_any_file, open_member};
use crate::members::{is_named, matching, none_of, processes_of, several};
use crate::open::of_name;
use crate::recording::Recording;
use crate::selector::{Base, Selector};
use ramson_apart::each_of_owners;
use ramson_import::InuseAt;
use ramson_process::{rights, stat, text, watched};
use ramson_profile::format::format_bytes;
use ramson_reader::Header;
use rustix::process::getuid;
use std::collections::HashSet;
use std::io::ErrorKind;

/// The flag of a kernel thread, in the flags of a process: the ninth number of its stat.
const PF_KTHREAD: u64 = 0x0020_0000;

/// A running process.
pub struct Target {
    /// Its ID here.
    pub pid: u32,
    /// The name of its first thread.
    pub name: String,
    /// Its profile, if it has one.
    pub profile: Option<Recording>,
}

/// The processes that one SRC, or several in a row, name.
pub struct Targets {
    /// Those that this user may look at.
    pub found: Vec<Target>,
    /// Members of groups that he may not, or that are not there any more.
    pub refused: Vec<Refused>,
}

/// A process that cannot be looked at.
pub struct Refused {
    /// Its ID here.
    pub pid: u32,
    /// The name of its first thread.
    pub name: String,
    /// Why.
    pub failure: Failure,
}

/// The processes that are named, by their IDs, groups, or the profile files of processes that run; never none. One
/// that is named by itself must be there.
pub fn find_targets(sources: &[impl AsRef<str>]) -> Result<Targets, Failure> {
    let mut targets = Targets { found: Vec::new(), refused: Vec::new() };
    let mut known = HashSet::new();
    for source in sources {
        let pids = pids_of(&Selector::parse(source.as_ref())?)?;
        let is_alone = pids.len() == 1;
        let pids: Vec<u32> = pids.into_iter().filter(|&pid| known.insert(pid)).collect();
        let refused_before = targets.refused.len();
        targets.add(&pids);
        if is_alone && targets.refused.len() > refused_before {
            return Err(targets.refused.swap_remove(refused_before).failure);
        }
    }
    if targets.found.is_empty() && !targets.refused.is_empty() {
        return Err(targets.refused.swap_remove(0).failure);
    }
    Ok(targets)
}

/// Those of this user, or for root of all users, whose name or command line is wanted; may be none.
pub fn matching_targets(is_wanted: impl Fn(&str) -> bool) -> Targets {
    let mut targets = Targets { found: Vec::new(), refused: Vec::new() };
    targets.add(&matching(is_wanted));
    targets
}

impl Targets {
    /// Returns what `look` says of each process that may be looked at, in their order.
    pub fn each<R: Send>(&self, look: impl Fn(&Target) -> R + Sync) -> Vec<R> {
        each_of_owners(&self.found, |target| target.pid, look)
    }

    fn add(&mut self, pids: &[u32]) {
        for (&pid, looked_at) in
            pids.iter().zip(each_of_owners(pids, |&pid| pid, |&pid| target(pid)))
        {
            match looked_at {
                Ok(target) => self.found.push(target),
                Err(failure) => self.refused.push(Refused { pid, name: comm(pid), failure }),
            }
        }
    }
}

/// The process that is named, if that is one.
pub fn find_target(source: &str) -> Result<Target, Failure> {
    match pids_of(&Selector::parse(source)?)?.as_slice() {
        [pid] => target(*pid),
        pids => Err(several(source, pids)),
    }
}

/// Never none.
fn pids_of(selector: &Selector) -> Result<Vec<u32>, Failure> {
    let Selector { text, base_text, .. } = selector;
    if selector.span.is_some() {
        return Err(Failure::usage(format!(
            "{text}: a history has no memory to examine. \"ramson explain {base_text}\" examines the process as it is now; \"ramson report {text}\" shows what was live"
        )));
    }
    match processes_of(&selector.base) {
        Some(pids) if pids.is_empty() => {
            let left = matches!(&selector.base, Base::Name(name) if has_left(|header| is_named(header, name)));
            Err(if left { died(text) } else { none_of(selector) })
        }
        Some(pids) => Ok(pids),
        None => {
            let opened = open_any_file(text.as_ref(), InuseAt::End);
            let opened = opened.map_err(|failure| of_name(text, failure))?;
            let Opened::Recording(recording) = opened else {
                return Err(Failure::usage(format!(
                    "{text}: another tool's profile, and of no process here. \"ramson report {text}\" shows what is in it"
                )));
            };
            recording.running.map(|pid| vec![pid]).ok_or_else(|| died(text))
        }
    }
}

/// Whether a dead process has left such a profile.
fn has_left(is_its: impl Fn(&Header) -> bool + Sync) -> bool {
    outlines_with(is_its).found.iter().any(|recording| recording.running.is_none())
}

fn died(source: &str) -> Failure {
    Failure::not_found(format!(
        "{source}: its process is gone, and its allocator's state with it. \"ramson report {source}\" shows what was live"
    ))
}

fn target(pid: u32) -> Result<Target, Failure> {
    check(pid)?;
    Ok(Target { pid, name: comm(pid), profile: open_member(pid) })
}

fn comm(pid: u32) -> String {
    text::read(format!("/proc/{pid}/comm")).unwrap_or_default().trim().into()
}

/// Says why there is nothing to look at.
fn check(pid: u32) -> Result<(), Failure> {
    let directory = format!("/proc/{pid}");
    let status = text::read(format!("{directory}/status")).map_err(|error| {
        let hidden = text::read("/proc/self/mounts").unwrap_or_default();
        let is_hidden = hidden.lines().any(|line| line.contains(" proc ") && line.contains("hidepid="));
        match error.kind() {
            ErrorKind::NotFound if is_hidden && !getuid().is_root() => Failure::not_found(format!(
                "process {pid}: no such process, or /proc hides it (hidepid). Run ramson as its user or as root"
            )),
            ErrorKind::NotFound if has_left(|header| header.pid == pid) => died(&pid.to_string()),
            ErrorKind::NotFound => Failure::not_found(format!(
                "process {pid}: no such process. \"ps -e\" lists all processes"
            )),
            _ => Failure::failed(format!("process {pid}: {error}. Run ramson as its user or as root")),
        }
    })?;
    let field = |name: &str| stat::line(&status, name);
    let name = field("Name").unwrap_or_default();
    let state = field("State").unwrap_or_default();
    let is_zombie = state.starts_with(['Z', 'X']);
    if is_zombie && field("Threads").is_some_and(|count| count != "1") {
        return Err(Failure::failed(format!(
            "process {pid} ({name}): its main thread has ended, so the kernel no longer reports its memory, although \
             other threads still run. Restart it under \"ramson run\", and read its profile when it has ended"
        )));
    }
    if is_zombie {
        return Err(Failure::not_found(format!(
            "process {pid} ({name}): it has ended (a zombie) and has no memory left. Look at its parent"
        )));
    }
    // Missing memory does not tell a kernel thread, because a process that is just ending has none any more, either.
    if stat::number(pid, 9).is_some_and(|flags| flags & PF_KTHREAD != 0) {
        return Err(Failure::usage(format!(
            "process {pid} ({name}): a kernel thread, which has no memory of its own. Pass a program's process ID"
        )));
    }
    watched::start(pid, "smaps", 1).map(drop).map_err(|error| {
        match error.kind() {
            ErrorKind::TimedOut => {
                return Failure::failed(format!("process {pid} ({name}): {error}. Try again"));
            }
            ErrorKind::NotFound => return ended(pid, name),
            _ => {}
        }
        // Everybody may read these numbers.
        let bytes = |name: &str| stat::bytes(&status, name).map(|bytes| format_bytes(bytes as f64));
        let known = |(name, what): (&str, &str)| Some(format!("{} {what}", bytes(name)?));
        let parts = [("RssAnon", "anonymous"), ("RssFile", "files"), ("RssShmem", "shared memory")];
        let parts: Vec<String> = parts.into_iter().filter_map(known).collect();
        let rss = bytes("VmRSS").map_or(String::new(), |rss| {
            format!("RSS {rss} = {}, and the rest cannot be read: ", parts.join(" + "))
        });
        Failure::failed(format!("process {pid} ({name}): {rss}{error}. {}", rights::next_step(pid)))
    })
}

/// The process exited while it was looked at, or did not answer.
pub fn gone(target: &Target) -> Failure {
    if let Some(line) = watched::silence_of(target.pid) {
        return Failure::failed(line);
    }
    ended(target.pid, &target.name)
}

fn ended(pid: u32, name: &str) -> Failure {
    Failure::not_found(format!(
        "process {pid} ({name}): it ended while ramson was reading it. \"ramson list\" shows whether it left a profile"
    ))
}
