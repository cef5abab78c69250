//! Tests of the screen for a process whose memory is known.

use super::draw::draw;
use super::heading::Heading;
use super::model::Model;
use super::tests::{Block, SECOND, blocks, model, press, snapshot};
use crate::screen::take_colours;
use ramson_symbols::SymbolDefect;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::KeyCode;
use ratatui::style::Color;

fn heading() -> Heading {
    Heading {
        title: "server (pid 42), running, 90 s; 4 samples live; interval 512 KiB".into(),
        rss: "RSS 40.0 MiB = live 15.0 MiB + rest 25.0 MiB".into(),
        split: None,
        notes: vec![],
        charts: ["RSS 40.0 MiB", "live 15.0 MiB", "free in malloc 0 B"]
            .map(|label| [label.to_owned(), label.to_owned()]),
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
fn picture_fits_80_by_24() {
    let mut model = model();
    press(&mut model, KeyCode::Enter);
    model.update(&snapshot(&blocks()[1..], &[580.0, 20.0, 40.0, 10.0]), 110 * SECOND);
    let shown = lines(&screen(&mut model, 80, 24));
    let expected = "\
server (pid 42), running, 90 s; 4 samples live; interval 512 KiB
RSS 40.0 MiB = live 15.0 MiB + rest 25.0 MiB

RSS 40.0 MiB              live 15.0 MiB              free in malloc 0 B
                                               ⢸⣿⣿⣿⡇
                                               ⢸⣿⣿⣿⣇
                          7.00 to 15.0 MiB, 60 s
 l:live▼       ±        d:Δ  o:age  n:function  file:line
7.00 MiB     ±0%  -8.00 MiB    57s  sum, Δ in 10 s, alloc 4.88 KiB/s, free 0 B/s
4.00 MiB     ±0%          0    50s  zmalloc ← create ← create ← serve ←…  x.c:11
2.00 MiB     ±0%          0   ◆90s  zmalloc ← create ← load ← main  x.c:10
1.00 MiB     ±0%          0    20s  grow ← serve ← main  x.c:50
     0 B       –  -8.00 MiB      –  zmalloc ← create ← serve ← main  x.c:10
                                      ← zmalloc  x.c:10
                                      ← create  x.c:20
                                      ← serve  x.c:30
                                      ← main  x.c:1





zmalloc ← create ← create ← serve ← main
[1 stacks] 2 functions 3 total 4 threads  ? help  q quit  Enter opens  / filter
";
    assert_eq!(shown.join("\n") + "\n", expected);
}

#[test]
fn any_screen_size_is_drawn() {
    let mut model = model();
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

/// Lines of the screen from the heading of the columns on.
fn head_line(shown: &[String]) -> usize {
    shown.iter().position(|line| line.contains("l:live")).expect("a heading")
}

#[test]
fn rows_stay_below_changing_heading() {
    for (width, height) in [(50, 24), (80, 24), (120, 36), (200, 50)] {
        let mut model = model();
        let place = |model: &mut Model, heading: &Heading| {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal
                .draw(|frame| {
                    draw(frame, model, heading);
                })
                .unwrap();
            head_line(&lines(&terminal))
        };
        let usual = place(&mut model, &heading());
        let mut long = heading();
        long.title += &" and more".repeat(30);
        long.rss += &" + more 1 MiB".repeat(30);
        assert_eq!(place(&mut model, &long), usual);
        long.notes = vec!["not complete: much".repeat(20), "and more".into()];
        assert_eq!(place(&mut model, &long), usual);
        press(&mut model, KeyCode::Char('/'));
        assert_eq!(place(&mut model, &heading()), usual);
        press(&mut model, KeyCode::Char('z'));
        press(&mut model, KeyCode::Enter);
        assert!(model.filter.is_some() && place(&mut model, &heading()) == usual);
        for second in 101..200 {
            model.update(&snapshot(&blocks(), &[80.0, 20.0, 40.0, 10.0]), second * SECOND);
        }
        assert_eq!(place(&mut model, &heading()), usual);
    }
}

#[test]
fn help_lines_are_whole_and_reachable() {
    for (width, height) in [(20, 10), (50, 24), (80, 24), (120, 36), (200, 50)] {
        let mut model = model();
        model.picture.shape.missing_symbols = vec![SymbolDefect::Excess { frames: 3, names: 4 }];
        press(&mut model, KeyCode::Char('?'));
        let mut seen = String::new();
        for _ in 0..200 {
            let shown = lines(&screen(&mut model, width, height));
            assert!(!shown.concat().contains('…'), "{shown:?}");
            seen += &(shown.concat().replace(' ', "") + "\n");
            press(&mut model, KeyCode::Down);
        }
        let has = |text: &str| seen.contains(&text.replace(' ', ""));
        assert!(
            model.is_help_shown && has("ramson top") && has("every 3 s at most") && has("Names: ")
        );
    }
}

#[test]
fn key_line_shows_fitting_keys() {
    let mut model = model();
    for width in 20..=200 {
        let shown = lines(&screen(&mut model, width, 24));
        let last = shown.last().unwrap();
        assert!(last.contains("[1 stacks]") && last.contains("? help"), "{width}: {last}");
        assert!(!last.contains('…'), "{width}: {last}");
    }
    let shown = lines(&screen(&mut model, 80, 24));
    assert!(shown.last().unwrap().contains("  q quit"), "{shown:?}");
}

#[test]
fn growth_and_age_have_signs() {
    let mut model = model();
    let mut grown = blocks();
    grown.push(Block(3, 8, 100 << 20, 1.0, 109));
    model.update(&snapshot(&grown, &[80.0, 20.0, 40.0, 11.0]), 110 * SECOND);
    let terminal = screen(&mut model, 80, 24);
    let buffer = terminal.backend().buffer();
    let signs = |colour: u8| -> String {
        let cells = buffer.content.iter().filter(|cell| cell.fg == Color::Indexed(colour));
        cells.map(Cell::symbol).collect()
    };
    assert!(signs(208).contains("+100 MiB") && signs(208).contains('◆'), "{}", signs(208));
    assert!(signs(33).contains('◇'), "{}", signs(33));
}
