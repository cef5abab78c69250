//! All profiled processes of the host: which of them holds the memory, and which grows.

use super::draw::Palette;
use super::keys::{Request, of_every_view};
use super::table::{self, Span, Tone};
use crate::flags::TopFlags;
use crate::output::{print, print_json};
use crate::table::{columns, cut};
use ramson_analysis::live::processes::{Column, Process, Processes};
use ramson_analysis::live::watch::Watched;
use ramson_profile::format::{format_bytes, format_objects_short, format_relative_error};
use ramson_source::{Failure, Selector};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use std::thread;

pub struct Host {
    processes: Processes,
    cursor: usize,
    first: usize,
    sort: Column,
}

impl Host {
    /// Those that are named and run now; nothing named: all.
    pub fn find(wanted: &[Selector]) -> Self {
        let processes = Processes::find(wanted);
        let mut host = Self { processes, cursor: 0, first: 0, sort: Column::Live };
        host.read();
        host
    }

    pub fn read(&mut self) {
        let held = self.processes.list.get(self.cursor).map(|process| process.watched.pid);
        if self.processes.read() {
            self.arrange(held);
        }
    }

    fn arrange(&mut self, held: Option<u32>) {
        self.processes.sort(self.sort);
        let is_held = |process: &Process| Some(process.watched.pid) == held;
        let place = self.processes.list.iter().position(is_held).filter(|_| self.cursor > 0);
        let last = self.processes.list.len().saturating_sub(1);
        self.cursor = place.unwrap_or(self.cursor.min(last));
    }

    /// The process of the cursor, which is then watched by itself.
    pub fn take_chosen(&mut self) -> Option<Watched> {
        (self.cursor < self.processes.list.len())
            .then(|| self.processes.list.remove(self.cursor).watched)
    }

    pub fn press(&mut self, key: KeyEvent, page: usize) -> Request {
        if let Some(request) = of_every_view(key) {
            return request;
        }
        let last = self.processes.list.len().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') => return Request::Quit,
            KeyCode::Enter | KeyCode::Right => return Request::Open,
            KeyCode::Up | KeyCode::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.cursor = (self.cursor + 1).min(last),
            KeyCode::PageUp => self.cursor = self.cursor.saturating_sub(page),
            KeyCode::PageDown => self.cursor = (self.cursor + page).min(last),
            KeyCode::Home | KeyCode::Char('g') => self.cursor = 0,
            KeyCode::End | KeyCode::Char('G') => self.cursor = last,
            KeyCode::Char('m') => self.processes.set_mark(),
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Column::Live => Column::Change,
                    Column::Change => Column::Rss,
                    Column::Rss => Column::Live,
                };
                self.arrange(None);
            }
            _ => {}
        }
        Request::Done
    }

    pub fn draw(&mut self, frame: &mut Frame, palette: Palette) -> usize {
        let area = frame.area();
        let (width, height) = (area.width as usize, area.height as usize);
        let page = height.saturating_sub(4).max(1);
        self.first = self.first.min(self.cursor).max((self.cursor + 1).saturating_sub(page));
        let mut lines = vec![palette.text(cut(&self.summary(), Some(width)), Tone::Strong)];
        lines.push(Line::default());
        let head = cut(&self.head(), Some(width));
        let emphasis = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        lines.push(Line::styled(head, emphasis));
        for (place, process) in self.processes.list.iter().enumerate().skip(self.first).take(page) {
            let line = palette.line(line(process));
            let is_chosen = place == self.cursor;
            let reversed = Style::new().add_modifier(Modifier::REVERSED);
            lines.push(if is_chosen { line.style(reversed) } else { line });
        }
        if self.processes.list.is_empty() {
            lines
                .push(Line::from("no profiled process runs. Start one with \"ramson run -- CMD\""));
        }
        lines.resize(height.saturating_sub(1), Line::default());
        let keys = "Enter opens  s sort  m mark  ↑↓ move  q quit";
        lines.push(Line::from(cut(keys, Some(width))));
        frame.render_widget(Paragraph::new(lines), area);
        page
    }

    fn summary(&self) -> String {
        let (rss, total) = self.processes.sums();
        format!(
            "{} profiled processes: RSS {}, live {} ({})",
            self.processes.list.len(),
            format_bytes(rss as f64),
            format_bytes(total.live.value),
            format_relative_error(total.live),
        )
    }

    fn head(&self) -> String {
        let name = |column: Column, name: &str| match self.sort == column {
            true => format!("{name}▼"),
            false => name.to_owned(),
        };
        format!(
            "{:>8} {:>9} {:>9} {:>7} {:>10} {:>7} {:>10}  name",
            "pid",
            name(Column::Rss, "RSS"),
            name(Column::Live, "live"),
            "±",
            name(Column::Change, "Δ"),
            "alloc/s",
            "alloc B/s"
        )
    }
}

/// One row.
fn line(process: &Process) -> Vec<Span> {
    let (change, tone) = table::change_text(process.moments.total.change());
    let span = |text: String, tone: Tone| Span { text, tone };
    let rate =
        |text: String| if process.moments.rate_window_ns() == 0 { "–".into() } else { text };
    let rss = process.rss.map_or("–".into(), |rss| format_bytes(rss as f64));
    vec![
        span(format!("{:>8} {rss:>9} ", process.watched.pid), Tone::Plain),
        span(format!("{:>9} ", format_bytes(process.moments.total.live.value)), Tone::Strong),
        span(format!("{:>7} ", format_relative_error(process.moments.total.live)), Tone::Faint),
        span(format!("{change:>10} "), tone),
        span(
            format!(
                "{:>7} ",
                rate(format_objects_short(process.moments.total.alloc_objects_per_s))
            ),
            Tone::Plain,
        ),
        span(
            format!("{:>10}  ", rate(format_bytes(process.moments.total.alloc_bytes_per_s))),
            Tone::Plain,
        ),
        span(process.watched.recording.name().to_owned(), Tone::Plain),
    ]
}

/// `--once` and `--json` of several processes.
pub fn stream(flags: &TopFlags, wanted: &[Selector]) -> Result<(), Failure> {
    let mut host = Host::find(wanted);
    loop {
        thread::sleep(flags.pause());
        host.processes.read_now();
        host.arrange(None);
        match flags.json {
            true => print_json("processes", &host.processes.answer(flags.most_rows()))?,
            false => print(&host.text(flags))?,
        }
        if flags.once {
            return Ok(());
        }
    }
}

impl Host {
    fn text(&self, flags: &TopFlags) -> String {
        let mut lines = vec![self.summary(), String::new(), self.head()];
        let rows = self.processes.list.iter().take(flags.most_rows());
        let text = |process| line(process).into_iter().map(|span| span.text).collect::<String>();
        lines.extend(rows.map(text));
        let columns = columns();
        lines.iter().map(|line| cut(line.trim_end(), columns) + "\n").collect()
    }
}
