//! A process of known truth: what the rows say of it, and what keys do.

use super::heading::total_text;
use super::keys::Request;
use super::model::{Clickable, Model};
use ramson_analysis::live::row::{Row, Sort, View};
use ramson_analysis::live::shape::{Place, Shape};
use ramson_format::Kind;
use ramson_profile::FrameName;
use ramson_reader::{Header, LiveSample, Snapshot, Stack};
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

const MIB: u64 = 1 << 20;
pub const SECOND: u64 = 1_000_000_000;
/// The last overflow stack is 1.
const FIRST: usize = 2;

/// Stacks of frames `function:line`, leaf first; the overflow stacks are not shown.
fn shape(stacks: &[&[&str]]) -> Shape {
    let mut shape = Shape { stacks: vec![Vec::new(); FIRST], ..Shape::default() };
    for stack in stacks {
        let places = stack.iter().map(|frame| {
            let (name, line) = frame.split_once(':').unwrap();
            let name =
                FrameName { name: name.into(), file: "src/x.c".into(), ..FrameName::default() };
            let frame = shape.names.iter().position(|known| *known == name).unwrap_or_else(|| {
                shape.names.push(name);
                shape.names.len() - 1
            });
            let line = line.parse().unwrap();
            let is_it = |place: &Place| place.frame == frame && place.line == line;
            shape.places.iter().position(is_it).unwrap_or_else(|| {
                shape.places.push(Place { frame, line });
                shape.places.len() - 1
            })
        });
        let places = places.collect();
        shape.stacks.push(places);
    }
    shape
}

/// One block: number of the stack (from 0), thread, size, 1/p, second of its allocation.
pub struct Block(pub usize, pub u32, pub u64, pub f64, pub u64);

pub fn snapshot(blocks: &[Block], allocated: &[f64]) -> Snapshot {
    let mut stacks = vec![Stack::overflow(Kind::Heap), Stack::overflow(Kind::Mmap)];
    stacks.extend(allocated.iter().map(|&objects| Stack {
        alloc_objects: objects,
        alloc_space: objects * 100.0,
        ..Stack::default()
    }));
    let live = blocks.iter().zip(1..).map(|(&Block(stack, tid, size, weight, second), address)| {
        LiveSample {
            address,
            size,
            inverse_probability: weight,
            monotonic_ns: second * SECOND,
            stack: stack + FIRST,
            tid,
            family: 0,
        }
    });
    Snapshot { header: Header::default(), stacks, live: live.collect(), ..Snapshot::default() }
}

#[test]
fn stacks_differing_by_line_show_it() {
    let mut model = Model::new(Some(Kind::Heap), View::Stacks, Sort::Live);
    model.picture.shape = shape(&[&["mk:15", "w:22"], &["mk:15", "w:21"], &["mk:16", "w:1"]]);
    model.arrange();
    let blocks = [0, 1, 2].map(|stack| Block(stack, 7, (3 - stack as u64) * MIB, 1.0, 10));
    model.update(&snapshot(&blocks, &[3.0, 2.0, 1.0]), 100 * SECOND);
    let names = [0, 1, 2].map(|row| &*model.rows[row].name);
    assert_eq!(names, ["mk ← w:22", "mk ← w:21", "mk ← w"]);
}

const STACKS: [&[&str]; 4] = [
    &["zmalloc:10", "create:20", "serve:30", "main:1"],
    &["zmalloc:10", "create:20", "load:40", "main:2"],
    &["zmalloc:11", "create:21", "create:22", "serve:30", "main:1"],
    &["grow:50", "serve:31", "main:1"],
];

/// At second 100: create holds 8 + 2 + 4 MiB through zmalloc, grow 1 MiB.
pub fn blocks() -> Vec<Block> {
    vec![
        Block(0, 7, 8 * MIB, 1.0, 10),
        Block(1, 7, 2 * MIB, 1.0, 20),
        Block(2, 8, 4 * MIB, 1.0, 60),
        Block(3, 8, MIB, 1.0, 90),
    ]
}

pub fn model() -> Model {
    model_of(View::Stacks)
}

/// With functions by what they allocate themselves.
fn functions() -> Model {
    model_of(View::Own)
}

