//! A comparison as text.

use super::{Table, name_and_place, percent, push_rest};
use ramson_analysis::comparison::{Comparison, is_noise};
use ramson_profile::format::{format_amount, format_error, format_half_width, format_objects};
use ramson_profile::{DiffTable, Estimate, printable};
use std::fmt::Write;

pub fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    push_heading(&mut out, comparison);
    push_rows(&mut out, &comparison.table, comparison.all_rows);
    out
}

fn push_heading(out: &mut String, comparison: &Comparison) {
    let table = &comparison.table;
    let unit = table.sample_type.unit();
    let sides =
        [("old", &comparison.old, table.old_total), ("new", &comparison.new, table.new_total)];
    for (word, side, total) in sides {
        let value = format_amount(total, unit);
        let error = format_error(total, unit);
        let _ = write!(out, "{word} {value:>10} {error:>8}  {}", printable(&side.name));
        let _ = match (side.pid, side.processes.len()) {
            (Some(pid), _) => write!(out, " (pid {pid})"),
            (None, 0) => Ok(()),
            (None, count) => write!(out, " ({count} profiles)"),
        };
        if let Some(count) = side.unprofiled {
            let _ = write!(out, "; {count} more without a profile");
        }
        out.push('\n');
    }
    let change = table.change;
    let _ = write!(
        out,
        "{} {:>9} {:>8}  {}, {}",
        table.sample_type.word(),
        with_plus(change.value, format_amount(change, unit)),
        format_half_width(change, unit),
        with_plus(change.value, percent(change.value, table.old_total.value)),
        verdict(change),
    );
    if comparison.is_same_process {
        let shared = format_objects(comparison.shared_live as f64);
        let _ = write!(out, "; one process, {shared} samples live in both cancel");
    }
    out.push_str("\n\n");
}

fn push_rows(out: &mut String, table: &DiffTable, all_rows: usize) {
    if table.rows.is_empty() {
        out.push_str("nothing changed\n");
        return;
    }
    let value = |estimate: Estimate| format_amount(estimate, table.sample_type.unit());
    let heads = ":>1|Δ:>11|±:>10|Δ total:>11@110|old:>10@90|new:>10@70|function  file:line";
    let mut lines = Table::new(out, heads);
    let room = lines.room();
    for row in &table.rows {
        let change = &row.change;
        let is_noise = is_noise(change.shown());
        let cells = [
            if is_noise { "~" } else { "" }.to_owned(),
            with_plus(change.flat.value, value(change.flat)),
            format_half_width(change.shown(), table.sample_type.unit()),
            with_plus(change.cum.value, value(change.cum)),
            value(row.old_flat),
            value(row.new_flat),
            name_and_place(&change.name, &change.file, change.line, room),
        ];
        if is_noise { lines.dim_row(cells) } else { lines.row(cells) }
    }
    push_rest(out, all_rows, table.rows.len(), " rows");
}

fn verdict(change: Estimate) -> &'static str {
    if change.value == 0.0 {
        "no change"
    } else if change.variance.is_nan() {
        "interval unknown"
    } else if is_noise(change) {
        "not significant"
    } else {
        "significant"
    }
}

fn with_plus(value: f64, text: String) -> String {
    if value > 0.0 { format!("+{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn significance_needs_a_known_interval() {
        for (value, variance, expected) in [
            (0.0, 100.0, "no change"),
            (0.0, f64::NAN, "no change"),
            (495.0, f64::NAN, "interval unknown"),
            (10.0, 100.0, "not significant"),
            (-30.0, 100.0, "significant"),
        ] {
            assert_eq!(verdict(Estimate::new(value, variance)), expected, "{value} {variance}");
        }
    }
}
