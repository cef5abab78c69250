//! Compares a run under ramson with the plain one, and reads the profiles that it left.

use super::cell::{Interval, Ran};
use super::program::{End, Expected, Program};
use crate::run::read;
use crate::servers::executable;
use crate::sites::{health, heap_total};
use ramson_format::{Health, state};
use ramson_reader::{Defect, ReadError, Snapshot};
use std::path::Path;

/// Threads of a killed process that may have been in the middle of a record.
const IN_FLIGHT_WHEN_KILLED: u64 = 64;
/// Entries of recent frees in which two threads may have met: one for each thread.
const MOST_MEETINGS: u64 = 64;

/// The first thing that a user of the program would have seen change.
pub fn difference(plain: &Ran, ran: &Ran) -> Option<String> {
    if ran.end != plain.end {
        let last = ran.stderr.last().map(|line| format!(" ({line})")).unwrap_or_default();
        return Some(format!("ended by {:?}{last}, plain {:?}", ran.end, plain.end));
    }
    for (name, plain, ran) in
        [("stdout", &plain.stdout, &ran.stdout), ("stderr", &plain.stderr, &ran.stderr)]
    {
        if plain != ran {
            let line = (0..).find(|&line| plain.get(line) != ran.get(line)).unwrap_or(0);
            let [plain, ran] = [plain, ran].map(|lines| lines.get(line).map(String::as_str));
            return Some(format!("{name} line {}: {ran:?}, plain {plain:?}", line + 1));
        }
    }
    None
}

/// Returns the first fault in the profiles of a run.
pub fn fault_of_profiles(program: &Program, interval: Interval, ran: &Ran) -> Option<String> {
    let must_be_off = interval == Interval::Off || program.expected == Expected::Off;
    if must_be_off {
        return (!ran.profiles.is_empty())
            .then(|| "a profile came out of a process that is off".to_owned());
    }
    let mut recorded = Vec::new();
    for path in &ran.profiles {
        match read(path) {
            Ok(snapshot) => {
                let fault = fault_of(program, interval, &snapshot);
                if let Some(fault) = fault {
                    return Some(format!("{}: {fault}", name_of(path)));
                }
                let has_samples = [Health::Samples, Health::Extents]
                    .iter()
                    .any(|&kind| health(&snapshot, kind) > 0);
                if snapshot.header.state != state::OFF && has_samples {
                    recorded.push(executable(&snapshot).to_owned());
                }
            }
            // Whoever was to make it is dead.
            Err(ReadError::Unfinished | ReadError::Empty)
                if ran.end != End::Exit(0) || program.in_flight > 0 => {}
            Err(error) => return Some(format!("{}: {error}", name_of(path))),
        }
    }
    let must_be_there = interval == Interval::Everything && program.expected == Expected::Recorded;
    if !must_be_there {
        return None;
    }
    if recorded.is_empty() {
        return Some("no profile".to_owned());
    }
    let missing = program
        .recorded
        .iter()
        .find(|name| !recorded.iter().any(|recorded| recorded.starts_with(&***name)))?;
    Some(format!("no profile of {missing}, only of {}", recorded.join(", ")))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the fault of one profile: a defect that nobody's death explains, or accounts that do not agree.
fn fault_of(program: &Program, interval: Interval, snapshot: &Snapshot) -> Option<String> {
    let has_exited = snapshot.header.state == state::EXITED;
    let in_flight = if has_exited { program.in_flight } else { IN_FLIGHT_WHEN_KILLED };
    let is_explained = |defect: &Defect| match defect {
        Defect::TornSamples(count) | Defect::BadStacks(count) | Defect::BadMappings(count) => {
            *count <= in_flight
        }
        // A thread that loses the processor within an entry meets another one there, a whole ring of frees later, and the entry is lost.
        Defect::TornFrees(count) => *count <= MOST_MEETINGS,
        _ => false,
    };
    if let Some(defect) = snapshot.defects.iter().find(|defect| !is_explained(defect)) {
        return Some(defect.to_string());
    }
    if interval != Interval::Everything {
        return None;
    }
    let total = heap_total(snapshot);
    let dropped = health(snapshot, Health::DroppedLive);
    // Samples that came while the file was being made are allocations without a record.
    let early = health(snapshot, Health::DroppedWalks);
    let known = total.freed_objects + total.live_objects + dropped;
    let missing = total.alloc_objects.checked_sub(known);
    let accounts_agree = missing.is_some_and(|missing| missing <= early + in_flight);
    (!accounts_agree).then(|| {
        format!(
            "{} allocated, {} freed, {} live, {dropped} dropped: these do not agree",
            total.alloc_objects, total.freed_objects, total.live_objects
        )
    })
}
