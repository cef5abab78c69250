//! Tables of `report` that are not about functions: block sizes and threads.

use super::subject::nothing_sampled;
use super::{Table, most, percent, push_rest};
use ramson_analysis::report::Report;
use ramson_profile::SampleUnit;
use ramson_profile::format::{format_amount, format_bytes, format_relative_error};
use ramson_profile::view::{SizeTable, ThreadTable};
use std::fmt::Write;

/// Characters of the longest bar of a histogram.
const BAR_COLUMNS: usize = 30;

pub fn sizes(out: &mut String, of: &Report, table: &SizeTable) {
    let sample_type = table.sample_type.space();
    if table.rows.is_empty() {
        let _ = writeln!(out, "{}", nothing_sampled(of));
        return;
    }
    let space = format_amount(table.space, SampleUnit::Bytes);
    let _ = writeln!(out, "{} by block size, {space}", sample_type.word());
    let heads = "block size:>23|bytes:>10|bytes%:>7|±:>8|objects:>13@100|±:>8@110|";
    let mut lines = Table::new(out, heads);
    let largest = table.rows.iter().map(|row| row.space.value).fold(0.0, f64::max);
    for row in &table.rows {
        let block = row.least_bytes.zip(row.most_bytes).map(|(least, most)| {
            format!("{} … < {}", format_bytes(least as f64), format_bytes(most as f64 + 1.0))
        });
        let bar = BAR_COLUMNS as f64 * row.space.value / largest;
        lines.row([
            block.unwrap_or("not known".into()),
            format_amount(row.space, SampleUnit::Bytes),
            percent(row.space.value, table.space.value),
            format_relative_error(row.space),
            format_amount(row.objects, SampleUnit::Objects),
            format_relative_error(row.objects),
            "▇".repeat(bar.round().clamp(0.0, BAR_COLUMNS as f64) as usize),
        ]);
    }
}

pub fn threads(out: &mut String, of: &Report, table: &ThreadTable, rows: usize) {
    let sample_type = table.sample_type;
    let unit = table.sample_type.unit();
    if table.rows.is_empty() {
        let _ = writeln!(out, "{}", nothing_sampled(of));
        return;
    }
    let total = format_amount(table.total, unit);
    let _ = writeln!(out, "{} by allocating thread, {total}", sample_type.word());
    let mut lines = Table::new(out, "value:>10|value%:>7|±:>8|objects:>13|thread");
    for row in table.rows.iter().take(most(rows)) {
        lines.row([
            format_amount(row.value, unit),
            percent(row.value.value, table.magnitude),
            format_relative_error(row.value),
            format_amount(row.objects, SampleUnit::Objects),
            row.thread.as_deref().unwrap_or("(not known)").to_owned(),
        ]);
    }
    push_rest(out, table.rows.len(), most(rows), " threads");
}
