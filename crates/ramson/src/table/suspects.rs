//! The suspects as text: the answer in one line, then each finding with its reason and evidence.

use super::subject::Detail;
use super::symbols_hint::NO_PYTHON_NAMES;
use super::totals;
use super::{
    blocks, columns, most, name_and_place, push_prose, push_rest, push_terms, stack, subject,
};
use ramson_analysis::goroutines::GrowingPlace;
use ramson_analysis::summary::Subject;
use ramson_analysis::suspects::{Answer, CannotTell, Group, LineShare, Suspect, Suspects};
use ramson_leaks::Verdict;
use ramson_profile::format::{
    format_amount, format_bytes, format_duration, format_estimate, format_local_time,
    format_objects, format_per_hour, format_share, format_wait,
};
use ramson_profile::{Estimate, Language, SampleUnit, is_address, printable, short_name};
use std::fmt::Write;
use std::path::Path;

/// Callers shown of a stack.
const MAX_CALLERS: usize = 6;
/// If functions that hold more than this cannot be judged for want of time, no finding says anything.
const MOST_SHARE: f64 = 0.5;
/// A suspect with more than this of the growth has most of it.
const MOST_GROWTH: f64 = 0.6;
/// Functions shown then.
const LARGEST: usize = 2;
/// Functions that are no suspects and are named, if they have this share of what is live.
const OTHERS: usize = 3;
const LEAST_SHARE: f64 = 0.01;
/// Lines shown of a function.
const MAX_LINES: usize = 6;

/// The whole text; at most `rows` findings, 0: all. For several processes it shows the findings of all, or those of each. `has_evidence` asks for
/// what each finding rests on, also of those that are no suspects.
pub fn text(found: &Suspects, rows: usize, is_each: bool, has_evidence: bool) -> String {
    if found.processes.is_empty() || !is_each {
        return block(found, rows, has_evidence);
    }
    let mut heading = String::new();
    push_answer(&mut heading, found);
    heading += &subject::heading(&found.subject, &found.defects, detail(has_evidence));
    blocks(&heading, &found.processes, |suspects| block(suspects, rows, has_evidence))
}

