//! From sums of stacks to rows: functions by what they allocate themselves or with what they call, stacks, threads; and below a
//! row that was opened its callers, its callees or its frames.

use super::row::{Direction, Key, Root, Row, Sort, View};
use super::shape::Shape;
use super::sums::{Moments, Sums};
use ramson_profile::{FrameName, Pattern, fold_addresses};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// Callers or callees shown below a row; the rest is one row.
const MOST_CHILDREN: usize = 12;

/// The material that rows are made from.
pub struct Material<'a> {
    /// Names of the stacks.
    pub shape: &'a Shape,
    /// Sums of the stacks.
    pub moments: &'a Moments,
    /// Kind of the rows.
    pub view: View,
    /// Only stacks with a frame that matches.
    pub filter: Option<&'a Pattern>,
    /// Rows below which there are more.
    pub opened: &'a HashSet<Key>,
    /// As far as they are known.
    pub thread_names: &'a HashMap<u32, String>,
}

/// All rows in order, and what they add up to (of a view with callees: what the stacks add up to). Rows with a place in `places`
/// keep their order; the others come behind them.
pub fn rows(
    material: &Material,
    sort: Sort,
    is_reversed: bool,
    places: &HashMap<Key, usize>,
) -> (Vec<Row>, Sums) {
    let shown = material.shown_stacks();
    let stacks = material.moments.stacks.iter().zip(&shown);
    let mut total: Sums = stacks.filter(|(_, shown)| **shown).map(|(sums, _)| *sums).sum();
    let mut roots = match material.view {
        View::Own | View::Cum => material.functions(&shown),
        View::Stacks => material.stacks(&shown),
        View::Threads => material.threads(&shown),
    };
    order(&mut roots, sort, is_reversed);
    let place = |row: &Row| row.key.as_ref().and_then(|key| places.get(key).copied());
    roots.sort_by_key(|row| place(row).unwrap_or(usize::MAX));
    let mut rows = Vec::with_capacity(roots.len());
    for root in roots {
        let key = root.key.clone();
        rows.push(root);
        for direction in [Direction::Callers, Direction::Callees] {
            let Some(key) = key.clone().map(|key| Key { direction, ..key }) else { continue };
            material.open(&key, &shown, sort, &mut rows);
        }
    }
    if let Some(unnamed) = material.unnamed() {
        total += unnamed;
        let name = "(stacks without names yet)".into();
        rows.push(Row { name, sums: Some(unnamed), ..Row::default() });
    }
    (rows, total)
}

fn order(rows: &mut [Row], sort: Sort, is_reversed: bool) {
    rows.sort_by(|a, b| {
        let (Some(x), Some(y)) = (&a.sums, &b.sums) else { return Ordering::Equal };
        let by = |of: fn(&Sums) -> f64| of(y).total_cmp(&of(x));
        let live = by(|sums| sums.live.value);
        let order = match sort {
            Sort::Live => live,
            Sort::Change => by(|sums| sums.change().value),
            // Unknown rates come last.
            Sort::Rate => by(|sums| sums.alloc_objects_per_s.max(-1.0)),
            Sort::Age => y.mean_age_ns().cmp(&x.mean_age_ns()),
            Sort::Name => a.name.cmp(&b.name),
        };
        let order = if is_reversed { order.reverse() } else { order };
        order.then(live).then_with(|| (&a.name, &a.file, a.line).cmp(&(&b.name, &b.file, b.line)))
    });
}

