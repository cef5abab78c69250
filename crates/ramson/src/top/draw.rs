//! The picture of one process on a screen of any size.

use super::charts;
use super::heading::{Heading, total_text};
use super::keys::HELP;
use super::model::{Clickable, Model};
use super::table::{self, FAINT, PLAIN, STRONG};
use crate::table::{cut, wrap};
use ramson_analysis::live::row::View;
use ramson_profile::printable;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

const HEAD: Style = STRONG.add_modifier(Modifier::UNDERLINED);
const REVERSED: Style = PLAIN.add_modifier(Modifier::REVERSED);

/// Draws it all; returns how many rows of the table there was room for. The number of lines above and below the rows depends on the
/// size of the screen alone, so that no row moves.
pub fn draw(frame: &mut Frame, model: &mut Model, heading: &Heading) -> usize {
    let area = frame.area();
    let (width, height) = (area.width as usize, area.height as usize);
    if model.is_help_shown {
        draw_help(frame, model);
        return height;
    }
    let mut top = above(heading, width);
    let mut bottom = below(model, width, height);
    // On a small screen the rows get the lines that they need first, then the bottom line, then the lines above.
    let least_rows = 4.min(height);
    bottom.drain(..bottom.len().saturating_sub(height.saturating_sub(least_rows)));
    top.truncate(height.saturating_sub(least_rows + bottom.len()));
    let charts = Rect { y: top.len() as u16, height: chart_lines(height) as u16, ..area };
    top.resize(top.len() + charts.height as usize, Line::default());
    let head = top.len();
    let total = (height >= 10)
        .then(|| table::total(&model.shown, &total_text(model), width, model.picture.profiled_ns));
    let first_row = head + 1 + usize::from(total.is_some());
    let page = height.saturating_sub(first_row + bottom.len());
    model.first = scrolled(model.first, model.cursor, page.max(1), model.rows.len());
    model.clickable = Clickable { width, head, rows: first_row, page };
    let rows = total.into_iter().chain(rows(model, width, page));
    put(frame, top, table::head_of_rows(model, width), rows, bottom);
    if charts.height > 0 {
        charts::draw(frame, charts, model, &heading.charts);
    }
    page
}

fn chart_lines(height: usize) -> usize {
    match charts::dot_lines(height) {
        0 => 0,
        lines => lines + charts::TEXT_LINES,
    }
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
    let area = frame.area();
    let mut lines = above;
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

fn above(heading: &Heading, width: usize) -> Vec<Line<'static>> {
    let cut = |line: &str| cut(line, Some(width));
    let split = heading.split.as_ref().map(|split| split.line(width)).unwrap_or_default();
    let third = match heading.notes.first() {
        Some(note) => Line::styled(cut(note), REVERSED),
        None => Line::styled(cut(&split), FAINT),
    };
    vec![Line::styled(cut(&heading.title), STRONG), cut(&heading.rss).into(), third]
}

fn rows(model: &Model, width: usize, page: usize) -> Vec<Line<'static>> {
    if model.rows.is_empty() {
        let why = match (&model.filter, model.picture.shape.names.is_empty()) {
            (_, true) => "looking up names …",
            (Some(_), _) => "nothing matches the filter; Esc removes it",
            (None, _) => "nothing was sampled yet",
        };
        return vec![Line::from(why)];
    }
    let shown = model.rows.iter().enumerate().skip(model.first).take(page);
    let profiled_ns = model.picture.profiled_ns;
    let line = |(place, row)| marked(table::line(row, width, profiled_ns), place == model.cursor);
    shown.map(line).collect()
}

fn below(model: &Model, width: usize, height: usize) -> Vec<Line<'static>> {
    let stack = model.stack_of_cursor().unwrap_or_default();
    let stack = broken(&stack, width, stack_lines(height));
    let mut lines: Vec<Line> = stack.into_iter().map(|line| Line::styled(line, FAINT)).collect();
    let last = match (&model.typed, model.remark) {
        (Some(typed), _) => format!("filter (Enter applies, Esc cancels): /{typed}▏"),
        (None, Some(remark)) => remark.to_owned(),
        (None, None) => key_line(model, width),
    };
    lines.push(Line::from(cut(&last, Some(width))));
    lines
}

/// For the stack of the row under the cursor.
fn stack_lines(height: usize) -> usize {
    match height {
        ..16 => 0,
        16..30 => 1,
        _ => 2,
    }
}

