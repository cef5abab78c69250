//! `ramson trim` and `ramson run --trim-every`: memory comes back, and the program is as it was.

use ramson_tests::keeping::{Keeping, MIB};
use ramson_tests::program;
use ramson_tests::servers::*;
use ramson_tests::trimming::{Talking, Waiting, trim};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Least bytes that `waits` keeps.
const KEPT: f64 = 30.0 * MIB;
/// Most bytes by which RSS changes in a program that does nothing: pages of files come and go.
const FILE_PAGES: f64 = 0.25 * MIB;
/// System call that the kernel makes a thread begin again by its own rules.
const RESTART: &str = "219";
const SIGUSR2: i64 = 12;
const EINTR: i64 = 4;

#[test]
fn trim_returns_memory_and_reports_it() {
    let scratch = Scratch::new();
    for cause in ["survivors", "fastbins", "arenas"] {
        let keeping = Keeping::plain(&scratch, &[cause, "64"]);
        let before = keeping.rss();
        let said = trim(&scratch, keeping.pid());
        assert_eq!(said.text("kind"), "trim");
        let is_about = |key: &str, rss: f64| (said.number(key) - rss).abs() < FILE_PAGES;
        assert!(is_about("rss_before", before), "{cause}: {before}, {said:?}");
        assert!(is_about("rss_after", keeping.rss()), "{cause}: {}, {said:?}", keeping.rss());
        let difference = said.number("rss_before") - said.number("rss_after");
        assert_eq!(said.number("rss_diff"), difference);
        // Every second object of the arenas lives, so no page is free.
        let is_kept = cause == "arenas";
        assert!(is_kept || difference > 48.0 * MIB, "{cause}: {said:?}");
        assert!(said.number("stopped_ms") > 0.0);
        assert!(said.text("message").starts_with("malloc_trim on thread "), "{said:?}");
        // The program's own books still hold, and its own trim finds nothing more.
        keeping.trim();
        assert!(keeping.said("uordblks ") > 0.0);
        assert!(keeping.rss() > said.number("rss_after") - 4.0 * MIB);
    }
}

#[test]
fn trim_text_names_bytes_time_thread() {
    let scratch = Scratch::new();
    let waiting = Waiting::plain("read");
    let text = finish(ramson(&scratch).args(["trim", &waiting.pid().to_string()])).good().text();
    let [first, second] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(first.contains("MiB returned in "), "{text}");
    assert!(second.starts_with("malloc_trim on thread "), "{text}");
    assert!(second.contains("which was stopped for "), "{text}");
}

#[test]
fn nothing_to_return_stops_no_process() {
    let scratch = Scratch::new();
    let waiting = Waiting::plain("read");
    let pid = waiting.pid().to_string();
    finish(ramson(&scratch).args(["trim", &pid])).good();
    let again = finish(ramson(&scratch).args(["trim", &pid]));
    assert_eq!((again.status, again.text().as_str()), (1, ""), "{again:?}");
    let why = "malloc has no free page that a trim would return. \"ramson trim --force ";
    assert!(again.remarks[0].contains(why), "{again:?}");
    assert!(trim(&scratch, waiting.pid()).number("stopped_ms") > 0.0);
}

#[test]
fn hardly_anything_to_return_stops_no_process() {
    let scratch = Scratch::new();
    // Too much to be read: that nothing is free as a whole page is known from a part of it.
    let keeping = Keeping::plain(&scratch, &["scattered", "600"]);
    let pid = keeping.pid().to_string();
    let said = finish(ramson(&scratch).args(["trim", &pid]));
    assert_eq!((said.status, said.text().as_str()), (1, ""), "{said:?}");
    let why = "malloc has hardly a free page that a trim would return. \"ramson trim --force ";
    assert!(said.remarks[0].contains(why), "{said:?}");
}