fn model_of(view: View) -> Model {
    let mut model = Model::new(Some(Kind::Heap), view, Sort::Live);
    model.picture.shape = shape(&STACKS);
    model.arrange();
    model.update(&snapshot(&blocks(), &[80.0, 20.0, 40.0, 10.0]), 100 * SECOND);
    model
}

pub fn press(model: &mut Model, code: KeyCode) -> Request {
    model.press(KeyEvent::new(code, KeyModifiers::NONE), 5)
}

fn types(model: &mut Model, letters: &str) {
    letters.chars().for_each(|letter| {
        press(model, KeyCode::Char(letter));
    });
}

/// `name MiB`, with arrows and indents as on the screen.
fn told(rows: &[Row]) -> Vec<String> {
    let told = rows.iter().map(|row| match &row.sums {
        Some(sums) => {
            let mib = sums.live.value / MIB as f64;
            format!("{}{}:{} {mib}", " ".repeat(row.depth), row.name, row.line)
        }
        None => format!("{}{}:{}", " ".repeat(row.depth), row.name, row.line),
    });
    told.collect()
}

#[test]
fn own_rows_have_hottest_line() {
    let model = functions();
    assert_eq!(told(&model.rows), ["zmalloc:10 14", "grow:50 1"]);
    assert_eq!(model.shown.live.value, model.picture.moments.total.live.value);
}

#[test]
fn recursion_counts_once_with_callees() {
    let mut model = functions();
    press(&mut model, KeyCode::Char('3'));
    assert_eq!(
        told(&model.rows),
        ["main:1 15", "create:20 14", "zmalloc:10 14", "serve:30 13", "load:40 2", "grow:50 1"]
    );
}

#[test]
fn callers_open_level_by_level() {
    let mut model = functions();
    press(&mut model, KeyCode::Enter);
    assert_eq!(told(&model.rows), ["zmalloc:10 14", " create:20 14", "grow:50 1"]);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Enter);
    assert_eq!(
        told(&model.rows),
        [
            "zmalloc:10 14",
            " create:20 14",
            "  serve:30 8",
            "  create:22 4",
            "  load:40 2",
            "grow:50 1"
        ]
    );
    press(&mut model, KeyCode::Left);
    press(&mut model, KeyCode::Left);
    assert_eq!(told(&model.rows), ["zmalloc:10 14", "grow:50 1"]);
}

#[test]
fn callees_begin_below_innermost_frame() {
    let mut model = functions();
    press(&mut model, KeyCode::Char('e'));
    assert!(model.remark.is_some_and(|remark| remark.contains("view 3")));
    press(&mut model, KeyCode::Char('3'));
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Char('e'));
    assert_eq!(told(&model.rows)[1..3], ["create:20 14", " zmalloc:10 14"]);
    press(&mut model, KeyCode::Char('e'));
    press(&mut model, KeyCode::Char('c'));
    assert_eq!(told(&model.rows)[1..4], ["create:20 14", " serve:30 12", " load:40 2"]);
}

#[test]
fn stacks_and_threads_open() {
    let mut model = model();
    assert_eq!(&*model.rows[0].name, "zmalloc ← create ← serve ← main");
    press(&mut model, KeyCode::Enter);
    assert_eq!(told(&model.rows)[1..5], [" zmalloc:10", " create:20", " serve:30", " main:1"]);
    model.picture.thread_names.insert(7, "worker".into());
    press(&mut model, KeyCode::Char('4'));
    assert_eq!(told(&model.rows), ["worker/7:0 10", "8:0 5"]);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Enter);
    assert_eq!(told(&model.rows), ["worker/7:0 10", "8:0 5", " zmalloc:11 4", " grow:50 1"]);
}

#[test]
fn change_since_mark_cancels_shared_error() {
    let mut model = functions();
    let sampled = |size| Block(0, 7, size, 2.0, 10);
    model.update(&snapshot(&[sampled(MIB), sampled(3 * MIB)], &[4.0]), 101 * SECOND);
    press(&mut model, KeyCode::Char('m'));
    assert_eq!(model.picture.moments.total.change().value, 0.0);
    assert_eq!(model.picture.moments.total.change().variance, 0.0);
    // One of them is freed, and another one comes.
    let new = Block(0, 7, 2 * MIB, 2.0, 150);
    model.update(&snapshot(&[sampled(MIB), new], &[5.0]), 200 * SECOND);
    let change = model.rows[0].sums.unwrap().change();
    assert_eq!(change.value, (2.0 * 2.0 - 2.0 * 3.0) * MIB as f64);
    let variance = |mib: f64| 2.0 * (mib * MIB as f64).powi(2);
    assert_eq!(change.variance, variance(3.0) + variance(2.0));
    assert_eq!(model.picture.moments.since_mark_ns(), 99 * SECOND);
}

