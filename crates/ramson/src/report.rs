//! `ramson report`: who holds the memory, as a table.

use crate::assemble::{Named, assemble};
use crate::cli::{ReportOptions, SortBy, View};
use crate::failure::Failure;
use crate::rss::{Resident, live_text};
use crate::source::{self, Source};
use crate::text;
use ramson_format::{HEALTH, Health, state};
use ramson_profile::format::{
    format_bytes, format_objects, format_percent, format_relative_error, format_value,
};
use ramson_profile::view::{self, Neighbour, Row, Sort, TopTable, TreeRowKind};
use ramson_profile::{Estimate, FrameTable, Profile, Regex, SampleType, StackSample};
use ramson_symbols::Defect;
use serde_json::{Value, json};
use std::fmt::Write;

/// Tree frames below this share of the total are merged.
const MIN_TREE_SHARE: f64 = 0.005;
/// Callers and callees shown per function.
const MAX_NEIGHBOURS: usize = 12;
/// Stacks shown below the table, and frames of each.
const MAX_STACKS: usize = 5;
const MAX_STACK_FRAMES: usize = 8;
/// Missing symbols reported one by one.
const MAX_HINTS: usize = 3;

pub fn report(options: &ReportOptions) -> Result<(), Failure> {
    let source = source::open(&options.source.source)?;
    let named = assemble(&source, &options.source.debug_path)?;
    let resident = source.running.and_then(|pid| Resident::of(pid, &source.origin));
    let top = || {
        let mut table = view::top(&named.profile, options.sample_index, options.sort.into());
        if options.rows > 0 {
            table.rows.truncate(options.rows);
        }
        table
    };
    if options.json {
        let object = report_object(&source, &named, resident.as_ref(), &top())?;
        return text::print(format!("{object}\n").as_bytes());
    }
    let mut out = heading(&source, &named.profile, resident.as_ref());
    match &options.view {
        View::Top => {
            top_table(&mut out, &top(), options.sample_index);
            largest_stacks(&mut out, &named.profile, options.sample_index);
        }
        View::Tree => tree(&mut out, &named.profile, options.sample_index, options.rows),
        View::Peek(pattern) => peek(&mut out, &named.profile, options.sample_index, pattern),
    }
    text::print(out.as_bytes())?;
    say_what_is_missing(&named.missing_symbols);
    Ok(())
}

impl From<SortBy> for Sort {
    fn from(sort: SortBy) -> Self {
        match sort {
            SortBy::Flat => Self::Flat,
            SortBy::Cum => Self::Cum,
            SortBy::Name => Self::Name,
        }
    }
}

/// The RSS line, what the profile is of, and what it does not hold.
fn heading(source: &Source, profile: &Profile, resident: Option<&Resident>) -> String {
    let live = profile.total(SampleType::InuseSpace);
    let mut out = match (resident, source.running) {
        (Some(resident), _) => resident.line(live),
        (None, Some(_)) => format!("RSS not readable; live {}", live_text(live)),
        (None, None) => {
            format!("RSS unknown, the process is gone; live at its end {}", live_text(live))
        }
    };
    let header = &source.snapshot.header;
    let seconds = profile.time_unix_ns.saturating_sub(profile.start_unix_ns) / 1_000_000_000;
    let fate = match (source.running, header.state) {
        (Some(_), _) => format!("running, profiled for {}", text::duration(seconds)),
        (None, state::EXITED) => format!("exited after {}", text::duration(seconds)),
        (None, _) => {
            format!("died without a normal exit; last sample after {}", text::duration(seconds))
        }
    };
    let _ = write!(
        out,
        "\n{} (pid {}), {fate}; interval {}, {} samples, {} live\n",
        source.name(),
        header.pid,
        format_bytes(header.interval_bytes as f64),
        format_objects(header.health[Health::Samples as usize] as f64),
        format_objects(source.snapshot.live.len() as f64),
    );
    push_what_is_missing(&mut out, source);
    out.push('\n');
    out
}

