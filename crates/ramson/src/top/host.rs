//! All profiled processes of the host: which of them holds the memory, and which grows.

use super::TopOptions;
use super::draw::Palette;
use super::keys::{Request, of_every_view};
use super::object::{now_unix_ns, sums};
use super::pace::Pace;
use super::sums::{Moments, Sums};
use super::table::{self, Span, Tone};
use super::watch::Watched;
use crate::failure::Failure;
use crate::source;
use crate::text;
use ramson_format::Kind;
use ramson_profile::format::{format_bytes, format_objects_short, format_relative_error};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use serde_json::json;
use std::fs;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// New processes are looked for this far apart: every mapping of every process is read for it.
const SEARCH_EVERY: Duration = Duration::from_secs(5);
/// Each process is read this far apart, and for no more than its part of a share of a core.
const READ_EVERY: Duration = Duration::from_secs(1);
const READ_SHARE: f64 = 0.012;

pub struct Host {
    processes: Vec<Process>,
    search: Option<Receiver<Vec<source::Source>>>,
    search_pace: Pace,
    read_pace: Pace,
    cursor: usize,
    first: usize,
    sort: Column,
}

#[derive(Clone, Copy, PartialEq)]
enum Column {
    Live,
    Change,
    Rss,
}

struct Process {
    watched: Watched,
    moments: Moments,
    rss: Option<u64>,
    total: Sums,
}

impl Host {
    /// All that run now.
    pub fn find() -> Self {
        let mut host = Self {
            processes: Vec::new(),
            search: None,
            search_pace: Pace::new(SEARCH_EVERY, 1.0),
            read_pace: Pace::new(READ_EVERY, READ_SHARE),
            cursor: 0,
            first: 0,
            sort: Column::Live,
        };
        host.search_pace
            .run(|| host.processes = source::all().into_iter().filter_map(Process::of).collect());
        host.read();
        host
    }

    pub fn read(&mut self) {
        self.look_for_others();
        if !self.read_pace.is_due() {
            return;
        }
        let held = self.processes.get(self.cursor).map(|process| process.watched.pid);
        let processes = &mut self.processes;
        self.read_pace.run(|| processes.iter_mut().for_each(Process::read));
        processes.retain(|process| process.watched.end.is_none());
        self.arrange(held);
    }

    fn arrange(&mut self, held: Option<u32>) {
        let of = |process: &Process| match self.sort {
            Column::Live => process.total.live.value,
            Column::Change => process.total.change().value,
            Column::Rss => process.rss.unwrap_or(0) as f64,
        };
        self.processes
            .sort_by(|a, b| of(b).total_cmp(&of(a)).then(a.watched.pid.cmp(&b.watched.pid)));
        let place = held
            .filter(|_| self.cursor > 0)
            .and_then(|pid| self.processes.iter().position(|process| process.watched.pid == pid));
        self.cursor = place.unwrap_or(self.cursor.min(self.processes.len().saturating_sub(1)));
    }

    /// In a thread of its own, as it may take long where there are many.
    fn look_for_others(&mut self) {
        if let Some(found) = self.search.as_ref().and_then(|search| search.try_recv().ok()) {
            self.search = None;
            let known: Vec<u32> =
                self.processes.iter().map(|process| process.watched.pid).collect();
            let new = found.into_iter().filter(|source| !known.contains(&source.pid()));
            self.processes.extend(new.filter_map(Process::of));
        }
        if self.search.is_none() && self.search_pace.is_due() {
            let (sender, receiver) = channel();
            thread::spawn(move || sender.send(source::all()));
            self.search = Some(receiver);
            self.search_pace.put_off(Duration::ZERO);
        }
    }

    /// The process of the cursor, which is then watched by itself.
    pub fn take_chosen(&mut self) -> Option<Watched> {
        (self.cursor < self.processes.len()).then(|| self.processes.remove(self.cursor).watched)
    }

    pub fn press(&mut self, key: KeyEvent, page: usize) -> Request {
        if let Some(request) = of_every_view(key) {
            return request;
        }
        let last = self.processes.len().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') => return Request::Quit,
            KeyCode::Enter | KeyCode::Right => return Request::Open,
            KeyCode::Up | KeyCode::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.cursor = (self.cursor + 1).min(last),
            KeyCode::PageUp => self.cursor = self.cursor.saturating_sub(page),
            KeyCode::PageDown => self.cursor = (self.cursor + page).min(last),
            KeyCode::Home | KeyCode::Char('g') => self.cursor = 0,
            KeyCode::End | KeyCode::Char('G') => self.cursor = last,
            KeyCode::Char('m') => self.processes.iter_mut().for_each(Process::set_mark),
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
        let mut lines = vec![palette.text(text::cut(&self.summary(), Some(width)), Tone::Strong)];
        lines.push(Line::default());
        let head = text::cut(&self.head(), Some(width));
        let emphasis = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        lines.push(Line::styled(head, emphasis));
        for (place, process) in self.processes.iter().enumerate().skip(self.first).take(page) {
            let line = palette.line(process.line());
            let is_chosen = place == self.cursor;
            let reversed = Style::new().add_modifier(Modifier::REVERSED);
            lines.push(if is_chosen { line.style(reversed) } else { line });
        }
        if self.processes.is_empty() {
            lines
                .push(Line::from("no profiled process runs. Start one with \"ramson run -- CMD\""));
        }
        lines.resize(height.saturating_sub(1), Line::default());
        let keys = "Enter opens  s sort  m mark  ↑↓ move  q quit";
        lines.push(Line::from(text::cut(keys, Some(width))));
        frame.render_widget(Paragraph::new(lines), area);
        page
    }

