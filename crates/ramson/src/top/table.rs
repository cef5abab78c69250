//! The rows as text, in columns that fit the width.

use super::model::Model;
use crate::table::{cut, or_dash};
use ramson_analysis::live::row::{Direction, Row, Sort};
use ramson_profile::Estimate;
use ramson_profile::format::{
    format_bytes, format_duration, format_objects_short, format_relative_error,
};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

// A meaning is never told by its colour alone.
pub const PLAIN: Style = Style::new();
pub const STRONG: Style = PLAIN.add_modifier(Modifier::BOLD);
pub const FAINT: Style = PLAIN.add_modifier(Modifier::DIM);
/// Orange and blue where a terminal has its usual colours: told apart by everybody.
const GROWS: Style = Style { fg: Some(Color::Yellow), ..STRONG };
const SHRINKS: Style = Style { fg: Some(Color::Blue), ..PLAIN };

/// A column before the name: what it is called, the order that it shows, its width, and the least
/// width of a screen that has room for it.
pub type Column<S> = (&'static str, Option<S>, usize, usize);

const COLUMNS: [Column<Sort>; 5] = [
    ("live", Some(Sort::Live), 8, 0),
    ("±", None, 7, 72),
    ("Δ", Some(Sort::Change), 10, 0),
    ("alloc/s", Some(Sort::Rate), 7, 60),
    ("age", Some(Sort::Age), 6, 50),
];

/// The names of the columns; the one that rows are sorted by is marked.
pub fn head<S: Copy + PartialEq>(
    columns: &[Column<S>],
    width: usize,
    sort: S,
    mark: char,
) -> String {
    let name = |&(name, of, ..): &Column<S>| match of == Some(sort) {
        true => (format!("{name}{mark}"), PLAIN),
        false => (name.to_owned(), PLAIN),
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

pub fn head_of_rows(model: &Model, width: usize) -> String {
    let mark = if model.is_reversed { '▲' } else { '▼' };
    let is_by_name = model.sort == Sort::Name;
    let name = if is_by_name {
        format!(" function  file:line{mark}")
    } else {
        " function  file:line".into()
    };
    head(&COLUMNS, width, model.sort, mark) + &name
}

pub fn line(row: &Row, width: usize) -> Line<'static> {
    let cells = row.sums.as_ref().map_or_else(Default::default, |sums| {
        let live = sums.live;
        [
            (format_bytes(live.value), STRONG),
            (or_dash((live.value != 0.0).then(|| format_relative_error(live))), FAINT),
            change_text(sums.change()),
            (rate(sums.alloc_objects_per_s), PLAIN),
            // `42s`, `3min`, `5h`.
            (or_dash(sums.mean_age_ns().map(|ns| format_duration(ns).replace(' ', ""))), PLAIN),
        ]
    });
    let mut spans = numbers(&COLUMNS, width, cells);
    let taken: usize = spans.iter().map(Span::width).sum();
    let arrow = match (row.depth, row.direction, &row.sums) {
        (0, ..) => "",
        (_, _, None) => "← ",
        (_, Direction::Callers, _) => "↑ ",
        (_, Direction::Callees, _) => "↓ ",
    };
    let room = width.saturating_sub(taken + 1);
    let indent = " ".repeat(row.depth.saturating_mul(2).min(room / 2));
    let place = place(row, room);
    let name = format!(" {indent}{arrow}{}", ramson_profile::short_name(&row.name));
    // The line is worth more than the end of a long name.
    let least = room.saturating_sub(place.chars().count());
    let name = cut(&name, Some(if least * 2 > room { least + 1 } else { room + 1 }));
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
    match (change.is_significant(), change.value > 0.0) {
        _ if change.is_nothing() => ("0".into(), FAINT),
        (false, _) => (format!("~{sign}{bytes}"), FAINT),
        (true, true) => (format!("{sign}{bytes}"), GROWS),
        (true, false) => (bytes, SHRINKS),
    }
}

fn rate(per_s: f64) -> String {
    match per_s {
        0.0 => "0".into(),
        0.0..1.0 => format!("{per_s:.1}"),
        _ => format_objects_short(per_s),
    }
}
