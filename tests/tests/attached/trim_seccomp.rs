//! `ramson trim` of programs under filters of system calls, and of ramson that is killed in the middle.

use ramson_tests::keeping::MIB;
use ramson_tests::servers::*;
use ramson_tests::trimming::{Talking, refusal, trim};
use ramson_tests::{Random, program};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Least bytes that `confined` keeps.
const KEPT: f64 = 30.0 * MIB;
/// A trim may have got anywhere by then.
const LAST_MOMENT_US: u64 = 40_000;

/// `tests/programs/confined.c`.
struct Confined {
    talking: Talking,
    lines: i64,
}

impl Confined {
    #[track_caller]
    fn start(filter: &str, wait: &str) -> Self {
        assert!(
            rustix::process::getuid().is_root(),
            "filters are for root to read: run this as root"
        );
        let talking = Talking::start(clean(program("confined.c")).args([filter, wait]));
        assert_eq!(talking.expect("alive"), 0);
        let confined = Self { talking, lines: 0 };
        confined.until_it_waits();
        confined
    }

    fn pid(&self) -> u32 {
        self.talking.pid()
    }

    fn status(&self, name: &str) -> String {
        let path = format!("/proc/{}/status", self.pid());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let mut lines =
            status.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        lines.next().unwrap_or_default().trim().to_owned()
    }

    fn until_it_waits(&self) {
        wait_until("it waits", || self.status("State").starts_with('S'));
    }

    /// Fails unless the process lives, is not traced any more, and answers.
    #[track_caller]
    fn assert_unharmed(&mut self, how: &str) {
        wait_until("it is not traced any more", || {
            ["0", ""].contains(&self.status("TracerPid").as_str())
        });
        self.talking.tell("");
        self.lines += 1;
        assert_eq!(self.talking.expect("alive"), self.lines, "{how}");
        assert_eq!(self.status("SigBlk"), "0000000000000000", "{how}");
        self.until_it_waits();
    }
}

fn trim_command(scratch: &Scratch, pid: u32) -> Command {
    let mut command = ramson(scratch);
    command.args(["trim", "--force", &pid.to_string()]);
    command
}

/// How often ramson is stopped in the middle; `KILLS` makes it more.
fn kills() -> u64 {
    let given = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok());
    given.unwrap_or(40)
}

/// Starts ramson again and again, sends it a signal, and looks whether the program is as it was: at a random moment or, every second time, as
/// soon as a thread is borrowed. Says how often one was borrowed then.
#[track_caller]
fn interrupt(confined: &mut Confined, arguments: &[&str], signal: &str, times: u64) -> u64 {
    let scratch = Scratch::new();
    let mut random = Random::new(21);
    let mut hits = 0;
    for round in 0..times {
        let moment = Duration::from_micros(random.below(LAST_MOMENT_US));
        let mut command = trim_command(&scratch, confined.pid());
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        let begin = Instant::now();
        let mut ramson = Running(command.spawn().unwrap());
        let is_borrowed = || !["0", ""].contains(&confined.status("TracerPid").as_str());
        if round % 2 == 0 {
            sleep(moment.saturating_sub(begin.elapsed()));
        } else {
            while !is_borrowed() && ramson.0.try_wait().unwrap().is_none() {}
        }
        if ramson.0.try_wait().unwrap().is_none() {
            hits += u64::from(is_borrowed());
            ramson.signal(signal);
        }
        ramson.wait();
        confined.assert_unharmed(&format!("round {round}, after {moment:?}"));
    }
    hits
}

#[test]
fn tight_filter_refuses_trim() {
    for wait in ["poll", "read"] {
        let scratch = Scratch::new();
        let mut confined = Confined::start("tight", wait);
        let why = refusal(&scratch, confined.pid());
        let name = if wait == "poll" { "restart_syscall" } else { "madvise" };
        assert!(why.contains(&format!("its seccomp filter might kill it for {name}")), "{why}");
        assert!(why.contains("--suspend-seccomp"), "{why}");
        confined.assert_unharmed(wait);
        interrupt(&mut confined, &[], "KILL", kills() / 2);
    }
}

#[test]
fn docker_filter_allows_trim() {
    let scratch = Scratch::new();
    let mut confined = Confined::start("docker", "read");
    assert!(trim(&scratch, confined.pid()).number("rss_diff") > KEPT);
    confined.assert_unharmed("trimmed");
    assert!(interrupt(&mut confined, &[], "KILL", kills()) > 0, "no call was hit");
    assert!(trim(&scratch, confined.pid()).number("rss_diff") > KEPT);
    confined.assert_unharmed("trimmed after all");
}

#[test]
fn suspended_filter_defers_termination() {
    let scratch = Scratch::new();
    let mut confined = Confined::start("tight", "poll");
    let outcome =
        finish(trim_command(&scratch, confined.pid()).args(["--json", "--suspend-seccomp"]));
    assert!(Json::parse(&outcome.good().text()).number("rss_diff") > KEPT);
    confined.assert_unharmed("trimmed");
    for signal in ["INT", "TERM", "HUP"] {
        // Its filter would end the program if ramson ended in the middle.
        let is_hit = |_| interrupt(&mut confined, &["--suspend-seccomp"], signal, kills() / 4) > 0;
        assert!((0..20).any(is_hit), "no call was hit");
    }
}
