//! What `doctor` finds in several processes as text: their sum, a row for each, and what saves most.

use super::{columns, cut, doctor, pins, push_prose};
use ramson_analysis::doctor::Findings;
use ramson_analysis::rss::Rss;
use ramson_process::Term;
use ramson_profile::format::format_bytes;
use std::fmt::Write;

/// Processes that get a row, and advice that is shown.
const MOST_ROWS: usize = 40;
const MOST_ADVICE: usize = 10;

/// The whole text.
pub fn text(findings: &Findings) -> String {
    let mut out = heading(findings);
    push_table(&mut out, findings);
    let shown = findings.advice.iter().take(MOST_ADVICE);
    let shown = shown.map(|placed| (format!("{} (pid {}): ", placed.name, placed.pid), placed));
    let shown: Vec<_> = shown.map(|(place, placed)| (place, &placed.advice)).collect();
    match shown.is_empty() {
        true => out.push_str("\nno advice saves memory in any of them\n"),
        false => pins::push_advice_at(&mut out, &shown, columns()),
    }
    if findings.advice.len() > MOST_ADVICE {
        let _ = writeln!(out, "({} more; --json has all)", findings.advice.len() - MOST_ADVICE);
    }
    out
}

/// The sum, and a block for each process.
pub fn blocks(findings: &Findings, rows: usize) -> String {
    let block = |each: &ramson_analysis::members::Each<_>| {
        format!("\n── {}\n{}", each.row.name_and_pid(), doctor::text(&each.answer, rows))
    };
    heading(findings) + &findings.processes.iter().map(block).collect::<String>()
}

fn heading(findings: &Findings) -> String {
    let mut out = String::new();
    if let Some(rss) = &findings.rss {
        push_prose(&mut out, "", &rss.line(), columns());
    }
    let count = findings.processes.len();
    let _ = writeln!(out, "{count} processes; pages that they share count in each");
    for refusal in &findings.refused {
        push_prose(&mut out, "not looked at: ", &refusal.reason, columns());
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
    let cells = |rss: &Rss| {
        let mut line = format!("{:>10}", format_bytes(rss.bytes as f64));
        for &(term, name) in &terms {
            let width = name.len().max(10);
            let _ = write!(line, " {:>width$}", format_bytes(rss.term(term).value));
        }
        line
    };
    let _ = write!(out, "\n{:>10} {:>10}", "pid", "RSS");
    for (_, name) in &terms {
        let width = name.len().max(10);
        let _ = write!(out, " {:>width$}", name.replace('_', " "));
    }
    out.push_str("  command\n");
    for each in findings.processes.iter().take(MOST_ROWS) {
        let command = match each.row.command_line.as_slice() {
            [] => each.row.name.clone(),
            words => words.join(" "),
        };
        let line = format!("{:>10} {}  {command}", each.answer.pid, cells(&each.answer.rss));
        let _ = writeln!(out, "{}", cut(&line, columns()));
    }
    if let Some(more) = findings.processes.len().checked_sub(MOST_ROWS).filter(|&more| more > 0) {
        let _ = writeln!(out, "{more:>10} more; --json has all");
    }
    let _ = writeln!(out, "{}", cut(&format!("{:>10} {}", "sum", cells(sum)), columns()));
}
