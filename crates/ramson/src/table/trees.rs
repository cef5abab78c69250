//! Trees, and callers and callees, as text.

use super::report::title;
use super::{Table, columns, cut, most, percent, push_rest};
use ramson_analysis::report::Report;
use ramson_profile::Estimate;
use ramson_profile::format::{format_amount, format_relative_error};
use ramson_profile::view::{Neighbour, PeekTable, Tree, TreeRowKind};
use std::fmt::Write;

const MAX_NEIGHBOURS: usize = 12;

/// A tree, at most five times so many rows; 0: all.
pub fn tree(out: &mut String, report: &Report, tree: &Tree, rows: usize, order: &str) {
    let unit = tree.sample_type.unit();
    let _ = writeln!(out, "{}; {order}", title(report, tree.total));
    let mut lines = Table::new(out, "total:>10|total%:>7|own:>10@100|±:>8@60|function");
    // A tree needs more rows than a table to say as much.
    let most = most(rows).saturating_mul(5);
    for row in tree.rows.iter().take(most) {
        let name = match &row.kind {
            TreeRowKind::Frame(frame) if frame.line == 0 => frame.name.to_string(),
            TreeRowKind::Frame(frame) => format!("{}:{}", frame.name, frame.line),
            TreeRowKind::Merged { frames } => tree.merged_label(*frames, row.cum),
        };
        lines.row([
            format_amount(row.cum, unit),
            percent(row.cum.value, report.magnitude),
            if row.flat.is_nothing() { String::new() } else { format_amount(row.flat, unit) },
            format_relative_error(row.cum),
            "  ".repeat(row.depth) + &name,
        ]);
    }
    push_rest(out, tree.rows.len(), most, " rows");
}

pub fn peek(out: &mut String, report: &Report, table: &PeekTable) {
    let sample_type = table.sample_type;
    if table.functions.is_empty() {
        let _ = writeln!(out, "no matching function (--count {})", sample_type.word());
    }
    let columns = columns();
    let unit = sample_type.unit();
    let value = |of: Estimate| {
        format!("{:>10} {:>7}", format_amount(of, unit), percent(of.value, report.magnitude))
    };
    let neighbours = |out: &mut String, list: &[Neighbour], arrow: &str| {
        for neighbour in list.iter().take(MAX_NEIGHBOURS) {
            let line = format!("{}  {arrow} {}", value(neighbour.value), neighbour.function.name);
            let _ = writeln!(out, "{}", cut(&line, columns));
        }
        if list.len() > MAX_NEIGHBOURS {
            let _ = writeln!(out, "{:>18}  {arrow} ({} more)", "", list.len() - MAX_NEIGHBOURS);
        }
    };
    for (index, peek) in table.functions.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        neighbours(out, &peek.callers, "called by");
        let line = format!(
            "{}  {}  (own {}, total {})",
            value(peek.cum),
            peek.function.name,
            format_amount(peek.flat, unit),
            format_relative_error(peek.cum),
        );
        let _ = writeln!(out, "{}", cut(&line, columns));
        neighbours(out, &peek.callees, "calls");
    }
}
