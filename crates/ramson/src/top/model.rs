//! State of the view of one process: the latest moment, and what the user has chosen. Snapshots and keys go in, rows come out;
//! nothing here touches a process or a terminal.

use ramson_analysis::live::picture::Picture;
use ramson_analysis::live::row::{Direction, Key, Root, Row, Sort, View};
use ramson_analysis::live::rows::{Material, rows};
use ramson_analysis::live::sums::Sums;
use ramson_format::Kind;
use ramson_profile::Pattern;
use std::collections::{HashMap, HashSet};

/// Rows keep their places for this long, so that they can be read and clicked.
const REST_NS: u64 = 3_000_000_000;

/// Places on the screen that can be clicked.
#[derive(Clone, Copy, Default)]
pub struct Clickable {
    pub width: usize,
    /// Line of the heading of the columns.
    pub head: usize,
    /// Line of the first row, and how many there is room for.
    pub rows: usize,
    pub page: usize,
}

pub struct Model {
    pub picture: Picture,
    /// The user's choices: this field and those down to `help_first`.
    pub view: View,
    pub sort: Sort,
    pub is_reversed: bool,
    pub filter: Option<Pattern>,
    /// The filter while it is typed.
    pub typed: Option<String>,
    pub opened: HashSet<Key>,
    pub is_paused: bool,
    pub is_help_shown: bool,
    /// The first line of the help on the screen.
    pub help_first: usize,
    pub clickable: Clickable,
    pub rows: Vec<Row>,
    pub shown: Sums,
    /// Row of the cursor, and the first one on the screen.
    pub cursor: usize,
    pub first: usize,
    /// Places of the rows at the left edge, and since when.
    places: HashMap<Key, usize>,
    placed_ns: u64,
    /// Row that the cursor stays on; `None`: the first row, whatever that is.
    held: Option<Key>,
    /// Answer to the last key, if it could not be obeyed.
    pub remark: Option<&'static str>,
}

impl Model {
    pub fn new(kind: Option<Kind>, view: View, sort: Sort) -> Self {
        Self {
            picture: Picture::new(kind),
            view,
            sort,
            is_reversed: false,
            filter: None,
            typed: None,
            opened: HashSet::new(),
            is_paused: false,
            is_help_shown: false,
            help_first: 0,
            clickable: Clickable::default(),
            rows: Vec::new(),
            shown: Sums::default(),
            cursor: 0,
            first: 0,
            places: HashMap::new(),
            placed_ns: 0,
            held: None,
            remark: None,
        }
    }

    /// The next snapshot, of `now_ns` on the clock of its times.
    #[cfg(test)]
    pub fn update(&mut self, snapshot: &ramson_reader::Snapshot, now_ns: u64) {
        self.picture.update(snapshot, now_ns);
        self.refresh();
    }

    /// Makes rows of the latest moment. They keep their places, unless they have had them for long.
    pub fn refresh(&mut self) {
        if self.picture.moments.now_ns.saturating_sub(self.placed_ns) >= REST_NS {
            self.places.clear();
        }
        self.place_rows();
    }

    pub fn set_mark(&mut self) {
        self.picture.moments.set_mark();
        self.arrange();
    }

    pub fn material(&self) -> Material<'_> {
        self.picture.material(self.view, self.filter.as_ref(), &self.opened)
    }

    /// Makes rows, in order.
    pub fn arrange(&mut self) {
        self.places.clear();
        self.place_rows();
    }

    fn place_rows(&mut self) {
        (self.rows, self.shown) = rows(&self.material(), self.sort, self.is_reversed, &self.places);
        if self.places.is_empty() {
            let roots = self.rows.iter().filter(|row| row.depth == 0);
            let keys = roots.filter_map(|row| row.key.clone());
            self.places = keys.zip(0..).collect();
            self.placed_ns = self.picture.moments.now_ns;
        }
        let is_held = |row: &Row| row.key == self.held;
        let held = self.held.as_ref().and_then(|_| self.rows.iter().position(is_held));
        self.cursor = held.unwrap_or(self.cursor.min(self.rows.len().saturating_sub(1)));
    }

    /// Rows at the left edge: what is below an opened one does not count.
    pub fn row_count(&self) -> usize {
        self.rows.iter().filter(|row| row.depth == 0 && row.key.is_some()).count()
    }

    /// On the first row the cursor stays with the place, elsewhere with what it is on.
    pub fn move_cursor(&mut self, to: usize) {
        self.cursor = to;
        let row = self.rows.get(to).filter(|_| to > 0);
        self.held = row.and_then(|row| row.key.clone());
    }

    fn go_to_top(&mut self) {
        self.held = None;
        self.cursor = 0;
        self.first = 0;
    }

    pub fn toggle(&mut self, direction: Direction) {
        let Some(key) = self.rows.get(self.cursor).and_then(|row| row.key.clone()) else { return };
        // Below a row the way is chosen already.
        let key = if key.path.is_empty() { Key { direction, ..key } } else { key };
        let is_function = matches!(key.root, Root::Function(_));
        if key.direction == Direction::Callees && !(is_function && self.view == View::Cum) {
            self.remark =
                Some("callees are in view 3: here a row is what a function allocates itself");
            return;
        }
        if !self.opened.remove(&key) {
            self.opened.insert(key);
        }
        self.place_rows();
    }

    /// Closes the row of the cursor, or the one that it is below.
    pub fn close(&mut self) {
        let Some(row) = self.rows.get(self.cursor) else { return };
        let depth = row.depth;
        // A row at the left edge may be open in both directions.
        let is_closed = row.key.as_ref().is_some_and(|key| {
            let all = self.opened.len();
            self.opened.retain(|open| {
                if key.path.is_empty() {
                    open.root != key.root || !open.path.is_empty()
                } else {
                    open != key
                }
            });
            self.opened.len() < all
        });
        if !is_closed && depth > 0 {
            let above = self.rows[..self.cursor].iter().rposition(|row| row.depth < depth);
            self.move_cursor(above.unwrap_or(0));
            return self.close();
        }
        self.place_rows();
    }

    pub fn set_view(&mut self, view: View) {
        self.view = view;
        self.opened.clear();
        self.go_to_top();
        self.arrange();
    }

    pub fn set_filter(&mut self, text: &str) {
        match Pattern::new(text) {
            Ok(pattern) => {
                self.filter = Some(pattern).filter(|_| !text.is_empty());
                self.go_to_top();
                self.arrange();
            }
            Err(_) => self.remark = Some("not a regular expression; the filter stays as it was"),
        }
    }

    pub fn stack_of_cursor(&self) -> Option<String> {
        let row = self.rows.get(self.cursor)?;
        let material = self.material();
        Some(material.names_of(&material.largest_stack(row.key.as_ref()?)?))
    }
}
