//! The rows as text, in columns that fit the width.

use super::model::Model;
use crate::table::{cut, fitted, or_dash};
use ramson_analysis::live::row::{Direction, Row, Sort};
use ramson_analysis::live::sums::Sums;
use ramson_profile::format::{
    format_amount, format_bytes, format_duration, format_error, format_objects_short,
};
use ramson_profile::{Estimate, SampleUnit};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

// A meaning is never told by its colour alone.
pub const PLAIN: Style = Style::new();
pub const STRONG: Style = PLAIN.add_modifier(Modifier::BOLD);
pub const FAINT: Style = PLAIN.add_modifier(Modifier::DIM);
/// Orange and blue: told apart by colour-blind readers, and by the sign beside them.
const GROWS: Style = Style { fg: Some(Color::Indexed(208)), ..STRONG };
const SHRINKS: Style = Style { fg: Some(Color::Indexed(33)), ..PLAIN };
/// Bytes that are on average at least half as old as the profile, if that is a minute …
const OLD_SHARE: f64 = 0.5;
const LEAST_OLD_NS: u64 = 60_000_000_000;
/// … or that live for less than this.
const YOUNG_NS: u64 = 10_000_000_000;

/// A column before the name: what it is called, the order that it shows, its width, and the least
/// width of a screen that has room for it.
pub type Column<S> = (&'static str, Option<S>, usize, usize);

/// Each with the key that sorts by it.
const COLUMNS: [Column<Sort>; 5] = [
    ("l:live", Some(Sort::Live), 8, 0),
    ("±", None, 7, 64),
    ("d:Δ", Some(Sort::Change), 10, 0),
    ("a:alloc/s", Some(Sort::Rate), 10, 96),
    ("o:age", Some(Sort::Age), 6, 46),
];
const NAME: &str = " n:function  file:line";

/// The names of the columns; the one that rows are sorted by is marked.
pub fn head<S: Copy + PartialEq>(
    columns: &[Column<S>],
    width: usize,
    sort: S,
    mark: char,
) -> String {
    let name = |&(name, of, ..): &Column<S>| {
        if of == Some(sort) { (format!("{name}{mark}"), PLAIN) } else { (name.to_owned(), PLAIN) }
    };
    Line::from(numbers(columns, width, columns.iter().map(name))).to_string()
}

pub fn numbers<S>(
    columns: &[Column<S>],
    width: usize,
    cells: impl IntoIterator<Item = (String, Style)>,
) -> Vec<Span<'static>> {
    let all = columns.iter().zip(cells).filter(|((.., least), _)| width >= *least);
    all.map(|((.., room, _), (text, style))| Span::styled(format!("{text:>room$} "), style))
        .collect()
}

/// Without the keys, for what takes none.
pub fn head_without_keys(model: &Model, width: usize) -> String {
    let columns = COLUMNS.map(|(name, sort, room, least)| (without_key(name), sort, room, least));
    head(&columns, width, model.sort, '▼') + " function  file:line"
}

