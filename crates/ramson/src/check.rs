//! `ramson check`: what works on this machine; of a process, what can be recorded and how. One line for each fact, with the next step where
//! something is missing.

use crate::flags::CheckFlags;
use crate::output::{print, print_json};
use crate::run::library;
use crate::table::push_prose;
use ramson_analysis::attachment;
use ramson_analysis::named::{Detail, Kinds, take_named};
use ramson_analysis::naming::Names;
use ramson_process::allocators::Allocators;
use ramson_process::{read_outline, rights};
use ramson_profile::format::{format_bytes, format_duration};
use ramson_source::{Failure, Opened, Target, find_target, go, places};
use rustix::process::getuid;
use serde::Serialize;
use std::env;
use std::fs;
use std::path::Path;

/// Recording relies on what Linux has since then.
const LEAST_KERNEL: [u32; 2] = [4, 14];
/// Where distributions install debug files.
const DEBUG_FILES: &str = "/usr/lib/debug";

/// The answer.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Checked {
    /// The process, if one was named.
    pub pid: Option<u32>,
    /// What was looked at, in the order of the lines.
    pub facts: Vec<Fact>,
}

/// One line.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Fact {
    /// A word for what was looked at.
    pub about: &'static str,
    /// Nothing is missing.
    pub works: bool,
    /// The finding; where something is missing, with the next step.
    pub finding: String,
}

pub fn check(flags: &CheckFlags) -> Result<(), Failure> {
    let target = flags.source.as_deref().map(find_target).transpose()?;
    let pid = target.as_ref().map(|target| target.pid);
    let facts = target.map_or_else(|| Ok(of_machine()), of_process)?;
    let checked = Checked { pid, facts };
    if flags.json { print_json("check", &checked) } else { print(&text(&checked)) }
}

fn text(checked: &Checked) -> String {
    let mut out = String::new();
    for Fact { about, works, finding } in &checked.facts {
        let sign = if *works { ' ' } else { '!' };
        push_prose(&mut out, &format!("{sign} {about:<10} "), finding);
    }
    out
}

/// `works` and the finding are told apart by `Ok` and `Err`.
fn fact(about: &'static str, finding: Result<String, String>) -> Fact {
    let works = finding.is_ok();
    Fact { about, works, finding: finding.unwrap_or_else(|missing| missing) }
}

fn of_machine() -> Vec<Fact> {
    let library = library::find().map(|path| path.display().to_string());
    vec![
        fact("kernel", kernel()),
        fact("library", library),
        fact("profiles", profiles()),
        fact("attach", attach()),
        fact("history", history()),
        fact("symbols", symbols()),
    ]
}

fn kernel() -> Result<String, String> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let version = [(); 2].map(|()| numbers.next().and_then(|number| number.parse().ok()));
    let [Some(major), Some(minor)] = version else { return Ok(format!("Linux {release}")) };
    if [major, minor] < LEAST_KERNEL {
        return Err(format!("Linux {release}: ramson needs 4.14 or newer"));
    }
    Ok(format!("Linux {release}"))
}

fn profiles() -> Result<String, String> {
    let directory = places::own_profile_directory();
    let shown = directory.display();
    if let Some(objection) = places::objection(&directory, getuid().as_raw()) {
        return Err(format!("{shown}: {objection}. Set RAMSON_DIR to another directory"));
    }
    let there = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let room = rustix::fs::statvfs(there).map(|facts| facts.f_bavail * facts.f_frsize);
    let room = room.map_or(String::new(), |bytes| format!(", {} free", format_bytes(bytes as f64)));
    let is_missing = !directory.exists();
    let made = if is_missing { " (created when the first program is recorded)" } else { "" };
    Ok(format!("{shown}{made}{room}"))
}

fn attach() -> Result<String, String> {
    let scope = rights::scope();
    match (getuid().is_root(), rights::is_administrator(), scope.is_empty()) {
        (true, true, _) => Ok("processes of every user".into()),
        (true, false, _) => Err("root of a container: only its processes, and only with CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)".into()),
        (false, _, true) => Ok("your own processes; as root those of every user".into()),
        (false, _, false) => Err(format!("no process{scope}. Use sudo, or start programs with \"ramson run\"")),
    }
}

fn history() -> Result<String, String> {
    let path = places::history().filter(|path| path.exists());
    Ok(path.map_or_else(
        || "none. \"ramson history --all\" starts one".into(),
        |path| path.display().to_string(),
    ))
}

fn symbols() -> Result<String, String> {
    let servers = env::var("DEBUGINFOD_URLS").ok().filter(|servers| !servers.is_empty());
    let installed = fs::read_dir(DEBUG_FILES).is_ok_and(|mut files| files.next().is_some());
    match (installed, servers) {
        (true, _) => Ok(format!("debug files are in {DEBUG_FILES}")),
        (false, Some(servers)) => Ok(format!("--debuginfod fetches them from {servers}")),
        (false, None) => Err(
            "no debug files: of stripped programs, only exported functions have names. Install NAME-dbgsym or NAME-debuginfo, or set DEBUGINFOD_URLS"
                .into(),
        ),
    }
}

fn of_process(target: Target) -> Result<Vec<Fact>, Failure> {
    let pid = target.pid;
    let areas = read_outline(pid).unwrap_or_default();
    let allocators = Allocators::of(pid, &areas);
    let mut facts = vec![
        fact("process", Ok(format!("{} (pid {pid})", target.name))),
        fact("allocator", allocator(&allocators)),
    ];
    facts.extend(go::recording(pid).map(|of_go| {
        let heap = of_go.map(|it| {
            let interval = format_bytes(it.snapshot.header.interval_bytes as f64);
            format!("its heap needs no recording: Go itself takes one sample per {interval}. \"ramson report {pid}\"")
        });
        fact("Go", heap.map_err(|failure| failure.to_string()))
    }));
    let Some(recording) = target.profile else {
        let finding = match ramson_control::attachable(&target) {
            Ok(is_inside) => {
                let flag = if is_inside { "--inside " } else { "" };
                Ok(format!("not recorded. \"ramson attach {flag}{pid}\" records it from now on"))
            }
            Err(failure) => Err(format!("not recorded, and not attachable: {failure}")),
        };
        facts.push(fact("recording", finding));
        return Ok(facts);
    };
    let age_ns = attachment::profiled_ns(&recording, attachment::last_ns(&recording));
    let since = format_duration(age_ns);
    let interval = format_bytes(recording.snapshot.header.interval_bytes as f64);
    let recorded =
        format!("recorded for {since}, one sample per {interval}. \"ramson report {pid}\"");
    let ended = attachment::ended_ago_ns(&recording).and_then(|_| attachment::state_of(&recording));
    facts.push(fact(
        "recording",
        match ended {
            None => Ok(recorded),
            Some(state) => Err(format!(
                "{state}. \"ramson set {pid} --on\" or \"ramson attach {pid}\" resumes it"
            )),
        },
    ));
    let mut opened = Opened::Recording(recording);
    let named = take_named(&mut opened, &Names::default(), Detail::Stacks, Kinds::default())?;
    let missing =
        named.missing_symbols.iter().map(|defect| fact("symbols", Err(defect.to_string())));
    facts.extend(missing);
    Ok(facts)
}

fn allocator(allocators: &Allocators) -> Result<String, String> {
    let other = allocators.other.as_ref().map(|(_, other)| other);
    match other.or(allocators.glibc.as_ref()) {
        Some(found) => Ok(format!("{}, {}", found.name, found.origin)),
        None => Err("no C library is mapped in it: ramson records nothing of it".into()),
    }
}
