//! What the view shows of one process: the latest moment, and what the user has chosen. Snapshots and keys go in, rows come out;
//! nothing here touches a process or a terminal.

use super::row::{Key, Root, Row, Sort, View, Way};
use super::rows::{Material, rows};
use super::shape::Shape;
use super::sums::{Moments, Sums};
use ramson_format::Kind;
use ramson_profile::Pattern;
use ramson_reader::Snapshot;
use std::collections::{HashMap, HashSet, VecDeque};

/// One point of the sparkline per second, at most these.
const MOST_POINTS: usize = 600;
const POINT_STEP_NS: u64 = 1_000_000_000;

pub struct Model {
    pub moments: Moments,
    pub shape: Shape,
    pub choice: Choice,
    /// Times and live bytes, one a second, the latest last.
    pub history: VecDeque<(u64, f64)>,
    pub rows: Vec<Row>,
    /// What the rows show, and all there is.
    pub shown: Sums,
    pub total: Sums,
    pub thread_names: HashMap<u32, String>,
    /// Row of the cursor, and the first one on the screen.
    pub cursor: usize,
    pub first: usize,
    /// What the cursor stays on; `None`: on the first row, whatever that is.
    held: Option<Key>,
    /// Answer to the last key, if it could not be obeyed.
    pub remark: Option<&'static str>,
}

/// What the user has chosen.
pub struct Choice {
    pub view: View,
    pub sort: Sort,
    pub is_reversed: bool,
    pub filter: Option<Pattern>,
    /// The filter while it is typed.
    pub typed: Option<String>,
    pub opened: HashSet<Key>,
    pub is_paused: bool,
    pub is_help_shown: bool,
}

impl Choice {
    pub fn new(view: View, sort: Sort) -> Self {
        Self {
            view,
            sort,
            is_reversed: false,
            filter: None,
            typed: None,
            opened: HashSet::new(),
            is_paused: false,
            is_help_shown: false,
        }
    }
}

impl Model {
    pub fn new(kind: Option<Kind>, choice: Choice) -> Self {
        Self {
            moments: Moments::new(kind),
            shape: Shape::default(),
            choice,
            history: VecDeque::new(),
            rows: Vec::new(),
            shown: Sums::default(),
            total: Sums::default(),
            thread_names: HashMap::new(),
            cursor: 0,
            first: 0,
            held: None,
            remark: None,
        }
    }

    /// The next snapshot, of `now_ns` on the clock of its times.
    pub fn update(&mut self, snapshot: &Snapshot, now_ns: u64) {
        self.moments.update(snapshot, now_ns);
        self.total = Sums::default();
        for sums in &self.moments.stacks {
            self.total += *sums;
        }
        if self.history.back().is_none_or(|&(last_ns, _)| now_ns >= last_ns + POINT_STEP_NS) {
            self.history.push_back((now_ns, self.total.live.value));
            if self.history.len() > MOST_POINTS {
                self.history.pop_front();
            }
        }
        self.arrange();
    }

    /// Names for the stacks, also for some that had them.
    pub fn set_shape(&mut self, shape: Shape) {
        self.shape = shape;
        self.arrange();
    }

    pub fn set_mark(&mut self) {
        self.moments.set_mark();
        self.total = Sums::default();
        for sums in &self.moments.stacks {
            self.total += *sums;
        }
        self.arrange();
    }

    pub fn material(&self) -> Material<'_> {
        Material {
            shape: &self.shape,
            moments: &self.moments,
            view: self.choice.view,
            filter: self.choice.filter.as_ref(),
            opened: &self.choice.opened,
            thread_names: &self.thread_names,
        }
    }

    /// Makes the rows anew, with the cursor on the row that it was on.
    pub fn arrange(&mut self) {
        let (rows, shown) = rows(&self.material(), self.choice.sort, self.choice.is_reversed);
        (self.rows, self.shown) = (rows, shown);
        let held = self
            .held
            .as_ref()
            .and_then(|held| self.rows.iter().position(|row| row.key.as_ref() == Some(held)));
        self.cursor = held.unwrap_or(self.cursor.min(self.rows.len().saturating_sub(1)));
    }

    /// Moves the cursor by rows. On the first one it stays with the place, elsewhere with what it is on.
    pub fn move_cursor(&mut self, by: isize) {
        let last = self.rows.len().saturating_sub(1);
        self.cursor = self.cursor.saturating_add_signed(by).min(last);
        self.held = match self.cursor {
            0 => None,
            cursor => self.rows.get(cursor).and_then(|row| row.key.clone()),
        };
    }

    fn go_to_top(&mut self) {
        (self.held, self.cursor, self.first) = (None, 0, 0);
    }

    /// Lets the cursor be on one of `count` rows that are on the screen.
    pub fn scroll(&mut self, count: usize) {
        let count = count.max(1);
        self.first = self.first.min(self.cursor).max((self.cursor + 1).saturating_sub(count));
        self.first = self.first.min(self.rows.len().saturating_sub(count));
    }

    /// Opens or closes what is below the cursor.
    pub fn toggle(&mut self, way: Way) {
        let Some(key) = self.rows.get(self.cursor).and_then(|row| row.key.clone()) else { return };
        // Below a row the way is chosen already.
        let key = if key.path.is_empty() { Key { way, ..key } } else { key };
        let is_function = matches!(key.root, Root::Function(_));
        if key.way == Way::Callees && !(is_function && self.choice.view == View::Cum) {
            self.remark =
                Some("callees are in view 2: here a row is what a function allocates itself");
            return;
        }
        if !self.choice.opened.remove(&key) {
            self.choice.opened.insert(key);
        }
        self.arrange();
    }

    /// Closes the row of the cursor, or the one that it is below.
    pub fn close(&mut self) {
        let Some(row) = self.rows.get(self.cursor) else { return };
        let (depth, opened) = (row.depth, &mut self.choice.opened);
        let is_closed = row.key.as_ref().is_some_and(|key| {
            [Way::Callers, Way::Callees].iter().fold(false, |any, &way| {
                let is_root = key.path.is_empty();
                let key = if is_root { Key { way, ..key.clone() } } else { key.clone() };
                opened.remove(&key) || any
            })
        });
        if !is_closed && depth > 0 {
            let above = self.rows[..self.cursor].iter().rposition(|row| row.depth < depth);
            self.move_cursor(above.unwrap_or(0) as isize - self.cursor as isize);
            return self.close();
        }
        self.arrange();
    }

    pub fn set_view(&mut self, view: View) {
        self.choice.view = view;
        self.choice.opened.clear();
        self.go_to_top();
        self.arrange();
    }

    /// Takes what was typed for the filter; nothing: no filter.
    pub fn set_filter(&mut self, text: &str) {
        match Pattern::new(text) {
            Ok(pattern) => {
                self.choice.filter = Some(pattern).filter(|_| !text.is_empty());
                self.go_to_top();
                self.arrange();
            }
            Err(_) => self.remark = Some("not a regular expression; the filter stays as it was"),
        }
    }

    /// The stack behind the row of the cursor: the largest one.
    pub fn stack_of_cursor(&self) -> Option<String> {
        let row = self.rows.get(self.cursor)?;
        let material = self.material();
        Some(material.names_of(&material.largest_stack(row.key.as_ref()?)?))
    }
}
