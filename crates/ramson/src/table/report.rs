//! A report as text.

use super::{Table, blocks, frees, health, percent, place, sizes, stack, subject, trees};
use ramson_analysis::report::{Functions, Report, View};
use ramson_analysis::summary::Subject;
use ramson_profile::Estimate;
use ramson_profile::format::{
    format_estimate, format_objects, format_relative_error, format_value,
};
use ramson_symbols::SymbolDefect;
use std::fmt::Write;

/// Frames of a whole stack.
const MAX_STACK_FRAMES: usize = 8;
/// Binaries whose names are lost, one by one.
const MAX_LOST: usize = 3;

/// The whole text; at most so many rows of a table, 0: all. Of several processes the sum, or a block
/// for each where that is wanted or a sum says nothing.
pub fn text(report: &Report, rows: usize, is_each: bool) -> String {
    let is_of_one = matches!(report.view, View::Health {});
    if report.processes.is_empty() || !(is_each || is_of_one) {
        return block(report, rows);
    }
    let heading = subject::heading(&report.subject, &report.defects);
    blocks(&heading, &report.processes, |report| block(report, rows))
}

fn block(report: &Report, rows: usize) -> String {
    let mut out = subject::heading(&report.subject, &report.defects);
    push_lost_names(&mut out, report);
    match &report.view {
        View::Report(functions) => push_functions(&mut out, report, functions),
        View::Tree(tree) => {
            trees::tree(&mut out, report, tree, rows, "callers above their callees")
        }
        View::Callers(tree) => {
            trees::tree(&mut out, report, tree, rows, "callees above their callers");
        }
        View::Peek(table) => trees::peek(&mut out, report, table),
        View::Sizes(table) => sizes::sizes(&mut out, table),
        View::Threads(table) => sizes::threads(&mut out, table, rows),
        View::Frees(frees) => frees::table(&mut out, frees, rows),
        View::Health {} => {
            if let Subject::Recording(summary) = &report.subject {
                health::table(&mut out, summary);
            }
        }
    }
    out
}

/// `inuse_space, total 4.05 GiB`, or how much of it passed the filters.
pub fn title(report: &Report, shown: Estimate) -> String {
    let (sample_type, unit) = (report.sample_type, report.sample_type.unit());
    let total = format_estimate(report.whole, unit);
    match shown.value == report.whole.value {
        true => format!("{sample_type}, total {total}"),
        false => format!(
            "{sample_type}, {}, {} of total {total}",
            format_estimate(shown, unit),
            percent(shown.value, report.magnitude),
        ),
    }
}

fn push_functions(out: &mut String, report: &Report, functions: &Functions) {
    let table = &functions.table;
    let (sample_type, unit) = (table.sample_type, table.sample_type.unit());
    if table.rows.is_empty() {
        let _ = writeln!(out, "no {sample_type} sampled yet");
        return;
    }
    let _ = writeln!(out, "{}", title(report, table.total));
    let heads = "flat:>10|flat%:>7|sum%:>7|cum:>10|cum%:>7|±:>8|objects:>13|function  file:line";
    let mut lines = Table::new(out, heads);
    let mut sum = 0.0;
    for row in &table.rows {
        sum += row.flat.value;
        lines.row([
            format_value(row.flat.value, unit),
            percent(row.flat.value, report.magnitude),
            percent(sum, report.magnitude),
            format_value(row.cum.value, unit),
            percent(row.cum.value, report.magnitude),
            format_relative_error(row.shown()),
            format_objects(row.objects.value),
            format!("{}{}", row.name, place(&row.file, row.line)),
        ]);
    }
    if !functions.stacks.is_empty() {
        let title = "largest stacks, leaf first, without the C++ library's own frames";
        let _ = writeln!(lines.out, "\n{title}");
    }
    for of in &functions.stacks {
        let (value, error) = (format_value(of.value.value, unit), format_relative_error(of.value));
        let stack = stack(&of.frames, MAX_STACK_FRAMES);
        lines.line_across(&format!("{value:>10} {error:>8}  {stack}"));
    }
}

/// What is part of the heading: binaries of a dead process that no longer exist, so that another
/// look will not find their names either; and what else kept frames from having names.
pub fn missing(report: &Report) -> (Vec<&SymbolDefect>, Vec<&SymbolDefect>) {
    let is_dead = matches!(&report.subject, Subject::Recording(summary) if !summary.is_running);
    let is_lost = |defect: &&SymbolDefect| match defect {
        SymbolDefect::BuildIdDiffers { used, .. } => is_dead && used.is_none(),
        SymbolDefect::BinaryMissing { .. } | SymbolDefect::ObjectsLost { .. } => is_dead,
        _ => false,
    };
    report.missing_symbols.iter().partition(is_lost)
}

fn push_lost_names(out: &mut String, report: &Report) {
    let (lost, _) = missing(report);
    if lost.is_empty() {
        return;
    }
    out.truncate(out.trim_end_matches('\n').len());
    for defect in lost.iter().take(MAX_LOST) {
        let _ = write!(out, "\nnames are missing: {defect}");
    }
    out.push_str("\n\n");
}
