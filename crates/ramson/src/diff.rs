//! `ramson diff`: what changed between two profiles, and whether that is more than chance.

use crate::assemble::{Detail, assemble};
use crate::cli::{SortBy, parse_sample_type, parse_size};
use crate::failure::Failure;
use crate::naming::NameOptions;
use crate::report::{percent, place};
use crate::select::FilterOptions;
use crate::shared;
use crate::source::{self, Opened, Source};
use crate::text;
use clap::Args;
use ramson_encode::views;
use ramson_format::Kind;
use ramson_profile::format::{format_half_width, format_relative_error, format_value};
use ramson_profile::{Diff, DiffTable, Estimate, Granularity, Profile, SampleType, SampleUnit};
use serde_json::{Value, json};
use std::fmt::Write;

#[derive(Args)]
#[command(after_help = "\
Columns: Δ is later − earlier of the function's own allocations, ± its 95 % interval (of Δ cum where Δ is 0). A row marked ~ may
be chance. Functions are matched by name, so another process, machine or build of the program will do. Two snapshots of one
process (copies of its file) are compared more sharply: samples that are live in both cancel.

Exit status: 3 if --fail-above tripped.

Examples:
  ramson snap 4711 -o before.ramson; sleep 600; ramson diff before.ramson 4711
  ramson diff main.ramson branch.ramson --fail-above 5%
  ramson diff old.ramson new.ramson --focus '^db/' --fail-above 10MiB")]
pub struct DiffOptions {
    /// The earlier profile: a process ID, name:NAME of a process, a file or an http:// address
    pub old: String,
    /// The later profile
    pub new: String,
    #[command(flatten)]
    pub names: NameOptions,
    /// What to count: inuse_space, inuse_objects, alloc_space or alloc_objects; inuse_space unless a pprof file says otherwise
    #[arg(long, value_name = "TYPE", value_parser = parse_sample_type)]
    pub sample_index: Option<SampleType>,
    /// Exit with 3 if the total grew by more than this, in percent of OLD or absolutely (5%, 10MiB), and by more than chance
    #[arg(long, value_name = "GROWTH", value_parser = parse_limit)]
    pub fail_above: Option<Limit>,
    #[command(flatten)]
    pub filters: FilterOptions,
    /// Rows of the table to show; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    /// Order of the rows
    #[arg(long, value_enum, default_value_t = SortBy::Flat)]
    pub sort: SortBy,
    /// Leave out what shrank
    #[arg(long)]
    pub drop_negative: bool,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// How much growth is allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// As it was given.
    text: String,
    amount: Amount,
}

#[derive(Clone, Debug, PartialEq)]
enum Amount {
    /// Of the earlier total.
    Share(f64),
    /// In the unit of the sample type.
    Value(u64),
}

pub fn diff(options: &DiffOptions) -> Result<u8, Failure> {
    let (mut old, mut new) = (source::open(&options.old)?, source::open(&options.new)?);
    let sample_type = old.sample_type(options.sample_index)?;
    new.sample_type(Some(sample_type))?;
    let is_of_objects = sample_type.unit() == SampleUnit::Objects;
    if let Some(limit) =
        options.fail_above.as_ref().filter(|limit| limit.is_of_bytes() && is_of_objects)
    {
        return Err(Failure::usage(format!(
            "--fail-above {}: {sample_type} counts objects. Give a number or a percentage",
            limit.text
        )));
    }
    let mut compared = Compared::read(&mut old, &mut new, options, sample_type)?;
    let mut table = std::mem::take(&mut compared.diff).table(sample_type, options.sort.into());
    if options.drop_negative {
        table.rows.retain(|row| row.change.shown().value >= 0.0);
    }
    let all_rows = table.rows.len();
    if options.rows > 0 {
        table.rows.truncate(options.rows);
    }
    if options.json {
        let object = object(&old, &new, &compared, &table)?;
        text::print(&format!("{object}\n"))?;
    } else {
        let mut out = heading(&old, &new, &compared, &table);
        push_rows(&mut out, &table, all_rows);
        text::print(&out)?;
    }
    match &options.fail_above {
        Some(limit) if limit.is_exceeded(&table) => {
            text::remark(limit.finding(&table));
            Ok(3)
        }
        _ => Ok(0),
    }
}