/// What was dropped, cut or damaged: never left out of a report.
fn push_what_is_missing(out: &mut String, source: &Source) {
    let header = &source.snapshot.header;
    for (kind, what) in [
        (
            Health::DroppedLive,
            "samples are not among the live ones: the live table was full. Use a larger --interval or --max-file",
        ),
        (
            Health::DroppedStacks,
            "samples have no stack: the stack table was full. Use a larger --max-file",
        ),
        (
            Health::DroppedWalks,
            "samples have no stack: too many threads sampled at once, or the profile was just being made",
        ),
        (Health::DroppedMappings, "mappings were not recorded: a table was full"),
        (Health::GrowFailures, "times the file system refused more space for the profile"),
    ] {
        let count = header.health[kind as usize];
        if count > 0 {
            let _ = writeln!(out, "not complete: {} {what}", format_objects(count as f64));
        }
    }
    for defect in &source.snapshot.defects {
        let _ = writeln!(out, "not complete: {defect}");
    }
}

/// The value that an error is shown for: flat, or cum where there is no flat.
fn shown(row: &Row) -> Estimate {
    if row.flat.is_nothing() { row.cum } else { row.flat }
}

fn top_table(out: &mut String, table: &TopTable, sample_type: SampleType) {
    if table.rows.is_empty() {
        let _ = writeln!(out, "no {sample_type} sampled yet");
        return;
    }
    let columns = text::columns();
    let unit = sample_type.unit();
    let _ = writeln!(out, "{sample_type}, total {}", format_value(table.total.value, unit));
    let _ = writeln!(
        out,
        "{:>10} {:>7} {:>7} {:>10} {:>7} {:>8} {:>13}  function  file:line",
        "flat", "flat%", "sum%", "cum", "cum%", "±", "objects"
    );
    let mut sum = 0.0;
    for row in &table.rows {
        sum += row.flat.value;
        let line = format!(
            "{:>10} {:>7} {:>7} {:>10} {:>7} {:>8} {:>13}  {}{}",
            format_value(row.flat.value, unit),
            percent(row.flat.value, table.magnitude),
            percent(sum, table.magnitude),
            format_value(row.cum.value, unit),
            percent(row.cum.value, table.magnitude),
            format_relative_error(shown(row)),
            format_objects(row.objects.value),
            row.name,
            place(&row.file, row.line),
        );
        let _ = writeln!(out, "{}", text::cut(&line, columns));
    }
}

/// The few stacks that hold most, each on one line: what a table of functions pulls apart.
fn largest_stacks(out: &mut String, profile: &Profile, sample_type: SampleType) {
    let (frames, unit) = (FrameTable::new(profile), sample_type.unit());
    let mut samples: Vec<&StackSample> =
        profile.samples.iter().filter(|sample| !sample.value(sample_type).is_nothing()).collect();
    samples.sort_by(|a, b| b.value(sample_type).value.total_cmp(&a.value(sample_type).value));
    if !samples.is_empty() {
        let _ = writeln!(out, "\nlargest stacks, leaf first, without the C++ library's own frames");
    }
    for sample in samples.into_iter().take(MAX_STACKS) {
        let value = sample.value(sample_type);
        let names = frames
            .stack(sample)
            .map(|at| (&*frames.name(at.frame).name, at.line))
            .filter(|(name, _)| !is_library_glue(name))
            .take(MAX_STACK_FRAMES)
            .map(|(name, line)| match line {
                0 => text::short_name(name),
                line => format!("{}:{line}", text::short_name(name)),
            });
        let names = names.collect::<Vec<_>>().join(" ← ");
        let line = format!(
            "{:>10} {:>8}  {names}",
            format_value(value.value, unit),
            format_relative_error(value)
        );
        let _ = writeln!(out, "{}", text::cut(&line, text::columns()));
    }
}

/// Frames of the C++ library between a program's own functions: they say how memory was asked for, not for what.
fn is_library_glue(name: &str) -> bool {
    let name = name.strip_prefix("void ").unwrap_or(name);
    ["std::", "__gnu_cxx::"].iter().any(|glue| name.starts_with(glue))
}

fn percent(part: f64, whole: f64) -> String {
    format_percent(part, whole).replace(' ', "")
}

fn place(file: &str, line: u32) -> String {
    match (file, line) {
        ("", _) => String::new(),
        (file, 0) => format!("  {file}"),
        (file, line) => format!("  {file}:{line}"),
    }
}