fn block(found: &Suspects, rows: usize, has_evidence: bool) -> String {
    let mut out = String::new();
    push_answer(&mut out, found);
    out += &subject::heading(&found.subject, &found.defects, detail(has_evidence));
    if found.suppressed + found.known > 0 {
        let _ = writeln!(out, "hidden: {}\n", hidden(found));
    }
    for group in &found.groups {
        push_prose(&mut out, "", &together(group));
        out.push('\n');
    }
    if is_too_early(found) {
        push_largest(&mut out, found);
        return out;
    }
    if !has_evidence {
        push_short(&mut out, found, rows);
        push_nameless(&mut out, found);
        push_python(&mut out, found);
        out.truncate(out.trim_end().len());
        return out + "\n";
    }
    for (index, suspect) in found.suspects.iter().take(most(rows)).enumerate() {
        push_suspect(&mut out, index + 1, suspect, found.answer.is_running);
    }
    push_rest(&mut out, found.suspects.len(), most(rows), " findings");
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// How to find the function that is meant, where the first suspect is an address: that may be a wrapper that all allocate by.
fn push_nameless(out: &mut String, found: &Suspects) {
    let Subject::Recording(summary) = &found.subject else { return };
    let is_nameless = |first: &&Suspect| summary.pid != 0 && is_address(&first.function.name);
    let first = found.growing().next().filter(is_nameless);
    let Some((binary, _)) = first.and_then(|first| first.function.name.rsplit_once("+0x")) else {
        return;
    };
    let line = format!(
        "{} has no symbols: install them (NAME-dbgsym) or pass --debuginfod. Callers with names: ramson report {} --view functions --sort total",
        printable(binary),
        summary.pid
    );
    push_prose(out, "", &line);
}

/// How to have names of Python's functions, where a leak has only the interpreter's.
fn push_python(out: &mut String, found: &Suspects) {
    let Subject::Recording(summary) = &found.subject else { return };
    let is_python = Language::of_program(Path::new(&summary.executable)) == Some(Language::Python);
    let is_nameless = |suspect: &Suspect| suspect.frames.iter().all(|it| it.language.is_none());
    if is_python && found.growing().next().is_some() && found.growing().all(is_nameless) {
        push_prose(out, "", NO_PYTHON_NAMES);
    }
}

fn detail(has_evidence: bool) -> Detail {
    if has_evidence { Detail::All } else { Detail::Totals }
}

/// The goroutines that become more, the totals, then the answer.
fn push_answer(out: &mut String, found: &Suspects) {
    found.goroutines.iter().for_each(|growing| push_prose(out, "", &goroutines(growing)));
    totals::lines(found).iter().for_each(|line| push_prose(out, "", line));
    push_prose(out, "", &answer(found));
}

/// `goroutine leak suspect: 1,200 more in 40 s (108,000/h) wait in main.handle (chan receive), started in main.serve. 12,034 are there now; their
/// stacks have 27.1 MiB`.
fn goroutines(growing: &GrowingPlace) -> String {
    let GrowingPlace { place, grown, window_ns } = growing;
    let per_hour = *grown as f64 * 3.6e12 / (*window_ns).max(1) as f64;
    format!(
        "goroutine leak suspect: {} more in {} ({}/h) {}. {} are there now; their stacks have {}",
        format_objects(*grown as f64),
        format_duration(*window_ns),
        format_objects(per_hour),
        place.phrase(),
        format_objects(place.count as f64),
        format_bytes(place.stack_bytes as f64),
    )
}

/// Whether anything leaks, and how sure that is.
pub fn answer(found: &Suspects) -> String {
    let answer = &found.answer;
    match (answer.sampling_ended_ns.map(format_duration), answer.cannot_tell) {
        (Some(ago), Some(CannotTell::LiveNotKnown)) => format!(
            "cannot be judged: sampling ended {ago} ago, and nothing that was sampled is known to be live"
        ),
        (None, _) => answer_of(found),
        (Some(ago), _) => format!("as of {ago} ago, when sampling ended: {}", answer_of(found)),
    }
}

fn answer_of(found: &Suspects) -> String {
    let answer = &found.answer;
    let rate = format_per_hour(answer.growth_per_hour);
    let name = |suspect: &Suspect| short_name(&suspect.function.name);
    match (found.suspects.first(), answer.leak_suspects) {
        (Some(first), 1) => format!("1 leak suspect: {rate} in {}", name(first)),
        (Some(first), 2..) => {
            let count = answer.leak_suspects;
            let of = |suspect: &Suspect| {
                let growth = suspect.finding.growth.as_ref();
                growth.map_or(0.0, |growth| growth.per_hour.value)
            };
            let is_most = of(first) > MOST_GROWTH * answer.growth_per_hour.value;
            let place = if is_most { "most of it in" } else { "the fastest in" };
            format!("{count} leak suspects: {rate} together, {place} {}", name(first))
        }
        // It grew faster than any limit would be.
        _ if answer.cannot_tell == Some(CannotTell::Paused) => paused(found),
        _ => match limit(answer) {
            Some(limit) => format!("{}; {limit}{}", no_leak(found), raised(found)),
            None => no_leak(found),
        },
    }
}

/// The largest that was a leak suspect until a short time ago.
fn paused(found: &Suspects) -> String {
    let paused = |suspect: &&Suspect| suspect.finding.paused.is_some();
    let largest = found.suspects.iter().find(paused);
    let Some((suspect, paused)) = largest.and_then(|it| Some((it, it.finding.paused?))) else {
        return no_leak(found);
    };
    let now_ns = suspect.first_seen_unix_ns + suspect.first_seen_ns;
    let until_ns = now_ns.saturating_sub(paused.ago_ns);
    format!(
        "too early to tell whether a leak goes on: {} grew by {} until {} ({} ago)",
        short_name(&suspect.function.name),
        format_per_hour(paused.growth.per_hour),
        format_local_time(until_ns),
        format_duration(paused.ago_ns)
    )
}

/// How to find smaller leaks, if the overhead target keeps them from being found.
fn raised(found: &Suspects) -> String {
    let Subject::Recording(summary) = &found.subject else { return String::new() };
    let cost = &summary.recording;
    let is_raised = (1..cost.interval_bytes).contains(&cost.configured_interval_bytes);
    if !is_raised || !summary.is_running {
        return String::new();
    }
    format!(
        ". The overhead target has raised the interval; ramson set {} --max-overhead off finds smaller leaks",
        summary.pid
    )
}

/// Which leak would show.
pub fn limit(answer: &Answer) -> Option<String> {
    let limit = answer.limit?;
    Some(if answer.is_running { format!("{limit:#}") } else { limit.to_string() })
}

/// Says that no leak was found, and why there may be one all the same.
fn no_leak(found: &Suspects) -> String {
    let answer = &found.answer;
    let min_age = format_duration(answer.min_age_ns);
    match answer.cannot_tell {
        Some(CannotTell::SamplesLost) => {
            "no leak found, but samples were lost, and a leak may be among these".into()
        }
        Some(CannotTell::TooShort) if answer.is_running => format!(
            "too early to tell: nothing is judged in the first {min_age} (--min-age){}{}",
            more_time(answer.judged_in_ns, ". Ask again in "),
            few_samples(answer)
        ),
        Some(CannotTell::TooShort) => {
            format!("the recording is too short to tell: it needs {min_age} (--min-age)")
        }
        Some(CannotTell::TotalGrows) => {
            let time = answer.judged_in_ns.filter(|_| answer.is_running);
            format!(
                "live memory as a whole keeps growing, but no single function shows a leak{}",
                more_time(time, " yet. Ask again in ")
            )
        }
        Some(CannotTell::Undecided) if is_too_early(found) => format!(
            "too early to tell: {} of live memory is in functions first seen less than {min_age} ago (--min-age){}{}",
            format_share(young_share(found)),
            more_time(answer.judged_in_ns.filter(|_| answer.is_running), ". Ask again in "),
            few_samples(answer)
        ),
        Some(CannotTell::Undecided) => {
            let time = answer.judged_in_ns.filter(|_| answer.is_running);
            format!(
                "no leak found yet: {} of live memory, in {}, cannot be judged yet{}",
                format_share(answer.undecided_share),
                functions(answer.undecided),
                more_time(time, "; ask again in about "),
            )
        }
        Some(CannotTell::TooFewSamples) => {
            "no leak found, but too few samples are live to find one".into()
        }
        _ => "no leak found".into(),
    }
}

/// Why the wait is longer than the least age, if it is.
fn few_samples(answer: &Answer) -> &'static str {
    let is_longer = answer.judged_in_ns.is_some_and(|ns| ns > answer.min_age_ns);
    if is_longer && answer.is_running { ": there are few samples" } else { "" }
}