#[test]
fn rates_are_of_last_seconds() {
    let mut model = functions();
    assert!(model.rows[0].sums.unwrap().alloc_objects_per_s.is_nan());
    // 50 a second for 20 s, then none.
    for second in 1..=40 {
        let more = 50.0 * f64::from(second.min(20));
        let allocated = [80.0 + more, 20.0, 40.0, 10.0];
        model.update(&snapshot(&blocks(), &allocated), (100 + second as u64) * SECOND);
        let expected = match second {
            ..=20 => 50.0,
            21..=29 => 50.0 * f64::from(30 - second) / 10.0,
            _ => 0.0,
        };
        let rate = model.rows[0].sums.unwrap().alloc_objects_per_s;
        assert!((rate - expected).abs() < 1e-9, "{second}: {rate}, not {expected}");
    }
}

#[test]
fn age_is_mean_of_live_bytes() {
    let model = functions();
    let sums = model.rows[0].sums.unwrap();
    // 8 MiB are 90 s old, 2 MiB 80 s, 4 MiB 40 s.
    let mean = (8.0 * 90.0 + 2.0 * 80.0 + 4.0 * 40.0) / 14.0;
    assert_eq!(sums.mean_age_ns(), Some((mean * 1e9) as u64));
    assert_eq!(sums.oldest_ns, 90 * SECOND);
}

#[test]
fn orders_are_chosen_and_reversed() {
    let mut model = functions();
    let first = |model: &Model| model.rows[0].name.to_string();
    for (key, name) in [('n', "grow"), ('l', "zmalloc"), ('o', "zmalloc"), ('a', "zmalloc")] {
        press(&mut model, KeyCode::Char(key));
        assert_eq!(first(&model), name, "{key}");
    }
    press(&mut model, KeyCode::Char('r'));
    press(&mut model, KeyCode::Char('l'));
    assert_eq!(first(&model), "grow");
    press(&mut model, KeyCode::Char('s'));
    assert!(model.sort == Sort::Change);
    press(&mut model, KeyCode::Char('S'));
    assert!(model.sort == Sort::Live);
}

#[test]
fn filter_keeps_stacks_that_match() {
    let mut model = functions();
    types(&mut model, "/load");
    assert_eq!(told(&model.rows), ["zmalloc:10 14", "grow:50 1"], "not before Enter");
    press(&mut model, KeyCode::Enter);
    assert_eq!(told(&model.rows), ["zmalloc:10 2"]);
    // With callees the row itself has to match.
    press(&mut model, KeyCode::Char('3'));
    assert_eq!(told(&model.rows), ["load:40 2"]);
    types(&mut model, "/(");
    press(&mut model, KeyCode::Enter);
    assert!(model.remark.is_some_and(|remark| remark.contains("not a regular expression")));
    assert_eq!(told(&model.rows), ["load:40 2"]);
    assert_eq!(press(&mut model, KeyCode::Esc), Request::Done);
    assert_eq!(model.rows.len(), 6);
    assert_eq!(press(&mut model, KeyCode::Esc), Request::Back);
}

#[test]
fn cursor_stays_on_its_function() {
    let mut model = functions();
    let grown = || {
        let mut blocks = blocks();
        blocks.push(Block(3, 8, 100 * MIB, 1.0, 99));
        snapshot(&blocks, &[80.0, 20.0, 40.0, 11.0])
    };
    let mut other = functions();
    press(&mut model, KeyCode::Down);
    assert_eq!(&*model.rows[model.cursor].name, "grow");
    model.update(&grown(), 104 * SECOND);
    assert_eq!((model.cursor, &*model.rows[0].name), (0, "grow"));
    other.update(&grown(), 104 * SECOND);
    assert_eq!(other.cursor, 0);
    model.update(&snapshot(&[], &[]), 108 * SECOND);
    assert!(model.rows.len() <= 2 && model.cursor < model.rows.len().max(1));
}

