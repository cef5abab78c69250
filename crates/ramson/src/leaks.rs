//! `ramson leaks`: which stacks are suspects, with the evidence.

use crate::flags::LeaksFlags;
use crate::output::{hint, print, print_json, remark};
use crate::table;
use ramson_analysis::suspects::{DatedRecording, Question, paired, suspects};
use ramson_leaks::Suppressions;
use ramson_profile::format::format_duration;
use ramson_source::{Failure, marks, open_recording};
use std::time::Duration;
use std::{fs, thread};

pub fn leaks(flags: &LeaksFlags) -> Result<u8, Failure> {
    let (names, selection) = (flags.source.names.names(), flags.filters.selection());
    let suppressions = read_suppressions(flags)?;
    let question = Question {
        names: &names,
        selection: &selection,
        min_age_ns: flags.min_age,
        suppressions: &suppressions,
    };
    let (earlier, moment) = moments(flags)?;
    let baseline = flags.baseline.as_ref().map(|name| marks::open(name, &moment.recording));
    let baseline = baseline.transpose()?.map(DatedRecording::of);
    let mut found = suspects(&moment, earlier.as_ref(), baseline.as_ref(), &question)?;
    if flags.json {
        let most = if flags.rows == 0 { usize::MAX } else { flags.rows };
        let rest = found.suspects.split_off(most.min(found.suspects.len()));
        print_json("leaks", &found)?;
        found.suspects.extend(rest);
    } else {
        print(&table::suspects::text(&found, flags.rows))?;
    }
    match flags.fail_on.as_ref().and_then(|gate| gate.finding(&found)) {
        Some(finding) => {
            remark(finding);
            Ok(3)
        }
        None => Ok(0),
    }
}

/// The moment to judge, and an earlier one if growth is to be measured.
fn moments(flags: &LeaksFlags) -> Result<(Option<DatedRecording>, DatedRecording), Failure> {
    let wanted = &flags.source.source;
    let first = DatedRecording::of(open_recording(wanted)?);
    if first.recording.past.as_ref().is_some_and(|past| past.from_ns.is_some()) {
        return Err(Failure::usage(format!(
            "{wanted}: leaks judges a moment, not a range. Pass its end, and its beginning with --since SRC@MOMENT"
        )));
    }
    let (earlier, later, object) = match (flags.window, &flags.since) {
        (Some(window_ns), _) => {
            let Some(pid) = first.recording.running else {
                return Err(Failure::usage(format!(
                    "{wanted}: its process does not run, so --window cannot watch it. Compare with a mark: --since MARK"
                )));
            };
            hint(&format!("watching process {pid} for {}", format_duration(window_ns)));
            thread::sleep(Duration::from_nanos(window_ns));
            (first, DatedRecording::of(open_recording(wanted)?), wanted)
        }
        (None, Some(since)) => {
            (DatedRecording::of(marks::open(since, &first.recording)?), first, since)
        }
        (None, None) => return Ok((None, first)),
    };
    paired(&earlier, &later, object)?;
    Ok((Some(earlier), later))
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