    fn summary(&self) -> String {
        let mut total = Sums::default();
        self.processes.iter().for_each(|process| total += process.total);
        let rss: u64 = self.processes.iter().filter_map(|process| process.rss).sum();
        format!(
            "{} profiled processes: RSS {}, live {} ({})",
            self.processes.len(),
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

impl Process {
    /// Of its heap.
    fn of(source: source::Source) -> Option<Self> {
        source.running?;
        let (watched, moments) = (Watched::of(source), Moments::new(Some(Kind::Heap)));
        Some(Self { watched, moments, rss: None, total: Sums::default() })
    }

    fn read(&mut self) {
        self.watched.read_without_split();
        self.moments.update(self.watched.snapshot(), self.watched.now_ns());
        self.rss = resident_bytes(self.watched.pid).or(self.rss);
        self.add_up();
    }

    fn add_up(&mut self) {
        self.total = Sums::default();
        self.moments.stacks.iter().for_each(|stack| self.total += *stack);
    }

    fn set_mark(&mut self) {
        self.moments.set_mark();
        self.add_up();
    }

    fn line(&self) -> Vec<Span> {
        let (change, tone) = table::change_text(self.total.change());
        let span = |text: String, tone: Tone| Span { text, tone };
        let rate =
            |text: String| if self.moments.rate_window_ns() == 0 { "–".into() } else { text };
        let rss = self.rss.map_or("–".into(), |rss| format_bytes(rss as f64));
        vec![
            span(format!("{:>8} {rss:>9} ", self.watched.pid), Tone::Plain),
            span(format!("{:>9} ", format_bytes(self.total.live.value)), Tone::Strong),
            span(format!("{:>7} ", format_relative_error(self.total.live)), Tone::Faint),
            span(format!("{change:>10} "), tone),
            span(
                format!("{:>7} ", rate(format_objects_short(self.total.alloc_objects_per_s))),
                Tone::Plain,
            ),
            span(
                format!("{:>10}  ", rate(format_bytes(self.total.alloc_bytes_per_s))),
                Tone::Plain,
            ),
            span(self.watched.source.name().to_owned(), Tone::Plain),
        ]
    }
}

/// Field 2 of /proc/PID/statm, in pages: cheap, where the split of RSS is not.
fn resident_bytes(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// `--once` and `--json` without SRC.
pub fn stream(options: &TopOptions) -> Result<(), Failure> {
    let mut host = Host::find();
    loop {
        thread::sleep(options.pause());
        host.look_for_others();
        host.processes.iter_mut().for_each(Process::read);
        host.processes.retain(|process| process.watched.end.is_none());
        host.arrange(None);
        let out = match options.json {
            true => host.object(options),
            false => host.printed(options),
        };
        text::print(&out)?;
        if options.once {
            return Ok(());
        }
    }
}

impl Host {
    fn printed(&self, options: &TopOptions) -> String {
        let mut lines = vec![self.summary(), String::new(), self.head()];
        let rows = self.processes.iter().take(options.most_rows());
        lines.extend(
            rows.map(|process| {
                process.line().into_iter().map(|span| span.text).collect::<String>()
            }),
        );
        let columns = text::columns();
        lines.iter().map(|line| text::cut(line.trim_end(), columns) + "\n").collect()
    }

    fn object(&self, options: &TopOptions) -> String {
        let processes = self.processes.iter().take(options.most_rows()).map(|process| {
            let mut object = sums(&process.total);
            object["pid"] = json!(process.watched.pid);
            object["name"] = json!(process.watched.source.name());
            object["rss"] = json!(process.rss);
            object["since_mark_ns"] = json!(process.moments.since_mark_ns());
            object
        });
        let processes: Vec<_> = processes.collect();
        let (kind, time_unix_ns) = ("processes", now_unix_ns());
        let object = json!({ "ramson": 1, "kind": kind, "time_unix_ns": time_unix_ns, "processes": processes });
        format!("{object}\n")
    }
}
