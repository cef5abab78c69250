//! Tables of `report` that are not about functions: block sizes and threads.

use super::{columns, cut, percent};
use ramson_profile::format::{format_bytes, format_objects, format_relative_error, format_value};
use ramson_profile::view::{SizeTable, ThreadTable};
use std::fmt::Write;

/// Characters of the longest bar of a histogram.
const BAR_COLUMNS: usize = 30;

pub fn sizes(out: &mut String, table: &SizeTable) {
    let sample_type = table.sample_type.space();
    if table.rows.is_empty() {
        let _ = writeln!(out, "no {sample_type} sampled yet");
        return;
    }
    let total = format_bytes(table.space.value);
    let _ = writeln!(out, "{sample_type} by block size, {total}");
    let _ = writeln!(
        out,
        "{:>23} {:>10} {:>7} {:>8} {:>13} {:>8}",
        "block size", "bytes", "bytes%", "±", "objects", "±"
    );
    let largest = table.rows.iter().map(|row| row.space.value).fold(0.0, f64::max);
    for row in &table.rows {
        let block = match (row.least_bytes, row.most_bytes) {
            (Some(least), Some(most)) => {
                format!("{} … < {}", format_bytes(least as f64), format_bytes(most as f64 + 1.0))
            }
            _ => "not known".into(),
        };
        let bar = BAR_COLUMNS as f64 * row.space.value / largest;
        let line = format!(
            "{block:>23} {:>10} {:>7} {:>8} {:>13} {:>8}  {}",
            format_bytes(row.space.value),
            percent(row.space.value, table.space.value),
            format_relative_error(row.space),
            format_objects(row.objects.value),
            format_relative_error(row.objects),
            "▇".repeat(bar.round().clamp(0.0, BAR_COLUMNS as f64) as usize),
        );
        let _ = writeln!(out, "{}", cut(line.trim_end(), columns()));
    }
}

pub fn threads(out: &mut String, table: &ThreadTable, rows: usize) {
    let (sample_type, unit) = (table.sample_type, table.sample_type.unit());
    if table.rows.is_empty() {
        let _ = writeln!(out, "no {sample_type} sampled yet");
        return;
    }
    let total = format_value(table.total.value, unit);
    let _ = writeln!(out, "{sample_type} by allocating thread, {total}");
    let _ = writeln!(out, "{:>10} {:>7} {:>8} {:>13}  thread", "value", "value%", "±", "objects");
    let most = if rows == 0 { usize::MAX } else { rows };
    for row in table.rows.iter().take(most) {
        let line = format!(
            "{:>10} {:>7} {:>8} {:>13}  {}",
            format_value(row.value.value, unit),
            percent(row.value.value, table.magnitude),
            format_relative_error(row.value),
            format_objects(row.objects.value),
            row.thread.as_deref().unwrap_or("(not known)"),
        );
        let _ = writeln!(out, "{}", cut(&line, columns()));
    }
    if table.rows.len() > most {
        let _ = writeln!(out, "({} more threads; -n 0 shows all)", table.rows.len() - most);
    }
}
