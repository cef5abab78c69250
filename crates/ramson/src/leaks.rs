//! `ramson leaks`: which stacks are suspects, with the evidence.

use crate::flags::{Gate, LeaksFlags};
use crate::output::{gate, hint, print, print_json, remark};
use crate::table;
use ramson_analysis::suspects::{
    Course, DatedRecording, Question, Suspects, paired, refuse_short, suspects,
};
use ramson_leaks::Suppressions;
use ramson_profile::format::format_duration;
use ramson_source::{Failure, Recording, marks, open_recordings};
use std::time::Duration;
use std::{fs, thread};

/// The exit status of a check that nobody can answer yet.
const UNKNOWN: u8 = 4;

pub fn leaks(flags: &LeaksFlags) -> Result<u8, Failure> {
    let found = find(flags)?;
    let tripped = flags.fail_on.iter().find_map(|gate| gate.finding(&found));
    let unknown = flags.fail_on.iter().any(|gate| gate.cannot_tell(&found));
    let unknown = unknown.then(|| table::suspects::answer(&found));
    match flags.json {
        true => print_json("leaks", &shown(found, flags))?,
        false => print(&table::suspects::text(&found, flags.rows, flags.each))?,
    }
    Ok(match (tripped, unknown) {
        (None, Some(why)) => {
            remark(why);
            if flags.fail_on.contains(&Gate::Unknown) { UNKNOWN } else { 0 }
        }
        (tripped, _) => gate(tripped),
    })
}

/// Builds the document that `--json` prints.
pub fn document(flags: &LeaksFlags) -> Result<Suspects, Failure> {
    find(flags).map(|found| shown(found, flags))
}

fn shown(mut found: Suspects, flags: &LeaksFlags) -> Suspects {
    found.truncate(flags.rows);
    found
}

fn find(flags: &LeaksFlags) -> Result<Suspects, Failure> {
    let (names, selection) = (flags.source.names.names(), flags.frames.selection(&flags.filters));
    let suppressions = read_suppressions(flags)?;
    let question = Question {
        names: &names,
        selection: &selection,
        min_age_ns: flags.min_age,
        suppressions: &suppressions,
    };
    let (courses, unprofiled) = courses(flags)?;
    let baseline = match &flags.baseline {
        Some(name) => {
            let later: Vec<&Recording> = courses.iter().map(|one| &one.moment.recording).collect();
            marks::open_all(name, &later)?.into_iter().map(Course::of).collect()
        }
        None => Vec::new(),
    };
    suspects(&courses, &baseline, unprofiled, &question)
}

/// The moments to judge, each with an earlier one if growth is to be measured; and how many processes have no profile.
fn courses(flags: &LeaksFlags) -> Result<(Vec<Course>, usize), Failure> {
    let sources = &flags.source.sources;
    let wanted = sources.join(" ");
    let (first, unprofiled) = open_recordings(sources)?;
    let is_range =
        |recording: &Recording| recording.past.as_ref().is_some_and(|past| past.from_ns.is_some());
    if first.iter().any(is_range) {
        return Err(Failure::usage(format!(
            "{wanted}: leaks judges a moment, not a range. Pass its end, and its beginning with --since SRC@MOMENT"
        )));
    }
    let moments = |all: Vec<Recording>| -> Vec<DatedRecording> {
        all.into_iter().map(DatedRecording::of).collect()
    };
    let courses = match (flags.window, &flags.since) {
        (Some(window_ns), _) => {
            let running: Vec<String> =
                first.iter().filter_map(|one| one.running).map(|pid| pid.to_string()).collect();
            if running.is_empty() {
                return Err(Failure::usage(format!(
                    "{wanted}: its process does not run, so --window cannot watch it. Compare with a mark: --since MARK"
                )));
            }
            if window_ns < flags.min_age {
                let [window, least] = [window_ns, flags.min_age].map(format_duration);
                return Err(Failure::usage(format!(
                    "--window {window}: growth over less than {least} (--min-age) says nothing. Pass a longer window, or a smaller --min-age"
                )));
            }
            let what = if running.len() == 1 { "process" } else { "processes" };
            let time = format_duration(window_ns);
            hint(&format!("watching {what} {} for {time}", running.join(", ")));
            let first = moments(first);
            thread::sleep(Duration::from_nanos(window_ns));
            let (later, unprofiled) = open_recordings(sources)?;
            return Ok((paired(first, moments(later), &wanted)?, unprofiled));
        }
        (None, Some(since)) => {
            let of: Vec<&Recording> = first.iter().collect();
            let earlier = marks::open_all(since, &of)?;
            let courses = paired(moments(earlier), moments(first), since)?;
            refuse_short(&courses, flags.min_age, since)?;
            courses
        }
        (None, None) => first.into_iter().map(Course::of).collect(),
    };
    Ok((courses, unprofiled))
}

fn read_suppressions(flags: &LeaksFlags) -> Result<Suppressions, Failure> {
    let Some(path) = &flags.suppressions else { return Ok(Suppressions::default()) };
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("{shown}: {error}. Pass a text file with lines leak:PATTERN"))
    })?;
    Suppressions::parse(&text).map_err(|bad| {
        Failure::usage(format!("{shown}: {bad}. Correct it, or make it a comment with #"))
    })
}