#[test]
fn polling_thread_keeps_waiting_after_trim() {
    let scratch = Scratch::new();
    for how in ["poll", "ppoll", "select", "epoll", "semaphore", "condition"] {
        let mut waiting = Waiting::plain(how);
        for _ in 0..2 {
            waiting.until_it_waits();
            let said = trim(&scratch, waiting.pid());
            assert!(said.number("rss_diff") > KEPT, "{how}: {said:?}");
            if how == "poll" {
                // The rest of its time is the kernel's to know.
                waiting.until_it_waits_in(&[RESTART]);
            }
            let is_count = ["poll", "ppoll", "select", "epoll"].contains(&how);
            assert_eq!(waiting.release(""), i64::from(is_count), "{how}");
            waiting.talking.expect("ready");
        }
    }
}

#[test]
fn interrupted_waits_resume_after_trim() {
    let scratch = Scratch::new();
    let first_byte_of_message = i64::from(b'a');
    let cases = [
        ("pause", -EINTR),
        ("msgrcv", first_byte_of_message),
        ("flock", 0),
        ("recvmmsg", 1),
        ("semop", 0),
        ("semtimedop", 0),
    ];
    let with_rings = has_rings().then_some(("io_uring", 1));
    for (how, result) in cases.into_iter().chain(with_rings) {
        let mut waiting = Waiting::plain(how);
        for _ in 0..2 {
            waiting.until_it_waits();
            let said = trim(&scratch, waiting.pid());
            assert!(said.number("rss_diff") > KEPT, "{how}: {said:?}");
            assert!(
                said.text("message").contains(&format!("thread {} ", waiting.pid())),
                "{said:?}"
            );
            assert_eq!(waiting.release(""), result, "{how}");
            waiting.talking.expect("ready");
        }
    }
}

/// Whether the kernel has io_uring for us; says so if not.
fn has_rings() -> bool {
    let has = finish(clean(program("rings.c")).stdin(Stdio::null())).status == 0;
    if !has {
        println!("io_uring is not available here: waits in it were not tried");
    }
    has
}

#[test]
fn trim_preserves_registers_and_errno() {
    let scratch = Scratch::new();
    let mut waiting = Waiting::plain("read");
    waiting.until_it_waits();
    assert!(trim(&scratch, waiting.pid()).number("rss_diff") > KEPT);
    // −1000: a register differs; −2000: errno does.
    assert_eq!(waiting.release(""), 1);
    // Locked pages cannot be given back, which sets errno in malloc_trim.
    let mut waiting = Waiting::plain("locked");
    waiting.until_it_waits();
    trim(&scratch, waiting.pid());
    assert_eq!(waiting.release(""), 1);
}

#[test]
fn signal_still_ends_wait_after_trim() {
    let scratch = Scratch::new();
    let cases = [
        ("epoll-none", "USR1", -EINTR),
        ("nanosleep", "USR1", -EINTR),
        ("msgrcv", "USR1", -EINTR),
        ("flock", "USR1", -EINTR),
        ("recvmmsg", "USR1", -EINTR),
        ("semop", "USR1", -EINTR),
        ("sigtimedwait", "USR2", SIGUSR2),
    ];
    for (how, signal, result) in cases {
        let waiting = Waiting::plain(how);
        waiting.until_it_waits();
        assert!(trim(&scratch, waiting.pid()).number("rss_diff") > KEPT, "{how}");
        if how == "nanosleep" {
            waiting.until_it_waits_in(&[RESTART]);
        }
        waiting.talking.running.signal(signal);
        assert_eq!(waiting.talking.expect(how), result, "{how}");
    }
}

#[test]
fn allocating_threads_compute_same_under_trims() {
    let scratch = Scratch::new();
    let plain = finish(clean(program("waits.c")).arg("torture")).good().text();
    let log = scratch.path("torture");
    let mut trims = 0;
    let start = Instant::now();
    // On a busy machine it may be over before ramson has begun.
    while trims == 0 {
        let _ = fs::remove_file(&log);
        let mut command = clean(program("waits.c"));
        let is_ready = || fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"));
        let mut running = Running::start(command.arg("torture"), &log, is_ready);
        while running.0.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < MOST_TIME, "it does not end, or is never trimmed");
            let pid = running.0.id().to_string();
            let outcome = finish(ramson(&scratch).args(["trim", "--force", &pid]));
            trims += i32::from(outcome.status == 0);
            // It may end at any moment.
            let is_explained = outcome.status == 0 || outcome.remarks.len() == 1;
            assert!(is_explained, "{outcome:?}");
        }
        assert!(running.wait().success());
        assert_eq!(fs::read_to_string(&log).unwrap(), plain);
    }
}

