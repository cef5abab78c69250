//! A Go program's collections on a terminal, as they come.

use crate::screen::{Input, Screen};
use crate::table;
use crate::top::FAINT;
use crate::top::charts::{self, Series};
use crate::top::keys::{Request, of_every_view};
use ramson_analysis::gc::{BETWEEN, Gc, Watcher};
use ramson_analysis::question::Question;
use ramson_follow::Pace;
use ramson_profile::format::format_bytes;
use ramson_source::Failure;
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use std::time::{Duration, Instant};

/// Share of one core that the stacks and their names may take.
const SHARE: f64 = 0.02;
/// Between two pictures of the heap, and at least between two tables.
const PICTURES: Duration = Duration::from_millis(500);
const TABLES: Duration = Duration::from_secs(1);
/// The fewest rows of a table.
const LEAST_ROWS: usize = 3;

/// Shows them until the user quits or the process ends: returns what was seen, and whether it ended.
pub fn show(question: &Question) -> Result<(Gc, bool), Failure> {
    let mut watcher = Watcher::begin(question)?;
    let mut found = watcher.found()?;
    let mut screen = Screen::open()?;
    let mut pace = Pace::new(TABLES, SHARE);
    let mut next_look = Instant::now();
    let mut next_picture = next_look;
    loop {
        if next_look <= Instant::now() {
            next_look = Instant::now() + BETWEEN;
            if watcher.look().is_err() {
                return Ok((found, true));
            }
        }
        if pace.is_due() {
            match pace.run(|| watcher.found()) {
                Ok(now) => found = now,
                Err(_) => return Ok((found, true)),
            }
        }
        if next_picture <= Instant::now() {
            next_picture = Instant::now() + PICTURES;
            screen.draw(|frame| draw(frame, &found, watcher.heap(), question.rows))?;
        }
        let key = match screen.next_input(next_look.min(next_picture))? {
            Input::Key(key) => key,
            Input::Gone => break,
            Input::Mouse(_) | Input::Nothing => continue,
        };
        match of_every_view(key) {
            Some(Request::Quit) => break,
            Some(Request::Suspend) => screen.suspend()?,
            Some(Request::Redraw) => screen.clear()?,
            None if matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) => break,
            _ => continue,
        }
        next_picture = Instant::now();
    }
    Ok((watcher.found().unwrap_or(found), false))
}

fn draw(frame: &mut Frame, gc: &Gc, heap: &[(u64, u64)], rows: usize) {
    let area = frame.area();
    let height = area.height as usize;
    let lines = |text: String| -> Vec<Line<'static>> {
        text.lines().map(|line| Line::raw(line.to_owned())).collect()
    };
    let head = lines(table::gc::head(gc));
    let dots = charts::dot_lines(height);
    let chart = if dots == 0 { 0 } else { dots + charts::TEXT_LINES };
    // The last line says how to leave.
    let body = height.saturating_sub(1);
    let top = (head.len() + chart).min(body);
    let fits = ((body - top) / 2).saturating_sub(LEAST_ROWS).max(LEAST_ROWS);
    let rows = if rows == 0 { fits } else { fits.min(rows) };
    let rest = lines(table::gc::rest(gc, rows));
    let part = |from: usize, to: usize| Rect {
        y: from.min(body) as u16,
        height: to.min(body).saturating_sub(from) as u16,
        ..area
    };
    frame.render_widget(Paragraph::new(head.clone()), part(0, head.len()));
    if chart > 0 {
        charts::draw_one(frame, part(head.len(), top), &series(gc, heap), span(heap));
    }
    frame.render_widget(Paragraph::new(rest), part(top, body));
    let last = Rect { y: body as u16, height: (height - body) as u16, ..area };
    frame.render_widget(Line::styled("q: quit", FAINT), last);
}

fn series(gc: &Gc, heap: &[(u64, u64)]) -> Series {
    let bytes = heap.last().map_or(0.0, |&(_, bytes)| bytes as f64);
    let goal = gc.collector.as_ref().and_then(|collector| collector.goal);
    let short = format!("heap {}", format_bytes(bytes));
    let goal =
        goal.map_or(String::new(), |goal| format!(" of a goal of {}", format_bytes(goal as f64)));
    let points = heap.iter().map(|&(at, bytes)| (at, bytes as f64)).collect();
    Series { label: [format!("{short}{goal}"), short], points }
}

fn span(heap: &[(u64, u64)]) -> u64 {
    let ends = heap.first().zip(heap.last());
    charts::span_of(ends.map_or(0, |(first, last)| last.0.saturating_sub(first.0)))
}
