//! A profile as CSV (RFC 4180), one row per stack and labels, so that each column of values adds up to the total.
//!
//! Columns: `function`, `file`, `line` (of the allocating frame), the four sample types, each followed by half the width of its 95 %
//! interval (`…_half_width_95`), and `stack`, function names root first, joined by `;`. Unknown values are empty. In a stack a `;` of a name
//! is `:`. A text that a spreadsheet would take for a formula begins with `'`.

use ramson_profile::{FrameTable, Profile, SampleType};
use std::io::{self, Write};

/// Writes the header and the rows.
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let frames = FrameTable::new(profile);
    write!(out, "function,file,line")?;
    for sample_type in SampleType::ALL {
        write!(out, ",{sample_type},{sample_type}_half_width_95")?;
    }
    write!(out, ",stack\r\n")?;
    for sample in &profile.samples {
        let mut names: Vec<String> = Vec::new();
        for (depth, at) in frames.stack(sample).enumerate() {
            let name = frames.name(at.frame);
            if depth == 0 {
                write!(
                    out,
                    "{},{},{}",
                    cell(&name.name),
                    cell(&name.file),
                    number(at.line.into())
                )?;
            }
            names.push(name.name.replace(';', ":"));
        }
        for estimate in sample.values {
            let half_width = estimate.half_width_95().ceil();
            write!(out, ",{},{}", number(estimate.value), number(half_width))?;
        }
        names.reverse();
        write!(out, ",{}\r\n", cell(&names.join(";")))?;
    }
    out.flush()
}

/// Rounded; empty if unknown.
fn number(value: f64) -> String {
    if !value.is_finite() { String::new() } else { (value.round() as i64).to_string() }
}

fn cell(text: &str) -> String {
    // Spreadsheets begin a formula at these, also within quotes.
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let guard = if is_formula { "'" } else { "" };
    if text.contains(['"', ',', '\r', '\n']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{guard}{text}")
    }
}
