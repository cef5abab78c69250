//! Findings of `explain` in several processes as text: their sum, a row for each, and what saves most.

use super::explain::Shown;
use super::{Table, blocks, command, explain, pins, push_prose, push_terms};
use ramson_analysis::explain::Findings;
use ramson_analysis::rss::Rss;
use ramson_process::Term;
use ramson_profile::format::format_bytes;
use std::fmt::Write;

/// Processes that get a sentence, those that get a row, and advice that is shown.
const MOST_SENTENCES: usize = 4;
const MOST_ROWS: usize = 40;
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
        out.push_str("\nno advice saves memory in any of them\n");
        return;
    }
    let shown = findings.advice.iter().take(MOST_ADVICE);
    let place = |pid: u32, name: &str| format!("{name} (pid {pid}): ");
    let shown = shown.map(|placed| (place(placed.pid, &placed.name), &placed.advice));
    pins::push_advice(out, shown);
    if findings.advice.len() > MOST_ADVICE {
        let _ = writeln!(out, "({} more; --json has all)", findings.advice.len() - MOST_ADVICE);
    }
}

/// RSS of all processes together, and the largest cause of those processes in which it is largest.
fn heading(findings: &Findings) -> String {
    let mut out = String::new();
    let count = findings.processes.len();
    let rss = findings.rss.as_ref().map_or(0.0, |rss| rss.bytes as f64);
    let title = format!(
        "RSS {} in {count} processes; shared pages are counted once per process",
        format_bytes(rss)
    );
    push_prose(&mut out, "", &title);
    let causes = findings.processes.iter().filter_map(|each| {
        Some((
            format!("{} (pid {}): ", each.answer.name, each.answer.pid),
            each.answer.causes.first()?,
        ))
    });
    let mut causes: Vec<_> = causes.collect();
    causes.sort_by(|a, b| b.1.bytes.value.total_cmp(&a.1.bytes.value));
    for (place, cause) in causes.iter().take(MOST_SENTENCES) {
        push_prose(&mut out, "• ", &(place.clone() + &cause.sentence));
    }
    for refusal in &findings.refused {
        push_prose(&mut out, "not examined: ", &refusal.reason);
    }
    out
}

/// Terms with a column, where any of them has it; the others are summed up.
const COLUMNS: [(Term, &str); 4] =
    [(Term::Live, "live"), (Term::Free, "free"), (Term::Held, "held"), (Term::Mmap, "mmap")];

fn push_table(out: &mut String, findings: &Findings) {
    let Some(sum) = &findings.rss else { return };
    let shown: Vec<(Term, &str)> =
        COLUMNS.into_iter().filter(|&(term, _)| sum.term(term).value != 0.0).collect();
    let head = |&(term, name): &(Term, &str)| match term {
        Term::Live | Term::Free => format!("|{name}:>10"),
        _ => format!("|{name}:>10@90"),
    };
    let heads: String = shown.iter().map(head).collect();
    let cells = |first: String, rss: &Rss, last: String| {
        let values: Vec<f64> = shown.iter().map(|&(term, _)| rss.term(term).value).collect();
        let rest = rss.bytes as f64 - values.iter().sum::<f64>();
        let bytes = [rss.bytes as f64].into_iter().chain(values).chain([rest]).map(format_bytes);
        [first].into_iter().chain(bytes).chain([last]).collect::<Vec<_>>()
    };
    out.push('\n');
    push_terms(out, "", &sum.line(), 2);
    let mut table = Table::new(out, &format!("pid:>10|RSS:>10{heads}|rest:>10@90|command"));
    for each in findings.processes.iter().take(MOST_ROWS) {
        table.row(cells(each.answer.pid.to_string(), &each.answer.rss, command(&each.row)));
    }
    if let Some(more) = findings.processes.len().checked_sub(MOST_ROWS).filter(|&more| more > 0) {
        table.line_across(&format!("{more:>10} more; --json has all"));
    }
    table.row(cells("sum".into(), sum, String::new()));
}