fn without_key(name: &'static str) -> &'static str {
    name.split_once(':').map_or(name, |(_, name)| name)
}

pub fn head_of_rows(model: &Model, width: usize) -> String {
    let mark = if model.is_reversed { '▲' } else { '▼' };
    let is_by_name = model.sort == Sort::Name;
    let name = if is_by_name { format!("{NAME}{mark}") } else { NAME.into() };
    head(&COLUMNS, width, model.sort, mark) + &name
}

/// The order that the heading at a column of the screen stands for.
pub fn sort_at(column: usize, width: usize) -> Option<Sort> {
    column_at(&COLUMNS, column, width).unwrap_or(Some(Sort::Name))
}

/// Order that the heading at a column of the screen sorts by, if any; `None` right of all headings.
pub fn column_at<S: Copy>(columns: &[Column<S>], column: usize, width: usize) -> Option<Option<S>> {
    let mut end = 0;
    let shown = columns.iter().filter(|(.., least)| width >= *least);
    shown.map(|&(_, sort, room, _)| (sort, room)).find_map(|(sort, room)| {
        end += room + 1;
        (column < end).then_some(sort)
    })
}

/// A row's numbers, and room for its name.
pub struct Numbers {
    pub spans: Vec<Span<'static>>,
    pub room: usize,
}

impl Numbers {
    /// `profiled_ns`: what is old is old beside that.
    pub fn of(sums: Option<&Sums>, width: usize, profiled_ns: u64) -> Self {
        let cells = sums.map_or_else(Default::default, |sums| {
            let live = sums.live;
            [
                (format_amount(live, SampleUnit::Bytes), STRONG),
                (
                    or_dash((live.value != 0.0).then(|| format_error(live, SampleUnit::Bytes))),
                    FAINT,
                ),
                change_text(sums.change()),
                (rate(sums.alloc_objects_per_s), PLAIN),
                age_text(sums.mean_age_ns(), profiled_ns),
            ]
        });
        let spans = numbers(&COLUMNS, width, cells);
        let taken: usize = spans.iter().map(Span::width).sum();
        Self { spans, room: width.saturating_sub(taken + 1) }
    }
}

/// The row of all stacks.
pub fn total(sums: &Sums, text: &str, width: usize, profiled_ns: u64) -> Line<'static> {
    let Numbers { mut spans, room } = Numbers::of(Some(sums), width, profiled_ns);
    spans.push(Span::styled(cut(&format!(" {text}"), Some(room + 1)), FAINT));
    spans.into()
}

pub fn line(row: &Row, width: usize, profiled_ns: u64) -> Line<'static> {
    let Numbers { mut spans, room } = Numbers::of(row.sums.as_ref(), width, profiled_ns);
    let arrow = match (row.depth, row.direction, &row.sums) {
        (0, ..) => "",
        (_, _, None) => "← ",
        (_, Direction::Callers, _) => "↑ ",
        (_, Direction::Callees, _) => "↓ ",
    };
    let indent = " ".repeat(row.depth.saturating_mul(2).min(room / 2));
    let place = place(row, room);
    let before = format!(" {indent}{arrow}");
    // The line is worth more than the namespace of a long name.
    let least = room.saturating_sub(place.chars().count());
    let for_name = if least * 2 > room { least } else { room };
    let for_name = (for_name + 1).saturating_sub(before.chars().count());
    let name = before + &fitted(&ramson_profile::short_name(&row.name), Some(for_name));
    let left = (room + 1).saturating_sub(name.chars().count());
    spans.push(name.into());
    if left > 4 {
        spans.push(Span::styled(cut(&place, Some(left)), FAINT));
    }
    spans.into()
}

/// `  file.c:12`; the whole path where there is much room.
fn place(row: &Row, room: usize) -> String {
    const MUCH: usize = 80;
    let file = match room {
        MUCH.. => &row.file,
        _ => row.file.rsplit('/').next().unwrap_or_default(),
    };
    crate::table::place(file, row.line)
}

/// With its sign, and with ~ where it is not significant.
pub fn change_text(change: Estimate) -> (String, Style) {
    let bytes = format_bytes(change.value);
    let sign = if change.value >= 0.5 { "+" } else { "" };
    if change.is_nothing() {
        ("0".into(), FAINT)
    } else if !change.is_significant() {
        (format!("~{sign}{bytes}"), FAINT)
    } else if change.value > 0.0 {
        (format!("{sign}{bytes}"), GROWS)
    } else {
        (bytes, SHRINKS)
    }
}

/// `42s`, `3min`, `5.0h`: with ◆ where that is old, with ◇ where it is young.
fn age_text(mean_age_ns: Option<u64>, profiled_ns: u64) -> (String, Style) {
    let Some(age_ns) = mean_age_ns else { return (or_dash(None), PLAIN) };
    let text = format_duration(age_ns).replace(' ', "");
    let is_old = age_ns >= LEAST_OLD_NS && age_ns as f64 >= OLD_SHARE * profiled_ns as f64;
    match age_ns {
        _ if is_old => (format!("◆{text}"), GROWS),
        ..YOUNG_NS => (format!("◇{text}"), SHRINKS),
        _ => (text, PLAIN),
    }
}

fn rate(per_s: f64) -> String {
    match per_s {
        0.0 => "0".into(),
        0.0..1.0 => format!("{per_s:.1}"),
        _ => format_objects_short(per_s),
    }
}
