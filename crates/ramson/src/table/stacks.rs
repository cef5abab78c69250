//! The largest stacks as text, and what points on to other commands.

use super::report::{push_title, what};
use super::subject::nothing_sampled;
use super::{Table, name_and_place, or_dash, percent, push_prose, push_terms, stack};
use ramson_analysis::explain::Finding;
use ramson_analysis::named::Kinds;
use ramson_analysis::report::Report;
use ramson_analysis::stack_table::{Inherited, Pointers, StackRow, StackTable};
use ramson_analysis::summary::Subject;
use ramson_profile::format::{
    format_amount, format_bytes, format_duration, format_error, format_objects, format_per_hour,
    format_term, format_value,
};
use ramson_profile::{FrameName, Language, SampleUnit, short_name};

/// If no stack has this share of all, the rows alone do not answer what uses the memory.
const FLAT_SHARE: f64 = 0.1;
/// Callers shown behind the first function.
const MAX_CALLERS: usize = 8;

/// The rows, and what share of all they are.
pub fn table(out: &mut String, report: &Report, of: &StackTable, has_details: bool) {
    let unit = of.sample_type.unit();
    if of.rows.is_empty() {
        push_prose(out, "", &nothing(report));
        return;
    }
    let folded = if of.is_folded { FOLDED } else { "" };
    let frames = || of.rows.iter().flat_map(|row| &row.frames);
    let inlines = |frame: &FrameName| frame.language.is_some_and(Language::has_inlining_compiler);
    let inlined = if frames().any(inlines) { INLINED } else { "" };
    push_title(out, report, of.total, &format!("{folded}{inlined}"), has_details);
    let has_ages = of.rows.iter().any(|stack| stack.ages.is_some());
    let has_growth = of.rows.iter().any(|stack| stack.growth.is_some());
    let mut lines = Table::new(out, &heads(what(report), has_ages, has_growth));
    let room = lines.room();
    let (sure, unsure): (Vec<&StackRow>, Vec<&StackRow>) =
        of.rows.iter().partition(|row| of.has_all || row.value.is_significant());
    // Rows that are all unsure are better than none.
    let (sure, unsure) = if sure.is_empty() { (unsure, sure) } else { (sure, unsure) };
    let mut shown = 0.0;
    for stack in sure {
        shown += stack.value.value;
        let mut cells = vec![
            format_amount(stack.value, unit),
            percent(stack.value.value, report.magnitude),
            format_error(stack.value, unit),
            format_amount(stack.objects, SampleUnit::Objects),
        ];
        if has_ages {
            cells.push(or_dash(stack.ages.as_ref().map(|ages| format_duration(ages.mean_ns))));
        }
        if has_growth {
            cells.extend(growth(stack));
        }
        cells.push(names(&stack.frames, room));
        lines.row(cells);
    }
    let rest = of.total.value - shown;
    if rest > of.total.value / 1e6 {
        lines.line_across(&format!(
            "{:>10} {:>7}  in other stacks{}",
            format_value(rest, unit),
            percent(rest, report.magnitude),
            left_out(unsure.len(), of.has_all)
        ));
    }
}

/// The function is the last thing to go, then what it holds.
fn heads(what: &str, has_ages: bool, has_growth: bool) -> String {
    let age = if !has_ages {
        ""
    } else if has_growth {
        "age:>8@90|"
    } else {
        "age:>8|"
    };
    let change = if has_growth { "growth:>12@70|±:>10@120|" } else { "" };
    format!("{what}:>10|share:>7@50|±:>8@60|objects:>11@110|{age}{change}allocated by")
}

/// Why stacks have no rows of their own: `unsure` of those with the largest values may be chance.
fn left_out(unsure: usize, has_all: bool) -> String {
    let too_few = match unsure {
        0 => String::new(),
        1 => ", 1 of which has too few samples for a row".into(),
        unsure => format!(", {unsure} of which have too few samples for a row"),
    };
    let more = if has_all { "" } else { "; -n 0 shows all" };
    format!("{too_few}{more}")
}

/// Points to the functions where no stack has much: what is common to the stacks is among their callers.
pub fn push_functions_pointer(out: &mut String, report: &Report, of: &StackTable, source: &str) {
    let largest = of.rows.iter().map(|row| row.value.value).fold(0.0, f64::max);
    if of.rows.is_empty() || largest >= FLAT_SHARE * report.magnitude {
        return;
    }
    let kind = match report.kinds {
        Kinds::All => " --kind all",
        kinds if kinds.is_mmap() => " --kind mmap",
        _ => "",
    };
    let line = format!(
        "no stack has a tenth of all: ramson report {source}{kind} --view functions --sort total adds them up"
    );
    push_prose(out, "", &line);
}

