//! A comparison as text.

use super::{columns, cut, dim, percent, place};
use ramson_analysis::comparison::{Comparison, is_noise};
use ramson_profile::format::{format_half_width, format_relative_error, format_value};
use ramson_profile::{DiffTable, Estimate, SampleUnit};
use std::fmt::Write;

/// The whole text.
pub fn text(comparison: &Comparison) -> String {
    let mut out = heading(comparison);
    push_rows(&mut out, &comparison.table, comparison.all_rows);
    out
}

fn heading(comparison: &Comparison) -> String {
    let table = &comparison.table;
    let unit = table.sample_type.unit();
    let mut out = String::new();
    let sides =
        [("old", &comparison.old, table.old_total), ("new", &comparison.new, table.new_total)];
    for (word, side, total) in sides {
        let value = format_value(total.value, unit);
        let error = format_relative_error(total);
        let mut what = match (side.pid, side.processes.len()) {
            (Some(pid), _) => format!("{} (pid {pid})", side.name),
            (None, 0) => side.name.clone(),
            (None, count) => format!("{} ({count} profiles)", side.name),
        };
        if let Some(count) = side.unprofiled {
            let _ = write!(what, "; {count} more without a profile");
        }
        let _ = writeln!(out, "{word} {value:>10} {error:>8}  {what}");
    }
    let change = table.change;
    let verdict = verdict(change);
    let _ = write!(
        out,
        "{} {:>12} {:>8}  {}, {verdict}",
        table.sample_type,
        signed(change.value, unit),
        format_half_width(change, unit),
        signed_percent(change.value, table.old_total.value),
    );
    if comparison.is_same_process {
        let shared = comparison.shared_live;
        let _ = write!(out, "; one process, {shared} samples live in both cancel");
    }
    out.push_str("\n\n");
    out
}

fn push_rows(out: &mut String, table: &DiffTable, all_rows: usize) {
    let unit = table.sample_type.unit();
    if table.rows.is_empty() {
        out.push_str("nothing changed\n");
        return;
    }
    let _ = writeln!(
        out,
        "  {:>11} {:>10} {:>11} {:>10} {:>10}  function  file:line",
        "Δ", "±", "Δ cum", "old", "new"
    );
    for row in &table.rows {
        let change = &row.change;
        let shown = change.shown();
        let line = format!(
            "{} {:>11} {:>10} {:>11} {:>10} {:>10}  {}{}",
            if is_noise(shown) { '~' } else { ' ' },
            signed(change.flat.value, unit),
            format_half_width(shown, unit),
            signed(change.cum.value, unit),
            format_value(row.old_flat.value, unit),
            format_value(row.new_flat.value, unit),
            change.name,
            place(&change.file, change.line),
        );
        let line = cut(&line, columns());
        let _ = writeln!(out, "{}", if is_noise(shown) { dim(&line) } else { line });
    }
    if all_rows > table.rows.len() {
        let _ = writeln!(out, "({} more rows; -n 0 shows all)", all_rows - table.rows.len());
    }
}

/// What the total says of itself.
fn verdict(change: Estimate) -> &'static str {
    match change {
        change if change.value == 0.0 => "no change",
        change if change.variance.is_nan() => "interval unknown",
        change if is_noise(change) => "not significant",
        _ => "significant",
    }
}

fn signed(value: f64, unit: SampleUnit) -> String {
    with_plus(value, format_value(value, unit))
}

fn signed_percent(part: f64, whole: f64) -> String {
    with_plus(part, percent(part, whole))
}

fn with_plus(value: f64, text: String) -> String {
    if value > 0.0 { format!("+{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_significant_is_said_only_where_chance_is_known() {
        for (value, variance, expected) in [
            (0.0, 100.0, "no change"),
            (0.0, f64::NAN, "no change"),
            (495.0, f64::NAN, "interval unknown"),
            (10.0, 100.0, "not significant"),
            (-30.0, 100.0, "significant"),
        ] {
            assert_eq!(verdict(Estimate { value, variance }), expected, "{value} {variance}");
        }
    }
}
