//! SRC: from what the user typed to profiles that were read, and whether their processes still run.

use crate::discovery::all_with;
use crate::failure::Failure;
use crate::file::{
    Opened, member_failure, open_any_file, open_file, open_member, open_outline, open_own_or_first,
    open_stream,
};
use crate::maps::profile_maps;
use crate::members::{is_named, none_of, processes_of, several};
use crate::recording::Recording;
use crate::selector::{Base, Selector};
use crate::{clickhouse, go, http, marks, moment};
use ramson_apart::{NOBODY, Owner, each_of_owners};
use ramson_format::flags;
use ramson_history::Span;
use ramson_import::InuseAt;
use ramson_process::allocators::{ATTACH_INSIDE, Allocators};
use ramson_process::stat::Stat;
use ramson_process::{program, read_outline, stat, text, watched};
use rustix::process::getuid;
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// The profiles that one SRC, or several in a row, name.
pub struct Members {
    /// The profiles, at least one.
    pub opened: Vec<Opened>,
    /// How many processes of groups have no profile of their own.
    pub unprofiled: usize,
}

/// Opens everything that is named. A process that is named twice counts once.
pub fn open_all(sources: &[impl AsRef<str>]) -> Result<Members, Failure> {
    let mut members = Members { opened: Vec::new(), unprofiled: 0 };
    let mut known = HashSet::new();
    for source in sources {
        let found = open_each(&Selector::parse(source.as_ref())?)?;
        members.unprofiled += found.unprofiled;
        members.opened.extend(found.opened.into_iter().filter(|opened| match opened {
            Opened::Recording(Recording { running: Some(pid), past: None, .. }) => {
                known.insert(*pid)
            }
            _ => true,
        }));
    }
    Ok(members)
}

/// Opens what is named, if that is one.
pub fn open_one(source: &str) -> Result<Opened, Failure> {
    let mut members = open_each(&Selector::parse(source)?)?;
    match members.opened.len() {
        1 => Ok(members.opened.remove(0)),
        _ => Err(several(source, &members.pids())),
    }
}

/// The same of a profile that libramson wrote: other formats do not say when each block was allocated.
pub fn open_recording(source: &str) -> Result<Recording, Failure> {
    recording(open_one(source)?)
}

/// All that are named, if libramson wrote them.
pub fn open_recordings(sources: &[impl AsRef<str>]) -> Result<(Vec<Recording>, usize), Failure> {
    let members = open_all(sources)?;
    let recordings = members.opened.into_iter().map(recording).collect::<Result<_, _>>()?;
    Ok((recordings, members.unprofiled))
}

/// Opens the marks of these processes that are called `wanted`. If there is none, opens the profiles that `wanted` names; for one process, one.
pub fn open_marks(wanted: &str, of: &[&Recording]) -> Result<Vec<Recording>, Failure> {
    if marks::parse_name(wanted).is_ok() {
        let there = marks::named(wanted, of)?;
        if !there.is_empty() {
            return Ok(there);
        }
    }
    let [one] = of else { return Ok(open_recordings(&[wanted])?.0) };
    let pid = one.snapshot.header.pid;
    open_recording(wanted).map(|recording| vec![recording]).map_err(|failure| match failure {
        Failure::Message(5, _) => Failure::not_found(format!(
            "{wanted}: neither a mark of process {pid} nor a profile. \"ramson mark {pid} {wanted}\" makes a mark of the present moment"
        )),
        other => other,
    })
}

fn recording(opened: Opened) -> Result<Recording, Failure> {
    match opened {
        Opened::Recording(recording) => Ok(recording),
        Opened::Foreign(foreign) => Err(foreign.lacks(
            "does not say how old its blocks are. Pass a profile that ramson made; \"ramson diff\" compares others",
        )),
    }
}

impl Members {
    fn of(recordings: Vec<Recording>, unprofiled: usize) -> Self {
        Self { opened: recordings.into_iter().map(Opened::Recording).collect(), unprofiled }
    }

    fn pids(&self) -> Vec<u32> {
        let pid = |opened: &Opened| match opened {
            Opened::Recording(recording) => Some(recording.pid()),
            Opened::Foreign(_) => None,
        };
        self.opened.iter().filter_map(pid).collect()
    }
}

