//! Whom to look at: a running process, profiled or not.

use crate::failure::Failure;
use crate::file::{Opened, open_file};
use crate::moment;
use crate::open::{open, several};
use crate::recording::Recording;
use ramson_process::rights;
use ramson_profile::format::format_bytes;
use rustix::process::getuid;
use std::fs;
use std::io::ErrorKind;

/// A running process.
pub struct Target {
    /// Its ID here.
    pub pid: u32,
    /// The name of its first thread.
    pub name: String,
    /// Its profile, if it has one.
    pub profile: Option<Recording>,
}

/// From a process ID, `name:NAME`, or the profile file of a process that runs.
pub fn find(source: &str) -> Result<Target, Failure> {
    if let (base, Some(_)) = moment::split(source) {
        return Err(Failure::usage(format!(
            "{source}: a history has no memory to look at. \"ramson doctor {base}\" looks now, \"ramson report {source}\" shows what was live"
        )));
    }
    let is_number = !source.is_empty() && source.bytes().all(|byte| byte.is_ascii_digit());
    let pid = if is_number {
        source.parse().map_err(|_| Failure::usage(format!("{source}: not a process ID")))?
    } else if let Some(name) = source.strip_prefix("name:") {
        named(name)?
    } else {
        let profile = open_file(source.as_ref())?;
        profile.running.ok_or_else(|| {
            Failure::not_found(format!(
                "{source}: its process is gone, and with it what its allocator kept. \"ramson report {source}\" shows what was live"
            ))
        })?
    };
    check(pid)?;
    let profile = match open(&pid.to_string()) {
        Ok(Opened::Recording(source)) if source.running == Some(pid) => Some(source),
        _ => None,
    };
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Ok(Target { pid, name: name.trim().into(), profile })
}

/// The one process that this user may look at and whose thread or executable has this name.
fn named(name: &str) -> Result<u32, Failure> {
    let own = std::process::id();
    let is_named = |pid: &u32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        *pid != own && (comm.trim_end() == name || exe.file_name().is_some_and(|file| file == name))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<u32> = processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_named)
        .collect();
    found.sort_unstable();
    match found.as_slice() {
        [] => Err(Failure::not_found(format!(
            "name:{name}: no process has that name. Pass a process ID; \"ps -e\" shows what there is"
        ))),
        [pid] => Ok(*pid),
        pids => Err(several(name, pids)),
    }
}

/// Says why there is nothing to look at.
fn check(pid: u32) -> Result<(), Failure> {
    let directory = format!("/proc/{pid}");
    let status = fs::read_to_string(format!("{directory}/status")).map_err(|error| {
        let hidden = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let is_hidden = hidden.lines().any(|line| line.contains(" proc ") && line.contains("hidepid="));
        match error.kind() {
            ErrorKind::NotFound if is_hidden && !getuid().is_root() => Failure::not_found(format!(
                "process {pid}: there is none, or /proc hides it (hidepid). Run ramson as its user or as root"
            )),
            ErrorKind::NotFound => Failure::not_found(format!(
                "process {pid}: there is none. \"ps -e\" shows what there is"
            )),
            _ => Failure::failed(format!("process {pid}: {error}. Run ramson as its user or as root")),
        }
    })?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let name = field("Name").unwrap_or_default();
    let state = field("State").unwrap_or_default();
    if state.starts_with(['Z', 'X']) {
        return Err(Failure::not_found(format!(
            "process {pid} ({name}): it is dead and waits for its parent; it has no memory any more. Look at its parent"
        )));
    }
    // Of a process that is just ending, the memory is gone already, too.
    if is_kernel_thread(pid) {
        return Err(Failure::usage(format!(
            "process {pid} ({name}): a kernel thread, which has no memory of its own. Pass a program's process ID"
        )));
    }
    fs::File::open(format!("{directory}/smaps")).map(drop).map_err(|error| {
        // What everybody may know.
        let bytes = |name: &str| {
            let kib = field(name)?.trim_end_matches(" kB").parse::<f64>().ok()?;
            Some(format_bytes(kib * 1024.0))
        };
        let known = |(name, what): (&str, &str)| Some(format!("{} {what}", bytes(name)?));
        let parts = [("RssAnon", "anonymous"), ("RssFile", "files"), ("RssShmem", "shared memory")];
        let parts: Vec<String> = parts.into_iter().filter_map(known).collect();
        let rss = bytes("VmRSS").map_or(String::new(), |rss| {
            format!("RSS {rss} = {}, and no more may be seen: ", parts.join(" + "))
        });
        Failure::failed(format!("process {pid} ({name}): {rss}{error}. {}", rights::next_step(pid)))
    })
}

/// By its flags, the 9th field of /proc/PID/stat; the second one is a name that may contain anything.
fn is_kernel_thread(pid: u32) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let flags = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(6)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & PF_KTHREAD != 0)
}

/// The process exited while it was looked at.
pub fn gone(target: &Target) -> Failure {
    Failure::not_found(format!(
        "process {} ({}): it ended while it was looked at. There is nothing left to see",
        target.pid, target.name
    ))
}