#[test]
fn first_thread_is_borrowed_beside_small_stacks() {
    let scratch = Scratch::new();
    let talking = Talking::start(clean(program("pauses.c")).arg("crowded"));
    assert_eq!(talking.expect("ready"), 0);
    let said = trim(&scratch, talking.pid());
    assert!(said.text("message").starts_with("malloc_trim"), "{said:?}");
}

#[test]
fn computing_thread_is_borrowed_for_trim() {
    let scratch = Scratch::new();
    for (how, trims) in [("compute", 5), ("computes", 10)] {
        let mut talking = Talking::start(clean(program("waits.c")).arg(how));
        assert_eq!(talking.expect("ready"), 0);
        assert!(trim(&scratch, talking.pid()).number("rss_diff") > KEPT, "{how}");
        for _ in 1..trims {
            let said = trim(&scratch, talking.pid());
            assert!(said.text("message").starts_with("malloc_trim"), "{said:?}");
        }
        talking.running.signal("USR1");
        assert_eq!(talking.expect("wrong"), 0, "{how}");
        assert!(talking.running.wait().success());
    }
}

#[test]
fn allocating_signal_handler_never_deadlocks_trim() {
    let scratch = Scratch::new();
    let mut waiting = Waiting::plain("timer");
    assert!(trim(&scratch, waiting.pid()).number("rss_diff") > KEPT);
    for _ in 0..10 {
        trim(&scratch, waiting.pid());
    }
    waiting.talking.tell("");
    assert_eq!(waiting.talking.expect("ticks"), 1);
    assert!(waiting.talking.running.wait().success());
}

#[test]
fn killed_trim_leaves_program_unharmed() {
    let scratch = Scratch::new();
    let mut waiting = Waiting::plain("poll");
    let status = format!("/proc/{}/status", waiting.pid());
    let field = |name: &str| {
        let text = fs::read_to_string(&status).unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    };
    let blocked = field("SigBlk:");
    let mut killed = 0;
    let mut round = 0;
    let start = Instant::now();
    while killed < 10 {
        assert!(start.elapsed() < MOST_TIME, "it is never killed in the middle");
        waiting.until_it_waits();
        let pid = waiting.pid().to_string();
        let mut command = ramson(&scratch);
        command.args(["trim", "--force", &pid]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut trimming = Running(command.process_group(0).spawn().unwrap());
        while field("TracerPid:") == "0" && trimming.0.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < MOST_TIME, "it is never traced");
        }
        // Over the time that the thread is traced, early and late.
        sleep(Duration::from_micros(400 * (round % 10)));
        round += 1;
        trimming.0.kill().unwrap();
        killed += u32::from(!trimming.wait().success());
        assert_eq!(waiting.release(""), 1);
        waiting.talking.expect("ready");
        assert_eq!(field("SigBlk:"), blocked);
    }
    // And it can still be trimmed.
    waiting.until_it_waits();
    assert!(trim(&scratch, waiting.pid()).number("rss_diff") > KEPT);
    assert_eq!(waiting.release("q"), 1);
    assert!(waiting.talking.running.wait().success());
}

#[test]
fn other_allocators_use_their_own_trim() {
    let scratch = Scratch::new();
    let library = |name: &str| Path::new("/usr/lib/x86_64-linux-gnu").join(name);
    for (name, function) in
        [("libjemalloc.so.2", "mallctl"), ("libtcmalloc.so.4", "MallocExtension_ReleaseFreeMemory")]
    {
        let mut waiting = Waiting::start("read", |command| {
            command.env("LD_PRELOAD", library(name));
        });
        waiting.until_it_waits();
        let said = trim(&scratch, waiting.pid());
        assert!(said.text("message").starts_with(function), "{said:?}");
        assert!(said.number("rss_diff") > KEPT, "{name}: {said:?}");
        assert_eq!(waiting.release(""), 1);
    }
}

