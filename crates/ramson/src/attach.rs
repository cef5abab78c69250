//! `ramson attach`, `detach` and `set`: a running process is recorded from now on, left as it was, or sampled otherwise.

use crate::flags::{AttachFlags, DetachFlags, SetFlags};
use crate::output::{print, print_json, remark};
use crate::run::library;
use ramson_control::{Attached, Changes, Detached, Options, Set};
use ramson_format::DEFAULT_MAX_OVERHEAD_PPM;
use ramson_format::settings::parse_bound;
use ramson_profile::format::{format_bytes, format_duration};
use ramson_source::{Failure, Target, find_targets};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use std::{env, fs};

/// Names of objects in a line.
const MOST_NAMES: usize = 4;

/// What was done in each of several processes.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Each<T> {
    /// In the order in which they were named.
    pub processes: Vec<T>,
}

pub fn attach(flags: &AttachFlags) -> Result<(), Failure> {
    let path = library::find().map_err(Failure::failed)?;
    let library = fs::read(&path).map_err(|error| {
        Failure::failed(format!("{}: {error}. Set RAMSON_LIBRARY", path.display()))
    })?;
    let directory = env::var_os("RAMSON_DIR");
    let default = if flags.interval == 1 { 0 } else { DEFAULT_MAX_OVERHEAD_PPM };
    let options = Options {
        interval_bytes: flags.interval,
        max_overhead_ppm: bound(flags.max_overhead.as_deref()).unwrap_or(default),
        duration: flags.duration.map(Duration::from_nanos),
        directory: directory.as_ref().map(|directory| directory.as_bytes()),
        library: &library,
    };
    let attach = |target: &Target| ramson_control::attach(target, &options);
    let text = |attached: &Attached| attached_text(attached, options.duration);
    on_each(&flags.sources, "attach", flags.json, attach, text)
}

pub fn detach(flags: &DetachFlags) -> Result<(), Failure> {
    on_each(&flags.sources, "detach", flags.json, ramson_control::detach, detached_text)
}

pub fn set(flags: &SetFlags) -> Result<(), Failure> {
    let changes = Changes {
        interval_bytes: flags.interval,
        max_overhead_ppm: bound(flags.max_overhead.as_deref()),
        is_on: (flags.on || flags.off).then_some(flags.on),
        duration: flags.duration.map(Duration::from_nanos),
    };
    let set = |target: &Target| ramson_control::set(target, &changes);
    on_each(&flags.sources, "set", flags.json, set, set_text)
}

/// What was checked when the flags were.
fn bound(text: Option<&str>) -> Option<u32> {
    text.and_then(|text| parse_bound(text.as_bytes()))
}

/// One after the other. Fails if it was done in none.
fn on_each<T: Serialize>(
    sources: &[String],
    kind: &'static str,
    is_json: bool,
    act: impl Fn(&Target) -> Result<T, Failure>,
    text: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    let targets = find_targets(sources)?;
    let (mut done, mut failures) = (Vec::new(), Vec::new());
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
        (true, [one]) if sources.len() == 1 => print_json(kind, one),
        (true, _) => print_json(kind, &Each { processes: done }),
        (false, all) => print(&all.iter().map(text).collect::<String>()),
    }
}

fn attached_text(attached: &Attached, duration: Option<Duration>) -> String {
    let Attached { pid, name, .. } = attached;
    if attached.was_recorded {
        let since = attached
            .recorded_for_ms
            .map_or(String::new(), |ms| format!(", for {}", format_duration((ms * 1e6) as u64)));
        return format!("{name} (pid {pid}): recorded already{since}: ramson report {pid}\n");
    }
    let limit = duration
        .map_or(String::new(), |time| format!(" for {}", format_duration(time.as_nanos() as u64)));
    let seen = attached.objects - attached.missed.len();
    let missed = match attached.missed.as_slice() {
        [] => String::new(),
        names if names.len() > MOST_NAMES => {
            format!(
                ", not {} and {} more",
                names[..MOST_NAMES].join(", "),
                names.len() - MOST_NAMES
            )
        }
        names => format!(", not {}", names.join(", ")),
    };
    let objects = attached.objects;
    let memory = match attached.is_in_memory {
        true => "; the profile ends with the process, as it can write no directory",
        false => "",
    };
    format!(
        "{name} (pid {pid}): recorded from now on{limit} in {seen} of {objects} objects that allocate{missed}{memory}; \
         what it allocated before is not attributed: ramson report {pid}\n"
    )
}

fn detached_text(detached: &Detached) -> String {
    let Detached { pid, name, slots, kept, .. } = detached;
    match (slots, kept) {
        (0, 0) => format!("{name} (pid {pid}): no hooks in it, nothing was done\n"),
        (slots, 0) => format!("{name} (pid {pid}): as it was before: {slots} pointers put back\n"),
        (slots, kept) => format!(
            "{name} (pid {pid}): {slots} pointers put back; {kept} were changed by other code meanwhile and stay\n"
        ),
    }
}

fn set_text(set: &Set) -> String {
    let Set { pid, name, .. } = set;
    if !set.is_on {
        return format!("{name} (pid {pid}): no samples from now on: ramson set {pid} --on\n");
    }
    let limit = set
        .for_ms
        .map_or(String::new(), |ms| format!(" for {}", format_duration((ms * 1e6) as u64)));
    let overhead = match set.max_overhead_ppm {
        0 => "no limit of its CPU time".into(),
        ppm => format!("at most {} % of the CPU time", f64::from(ppm) / 1e4),
    };
    let interval = format_bytes(set.interval_bytes as f64);
    format!("{name} (pid {pid}): a sample every {interval} from now on{limit}, {overhead}\n")
}