fn open_each(selector: &Selector) -> Result<Members, Failure> {
    // The history knows names of processes that are gone.
    if matches!(selector.base, Base::Tree(_) | Base::Unit(_) | Base::Group(_)) {
        let present = open_group(selector)?;
        return match &selector.span {
            None => Ok(present),
            Some(span) => past_of(selector, span, present),
        };
    }
    if let Base::Database(address) = &selector.base {
        let opened = clickhouse::open(&selector.text, address, selector.span.as_ref())?;
        return Ok(Members { opened: vec![opened], unprofiled: 0 });
    }
    if let Some(past) = moment::open(selector)? {
        return Ok(Members::of(past, 0));
    }
    let opened = match &selector.base {
        Base::Process(pid) => open_process(*pid)?,
        Base::Input => open_stream(
            "standard input",
            io::stdin().lock(),
            Owner::of_user(getuid().as_raw()),
            InuseAt::End,
        )?,
        Base::Address(address) => {
            let shown = http::shown(address);
            open_stream(&shown, http::fetch(address)?, NOBODY, InuseAt::End)?
        }
        // The only moment that is left here is a heaptrack file's own peak.
        Base::File(path) if selector.span.is_some() => open_any_file(path, InuseAt::Peak)?,
        Base::File(path) => {
            open_any_file(path, InuseAt::End).map_err(|failure| of_name(&selector.text, failure))?
        }
        Base::Name(_) | Base::Tree(_) | Base::Unit(_) | Base::Group(_) | Base::Database(_) => {
            return open_group(selector);
        }
    };
    Ok(Members { opened: vec![opened], unprofiled: 0 })
}

/// A name of a process may be one of a file, too: most often of its program.
pub(crate) fn of_name(text: &str, failure: Failure) -> Failure {
    match failure {
        Failure::NoProfile { object, finding, .. } if !text.contains('/') => {
            let next = format!("For the processes of that name: name:{text}");
            Failure::NoProfile { object, finding, next }
        }
        other => other,
    }
}

/// The profiles of a group's processes.
fn open_group(selector: &Selector) -> Result<Members, Failure> {
    let pids = processes_of(&selector.base).unwrap_or_default();
    let profiled = each_of_owners(&pids, |&pid| pid, |&pid| open_member(pid));
    let profiled: Vec<Recording> = profiled.into_iter().flatten().map(with_go).collect();
    let unprofiled = pids.len() - profiled.len();
    if !profiled.is_empty() {
        return Ok(Members::of(profiled, unprofiled));
    }
    let mut of_go = Vec::new();
    let mut refusal = None;
    for opened in pids.iter().filter_map(|&pid| go::recording(pid)) {
        match opened {
            Ok(opened) => of_go.push(opened),
            Err(failure) => refusal = Some(failure),
        }
    }
    if !of_go.is_empty() {
        let unprofiled = pids.len() - of_go.len();
        return Ok(Members::of(of_go, unprofiled));
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    if let Base::Name(name) = &selector.base {
        let mut named = all_with(|header| is_named(header, name));
        // The last process that has a profile of its own, if there is one.
        named.found.sort_by_key(|found| found.snapshot.header.processes == 0);
        return match (named.found.pop(), named.unreadable.pop()) {
            (Some(last), _) => Ok(Members::of(vec![last], 0)),
            (None, Some(why)) => Err(Failure::failed(why)),
            (None, None) if pids.is_empty() && selector.base_text == *name => {
                Err(none_of(selector))
            }
            (None, None) => Err(Failure::not_found(format!(
                "{}: no profiled process has that name. \"ramson list\" lists the profiles",
                selector.text
            ))),
        };
    }
    match pids.as_slice() {
        [] => Err(none_of(selector)),
        [pid] => Ok(Members::of(vec![open_pid(*pid)?], 0)),
        pids => Err(Failure::not_found(format!(
            "{}: none of its {} processes has a profile. Start them with \"ramson run -- CMD\"",
            selector.text,
            pids.len()
        ))),
    }
}

/// The moments that the history has of the processes that are there now.
fn past_of(selector: &Selector, span: &Span, present: Members) -> Result<Members, Failure> {
    let mut past = Vec::new();
    let mut missing = present.unprofiled;
    let mut failure = None;
    for opened in present.opened {
        let Opened::Recording(recording) = opened else { continue };
        match moment::of_recording(&recording, selector, span) {
            Ok(moment) => past.push(moment),
            Err(Failure::Message(5, message)) => {
                missing += 1;
                failure.get_or_insert(message);
            }
            Err(other) => return Err(other),
        }
    }
    match failure {
        Some(message) if past.is_empty() => Err(Failure::not_found(message)),
        _ => Ok(Members::of(past, missing)),
    }
}

/// The profiled processes that are named and run now, with the headers of their profiles. A process that cannot be found now may come later.
pub fn running(selectors: &[Selector]) -> Vec<Recording> {
    let mut known = HashSet::new();
    let all = selectors.iter().flat_map(|selector| match processes_of(&selector.base) {
        Some(pids) => pids.into_iter().filter_map(outline_or_go).collect(),
        None => Vec::from_iter(open_file(selector.text.as_ref()).ok()),
    });
    all.filter(|found| found.running.is_some_and(|pid| known.insert(pid))).collect()
}

fn outline_or_go(pid: u32) -> Option<Recording> {
    open_outline(pid).or_else(|| go::recording(pid)?.ok())
}

/// Opens the profile of a process, or the one that a Go program has of itself.
fn open_process(pid: u32) -> Result<Opened, Failure> {
    let recorded = open_pid(pid).map(with_go);
    // After a detach, Go's runtime goes on sampling.
    let is_over = |it: &Recording| {
        let set = it.snapshot.header.flags;
        it.running.is_some() && set & flags::ATTACHED != 0 && set & flags::HOOKED == 0
    };
    let of_go = if recorded.as_ref().map_or(true, is_over) { go::recording(pid) } else { None };
    match (recorded, of_go) {
        (Ok(recorded), None | Some(Err(_))) => Ok(Opened::Recording(recorded)),
        (_, Some(of_go)) => of_go.map(Opened::Recording),
        (Err(failure), None) => Err(failure),
    }
}

/// Adds what Go's runtime has sampled.
fn with_go(mut recording: Recording) -> Recording {
    if let Some(pid) = recording.running {
        go::add(&mut recording.snapshot, pid);
    }
    recording
}

/// Opens the profile of a process, running or dead.
fn open_pid(pid: u32) -> Result<Recording, Failure> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    // Gone, or waiting for its parent to take note of that.
    if Stat::of(pid).is_none() {
        let mut left = all_with(|header| header.pid == pid);
        left.found.retain(|found| found.running.is_none());
        return match (left.found.pop(), left.unreadable.pop()) {
            (Some(last), _) => Ok(last),
            (None, Some(why)) => Err(Failure::failed(why)),
            (None, None) => Err(Failure::not_found(format!(
                "process {pid}: no such process, and it left no profile. \"ramson list\" lists the profiles"
            ))),
        };
    }
    let maps = match profile_maps(pid) {
        Ok(maps) => maps,
        Err(error) => return open_hidden(pid, &error),
    };
    let has_library = maps.is_some();
    // A forked child has its parent's mapped until it has its own. In memory of the child it is a copy, in which it goes on.
    let of_parent = match open_own_or_first(pid) {
        Some(found) if found.is_of(pid) => return Ok(found),
        other => other,
    };
    if let Some(found) = of_parent {
        let parent = found.snapshot.header.pid;
        return Err(Failure::not_found(format!(
            "process {pid}: forked by process {parent}, no sample of its own yet. \"ramson report {parent}\" shows what it inherited"
        )));
    }
    if let Some(failure) = member_failure(pid) {
        return Err(failure);
    }
    if let Some(line) = watched::silence_of(pid) {
        return Err(Failure::failed(line));
    }
    let inside = |why: &str| {
        let areas = read_outline(pid).unwrap_or_default();
        let found = Allocators::of(pid, &areas).inside()?.unseen_because(why);
        Some(format!("{found}. \"ramson explain {pid}\" explains its memory"))
    };
    let of_library =
        "it has allocated less than the sampling interval, or runs without --inside on";
    if has_library && let Some(inside) = inside(of_library) {
        return Err(Failure::not_found(format!("process {pid}: not profiled: {inside}")));
    }
    if has_library {
        return Err(Failure::not_found(format!(
            "process {pid}: runs under ramson, but has no profile: it allocated less than the sampling interval, \
             recording is off, or its file was emptied. Try again later, or start it with a smaller --interval"
        )));
    }
    let name = text::read(process.join("comm")).unwrap_or_default();
    let why = match program::obstacle_of_running(pid) {
        Some(obstacle) => format!(": {obstacle}"),
        None if let Some(inside) = inside(ATTACH_INSIDE) => format!(": {inside}"),
        None => format!(
            ". \"ramson attach {pid}\" records it from now on; or start it with \"ramson run -- CMD\""
        ),
    };
    Err(Failure::not_found(format!("process {pid} ({}): not profiled{why}", name.trim())))
}