#[test]
fn run_trims_and_logs_each_trim() {
    let scratch = Scratch::new();
    let log = scratch.path("trims");
    for flags in [["--trim-every", "50ms"], ["--trim-after", "8M"]] {
        let _ = fs::remove_file(&log);
        let mut command = ramson(&scratch);
        command.args(["run", "--interval", "16K", "--max-overhead", "off"]).args(flags);
        command.arg("--trim-log").arg(&log).arg("--").arg(program("waits.c")).arg("poll");
        let mut talking = Talking::start(&mut command);
        let lines = || fs::read_to_string(&log).unwrap_or_default().lines().count();
        assert_eq!(talking.expect("ready"), 0);
        wait_until("it trims", || lines() > 0);
        let seen = lines();
        // It keeps anew.
        talking.tell("");
        assert_eq!(talking.expect("poll"), 1);
        assert_eq!(talking.expect("ready"), 0);
        wait_until("it trims again", || lines() > seen);
        talking.tell("q");
        assert_eq!(talking.expect("poll"), 1);
        assert_eq!(code(talking.running.wait()), 0);
        let text = fs::read_to_string(&log).unwrap();
        let logged: Vec<Json> = text.lines().map(Json::parse).collect();
        let is_worth_it = |said: &Json| said.number("rss_diff") > 4.0 * MIB;
        assert!(logged.iter().filter(|said| is_worth_it(said)).count() >= 2, "{text}");
        for key in ["period_ms", "elapsed_ms", "stopped_ms", "rss_before", "rss_after"] {
            assert!(logged.iter().all(|said| said.number(key) > 0.0), "{key}: {text}");
        }
    }
}

#[test]
fn redis_and_python_survive_trim() {
    let scratch = Scratch::new();
    let socket = scratch.path("redis.sock");
    let ask = |words: &[&str]| {
        let mut client = clean(installed("redis-cli", "redis-tools"));
        finish(client.arg("-s").arg(&socket).args(words)).good().text()
    };
    // Debian's redis is on jemalloc; with the C library in front, on that.
    for (allocator, function) in [(None, "mallctl"), (Some("libc.so.6"), "malloc_trim")] {
        let mut command = clean(installed("redis-server", "redis-server"));
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
        allocator.iter().for_each(|library| {
            command.env("LD_PRELOAD", library);
        });
        let log = scratch.path(function);
        let mut server = Running::start(&mut command, &log, || accepts(&socket));
        // All but a few of what is set goes again.
        let script = "for i = 1, 60000 do redis.call('SET', 'key:' .. i, string.rep('x', 1100)) end \
            for i = 1, 60000 do if i % 1000 ~= 0 then redis.call('DEL', 'key:' .. i) end end";
        ask(&["EVAL", script, "0"]);
        let said = trim(&scratch, server.0.id());
        assert!(said.text("message").starts_with(function), "{said:?}");
        // jemalloc gives some back by itself.
        assert!(allocator.is_none() || said.number("rss_diff") > KEPT, "{said:?}");
        assert_eq!(ask(&["DBSIZE"]), "60\n");
        assert_eq!(ask(&["STRLEN", "key:7000"]), "1100\n");
        server.signal("TERM");
        assert!(server.wait().success());
    }
    let script = "import sys; a = [b'%d' % i * 300 for i in range(40000)]; b = a[::1000]; del a; print('ready 0', flush=True); \
        sys.stdin.readline(); print('sum', sum(map(sum, b)), flush=True)";
    let sum = |trims: bool| {
        let mut command = clean(python());
        command.args(["-c", script]).env("PYTHONMALLOC", "malloc");
        let mut talking = Talking::start(&mut command);
        assert_eq!(talking.expect("ready"), 0);
        if trims {
            assert!(trim(&scratch, talking.pid()).number("rss_diff") > KEPT / 2.0);
        }
        talking.tell("");
        let sum = talking.line();
        assert!(talking.running.wait().success());
        sum
    };
    assert_eq!(sum(true), sum(false));
}
