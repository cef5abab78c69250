//! The processes that a SRC names now, whether profiled or not.

use crate::discovery::outlines_with;
use crate::failure::Failure;
use crate::recording::name_of;
use crate::selector::{Base, Selector};
use ramson_paths::executable_identity;
use ramson_process::identify::base_name;
use ramson_process::stat::Stat;
use ramson_process::{processes, text};
use ramson_profile::format::{format_bytes, format_duration};
use ramson_reader::Header;
use rustix::process::getuid;

/// Processes that are listed of those that might be meant.
const MOST_CANDIDATES: usize = 20;
/// Characters of their command lines.
const MOST_COMMAND: usize = 100;

/// Process IDs, ascending and each once; `None`: it does not name processes. A group leaves out kernel threads, zombies and
/// this process; other processes of ramson, too, unless the group is a name.
pub fn processes_of(base: &Base) -> Option<Vec<u32>> {
    let mut pids = match base {
        Base::Process(pid) => return Some(vec![*pid]),
        Base::Name(name) => named(name),
        Base::Tree(root) => processes::tree(*root),
        Base::Unit(name) => processes::of_unit(name),
        Base::Group(path) => processes::of_group(path),
        Base::Address(_) | Base::Database(_) | Base::Input | Base::File(_) => return None,
    };
    let own = std::process::id();
    let is_by_name = matches!(base, Base::Name(_));
    pids.retain(|&pid| pid != own && has_memory(pid) && (is_by_name || !is_ramson(pid)));
    pids.sort_unstable();
    pids.dedup();
    Some(pids)
}

/// Process IDs, ascending, of this user, or for root of all users, whose name or command line is wanted. Processes that started this one
/// are left out: their command lines may say what is wanted.
pub fn matching(is_wanted: impl Fn(&str) -> bool) -> Vec<u32> {
    let user = getuid();
    let own = std::process::id();
    let above = processes::above(own);
    let mut pids = processes::all();
    pids.retain(|&pid| {
        let is_ours = || user.is_root() || processes::user(pid) == Some(user.as_raw());
        let comm = || text::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let is_called =
            || is_wanted(comm().trim()) || is_wanted(&processes::command(pid).join(" "));
        pid != own
            && !above.contains(&pid)
            && is_ours()
            && has_memory(pid)
            && is_called()
            && !is_ramson(pid)
    });
    pids
}

/// By what the kernel says of it now, or by what its profile says of its start.
fn named(name: &str) -> Vec<u32> {
    let mut found = processes::named(name);
    let profiled = outlines_with(|header| is_named(header, name));
    found.extend(profiled.found.into_iter().filter_map(|recording| recording.running));
    found
}

/// Whether a process had this name when its profile began.
pub fn is_named(header: &Header, name: &str) -> bool {
    // A child in its parent's memory may have none yet.
    let exe = base_name(&header.exe);
    let script = processes::script(exe, &header.command);
    !name.is_empty() && [name_of(header), exe, &header.comm, script].contains(&name)
}

fn has_memory(pid: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.rss.is_some_and(|rss| rss > 0))
}

/// `ramson run` is above the program that it started.
fn is_ramson(pid: u32) -> bool {
    let own = executable_identity(std::process::id());
    own.is_some() && executable_identity(pid) == own
}

/// Says that nothing is named.
pub fn none_of(selector: &Selector) -> Failure {
    let what = &selector.text;
    Failure::not_found(match &selector.base {
        Base::Name(_) if !what.starts_with("name:") => format!(
            "{what}: no file, process or profile has that name. See \"ramson list\" and \"ramson help src\""
        ),
        Base::Name(_) => {
            format!("{what}: no process has that name. Pass a process ID; \"ps -e\" lists them")
        }
        Base::Unit(name) => format!(
            "{what}: no process of that unit is running. \"systemctl status {name}\" shows its state"
        ),
        Base::Group(_) => format!(
            "{what}: no process in that group or below it. /proc/PID/cgroup shows a process's group"
        ),
        _ => format!("{what}: no such process. \"ps -e\" lists all processes"),
    })
}

/// Says that one is wanted where several are named, with what tells them apart.
pub fn several(what: &str, pids: &[u32]) -> Failure {
    let text = format!(
        "{what}: {} processes, but this command takes one. Pass one of these process IDs:",
        pids.len()
    );
    Failure::Choice(2, text, candidates(pids))
}

/// A line for each, with what tells them apart.
fn candidates(pids: &[u32]) -> Vec<String> {
    let mut rows = vec!["       pid        age        RSS  command".to_owned()];
    for &pid in pids.iter().take(MOST_CANDIDATES) {
        let stat = Stat::of(pid);
        let age = stat.map(|stat| format_duration(processes::age_ns(stat.start_ticks)));
        let rss = stat.and_then(|stat| stat.rss).map(|rss| format_bytes(rss as f64));
        let [age, rss] = [age, rss].map(|known| known.unwrap_or_else(|| "–".into()));
        let command: String =
            processes::command(pid).join(" ").chars().take(MOST_COMMAND).collect();
        rows.push(format!("{pid:>10} {age:>10} {rss:>10}  {command}"));
    }
    if pids.len() > MOST_CANDIDATES {
        rows.push(format!("{:>10} more", pids.len() - MOST_CANDIDATES));
    }
    rows
}
