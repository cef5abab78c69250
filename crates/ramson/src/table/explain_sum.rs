//! Findings of `explain` in several processes as text: their sum, a row for each, and what saves most.

use super::explain::Shown;
use super::subject::{growth_column, growth_of, push_growth_legend, really_used};
use super::{Table, blocks, command, explain, pins, push_prose, push_terms, size};
use ramson_analysis::explain::{Findings, Placed};
use ramson_analysis::members::RowGrowth;
use ramson_analysis::rss::Rss;
use ramson_process::{Part, Term};
use ramson_profile::format::{format_bytes, format_relative_error};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Add;

/// Processes that get a sentence, those that get a row, and advice that is shown.
const MOST_SENTENCES: usize = 4;
const MOST_ROWS: usize = 40;
/// Less of what all really use is not worth a sentence.
const LEAST_SHARE: f64 = 0.02;
const MOST_ADVICE: usize = 10;

pub fn text(findings: &Findings, shown: Shown, is_each: bool) -> String {
    let mut out = heading(findings);
    if is_each {
        return blocks(&out, &findings.processes, |finding| explain::text(finding, shown));
    }
    push_advice(&mut out, findings);
    push_table(&mut out, findings);
    out
}

fn push_advice(out: &mut String, findings: &Findings) {
    if findings.advice.is_empty() {
        out.push_str("\nnothing that would save memory was found in any of them\n");
        return;
    }
    let shown = findings.advice.iter().take(MOST_ADVICE);
    let place = |placed: &Placed| match placed.processes.as_slice() {
        [only] => format!("{} (pid {}): ", only.name, only.pid),
        several => format!("in {} processes: ", several.len()),
    };
    let shown = shown.map(|placed| (place(placed), &placed.advice));
    pins::push_advice(out, shown, false);
    if findings.advice.len() > MOST_ADVICE {
        let _ = writeln!(out, "({} more; --json has all)", findings.advice.len() - MOST_ADVICE);
    }
}

/// RSS of all processes together, and the largest cause of those processes in which it is largest.
fn heading(findings: &Findings) -> String {
    let mut out = String::new();
    let count = findings.processes.len();
    let title = findings.rss.as_ref().map(|rss| really_used(rss, count));
    push_prose(&mut out, "", &title.unwrap_or_default());
    let shared = shared(findings).into_iter().map(|Shared { path, pss, processes }| {
        format!("{} is shared memory of {processes} of them ({path})", size(pss))
    });
    let causes = findings.processes.iter().filter_map(|each| {
        // What they share is not theirs alone.
        let mut causes = each.answer.causes.iter();
        let own = causes.find(|cause| !matches!(cause.cause, "shared" | "files" | "inherited"));
        Some((format!("{} (pid {}): ", each.answer.name, each.answer.pid), own?))
    });
    let mut causes: Vec<_> = causes.collect();
    let pss = findings.rss.as_ref().map_or(0, |rss| rss.pss) as f64;
    causes.retain(|(_, cause)| cause.bytes.value >= LEAST_SHARE * pss);
    causes.sort_by(|a, b| b.1.bytes.value.total_cmp(&a.1.bytes.value));
    let copies = copied(findings).map(|(bytes, count)| {
        format!(
            "{} are copies of the parent's memory since the fork, in {count} of them",
            size(bytes)
        )
    });
    let shared = shared.chain(copies);
    let own = causes.iter().take(MOST_SENTENCES);
    let own = own.map(|(place, cause)| place.clone() + &cause.sentence);
    out.push('\n');
    pins::push_causes(&mut out, shared.chain(own));
    for refusal in &findings.refused {
        push_prose(&mut out, "not examined: ", &refusal.reason);
    }
    out
}

/// What forked processes have copied of their parents' memory, and how many did, if that is worth a word.
fn copied(findings: &Findings) -> Option<(u64, usize)> {
    let rss = findings.rss.as_ref()?;
    let of = |rss: &Rss| rss.explained.part(Part::Copied).max(0) as u64;
    let least = (LEAST_SHARE * rss.pss as f64) as u64;
    let has_copies = findings.processes.iter().filter(|each| of(&each.answer.rss) > 0).count();
    Some((of(rss), has_copies)).filter(|&(bytes, count)| bytes > least && count > 1)
}

/// Shared memory that several processes have mapped.
#[derive(Default)]
struct Shared<'a> {
    path: &'a str,
    /// What of it they really use.
    pss: u64,
    processes: usize,
}

/// What is worth a word of it, the largest first.
fn shared(findings: &Findings) -> Vec<Shared<'_>> {
    let mut all: BTreeMap<(u64, u64), Shared> = BTreeMap::new();
    for one in findings.processes.iter().flat_map(|each| &each.answer.details.shared_memory) {
        let shared = all.entry(one.id).or_default();
        shared.path = &one.path;
        shared.pss += one.pss;
        shared.processes += 1;
    }
    let pss = findings.rss.as_ref().map_or(0, |rss| rss.pss);
    let is_told = |of: &Shared| of.processes > 1 && of.pss * 20 >= pss;
    let mut all: Vec<Shared> = all.into_values().filter(is_told).collect();
    all.sort_by_key(|of| Reverse(of.pss));
    all.truncate(MOST_SENTENCES);
    all
}

/// Terms with a column, where any of them has it; the others are summed up.
const COLUMNS: [(Term, &str); 4] =
    [(Term::Live, "live"), (Term::Free, "free"), (Term::Held, "held"), (Term::Mmap, "mmap")];

fn push_table(out: &mut String, findings: &Findings) {
    let Some(sum) = &findings.rss else { return };
    let shown: Vec<(Term, &str)> =
        COLUMNS.into_iter().filter(|&(term, _)| sum.term(term).value != 0.0).collect();
    let head = |&(term, name): &(Term, &str)| match term {
        Term::Live => format!("|{name}:>10|±:>8@90"),
        Term::Free => format!("|{name}:>10"),
        _ => format!("|{name}:>10@90"),
    };
    let heads: String = shown.iter().map(head).collect();
    let growth = growth_column(findings.processes.iter().map(|each| &each.row));
    let cells = |first: String, rss: &Rss, grows: String, last: String| {
        let mut row = vec![first, size(rss.private), size(rss.bytes)];
        let mut rest = rss.bytes as f64;
        for &(term, _) in &shown {
            let bytes = rss.term(term);
            rest -= bytes.value;
            row.push(format_bytes(bytes.value));
            if term == Term::Live {
                row.push(format_relative_error(bytes));
            }
        }
        row.push(format_bytes(rest));
        row.extend((!growth.is_empty()).then_some(grows));
        row.push(last);
        row
    };
    out.push('\n');
    push_terms(out, "", &sum.line(), 2);
    let mut table =
        Table::new(out, &format!("pid:>10|private:>10|RSS:>10{heads}|rest:>10@90{growth}|command"));
    for each in findings.processes.iter().take(MOST_ROWS) {
        let pid = each.answer.pid.to_string();
        table.row(cells(pid, &each.answer.rss, growth_of(each.row.growth), command(&each.row)));
    }
    if let Some(more) = findings.processes.len().checked_sub(MOST_ROWS).filter(|&more| more > 0) {
        table.line_across(&format!("{more:>10} more; --json has all"));
    }
    let rows = || findings.processes.iter().map(|each| &each.row);
    let rates = rows().filter_map(|row| row.growth.live_per_hour);
    let of_all = RowGrowth::of(rates.reduce(Add::add), None, false);
    table.row(cells("sum".into(), sum, growth_of(of_all), String::new()));
    push_growth_legend(&mut table, growth, rows());
}