/// Whether nearly all that is live was first seen less than `--min-age` ago, so that the findings say nothing.
fn is_too_early(found: &Suspects) -> bool {
    let answer = &found.answer;
    match answer.cannot_tell {
        Some(CannotTell::TooShort) => true,
        Some(CannotTell::Undecided) => young_share(found) > MOST_SHARE,
        _ => false,
    }
}

/// The share of live memory in functions that nobody judges yet.
fn young_share(found: &Suspects) -> f64 {
    let young = found.suspects.iter().filter(|suspect| {
        suspect.finding.verdict == Verdict::NotEnoughData && suspect.finding.persistence.is_none()
    });
    young.map(|suspect| suspect.share).sum()
}

/// The functions that hold most, before anything is known about them.
fn push_largest(out: &mut String, found: &Suspects) {
    for suspect in found.suspects.iter().take(LARGEST) {
        let live = format_estimate(suspect.finding.inuse_space, SampleUnit::Bytes);
        let label = format!("live {live}, {} of all: ", format_share(suspect.share));
        let room = columns().map(|columns| columns.saturating_sub(label.chars().count()));
        let function = &suspect.function;
        let name = name_and_place(&short_name(&function.name), &function.file, 0, room);
        let _ = writeln!(out, "{label}{name}");
    }
}

/// Which suspects belong together.
fn together(group: &Group) -> String {
    let numbers = group.suspects.iter().map(|place| (place + 1).to_string());
    format!(
        "{} grow together, called by {}: {}",
        listed(numbers.collect()),
        short_name(&group.caller.name),
        format_per_hour(group.growth_per_hour)
    )
}

/// `1, 2 and 3`.
fn listed(mut words: Vec<String>) -> String {
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} and {last}", words.join(", ")),
        only => only.unwrap_or_default(),
    }
}

fn counted(count: f64, what: &str) -> String {
    let plural = if count.round() == 1.0 { "" } else { "s" };
    format!("{} {what}{plural}", format_objects(count))
}

fn functions(count: usize) -> String {
    counted(count as f64, "function")
}

fn more_time(ns: Option<u64>, before: &str) -> String {
    ns.map_or(String::new(), |ns| format!("{before}{}", format_wait(ns)))
}

