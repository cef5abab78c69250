//! All profiled processes of the host: which of them holds the memory, and which grows.

use super::draw::{marked, put, scrolled};
use super::keys::{Request, moved, of_every_view, wheeled};
use super::table::{Column, FAINT, PLAIN, STRONG, change_text, column_at, head, numbers};
use crate::flags::TopFlags;
use crate::output::{print, print_json};
use crate::table::{columns, cut, cut_all, or_dash, size};
use ramson_analysis::live::processes::{Column as Order, Process, Processes};
use ramson_analysis::live::watch::Watched;
use ramson_profile::format::{
    format_amount, format_bytes, format_error, format_estimate, format_objects_short,
};
use ramson_profile::{SampleUnit, printable};
use ramson_source::{Failure, Selector};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use ratatui::text::Line;
use std::thread;

const COLUMNS: [Column<Order>; 7] = [
    ("pid", None, 8, 0),
    ("RSS", Some(Order::Rss), 9, 0),
    ("live", Some(Order::Live), 9, 0),
    ("±", None, 8, 0),
    ("Δ", Some(Order::Change), 10, 0),
    ("alloc/s", None, 7, 90),
    ("alloc B/s", None, 10, 110),
];

pub struct Host {
    processes: Processes,
    cursor: usize,
    first: usize,
    sort: Order,
    page: usize,
    width: usize,
}

const NOTHING: &str = "no profiled process is running. Start one: ramson run -- CMD";
/// Lines above the rows; the last is the heading of the columns.
const LINES_ABOVE: usize = 3;

impl Host {
    /// Those that are named and run now; nothing named: all.
    pub fn find(wanted: &[Selector]) -> Self {
        let processes = Processes::find(wanted);
        let mut host =
            Self { processes, cursor: 0, first: 0, sort: Order::Live, page: 0, width: 0 };
        host.read();
        host
    }

    pub fn read(&mut self) {
        let held = self.processes.list.get(self.cursor).map(|process| process.watched.followed.pid);
        if self.processes.read() {
            self.arrange(held);
        }
    }

    fn arrange(&mut self, held: Option<u32>) {
        self.processes.sort(self.sort);
        let is_held = |process: &Process| Some(process.watched.followed.pid) == held;
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
        match key.code {
            KeyCode::Char('q') => return Request::Quit,
            KeyCode::Enter | KeyCode::Right => return Request::Open,
            KeyCode::Char('m') => self.processes.set_mark(),
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Order::Live => Order::Change,
                    Order::Change => Order::Rss,
                    Order::Rss => Order::Live,
                };
                self.arrange(None);
            }
            code => {
                let to = moved(code, self.cursor, page, self.processes.list.len());
                self.cursor = to.unwrap_or(self.cursor);
            }
        }
        Request::Done
    }

    /// The wheel moves, a click on a heading sorts, a click on a process opens it.
    pub fn point(&mut self, mouse: MouseEvent) -> Request {
        let count = self.processes.list.len();
        match mouse.kind {
            MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                self.cursor = wheeled(mouse.kind, self.cursor, count);
            }
            MouseEventKind::Down(MouseButton::Left) => {
                let line = usize::from(mouse.row);
                if line + 1 == LINES_ABOVE {
                    let sort = column_at(&COLUMNS, mouse.column.into(), self.width).flatten();
                    self.sort = sort.unwrap_or(self.sort);
                    self.arrange(None);
                }
                let row = line.checked_sub(LINES_ABOVE).filter(|row| *row < self.page);
                if let Some(row) = row.map(|row| self.first + row).filter(|row| *row < count) {
                    self.cursor = row;
                    return Request::Open;
                }
            }
            _ => {}
        }
        Request::Done
    }

    pub fn draw(&mut self, frame: &mut Frame) -> usize {
        let (width, height) = (frame.area().width as usize, frame.area().height as usize);
        let page = height.saturating_sub(LINES_ABOVE + 1).max(1);
        self.page = page;
        self.width = width;
        self.first = scrolled(self.first, self.cursor, page, self.processes.list.len());
        let line = |text: &str| cut(text, Some(width));
        let summary = Line::styled(line(&self.summary()), STRONG);
        let shown = self.processes.list.iter().enumerate().skip(self.first).take(page);
        let rows = shown.map(|(place, process)| marked(row(process, width), place == self.cursor));
        let nothing = self.processes.list.is_empty().then(|| Line::from(NOTHING));
        let keys = line("Enter opens  s sort  m mark  ↑↓ move  q quit");
        let below = vec![Line::from(keys)];
        put(frame, vec![summary, Line::default()], self.head(width), rows.chain(nothing), below);
        page
    }

    fn summary(&self) -> String {
        let (rss, total) = self.processes.sums();
        let unreadable = match self.processes.unreadable().len() {
            0 => String::new(),
            count => format!(", {count} more cannot be read: ramson list"),
        };
        let count = self.processes.list.len();
        let processes = if count == 1 { "process" } else { "processes" };
        format!(
            "{count} profiled {processes}: RSS {}, live {}{unreadable}",
            size(rss),
            format_estimate(total.live, SampleUnit::Bytes),
        )
    }

    fn head(&self, width: usize) -> String {
        head(&COLUMNS, width, self.sort, '▼') + " name"
    }

    fn text(&self, most_rows: usize) -> String {
        let width = columns().unwrap_or(usize::MAX);
        let shown = self.processes.list.iter().take(most_rows);
        let rows = shown.map(|process| row(process, width).to_string());
        cut_all([self.summary(), String::new(), self.head(width)].into_iter().chain(rows))
    }
}

fn row(process: &Process, width: usize) -> Line<'static> {
    let total = &process.moments.total;
    let is_known = process.moments.rate_window_ns() != 0;
    let cells = [
        (process.watched.followed.pid.to_string(), PLAIN),
        (or_dash(process.watched.rss_bytes.map(size)), PLAIN),
        (format_amount(total.live, SampleUnit::Bytes), STRONG),
        (format_error(total.live, SampleUnit::Bytes), FAINT),
        change_text(total.change()),
        (or_dash(is_known.then(|| format_objects_short(total.alloc_objects_per_s))), PLAIN),
        (or_dash(is_known.then(|| format_bytes(total.alloc_bytes_per_s))), PLAIN),
    ];
    let mut line = Line::from(numbers(&COLUMNS, width, cells));
    line.push_span(format!(" {}", printable(process.watched.followed.recording.name())));
    line
}

pub fn stream(flags: &TopFlags, wanted: &[Selector]) -> Result<(), Failure> {
    let mut host = Host::find(wanted);
    loop {
        thread::sleep(flags.pause());
        host.processes.read_now();
        host.arrange(None);
        let is_empty = host.processes.list.is_empty() && host.processes.unreadable().is_empty();
        if is_empty && !flags.json {
            return Err(Failure::not_found(NOTHING));
        }
        if flags.json {
            print_json("processes", &host.processes.answer(flags.most_rows()))?;
        } else {
            print(&host.text(flags.most_rows()))?;
        }
        if flags.once {
            return Ok(());
        }
    }
}