struct Compared {
    diff: Diff,
    /// Samples that are live in both; `None` for different processes.
    shared_live: Option<usize>,
}

impl Compared {
    fn read(
        old: &mut Opened,
        new: &mut Opened,
        options: &DiffOptions,
        sample_type: SampleType,
    ) -> Result<Self, Failure> {
        let part = |source: &Source, snapshot| Source {
            snapshot,
            running: source.running,
            origin: source.origin.clone(),
            names: source.names.clone(),
            past: source.past.clone(),
        };
        let is_labelled = options.filters.use_labels();
        let detail = if is_labelled { Detail::Labels } else { Detail::Stacks };
        let profile = |source: &Source| {
            assemble(source, &options.names, detail, Some(Kind::Heap)).map(|named| named.profile)
        };
        let same_process = match (&*old, &*new) {
            (Opened::Own(old), Opened::Own(new)) => {
                shared::split(&old.snapshot, &new.snapshot).map(|parts| (parts, old, new))
            }
            _ => None,
        };
        let (shared_live, mut diff) = match same_process {
            None => {
                let old = old.take_named(&options.names, detail, None)?.profile;
                let new = new.take_named(&options.names, detail, None)?.profile;
                (None, Diff { old, new, shared: Profile::default() })
            }
            Some((parts, old, new)) => {
                let shared_live = parts.shared.live.len();
                let [old, new, shared] =
                    [part(old, parts.old), part(new, parts.new), part(new, parts.shared)];
                let (old, new, shared) = (profile(&old)?, profile(&new)?, profile(&shared)?);
                (Some(shared_live), Diff { old, new, shared })
            }
        };
        select(&mut diff, options, sample_type)?;
        Ok(Self { diff, shared_live })
    }
}

/// Applies the filters to all parts. One that leaves nothing of all of them is a mistake, of one of them is not.
fn select(diff: &mut Diff, options: &DiffOptions, sample_type: SampleType) -> Result<(), Failure> {
    let mut left = false;
    let mut failure = None;
    for profile in [&mut diff.new, &mut diff.old, &mut diff.shared] {
        let was_empty = profile.samples.is_empty();
        profile.granularity = Granularity::Functions;
        match options.filters.apply(profile, sample_type) {
            Ok(()) => left |= !was_empty,
            Err(nothing_left) => {
                profile.samples.clear();
                failure.get_or_insert(nothing_left);
            }
        }
    }
    match failure {
        Some(failure) if !left => Err(failure),
        _ => Ok(()),
    }
}

