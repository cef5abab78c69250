//! `ramson top` as its users meet it: in a terminal, with a real server behind.

use ramson_tests::golang;
use ramson_tests::loaded::{Loaded, shows_frames, top};
use ramson_tests::servers::*;
use ramson_tests::terminal::Terminal;
use ramson_tests::{preload, profiles_in, program_with};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// A program that holds 100 blocks of one function and 50 of another, and waits.
fn holding(scratch: &Scratch) -> Running {
    let mut program = clean(program_with("real/holds.c", "holds", &[]));
    preload(&mut program, "1").env("RAMSON_DIR", scratch.open_directory("profiles"));
    let log = scratch.path("holds");
    let out = fs::File::create(&log).unwrap();
    let running =
        Running(program.process_group(0).stdin(Stdio::piped()).stdout(out).spawn().unwrap());
    wait_until("it holds its blocks", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
    });
    running
}

#[test]
fn collections_are_shown_as_they_come() {
    let scratch = Scratch::new();
    let running = golang::start(&golang::go(golang::ONE), &scratch, "leaks", golang::LEAKS, &[]);
    let mut command = ramson(&scratch);
    command.args(["gc", &running.0.id().to_string()]);
    let terminal = Terminal::start(&command, 110, 40);
    terminal.wait_until("a picture, stacks and collections", |text| {
        let has_picture = text.contains("of a goal of") && text.contains('⣿');
        has_picture && text.contains("allocated by") && text.contains("live after the last")
    });
    assert!(!terminal.is_as_usual());
    drop(running);
    // What was seen stays on the terminal.
    terminal.wait_for("the process has ended");
    assert!(terminal.is_as_usual());
}

#[test]
fn view_obeys_keys_and_restores_terminal() {
    let loaded = Loaded::start();
    let mut terminal = loaded.top(80, 24);
    terminal.wait_until("rows and rates", |text| {
        let is_whole =
            text.contains("RSS ") && text.contains(" live ") && text.contains(", alloc ");
        is_whole && text.contains("redis-server (pid ") && text.contains("createStringObject ←")
    });
    assert!(!terminal.is_as_usual());
    terminal.press("\r");
    terminal.wait_until("the frames of a stack", shows_frames);
    terminal.press("2");
    terminal.wait_for("[2 functions]");
    terminal.press("\r");
    terminal.wait_for("↑ ");
    terminal.press("3");
    terminal
        .wait_until("cumulated rows", |text| text.contains("[3 total]") && text.contains(" main"));
    terminal.press("/processCommand\r");
    terminal.wait_until("the filter", |text| {
        text.contains("filter processCommand: ") && !text.contains(" aeMain")
    });
    terminal.press("1");
    terminal.wait_for("[1 stacks]");
    terminal.press("4");
    terminal.wait_for("redis-server/");
    terminal.press("\x1b");
    terminal.wait_for(" sum, Δ in ");
    terminal.press("s");
    terminal.wait_for("Δ▼");
    terminal.press("?");
    terminal.wait_for("the wheel");
    terminal.press("?");
    terminal.wait_for("[4 threads]");
    // It is counted from there on, which on a busy machine nobody may see at once.
    wait_until("the mark is counted from", || {
        terminal.press("m");
        thread::sleep(Duration::from_millis(50));
        terminal.text().contains(" sum, Δ in 0 ms")
    });
    terminal.press("q");
    assert_eq!(terminal.wait().code(), Some(0));
    terminal.wait_until("the terminal as it was", |_| terminal.is_as_usual());
}

