//! `ramson leaks`: which stacks are suspects, with the evidence.

use crate::flags::{Gate, LeaksFlags};
use crate::output::{gate, hint, print, print_json, remark};
use crate::report::say_without_profile;
use crate::table;
use ramson_analysis::question::Question;
use ramson_analysis::suspects::{
    Suspects, dated, leaks as judge, moments, paired, suspects, watch as look_again,
};
use ramson_leaks::Suppressions;
use ramson_profile::format::format_duration;
use ramson_source::{Failure, Recording};
use std::fs;

/// The exit status of a check that nobody can answer yet.
const UNKNOWN: u8 = 4;

pub fn leaks(flags: &LeaksFlags) -> Result<u8, Failure> {
    let question = question(flags)?;
    let mut found = match flags.window {
        Some(window_ns) => watch(window_ns, &question)?,
        None => judge(&question).inspect_err(|_| {
            if !flags.json {
                say_without_profile(&question.sources);
            }
        })?,
    };
    for step in &found.unmatched {
        hint(&format!("{step} matches nothing"));
    }
    let tripped = flags.fail_on.iter().find_map(|gate| gate.finding(&found));
    let unknown = flags.fail_on.iter().any(|gate| gate.cannot_tell(&found));
    let unknown = unknown.then(|| table::suspects::answer(&found));
    if flags.json {
        found.truncate(flags.rows);
        print_json("leaks", &found)?;
    } else {
        print(&table::suspects::text(&found, flags.rows, flags.each, flags.verbose))?;
    }
    Ok(match (tripped, unknown) {
        (None, Some(why)) => {
            remark(why);
            if flags.fail_on.contains(&Gate::Unknown) { UNKNOWN } else { 0 }
        }
        (tripped, _) => gate(tripped),
    })
}

fn question(flags: &LeaksFlags) -> Result<Question, Failure> {
    Ok(Question {
        sources: flags.source.sources.clone(),
        names: flags.source.names.names(),
        selection: flags.frames.selection(&flags.filters),
        min_age_ns: flags.min_age,
        since: flags.since.clone(),
        baseline: flags.baseline.clone(),
        suppressions: read_suppressions(flags)?,
        ..Question::default()
    })
}

/// Judges the growth over a time that begins now.
fn watch(window_ns: u64, question: &Question) -> Result<Suspects, Failure> {
    let wanted = question.sources.join(" ");
    let (first, _) = moments(question)?;
    let running: Vec<String> =
        first.iter().filter_map(|one| one.running).map(|pid| pid.to_string()).collect();
    if running.is_empty() {
        return Err(Failure::usage(format!(
            "{wanted}: its process is not running, so --window cannot watch it. Compare with a mark: --since MARK"
        )));
    }
    if window_ns < question.min_age_ns {
        let [window, least] = [window_ns, question.min_age_ns].map(format_duration);
        return Err(Failure::usage(format!(
            "--window {window}: too short; growth needs at least {least} (--min-age). Pass a longer window, or a smaller --min-age"
        )));
    }
    let what = if running.len() == 1 { "process" } else { "processes" };
    let time = format_duration(window_ns);
    hint(&format!("watching {what} {} for {time}", running.join(", ")));
    let looks = look_again(&first, window_ns);
    let pids: Vec<u32> = first.iter().map(Recording::pid).collect();
    let (later, unprofiled) = moments(question)?;
    let mut courses = paired(dated(first), dated(later), &wanted)?;
    for (pid, (looks, goroutines)) in pids.into_iter().zip(looks) {
        let of_it = courses.iter_mut().find(|course| course.moment.recording.pid() == pid);
        if let Some(course) = of_it {
            (course.looks, course.goroutines) = (looks, goroutines);
        }
    }
    suspects(&courses, unprofiled, question)
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
