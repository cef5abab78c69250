//! `ramson run` stands between a program and whoever started it: the program is started as without it, hears the same signals, and ends the same.

use ramson_tests::servers::*;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// bash with this script, in which `$R` is `ramson run --interval 1 --` or nothing.
fn shell(scratch: &Scratch, is_under_ramson: bool, script: &str) -> Command {
    let mut bash = clean("bash");
    bash.args(["-c", script]);
    let mut command = with_default_signals(&bash);
    let ramson = ramson(scratch);
    command.envs(ramson.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if is_under_ramson {
        command.env("R", format!("{} run --interval 1 --", ramson_program().display()));
    }
    command
}

/// Runs the script without and with ramson, and returns both outcomes.
fn both(script: &str) -> [Outcome; 2] {
    let scratch = Scratch::new();
    [false, true].map(|is_under_ramson| finish(&mut shell(&scratch, is_under_ramson, script)))
}

fn perl(code: &str) -> String {
    format!("perl -MPOSIX -e '{code}'")
}

#[test]
fn signal_masks_and_descriptors_are_inherited() {
    let block = perl("sigprocmask(SIG_BLOCK, POSIX::SigSet->new(10, 14, 40)); exec @ARGV");
    for (begin, name, value) in [
        ("true;", "SigIgn", "0000000"),
        // As systemd, nohup, a shell in a script and a daemon start programs.
        ("trap '' PIPE;", "SigIgn", "0001000"),
        ("trap '' HUP;", "SigIgn", "0000001"),
        ("trap '' INT QUIT;", "SigIgn", "0000006"),
        ("trap '' XFSZ USR1 TERM;", "SigIgn", "1004200"),
        (&perl("$SIG{CHLD} = q(IGNORE); exec @ARGV"), "SigIgn", "0010000"),
        (&block, "SigBlk", "8000002200"),
        ("exec 0<&-;", "no", "0"),
        ("exec 0<&- 2>&-;", "no", "2"),
    ] {
        let look = match name {
            "no" => {
                "sh -c 'for n in 0 1 2; do [ -e /proc/self/fd/$n ] || echo no $n; done; exit 7'"
            }
            // Signals 32 and 33 are the C library's own: it makes of them what it likes when a thread is made.
            _ => "grep -E 'Sig(Blk|Ign)' /proc/self/status | sed 's/Ign:.[0-9a-f]\\{8\\}/Ign:/'",
        };
        let [plain, under] = both(&format!("{begin} $R {look}"));
        let text = plain.text();
        let is_it = |line: &str| line.starts_with(name) && line.ends_with(value);
        assert!(text.lines().any(is_it), "{begin} {text}");
        assert_eq!(plain.essence(), under.essence(), "{begin} {under:?}");
    }
}

#[test]
fn script_without_shebang_uses_sh() {
    let scratch = Scratch::new();
    for text in ["echo \"$0 $1 $#\"; exit 6", ""] {
        let script = scratch.file("script", text);
        finish(clean("chmod").arg("755").arg(&script)).good();
        // As env(1) does; a shell would run it itself.
        let [plain, under] = both(&format!("env -- $R {} one 'two three'", script.display()));
        assert_eq!(plain.text().contains("script one 2"), !text.is_empty(), "{plain:?}");
        assert_eq!(plain.essence(), under.essence(), "{under:?}");
    }
}

#[test]
fn unexecutable_file_keeps_its_status() {
    let scratch = Scratch::new();
    scratch.file("plain", "exit 4");
    scratch.open_directory("directory");
    let here = scratch.path("");
    for (name, status) in
        [("plain", 126), ("./plain/", 126), ("directory", 126), ("./directory", 126), ("no", 127)]
    {
        let start = format!("cd {}; PATH=$PWD:$PATH /usr/bin/env -- $R {name}", here.display());
        let [plain, under] = both(&start);
        assert_eq!((plain.status, under.status), (status, status), "{name}: {under:?}");
        assert_eq!(under.remarks.len(), 1, "{under:?}");
    }
}

#[test]
fn environment_keeps_its_order() {
    let own = "grep -vz -e ^LD_PRELOAD= -e ^RAMSON_ -e ^ASAN_OPTIONS= -e ^R= -e ^_= /proc/self/environ | tr '\\0' '\\n'";
    let [plain, under] = both(&format!("export Z=1 B= A=2; $R sh -c \"{own}\""));
    assert!(plain.text().contains("A=2\n") && plain.text().contains("B=\n"), "{plain:?}");
    assert_eq!(plain.essence(), under.essence());
}

#[test]
fn every_signal_reaches_the_program() {
    const SIGNALS: [&str; 17] = [
        "1", "6", "10", "12", "14", "15", "16", "18", "24", "26", "27", "28", "29", "30", "34",
        "40", "64",
    ];
    let scratch = Scratch::new();
    // A program that asks for them hears what was ignored or blocked at its start.
    let start =
        "$SIG{HUP} = q(IGNORE); sigprocmask(SIG_BLOCK, POSIX::SigSet->new(12, 15)); exec @ARGV";
    let hear = "my $n = $_; sigaction($n, POSIX::SigAction->new(sub { print qq(<$n>); exit 9 if $n == 64 }))";
    let program = format!(
        "$| = 1; for (qw({})) {{ {hear} }} sigprocmask(SIG_UNBLOCK, POSIX::SigSet->new(12, 15)); print q(ready); sleep 1 for 1..600",
        SIGNALS.join(" ")
    );
    let script = format!("exec {} $R {}", perl(start), perl(&program));
    let log = scratch.path("log");
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let mut command = shell(&scratch, true, &script);
    let mut running = Running::start(&mut command, &log, || said().contains("ready"));
    for signal in SIGNALS {
        running.signal(signal);
        wait_until(signal, || said().contains(&format!("<{signal}>")));
    }
    assert_eq!(code(running.wait()), 9);
    assert_eq!(said().matches('<').count(), SIGNALS.len(), "{}", said());
}

/// A perl program that prints the signals that it hears, INT, QUIT and USR2, until it is told to end by TERM.
fn hearing(before: &str) -> String {
    let hear = "my $n = $_; sigaction($n, POSIX::SigAction->new(sub { print qq(<$n>) }))";
    let end = "$SIG{TERM} = sub { exit 9 }";
    perl(&format!(
        "$| = 1; for (2, 3, 12) {{ {hear} }} {end}; {before}; print q(ready); sleep 1 for 1..600"
    ))
}

#[test]
fn lone_sigint_reaches_the_program() {
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let said = || fs::read_to_string(&log).unwrap_or_default();
    // USR2 from the program itself does not come back.
    let script = format!("exec $R {}", hearing("kill 12, getppid"));
    let mut running =
        Running::start(&mut shell(&scratch, true, &script), &log, || said().contains("ready"));
    for name in ["2", "3", "12"] {
        running.signal(name);
        wait_until(name, || said().contains(&format!("<{name}>")));
    }
    assert_eq!(said(), "ready<2><3><12>");
    running.signal("TERM");
    assert_eq!(code(running.wait()), 9);
}

#[test]
fn group_sigint_comes_once() {
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let script = format!("exec $R {}", hearing(""));
    let mut running =
        Running::start(&mut shell(&scratch, true, &script), &log, || said().contains("ready"));
    let group = format!("-{}", running.0.id());
    for name in ["2", "3"] {
        finish(clean("kill").args(["-s", name, "--", &group])).good();
        wait_until(name, || said().contains(&format!("<{name}>")));
        // This one tells that ramson has looked at the first. One to ramson alone that comes right behind would count as part of it.
        running.signal("12");
        wait_until("12", || said().matches("<12>").count() == 1);
        thread::sleep(Duration::from_millis(100));
        running.signal(name);
        wait_until(name, || said().matches(&format!("<{name}>")).count() == 2);
        fs::write(&log, "").unwrap();
    }
    running.signal("TERM");
    assert_eq!(code(running.wait()), 9);
}

#[test]
fn container_init_hears_lone_sigint() {
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let script = format!("exec {} $R {}", container(), hearing(""));
    let mut running =
        Running::start(&mut shell(&scratch, true, &script), &log, || said().contains("ready"));
    let children = format!("/proc/{0}/task/{0}/children", running.0.id());
    let first = fs::read_to_string(children).unwrap().trim().parse().unwrap();
    for name in ["2", "3"] {
        signal(first, name);
        wait_until(name, || said().contains(&format!("<{name}>")));
    }
    signal(first, "TERM");
    assert_eq!(code(running.wait()), 9);
}

/// Runs what follows as the first process of a PID namespace.
fn container() -> String {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let user = if is_root { "" } else { "--user --map-root-user" };
    let unshare = installed("unshare", "util-linux");
    format!("{} {user} --pid --fork --mount-proc", unshare.display())
}

#[test]
fn pipes_and_locks_belong_to_program() {
    let scratch = Scratch::new();
    let lock = scratch.path("lock");
    let program = "exec sleep 600 0<&- 1>&- 9>&-";
    let script = format!(
        "exec 9>{0}; flock 9; mkfifo {0}.in; yes > {0}.in & $R sh -c '{program}' < {0}.in & exec 9>&-; wait %1; echo $?; flock {0} true; kill $!",
        lock.display()
    );
    for is_under_ramson in [false, true] {
        let outcome = finish(&mut shell(&scratch, is_under_ramson, &script));
        assert_eq!(outcome.text(), format!("{}\n", 128 + 13), "{outcome:?}");
        fs::remove_file(scratch.path("lock.in")).unwrap();
    }
}

#[test]
fn process_limit_forces_plain_exec() {
    let scratch = Scratch::new();
    for limit in 1..5 {
        let mut run = ramson(&scratch);
        run.args(["run", "--", "sh", "-c", "exit 7"]);
        let user = as_user("daemon", &scratch, &run);
        let mut limited = clean(installed("prlimit", "util-linux"));
        limited.arg(format!("--nproc={limit}")).arg(user.get_program()).args(user.get_args());
        limited.envs(user.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let outcome = finish(limited.current_dir("/"));
        assert_eq!(outcome.status, 7, "{limit}: {outcome:?}");
    }
}

/// Types Ctrl-C at a program on a terminal of its own, sends SIGINT to what the shell started, and types a line; how often the program heard it,
/// and its status.
const TERMINAL: &str = r#"
import os, pty, signal, time
signal.alarm(60)
pid, fd = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", os.environ["SCRIPT"]])
seen = b""
def until(word):
    global seen
    while word not in seen:
        seen += os.read(fd, 999)
until(b"ready")
os.write(fd, b"\x03")
until(b"interrupted")
time.sleep(0.3)
with open(f"/proc/{pid}/task/{pid}/children") as children:
    os.kill(int(children.read().split()[0]), 2)
until(b"interruptedinterrupted")
time.sleep(0.3)
os.write(fd, b"\n")
try:
    until(b"never")
except OSError:
    pass
print(seen.count(b"interrupted"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn the_keyboard_s_signals_come_once() {
    let scratch = Scratch::new();
    // Perl has a handler run between two operations: it waits in many short ones, so that a signal that comes before one of them is handled, too.
    let code = "$SIG{INT} = sub { print qq(interrupted) }; vec($in, 0, 1) = 1; print qq(ready); \
        1 until select($r = $in, undef, undef, 0.05) > 0; sysread STDIN, $_, 9; exit 8";
    let program = perl(&format!("$| = 1; {code}"));
    for is_under_ramson in [false, true] {
        let mut command = shell(&scratch, is_under_ramson, "exec python3 -");
        command.env("SCRIPT", format!("trap : INT; $R {program}; exit $?"));
        let outcome = finish_with(&mut command, TERMINAL.as_bytes()).good();
        assert_eq!(outcome.text(), "2 8\n", "{is_under_ramson}: {outcome:?}");
    }
}

#[test]
fn ramson_ends_by_the_same_signal() {
    let scratch = Scratch::new();
    for signal in [1, 2, 6, 9, 11, 14, 15, 31, 40] {
        let cores = format!("cd {}; ulimit -c unlimited;", scratch.path("").display());
        let script = format!("{cores} exec $R sh -c 'kill -{signal} $$'");
        let mut command = shell(&scratch, true, &script);
        let status = command.stderr(Stdio::null()).status().unwrap();
        assert_eq!((status.signal(), status.core_dumped()), (Some(signal), false), "{status}");
    }
    let alarm = perl("alarm 1; exec @ARGV");
    let outcomes = both(&format!("exec {alarm} $R sleep 60"));
    assert_eq!(outcomes.map(|outcome| outcome.status), [128 + 14; 2]);
}

#[test]
fn unwritable_stderr_changes_no_status() {
    let scratch = Scratch::new();
    let log = scratch.file("log", "");
    let limited = format!("ulimit -f 0; exec 2>{};", log.display());
    for begin in ["exec 2>/dev/full;", "exec 2>&-;", &limited] {
        for outcome in both(&format!("{begin} $R sh -c 'exit 7'")) {
            assert_eq!(outcome.status, 7, "{begin} {outcome:?}");
        }
    }
    // A reader says that it may not write.
    let script = format!("ulimit -f 0; {} man > {}", ramson_program().display(), log.display());
    let outcome = finish(&mut shell(&scratch, true, &script));
    assert!(outcome.status == 1 && outcome.remarks[0].contains("too large"), "{outcome:?}");
}

#[test]
fn container_init_reaps_orphans() {
    let orphans = "for n in 1 2 3 4; do sh -c \"sleep 0.1 & exit 0\"; done; sleep 0.5; grep -sl \"^State:.Z\" /proc/[0-9]*/status; exit 7";
    for outcome in both(&format!("{} $R sh -c '{orphans}'", container())) {
        assert_eq!(outcome.essence(), (7, String::new(), String::new()), "{outcome:?}");
    }
}

#[test]
fn systemd_addressed_program_keeps_its_id() {
    let program = "echo $LISTEN_PID $WATCHDOG_PID $SYSTEMD_EXEC_PID = $$; kill -TERM $$";
    for names in ["LISTEN_PID", "WATCHDOG_PID", "NOTIFY_SOCKET=x SYSTEMD_EXEC_PID"] {
        for outcome in both(&format!("export {names}=$$; exec $R sh -c '{program}'")) {
            let said = outcome.text();
            let (told, own) = said.trim().split_once(" = ").unwrap();
            assert_eq!((told, outcome.status), (own, 128 + 15), "{outcome:?}");
        }
    }
    // With others ramson stays, and tells how it ended.
    let [_, under] = both("export LISTEN_PID=1 NOTIFY_SOCKET=x; exec $R bash -c 'kill -TERM $$'");
    assert!(under.remarks.iter().any(|remark| remark.contains("SIGTERM")), "{under:?}");
}

#[test]
fn fifo_among_profiles_blocks_nobody() {
    let scratch = Scratch::new();
    let fifos = "mkfifo $RAMSON_DIR/1-1.ramson $RAMSON_DIR/mine.9";
    let run = format!("{} run -o $RAMSON_DIR/mine", ramson_program().display());
    let outcome = finish(&mut shell(&scratch, true, &format!("{fifos}; {run} sh -c 'exit 7'")));
    assert_eq!(outcome.status, 7, "{outcome:?}");
    let listed = finish(ramson(&scratch).args(["list", "-n", "0"])).good();
    assert!(!listed.text().contains("/1-1.ramson"), "{listed:?}");
}