/// The views, and as many keys as there is room for.
fn key_line(model: &Model, width: usize) -> String {
    let views = View::ALL.iter().zip(1..).map(|(&view, digit)| {
        if view == model.view {
            format!("[{digit} {}]", view.name())
        } else {
            format!("{digit} {}", view.name())
        }
    });
    let paused = if model.is_paused { "PAUSED (Space resumes)  " } else { "" };
    let all = paused.to_owned() + &views.collect::<Vec<_>>().join(" ") + "  ? help";
    let digit = View::ALL.iter().position(|&view| view == model.view).map_or(1, |at| at + 1);
    let own = format!("{paused}[{digit} {}]  ? help", model.view.name());
    let mut line = if all.chars().count() <= width { all } else { own };
    for key in ["q quit", "Enter opens", "/ filter", "m mark", "r reverses", "e callees"] {
        if line.chars().count() + 2 + key.len() <= width {
            line = format!("{line}  {key}");
        }
    }
    line
}

/// `stack` in that many lines, broken between frames, the last one cut.
fn broken(stack: &str, width: usize, count: usize) -> Vec<String> {
    if count == 0 {
        return Vec::new();
    }
    let starts = stack.match_indices(" ← ").map(|(start, _)| start);
    let ends = starts.clone().chain([stack.len()]);
    let frames = [0].into_iter().chain(starts).zip(ends).map(|(start, end)| &stack[start..end]);
    let mut lines = wrap(frames, width, 0);
    let last = lines.split_off(lines.len().min(count - 1)).concat();
    lines.extend([last]);
    lines.resize(count, String::new());
    lines.iter().map(|line| cut(line, Some(width))).collect()
}

fn draw_help(frame: &mut Frame, model: &mut Model) {
    let area = frame.area();
    let lines = help(model, area.width as usize);
    model.help_first = model.help_first.min(lines.len().saturating_sub(area.height as usize));
    let shown: Vec<Line> = lines.into_iter().skip(model.help_first).collect();
    frame.render_widget(Paragraph::new(shown), area);
}

/// In lines that fit, none of them cut.
fn help(model: &Model, width: usize) -> Vec<Line<'static>> {
    const KEY_COLUMNS: usize = 15;
    let wrapped = |text: &str, columns: usize| -> Vec<String> {
        let words = text.split_inclusive(' ').flat_map(|word| split_at_width(word, columns));
        wrap(words, columns, 0)
    };
    let title = "ramson top: keys (↑↓ scroll, any other key goes back)";
    let mut lines: Vec<Line> =
        wrapped(title, width).into_iter().map(|line| Line::styled(line, STRONG)).collect();
    for (key, what) in HELP {
        let parts = wrapped(what, width.saturating_sub(KEY_COLUMNS).max(1));
        let keys = [key].into_iter().chain(std::iter::repeat(""));
        lines.extend(keys.zip(parts).map(|(key, part)| {
            Line::from(vec![Span::styled(format!("{key:<14} "), STRONG), Span::from(part)])
        }));
    }
    let words = [
        "±: the true value lies within it in 95 of 100 cases. ~: not significant. Δ: live bytes now − at the mark (first: the start of \
         this view). alloc/s: of the last 10 s.",
        "age: mean age of the live bytes; ◆ (orange) at least a minute and half as old as the profile, ◇ (blue) less than 10 s. + (orange) \
         grows, - (blue) shrinks.",
        "RSS and live, in the second line and in the charts, are of one moment; what else is resident is read less often, and the third \
         line says when. Rows change places every 3 s at most.",
        "What libraries and wrappers of malloc allocate is attributed to the functions that call them; --all-frames shows all frames.",
    ];
    let missing = model.picture.shape.missing_symbols.iter();
    let missing = missing.map(|defect| format!("Names: {defect}"));
    let texts = words.map(str::to_owned).into_iter().chain(missing);
    let texts = texts.flat_map(|text| wrapped(&printable(&text), width));
    lines.extend(texts.map(Line::from));
    lines
}

/// A word in pieces that fit.
fn split_at_width(word: &str, columns: usize) -> Vec<&str> {
    let mut rest = word;
    let mut pieces = Vec::new();
    while let Some((end, _)) = rest.char_indices().nth(columns.max(1)) {
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}