impl Material<'_> {
    /// Which frames the filter means.
    fn matching_frames(&self) -> Option<Vec<bool>> {
        let filter = self.filter?;
        let is_meant =
            |name: &FrameName| filter.is_match(&name.name) || filter.is_match(&name.file);
        Some(self.shape.names.iter().map(is_meant).collect())
    }

    /// By number: those with frames, and with one that the filter means.
    pub fn shown_stacks(&self) -> Vec<bool> {
        let matching = self.matching_frames();
        let is_shown = |number: usize| {
            let stack = self.shape.stack(number);
            !stack.is_empty()
                && matching.as_ref().is_none_or(|matching| {
                    stack.iter().any(|&place| matching[self.shape.frame(place)])
                })
        };
        (0..self.moments.stacks.len()).map(is_shown).collect()
    }

    /// Sums the stacks whose names were not looked up yet.
    fn unnamed(&self) -> Option<Sums> {
        let new = self.moments.stacks.get(self.shape.stacks.len()..)?;
        let sums: Sums = new.iter().copied().sum();
        let is_asked = self.filter.is_none() && self.view != View::Threads;
        (is_asked && !new.is_empty() && !sums.is_nothing()).then_some(sums)
    }

    /// The stacks that count, each with its sums.
    fn counted<'a>(&'a self, shown: &'a [bool]) -> impl Iterator<Item = (usize, &'a Sums)> {
        let stacks = self.moments.stacks.iter().enumerate();
        stacks.filter(|&(number, sums)| shown[number] && !sums.is_nothing())
    }

    fn functions(&self, shown: &[bool]) -> Vec<Row> {
        let mut groups = vec![Sums::default(); self.shape.names.len()];
        let mut at_places = vec![0.0; self.shape.places.len()];
        // Number + 1 of the stack that was counted last: a function counts once per stack, and so does each of its lines.
        let mut counted = vec![0; groups.len()];
        let mut counted_at = vec![0; at_places.len()];
        for (number, sums) in self.counted(shown) {
            let stack = self.shape.stack(number);
            let frames = if self.view == View::Own { &stack[..1] } else { stack };
            for &place in frames {
                let frame = self.shape.frame(place);
                if counted[frame] != number + 1 {
                    counted[frame] = number + 1;
                    groups[frame] += *sums;
                }
                if counted_at[place] != number + 1 {
                    counted_at[place] = number + 1;
                    at_places[place] += sums.live.value;
                }
            }
        }
        // The line of each function with the most live bytes.
        let mut lines = vec![(f64::NEG_INFINITY, 0); groups.len()];
        for (place, live) in at_places.into_iter().enumerate().filter(|it| counted_at[it.0] > 0) {
            let most = &mut lines[self.shape.frame(place)];
            if live > most.0 {
                *most = (live, self.shape.places[place].line);
            }
        }
        let matching = self.matching_frames().filter(|_| self.view == View::Cum);
        let is_shown = |frame: usize| matching.as_ref().is_none_or(|matching| matching[frame]);
        let found = (0..groups.len()).filter(|&frame| counted[frame] > 0 && is_shown(frame));
        let row = |frame: usize| {
            let key = Key::root(Root::Function(self.shape.names[frame].clone()));
            Row { key: Some(key), ..self.row(frame, lines[frame].1, groups[frame]) }
        };
        found.map(row).collect()
    }

    /// Creates the row of a function; `line` is its line with the most live bytes.
    fn row(&self, frame: usize, line: u32, sums: Sums) -> Row {
        let name = self.shape.names[frame].clone();
        let line = if name.line == 0 { line } else { name.line };
        Row { name: name.name, file: name.file, line, sums: Some(sums), ..Row::default() }
    }

    fn stacks(&self, shown: &[bool]) -> Vec<Row> {
        let mut groups: HashMap<&[usize], (usize, Sums)> = HashMap::new();
        for (number, sums) in self.counted(shown) {
            groups.entry(self.shape.stack(number)).or_insert((number, Sums::default())).1 += *sums;
        }
        let mut alike: HashMap<(String, usize), Vec<&[usize]>> = HashMap::new();
        for &stack in groups.keys() {
            alike.entry((self.names_of(stack), stack[0])).or_default().push(stack);
        }
        let row = |(stack, (number, sums)): (&[usize], (usize, Sums))| {
            let leaf = self.shape.places[stack[0]];
            let key = Some(Key::root(Root::Stack(number)));
            let names = self.names_of(stack);
            let name = self.names_among(stack, &alike[&(names, stack[0])]).into();
            Row { key, name, ..self.row(leaf.frame, leaf.line, sums) }
        };
        groups.into_iter().map(row).collect()
    }

    /// `leaf ← caller ← …`, in short names.
    pub fn names_of(&self, stack: &[usize]) -> String {
        self.names_among(stack, &[])
    }

    /// The same, with the lines that tell it from stacks with the same names: `leaf ← caller:12 ← …`.
    fn names_among(&self, stack: &[usize], alike: &[&[usize]]) -> String {
        const MOST_FRAMES: usize = 24;
        let frames = stack.iter().take(MOST_FRAMES).enumerate().map(|(depth, &place)| {
            let name = ramson_profile::short_name(&self.shape.names[self.shape.frame(place)].name);
            let is_other = |other: &&[usize]| other.get(depth) != Some(&place);
            let line = self.shape.places[place].line;
            if line > 0 && alike.iter().any(is_other) {
                format!("{name}:{line}")
            } else {
                name.to_string()
            }
        });
        fold_addresses(frames).join(" ← ")
    }

    fn threads(&self, shown: &[bool]) -> Vec<Row> {
        let mut groups: HashMap<u32, Sums> = HashMap::new();
        for piece in self.moments.pieces().filter(|piece| shown[piece.stack]) {
            *groups.entry(piece.tid).or_default() += piece.sums;
        }
        let row = |(tid, sums): (u32, Sums)| {
            let name = match self.thread_names.get(&tid) {
                Some(name) => format!("{name}/{tid}"),
                None => tid.to_string(),
            };
            let key = Some(Key::root(Root::Thread(tid)));
            Row { key, name: name.into(), sums: Some(sums), ..Row::default() }
        };
        groups.into_iter().map(row).collect()
    }

    /// Appends what is below an opened row.
    fn open(&self, key: &Key, shown: &[bool], sort: Sort, rows: &mut Vec<Row>) {
        if !self.opened.contains(key) {
            return;
        }
        if let Root::Stack(number) = key.root {
            rows.extend(self.frames(number));
            return;
        }
        let mut children = self.children(key, shown);
        order(&mut children, sort, false);
        let rest = children.split_off(children.len().min(MOST_CHILDREN));
        for child in children {
            let below = child.key.clone();
            rows.push(child);
            below.iter().for_each(|key| self.open(key, shown, sort, rows));
        }
        if !rest.is_empty() {
            let name = format!("({} more)", rest.len()).into();
            let sums = Some(rest.iter().filter_map(|row| row.sums).sum());
            let depth = key.path.len() + 1;
            rows.push(Row { depth, direction: key.direction, name, sums, ..Row::default() });
        }
    }

    /// The frames of a stack, each on a row.
    fn frames(&self, number: usize) -> impl Iterator<Item = Row> {
        self.shape.stack(number).iter().map(|&place| {
            let place = self.shape.places[place];
            Row { depth: 1, sums: None, ..self.row(place.frame, place.line, Sums::default()) }
        })
    }

    /// Callers or callees of the row that `key` names.
    fn children(&self, key: &Key, shown: &[bool]) -> Vec<Row> {
        // Sums of each function, and its live bytes by place.
        let mut groups: HashMap<usize, (Sums, HashMap<usize, f64>)> = HashMap::new();
        for (stack, sums) in self.of_root(key, shown) {
            let below = self.below(key, stack);
            let Some(&place) = below.as_ref().and_then(|below| below.first()) else { continue };
            let (group, places) = groups.entry(self.shape.frame(place)).or_default();
            *group += *sums;
            *places.entry(place).or_default() += sums.live.value;
        }
        let row = |(frame, (sums, places)): (usize, (Sums, HashMap<usize, f64>))| {
            let more = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0));
            let most = places.into_iter().max_by(more);
            let line = most.map_or(0, |(place, _)| self.shape.places[place].line);
            let path = key.path.iter().chain([&self.shape.names[frame]]).cloned().collect();
            let below = Some(Key { path, ..key.clone() });
            let depth = key.path.len() + 1;
            Row { key: below, depth, direction: key.direction, ..self.row(frame, line, sums) }
        };
        groups.into_iter().map(row).collect()
    }

    /// Every stack that may belong to the root of `key`; of a thread its part of the stack.
    fn of_root<'a>(&'a self, key: &Key, shown: &'a [bool]) -> Vec<(&'a [usize], &'a Sums)> {
        if let Root::Thread(tid) = key.root {
            let its = self.moments.pieces().filter(|piece| piece.tid == tid && shown[piece.stack]);
            return its.map(|piece| (self.shape.stack(piece.stack), &piece.sums)).collect();
        }
        self.counted(shown).map(|(number, sums)| (self.shape.stack(number), sums)).collect()
    }

    /// How a stack goes on after the row that `key` names; `None` if it is not of that row.
    fn below(&self, key: &Key, stack: &[usize]) -> Option<Vec<usize>> {
        let is =
            |place: usize, name: &FrameName| self.shape.names[self.shape.frame(place)] == *name;
        // A function that calls itself: what is above its outermost frame called it, what is below its innermost one it calls.
        let rest: Vec<usize> = match (&key.root, key.direction) {
            (Root::Stack(_), _) => return None,
            (Root::Thread(_), _) => stack.to_vec(),
            (Root::Function(name), Direction::Callers) if self.view == View::Own => {
                let (&leaf, callers) = stack.split_first()?;
                is(leaf, name).then(|| callers.to_vec())?
            }
            (Root::Function(name), Direction::Callers) => {
                stack[stack.iter().rposition(|&place| is(place, name))? + 1..].to_vec()
            }
            (Root::Function(name), Direction::Callees) => {
                let own = stack.iter().position(|&place| is(place, name))?;
                stack[..own].iter().rev().copied().collect()
            }
        };
        let (path, below) = rest.split_at_checked(key.path.len())?;
        let is_on_path = path.iter().zip(&key.path).all(|(&place, name)| is(place, name));
        is_on_path.then(|| below.to_vec())
    }

    /// The stack that holds most of what a row is of, leaf first.
    pub fn largest_stack(&self, key: &Key) -> Option<Vec<usize>> {
        if let Root::Stack(number) = key.root {
            return Some(self.shape.stack(number).to_vec());
        }
        let shown = self.shown_stacks();
        let all = self.of_root(key, &shown).into_iter().rev();
        let its = all.filter(|(stack, _)| self.below(key, stack).is_some());
        let largest = its.max_by(|(_, a), (_, b)| a.live.value.total_cmp(&b.live.value));
        largest.map(|(stack, _)| stack.to_vec())
    }
}
