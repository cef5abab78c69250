//! `ramson report`: who holds the memory, as a table.

use crate::assemble::{Detail, Named, unnamed};
use crate::cli::{ReportOptions, SortBy, View};
use crate::failure::Failure;
use crate::frees;
use crate::health;
use crate::mapped;
use crate::own;
use crate::rss::Resident;
use crate::source::{self, Opened};
use crate::tables;
use crate::text;
use ramson_profile::format::{format_objects, format_percent, format_relative_error, format_value};
use ramson_profile::view::{self, Neighbour, Sort, TopTable, Tree, TreeRowKind};
use ramson_profile::{
    Estimate, FrameName, FrameTable, Granularity, Pattern, Profile, SampleType, is_library_function,
};
use ramson_symbols::Defect;
use std::fmt::Write;

mod object;

use object::{report_object, view_object};

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
    let mut opened = source::open(&options.source.source)?;
    let sample_type = opened.sample_type(options.sample_index)?;
    let mut named = take_named(&mut opened, options)?;
    let (mut out, resident) = heading(&opened, &named.profile);
    push_lost_names(&mut out, &opened, &mut named.missing_symbols, options.json);
    let whole = Whole::of(&named.profile, sample_type);
    options.filters.apply(&mut named.profile, sample_type)?;
    if let View::Lines = options.view {
        named.profile.granularity = Granularity::Lines;
    }
    if options.json {
        let view = view_object(options, &opened, &named.profile, sample_type)?;
        let object = report_object(&opened, &named, resident.as_ref(), &whole, view)?;
        return text::print(&format!("{object}\n"));
    }
    let profile = &named.profile;
    match &options.view {
        View::Top | View::Lines => {
            let frames = FrameTable::new(profile);
            top_table(&mut out, &top(options, profile, &frames, sample_type), &whole);
            largest_stacks(&mut out, profile, &frames, sample_type);
        }
        View::Tree => {
            let shown = view::tree(profile, sample_type, MIN_TREE_SHARE);
            tree(&mut out, &shown, &whole, options.rows, "callers above their callees");
        }
        View::Callers => {
            let shown = view::callers(profile, sample_type, MIN_TREE_SHARE);
            tree(&mut out, &shown, &whole, options.rows, "callees above their callers");
        }
        View::Peek(pattern) => peek(&mut out, profile, &whole, pattern),
        View::Sizes => tables::sizes(&mut out, &view::sizes(profile, sample_type)),
        View::Threads => {
            tables::threads(&mut out, &view::threads(profile, sample_type), options.rows);
        }
        View::Frees => {
            if let Opened::Own(source) = &opened {
                frees::table(&mut out, source, profile, options.address, options.rows);
            }
        }
        View::Health => {
            if let Opened::Own(source) = &opened {
                health::table(
                    &mut out,
                    source,
                    mapped::live_heap(&source.snapshot).value,
                    resident.as_ref(),
                );
            }
        }
    }
    text::print(&out)?;
    say_what_is_missing(&named.missing_symbols);
    // The end of the process frees a million stacks sooner than they free themselves.
    std::mem::forget(named);
    Ok(())
}

/// The profile in the detail that the view needs. What recording cost needs no names.
fn take_named(opened: &mut Opened, options: &ReportOptions) -> Result<Named, Failure> {
    let is_about_recording = matches!(options.view, View::Health) && !options.json;
    let is_labelled =
        matches!(options.view, View::Sizes | View::Threads) || options.filters.use_labels();
    let detail = if is_labelled { Detail::Labels } else { Detail::Stacks };
    match opened {
        Opened::Own(source) if is_about_recording => Ok(Named {
            profile: unnamed(source, detail, options.kind.unwrap_or_default().only()),
            missing_symbols: Vec::new(),
        }),
        Opened::Own(source) if matches!(options.view, View::Frees) => {
            frees::named(source, &options.source.names, options.address)
        }
        Opened::Foreign(foreign) if matches!(options.view, View::Frees) => Err(foreign.no_frees()),
        Opened::Foreign(foreign) if is_about_recording => Err(foreign.no_health()),
        _ => opened.take_named(&options.source.names, detail, options.kind),
    }
}

/// What the profile is of; and for a process that runs, where its RSS is.
fn heading(opened: &Opened, profile: &Profile) -> (String, Option<Resident>) {
    match opened {
        Opened::Own(source) => {
            let extents = &source.snapshot.extents;
            let resident = source.running.and_then(|pid| {
                let resident = Resident::of(pid, &source.origin, extents)?;
                Some(resident.with_kept_free(pid, &source.origin))
            });
            (own::heading(source, profile, resident.as_ref()), resident)
        }
        Opened::Foreign(foreign) => (foreign.heading(profile), None),
    }
}

/// All stacks, before any filter: what percentages are percentages of.
struct Whole {
    sample_type: SampleType,
    total: Estimate,
    magnitude: f64,
}

impl Whole {
    fn of(profile: &Profile, sample_type: SampleType) -> Self {
        Self {
            sample_type,
            total: profile.total(sample_type),
            magnitude: view::magnitude(profile, sample_type),
        }
    }

    /// `inuse_space, total 4.05 GiB`, or how much of it passed the filters.
    fn title(&self, shown: Estimate) -> String {
        let unit = self.sample_type.unit();
        let total = format_value(self.total.value, unit);
        match shown.value == self.total.value {
            true => format!("{}, total {total}", self.sample_type),
            false => format!(
                "{}, {} ({}) of total {total}",
                self.sample_type,
                format_value(shown.value, unit),
                percent(shown.value, self.magnitude),
            ),
        }
    }
}

