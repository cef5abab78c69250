//! `ramson attach`, `detach` and `set`: a running process is recorded from now on, left as it was, or sampled otherwise.

use crate::flags::{AttachFlags, DetachFlags, SetFlags};
use crate::output::{print, print_json, remark};
use crate::run::library;
use ramson_control::{Attached, Changes, Detached, Options, Set};
use ramson_format::DEFAULT_MAX_OVERHEAD_PPM;
use ramson_format::settings::parse_bound;
use ramson_profile::format::{format_bytes, format_duration};
use ramson_profile::{Pattern, printable};
use ramson_source::{Failure, Target, Targets, find_targets, matching_targets};
use serde::Serialize;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use std::{env, fs};

/// As `ramson run` has it.
const DEFAULT_INTERVAL_BYTES: u64 = 512 << 10;
/// Names of binaries in a line.
const MOST_NAMES: usize = 4;

/// Result for each of several processes.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Each<T> {
    /// In the order in which they were named.
    pub processes: Vec<T>,
}

pub fn attach(flags: &AttachFlags) -> Result<(), Failure> {
    let library = library_bytes()?;
    let directory = env::var_os("RAMSON_DIR");
    let interval_bytes = flags.interval.unwrap_or(DEFAULT_INTERVAL_BYTES);
    let default = usual_overhead(interval_bytes);
    let options = Options {
        interval_bytes,
        max_overhead_ppm: bound(flags.max_overhead.as_deref()).unwrap_or(default),
        duration: flags.duration.map(Duration::from_nanos),
        directory: directory.as_ref().map(|directory| directory.as_bytes()),
        library: &library,
        inside: flags.inside,
    };
    let attach = |target: &Target| ramson_control::attach(target, &options);
    let text = |attached: &Attached| attached_text(attached, flags, directory.as_deref());
    let targets = match &flags.matched {
        Some(pattern) => matching(pattern)?,
        None => find_targets(&flags.sources)?,
    };
    on_each(targets, flags.sources.len() == 1, "attach", flags.json, attach, text)
}

/// The bytes of libramson.so.
pub fn library_bytes() -> Result<Vec<u8>, Failure> {
    let path = library::find().map_err(Failure::failed)?;
    fs::read(&path).map_err(|error| {
        Failure::failed(format!("{}: {error}. Set RAMSON_LIBRARY", path.display()))
    })
}

/// Who wants every allocation wants it at any cost.
pub fn usual_overhead(interval_bytes: u64) -> u32 {
    if interval_bytes == 1 { 0 } else { DEFAULT_MAX_OVERHEAD_PPM }
}

fn matching(pattern: &Pattern) -> Result<Targets, Failure> {
    let targets = matching_targets(|text| pattern.is_match(text));
    if targets.found.is_empty() && targets.refused.is_empty() {
        let text = pattern.as_str();
        return Err(Failure::not_found(format!(
            "--match {text}: no process of this user has such a name or command line. \"ps -ef\" lists all processes"
        )));
    }
    Ok(targets)
}

pub fn detach(flags: &DetachFlags) -> Result<(), Failure> {
    let targets = find_targets(&flags.sources)?;
    let is_one = flags.sources.len() == 1;
    on_each(targets, is_one, "detach", flags.json, ramson_control::detach, detached_text)
}

pub fn set(flags: &SetFlags) -> Result<(), Failure> {
    let changes = Changes {
        interval_bytes: flags.interval,
        max_overhead_ppm: bound(flags.max_overhead.as_deref()),
        is_on: (flags.on || flags.off).then_some(flags.on),
        duration: flags.duration.map(Duration::from_nanos),
    };
    let set = |target: &Target| ramson_control::set(target, &changes);
    let targets = find_targets(&flags.sources)?;
    on_each(targets, flags.sources.len() == 1, "set", flags.json, set, set_text)
}

/// Parses a bound that the parser of the flags has checked.
fn bound(text: Option<&str>) -> Option<u32> {
    text.and_then(|text| parse_bound(text.as_bytes()))
}

/// One after the other; `is_one` says that one SRC was named. Fails if it was done in none.
fn on_each<T: Serialize>(
    targets: Targets,
    is_one: bool,
    kind: &'static str,
    is_json: bool,
    act: impl Fn(&Target) -> Result<T, Failure>,
    text: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    let mut done = Vec::new();
    let mut failures = Vec::new();
    for target in &targets.found {
        match act(target) {
            Ok(one) => done.push(one),
            Err(failure) => failures.push(failure),
        }
    }
    failures.extend(targets.refused.into_iter().map(|refused| refused.failure));
    if done.is_empty()
        && let Some(failure) = failures.pop()
    {
        failures.iter().for_each(remark);
        return Err(failure);
    }
    failures.iter().for_each(remark);
    match (is_json, done.as_slice()) {
        (true, [one]) if is_one => print_json(kind, one),
        (true, _) => print_json(kind, &Each { processes: done }),
        (false, all) => {
            let line = |one| printable(text(one).trim_end_matches('\n')).into_owned() + "\n";
            print(&all.iter().map(line).collect::<String>())
        }
    }
}

