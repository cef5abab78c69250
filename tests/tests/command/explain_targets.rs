//! Which processes `ramson explain` looks at, and what it says where there is little or nothing to see.

use ramson_tests::keeping::*;
use ramson_tests::servers::*;
use ramson_tests::{program, program_with, shared_library};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

#[test]
fn other_allocators_name_their_limits() {
    for (library, name) in [
        ("libjemalloc.so.2", "jemalloc"),
        ("libtcmalloc.so.4", "tcmalloc"),
        ("libmimalloc.so.2", "mimalloc"),
    ] {
        let scratch = Scratch::new();
        let library = shared_library(library);
        let keeping = Keeping::start(&scratch, &["leak", "16"], |command| {
            command.env("LD_PRELOAD", &library);
        });
        let json = explain(&scratch, keeping.pid());
        assert!(json.text("allocators.other.name").starts_with(name), "{json:?}");
        assert!(json.text("allocators.other.origin").starts_with("preloaded, "), "{json:?}");
        let why = json.text("statistics_missing");
        assert!(why.starts_with(name) && why.contains("cannot be read from outside"), "{why}");
        assert!(part(&json, "live") == 0.0 && part(&json, "other_anonymous") > 15.0 * MIB);
        // Before anything is changed, it can be asked.
        let action = json.list("advice")[0].text("action").to_owned();
        let ask = format!("ramson explain --ask {}", keeping.pid());
        assert_eq!(action.contains(&ask), name != "mimalloc", "{action}");
    }
}

