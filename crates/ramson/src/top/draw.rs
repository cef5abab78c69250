//! The picture of one process on a screen of any size.

use super::heading::{Heading, change_line, spark_line, wrapped};
use super::keys::HELP;
use super::model::Model;
use super::table::{self, Columns, Span, Tone};
use crate::table::cut;
use ramson_analysis::live::row::View;
use ramson_profile::format::{format_bytes, format_percent};
use ratatui::Frame;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span as Styled};
use ratatui::widgets::Paragraph;

/// Notes shown above the rows, and lines of the stack below them.
const MOST_NOTES: usize = 2;
const STACK_LINES: usize = 2;

/// With colours or without: a tone is never told by its colour alone.
#[derive(Clone, Copy)]
pub struct Palette {
    pub has_colours: bool,
}

impl Palette {
    pub fn style(self, tone: Tone) -> Style {
        let coloured = |colour: Color| match self.has_colours {
            true => Style::new().fg(colour),
            false => Style::new(),
        };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
            Tone::Faint => Style::new().add_modifier(Modifier::DIM),
            // Orange and blue where a terminal has its usual colours: told apart by everybody.
            Tone::Grows => coloured(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Shrinks => coloured(Color::Blue),
        }
    }

    pub fn line(self, spans: Vec<Span>) -> Line<'static> {
        let styled = |span: Span| Styled::styled(span.text, self.style(span.tone));
        Line::from(spans.into_iter().map(styled).collect::<Vec<_>>())
    }

    pub fn text(self, text: impl Into<String>, tone: Tone) -> Line<'static> {
        self.line(vec![Span { text: text.into(), tone }])
    }
}

/// Draws it all; returns how many rows of the table there was room for.
pub fn draw(frame: &mut Frame, model: &mut Model, heading: &Heading, palette: Palette) -> usize {
    let area = frame.area();
    let (width, height) = (area.width as usize, area.height as usize);
    if model.choice.is_help_shown {
        frame.render_widget(Paragraph::new(help(model, palette)), area);
        return 0;
    }
    let mut top = above(model, heading, width, palette);
    let mut bottom = below(model, width, height, palette);
    // Of a small screen the rows get what they need first, then the bottom line, then what is above.
    let least_rows = 4.min(height);
    bottom.drain(..bottom.len().saturating_sub(height.saturating_sub(least_rows)));
    top.truncate(height.saturating_sub(least_rows + bottom.len()));
    let page = height.saturating_sub(top.len() + bottom.len() + 1);
    model.scroll(page);
    let mut lines = top;
    let columns = Columns::of(width);
    lines.push(palette.text(table::head(model, columns), Tone::Plain).style(underlined()));
    lines.extend(rows(model, columns, page, palette));
    lines.resize(height.saturating_sub(bottom.len()), Line::default());
    lines.extend(bottom);
    frame.render_widget(Paragraph::new(lines), area);
    page
}

fn underlined() -> Style {
    Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
}

fn above(model: &Model, heading: &Heading, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let title = wrapped(&heading.title, width);
    lines.extend(title.into_iter().map(|line| palette.text(line, Tone::Strong)));
    lines.extend(wrapped(&heading.rss, width).into_iter().map(Line::from));
    lines.push(Line::from(cut(&spark_line(model, width), Some(width))));
    lines.extend(wrapped(&change_line(model), width).into_iter().map(Line::from));
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    for note in heading.notes.iter().take(MOST_NOTES) {
        lines.push(Line::styled(cut(note, Some(width)), reversed));
    }
    lines.extend(filter_line(model).map(|line| Line::from(cut(&line, Some(width)))));
    lines
}

/// What the filter leaves.
pub fn filter_line(model: &Model) -> Option<String> {
    let filter = model.choice.filter.as_ref()?;
    let (shown, total) = (model.shown.live.value, model.picture.moments.total.live.value);
    Some(format!(
        "filter {}: {} rows, {}, {} of live",
        filter.as_str(),
        model.rows.len(),
        format_bytes(shown),
        format_percent(shown, total),
    ))
}

