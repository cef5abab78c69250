//! What is said of a profile of ours: its process, what it does not hold, and where RSS is.

use crate::coverage::Coverage;
use crate::death;
use crate::failure::Failure;
use crate::health;
use crate::mapped;
use crate::rss::{Resident, live_text};
use crate::source::{self, Opened, Source};
use ramson_format::{HEALTH, Health};
use ramson_profile::format::{format_duration, format_objects};
use ramson_profile::{Estimate, Profile};
use serde_json::{Value, json};
use std::fmt::Write;

/// Opens a profile that has to be ours: other formats do not say when each block was allocated.
pub fn open(wanted: &str) -> Result<Source, Failure> {
    match source::open(wanted)? {
        Opened::Own(source) => Ok(source),
        Opened::Foreign(foreign) => Err(foreign.no_ages()),
    }
}

/// The RSS line, what the profile is of, and what it does not hold.
pub fn heading(source: &Source, profile: &Profile, resident: Option<&Resident>) -> String {
    let live = mapped::live_heap(&source.snapshot);
    let mut out = match (&source.past, resident, source.running) {
        (Some(past), ..) => past.line(&live_text(live)),
        (None, Some(resident), _) => resident.line(live),
        (None, None, Some(_)) => format!("RSS not readable; live {}", live_text(live)),
        (None, None, None) => {
            let end = death::end_of(source);
            format!("{}; live at its end {}", death::rss_text(end.as_ref()), live_text(live))
        }
    };
    let header = &source.snapshot.header;
    let profiled_ns = profile.time_unix_ns.saturating_sub(profile.start_unix_ns);
    let fate = match (&source.past, source.running) {
        (Some(past), _) => past.fate(profiled_ns),
        (None, Some(_)) => format!("running, profiled for {}", format_duration(profiled_ns)),
        (None, None) => death::sentence(source),
    };
    let _ = write!(
        out,
        "\n{} (pid {}), {fate}; interval {}, {} samples, {} live\n",
        source.name(),
        source.pid(),
        health::interval(header),
        format_objects(header.health[Health::Samples as usize] as f64),
        format_objects(source.snapshot.live.len() as f64),
    );
    if let Some(line) = coverage(source, resident, live).and_then(|coverage| coverage.line()) {
        let _ = writeln!(out, "{line}");
    }
    out.extend(mapped::line(&source.snapshot).map(|line| line + "\n"));
    for missing in what_is_missing(source) {
        let _ = writeln!(out, "not complete: {missing}");
    }
    out.push('\n');
    out
}

/// The same as fields of an object.
pub fn add_to(object: &mut Value, source: &Source, resident: Option<&Resident>) {
    let live = mapped::live_heap(&source.snapshot);
    let header = &source.snapshot.header;
    object["pid"] = json!(source.pid());
    object["name"] = json!(source.name());
    object["history"] = source.past.as_ref().map_or(Value::Null, |past| past.json());
    object["is_running"] = json!(source.running.is_some());
    object["end"] = death::json(source);
    object["resident"] = resident.map_or(Value::Null, |resident| resident.json(live));
    object["mmap"] = mapped::json(&source.snapshot);
    object["coverage"] =
        coverage(source, resident, live).map_or(Value::Null, |coverage| coverage.json());
    object["recording"] = health::json(source, live.value, resident);
    object["health"] = HEALTH
        .iter()
        .map(|&(kind, name)| (name.to_owned(), json!(header.health[kind as usize])))
        .collect();
}

/// How much of the anonymous memory the profile explains, while there is a process to ask.
fn coverage(source: &Source, resident: Option<&Resident>, live: Estimate) -> Option<Coverage> {
    let pid = source.running?;
    resident.map(|resident| Coverage::of(pid, resident, &source.snapshot.live, live))
}

/// What was dropped, cut or damaged: never left out of a report.
pub fn what_is_missing(source: &Source) -> Vec<String> {
    let health = &source.snapshot.header.health;
    let drops = health::DROPS.iter().filter_map(|&(kind, what)| {
        let count = health[kind as usize];
        (count > 0).then(|| format!("{} {what}", format_objects(count as f64)))
    });
    drops.chain(source.snapshot.defects.iter().map(ToString::to_string)).collect()
}
