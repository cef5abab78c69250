//! Files that `make install` puts next to the program: man pages that man shows, and completions that bash, zsh and fish use.

use ramson_tests::servers::*;
use ramson_tests::terminal::Terminal;
use ramson_tests::{preload, program_with};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NAME: &str = "holds-completed";

/// Installs the pages with the program of this build, and returns the prefix.
fn install(scratch: &Scratch) -> PathBuf {
    let prefix = scratch.path("prefix");
    let bin = scratch.open_directory("prefix/bin");
    copy(ramson_program(), &bin.join("ramson"));
    let mut make = clean(installed("make", "make"));
    make.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    make.args(["--no-print-directory", "--silent", "install-pages"]);
    make.arg(format!("RAMSON={}", ramson_program().display()));
    make.arg(format!("PREFIX={}", prefix.display())).env_remove("MAKEFLAGS");
    finish(&mut make).good();
    prefix
}

#[test]
fn every_command_has_a_man_page() {
    let scratch = Scratch::new();
    let prefix = install(&scratch);
    let pages = prefix.join("share/man");
    let page = |name: &str| {
        let mut man = clean(installed("man", "man-db"));
        man.env("MANPATH", &pages).env("MANWIDTH", "80").env("MANPAGER", "cat");
        let shown = finish(man.args(["--warnings=w", name])).good();
        assert_eq!(shown.stderr, "", "{name}");
        shown.text()
    };
    let main = page("ramson");
    let named =
        main.lines().filter_map(|line| line.trim().strip_prefix("ramson-")?.strip_suffix("(1)"));
    let named: Vec<&str> = named.collect();
    assert!(named.len() > 15 && !named.contains(&"help"), "{named:?}");
    for name in &named {
        let text = page(&format!("ramson-{name}"));
        assert!(text.contains("SYNOPSIS") && text.contains(&format!("ramson {name}")), "{text}");
    }
    let report = page("ramson-report");
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["--count", "callers and callees of functions", "Examples:"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let files = fs::read_dir(pages.join("man1")).unwrap().count();
    assert_eq!(files, named.len() + 1, "each page is named in the first");
}

/// A profiled process of that name, which runs.
fn waiting(scratch: &Scratch) -> Running {
    let program = program_with("real/holds.c", NAME, &[]);
    let mut command = clean(program);
    preload(command.arg("4"), "1").env("RAMSON_DIR", scratch.open_directory("profiles"));
    let mut running =
        Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut ready = [0; 6];
    std::io::Read::read_exact(running.0.stdout.as_mut().unwrap(), &mut ready).unwrap();
    running
}

/// A shell in a terminal, with the installed program in its path.
fn shell(scratch: &Scratch, prefix: &Path, name: &str, arguments: &[&str]) -> Terminal {
    let mut command = Command::new(installed(name, name));
    command.args(arguments);
    let usual = ramson(scratch);
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", prefix.join("bin").display()));
    command.env("HOME", scratch.open_directory("home")).env("INPUTRC", "/dev/null");
    command.env("XDG_DATA_DIRS", prefix.join("share")).env("PS1", "READY ");
    command.env("XDG_CONFIG_HOME", scratch.open_directory("home/config"));
    Terminal::start(&command, 140, 40)
}

/// Types words and TABs, and waits for what is offered; then empties the line.
#[track_caller]
fn offers(shell: &Terminal, typed: &str, offered: &[&str]) {
    shell.press(typed);
    for part in offered {
        shell.wait_until(&format!("{part} after {typed:?}"), |text| {
            text.lines().any(|line| line.split_whitespace().any(|word| word == *part))
        });
    }
    // An empty line (Ctrl-U, also out of a list of candidates), and an empty screen.
    shell.press("\u{15}\u{15}clear\r");
    shell.wait_until("an empty screen", |text| !offered.iter().any(|part| text.contains(part)));
}

fn complete_all(shell: &Terminal, pid: u32) {
    offers(shell, "ramson time\t", &["timeline"]);
    offers(shell, "ramson report --view \t\t", &["callers", "health", "threads"]);
    offers(shell, "ramson report --count \t\t", &["live", "live-objects"]);
    offers(shell, "ramson diff --granularity \t\t", &["filefunctions", "mappings"]);
    offers(shell, "ramson export --format open\t", &["openmetrics"]);
    offers(shell, "ramson report --kind \t\t", &["heap", "mmap"]);
    let source = format!("name:{NAME}");
    offers(shell, "ramson report name:holds-comp\t", &[&source]);
    let start = pid / 10;
    let pid = pid.to_string();
    offers(shell, &format!("ramson report {start}\t\t"), &[&pid]);
}

#[test]
fn bash_completes_values_processes_and_names() {
    let scratch = Scratch::new();
    let prefix = install(&scratch);
    let running = waiting(&scratch);
    let shell = shell(&scratch, &prefix, "bash", &["--norc", "--noprofile"]);
    let script = prefix.join("share/bash-completion/completions/ramson");
    shell.wait_for("READY");
    shell.press(&format!("source {}; echo SOUR''CED\r", script.display()));
    shell.wait_for("SOURCED");
    complete_all(&shell, running.0.id());
}

#[test]
fn zsh_completes_values_processes_and_names() {
    let scratch = Scratch::new();
    let prefix = install(&scratch);
    let running = waiting(&scratch);
    let shell = shell(&scratch, &prefix, "zsh", &["-f"]);
    let functions = prefix.join("share/zsh/site-functions");
    shell.wait_for("READY");
    shell.press(&format!(
        "fpath=({} $fpath); autoload -U compinit; compinit -u; echo SOUR''CED\r",
        functions.display()
    ));
    shell.wait_for("SOURCED");
    complete_all(&shell, running.0.id());
}

#[test]
fn fish_completes_values_processes_and_names() {
    let scratch = Scratch::new();
    let prefix = install(&scratch);
    let running = waiting(&scratch);
    let begin = "function fish_prompt; echo -n 'READY '; end; function fish_greeting; end";
    let shell = shell(&scratch, &prefix, "fish", &["-C", begin]);
    shell.wait_for("READY");
    complete_all(&shell, running.0.id());
}