fn hidden(found: &Suspects) -> String {
    let of = |count: usize, why: &str| {
        (count > 0).then(|| format!("{} {why}", counted(count as f64, "stack")))
    };
    let parts = [
        of(found.suppressed, "by suppressions"),
        of(found.known, "already growing in the baseline"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The suspects with what makes them some, then the others by their names.
fn push_short(out: &mut String, found: &Suspects, rows: usize) {
    let (suspects, others): (Vec<&Suspect>, Vec<&Suspect>) =
        found.suspects.iter().partition(|suspect| suspect.finding.verdict == Verdict::Growing);
    for (number, suspect) in (1..).zip(suspects.iter().take(most(rows))) {
        push_name(out, &format!("{number}. "), suspect);
        push_terms(out, "   ", &growing(suspect), 3);
        push_prose(out, "   ", &reason(suspect, found.answer.is_running));
        if let Some(callers) = callers(suspect) {
            push_terms(out, "   ", &callers, 5);
        }
        out.push('\n');
    }
    push_rest(out, suspects.len(), most(rows), " suspects");
    let large = others.iter().filter(|other| other.share >= LEAST_SHARE);
    let named: Vec<&&Suspect> = large.take(most(rows).min(OTHERS)).collect();
    let text = |other: &&&Suspect| {
        let finding = &other.finding;
        let live = format_amount(finding.inuse_space, SampleUnit::Bytes);
        format!("{} {live}, {}", short_name(&other.function.name), finding.verdict)
    };
    let mut texts: Vec<String> = named.iter().map(text).collect();
    let more = others.len() - texts.len();
    texts.extend((more > 0).then(|| format!("{more} more")));
    if texts.is_empty() {
        return push_prose(out, "", "-v shows the evidence");
    }
    let is_undecided = named.iter().any(|other| other.finding.verdict == Verdict::NotEnoughData);
    let label = match (suspects.is_empty(), is_undecided) {
        (true, _) => "largest: ",
        (false, true) => "not suspects so far: ",
        (false, false) => "not suspects: ",
    };
    push_prose(out, label, &format!("{} (-v shows why)", texts.join("; ")));
}

/// `growing by 13.7 GiB/h (±1.5 GiB) since … or earlier; live 351 MiB (±7%), 94% of all`.
fn growing(suspect: &Suspect) -> String {
    let finding = &suspect.finding;
    let mut out = String::new();
    if let Some(growth) = &finding.growth {
        let _ = write!(out, "growing by {}", format_per_hour(growth.per_hour));
        if growth.is_measured {
            let _ = write!(out, " over the last {};", format_duration(growth.window_ns));
        }
    }
    if let Some((since, ns)) = suspect.growing_since_unix_ns.zip(finding.growing_for_ns) {
        let (since, ago) = (format_local_time(since), format_duration(ns));
        let growing = if out.ends_with(';') { " growing" } else { "" };
        let _ = write!(out, "{growing} since {since} ({ago} ago) or earlier");
    }
    let live = format_estimate(finding.inuse_space, SampleUnit::Bytes);
    format!("{out}; live {live}, {} of all", format_share(suspect.share))
}

/// The function and where it is, behind a label.
fn push_name(out: &mut String, label: &str, suspect: &Suspect) {
    let function = &suspect.function;
    let mut known = suspect.lines.iter().filter(|line| line.line > 0);
    let only = match (known.next(), known.next()) {
        (Some(only), None) => only.line,
        _ => 0,
    };
    let room = columns().map(|columns| columns.saturating_sub(label.chars().count()));
    let name = name_and_place(&short_name(&function.name), &function.file, only, room);
    let _ = writeln!(out, "{label}{name}");
}

fn push_suspect(out: &mut String, rank: usize, suspect: &Suspect, is_running: bool) {
    let known: Vec<&LineShare> = suspect.lines.iter().filter(|line| line.line > 0).collect();
    push_name(out, &format!("{rank}. {}: ", suspect.finding.verdict), suspect);
    push_terms(out, "   ", &live(suspect), 3);
    push_prose(out, "   ", &reason(suspect, is_running));
    if let Some(together) = compiled_together(suspect) {
        push_prose(out, "   ", &together);
    }
    if known.len() > 1 {
        push_terms(out, "   ", &lines(&known), 3);
    }
    if let Some(callers) = callers(suspect) {
        push_terms(out, "   ", &callers, 5);
    }
    push_terms(out, "   ", &ages(suspect), 3);
    out.push('\n');
}

/// `5,600 objects (±12%)`, `7 objects`.
fn objects(count: Estimate) -> String {
    let text = format_estimate(count, SampleUnit::Objects);
    let plural = if text == "1" { "" } else { "s" };
    match text.split_once(" (") {
        Some((number, error)) => format!("{number} objects ({error}"),
        None => format!("{text} object{plural}"),
    }
}

fn live(suspect: &Suspect) -> String {
    let finding = &suspect.finding;
    let mut out = format!(
        "live {}, {} of all, {}, {}",
        format_estimate(finding.inuse_space, SampleUnit::Bytes),
        format_share(suspect.share),
        objects(finding.inuse_objects),
        counted(finding.samples as f64, "sample"),
    );
    if let Some(growth) = &finding.growth {
        let rate = format_per_hour(growth.per_hour);
        // `is_significant` is about growth: it says nothing of a value below 0.
        let is_sure = growth.is_significant || growth.per_hour.value < 0.0;
        let doubt = if is_sure { "" } else { ", not significant" };
        match (growth.is_measured, finding.verdict) {
            (true, _) => {
                let window = format_duration(growth.window_ns);
                let _ = write!(out, "; growth {rate} over the last {window}{doubt}");
            }
            (false, Verdict::Growing) => {
                let _ = write!(out, "; growth {rate}{doubt}");
            }
            (false, _) => {}
        }
    }
    out
}

/// The sentence, and how much longer it takes where it cannot be judged yet.
fn reason(suspect: &Suspect, is_running: bool) -> String {
    let finding = &suspect.finding;
    let reason = finding.reason.trim_end_matches('.');
    match (finding.verdict, finding.judged_in_ns) {
        (Verdict::NotEnoughData, Some(ns)) if is_running => {
            format!("{reason}: about {} more.", format_duration(ns))
        }
        (Verdict::NotEnoughData, _) if !is_running => {
            format!("{reason}. A longer recording or a smaller --interval would tell.")
        }
        _ => finding.reason.clone(),
    }
}

/// The functions that are one leak with this one.
fn compiled_together(suspect: &Suspect) -> Option<String> {
    let others = suspect.compiled_together.iter();
    let others: Vec<String> = others.map(|other| short_name(&other.name)).collect();
    (!others.is_empty()).then(|| {
        let others = listed(others);
        format!("Includes memory of {others}, which the JIT compiler inlines into callers.")
    })
}

fn lines(known: &[&LineShare]) -> String {
    let share =
        |line: &&LineShare| format!("{}: {}", line.line, format_bytes(line.inuse_space.value));
    let mut shares: Vec<String> = known.iter().take(MAX_LINES).map(share).collect();
    if known.len() > MAX_LINES {
        shares.push(format!("{} more", known.len() - MAX_LINES));
    }
    format!("by line {}", shares.join(", "))
}

/// Those of the largest stack.
fn callers(suspect: &Suspect) -> Option<String> {
    let callers = suspect.frames.get(1..).filter(|callers| !callers.is_empty())?;
    let callers = stack(callers, MAX_CALLERS);
    Some(match suspect.stacks - 1 {
        0 => format!("called by {callers}"),
        1 => format!("called by {callers}, and 1 other stack"),
        others => format!("called by {callers}, and {others} other stacks"),
    })
}

fn ages(suspect: &Suspect) -> String {
    let finding = &suspect.finding;
    let at = |unix_ns, ns| format!("{} ({} ago)", format_local_time(unix_ns), format_duration(ns));
    let mut out = match suspect.growing_since_unix_ns.zip(finding.growing_for_ns) {
        Some((since, ns)) => format!("growing since {} or earlier", at(since, ns)),
        None => format!("first seen {}", at(suspect.first_seen_unix_ns, suspect.first_seen_ns)),
    };
    if let Some(ages) = &finding.ages {
        let _ = write!(
            out,
            "; age p50 {}, oldest {}",
            format_duration(ages.p50_ns),
            format_duration(ages.oldest_ns)
        );
    }
    if let Some(survival) = &finding.survival {
        let (least, most) = survival.interval;
        let _ = write!(
            out,
            "; never freed {} ({} to {})",
            format_share(survival.never_freed),
            format_share(least),
            format_share(most)
        );
    }
    out
}