fn rows(model: &Model, columns: Columns, page: usize, palette: Palette) -> Vec<Line<'static>> {
    if model.rows.is_empty() {
        let why = match (&model.choice.filter, model.picture.shape.names.is_empty()) {
            (_, true) => "looking up names …",
            (Some(_), _) => "nothing matches the filter; Esc takes it away",
            (None, _) => "nothing was sampled yet",
        };
        return vec![Line::from(why)];
    }
    let shown = model.rows.iter().enumerate().skip(model.first).take(page);
    shown
        .map(|(place, row)| {
            let line = palette.line(table::line(row, columns));
            match place == model.cursor {
                true => line.style(Style::new().add_modifier(Modifier::REVERSED)),
                false => line,
            }
        })
        .collect()
}

/// The stack behind the cursor, and the keys.
fn below(model: &Model, width: usize, height: usize, palette: Palette) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if height >= 16 {
        let stack = model.stack_of_cursor().unwrap_or_default();
        let pieces = broken(&stack, width, STACK_LINES);
        lines.extend(pieces.into_iter().map(|line| palette.text(line, Tone::Faint)));
    }
    let last = match (&model.choice.typed, model.remark) {
        (Some(typed), _) => format!("filter (Enter takes it, Esc not): /{typed}▏"),
        (None, Some(remark)) => remark.to_owned(),
        (None, None) => key_line(model, width),
    };
    lines.push(Line::from(cut(&last, Some(width))));
    lines
}

fn key_line(model: &Model, width: usize) -> String {
    let views = View::ALL.iter().zip(1..).map(|(&view, digit)| match view == model.choice.view {
        true => format!("[{digit} {}]", view.name()),
        false => format!("{digit} {}", view.name()),
    });
    let paused = if model.choice.is_paused { "PAUSED (Space goes on)  " } else { "" };
    let views = views.collect::<Vec<_>>().join(" ");
    let keys = "Enter callers  e callees  s sort  /filter  m mark  ? help  q quit";
    let short = "Enter callers  s sort  /filter  m mark  ? help";
    let line = format!("{paused}{views}  {keys}");
    if line.chars().count() <= width { line } else { format!("{paused}{views}  {short}") }
}

/// `stack` in `most` lines, broken between frames, the last one cut.
fn broken(stack: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (place, frame) in stack.split(" ← ").enumerate() {
        let frame = if place == 0 { frame.to_owned() } else { format!(" ← {frame}") };
        let is_last = lines.len() == most;
        let last = lines.last_mut().expect("never empty");
        let fits = last.chars().count() + frame.chars().count() <= width;
        if fits || is_last || last.is_empty() {
            last.push_str(&frame);
        } else {
            lines.push(frame);
        }
    }
    lines.resize(most, String::new());
    lines.iter().map(|line| cut(line, Some(width))).collect()
}

/// The keys, the words, and why frames have no names.
fn help(model: &Model, palette: Palette) -> Vec<Line<'static>> {
    let mut lines =
        vec![palette.text("ramson top: keys (any key goes back)", Tone::Strong), Line::default()];
    let keys = HELP.iter().map(|(key, what)| {
        palette.line(vec![
            Span { text: format!("{key:<14} "), tone: Tone::Strong },
            Span { text: (*what).to_owned(), tone: Tone::Plain },
        ])
    });
    lines.extend(keys);
    let words = [
        "",
        "±: the truth lies within it in 95 of 100 cases. ~: not significant.",
        "Δ: live bytes now − at the mark (first: the start of this view).",
        "alloc/s: of the last 10 s. age: mean age of the live bytes.",
    ];
    lines.extend(words.map(Line::from));
    let missing = model.picture.shape.missing_symbols.iter().map(ToString::to_string);
    lines.extend(missing.map(|defect| Line::from(format!("Names: {defect}"))));
    lines
}