#[test]
fn profile_supplies_live_for_unreadable_allocator() {
    let scratch = Scratch::new();
    let keeping = Keeping::start(&scratch, &["leak", "32"], |command| {
        let libraries = [ramson_tests::library(), &shared_library("libmimalloc.so.2")];
        let preload = libraries.map(|path| path.display().to_string()).join(":");
        // At 1 KiB what mimalloc holds besides is fifteen standard deviations.
        let command = ramson_tests::preload(command, "1K").env("LD_PRELOAD", preload);
        command.env("RAMSON_DIR", scratch.open_directory("profiles"));
    });
    let json = explain(&scratch, keeping.pid());
    let live = json.number("live.value");
    assert!((live / (31.0 * MIB) - 1.0).abs() < 0.15, "{json:?}");
    // The rest of the area, within the error, cannot be told from live memory, and counts as live.
    let error = json.number("live.half_width_95");
    assert!((part(&json, "live") - live).abs() <= error, "{json:?}");
    assert!(json.list("advice").iter().any(|advice| advice.text("cause") == "leaks"), "{json:?}");
    let pid = keeping.pid().to_string();
    let text = finish(ramson(&scratch).args(["explain", "--details", &pid])).good().text();
    let line = text.lines().find(|line| line.starts_with("RSS ") && line.contains(" = live "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("(±"), "{text}");
    assert!(line.contains(" + held by mimalloc "), "{text}");
}

/// The kernel cuts the name of a thread after 15 bytes; a path is any bytes.
#[test]
fn non_utf8_name_is_handled() {
    let scratch = Scratch::new();
    let directory = scratch.open_directory("").join(OsStr::from_bytes(b"m\xfcller"));
    fs::create_dir(&directory).unwrap();
    let path = directory.join("serverprozesse\u{df}");
    copy(&program("keeps.c"), &path);
    let keeping = Keeping::start_program(&scratch, path, &["leak", "16"], |command| {
        let command = ramson_tests::preload(command, "16K");
        command.env("RAMSON_DIR", scratch.open_directory("profiles"));
    });
    let pid = keeping.pid().to_string();
    assert!(part(&explain(&scratch, keeping.pid()), "live") > 15.0 * MIB);
    for words in [&["report"][..], &["leaks"], &["trim", "--force"]] {
        finish(ramson(&scratch).args(words).arg(&pid)).good();
    }
    let list = finish(ramson(&scratch).args(["list", "-n", "0"])).good().text();
    let row = list.lines().find(|line| line.contains(&format!(" {pid} "))).unwrap();
    assert!(row.contains(" running "), "{list}");
}

#[test]
fn static_and_musl_allocators_are_named() {
    let scratch = Scratch::new();
    let options = ["-static", "-Wno-deprecated-declarations"];
    let fixed = program_with("keeps.c", "keeps-static", &options);
    let fixed = Keeping::start_program(&scratch, fixed, &["leak", "16"], |_| {});
    let source = "#include <stdlib.h>\n#include <unistd.h>\nint main(void) {\n    \
        volatile char *block = malloc(16 << 20);\n    \
        for (int at = 0; at < 16 << 20; at += 4096) block[at] = 1;\n    \
        write(1, \"ready\", 5);\n    pause();\n}\n";
    let source = scratch.file("pauses.c", source);
    let musl = scratch.path("musl");
    let mut compiler = clean(installed("musl-gcc", "musl-tools"));
    finish(compiler.args(["-w", "-O1"]).arg(source).arg("-o").arg(&musl)).good();
    let musl = Keeping::start_program(&scratch, musl, &[], |_| {});
    for (keeping, name) in [(&fixed, "static glibc"), (&musl, "musl")] {
        let json = explain(&scratch, keeping.pid());
        assert_eq!(json.text("allocators.other.name"), name, "{json:?}");
        assert_eq!(json.list("advice")[0].text("cause"), "unknown", "{json:?}");
    }
}

#[test]
fn malloc_of_32_bit_is_unknown() {
    let scratch = Scratch::new();
    let narrow = program_with("keeps.c", "keeps-32", &["-m32", "-Wno-deprecated-declarations"]);
    let keeping = Keeping::start_program(&scratch, narrow, &["leak", "16"], |_| {});
    let json = explain(&scratch, keeping.pid());
    assert!(json.text("statistics_missing").starts_with("a 32-bit program"), "{json:?}");
    let advice = &json.list("advice")[0];
    assert_eq!(advice.text("cause"), "unknown", "{json:?}");
    assert!(!advice.text("action").contains("ramson run"), "{json:?}");
}

#[test]
fn denied_trace_names_rss_and_remedy() {
    let scratch = Scratch::new();
    let own = "pauses.c";
    let copied = scratch.open_directory("bin").join("pauses");
    copy(&program(own), &copied);
    let mut secret = clean(copied);
    secret.arg("secret");
    let log = scratch.path("log");
    let secret = Running::start(&mut as_user("nobody", &scratch, &secret), &log, || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
    });
    let pid = secret.0.id().to_string();
    for command in ["explain", "trim"] {
        let mut look = clean(ramson_program());
        look.args([command, &pid]);
        let outcome = finish(&mut as_user("nobody", &scratch, &look));
        assert_eq!((outcome.status, outcome.remarks.len()), (1, 1), "{outcome:?}");
        assert!(outcome.remarks[0].contains(": RSS ") && outcome.remarks[0].contains("anonymous"));
        assert!(outcome.remarks[0].trim_end().ends_with("Run it with sudo"), "{outcome:?}");
    }
    // As in a container, root may not trace.
    if fs::read_to_string("/proc/self/status").unwrap().contains("Uid:\t0") {
        let keeping = Keeping::plain(&scratch, &["leak", "16"]);
        let restricted = |arguments: &[&str]| {
            let mut command = clean(installed("setpriv", "util-linux"));
            command.args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"]);
            finish(command.arg(ramson_program()).args(arguments).arg(keeping.pid().to_string()))
        };
        let json = Json::parse(&restricted(&["explain", "--json"]).good().text());
        assert_adds_up(&json);
        assert_eq!(json.list("advice")[0].text("cause"), "unknown", "{json:?}");
        let action = json.list("advice")[0].text("action").to_owned();
        assert!(action.contains("CAP_SYS_PTRACE"), "{action}");
        let refused = restricted(&["trim"]);
        assert_eq!((refused.status, refused.remarks.len()), (1, 1), "{refused:?}");
        assert!(refused.remarks[0].contains("CAP_SYS_PTRACE"), "{refused:?}");
    }
}

#[test]
fn only_used_allocator_counts() {
    let scratch = Scratch::new();
    // The C library comes first in the search order, so that jemalloc is never asked.
    let preload = format!("libc.so.6:{}", shared_library("libjemalloc.so.2").display());
    let keeping = Keeping::start(&scratch, &["leak", "16"], |command| {
        command.env("LD_PRELOAD", &preload);
    });
    let json = explain(&scratch, keeping.pid());
    assert_agrees(&keeping, &json);
    assert!(json.text("allocators.other.name").starts_with("jemalloc"), "{json:?}");
    assert!(part(&json, "live") > 15.0 * MIB, "{json:?}");
}

