//! Actions of each key and of the mouse.

use super::model::{Clickable, Model};
use super::table::sort_at;
use ramson_analysis::live::row::{Direction, Sort, View};
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

pub const HELP: [(&str, &str); 15] = [
    ("1 2 3 4", "stacks, functions by own allocations, functions with callees, threads"),
    ("Tab", "the next of these views"),
    ("↑ ↓ PgUp PgDn", "move; also k j, Home End g G, the wheel"),
    (
        "Enter → c",
        "open the row, also by a click: frames of a stack, callers of a function; again: close",
    ),
    ("e", "callees below the row (view 3)"),
    ("←", "close the row, or the one above"),
    (
        "l d a o n",
        "sort by live, Δ, alloc/s, age, name, also by a click on the heading; s S: next, previous",
    ),
    ("r", "reverse the order"),
    ("/", "filter: only stacks with a function or file that matches (view 3: rows)"),
    ("Esc", "remove the filter; back to the list of processes"),
    ("m", "mark: Δ is since now"),
    ("Space", "pause, resume"),
    ("Shift", "held: the mouse selects text, as without ramson"),
    ("Ctrl-L Ctrl-Z", "redraw; stop (fg resumes)"),
    ("q Ctrl-C", "quit"),
];
/// Rows that a turn of the wheel moves by.
const WHEEL_ROWS: usize = 3;

/// Request of a key to the view's loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing more: the model has done it.
    Done,
    Quit,
    /// Back to where this view was opened from.
    Back,
    Suspend,
    Redraw,
    /// Open what the cursor is on, in the list of processes.
    Open,
}

/// Keys that mean the same in every view.
pub fn of_every_view(key: KeyEvent) -> Option<Request> {
    if key.kind == KeyEventKind::Release {
        return Some(Request::Done);
    }
    if !key.modifiers.contains(KeyModifiers::CONTROL) {
        return None;
    }
    match key.code {
        KeyCode::Char('c') => Some(Request::Quit),
        KeyCode::Char('z') => Some(Request::Suspend),
        KeyCode::Char('l') => Some(Request::Redraw),
        _ => Some(Request::Done),
    }
}

/// Returns the row to which a key moves a cursor among `rows` rows; `None` for a key that moves none.
pub fn moved(code: KeyCode, cursor: usize, page: usize, rows: usize) -> Option<usize> {
    let to = match code {
        KeyCode::Up | KeyCode::Char('k') => cursor.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => cursor.saturating_add(1),
        KeyCode::PageUp => cursor.saturating_sub(page),
        KeyCode::PageDown => cursor.saturating_add(page),
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => rows,
        _ => return None,
    };
    Some(to.min(rows.saturating_sub(1)))
}

/// Returns the row to which the wheel moves a cursor among `rows` rows.
pub fn wheeled(kind: MouseEventKind, cursor: usize, rows: usize) -> usize {
    let to = match kind {
        MouseEventKind::ScrollUp => cursor.saturating_sub(WHEEL_ROWS),
        _ => cursor.saturating_add(WHEEL_ROWS),
    };
    to.min(rows.saturating_sub(1))
}

/// Returns the element so many places after `now`; the first comes after the last.
fn neighbour<T: Copy + PartialEq>(all: &[T], now: T, places: usize) -> T {
    let place = all.iter().position(|&one| one == now).unwrap_or(0);
    all[(place + places) % all.len()]
}