#[test]
fn resized_terminal_is_filled_again() {
    let loaded = Loaded::start();
    let mut terminal = loaded.top(80, 24);
    terminal.wait_for("? help");
    for (columns, rows) in [(132, 40), (40, 12), (20, 5), (100, 30)] {
        terminal.resize(columns, rows);
        terminal.wait_until("the last line is at the bottom", |_| {
            let last =
                terminal.ask(|screen| screen.contents_between(rows - 1, 0, rows - 1, columns));
            last.contains("[1 stacks]")
        });
    }
    terminal.press("q");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn job_control_suspends_the_view() {
    let loaded = Loaded::start();
    let mut shell = clean(installed("bash", "bash"));
    shell.args(["--norc", "--noediting", "-i"]);
    for (name, value) in top(&loaded.scratch, &[]).get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    shell.env("PS1", "prompt> ");
    let mut terminal = Terminal::start(&shell, 80, 24);
    terminal.wait_for("prompt> ");
    let program = ramson_program().display();
    terminal.press(&format!("{program} top {}\n", loaded.server.0.id()));
    terminal.wait_for("createStringObject ←");
    terminal.press("\x1a");
    // Until its prompt is there, what is typed may still be top's, or be thrown away with its screen.
    let is_at_shell = |text: &str| text.trim_end().ends_with("prompt>");
    terminal.wait_until("the shell", |text| text.contains("Stopped") && is_at_shell(text));
    terminal.press("echo shell is $((40 + 2))\n");
    terminal.wait_for("shell is 42");
    assert!(terminal.ask(|screen| !screen.alternate_screen() && !screen.hide_cursor()));
    terminal.press("fg\n");
    terminal.wait_for("createStringObject ←");
    terminal.press("q");
    terminal.wait_until("the shell again", is_at_shell);
    terminal.press("echo status $?\n");
    terminal.wait_for("status 0");
    terminal.press("exit\n");
    terminal.wait();
}

#[test]
fn stop_signal_returns_the_terminal() {
    let loaded = Loaded::start();
    let mut shell = clean(installed("bash", "bash"));
    // With job control, and so a process group of its own, of which the shell waits for the end.
    let script = format!(
        "set -m; {} top {} & echo $! > {}; fg > /dev/null; echo stopped; read line; fg > /dev/null; echo status $?",
        ramson_program().display(),
        loaded.server.0.id(),
        loaded.scratch.path("top.pid").display()
    );
    shell.args(["--norc", "-c", &script]);
    for (name, value) in top(&loaded.scratch, &[]).get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    let terminal = Terminal::start(&shell, 80, 24);
    terminal.wait_for("createStringObject ←");
    let pid = fs::read_to_string(loaded.scratch.path("top.pid")).unwrap();
    let send = |signal: &str| {
        assert!(Command::new("kill").args([signal, pid.trim()]).status().unwrap().success())
    };
    send("-TSTP");
    terminal.wait_for("stopped");
    assert!(terminal.is_as_usual());
    terminal.press("\n");
    terminal.wait_until("the view again", |text| text.contains("? help"));
    terminal.press("q");
    terminal.wait_for("status 0");
    assert!(terminal.is_as_usual());
}

#[test]
fn signal_ends_view_and_restores_terminal() {
    let loaded = Loaded::start();
    for (name, number) in [("TERM", 15), ("HUP", 1)] {
        let mut terminal = loaded.top(80, 24);
        terminal.wait_for("? help");
        terminal.running.signal(name);
        assert_eq!(terminal.wait().signal(), Some(number));
        terminal.wait_until("the terminal as it was", |_| terminal.is_as_usual());
    }
}

#[test]
fn signal_ends_view_on_frozen_terminal() {
    let loaded = Loaded::start();
    let mut terminal = loaded.top(80, 24);
    terminal.wait_for("? help");
    let call = format!("/proc/{}/syscall", terminal.running.0.id());
    let is_writing = || fs::read_to_string(&call).is_ok_and(|call| call.starts_with("1 "));
    let frozen = terminal.freeze();
    wait_until("the terminal is full", || {
        terminal.press("12");
        (0..10).all(|_| {
            thread::sleep(Duration::from_millis(5));
            is_writing()
        })
    });
    terminal.running.signal("TERM");
    wait_until("it has ended", || !fs::exists(&call).unwrap() || is_zombie(&terminal));
    drop(frozen);
    assert_eq!(terminal.wait().signal(), Some(15));
}

fn is_zombie(terminal: &Terminal) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", terminal.running.0.id()));
    stat.is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn last_picture_survives_the_process() {
    let loaded = Loaded::start();
    let mut terminal = loaded.top(80, 24);
    terminal.wait_for("createStringObject ←");
    loaded.server.signal("KILL");
    let text = terminal.wait_for("the process is gone: ");
    assert!(text.contains("last RSS ") && text.contains("createStringObject"), "{text}");
    // It still obeys.
    terminal.press("3");
    terminal
        .wait_until("cumulated rows", |text| text.contains("[3 total]") && text.contains(" main"));
    terminal.press("q");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn without_colours_nothing_is_lost() {
    let loaded = Loaded::start();
    let mut command = top(&loaded.scratch, &[&loaded.server.0.id().to_string()]);
    command.env("NO_COLOR", "1");
    let mut terminal = Terminal::start(&command, 80, 24);
    terminal.wait_for("createStringObject ←");
    terminal.press("d");
    terminal.wait_for("Δ▼");
    let is_plain = terminal.ask(|screen| {
        let cells = (0..24).flat_map(|row| (0..80).map(move |column| (row, column)));
        let mut cells = cells.filter_map(|(row, column)| screen.cell(row, column));
        cells.all(|cell| {
            cell.fgcolor() == vt100::Color::Default && cell.bgcolor() == vt100::Color::Default
        })
    });
    assert!(is_plain);
    terminal.press("\x03");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn process_list_opens_with_enter() {
    let loaded = Loaded::start();
    let _other = holding(&loaded.scratch);
    // Others may be profiled on this machine: there is room for all.
    let mut terminal = Terminal::start(&top(&loaded.scratch, &[]), 80, 200);
    terminal.wait_until("both processes", |text| {
        text.contains(" redis-server") && text.contains(" holds")
    });
    // Others on this machine may hold more, and the order may change until the key is read.
    let pid = loaded.server.0.id();
    let opened = (0..100).any(|_| {
        let list = terminal.wait_for(&format!(" {pid} "));
        let row = list.lines().position(|line| line.contains(&format!(" {pid} "))).unwrap();
        terminal.press(&("g".to_owned() + &"j".repeat(row - 3) + "\r"));
        let text = terminal.wait_for("? help");
        let is_it = text.contains(&format!("redis-server (pid {pid})"));
        if !is_it {
            terminal.press("\x1b");
            terminal.wait_for("Enter opens  s sort");
        }
        is_it
    });
    assert!(opened, "{}", terminal.text());
    terminal.press("\x1b");
    terminal.wait_until("the list again", |text| {
        text.contains(" holds") && text.contains("Enter opens")
    });
    terminal.press("q");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn once_matches_the_report() {
    let scratch = Scratch::new();
    let program = holding(&scratch);
    let pid = program.0.id().to_string();
    let text = finish(&mut top(&scratch, &[&pid, "--once", "--every", "100ms"])).good().text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with(&format!("holds (pid {pid}), running")), "{text}");
    assert!(lines[1].starts_with("RSS ") && lines[1].contains(" = live "), "{text}");
    assert!(text.contains("  hold ← ") && text.contains("real/holds.c:"), "{text}");
    let of_functions =
        [&pid, "--once", "--json", "--every", "100ms", "-n", "0", "--view", "functions"];
    let json = finish(&mut top(&scratch, &of_functions)).good().text();
    let top = Json::parse(&json);
    let of_report = ["report", &pid, "--json", "-n", "0", "--view", "functions"];
    let report = finish(ramson(&scratch).args(of_report)).good();
    let report = Json::parse(&report.text());
    assert_eq!(top.number("ramson"), 1.0);
    assert_eq!(top.number("total.live.value"), report.number("total.value"));
    assert_eq!(top.number("total.change.value"), 0.0);
    let of_top =
        |row: &Json| (row.text("name").to_owned(), row.number("live.value"), row.number("line"));
    let of_report = |row: &Json| {
        (row.text("function").to_owned(), row.number("flat.value"), row.number("line"))
    };
    let mut expected: Vec<_> =
        report.list("rows").iter().map(of_report).filter(|row| row.1 > 0.0).collect();
    let mut found: Vec<_> = top.list("rows").iter().map(of_top).filter(|row| row.1 > 0.0).collect();
    let order = |a: &(String, f64, f64), b: &(String, f64, f64)| a.partial_cmp(b).unwrap();
    expected.sort_by(order);
    found.sort_by(order);
    assert_eq!(found, expected);
    assert_eq!(found.iter().find(|row| row.0 == "hold").unwrap().1, 100_000.0);
}

#[test]
fn profile_path_names_a_running_process() {
    let scratch = Scratch::new();
    let _program = holding(&scratch);
    let profile = &profiles_in(&scratch.path("profiles"))[0];
    let link = scratch.path("link");
    symlink(profile, &link).unwrap();
    let mut command = top(&scratch, &[text(&link), "--json", "--every", "50ms"]);
    let mut stream = Running(command.process_group(0).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(stream.0.stdout.take().unwrap()).lines();
    let mut next = || Json::parse(&lines.next().expect("it still runs").unwrap());
    // RSS, and with it whether the profile is mapped, is read once a second.
    for round in 0..80 {
        if round == 40 {
            fs::remove_file(&link).unwrap();
            fs::remove_file(profile).unwrap();
        }
        let object = next();
        assert_eq!(object.at("is_running"), &Json::Word("true".into()), "{round}: {object:?}");
    }
    stream.signal("KILL");
    stream.wait();
}

#[test]
fn json_stream_ends_quietly() {
    let scratch = Scratch::new();
    let mut program = holding(&scratch);
    let pid = program.0.id().to_string();
    let script =
        format!("{} top {pid} --json --every 50ms | head -n 3", ramson_program().display());
    let mut shell = clean("bash");
    shell.args(["-c", &format!("set -o pipefail; {script}")]);
    for (name, value) in top(&scratch, &[]).get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    let outcome = finish(&mut shell).good();
    assert!(outcome.remarks.is_empty() && outcome.stderr.is_empty(), "{outcome:?}");
    let objects: Vec<Json> = outcome.text().lines().map(Json::parse).collect();
    assert_eq!(objects.len(), 3);
    assert!(objects.iter().all(|object| object.text("kind") == "top"));
    assert_eq!(objects[2].number("total.alloc_objects_per_s"), 0.0);
    // Its input closes: it ends, and so does the stream.
    let mut stream = top(&scratch, &[&pid, "--json", "--every", "50ms"]);
    let mut stream = Running(stream.process_group(0).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(stream.0.stdout.take().unwrap()).lines();
    lines.next().expect("an object while it runs").unwrap();
    drop(program.0.stdin.take());
    program.wait();
    let last = lines.map(Result::unwrap).last().expect("an object of its end");
    assert_eq!(stream.wait().code(), Some(0));
    let last = Json::parse(&last);
    assert_eq!(last.at("is_running"), &Json::Word("false".into()));
    let of_hold = |row: &&Json| row.text("name").starts_with("hold ← ");
    let hold = last.list("rows").iter().find(of_hold).unwrap();
    assert_eq!(hold.number("live.value"), 100_000.0);
}

#[test]
fn unshowable_source_is_refused() {
    let scratch = Scratch::new();
    let program = holding(&scratch);
    let pid = program.0.id().to_string();
    let refused = |arguments: &[&str], status: i32, part: &str| {
        let outcome = finish(&mut top(&scratch, arguments));
        assert_eq!(outcome.status, status, "{outcome:?}");
        assert!(outcome.stdout.is_empty() && outcome.remarks.len() == 1, "{outcome:?}");
        assert!(outcome.remarks[0].contains(part), "{outcome:?}");
    };
    refused(&[&pid], 2, "standard output is not a terminal. Use --once");
    refused(&[], 2, "standard output is not a terminal. Use --once");
    refused(&["999999999"], 5, "no such process");
    refused(&["name:nobody-has-this-name", "--once"], 5, "no profiled process has that name");
    refused(&[&pid, "--once", "--focus", "nothing_matches_this"], 1, "leaves nothing");
    refused(&[&pid, "--once", "--tagfocus", "thread=x"], 2, "--view threads");
    refused(&[&std::process::id().to_string(), "--once"], 5, "not profiled");
    let foreign = scratch.file("heap.txt", "main;f 10\n");
    refused(&[text(&foreign), "--once"], 2, "does not say how old");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
