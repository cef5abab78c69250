//! The `ramson` command as its users meet it: what passes through, what is refused and how, and that all outputs agree.

use ramson_tests::servers::*;
use ramson_tests::{library, preload, program_with, shared_library, wait_until_ready};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

const SAMPLE_TYPES: [&str; 4] = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"];
/// ramson's words for them.
const WORDS: [&str; 4] = ["allocations", "allocated", "live-objects", "live"];

/// Runs `ramson` with these arguments.
#[track_caller]
fn say(scratch: &Scratch, arguments: &[&str]) -> Outcome {
    finish(ramson(scratch).args(arguments))
}

/// `ramson run --interval 1 -- …`
fn run(scratch: &Scratch, program: &[&str]) -> Outcome {
    finish(ramson(scratch).args(["run", "--interval", "1", "--"]).args(program))
}

/// Nothing but one line of ramson, with this status.
#[track_caller]
fn assert_refused(outcome: &Outcome, status: i32, part: &str) {
    assert_eq!(outcome.status, status, "{outcome:?}");
    assert!(outcome.stdout.is_empty() && outcome.stderr.is_empty(), "{outcome:?}");
    assert_eq!(outcome.remarks.len(), 1, "{outcome:?}");
    assert!(outcome.remarks[0].contains(part), "{part}: {outcome:?}");
    assert!(!outcome.remarks[0].contains("panicked"), "{outcome:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The path of the compiled `holds.c`.
fn holds() -> &'static str {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    text(PATH.get_or_init(|| program_with("real/holds.c", "holds", &[])))
}

/// A profile of `holds` where every allocation was recorded.
fn profile(scratch: &Scratch) -> PathBuf {
    let path = scratch.path("of-holds.ramson");
    let arguments = ["run", "--interval", "1", "-o", text(&path), "--", holds()];
    say(scratch, &arguments).good();
    path
}

/// The line of a test program that ends with this comment.
fn line_of(source: &str, comment: &str) -> f64 {
    let source = fs::read_to_string(real(source)).unwrap();
    let found = source.lines().position(|line| line.ends_with(&format!("/* {comment} */")));
    (found.unwrap() + 1) as f64
}

fn report(scratch: &Scratch, source: &str, more: &[&str]) -> Json {
    let top = ["report", source, "--json", "-n", "0", "--view", "functions", "--all-frames"];
    Json::parse(&say(scratch, &[&top[..], more].concat()).good().text())
}

/// Names with the objects that they hold, in their own frames.
fn rows(report: &Json) -> BTreeSet<(String, i64)> {
    let rows = report.list("rows").iter().filter(|row| row.number("flat.value") > 0.0);
    rows.map(|row| (row.text("function").to_owned(), row.number("flat.value") as i64)).collect()
}

#[test]
fn exit_status_and_signal_pass_through() {
    let scratch = Scratch::new();
    for status in [0, 3, 255] {
        assert_eq!(run(&scratch, &["sh", "-c", &format!("exit {status}")]).status, status);
    }
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("USR1", 10)] {
        let outcome = run(&scratch, &["sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!(outcome.status, 128 + number, "{name}: {outcome:?}");
    }
}

#[test]
fn unstartable_command_says_why() {
    let scratch = Scratch::new();
    let plain = scratch.file("plain", "#!/bin/sh\n");
    assert_refused(&run(&scratch, &["no-such-command-at-all"]), 127, "no-such-command-at-all");
    assert_refused(&run(&scratch, &["/no/such/file"]), 127, "/no/such/file");
    assert_refused(&run(&scratch, &[text(&scratch.path(""))]), 126, "directory");
    assert_refused(&run(&scratch, &[text(&plain)]), 126, "not executable");
    let mut without_library = ramson(&scratch);
    without_library.args(["run", "true"]).env("RAMSON_LIBRARY", "/no/such/library.so");
    assert_refused(&finish(&mut without_library), 125, "/no/such/library.so");
}

#[test]
fn standard_streams_pass_through() {
    let scratch = Scratch::new();
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let bytes: Vec<u8> = (0..1 << 20).map(|_| next()).collect();
    let mut command = ramson(&scratch);
    let outcome = finish_with(command.args(["run", "--", "cat"]), &bytes);
    assert_eq!(outcome.status, 0);
    assert!(outcome.stdout == bytes, "{} of {} bytes", outcome.stdout.len(), bytes.len());
    let script = "printf 'a\\000b\\r\\nc'; printf 'to standard error' >&2; exec 0<&-";
    let outcome = run(&scratch, &["sh", "-c", script]);
    assert_eq!(outcome.stdout, b"a\0b\r\nc");
    assert!(outcome.stderr.starts_with("to standard error"), "{outcome:?}");
}

#[test]
fn signals_to_ramson_reach_the_program() {
    let scratch = Scratch::new();
    for (name, status) in [("TERM", 21), ("HUP", 22), ("USR1", 23), ("USR2", 24)] {
        let log = scratch.path("log");
        let up = scratch.path(name);
        let script = format!(
            "trap 'exit {status}' {name}; touch {}; while :; do sleep 0.05; done",
            up.display()
        );
        let mut command = with_default_signals(&ramson(&scratch));
        command.args(["run", "--", "sh", "-c", &script]);
        let mut running = Running::start(&mut command, &log, || up.exists());
        running.signal(name);
        assert_eq!(code(running.wait()), status, "{name}");
    }
}

#[test]
fn existing_preload_stays_behind_ours() {
    let scratch = Scratch::new();
    let jemalloc = shared_library("libjemalloc.so.2");
    let mut command = ramson(&scratch);
    command.args(["run", "--", "sh", "-c", "echo $LD_PRELOAD; cat /proc/$$/maps"]);
    let shown = finish(command.env("LD_PRELOAD", &jemalloc)).good().text();
    let expected =
        format!("{}:{}\n", library().canonicalize().unwrap().display(), jemalloc.display());
    assert!(shown.starts_with(&expected), "{shown}");
    assert!(shown.contains("/libramson.so\n") && shown.contains("/libjemalloc.so.2\n"), "{shown}");
}

#[test]
fn installed_library_is_found() {
    let scratch = Scratch::new();
    let (bin, lib) = (scratch.open_directory("bin"), scratch.open_directory("lib/ramson"));
    copy(ramson_program(), &bin.join("ramson"));
    copy(library(), &lib.join("libramson.so"));
    let mut command = clean(bin.join("ramson"));
    command.env("RAMSON_DIR", scratch.open_directory("profiles"));
    command.args(["run", "--interval", "1", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    let outcome = finish(&mut command).good();
    assert_eq!(outcome.text().trim(), text(&lib.join("libramson.so")));
    assert!(outcome.remarks[0].contains("ramson report"), "{outcome:?}");
}

#[test]
fn output_needs_force_to_be_overwritten() {
    let scratch = Scratch::new();
    let output = scratch.path("out");
    let first = ["run", "--interval", "1", "-o", text(&output), "--"];
    let two = ["sh", "-c", "sh -c 'echo $$'; echo end"];
    let outcome = finish(ramson(&scratch).args(first).args(two)).good();
    let pid: u32 = outcome.text().lines().next().unwrap().parse().unwrap();
    let further = scratch.path(&format!("out.{pid}"));
    assert!(output.exists() && further.exists(), "{outcome:?}");
    assert_eq!(report(&scratch, text(&further), &[]).number("pid"), f64::from(pid));
    assert!(outcome.remarks.iter().any(|line| line.contains(text(&further))), "{outcome:?}");

    let before = fs::read(&output).unwrap();
    assert_refused(&finish(ramson(&scratch).args(first).arg("true")), 125, "exists");
    assert_eq!(fs::read(&output).unwrap(), before);
    let replaced = ["run", "--force", "--interval", "1", "-o", text(&output), "--", holds(), "6"];
    assert_eq!(say(&scratch, &replaced).status, 6);
    assert_eq!(report(&scratch, text(&output), &[]).text("name"), "holds");
    let lost = ["run", "--force", "--interval", "1", "-o", "/no/such/dir/x", "--", holds(), "6"];
    let outcome = say(&scratch, &lost);
    assert_eq!(outcome.status, 6);
    assert!(outcome.remarks[0].contains("/no/such/dir"), "{outcome:?}");
}

#[test]
fn invalid_interval_is_refused() {
    let scratch = Scratch::new();
    for (interval, part) in [
        ("0", "1 to record every"),
        ("-1", "512K"),
        ("abc", "512K"),
        ("9999T", "1024T"),
        ("", "512K"),
    ] {
        let arguments = ["run", "--interval", interval, "--", "echo", "started"];
        assert_refused(&say(&scratch, &arguments), 2, part);
    }
}

#[test]
fn non_profile_is_refused_with_advice() {
    let scratch = Scratch::new();
    let good = fs::read(profile(&scratch)).unwrap();
    let newer = [&good[..8], &[9, 0, 0, 0], &good[12..]].concat();
    let cases = [
        ("/no/such/file".into(), 5, "no such file"),
        (text(&scratch.path("")).to_owned(), 1, "directory"),
        (text(&scratch.file("empty", "")).to_owned(), 1, "empty"),
        (holds().into(), 1, "ELF program"),
        (text(&scratch.file("words", "once upon a time")).to_owned(), 1, "text"),
        (text(&scratch.file("newer", newer)).to_owned(), 1, "version 9"),
        (text(&scratch.file("short", &good[..15])).to_owned(), 1, "the profile is empty"),
        ("4194399".into(), 5, "4194399"),
        ("99999999999999".into(), 2, "process ID"),
        ("name:nobody-has-this-name".into(), 5, "nobody-has-this-name"),
        ("name:".into(), 5, "ramson list"),
    ];
    for (source, status, part) in &cases {
        assert_refused(&say(&scratch, &["report", source]), *status, part);
        assert_refused(&say(&scratch, &["export", source, "-f", "pprof"]), *status, part);
    }
}

#[test]
fn cut_profile_shows_its_rest() {
    let scratch = Scratch::new();
    let good = fs::read(profile(&scratch)).unwrap();
    // Bytes after this one are unused room.
    let last = good.iter().rposition(|&byte| byte != 0).unwrap();
    for eighth in 0..8 {
        let cut = scratch.file("cut", &good[..4096 + (last - 4096) / 8 * eighth]);
        let outcome = say(&scratch, &["report", text(&cut)]).good();
        let shown = outcome.text();
        assert!(shown.contains("holds (pid ") && shown.contains("not complete: "), "{shown}");
        let report = report(&scratch, text(&cut), &[]);
        assert!(!report.list("defects").is_empty(), "{eighth}");
        say(&scratch, &["export", text(&cut), "-f", "json"]).good();
    }
    // Files so short that they lack even the facts of the process.
    for length in [16, 100, 500, 2047, 4095] {
        let cut = scratch.file("cut", &good[..length]);
        let shown = say(&scratch, &["report", text(&cut)]).good().text();
        assert!(shown.contains("not complete: the "), "{length}: {shown}");
    }
    for length in [0, 1, 7, 8, 11, 12, 15] {
        let cut = scratch.file("cut", &good[..length]);
        assert_refused(&say(&scratch, &["report", text(&cut)]), 1, "cut: ");
    }
}

#[test]
fn foreign_process_names_its_owner() {
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let up = scratch.path("up");
    let mut command = clean("sh");
    command.arg("-c").arg(format!("touch {}; sleep 600", up.display()));
    let running = Running::start(&mut command, &log, || up.exists());
    let mut command = ramson(&scratch);
    command.args(["report", &running.0.id().to_string()]);
    let outcome = finish(&mut as_user("nobody", &scratch, &command));
    let is_root = finish(clean("id").arg("-u")).text().trim() == "0";
    if is_root {
        assert_refused(&outcome, 1, "belongs to user 0");
    } else {
        assert_refused(&outcome, 5, "not profiled");
    }
}

/// `holds` under a name that no other process has, profiled by hand, waiting.
fn waiting(scratch: &Scratch, name: &str) -> Running {
    let program = scratch.path(name);
    if !program.exists() {
        copy(Path::new(holds()), &program);
    }
    let mut command = clean(program);
    preload(command.arg("4"), "1").env("RAMSON_KEEP", "1");
    command.env("RAMSON_DIR", scratch.open_directory("profiles"));
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running(piped.spawn().unwrap());
    let mut ready = [0; 6];
    std::io::Read::read_exact(running.0.stdout.as_mut().unwrap(), &mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    running
}

/// Ends `waiting` in an orderly way.
fn end(mut running: Running) {
    drop(running.0.stdin.take());
    assert_eq!(code(running.wait()), 4);
}

#[test]
fn name_means_running_else_last() {
    let scratch = Scratch::new();
    let name = format!("n{}", std::process::id());
    let source = format!("name:{name}");
    assert_refused(&say(&scratch, &["report", &source]), 5, "no profiled process");
    let first = waiting(&scratch, &name);
    let first_pid = f64::from(first.0.id());
    assert_eq!(report(&scratch, &source, &[]).number("pid"), first_pid);
    let second = waiting(&scratch, &name);
    let second_pid = f64::from(second.0.id());
    let both = report(&scratch, &source, &[]);
    let has = |pid: f64| both.list("processes").iter().any(|one| one.number("pid") == pid);
    assert!(has(first_pid) && has(second_pid), "{both:?}");
    end(first);
    assert_eq!(report(&scratch, &source, &[]).number("pid"), second_pid);
    end(second);
    assert_eq!(report(&scratch, &source, &[]).number("pid"), second_pid);
}

#[test]
fn running_killed_ended_share_names() {
    let scratch = Scratch::new();
    let name = format!("r{}", std::process::id());
    let mut running = waiting(&scratch, &name);
    let pid = running.0.id().to_string();
    let alive = report(&scratch, &pid, &[]);
    assert_eq!(alive.at("is_running"), &Json::Word("true".into()));
    assert!(alive.number("rss.bytes") > 0.0);
    running.signal("KILL");
    running.wait();
    let killed = report(&scratch, &pid, &[]);
    assert_eq!(killed.at("is_running"), &Json::Word("false".into()));
    let ended = waiting(&scratch, &name);
    let ended_pid = ended.0.id().to_string();
    end(ended);
    let ended = report(&scratch, &ended_pid, &[]);
    assert!(rows(&alive).contains(&("hold".to_owned(), 100_000)), "{:?}", rows(&alive));
    assert_eq!(rows(&alive), rows(&killed));
    assert_eq!(rows(&alive), rows(&ended));
    let text = say(&scratch, &["report", &pid]).good().text();
    assert!(text.contains("died; cause unknown"), "{text}");
}

#[test]
fn list_tells_running_exited_died() {
    let scratch = Scratch::new();
    let name = format!("l{}", std::process::id());
    let runs = waiting(&scratch, &name);
    let exits = waiting(&scratch, &name);
    let mut dies = waiting(&scratch, &name);
    let pids = [runs.0.id(), exits.0.id(), dies.0.id()];
    end(exits);
    dies.signal("KILL");
    dies.wait();
    run(&scratch, &["sh", "-c", "kill -0 $$; exit 9"]);
    let list = Json::parse(&say(&scratch, &["list", "--json"]).good().text());
    let table = say(&scratch, &["list", "-n", "0"]).good().text();
    for (pid, state) in pids.iter().zip(["running", "exited", "died"]) {
        let its = |profile: &&Json| profile.number("pid") == f64::from(*pid);
        let found = list.list("profiles").iter().find(its).unwrap();
        assert!(found.text("state").starts_with(state), "{state}: {found:?}");
        assert_eq!(found.text("name"), name);
        let line = table.lines().find(|line| line.trim_start().starts_with(&pid.to_string()));
        assert!(line.unwrap().contains(state), "{table}");
    }
    // sh ends with _exit(2), which shows its status.
    let shells = list.list("profiles").iter().filter(|profile| profile.text("name") == "sh");
    assert!(shells.clone().any(|sh| sh.text("state") == "exited 9"), "{table}");
    end(runs);
}

#[test]
fn every_output_gives_the_same_totals() {
    let scratch = Scratch::new();
    let script = "import json; kept = [json.dumps([n] * (n % 90)) for n in range(20000)]; import os; os._exit(0)";
    let python = python();
    let path = scratch.path("python.ramson");
    let mut command = ramson(&scratch);
    command.args([
        "run",
        "--interval",
        "16K",
        "-o",
        text(&path),
        "--",
        text(&python),
        "-c",
        script,
    ]);
    finish(command.env("PYTHONMALLOC", "malloc")).good();
    let pprof = scratch.path("heap.pb.gz");
    say(&scratch, &["export", text(&path), "-f", "pprof", "-o", text(&pprof)]).good();
    let exported =
        Json::parse(&say(&scratch, &["export", text(&path), "-f", "json"]).good().text());
    for (of, word) in SAMPLE_TYPES.into_iter().zip(WORDS) {
        let report = report(&scratch, text(&path), &["--count", of]);
        let total = report.number("total.value");
        assert!(total > 1000.0, "{of}: {total}");
        let slack = exported.list("stacks").len() as f64;
        let flat: f64 = report.list("rows").iter().map(|row| row.number("flat.value")).sum();
        assert!((flat - total).abs() <= slack, "{of}: {flat} flat, {total}");
        let shown = shown_total(&scratch, &path, word);
        let is_rough = report.number("total.half_width_95") > 0.1 * total;
        assert_eq!(shown, rounded(total, of.ends_with("space"), is_rough), "{of}");

        // Live bytes are usable ones, but for other tools.
        let total = if of == "inuse_space" { report.number("live_requested.value") } else { total };
        assert_eq!(exported.number(&format!("totals.{of}.value")), total, "{of}");
        let stacks = exported.list("stacks");
        let sum: f64 = stacks.iter().map(|stack| stack.number(&format!("{of}.value"))).sum();
        assert!((sum - total).abs() <= slack, "{of}: {sum} in json, {total}");

        let arguments = ["export", text(&path), "-f", "collapsed", "--count", of];
        let collapsed = say(&scratch, &arguments).good().text();
        let values = collapsed.lines().map(|line| line.rsplit(' ').next().unwrap());
        let sum: f64 = values.map(|value| value.parse::<f64>().unwrap()).sum();
        assert!((sum - total).abs() <= slack, "{of}: {sum} collapsed, {total}");

        let mut go = clean(installed("go", "golang-go"));
        go.args(["tool", "pprof", "-top", "-unit=B", &format!("-sample_index={of}")]).arg(&pprof);
        let top = finish(go.env("PPROF_TMPDIR", scratch.path(""))).good().text();
        let sum =
            top.split_once("% of ").and_then(|(_, rest)| rest.split_once(" total")).unwrap().0;
        let sum: f64 = sum.trim_end_matches('B').parse().unwrap();
        assert!((sum - total).abs() <= slack, "{of}: {sum} in pprof, {total}");
    }
}

/// The total in the heading of the table.
fn shown_total(scratch: &Scratch, path: &Path, of: &str) -> String {
    let table = say(scratch, &["report", text(path), "--count", of, "--details"]).good().text();
    let heading = table.lines().find_map(|line| line.strip_prefix(&format!("{of}, total ")));
    let heading = heading.unwrap_or_else(|| panic!("{table}"));
    heading.split([';', '(']).next().unwrap().trim_end().to_owned()
}

/// As the table writes it: bytes with three digits, objects with separators; with two digits what is rough.
fn rounded(total: f64, is_bytes: bool, is_rough: bool) -> String {
    let step = if is_rough { 10f64.powf(total.log10().floor() - 1.0) } else { 1.0 };
    if !is_bytes {
        let total = (total / step).round() * step;
        let digits = format!("{total:.0}");
        let groups: Vec<&str> = digits
            .as_bytes()
            .rchunks(3)
            .rev()
            .map(|group| str::from_utf8(group).unwrap())
            .collect();
        return groups.join(",");
    }
    let (value, unit) = match total {
        _ if total < 1048576.0 => (total / 1024.0, "KiB"),
        _ => (total / 1048576.0, "MiB"),
    };
    match value {
        _ if is_rough && value >= 9.95 => {
            let step = 10f64.powf(value.log10().floor() - 1.0);
            format!("{:.0} {unit}", (value / step).round() * step)
        }
        _ if is_rough => format!("{value:.1} {unit}"),
        _ if value >= 99.95 => format!("{value:.0} {unit}"),
        _ if value >= 9.995 => format!("{value:.1} {unit}"),
        _ => format!("{value:.2} {unit}"),
    }
}

#[test]
fn names_and_lines_match_source() {
    let scratch = Scratch::new();
    let exported = say(&scratch, &["export", text(&profile(&scratch)), "-f", "json"]).good().text();
    let exported = Json::parse(&exported);
    let stacks = exported.list("stacks").iter();
    let mut stacks: Vec<(&[Json], f64)> =
        stacks.map(|stack| (stack.list("frames"), stack.number("inuse_space.value"))).collect();
    stacks.retain(|(_, space)| *space > 0.0);
    let expect = |frames: &[(&str, &str)], space: f64| {
        let wanted: Vec<(&str, f64)> =
            frames.iter().map(|(name, comment)| (*name, line_of("holds.c", comment))).collect();
        let found = stacks.iter().any(|(stack, its_space)| {
            let names = stack.iter().map(|frame| (frame.text("function"), frame.number("line")));
            let names: Vec<_> = names.take(wanted.len()).collect();
            names == wanted
                && *its_space == space
                && stack[0].text("file").ends_with("real/holds.c")
        });
        assert!(found, "no {wanted:?} with {space} in {stacks:?}");
    };
    expect(&[("hold", "in hold")], 100_000.0);
    expect(&[("inlined", "in inlined"), ("caller_of_inlined", "in caller_of_inlined")], 25_000.0);
    let file = scratch.path("of-holds.ramson");
    let table = say(&scratch, &["report", text(&file), "--view", "functions"]).good().text();
    let place = format!("holds.c:{}", line_of("holds.c", "in hold"));
    assert!(table.lines().any(|line| line.contains(" hold ") && line.ends_with(&place)), "{table}");
}

#[test]
fn cxx_names_are_readable() {
    let scratch = Scratch::new();
    let program = program_with("real/names.cc", "names", &[]);
    let path = scratch.path("names.ramson");
    let arguments = ["run", "--interval", "1", "-o", text(&path), "--", text(&program)];
    say(&scratch, &arguments).good();
    let arguments =
        ["report", text(&path), "--count", "alloc_space", "-n", "0", "--view", "functions"];
    let table = say(&scratch, &arguments).good().text();
    assert!(table.contains("storage::Shelf<std::"), "{table}");
    assert!(table.contains(">::put"), "{table}");
    assert!(!table.contains("_ZN"), "{table}");
}

#[test]
fn replaced_binary_gives_no_wrong_names() {
    let scratch = Scratch::new();
    let name = format!("x{}", std::process::id());
    end(waiting(&scratch, &name));
    let source = format!("name:{name}");
    // No cached answers from before: nothing was asked yet.
    let other = program_with("real/names.cc", "names", &[]);
    fs::remove_file(scratch.path(&name)).unwrap();
    copy(&other, &scratch.path(&name));
    let replaced = report(&scratch, &source, &[]);
    let missing = format!("{:?}", replaced.list("missing_symbols"));
    assert!(missing.contains(&name), "{missing}");
    let own = replaced.list("rows").iter().map(|row| row.text("function"));
    let own: Vec<&str> = own.filter(|function| function.starts_with(&name)).collect();
    assert!(!own.is_empty(), "its addresses are shown: {replaced:?}");
    for wrong in ["hold", "inlined", "caller_of_inlined", "main", "_start"] {
        let has_it = replaced.list("rows").iter().any(|row| row.text("function") == wrong);
        assert!(!has_it, "{wrong} is a guess: {replaced:?}");
    }
    assert!(!format!("{replaced:?}").contains("Shelf"), "names of the other binary: {replaced:?}");
    fs::remove_file(scratch.path(&name)).unwrap();
    let removed = report(&scratch, &source, &[]);
    assert!(format!("{:?}", removed.list("missing_symbols")).contains(&name));
}

#[test]
fn unwritable_directory_costs_only_the_profile() {
    let scratch = Scratch::new();
    let command = |directory: &Path| {
        let mut command = ramson(&scratch);
        command.env("RAMSON_DIR", directory).args(["run", "--interval", "1", "--"]);
        command.arg(holds()).arg("5");
        command
    };
    let closed = scratch.open_directory("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let outcome = finish(&mut as_user("nobody", &scratch, &command(&closed)));
    assert_eq!((outcome.status, outcome.text().as_str()), (5, "ready\n"));
    assert!(outcome.stderr.is_empty(), "{outcome:?}");
    assert!(outcome.remarks[0].contains("not writable"), "{outcome:?}");

    let full = scratch.open_directory("full");
    let mount = format!("mount -t tmpfs -o size=64k none {} && exec \"$0\" \"$@\"", full.display());
    let run = command(&full);
    let mut unshare = clean(installed("unshare", "util-linux"));
    unshare.args(["--mount", "--map-root-user", "sh", "-c", &mount]).arg(run.get_program());
    unshare.args(run.get_args()).env("RAMSON_DIR", &full).env("RAMSON_LIBRARY", library());
    let outcome = finish(&mut unshare);
    assert_eq!((outcome.status, outcome.text().as_str()), (5, "ready\n"), "{outcome:?}");
    assert!(outcome.stderr.is_empty(), "{outcome:?}");
    assert!(outcome.remarks[0].contains("full"), "{outcome:?}");
}

#[test]
fn closed_pipe_succeeds_full_disk_fails() {
    let scratch = Scratch::new();
    let path = profile(&scratch);
    run(&scratch, &[holds()]).good(); // "list" does not know the file of "-o"
    for command in ["report", "report --json", "export -f json", "export -f pprof", "list", "man"] {
        let source = if ["list", "man"].contains(&command) { "" } else { text(&path) };
        let words = format!("{} {command} {source}", ramson_program().display());
        let bash = |script: String| {
            let ramson = ramson(&scratch);
            let environment = ramson.get_envs().filter_map(|(name, value)| Some((name, value?)));
            finish(clean("bash").envs(environment).args(["-c", &script]))
        };
        for closed in ["head -1 >/dev/null", "true"] {
            let outcome = bash(format!("set -o pipefail; {words} | {closed}"));
            assert_eq!(
                outcome.essence(),
                (0, String::new(), String::new()),
                "{command}: {outcome:?}"
            );
            assert!(outcome.remarks.is_empty(), "{command}: {outcome:?}");
        }
        assert_refused(&bash(format!("{words} > /dev/full")), 1, "cannot write");
    }
}

#[test]
fn help_and_usage_errors_are_clear() {
    let scratch = Scratch::new();
    let nothing = say(&scratch, &[]);
    assert_eq!(nothing.status, 2);
    assert!(nothing.stderr.contains("Usage: ramson"), "{nothing:?}");
    assert!(say(&scratch, &["--version"]).good().text().starts_with("ramson "));
    for command in ["", "run", "list", "report", "export", "completions", "man"] {
        let arguments: Vec<&str> =
            [command, "--help"].into_iter().filter(|it| !it.is_empty()).collect();
        let help = say(&scratch, &arguments).good();
        assert!(help.text().contains("Usage: ramson"), "{help:?}");
        assert!(help.stderr.is_empty() && help.remarks.is_empty(), "{help:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = say(&scratch, &["completions", shell]).good().text();
        assert!(script.contains("RAMSON_COMPLETE"), "{shell}: {script:.200}");
    }
    let page = say(&scratch, &["man"]).good().text();
    assert!(page.contains(".TH ramson 1") && page.contains("ramson run"), "{page:.300}");
    assert!(say(&scratch, &["doctor", "--help"]).good().text().contains("ramson explain"));
    let wrong: [(&[&str], &str); 7] = [
        (&["frobnicate"], "frobnicate"),
        (&["record", "./server"], "did you mean run?"),
        (&["run"], "CMD"),
        (&["report"], "SRC>. \"ramson report --help\" explains"),
        (&["report", "1", "--view", "sideways"], "functions, tree, peek"),
        (&["report", "1", "--count", "rss"], "live-objects"),
        (&["export", "1", "-f", "xml"], "collapsed"),
    ];
    for (arguments, part) in wrong {
        assert_refused(&say(&scratch, arguments), 2, part);
    }
}

#[test]
fn relative_path_finds_the_same_memory() {
    let scratch = Scratch::new();
    let mut run = ramson(&scratch);
    run.args(["run", "--interval", "1", "-o", "held.ramson", "--", holds(), "6"]);
    run.current_dir(scratch.path("")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut held = Running(run.spawn().unwrap());
    wait_until_ready(&mut held.0);
    symlink("held.ramson", scratch.path("link")).unwrap();
    for name in ["held.ramson", "./link"] {
        let mut report = ramson(&scratch);
        report.args(["report", name, "--json"]).current_dir(scratch.path(""));
        let json = Json::parse(&finish(&mut report).good().text());
        let [own, files] =
            ["ramson", "files"].map(|term| json.number(&format!("rss.terms.{term}.value")));
        assert!(own > 300e3 && files == 0.0, "{name}: {json:?}");
    }
}
