//! The largest stacks as text, and what points on to other commands.

use super::report::title;
use super::{Table, percent, place};
use ramson_analysis::report::Report;
use ramson_analysis::stack_table::{Pointers, StackRow, StackTable};
use ramson_analysis::unprofiled::Unprofiled;
use ramson_profile::format::{
    format_bytes, format_duration, format_estimate, format_objects, format_relative_error,
    format_value,
};
use ramson_profile::{FrameName, SampleUnit, short_name};
use std::fmt::Write;

/// Callers shown behind the first function.
const MAX_CALLERS: usize = 8;

/// The rows, and what share of all they are.
pub fn table(out: &mut String, report: &Report, of: &StackTable) {
    let unit = of.sample_type.unit();
    if of.rows.is_empty() {
        out.push_str(&nothing(report, of));
        return;
    }
    let folded = if of.is_folded { FOLDED } else { "" };
    let _ = writeln!(out, "{}{folded}", title(report, of.total));
    let what = if unit == SampleUnit::Bytes { "bytes" } else { "count" };
    let has_ages = of.rows.iter().any(|stack| stack.ages.is_some());
    let has_growth = of.rows.iter().any(|stack| stack.growth.is_some());
    let age = if has_ages { "age:>8|" } else { "" };
    let change = if has_growth { "growth:>22|" } else { "" };
    let heads = format!("{what}:>10|share:>7|±:>8|objects:>11|{age}{change}stack, innermost first");
    let mut lines = Table::new(out, &heads);
    let mut shown = 0.0;
    for stack in &of.rows {
        shown += stack.value.value;
        let mut cells = vec![
            format_value(stack.value.value, unit),
            percent(stack.value.value, report.magnitude),
            format_relative_error(stack.value),
            format_objects(stack.objects.value),
        ];
        if has_ages {
            cells.push(stack.ages.map_or("–".into(), |ages| format_duration(ages.p50_ns)));
        }
        if has_growth {
            cells.push(growth(stack));
        }
        cells.push(names(&stack.frames));
        lines.row(cells);
    }
    let rest = of.total.value - shown;
    if rest > of.total.value / 1e6 {
        lines.line_across(&format!(
            "{:>10} {:>7}  in other stacks; -n 0 shows all",
            format_value(rest, unit),
            percent(rest, report.magnitude)
        ));
    }
}

/// Behind the title.
pub const FOLDED: &str =
    "; library frames are attributed to their callers (--all-frames shows them)";

fn growth(stack: &StackRow) -> String {
    let Some(growth) = &stack.growth else { return "–".into() };
    format!(
        "+{}/h ±{}",
        format_bytes(growth.per_hour.value),
        format_bytes(growth.per_hour.half_width_95())
    )
}

/// `function  file:line ← caller:line ← …`.
fn names(frames: &[FrameName]) -> String {
    let Some((own, callers)) = frames.split_first() else { return String::new() };
    let file = own.file.rsplit('/').next().unwrap_or("");
    let mut names = short_name(&own.name) + &place(file, own.line);
    for caller in callers.iter().take(MAX_CALLERS) {
        let _ = write!(names, " ← {}", caller.short());
    }
    if callers.len() > MAX_CALLERS {
        names.push_str(" ← …");
    }
    names
}

fn nothing(report: &Report, of: &StackTable) -> String {
    let interval = format_bytes(report.interval_bytes as f64);
    format!(
        "no {} sampled yet: one allocation in {interval} is. Wait, or start the program with a smaller --interval\n",
        of.sample_type
    )
}

/// What can be said of a process without a profile.
pub fn unprofiled(of: &Unprofiled, source: &str) -> String {
    let allocator = of.allocator.as_ref().map(|name| format!("; allocator {name}"));
    let mut out = format!(
        "{}\n{} (pid {}), running, not profiled{}\n",
        of.rss.line(),
        of.name,
        of.pid,
        allocator.unwrap_or_default()
    );
    pointers(&mut out, &of.pointers, source);
    out
}

/// At most two lines; `source` is how the user names the processes.
pub fn pointers(out: &mut String, pointers: &Pointers, source: &str) {
    if pointers.growing > 0 {
        let suspects = if pointers.growing == 1 { "leak suspect" } else { "leak suspects" };
        let _ = writeln!(
            out,
            "{} {suspects}, growing by {}/h ±{}: ramson leaks {source}",
            pointers.growing,
            format_bytes(pointers.growth_per_hour.value),
            format_bytes(pointers.growth_per_hour.half_width_95()),
        );
    }
    if let Some(free) = pointers.free {
        let trim = pointers.releasable.map_or(String::new(), |bytes| {
            format!(", of which a trim would return {}", format_bytes(bytes as f64))
        });
        let free = match free.variance > 0.0 {
            true => format_estimate(free, SampleUnit::Bytes),
            false => format_bytes(free.value),
        };
        let _ = writeln!(out, "{free} free in the allocator{trim}: ramson doctor {source}");
    }
}