#[test]
fn vanishing_process_is_one_line() {
    let scratch = Scratch::new();
    for delay_ms in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55] {
        let keeping = Keeping::plain(&scratch, &["leak", "64"]);
        let pid = keeping.pid();
        let end = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(delay_ms));
            signal(pid, "KILL");
        });
        let outcome = finish(ramson(&scratch).args(["explain", &pid.to_string()]));
        end.join().unwrap();
        match outcome.status {
            0 => assert!(outcome.text().contains("): RSS "), "{outcome:?}"),
            5 => assert!(outcome.remarks.len() == 1 && outcome.stdout.is_empty(), "{outcome:?}"),
            _ => panic!("{outcome:?}"),
        }
        fs::remove_file(&keeping.log).unwrap();
    }
}

#[test]
fn users_explain_only_their_own() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["leak", "16"]);
    let mut look = clean(ramson_program());
    look.args(["explain", &keeping.pid().to_string()]);
    let outcome = finish(&mut as_user("nobody", &scratch, &look));
    if fs::read_to_string("/proc/self/status").unwrap().contains("Uid:\t0") {
        assert_eq!((outcome.status, outcome.remarks.len()), (1, 1), "{outcome:?}");
        assert!(outcome.remarks[0].contains("Run it as user 0 or with sudo"), "{outcome:?}");
    }
    let program = program_with("keeps.c", "keeps", &["-Wno-deprecated-declarations"]);
    let copied = scratch.open_directory("bin").join("keeps");
    copy(&program, &copied);
    let mut own = clean(copied);
    own.args(["arenas", "16", "2"]);
    let log = scratch.path("own");
    let running = Running::start(&mut as_user("nobody", &scratch, &own), &log, || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
    });
    let mut look = clean(ramson_program());
    look.args(["explain", "--json", &running.0.id().to_string()]);
    let json = Json::parse(&finish(&mut as_user("nobody", &scratch, &look)).good().text());
    assert_adds_up(&json);
    assert!(part(&json, "live") > 7.0 * MIB, "{json:?}");
}

#[test]
fn top_shows_free_memory_in_rss() {
    let scratch = Scratch::new();
    let program = program_with("keeps.c", "keeps", &["-Wno-deprecated-declarations"]);
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "16K", "--max-overhead", "off", "--"]).arg(program);
    command.args(["survivors", "24"]);
    let log = scratch.path("log");
    let is_ready = || fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"));
    let _program = Running::start(&mut command, &log, is_ready);
    let pid = profiles(&scratch)[0].header.pid.to_string();
    let object = Json::parse(
        &finish(ramson(&scratch).args(["top", &pid, "--json", "--once"])).good().text(),
    );
    let free = term(&object, "free_in_allocator");
    assert!((20e6..26e6).contains(&free), "{free}");
    assert_terms_add_up(&object);
    // One explanation for all: the process does nothing meanwhile.
    for arguments in
        [&["report", &pid, "--json"][..], &["leaks", &pid, "--json"], &["explain", &pid, "--json"]]
    {
        let other = Json::parse(&finish(ramson(&scratch).args(arguments)).good().text());
        assert_terms_add_up(&other);
        for name in TERMS {
            assert_eq!(term(&other, name), term(&object, name), "{name}: {other:?}");
        }
    }
}

