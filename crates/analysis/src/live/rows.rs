//! From sums of stacks to rows: functions by what they allocate themselves or with what they call, stacks, threads; and below a
//! row that was opened its callers, its callees or its frames.

use super::row::{Direction, Key, Root, Row, Sort, View};
use super::shape::Shape;
use super::sums::{Moments, Sums};
use ramson_profile::{FrameName, Pattern};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// Callers or callees shown below a row; the rest is one row.
const MOST_CHILDREN: usize = 12;

/// What the rows are made from.
pub struct Material<'a> {
    /// Names of the stacks.
    pub shape: &'a Shape,
    /// What they hold.
    pub moments: &'a Moments,
    /// What a row is of.
    pub view: View,
    /// Only stacks with a frame that matches.
    pub filter: Option<&'a Pattern>,
    /// Rows below which there are more.
    pub opened: &'a HashSet<Key>,
    /// As far as they are known.
    pub thread_names: &'a HashMap<u32, String>,
}

/// What stacks add up to, and where most of it is.
#[derive(Clone, Copy, Default)]
struct Group {
    sums: Sums,
    /// Index into `Shape::places`, and its live bytes.
    place: Option<(usize, f64)>,
}

impl Group {
    fn add(&mut self, sums: &Sums) {
        self.sums += *sums;
    }
}

/// All rows in order, and what they add up to (of a view with callees: what the stacks add up to).
pub fn rows(material: &Material, sort: Sort, is_reversed: bool) -> (Vec<Row>, Sums) {
    let shown = material.shown_stacks();
    let mut total = Sums::default();
    for (sums, _) in material.moments.stacks.iter().zip(&shown).filter(|(_, shown)| **shown) {
        total += *sums;
    }
    let mut roots = match material.view {
        View::Own | View::Cum => material.functions(&shown),
        View::Stacks => material.stacks(&shown),
        View::Threads => material.threads(&shown),
    };
    order(&mut roots, sort, is_reversed);
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
        let (name, file) = ("(stacks without names yet)".into(), "".into());
        let sums = Some(unnamed);
        rows.push(Row {
            key: None,
            depth: 0,
            direction: Direction::Callers,
            name,
            file,
            line: 0,
            sums,
        });
    }
    (rows, total)
}