impl Model {
    pub fn press(&mut self, key: KeyEvent, page: usize) -> Request {
        if let Some(request) = of_every_view(key) {
            return request;
        }
        self.remark = None;
        if self.typed.is_some() {
            self.type_filter(key.code);
            return Request::Done;
        }
        if self.is_help_shown {
            // `draw_help` bounds the first line.
            match moved(key.code, self.help_first, page.max(1), usize::MAX) {
                Some(first) => self.help_first = first,
                None => self.is_help_shown = false,
            }
            return if key.code == KeyCode::Char('q') { Request::Quit } else { Request::Done };
        }
        match key.code {
            KeyCode::Char('q') => return Request::Quit,
            KeyCode::Esc if self.filter.is_none() => return Request::Back,
            KeyCode::Esc => self.set_filter(""),
            KeyCode::Char('?' | 'h') => (self.is_help_shown, self.help_first) = (true, 0),
            KeyCode::Char('/') => self.typed = Some(String::new()),
            KeyCode::Char('m') => self.set_mark(),
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('c') => self.toggle(Direction::Callers),
            KeyCode::Char('e') => self.toggle(Direction::Callees),
            KeyCode::Left => self.close(),
            code => {
                if let Some(to) = moved(code, self.cursor, page, self.rows.len()) {
                    self.move_cursor(to);
                } else if !self.choose_view(code) {
                    self.choose_sort(code);
                }
            }
        }
        Request::Done
    }

    /// Handles the mouse: the wheel moves, a click on the heading sorts, a click on a row opens it.
    pub fn point(&mut self, mouse: MouseEvent) {
        let rows = if self.is_help_shown { usize::MAX } else { self.rows.len() };
        let at = if self.is_help_shown { self.help_first } else { self.cursor };
        match mouse.kind {
            MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                let to = wheeled(mouse.kind, at, rows);
                if self.is_help_shown {
                    self.help_first = to;
                } else {
                    self.move_cursor(to);
                }
            }
            MouseEventKind::Down(MouseButton::Left) if self.is_help_shown => {
                self.is_help_shown = false;
            }
            MouseEventKind::Down(MouseButton::Left) => {
                self.click(mouse.column.into(), mouse.row.into());
            }
            _ => {}
        }
    }

    fn click(&mut self, column: usize, line: usize) {
        let Clickable { width, head, rows, page } = self.clickable;
        if line == head {
            let Some(sort) = sort_at(column, width) else { return };
            self.is_reversed = self.sort == sort && !self.is_reversed;
            self.sort = sort;
            return self.arrange();
        }
        let row = line.checked_sub(rows).filter(|row| *row < page).map(|row| self.first + row);
        if let Some(row) = row.filter(|row| *row < self.rows.len()) {
            self.move_cursor(row);
            self.toggle(Direction::Callers);
        }
    }

    fn choose_view(&mut self, code: KeyCode) -> bool {
        let all = View::ALL;
        self.set_view(match code {
            KeyCode::Char(digit @ '1'..='4') => all[digit as usize - '1' as usize],
            KeyCode::Char('t') => View::Threads,
            KeyCode::Tab => neighbour(&all, self.view, 1),
            KeyCode::BackTab => neighbour(&all, self.view, all.len() - 1),
            _ => return false,
        });
        true
    }

    fn choose_sort(&mut self, code: KeyCode) {
        let all = Sort::ALL;
        self.sort = match code {
            KeyCode::Char('s' | '>') => neighbour(&all, self.sort, 1),
            KeyCode::Char('S' | '<') => neighbour(&all, self.sort, all.len() - 1),
            KeyCode::Char('l') => Sort::Live,
            KeyCode::Char('d') => Sort::Change,
            KeyCode::Char('a') => Sort::Rate,
            KeyCode::Char('o') => Sort::Age,
            KeyCode::Char('n') => Sort::Name,
            KeyCode::Char('r') => {
                self.is_reversed = !self.is_reversed;
                self.sort
            }
            _ => return,
        };
        self.arrange();
    }

    /// Enter takes the filter, Esc leaves it as it was.
    fn type_filter(&mut self, code: KeyCode) {
        let Some(typed) = &mut self.typed else { return };
        match code {
            KeyCode::Char(letter) => typed.push(letter),
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Esc => self.typed = None,
            KeyCode::Enter => {
                let typed = self.typed.take().unwrap_or_default();
                self.set_filter(&typed);
            }
            _ => {}
        }
    }
}
