//! The rows as text, in columns that fit the width.

use super::model::Model;
use crate::table::cut;
use ramson_analysis::live::row::{Direction, Row, Sort};
use ramson_profile::Estimate;
use ramson_profile::format::{
    format_bytes, format_duration, format_objects_short, format_relative_error,
};

/// A cell and how it is meant; its colours are chosen where it is drawn.
pub struct Span {
    pub text: String,
    pub tone: Tone,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    Plain,
    Strong,
    Faint,
    Grows,
    Shrinks,
}

/// Which columns there is room for. Live bytes, Δ and the name are always there.
#[derive(Clone, Copy)]
pub struct Columns {
    width: usize,
    has_error: bool,
    has_rate: bool,
    has_age: bool,
}

const LIVE: usize = 8;
const ERROR: usize = 7;
const CHANGE: usize = 10;
const RATE: usize = 7;
const AGE: usize = 6;

impl Columns {
    pub fn of(width: usize) -> Self {
        Self { width, has_error: width >= 72, has_rate: width >= 60, has_age: width >= 50 }
    }

    fn name_width(self) -> usize {
        let optional = [(self.has_error, ERROR), (self.has_rate, RATE), (self.has_age, AGE)];
        let taken: usize =
            optional.iter().filter(|(is_there, _)| *is_there).map(|(_, width)| width + 1).sum();
        self.width.saturating_sub(LIVE + 1 + CHANGE + 1 + taken + 1)
    }
}

/// The names of the columns; the one that rows are sorted by is marked.
pub fn head(model: &Model, columns: Columns) -> String {
    let order = if model.choice.is_reversed { '▲' } else { '▼' };
    let name = |sort: Sort, name: &str| match model.choice.sort == sort {
        true => format!("{name}{order}"),
        false => name.to_owned(),
    };
    let mut line = format!("{:>LIVE$} ", name(Sort::Live, "live"));
    if columns.has_error {
        line += &format!("{:>ERROR$} ", "±");
    }
    line += &format!("{:>CHANGE$} ", name(Sort::Change, "Δ"));
    if columns.has_rate {
        line += &format!("{:>RATE$} ", name(Sort::Rate, "alloc/s"));
    }
    if columns.has_age {
        line += &format!("{:>AGE$} ", name(Sort::Age, "age"));
    }
    line + " " + &name(Sort::Name, "function  file:line")
}

pub fn line(row: &Row, columns: Columns) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut push = |text: String, tone: Tone| spans.push(Span { text, tone });
    match &row.sums {
        None => {
            let numbers = columns.width.saturating_sub(columns.name_width() + 1);
            push(" ".repeat(numbers), Tone::Plain);
        }
        Some(sums) => {
            push(format!("{:>LIVE$} ", format_bytes(sums.live.value)), Tone::Strong);
            if columns.has_error {
                let is_there = sums.live.value != 0.0;
                let error = if is_there { format_relative_error(sums.live) } else { "–".into() };
                push(format!("{error:>ERROR$} "), Tone::Faint);
            }
            let (change, tone) = change_text(sums.change());
            push(format!("{change:>CHANGE$} "), tone);
            if columns.has_rate {
                push(format!("{:>RATE$} ", rate(sums.alloc_objects_per_s)), Tone::Plain);
            }
            if columns.has_age {
                let age = sums.mean_age_ns().map_or("–".into(), age);
                push(format!("{age:>AGE$} "), Tone::Plain);
            }
        }
    }
    let arrow = match (row.depth, row.direction, &row.sums) {
        (0, ..) => "",
        (_, _, None) => "← ",
        (_, Direction::Callers, _) => "↑ ",
        (_, Direction::Callees, _) => "↓ ",
    };
    let room = columns.name_width();
    let indent = " ".repeat(row.depth.saturating_mul(2).min(room / 2));
    let place = place(row, room);
    let name = format!(" {indent}{arrow}{}", ramson_profile::short_name(&row.name));
    // The line is worth more than the end of a long name.
    let least = room.saturating_sub(place.chars().count());
    let name = cut(&name, Some(if least * 2 > room { least + 1 } else { room + 1 }));
    let left = (room + 1).saturating_sub(name.chars().count());
    push(name, Tone::Plain);
    if left > 4 {
        push(cut(&place, Some(left)), Tone::Faint);
    }
    spans
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
pub fn change_text(change: Estimate) -> (String, Tone) {
    let bytes = format_bytes(change.value);
    let sign = if change.value >= 0.5 { "+" } else { "" };
    match (change.is_significant(), change.value > 0.0) {
        _ if change.is_nothing() => ("0".into(), Tone::Faint),
        (false, _) => (format!("~{sign}{bytes}"), Tone::Faint),
        (true, true) => (format!("{sign}{bytes}"), Tone::Grows),
        (true, false) => (bytes, Tone::Shrinks),
    }
}

fn rate(per_s: f64) -> String {
    match per_s {
        0.0 => "0".into(),
        0.0..1.0 => format!("{per_s:.1}"),
        _ => format_objects_short(per_s),
    }
}

/// `42s`, `3min`, `5h`.
fn age(ns: u64) -> String {
    format_duration(ns).replace(' ', "")
}