fn order(rows: &mut [Row], sort: Sort, is_reversed: bool) {
    let compare = |a: &Row, b: &Row| {
        let (Some(x), Some(y)) = (&a.sums, &b.sums) else { return Ordering::Equal };
        let by = |of: fn(&Sums) -> f64| of(y).total_cmp(&of(x));
        let live = by(|sums| sums.live.value);
        let order =
            match sort {
                Sort::Live => live,
                Sort::Change => by(|sums| sums.change().value),
                Sort::Rate => by(|sums| {
                    if sums.alloc_objects_per_s.is_nan() { -1.0 } else { sums.alloc_objects_per_s }
                }),
                Sort::Age => y.mean_age_ns().cmp(&x.mean_age_ns()),
                Sort::Name => a.name.cmp(&b.name),
            };
        let order = if is_reversed { order.reverse() } else { order };
        order.then(live).then_with(|| (&a.name, &a.file, a.line).cmp(&(&b.name, &b.file, b.line)))
    };
    rows.sort_by(compare);
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

    /// What is live where names were not looked up yet.
    fn unnamed(&self) -> Option<Sums> {
        let new = self.moments.stacks.get(self.shape.stacks.len()..)?;
        let mut sums = Sums::default();
        new.iter().for_each(|stack| sums += *stack);
        let is_asked = self.filter.is_none() && self.view != View::Threads;
        (is_asked && !new.is_empty() && !sums.is_nothing()).then_some(sums)
    }

    /// The stacks that count, each with its sums.
    fn counted<'a>(&'a self, shown: &'a [bool]) -> impl Iterator<Item = (usize, &'a Sums)> {
        let stacks = self.moments.stacks.iter().enumerate();
        stacks.filter(|&(number, sums)| shown[number] && !sums.is_nothing())
    }

    fn functions(&self, shown: &[bool]) -> Vec<Row> {
        let mut groups = vec![Group::default(); self.shape.names.len()];
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
                    groups[frame].add(sums);
                }
                if counted_at[place] != number + 1 {
                    counted_at[place] = number + 1;
                    at_places[place] += sums.live.value;
                }
            }
        }
        for (place, &live) in
            at_places.iter().enumerate().filter(|&(place, _)| counted_at[place] > 0)
        {
            let best = &mut groups[self.shape.frame(place)].place;
            if best.is_none_or(|(_, most)| live > most) {
                *best = Some((place, live));
            }
        }
        let matching = self.matching_frames().filter(|_| self.view == View::Cum);
        let is_shown = |frame: usize| matching.as_ref().is_none_or(|matching| matching[frame]);
        let found = groups.iter().enumerate().filter(|&(frame, _)| counted[frame] > 0);
        found
            .filter(|&(frame, _)| is_shown(frame))
            .map(|(frame, group)| {
                let root = Root::Function(self.shape.names[frame].clone());
                self.row(Some(Key::root(root)), 0, Direction::Callers, frame, group)
            })
            .collect()
    }

    fn row(
        &self,
        key: Option<Key>,
        depth: usize,
        direction: Direction,
        frame: usize,
        group: &Group,
    ) -> Row {
        let FrameName { name, file, line } = self.shape.names[frame].clone();
        let hottest = group.place.map_or(0, |(place, _)| self.shape.places[place].line);
        let line = if line == 0 { hottest } else { line };
        Row { key, depth, direction, name, file, line, sums: Some(group.sums) }
    }

    fn stacks(&self, shown: &[bool]) -> Vec<Row> {
        let mut groups: HashMap<&[usize], (usize, Group)> = HashMap::new();
        for (number, sums) in self.counted(shown) {
            let stack = self.shape.stack(number);
            groups.entry(stack).or_insert((number, Group::default())).1.add(sums);
        }
        let row = |(stack, (number, group)): (&[usize], (usize, Group))| {
            let key = Key::root(Root::Stack(number));
            let place = Some((stack[0], 0.0));
            let group = Group { place, ..group };
            let leaf =
                self.row(Some(key), 0, Direction::Callers, self.shape.frame(stack[0]), &group);
            Row { name: self.names_of(stack).into(), ..leaf }
        };
        groups.into_iter().map(row).collect()
    }

    /// `leaf ← caller ← …`, in short names.
    pub fn names_of(&self, stack: &[usize]) -> String {
        const MOST_FRAMES: usize = 24;
        let names = stack.iter().map(|&place| &self.shape.names[self.shape.frame(place)].name);
        let names =
            names.filter(|name| !ramson_profile::is_library_function(name)).take(MOST_FRAMES);
        names.map(|name| ramson_profile::short_name(name)).collect::<Vec<_>>().join(" ← ")
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
            let (name, file, line) = (name.into(), "".into(), 0);
            Row { key, depth: 0, direction: Direction::Callers, name, file, line, sums: Some(sums) }
        };
        groups.into_iter().map(row).collect()
    }

    /// Appends what is below an opened row.
    fn open(&self, key: &Key, shown: &[bool], sort: Sort, rows: &mut Vec<Row>) {
        if !self.opened.contains(key) {
            return;
        }
        let depth = key.path.len() + 1;
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
            let mut sums = Sums::default();
            rest.iter().filter_map(|row| row.sums).for_each(|of| sums += of);
            let name = format!("({} more)", rest.len()).into();
            let (file, line, sums) = ("".into(), 0, Some(sums));
            rows.push(Row { key: None, depth, direction: key.direction, name, file, line, sums });
        }
    }

    /// The frames of a stack, each on a row.
    fn frames(&self, number: usize) -> impl Iterator<Item = Row> {
        self.shape.stack(number).iter().map(|&place| {
            let frame = self.shape.frame(place);
            let group = Group { place: Some((place, 0.0)), ..Group::default() };
            Row { sums: None, ..self.row(None, 1, Direction::Callers, frame, &group) }
        })
    }

    /// Callers or callees of the row that `key` names.
    fn children(&self, key: &Key, shown: &[bool]) -> Vec<Row> {
        let mut groups: HashMap<usize, (Group, HashMap<usize, f64>)> = HashMap::new();
        self.each(key, shown, |stack, sums| {
            let Some(place) = self.next_place(key, stack) else { return };
            let (group, lines) = groups.entry(self.shape.frame(place)).or_default();
            group.add(sums);
            *lines.entry(place).or_default() += sums.live.value;
        });
        let row = |(frame, (group, lines)): (usize, (Group, HashMap<usize, f64>))| {
            let more = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0));
            let group = Group { place: lines.into_iter().max_by(more), ..group };
            let path = key.path.iter().chain([&self.shape.names[frame]]).cloned().collect();
            let below = Key { path, ..key.clone() };
            self.row(Some(below), key.path.len() + 1, key.direction, frame, &group)
        };
        groups.into_iter().map(row).collect()
    }

    /// Every stack that may belong to the root of `key`; of a thread its part of the stack.
    fn each(&self, key: &Key, shown: &[bool], mut take: impl FnMut(&[usize], &Sums)) {
        if let Root::Thread(tid) = key.root {
            let pieces = self.moments.pieces();
            for piece in pieces.filter(|piece| piece.tid == tid && shown[piece.stack]) {
                take(self.shape.stack(piece.stack), &piece.sums);
            }
            return;
        }
        self.counted(shown).for_each(|(number, sums)| take(self.shape.stack(number), sums));
    }

    /// Where a stack goes on after the row that `key` names; `None` if it is not of that row, or ends there.
    fn next_place(&self, key: &Key, stack: &[usize]) -> Option<usize> {
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
        let is_on_path = rest.iter().zip(&key.path).all(|(&place, name)| is(place, name));
        rest.get(key.path.len()).copied().filter(|_| is_on_path)
    }

    /// The stack that holds most of what a row is of, leaf first.
    pub fn largest_stack(&self, key: &Key) -> Option<Vec<usize>> {
        let shown = self.shown_stacks();
        if let Root::Stack(number) = key.root {
            return Some(self.shape.stack(number).to_vec());
        }
        let parent = key
            .path
            .split_last()
            .map(|(last, path)| (last, Key { path: path.to_vec(), ..key.clone() }));
        let mut best: Option<(f64, Vec<usize>)> = None;
        self.each(key, &shown, |stack, sums| {
            let is_of = match (&parent, &key.root) {
                (Some((last, parent)), _) => self
                    .next_place(parent, stack)
                    .is_some_and(|place| self.shape.names[self.shape.frame(place)] == **last),
                (None, Root::Function(name)) => {
                    let among = if self.view == View::Own { &stack[..1] } else { stack };
                    among.iter().any(|&place| self.shape.names[self.shape.frame(place)] == *name)
                }
                (None, _) => true,
            };
            if is_of && best.as_ref().is_none_or(|(most, _)| sums.live.value > *most) {
                best = Some((sums.live.value, stack.to_vec()));
            }
        });
        best.map(|(_, stack)| stack)
    }
}