fn top(
    options: &ReportOptions,
    profile: &Profile,
    frames: &FrameTable,
    sample_type: SampleType,
) -> TopTable {
    let mut table = view::top_of(profile, frames, sample_type, options.sort.into());
    if options.rows > 0 {
        table.rows.truncate(options.rows);
    }
    table
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

fn top_table(out: &mut String, table: &TopTable, whole: &Whole) {
    let sample_type = whole.sample_type;
    if table.rows.is_empty() {
        let _ = writeln!(out, "no {sample_type} sampled yet");
        return;
    }
    let columns = text::columns();
    let unit = sample_type.unit();
    let _ = writeln!(out, "{}", whole.title(table.total));
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
            percent(row.flat.value, whole.magnitude),
            percent(sum, whole.magnitude),
            format_value(row.cum.value, unit),
            percent(row.cum.value, whole.magnitude),
            format_relative_error(row.shown()),
            format_objects(row.objects.value),
            row.name,
            place(&row.file, row.line),
        );
        let _ = writeln!(out, "{}", text::cut(&line, columns));
    }
}

/// The few stacks that hold most, each on one line: what a table of functions pulls apart.
fn largest_stacks(
    out: &mut String,
    profile: &Profile,
    frames: &FrameTable,
    sample_type: SampleType,
) {
    let unit = sample_type.unit();
    let is_shown = |frame: &FrameName| !is_library_function(&frame.name);
    let stacks = view::largest_stacks(profile, frames, sample_type, is_shown, MAX_STACKS);
    if !stacks.is_empty() {
        let _ = writeln!(out, "\nlargest stacks, leaf first, without the C++ library's own frames");
    }
    for stack in stacks {
        let shown = stack.frames.iter().take(MAX_STACK_FRAMES);
        let mut names: Vec<String> = shown
            .map(|at| (ramson_profile::short_name(&frames.name(at.frame).name), at.line))
            .map(|(name, line)| if line == 0 { name } else { format!("{name}:{line}") })
            .collect();
        if stack.frames.len() > MAX_STACK_FRAMES {
            names.push("…".into());
        }
        let line = format!(
            "{:>10} {:>8}  {}",
            format_value(stack.value.value, unit),
            format_relative_error(stack.value),
            names.join(" ← ")
        );
        let _ = writeln!(out, "{}", text::cut(&line, text::columns()));
    }
}

pub fn percent(part: f64, whole: f64) -> String {
    format_percent(part, whole).replace(' ', "")
}

pub fn place(file: &str, line: u32) -> String {
    match (file, line) {
        ("", _) => String::new(),
        (file, 0) => format!("  {file}"),
        (file, line) => format!("  {file}:{line}"),
    }
}

fn tree(out: &mut String, tree: &Tree, whole: &Whole, rows: usize, order: &str) {
    let (columns, unit) = (text::columns(), tree.sample_type.unit());
    let _ = writeln!(out, "{}; {order}", whole.title(tree.total));
    let _ = writeln!(out, "{:>10} {:>7} {:>10} {:>8}  function", "cum", "cum%", "flat", "±");
    // A tree needs more rows than a table to say as much.
    let most = if rows == 0 { usize::MAX } else { rows * 5 };
    for row in tree.rows.iter().take(most) {
        let name = match &row.kind {
            TreeRowKind::Frame(frame) => format!("{}{}", frame.name, tables::line_of(frame)),
            TreeRowKind::Merged { frames } => tree.merged_label(*frames, row.cum),
        };
        let line = format!(
            "{:>10} {:>7} {:>10} {:>8}  {}{name}",
            format_value(row.cum.value, unit),
            percent(row.cum.value, whole.magnitude),
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

fn peek(out: &mut String, profile: &Profile, whole: &Whole, pattern: &Pattern) {
    let sample_type = whole.sample_type;
    let table = view::peek(profile, sample_type, pattern);
    if table.functions.is_empty() {
        let _ = writeln!(out, "no function with {sample_type} matches {}", pattern.as_str());
    }
    let (columns, unit) = (text::columns(), sample_type.unit());
    let value = |value: f64| {
        format!("{:>10} {:>7}", format_value(value, unit), percent(value, whole.magnitude))
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

/// Part of the heading: binaries of a dead process that are not there any more, whose names nobody will find by looking again.
fn push_lost_names(out: &mut String, opened: &Opened, missing: &mut Vec<Defect>, is_json: bool) {
    let is_dead = matches!(opened, Opened::Own(source) if source.running.is_none());
    let is_lost = |defect: &Defect| {
        matches!(defect, Defect::BuildIdDiffers { used: None, .. } | Defect::BinaryMissing { .. })
    };
    if !is_dead || is_json || !missing.iter().any(is_lost) {
        return;
    }
    let end = out.trim_end_matches('\n').len();
    out.truncate(end);
    for defect in missing.iter().filter(|defect| is_lost(defect)).take(MAX_HINTS) {
        let _ = write!(out, "\nnames are missing: {defect}");
    }
    out.push_str("\n\n");
    missing.retain(|defect| !is_lost(defect));
}

/// Says what kept frames from having names, and what to do about it.
pub fn say_what_is_missing(defects: &[Defect]) {
    for defect in defects.iter().take(MAX_HINTS) {
        text::hint(&defect.to_string());
    }
    if defects.len() > MAX_HINTS {
        text::hint(&format!("{} more binaries lack symbols", defects.len() - MAX_HINTS));
    }
}