#[test]
fn unnamed_stacks_are_counted() {
    let mut model = functions();
    let mut blocks = blocks();
    blocks.push(Block(4, 7, 3 * MIB, 1.0, 100));
    model.update(&snapshot(&blocks, &[80.0, 20.0, 40.0, 10.0, 1.0]), 101 * SECOND);
    assert_eq!(model.picture.moments.total.live.value, 18.0 * MIB as f64);
    assert!(told(&model.rows).contains(&"(stacks without names yet):0 3".to_owned()));
}

#[test]
fn foreign_keys_are_handed_on() {
    let mut model = model();
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    for (letter, request) in [('c', Request::Quit), ('z', Request::Suspend), ('l', Request::Redraw)]
    {
        assert_eq!(model.press(control(letter), 5), request);
    }
    press(&mut model, KeyCode::Char('?'));
    assert!(model.is_help_shown);
    assert_eq!(press(&mut model, KeyCode::Char('m')), Request::Done);
    assert!(!model.is_help_shown);
    assert_eq!(press(&mut model, KeyCode::Char('q')), Request::Quit);
}

#[test]
fn rows_keep_places_for_seconds() {
    let mut model = functions();
    let mut grown = blocks();
    grown.push(Block(3, 8, 100 * MIB, 1.0, 99));
    let grown = snapshot(&grown, &[80.0, 20.0, 40.0, 11.0]);
    model.update(&grown, 101 * SECOND);
    assert_eq!(told(&model.rows), ["zmalloc:10 14", "grow:50 101"]);
    press(&mut model, KeyCode::Enter);
    assert_eq!(told(&model.rows), ["zmalloc:10 14", " create:20 14", "grow:50 101"]);
    press(&mut model, KeyCode::Enter);
    model.update(&grown, 103 * SECOND);
    assert_eq!(told(&model.rows), ["grow:50 101", "zmalloc:10 14"]);
    model.update(&snapshot(&blocks(), &[80.0, 20.0, 40.0, 11.0]), 104 * SECOND);
    assert_eq!(told(&model.rows), ["grow:50 1", "zmalloc:10 14"]);
    press(&mut model, KeyCode::Char('l'));
    assert_eq!(told(&model.rows), ["zmalloc:10 14", "grow:50 1"]);
}

#[test]
fn opened_lines_are_no_rows() {
    let mut model = model();
    types(&mut model, "/create");
    press(&mut model, KeyCode::Enter);
    assert_eq!(total_text(&model), "filter create: 3 rows, 93.3% of live");
    press(&mut model, KeyCode::Enter);
    assert!(model.rows.len() > 3);
    assert_eq!(total_text(&model), "filter create: 3 rows, 93.3% of live");
}

#[test]
fn mouse_scrolls_sorts_and_opens() {
    let mut model = functions();
    model.clickable = Clickable { width: 120, head: 5, rows: 7, page: 10 };
    let mouse = |kind, column, row| MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    let click = |column, row| mouse(MouseEventKind::Down(MouseButton::Left), column, row);
    model.point(mouse(MouseEventKind::ScrollDown, 0, 9));
    assert_eq!(model.cursor, 1);
    model.point(mouse(MouseEventKind::ScrollUp, 0, 9));
    assert_eq!(model.cursor, 0);
    model.point(click(3, 7));
    assert_eq!(told(&model.rows), ["zmalloc:10 14", " create:20 14", "grow:50 1"]);
    model.point(click(3, 7));
    assert_eq!(told(&model.rows), ["zmalloc:10 14", "grow:50 1"]);
    // The place of ± sorts nothing; the others are live, Δ, alloc/s, age and the name.
    model.point(click(10, 5));
    assert!(model.sort == Sort::Live && !model.is_reversed);
    model.point(click(3, 5));
    assert!(model.sort == Sort::Live && model.is_reversed);
    let sorts = [(20, Sort::Change), (34, Sort::Rate), (42, Sort::Age), (70, Sort::Name)];
    for (column, sort) in sorts {
        model.point(click(column, 5));
        assert!(model.sort == sort && !model.is_reversed, "{column}");
    }
    // Beside all rows nothing happens.
    let before = told(&model.rows);
    for line in [0, 6, 9, 16, 17, 23] {
        model.point(click(3, line));
    }
    assert_eq!(told(&model.rows), before);
}
