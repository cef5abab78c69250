//! What `doctor` finds in several processes as text: their sum, a row for each, and what saves most.

use super::{Table, blocks, command, doctor, pins, push_prose};
use ramson_analysis::doctor::Findings;
use ramson_analysis::rss::Rss;
use ramson_process::Term;
use ramson_profile::format::format_bytes;
use std::fmt::Write;

/// Processes that get a row, and advice that is shown.
const MOST_ROWS: usize = 40;
const MOST_ADVICE: usize = 10;

pub fn text(findings: &Findings, rows: usize, is_each: bool) -> String {
    let mut out = heading(findings);
    if is_each {
        return blocks(&out, &findings.processes, |finding| doctor::text(finding, rows));
    }
    push_table(&mut out, findings);
    if findings.advice.is_empty() {
        out.push_str("\nno advice saves memory in any of them\n");
        return out;
    }
    let shown = findings.advice.iter().take(MOST_ADVICE);
    let place = |pid: u32, name: &str| format!("{name} (pid {pid}): ");
    let shown = shown.map(|placed| (place(placed.pid, &placed.name), &placed.advice));
    pins::push_advice(&mut out, shown);
    if findings.advice.len() > MOST_ADVICE {
        let _ = writeln!(out, "({} more; --json has all)", findings.advice.len() - MOST_ADVICE);
    }
    out
}

fn heading(findings: &Findings) -> String {
    let mut out = String::new();
    if let Some(rss) = &findings.rss {
        push_prose(&mut out, "", &rss.line());
    }
    let count = findings.processes.len();
    let _ = writeln!(out, "{count} processes; pages that they share count in each");
    for refusal in &findings.refused {
        push_prose(&mut out, "not looked at: ", &refusal.reason);
    }
    out
}

/// A column for each term that any of them has.
fn push_table(out: &mut String, findings: &Findings) {
    let Some(sum) = &findings.rss else { return };
    let has = |term: Term| {
        let mut all = findings.processes.iter().map(|each| &each.answer.rss);
        all.any(|rss| rss.term(term).value != 0.0)
    };
    let terms: Vec<(Term, &str)> = Term::ALL.iter().copied().filter(|of| has(of.0)).collect();
    let head =
        |(_, name): &(Term, &str)| format!("|{}:>{}", name.replace('_', " "), name.len().max(10));
    let heads: String = terms.iter().map(head).collect();
    let cells = |first: String, rss: &Rss, last: String| {
        let values = terms.iter().map(|&(term, _)| format_bytes(rss.term(term).value));
        let rss = format_bytes(rss.bytes as f64);
        [first, rss].into_iter().chain(values).chain([last]).collect::<Vec<_>>()
    };
    out.push('\n');
    let mut table = Table::new(out, &format!("pid:>10|RSS:>10{heads}|command"));
    for each in findings.processes.iter().take(MOST_ROWS) {
        table.row(cells(each.answer.pid.to_string(), &each.answer.rss, command(&each.row)));
    }
    if let Some(more) = findings.processes.len().checked_sub(MOST_ROWS).filter(|&more| more > 0) {
        table.line_across(&format!("{more:>10} more; --json has all"));
    }
    table.row(cells("sum".into(), sum, String::new()));
}
