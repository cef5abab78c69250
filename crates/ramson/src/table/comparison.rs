//! A comparison as text.

use super::{Table, name_and_place, percent, push_prose, push_rest};
use ramson_analysis::comparison::{Comparison, is_noise};
use ramson_profile::format::{format_amount, format_error, format_half_width};
use ramson_profile::{DiffRow, DiffTable, Estimate, printable, short_name};
use std::fmt::Write;

/// A function with less of the whole change is not named in the first line.
const LEAST_SHARE: f64 = 0.2;

/// What changed most, then both sides, then the rows. Those without a change of their own are left out of a table that is sorted by it.
pub fn text(comparison: &Comparison, has_all: bool) -> String {
    let mut out = String::new();
    push_heading(&mut out, comparison);
    push_rows(&mut out, &comparison.table, comparison.all_rows, has_all);
    out
}

fn push_heading(out: &mut String, comparison: &Comparison) {
    let table = &comparison.table;
    push_prose(out, "", &answer(table));
    let sides =
        [("old", &comparison.old, table.old_total), ("new", &comparison.new, table.new_total)];
    for (word, side, total) in sides {
        let value = format_amount(total, table.sample_type.unit());
        let error = format_error(total, table.sample_type.unit());
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
    out.push('\n');
}

/// `live grew by 140 MiB (±18.5 MiB), +556%; 64.3% of it in lpInsert`.
fn answer(table: &DiffTable) -> String {
    let (change, what) = (table.change, table.sample_type.word());
    if change.value == 0.0 {
        return format!("{what}: no change");
    }
    let unit = table.sample_type.unit();
    let ratio = with_plus(change.value, percent(change.value, table.old_total.value));
    let is_certain = !change.variance.is_nan() && !is_noise(change);
    if !is_certain {
        let size = with_plus(change.value, format_amount(change, unit));
        let start = if change.variance.is_nan() {
            format!("{what} changed by {size}, {ratio}: interval unknown")
        } else {
            let error = format_half_width(change, unit);
            format!("{what}: no significant change ({size}, {error}; {ratio})")
        };
        return start;
    }
    let verb = if change.value > 0.0 { "grew" } else { "shrank" };
    let size = Estimate::new(change.value.abs(), change.variance);
    let most = table.rows.iter().max_by(|a, b| share(a, change).total_cmp(&share(b, change)));
    let most = most.filter(|row| share(row, change) >= LEAST_SHARE && !is_noise(row.change.flat));
    let most = most.map_or(String::new(), |row| {
        let share = percent(row.change.flat.value, change.value);
        format!("; {share} of it in {}", short_name(&row.change.name))
    });
    format!(
        "{what} {verb} by {} ({}), {ratio}{most}",
        format_amount(size, unit),
        format_half_width(change, unit)
    )
}

/// The part of the whole change that is a function's own.
fn share(row: &DiffRow, change: Estimate) -> f64 {
    row.change.flat.value / change.value
}

fn push_rows(out: &mut String, table: &DiffTable, all_rows: usize, has_all: bool) {
    let is_shown = |row: &&DiffRow| has_all || row.change.flat.value != 0.0;
    let rows: Vec<&DiffRow> = table.rows.iter().filter(is_shown).collect();
    if rows.is_empty() {
        out.push_str("nothing changed\n");
        return;
    }
    let value = |estimate: Estimate| format_amount(estimate, table.sample_type.unit());
    let heads = ":>1|Δ:>11|±:>10|Δ total:>11@110|old:>10@90|new:>10@70|function";
    let has_files = rows.iter().any(|row| !row.change.file.is_empty());
    let heads = if has_files { format!("{heads}  file:line") } else { heads.to_owned() };
    let mut lines = Table::new(out, &heads);
    let room = lines.room();
    for row in &rows {
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
    if rows.iter().any(|row| is_noise(row.change.shown())) {
        push_prose(out, "", "~: may be no change");
    }
    push_rest(out, all_rows, rows.len(), " rows");
}

fn with_plus(value: f64, text: String) -> String {
    if value > 0.0 { format!("+{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_profile::SampleType;

    #[test]
    fn significance_needs_a_known_interval() {
        for (value, variance, expected) in [
            (0.0, 100.0, "live: no change"),
            (0.0, f64::NAN, "live: no change"),
            (495.0, f64::NAN, "live changed by +495 B, +50.0%: interval unknown"),
            (10.0, 100.0, "live: no significant change (+10 B, ±20 B; +1.01%)"),
            (-30.0, 100.0, "live shrank by 30 B (±20 B), -3.03%"),
            (300.0, 100.0, "live grew by 300 B (±20 B), +30.3%"),
        ] {
            let table = DiffTable {
                sample_type: SampleType::InuseSpace,
                old_total: Estimate::new(990.0, 0.0),
                new_total: Estimate::new(990.0 + value, 0.0),
                change: Estimate::new(value, variance),
                is_significant: !is_noise(Estimate::new(value, variance)),
                rows: Vec::new(),
            };
            assert_eq!(answer(&table), expected);
        }
    }
}
