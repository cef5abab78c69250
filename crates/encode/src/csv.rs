//! A profile as CSV (RFC 4180), one row per stack and labels, so that each column of values adds up to the total.
//!
//! Columns: `function`, `file`, `line` (of the allocating frame), the four sample types, each followed by half the width of its 95%
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
    let in_stack = |id| frames.name(id).name.replace(';', ":");
    let names: Vec<String> = frames.ids().map(in_stack).collect();
    for sample in &profile.samples {
        if let Some(at) = frames.stack(sample).next() {
            let name = frames.name(at.frame);
            let line = number(at.line.into());
            write!(out, "{},{},{line}", cell(&name.name), cell(&name.file))?;
        }
        for estimate in sample.values {
            let half_width = estimate.half_width_95().ceil();
            write!(out, ",{},{}", number(estimate.value), number(half_width))?;
        }
        let root_first = || frames.stack(sample).rev().map(|at| &*names[at.frame.index()]);
        write!(out, ",")?;
        write_joined(out, root_first)?;
        write!(out, "\r\n")?;
    }
    out.flush()
}

/// One cell of names joined by `;`, written name by name: together they may be long.
fn write_joined<'a, I: Iterator<Item = &'a str>>(
    out: &mut dyn Write,
    names: impl Fn() -> I,
) -> io::Result<()> {
    let quote = if names().any(is_quoted) { "\"" } else { "" };
    write!(out, "{quote}{}", names().next().map_or("", guard))?;
    for (position, name) in names().enumerate() {
        let separator = if position == 0 { "" } else { ";" };
        write!(out, "{separator}{}", name.replace('"', "\"\""))?;
    }
    write!(out, "{quote}")
}

/// Rounded; empty if unknown.
fn number(value: f64) -> String {
    if !value.is_finite() { String::new() } else { (value.round() as i64).to_string() }
}

fn cell(text: &str) -> String {
    let guard = guard(text);
    if is_quoted(text) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{guard}{text}")
    }
}

fn is_quoted(text: &str) -> bool {
    text.contains(['"', ',', '\r', '\n'])
}

/// Spreadsheets begin a formula at these, also within quotes.
fn guard(text: &str) -> &'static str {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) { "'" } else { "" }
}