fn attached_text(attached: &Attached, flags: &AttachFlags, directory: Option<&OsStr>) -> String {
    let Attached { pid, name, .. } = attached;
    if attached.was_recorded {
        let since = attached
            .recorded_for_ms
            .map_or(String::new(), |ms| format!(" for {}", format_duration((ms * 1e6) as u64)));
        let kept = kept_text(attached, flags);
        let inside = if flags.inside { inside_text(attached) } else { String::new() };
        return format!(
            "{name} (pid {pid}): already recorded{since}{kept}{inside}: ramson report {pid}\n"
        );
    }
    let limit = flags.duration.map_or(String::new(), |ns| format!(" for {}", format_duration(ns)));
    let seen = attached.objects - attached.missed.len();
    let missed = match attached.missed.as_slice() {
        [] => String::new(),
        names if names.len() > MOST_NAMES => {
            format!(
                " (not in {} and {} more)",
                names[..MOST_NAMES].join(", "),
                names.len() - MOST_NAMES
            )
        }
        names => format!(" (not in {})", names.join(", ")),
    };
    let objects = attached.objects;
    let memory = match (attached.is_in_memory, directory) {
        (true, Some(directory)) => format!(
            "; the profile is lost when the process ends, because it cannot write to RAMSON_DIR, {}",
            directory.display()
        ),
        (true, None) => {
            "; the profile is lost when the process ends, because it cannot write to any directory"
                .into()
        }
        (false, _) => String::new(),
    };
    let inside = if flags.inside { inside_text(attached) } else { String::new() };
    format!(
        "{name} (pid {pid}): recorded from now on{limit}, in {seen} of {objects} binaries that allocate{missed}{inside}{memory}; \
         earlier allocations are not attributed: ramson report {pid}\n"
    )
}

/// Which allocators inside objects are recorded by now.
fn inside_text(attached: &Attached) -> String {
    match attached.inside.as_slice() {
        [] => format!(
            "; no allocator inside is (ramson report {} --view health says why)",
            attached.pid
        ),
        names => names.iter().map(|name| format!(", and {name}")).collect(),
    }
}

/// Says which requested setting a process that is recorded already did not get, and how to change the setting.
fn kept_text(attached: &Attached, flags: &AttachFlags) -> String {
    let is_other = |bytes: &u64| ![0, *bytes].contains(&attached.interval_bytes);
    let interval = flags.interval.filter(is_other);
    let changes = [
        interval.map(|bytes| format!(" --interval {}", size_argument(bytes))),
        flags.duration.map(|ns| format!(" --for {}", duration_argument(ns))),
    ];
    let changes: String = changes.into_iter().flatten().collect();
    let still = match interval {
        Some(_) => format!(
            ", still one sample per {} (to change that: ",
            format_bytes(attached.interval_bytes as f64)
        ),
        None if changes.is_empty() => return String::new(),
        None => " (to limit that: ".into(),
    };
    format!("{still}ramson set {}{changes})", attached.pid)
}

/// As a flag takes it: `512K`.
fn size_argument(bytes: u64) -> String {
    in_largest(bytes, &[(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"), (1, "")])
}

/// As a flag takes it: `20s`.
fn duration_argument(ns: u64) -> String {
    const MS: u64 = 1_000_000;
    in_largest(
        ns.next_multiple_of(MS),
        &[(3_600_000 * MS, "h"), (60_000 * MS, "m"), (1000 * MS, "s"), (MS, "ms")],
    )
}

/// In the largest unit of which it is a whole number.
fn in_largest(value: u64, units: &[(u64, &str)]) -> String {
    let fits = |&&(unit, _): &&(u64, &str)| value.is_multiple_of(unit);
    units.iter().find(fits).map_or(String::new(), |(unit, name)| format!("{}{name}", value / unit))
}

fn detached_text(detached: &Detached) -> String {
    let Detached { pid, name, slots, kept, places, .. } = detached;
    if (*slots, *kept, *places) == (0, 0, 0) {
        return format!("{name} (pid {pid}): has no hooks; nothing to do\n");
    }
    let code = if *places > 0 { format!(" and {places} places in code") } else { String::new() };
    let left = match kept {
        0 => String::new(),
        kept => format!("; {kept} left alone, because other code has changed them"),
    };
    format!("{name} (pid {pid}): detached: {slots} pointers{code} restored{left}\n")
}

fn set_text(set: &Set) -> String {
    let Set { pid, name, .. } = set;
    if !set.is_on {
        return format!("{name} (pid {pid}): sampling is off; to resume: ramson set {pid} --on\n");
    }
    let limit = set
        .for_ms
        .map_or(String::new(), |ms| format!(" for {}", format_duration((ms * 1e6) as u64)));
    let overhead = match set.max_overhead_ppm {
        0 => "no overhead target".into(),
        ppm => format!("overhead target {}% of CPU time", f64::from(ppm) / 1e4),
    };
    let interval = format_bytes(set.interval_bytes as f64);
    let noticed = format_bytes(set.noticed_within_bytes as f64);
    format!(
        "{name} (pid {pid}): one sample per {interval} on average from now on{limit}, {overhead}; each thread notices it within {noticed} of its own allocations\n"
    )
}
