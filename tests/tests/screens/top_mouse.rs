//! `ramson top` under the mouse.

use ramson_tests::loaded::{Loaded, shows_frames};

#[test]
fn the_mouse_sorts_opens_and_moves() {
    let loaded = Loaded::start();
    let mut terminal = loaded.top(100, 30);
    let text = terminal.wait_for("createStringObject ←");
    let line =
        |text: &str, part: &str| 1 + text.lines().position(|line| line.contains(part)).unwrap();
    let head = line(&text, "l:live▼");
    // Reports of xterm (SGR): button, column, line; from 1.
    let click =
        |column: usize, line: usize| format!("\x1b[<0;{column};{line}M\x1b[<0;{column};{line}m");
    terminal.press(&click(22, head));
    terminal.wait_for("d:Δ▼");
    terminal.press(&click(22, head));
    terminal.wait_for("d:Δ▲");
    terminal.press(&click(3, head));
    terminal.wait_for("l:live▼");
    terminal.press(&click(3, head + 2));
    terminal.wait_until("the frames of a stack", shows_frames);
    terminal.press("q");
    assert_eq!(terminal.wait().code(), Some(0));
    terminal.wait_until("the terminal as it was", |_| terminal.is_as_usual());
    let mode = terminal.ask(|screen| screen.mouse_protocol_mode());
    assert_eq!(mode, vt100::MouseProtocolMode::None);
}
