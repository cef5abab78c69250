//! What the screen shows of a process of known truth.

use super::draw::draw;
use super::heading::{Heading, wrapped};
use super::model::Model;
use super::screen::take_colours;
use super::tests::{SECOND, blocks, model, press, snapshot};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::KeyCode;
use ratatui::style::Color;

fn heading() -> Heading {
    Heading {
        title: "server (pid 42), running, 90 s; interval 512 KiB, 4 samples live".into(),
        rss: "RSS 40.0 MiB = live 15.0 MiB (±0 %) + files 10.9 MiB + stacks 56.0 KiB + ramson 448 KiB + other anonymous 13.6 MiB".into(),
        notes: vec![],
    }
}

fn screen(model: &mut Model, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let heading = heading();
    terminal
        .draw(|frame| {
            draw(frame, model, &heading);
        })
        .unwrap();
    terminal
}

fn lines(terminal: &Terminal<TestBackend>) -> Vec<String> {
    let buffer = terminal.backend().buffer();
    let width = buffer.area.width as usize;
    let symbols: Vec<&str> = buffer.content.iter().map(|cell| cell.symbol()).collect();
    symbols.chunks(width).map(|line| line.concat().trim_end().to_owned()).collect()
}

#[test]
fn the_picture_answers_who_holds_the_memory_in_80_by_24() {
    let mut model = model();
    press(&mut model, KeyCode::Enter);
    model.update(&snapshot(&blocks()[1..], &[580.0, 20.0, 40.0, 10.0]), 110 * SECOND);
    let shown = lines(&screen(&mut model, 80, 24));
    let expected = "\
server (pid 42), running, 90 s; interval 512 KiB, 4 samples live
RSS 40.0 MiB = live 15.0 MiB (±0 %) + files 10.9 MiB + stacks 56.0 KiB
  + ramson 448 KiB + other anonymous 13.6 MiB
live 7.00 MiB (±0 %)  █▁  7.00 MiB to 15.0 MiB in 10 s
Δ -8.00 MiB (±0 B) in 10 s; alloc 4.88 KiB/s, 50/s; free 0 B/s
   live▼       ±          Δ alloc/s    age  function  file:line
6.00 MiB    ±0 %  -8.00 MiB      50    63s  zmalloc  x.c:11
6.00 MiB    ±0 %  -8.00 MiB      50    63s    ↑ create  x.c:21
1.00 MiB    ±0 %          0       0    20s  grow  x.c:50












zmalloc ← create ← create ← serve ← main

[1 own] 2 cum 3 stacks 4 threads  Enter callers  s sort  /filter  m mark  ? help
";
    assert_eq!(shown.join("\n") + "\n", expected);
}

#[test]
fn no_size_of_the_screen_is_too_small_to_draw_upon() {
    let mut model = model();
    press(&mut model, KeyCode::Char('3'));
    press(&mut model, KeyCode::Enter);
    for width in [1, 2, 7, 20, 39, 40, 80, 300] {
        for height in [1, 2, 3, 5, 8, 15, 16, 24, 70] {
            let terminal = screen(&mut model, width, height);
            assert_eq!(lines(&terminal).len(), height as usize);
        }
    }
}

#[test]
fn without_colours_there_are_none() {
    let mut model = model();
    model.update(&snapshot(&blocks()[1..], &[580.0, 20.0, 40.0, 10.0]), 110 * SECOND);
    let terminal = screen(&mut model, 80, 24);
    let mut picture = terminal.backend().buffer().clone();
    let colours = |picture: &Buffer| {
        let is_coloured = |cell: &&Cell| cell.fg != Color::Reset || cell.bg != Color::Reset;
        picture.content.iter().filter(is_coloured).count()
    };
    assert!(colours(&picture) > 0);
    take_colours(&mut picture);
    assert_eq!(colours(&picture), 0);
}

#[test]
fn long_lines_are_broken_where_a_part_begins() {
    let rss = heading().rss;
    for columns in [30, 60, 80, 200] {
        let lines = wrapped(&rss, columns);
        assert!(lines.iter().all(|line| line.chars().count() <= columns), "{columns}: {lines:?}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        if columns >= 60 {
            assert_eq!(words(&lines.join(" ")), words(&rss), "nothing is lost");
        }
    }
}
