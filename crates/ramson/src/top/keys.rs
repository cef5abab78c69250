//! What each key does.

use super::model::Model;
use ramson_analysis::live::row::{Direction, Sort, View};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

pub const HELP: [(&str, &str); 14] = [
    ("1 2 3 4", "functions by own allocations, with callees, stacks, threads"),
    ("Tab", "the next of these views"),
    ("↑ ↓ PgUp PgDn", "move; also k j, Home End g G"),
    ("Enter → c", "callers below the row (of a stack: its frames); again: close"),
    ("e", "callees below the row (view 2)"),
    ("←", "close the row, or the one above"),
    ("s S  l d a o n", "next, previous order; live, Δ, alloc/s, age, name"),
    ("r", "reverse the order"),
    ("/", "only stacks with a function or file that matches (view 2: rows)"),
    ("Esc", "no filter; back to the list of processes"),
    ("m", "mark: Δ is since now"),
    ("Space", "pause, and go on"),
    ("Ctrl-L Ctrl-Z", "draw anew; stop (fg goes on)"),
    ("q Ctrl-C", "quit"),
];

/// What a key asks of the view's loop.
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

/// Where a key moves a cursor among so many rows, if it does.
pub fn moved(code: KeyCode, cursor: usize, page: usize, rows: usize) -> Option<usize> {
    let to = match code {
        KeyCode::Up | KeyCode::Char('k') => cursor.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => cursor + 1,
        KeyCode::PageUp => cursor.saturating_sub(page),
        KeyCode::PageDown => cursor + page,
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => rows,
        _ => return None,
    };
    Some(to.min(rows.saturating_sub(1)))
}

/// What comes so many places after `now`, around the end.
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
            self.is_help_shown = false;
            return if key.code == KeyCode::Char('q') { Request::Quit } else { Request::Done };
        }
        match key.code {
            KeyCode::Char('q') => return Request::Quit,
            KeyCode::Esc if self.filter.is_none() => return Request::Back,
            KeyCode::Esc => self.set_filter(""),
            KeyCode::Char('?' | 'h') => self.is_help_shown = true,
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