fn tree(out: &mut String, profile: &Profile, sample_type: SampleType, rows: usize) {
    let tree = view::tree(profile, sample_type, MIN_TREE_SHARE);
    let (columns, unit) = (text::columns(), sample_type.unit());
    let _ = writeln!(
        out,
        "{sample_type}, total {}; callers above their callees",
        format_value(tree.total.value, unit)
    );
    let _ = writeln!(out, "{:>10} {:>7} {:>10} {:>8}  function", "cum", "cum%", "flat", "±");
    // A tree needs more rows than a table to say as much.
    let most = if rows == 0 { usize::MAX } else { rows * 5 };
    for row in tree.rows.iter().take(most) {
        let name = match &row.kind {
            TreeRowKind::Frame(frame) => frame.name.to_string(),
            TreeRowKind::Merged { frames } => tree.merged_label(*frames, row.cum),
        };
        let line = format!(
            "{:>10} {:>7} {:>10} {:>8}  {}{name}",
            format_value(row.cum.value, unit),
            percent(row.cum.value, tree.magnitude),
            if row.flat.is_nothing() { String::new() } else { format_value(row.flat.value, unit) },
            format_relative_error(row.cum),
            "  ".repeat(row.depth),
        );
        let _ = writeln!(out, "{}", text::cut(&line, columns));
    }
    if tree.rows.len() > most {
        let _ = writeln!(out, "({} more rows; -n 0 shows all)", tree.rows.len() - most);
    }
}

fn peek(out: &mut String, profile: &Profile, sample_type: SampleType, pattern: &Regex) {
    let table = view::peek(profile, sample_type, pattern);
    if table.functions.is_empty() {
        let _ = writeln!(out, "no function with {sample_type} matches {pattern}");
    }
    let (columns, unit) = (text::columns(), sample_type.unit());
    let value = |value: f64| {
        format!("{:>10} {:>7}", format_value(value, unit), percent(value, table.magnitude))
    };
    let neighbours = |out: &mut String, list: &[Neighbour], arrow: &str| {
        for neighbour in list.iter().take(MAX_NEIGHBOURS) {
            let line =
                format!("{}  {arrow} {}", value(neighbour.value.value), neighbour.function.name);
            let _ = writeln!(out, "{}", text::cut(&line, columns));
        }
        if list.len() > MAX_NEIGHBOURS {
            let _ = writeln!(out, "{:>18}  {arrow} ({} more)", "", list.len() - MAX_NEIGHBOURS);
        }
    };
    for peek in &table.functions {
        neighbours(out, &peek.callers, "called by");
        let line = format!(
            "{}  {}  (flat {}, cum {})",
            value(peek.cum.value),
            peek.function.name,
            format_value(peek.flat.value, unit),
            format_relative_error(peek.cum),
        );
        let _ = writeln!(out, "{}", text::cut(&line, columns));
        neighbours(out, &peek.callees, "calls");
        out.push('\n');
    }
}

fn say_what_is_missing(defects: &[Defect]) {
    for defect in defects.iter().take(MAX_HINTS) {
        text::hint(&defect.to_string());
    }
    if defects.len() > MAX_HINTS {
        text::hint(&format!("{} more binaries lack symbols", defects.len() - MAX_HINTS));
    }
}

fn report_object(
    source: &Source,
    named: &Named,
    resident: Option<&Resident>,
    table: &TopTable,
) -> Result<Value, Failure> {
    let mut bytes = Vec::new();
    ramson_encode::json::write_report(table, &mut bytes)?;
    let mut object: Value = serde_json::from_slice(&bytes).map_err(|error| {
        Failure::failed(format!("the report is not valid JSON: {error}. Please report this"))
    })?;
    let header = &source.snapshot.header;
    let live = named.profile.total(SampleType::InuseSpace);
    object["pid"] = json!(header.pid);
    object["name"] = json!(source.name());
    object["is_running"] = json!(source.running.is_some());
    object["interval_bytes"] = json!(header.interval_bytes);
    object["resident"] = resident.map_or(Value::Null, |resident| resident.json(live));
    object["health"] = HEALTH
        .iter()
        .map(|&(kind, name)| (name.to_owned(), json!(header.health[kind as usize])))
        .collect();
    object["defects"] =
        source.snapshot.defects.iter().map(|defect| json!(defect.to_string())).collect();
    object["missing_symbols"] =
        named.missing_symbols.iter().map(|defect| json!(defect.to_string())).collect();
    Ok(object)
}
