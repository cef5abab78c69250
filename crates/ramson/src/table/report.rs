//! A report as text.

use super::subject::Detail;
use super::{
    Table, blocks, frees, health, name_and_place, percent, push_terms, sizes, stacks, subject,
    trees,
};
use ramson_analysis::named::Kinds;
use ramson_analysis::report::{Report, View};
use ramson_analysis::summary::Subject;
use ramson_format::Kind;
use ramson_profile::format::{
    format_amount, format_error, format_estimate, format_percent, format_value,
};
use ramson_profile::view::TopTable;
use ramson_profile::{Estimate, SampleType, SampleUnit};
use ramson_symbols::SymbolDefect;
use std::fmt::Write;

/// Binaries whose names are lost, one by one.
const MAX_LOST: usize = 3;

/// How much is shown.
#[derive(Clone, Copy)]
pub struct Shown {
    /// Rows of a table; 0: all.
    pub rows: usize,
    /// Several processes get a block each.
    pub is_each: bool,
    /// Every term of RSS, how the process was sampled, and what the rows are of.
    pub has_details: bool,
}

impl Shown {
    fn detail(self) -> Detail {
        if self.has_details { Detail::All } else { Detail::Terms }
    }
}

/// The whole text; at most `rows` rows of a table, 0: all. For several processes it shows the sum, or a block
/// for each if the user wants that or a sum says nothing. `source` is how the user names the processes.
pub fn text(report: &Report, shown: Shown, source: &str) -> String {
    let is_of_one = matches!(report.view, View::Health {});
    let mut out = if report.processes.is_empty() || !(shown.is_each || is_of_one) {
        block(report, shown)
    } else {
        let heading = subject::heading(&report.subject, &report.defects, shown.detail());
        blocks(&heading, &report.processes, |report| block(report, shown))
    };
    if let Some(pointers) = &report.pointers {
        stacks::pointers(&mut out, pointers, source);
    }
    if let View::Stacks(table) = &report.view {
        stacks::push_functions_pointer(&mut out, report, table, source);
    }
    out
}

fn block(report: &Report, shown: Shown) -> String {
    let Shown { rows, has_details, .. } = shown;
    let mut out = subject::heading(&report.subject, &report.defects, shown.detail());
    push_lost_names(&mut out, report);
    match &report.view {
        View::Stacks(table) => stacks::table(&mut out, report, table, has_details),
        View::Report(table) => push_functions(&mut out, report, table, has_details),
        View::Tree(tree) => {
            trees::tree(&mut out, report, tree, rows, "callers above their callees")
        }
        View::Callers(tree) => {
            trees::tree(&mut out, report, tree, rows, "callees above their callers");
        }
        View::Peek(table) => trees::peek(&mut out, report, table),
        View::Sizes(table) => sizes::sizes(&mut out, report, table),
        View::Threads(table) => sizes::threads(&mut out, report, table, rows),
        View::Frees(frees) => frees::table(&mut out, frees, rows),
        View::Health {} => {
            if let Subject::Recording(summary) = &report.subject {
                health::table(&mut out, summary);
            }
        }
    }
    out
}

/// Says what the rows are of, and how stacks are shown, if that is asked for. All that is live needs no title.
pub fn push_title(
    out: &mut String,
    report: &Report,
    shown: Estimate,
    how: &str,
    has_details: bool,
) {
    let is_all_live = !matches!(report.kinds, Kinds::All | Kinds::Only(Kind::Mmap))
        && report.sample_type == SampleType::InuseSpace
        && (shown.value - report.whole.value).abs() <= 1e-9 * report.whole.value.abs()
        && report.magnitude - report.whole.value <= 1e-3 * report.magnitude;
    if has_details {
        push_terms(out, "", &format!("{}{how}", title(report, shown)), 2);
    } else if !is_all_live {
        push_terms(out, "", &title(report, shown), 2);
    }
}

/// `live, total 4.05 GiB`, or how much of it passed the filters. Where values are negative, as in a difference, the sum of all changes that
/// shares are of.
pub fn title(report: &Report, shown: Estimate) -> String {
    let unit = report.sample_type.unit();
    let total = format_estimate(report.whole, unit);
    let mut shown_part = String::new();
    // Sums in another order differ in their last bits.
    if (shown.value - report.whole.value).abs() > 1e-9 * report.whole.value.abs() {
        let share = format_percent(shown.value, report.magnitude);
        shown_part = format!("{}, {share} of ", format_estimate(shown, unit));
    }
    let mut changes = String::new();
    // A few negative values, as of a block that was freed between two reads, change no digit that is shown.
    if report.magnitude - report.whole.value > 1e-3 * report.magnitude {
        changes = format!("; shares are of {} of changes", format_value(report.magnitude, unit));
    }
    format!("{}, {shown_part}total {total}{changes}", what(report))
}

/// What the values are: of memory that the program mapped itself, all addresses, whether resident or not.
pub fn what(report: &Report) -> &'static str {
    match report.sample_type {
        SampleType::InuseSpace if report.kinds.is_mmap() => "mapped",
        SampleType::InuseSpace if report.kinds == Kinds::All => "live+mmap",
        sample_type => sample_type.word(),
    }
}

fn push_functions(out: &mut String, report: &Report, table: &TopTable, has_details: bool) {
    let unit = table.sample_type.unit();
    if table.rows.is_empty() {
        let _ = writeln!(out, "{}", subject::nothing_sampled(report));
        return;
    }
    let folded = if report.is_folded { stacks::FOLDED } else { "" };
    push_title(out, report, table.total, folded, has_details);
    let heads = "own:>10|own%:>7@70|sum%:>7@110|total:>10|total%:>7@90|±:>8@60|objects:>13@120|\
                 function  file:line";
    let mut lines = Table::new(out, heads);
    let room = lines.room();
    let mut sum = 0.0;
    for row in &table.rows {
        sum += row.flat.value;
        lines.row([
            format_amount(row.flat, unit),
            percent(row.flat.value, report.magnitude),
            percent(sum, report.magnitude),
            format_amount(row.cum, unit),
            percent(row.cum.value, report.magnitude),
            format_error(row.shown(), unit),
            format_amount(row.objects, SampleUnit::Objects),
            name_and_place(&row.name, &row.file, row.line, room),
        ]);
    }
}

/// Returns the defects that are part of the heading, and all others. Those of the heading are binaries of a dead
/// process that no longer exist, so that another look will not find their names either.
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
