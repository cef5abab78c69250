//! `ramson top` gives the terminal back on every way out, also on those that leave it no time.

use ramson_tests::servers::*;
use ramson_tests::terminal::Terminal;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

const ABORT: i32 = 6;

fn top(scratch: &Scratch) -> Terminal {
    let terminal = Terminal::start(ramson(scratch).arg("top"), 100, 30);
    terminal.wait_until("the alternate screen", |_| terminal.ask(|it| it.alternate_screen()));
    terminal.wait_for("q quit");
    terminal
}

#[test]
fn fatal_signals_restore_the_terminal() {
    for (name, number) in [("TERM", 15), ("HUP", 1), ("INT", 2), ("QUIT", 3), ("ABRT", ABORT)] {
        let scratch = Scratch::new();
        let mut terminal = top(&scratch);
        terminal.running.signal(name);
        assert_eq!(code(terminal.wait()), 128 + number, "{name}");
        wait_until(&format!("the terminal is given back after {name}"), || terminal.is_as_usual());
    }
}

#[test]
fn failed_allocation_restores_the_terminal() {
    let scratch = Scratch::new();
    let mut terminal = top(&scratch);
    let pid = Pid::from_raw(terminal.running.0.id() as i32);
    let little = Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
    prlimit(pid, Resource::As, little).unwrap();
    // Another picture of another size needs other buffers.
    terminal.resize(1000, 1000);
    assert_eq!(code(terminal.wait()), 128 + ABORT);
    wait_until("the terminal is given back", || terminal.is_as_usual());
}
