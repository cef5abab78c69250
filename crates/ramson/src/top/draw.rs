//! The picture of one process on a screen of any size.

use super::heading::{Heading, change_line, spark_line, wrapped};
use super::keys::HELP;
use super::model::Model;
use super::table::{self, FAINT, PLAIN, STRONG};
use crate::table::{cut, wrap};
use ramson_analysis::live::row::View;
use ramson_profile::format::{format_bytes, format_percent};
use ratatui::Frame;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Notes shown above the rows, and lines of the stack below them.
const MOST_NOTES: usize = 2;
const STACK_LINES: usize = 2;
const HEAD: Style = STRONG.add_modifier(Modifier::UNDERLINED);
const REVERSED: Style = PLAIN.add_modifier(Modifier::REVERSED);

/// Draws it all; returns how many rows of the table there was room for.
pub fn draw(frame: &mut Frame, model: &mut Model, heading: &Heading) -> usize {
    let area = frame.area();
    let (width, height) = (area.width as usize, area.height as usize);
    if model.is_help_shown {
        frame.render_widget(Paragraph::new(help(model)), area);
        return 0;
    }
    let mut top = above(model, heading, width);
    let mut bottom = below(model, width, height);
    // Of a small screen the rows get what they need first, then the bottom line, then what is above.
    let least_rows = 4.min(height);
    bottom.drain(..bottom.len().saturating_sub(height.saturating_sub(least_rows)));
    top.truncate(height.saturating_sub(least_rows + bottom.len()));
    let page = height.saturating_sub(top.len() + bottom.len() + 1);
    model.first = scrolled(model.first, model.cursor, page.max(1), model.rows.len());
    let rows = rows(model, width, page);
    put(frame, top, table::head_of_rows(model, width), rows, bottom);
    page
}

/// The first of `rows` on a screen that has room for `page` of them, one of which is the cursor's.
pub fn scrolled(first: usize, cursor: usize, page: usize, rows: usize) -> usize {
    first.min(cursor).max((cursor + 1).saturating_sub(page)).min(rows.saturating_sub(page))
}

/// Puts the head of a table below lines, the rows below it, and more lines at the bottom.
pub fn put(
    frame: &mut Frame,
    above: Vec<Line<'static>>,
    head: String,
    rows: impl IntoIterator<Item = Line<'static>>,
    below: Vec<Line<'static>>,
) {
    let (area, mut lines) = (frame.area(), above);
    lines.push(Line::styled(cut(&head, Some(area.width as usize)), HEAD));
    lines.extend(rows);
    lines.resize((area.height as usize).saturating_sub(below.len()), Line::default());
    lines.extend(below);
    frame.render_widget(Paragraph::new(lines), area);
}

/// A row, which may be the one of the cursor.
pub fn marked(line: Line<'static>, is_chosen: bool) -> Line<'static> {
    if is_chosen { line.style(REVERSED) } else { line }
}

fn above(model: &Model, heading: &Heading, width: usize) -> Vec<Line<'static>> {
    let cut = |line: &str| cut(line, Some(width));
    let title = wrapped(&heading.title, width).into_iter().map(|line| Line::styled(line, STRONG));
    let mut lines: Vec<Line> = title.collect();
    lines.extend(wrapped(&heading.rss, width).into_iter().map(Line::from));
    lines.push(cut(&spark_line(model, width)).into());
    lines.extend(wrapped(&change_line(model), width).into_iter().map(Line::from));
    let notes = heading.notes.iter().take(MOST_NOTES);
    lines.extend(notes.map(|note| Line::styled(cut(note), REVERSED)));
    lines.extend(filter_line(model).map(|line| Line::from(cut(&line))));
    lines
}

pub fn filter_line(model: &Model) -> Option<String> {
    let filter = model.filter.as_ref()?;
    let (shown, total) = (model.shown.live.value, model.picture.moments.total.live.value);
    Some(format!(
        "filter {}: {} rows, {}, {} of live",
        filter.as_str(),
        model.rows.len(),
        format_bytes(shown),
        format_percent(shown, total),
    ))
}

fn rows(model: &Model, width: usize, page: usize) -> Vec<Line<'static>> {
    if model.rows.is_empty() {
        let why = match (&model.filter, model.picture.shape.names.is_empty()) {
            (_, true) => "looking up names …",
            (Some(_), _) => "nothing matches the filter; Esc takes it away",
            (None, _) => "nothing was sampled yet",
        };
        return vec![Line::from(why)];
    }
    let shown = model.rows.iter().enumerate().skip(model.first).take(page);
    shown.map(|(place, row)| marked(table::line(row, width), place == model.cursor)).collect()
}

fn below(model: &Model, width: usize, height: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if height >= 16 {
        let stack = broken(&model.stack_of_cursor().unwrap_or_default(), width);
        lines.extend(stack.into_iter().map(|line| Line::styled(line, FAINT)));
    }
    let last = match (&model.typed, model.remark) {
        (Some(typed), _) => format!("filter (Enter takes it, Esc not): /{typed}▏"),
        (None, Some(remark)) => remark.to_owned(),
        (None, None) => key_line(model, width),
    };
    lines.push(Line::from(cut(&last, Some(width))));
    lines
}

fn key_line(model: &Model, width: usize) -> String {
    let views = View::ALL.iter().zip(1..).map(|(&view, digit)| match view == model.view {
        true => format!("[{digit} {}]", view.name()),
        false => format!("{digit} {}", view.name()),
    });
    let paused = if model.is_paused { "PAUSED (Space goes on)  " } else { "" };
    let start = paused.to_owned() + &views.collect::<Vec<_>>().join(" ");
    let line =
        format!("{start}  Enter callers  e callees  s sort  /filter  m mark  ? help  q quit");
    let short = format!("{start}  Enter callers  s sort  /filter  m mark  ? help");
    if line.chars().count() <= width { line } else { short }
}

/// `stack` in as many lines as there are for it, broken between frames, the last one cut.
fn broken(stack: &str, width: usize) -> Vec<String> {
    let starts = stack.match_indices(" ← ").map(|(start, _)| start);
    let ends = starts.clone().chain([stack.len()]);
    let frames = [0].into_iter().chain(starts).zip(ends).map(|(start, end)| &stack[start..end]);
    let mut lines = wrap(frames, width, 0);
    let last = lines.split_off(lines.len().min(STACK_LINES - 1)).concat();
    lines.extend([last]);
    lines.resize(STACK_LINES, String::new());
    lines.iter().map(|line| cut(line, Some(width))).collect()
}

fn help(model: &Model) -> Vec<Line<'static>> {
    let title = "ramson top: keys (any key goes back)";
    let mut lines = vec![Line::styled(title, STRONG), Line::default()];
    let key = |&(key, what)| {
        Line::from(vec![Span::styled(format!("{key:<14} "), STRONG), Span::from(what)])
    };
    lines.extend(HELP.iter().map(key));
    let words = [
        "",
        "±: the truth lies within it in 95 of 100 cases. ~: not significant.",
        "Δ: live bytes now − at the mark (first: the start of this view).",
        "alloc/s: of the last 10 s. age: mean age of the live bytes.",
    ];
    lines.extend(words.map(Line::from));
    let missing = model.picture.shape.missing_symbols.iter();
    lines.extend(missing.map(|defect| Line::from(cut(&format!("Names: {defect}"), None))));
    lines
}