/// Behind the title.
pub const FOLDED: &str =
    "; library frames are attributed to their callers (--all-frames shows them)";

/// Behind that: ± does not say how the bytes are divided among these functions.
const INLINED: &str = "; functions that the JIT compiler inlined count for their callers";

fn growth(stack: &StackRow) -> [String; 2] {
    let per_hour = stack.growth.as_ref().map(|growth| growth.per_hour);
    let text = per_hour
        .map(|it| [format!("+{}/h", format_bytes(it.value)), format_bytes(it.half_width_95())]);
    text.unwrap_or_else(|| [or_dash(None), String::new()])
}

/// `function  file:line ← caller:line ← …`.
/// The frames of a stack that a row has room for.
pub fn shown_frames(frames: &[FrameName]) -> &[FrameName] {
    &frames[..frames.len().min(MAX_CALLERS + 1)]
}

pub fn names(frames: &[FrameName], room: Option<usize>) -> String {
    let Some((own, callers)) = frames.split_first() else { return String::new() };
    let file = own.file.rsplit('/').next().unwrap_or("");
    let mut names = name_and_place(&short_name(&own.name), file, own.line, room);
    if !callers.is_empty() {
        names.push_str(" ← ");
        names.push_str(&stack(callers, MAX_CALLERS));
    }
    names
}

/// An eighth of an interval, 64 KiB at most, as a flag takes it.
fn smaller(interval_bytes: u64) -> String {
    let bytes = (interval_bytes / 8).clamp(1, 64 << 10);
    if bytes >= 1024 { format!("{}K", bytes / 1024) } else { bytes.to_string() }
}

fn nothing(report: &Report) -> String {
    let interval = format_bytes(report.interval_bytes as f64);
    let nothing = nothing_sampled(report);
    let is_final = match &report.subject {
        Subject::Recording(summary) => summary.ended_ago_ns.is_some(),
        Subject::Foreign(_) => true,
        Subject::Sum(_) => false,
    };
    if report.kinds.is_mmap() || is_final {
        return nothing;
    }
    let samples = match &report.subject {
        Subject::Recording(summary) => summary.samples.0,
        Subject::Foreign(_) | Subject::Sum(_) => 0,
    };
    if samples > 0 {
        let samples = format_objects(samples as f64);
        return format!(
            "none of the {samples} samples is live. --count allocated shows what was allocated"
        );
    }
    if let Subject::Recording(summary) = &report.subject
        && let Some(unseen) = &summary.unseen
    {
        return format!("{nothing}: {unseen}");
    }
    let next = match &report.subject {
        Subject::Recording(summary) if summary.is_running && report.interval_bytes <= 1 => {
            "Wait".into()
        }
        Subject::Recording(summary) if summary.is_running => format!(
            "Wait, or use a smaller interval: ramson set {} --interval {}",
            summary.pid,
            smaller(report.interval_bytes)
        ),
        _ => "Start the program with a smaller --interval".into(),
    };
    format!("{nothing}: on average, one sample is taken per {interval} allocated. {next}")
}

/// Text on a process without a profile.
pub fn unprofiled(of: &Finding, source: &str) -> String {
    let allocators = &of.allocators;
    let other = allocators.other.as_ref().map(|(_, other)| other);
    let allocator = other.or(allocators.glibc.as_ref());
    let allocator = allocator.map(|it| format!("; allocator {}", it.name)).unwrap_or_default();
    let mut out = String::new();
    let line =
        format!("{} (pid {}), not recorded{allocator}: {}", of.name, of.pid, of.rss.short_line());
    push_terms(&mut out, "", &line, 2);
    pointers(&mut out, &Pointers::of(Some(&of.rss), &[]), source);
    out
}

/// A line each; `source` is how the user names the processes.
pub fn pointers(out: &mut String, pointers: &Pointers, source: &str) {
    if pointers.growing > 0 {
        let suspects = if pointers.growing == 1 { "leak suspect" } else { "leak suspects" };
        let line = format!(
            "{} {suspects}, growing by {}: ramson leaks {source}",
            pointers.growing,
            format_per_hour(pointers.growth_per_hour),
        );
        push_prose(out, "", &line);
    }
    if let Some(free) = pointers.free {
        let trim = pointers.releasable.map_or(String::new(), |bytes| {
            format!(", of which a trim would return {}", format_bytes(bytes as f64))
        });
        let free = format_term(free);
        let line = format!("{free} free in the allocator{trim}: ramson explain {source}");
        push_prose(out, "", &line);
    }
    if let Some(Inherited { bytes, parent }) = pointers.inherited {
        let bytes = format_term(bytes);
        let line = format!(
            "{bytes} inherited from parent or not seen: ramson report {parent} names what the parent allocated"
        );
        push_prose(out, "", &line);
    }
}