#[test]
fn unusable_process_is_refused() {
    let scratch = Scratch::new();
    let mut child = Command::new("true").stdout(Stdio::null()).spawn().unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    wait_until("it is a zombie", || fs::read_to_string(&stat).unwrap().contains(") Z "));
    let zombie = child.id().to_string();
    let mut leaderless =
        Command::new(program("leaderless.c")).stdin(Stdio::piped()).spawn().unwrap();
    let stat = format!("/proc/{}/stat", leaderless.id());
    wait_until("only its other thread runs", || {
        fs::read_to_string(&stat).unwrap().contains(") Z ")
    });
    let without_leader = leaderless.id().to_string();
    let mut cases = vec![
        (without_leader.as_str(), 1, "its main thread has ended"),
        (zombie.as_str(), 5, "it has ended (a zombie)"),
        ("4194305", 5, "no such process"),
        ("99999999999", 2, "not a process ID"),
        ("name:no such", 5, "no process has that name"),
        ("/proc/self/exe", 1, "not a profile"),
    ];
    // In a container there is none.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        cases.push(("2", 2, "a kernel thread"));
    }
    for (source, status, finding) in cases {
        let outcome = finish(ramson(&scratch).args(["explain", source]));
        assert_eq!((outcome.status, outcome.remarks.len()), (status, 1), "{outcome:?}");
        assert!(outcome.remarks[0].contains(finding), "{outcome:?}");
        assert!(outcome.stdout.is_empty());
    }
    // A name of a process may be that of its program, here.
    fs::write(scratch.path("server"), "no profile").unwrap();
    for command in ["explain", "trim"] {
        let mut ramson = ramson(&scratch);
        let outcome = finish(ramson.args([command, "server"]).current_dir(scratch.path("")));
        assert!(outcome.remarks[0].contains("name:server"), "{outcome:?}");
    }
    child.wait().unwrap();
    drop(leaderless.stdin.take());
    assert!(leaderless.wait().unwrap().success());
}

#[test]
fn dead_process_points_to_report() {
    let scratch = Scratch::new();
    // The program has a name that no other process has.
    let program = scratch.path(&format!("d{}", std::process::id()));
    copy(&installed("sh", "dash").canonicalize().unwrap(), &program);
    let mut run = ramson(&scratch);
    run.args(["run", "--interval", "1", "--"]).arg(&program).args(["-c", "kill -9 $$"]);
    assert_eq!(finish(&mut run).status, 137);
    let name = format!("name:{}", program.file_name().unwrap().to_str().unwrap());
    let listed = finish(ramson(&scratch).args(["list", "--json", &name[5..]])).good().text();
    let pid = Json::parse(&listed).list("profiles")[0].number("pid").to_string();
    for (command, source) in
        [("explain", &name), ("explain", &pid), ("trim", &name), ("trim", &pid)]
    {
        let outcome = finish(ramson(&scratch).args([command, source]));
        let next = format!("\"ramson report {source}\" shows what was live");
        assert_eq!((outcome.status, outcome.remarks.len()), (5, 1), "{outcome:?}");
        assert!(outcome.remarks[0].contains(&next), "{outcome:?}");
    }
}

#[test]
fn explain_text_leads_with_summary() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["survivors", "16"]);
    let pid = keeping.pid().to_string();
    let text = finish(ramson(&scratch).args(["explain", &pid])).good().text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with(&format!("keeps (pid {pid}): RSS ")), "{text}");
    let free = " is free memory that the program gave back to malloc; ";
    assert!(lines[2].starts_with("Why   ") && lines[2].contains(free), "{text}");
    assert!(lines[2].contains("malloc_trim would return "), "{text}");
    assert!(text.contains("\nNow   ") && text.contains("░ free in malloc "), "{text}");
    let of_experts = ["top of arenas", "fastbins", "tcache", "frag", "releasable", "dynamic"];
    for word in of_experts {
        assert!(!text.contains(word), "{word}: {text}");
    }
    let details = ["explain", "--details", &pid];
    let details = finish(ramson(&scratch).args(details)).good().text();
    assert!(
        details.contains("free whole pages (ramson trim returns these)")
            && details.contains("\narena threads heaps"),
        "{details}"
    );
    for word in ["fastbins: ", "thread caches, tcaches: ", "arena: ", "columns: "] {
        assert_eq!(details.matches(&format!("\n{word}")).count(), 1, "{word}: {details}");
    }
    let mut narrow = ramson(&scratch);
    let narrow = finish(narrow.env("COLUMNS", "60").args(["explain", &pid])).good().text();
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    // Tables are cut, sentences are not.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let prose = &text[..text.find("\nNow ").unwrap()];
    assert!(words(&narrow).starts_with(&words(prose)), "{narrow}");
    let shell = format!("{} explain {pid} | head -1", ramson_program().display());
    let outcome = finish(clean("bash").args(["-o", "pipefail", "-c", &shell])).good();
    assert_eq!(outcome.text().lines().count(), 1);
}