/// Opens the profile of a process whose maps cannot be read, by its file.
fn open_hidden(pid: u32, error: &io::Error) -> Result<Recording, Failure> {
    let is_its = |found: &Recording| found.running == Some(pid);
    if let Some(found) = all_with(|header| header.pid == pid).found.into_iter().find(is_its) {
        return Ok(found);
    }
    if error.kind() == ErrorKind::TimedOut {
        let line = watched::silence_of(pid);
        return Err(Failure::failed(line.unwrap_or_else(|| format!("process {pid}: {error}"))));
    }
    if error.kind() != ErrorKind::PermissionDenied {
        return Err(Failure::not_found(format!("process {pid}: {error}")));
    }
    let status = text::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let owner: Option<u32> =
        stat::line(&status, "Uid").and_then(|ids| ids.split_whitespace().next()?.parse().ok());
    let is_own = owner == Some(getuid().as_raw());
    Err(Failure::failed(match owner {
        _ if getuid().is_root() => format!(
            "process {pid}: the kernel denies access even to root. Run ramson on the host, or in the process's own container"
        ),
        Some(_) if is_own => format!(
            "process {pid}: it dropped privileges or forbids inspection even by its own user, and has no profile that \
             this user may read. Run ramson as root"
        ),
        Some(owner) => {
            format!("process {pid}: it belongs to user {owner}. Run ramson as that user or as root")
        }
        None => {
            format!("process {pid}: it belongs to another user. Run ramson as that user or as root")
        }
    }))
}