fn heading(old: &Opened, new: &Opened, compared: &Compared, table: &DiffTable) -> String {
    let unit = table.sample_type.unit();
    let mut out = String::new();
    for (word, source, total) in [("old", old, table.old_total), ("new", new, table.new_total)] {
        let value = format_value(total.value, unit);
        let error = format_relative_error(total);
        let what = match source {
            Opened::Own(source) => {
                format!("{} (pid {})", source.name(), source.pid())
            }
            Opened::Foreign(foreign) => foreign.origin.clone(),
        };
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
    if let Some(shared) = compared.shared_live {
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
        let line = text::cut(&line, text::columns());
        let _ = writeln!(out, "{}", if is_noise(shown) { text::dim(&line) } else { line });
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
        change if is_noise(change) => "may be chance",
        _ => "more than chance",
    }
}

/// Inside its interval. Where nothing is known of the interval nothing is called noise.
fn is_noise(change: Estimate) -> bool {
    !change.variance.is_nan() && !change.is_significant()
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

fn object(
    old: &Opened,
    new: &Opened,
    compared: &Compared,
    table: &DiffTable,
) -> Result<Value, Failure> {
    let mut bytes = Vec::new();
    views::write_diff(table, &mut bytes)?;
    let mut object: Value = serde_json::from_slice(&bytes).map_err(|error| {
        Failure::failed(format!("the diff is not valid JSON: {error}. Please report this"))
    })?;
    let side = |source: &Opened| match source {
        Opened::Own(source) => json!({ "name": source.name(), "pid": source.pid() }),
        Opened::Foreign(foreign) => json!({ "name": foreign.origin }),
    };
    object["old"] = side(old);
    object["new"] = side(new);
    object["is_same_process"] = json!(compared.shared_live.is_some());
    Ok(object)
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    let amount = match text.strip_suffix('%') {
        Some(percent) => {
            let share = percent.trim().parse::<f64>().ok().filter(|share| *share >= 0.0);
            share.filter(|share| share.is_finite()).map(|percent| Amount::Share(percent / 100.0))
        }
        None => parse_size(text).map(Amount::Value),
    };
    let wrong = || "neither a percentage nor a size; as 5% or 10MiB".to_owned();
    Ok(Limit { text: text.to_owned(), amount: amount.ok_or_else(wrong)? })
}

impl Limit {
    fn is_of_bytes(&self) -> bool {
        self.text.ends_with(['B', 'b'])
    }

    fn is_exceeded(&self, table: &DiffTable) -> bool {
        let allowed = match self.amount {
            Amount::Share(share) => share * table.old_total.value,
            Amount::Value(value) => value as f64,
        };
        table.change.value > allowed && !is_noise(table.change)
    }

    fn finding(&self, table: &DiffTable) -> String {
        let unit = table.sample_type.unit();
        format!(
            "{} grew by {} ({}), from {} to {}: more than {}",
            table.sample_type,
            format_value(table.change.value, unit),
            format_half_width(table.change, unit),
            format_value(table.old_total.value, unit),
            format_value(table.new_total.value, unit),
            self.text,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(old: f64, change: f64, half_width: f64) -> DiffTable {
        let variance = (half_width / 1.959964).powi(2);
        DiffTable {
            sample_type: SampleType::InuseSpace,
            old_total: Estimate::exact(old),
            new_total: Estimate::exact(old + change),
            change: Estimate { value: change, variance },
            rows: vec![],
        }
    }

    #[test]
    fn only_growth_beyond_the_limit_and_beyond_chance_trips() {
        let trips = |limit: &str, table: &DiffTable| parse_limit(limit).unwrap().is_exceeded(table);
        assert!(trips("5%", &table(1000.0, 51.0, 10.0)));
        assert!(!trips("5%", &table(1000.0, 50.0, 10.0)));
        assert!(!trips("5%", &table(1000.0, 500.0, 501.0)));
        assert!(!trips("5%", &table(1000.0, -500.0, 1.0)));
        assert!(trips("50B", &table(1000.0, 51.0, 10.0)));
        assert!(!trips("1K", &table(1000.0, 51.0, 10.0)));
        assert!(trips("5%", &table(0.0, 1.0, 0.0)));
        assert!(!trips("0%", &table(1000.0, 0.0, 0.0)));
        assert!(trips("5%", &table(1000.0, 51.0, f64::NAN)));
    }

    #[test]
    fn what_is_more_than_chance_is_said_only_where_chance_is_known() {
        for (value, variance, expected) in [
            (0.0, 100.0, "no change"),
            (0.0, f64::NAN, "no change"),
            (495.0, f64::NAN, "interval unknown"),
            (10.0, 100.0, "may be chance"),
            (-30.0, 100.0, "more than chance"),
        ] {
            assert_eq!(verdict(Estimate { value, variance }), expected, "{value} {variance}");
        }
    }

    #[test]
    fn a_limit_is_a_percentage_or_a_size() {
        for wrong in ["", "%", "5 percent", "-5%", "nan%", "inf%", "1.5M", "x"] {
            assert!(parse_limit(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_limit("2.5%").unwrap().amount, Amount::Share(0.025));
        assert_eq!(parse_limit("10MiB").unwrap().amount, Amount::Value(10 << 20));
    }
}
