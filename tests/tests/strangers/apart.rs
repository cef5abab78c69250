//! Workers read the files of other users. The tests check whose rights workers have, what they may take, and that honest files are read as
//! ever.

use ramson_format::{PAGE_BYTES, REGION_KINDS, RegionKind};
use ramson_tests::forged::*;
use ramson_tests::preload;
use ramson_tests::recorded::Recorded;
use ramson_tests::servers::*;
use ramson_tests::strangers::as_stranger;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A C++ program with debug information that has run under the library, and its profile.
fn recorded(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let (program, profile) = (scratch.path("names"), scratch.path("names.ramson"));
    let mut compiler = clean(installed("g++", "g++"));
    compiler.args(["-g", "-O1", "-Wl,--build-id", "-o"]).arg(&program).arg(real("names.cc"));
    finish(&mut compiler).good();
    let mut command = clean(&program);
    preload(&mut command, "1").env("RAMSON_KEEP", "1").env("RAMSON_OUTPUT", &profile);
    finish(&mut command).good();
    (program, profile)
}

#[track_caller]
fn text_of(scratch: &Scratch, arguments: &[&str]) -> String {
    let mut command = ramson(scratch);
    // The cache directory is a new one, because what was learned of one's own files must not help.
    command.env("XDG_CACHE_HOME", scratch.path("no-cache"));
    let text = finish(command.args(arguments)).good().text();
    fs::remove_dir_all(scratch.path("no-cache")).ok();
    text
}

#[test]
fn foreign_files_give_the_same_reports() {
    let scratch = Scratch::new();
    let (program, profile) = recorded(&scratch);
    let own = profile.to_str().unwrap();
    let mut files = vec![own.to_owned()];
    for (format, name) in [("pprof", "a.pb.gz"), ("collapsed", "a.folded")] {
        let path = scratch.path(name).to_str().unwrap().to_owned();
        finish(ramson(&scratch).args(["export", own, "-f", format, "-o", &path])).good();
        files.push(path);
    }
    let reports = || {
        let report = |file: &String| {
            ["functions", "lines", "tree"]
                .map(|view| text_of(&scratch, &["report", file, "--view", view]))
        };
        files.iter().map(report).collect::<Vec<_>>()
    };
    let before = reports();
    assert!(before[0][1].contains("names.cc:"), "{}", before[0][1]);
    let budget = |file: &String| {
        text_of(&scratch, &["report", file, "--view", "functions", "--budget", "2G,60s"])
    };
    assert_eq!(
        files.iter().map(budget).collect::<Vec<_>>(),
        before.iter().map(|it| it[0].clone()).collect::<Vec<_>>()
    );
    for path in files.iter().map(Path::new).chain([program.as_path()]) {
        give(path, STRANGER);
    }
    assert_eq!(reports(), before);
}

#[test]
fn worker_never_outlives_the_command() {
    // PR_SET_CHILD_SUBREAPER
    const ADOPTS: &str = "import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print('no child')";
    let scratch = Scratch::new();
    let (_, profile) = recorded(&scratch);
    give(&profile, STRANGER);
    let mut adopting = clean(installed("python3", "python3"));
    let command = ramson(&scratch);
    adopting.args(["-c", ADOPTS]).arg(command.get_program()).arg("report").arg(&profile);
    assert_eq!(finish(&mut adopting).good().text(), "no child\n");
}

#[test]
fn foreign_profile_asks_no_debuginfod() {
    let scratch = Scratch::new();
    let (program, profile) = recorded(&scratch);
    finish(clean(installed("strip", "binutils")).arg(&program)).good();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    thread::spawn(move || {
        for client in server.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            let mut client = client.unwrap();
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for (owner, is_asked) in [(STRANGER, false), (0, true)] {
        give(&profile, owner);
        let mut command = ramson(&scratch);
        command.env("XDG_CACHE_HOME", scratch.path("cache")).env("DEBUGINFOD_URLS", &url);
        finish(command.arg("report").arg(&profile).arg("--debuginfod")).good();
        assert_eq!(asked.load(Ordering::SeqCst) > 0, is_asked, "of user {owner}");
    }
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|&child| line(child, "PPid").as_deref() == Some(&pid.to_string())).collect()
}

/// A line of /proc/PID/status, with single spaces.
fn line(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// `ramson` that has read a stranger's profile, and waits for another file; and its worker.
fn waiting(scratch: &Scratch) -> (Running, u32) {
    let forged = scratch.path("forged.ramson");
    Forged::new(999_999).write(&forged, 64 << 10);
    give(&forged, STRANGER);
    let fifo = scratch.path("fifo");
    finish(clean("mkfifo").arg(&fifo)).good();
    let mut command = ramson(scratch);
    command.arg("diff").arg(forged).arg(fifo);
    // A descriptor that it inherits, and should not pass on.
    let mut opens = clean("sh");
    opens
        .args(["-c", "exec 9</etc/passwd; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    opens.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let running = Running::start(&mut opens, &scratch.path("log"), || true);
    let worker = || {
        children(running.0.id())
            .into_iter()
            .find(|&child| line(child, "Seccomp").as_deref() == Some("2"))
    };
    wait_until("a worker has given up its rights", || worker().is_some());
    let worker = worker().unwrap();
    (running, worker)
}

#[test]
fn worker_has_no_user_or_rights() {
    let scratch = Scratch::new();
    let (_running, worker) = waiting(&scratch);
    let is = |name: &str| line(worker, name).unwrap_or_else(|| panic!("{name}"));
    let own = STRANGER + (1 << 31);
    // Files are opened as the owner.
    assert_eq!(is("Uid"), format!("{own} {own} {own} {STRANGER}"));
    assert_eq!(is("Gid"), format!("{own} {own} {own} {own}"));
    assert_eq!(is("Groups"), "");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(is(set), "0000000000000000", "{set}");
    }
    assert_eq!([is("NoNewPrivs"), is("Seccomp")], ["1", "2"]);
    let limits = fs::read_to_string(format!("/proc/{worker}/limits")).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max address space")).unwrap();
    let bytes: u64 = limit.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!((512 << 20..700 << 20).contains(&bytes), "{limit}");
    // Neither a core nor /proc is any user's.
    assert_eq!(fs::metadata(format!("/proc/{worker}/environ")).unwrap().uid(), 0);
    let environment = fs::read(format!("/proc/{worker}/environ")).unwrap();
    assert_eq!(environment, b"MALLOC_ARENA_MAX=1\0");
    // Its socket, once more; what ramson was started with is closed.
    let open = fs::read_dir(format!("/proc/{worker}/fd")).unwrap().flatten();
    let mut open: Vec<_> = open.map(|entry| fs::read_link(entry.path()).unwrap()).collect();
    open.sort();
    open.dedup();
    // The first is /proc, as a mount of its own.
    let [proc, null, socket] = &open[..] else { panic!("{open:?}") };
    assert_eq!([proc, null], [Path::new("/"), Path::new("/dev/null")]);
    assert!(socket.to_str().unwrap().starts_with("socket:"), "{open:?}");
}

#[test]
fn the_owner_cannot_trace_a_worker() {
    let scratch = Scratch::new();
    let (_running, worker) = waiting(&scratch);
    let mut sleeps = as_stranger(clean("sleep").arg("60"));
    let own = Running::start(&mut sleeps, &scratch.path("sleeps"), || true);
    wait_until("the stranger's process runs", || {
        line(own.0.id(), "Uid").is_some_and(|ids| ids.starts_with("1501 "))
    });
    let seize = "import ctypes, os, sys\n\
                 libc = ctypes.CDLL(None, use_errno=True)\n\
                 for pid in sys.argv[1:]:\n    \
                     done = libc.ptrace(0x4206, int(pid), 0, 0)\n    \
                     print(os.strerror(ctypes.get_errno()) if done else 'seized')\n    \
                     try: print(len(open(f'/proc/{pid}/environ', 'rb').read()) >= 0)\n    \
                     except OSError as error: print(error.strerror)\n";
    let mut python = clean(python());
    python.args(["-c", seize, &worker.to_string(), &own.0.id().to_string()]);
    let said = finish(&mut as_stranger(&python)).good().text();
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said[..2], ["Operation not permitted", "Permission denied"]);
    // It may look at its own; whether it may trace them depends on the machine.
    assert_eq!(said[3], "True", "{said:?}");
}

#[test]
fn owner_cannot_hinder_a_worker() {
    let scratch = Scratch::new();
    let (_running, worker) = waiting(&scratch);
    let attempts = "import os, resource, signal, sys\n\
        pid = int(sys.argv[1])\n\
        def tell(attempt):\n    \
            try: print(attempt() or 'done')\n    \
            except PermissionError: print('refused')\n\
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL, 0): tell(lambda: os.kill(pid, number))\n\
        tell(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))\n\
        tell(lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))\n\
        tell(lambda: os.sched_setaffinity(pid, {0}))\n\
        tell(lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)))\n\
        tell(lambda: open(f'/proc/{pid}/oom_score_adj', 'w').write('1000'))\n";
    let mut python = clean(python());
    python.args(["-c", attempts, &worker.to_string()]);
    let said = finish(&mut as_stranger(&python)).good().text();
    assert_eq!(said.lines().collect::<Vec<_>>(), ["refused"; 9]);
    assert!(line(worker, "State").is_some_and(|state| state.starts_with('S')));
}

/// A small profile whose mappings all have the same path, which is as long as one may be; given to the stranger.
fn large(path: &Path) {
    const COUNT: u64 = 8_000;
    const PATH_BYTES: u32 = 4096;
    let mut forged = Forged::new(999_999);
    REGION_KINDS.into_iter().for_each(|kind| forged.place(kind, 60 << 20, 0));
    forged.place(RegionKind::Mappings, 64 << 10, COUNT);
    forged.place(RegionKind::Strings, 32 << 20, PATH_BYTES.into());
    let file = forged.write(path, 64 << 20);
    let mapping = |at: u64| forged_mapping(at * PAGE_BYTES, PATH_BYTES);
    let entries: Vec<u8> = (0..COUNT).flat_map(mapping).collect();
    file.write_all_at(&entries, 64 << 10).unwrap();
    file.write_all_at(&[b'x'; PATH_BYTES as usize], 32 << 20).unwrap();
    give(path, STRANGER);
}

#[test]
fn over_budget_input_is_one_line() {
    let scratch = Scratch::new();
    let (_, profile) = recorded(&scratch);
    let directory = scratch.open_directory("profiles");
    copy(&profile, &directory.join("1-1.ramson"));
    let path = directory.join("2-2.ramson");
    large(&path);
    let path = path.to_str().unwrap();
    let (memory, finding) = ("32M,60s", "reading it takes more than the 32 MiB of memory allowed");
    let line = |path: &str, finding: &str| {
        format!(
            "ramson: {path}: {finding}. Allow more memory and time for each input, as in --budget 2G,60s\n"
        )
    };
    let report = finish(ramson(&scratch).args(["report", path, "--budget", memory]));
    assert_eq!((report.status, report.remarks.len()), (1, 1), "{}", report.text());
    assert_eq!(report.remarks[0], line(path, finding));
    let list = finish(ramson(&scratch).args(["list", "--budget", memory])).good();
    assert!(list.text().contains("/1-1.ramson"), "{list:?}");
    assert!(list.remarks.iter().any(|line| line.contains(finding)), "{list:?}");
    let json = finish(ramson(&scratch).args(["list", "--json", "--budget", memory])).good();
    // The list is of the whole machine.
    let unreadable = json.text().matches(&format!("\"{path}: ")).count();
    assert_eq!(unreadable, 1, "{}", json.text());
    finish(ramson(&scratch).args(["report", path])).good();
    // Another tool's file, of so many names that reading it takes far longer than from one look at the worker's time to the next.
    let types = b"\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x05space\x32\x05bytes";
    let foreign = scratch.file("a.pb", [&types[..], &b"\x32\x05aaaaa".repeat(12_000_000)].concat());
    give(&foreign, STRANGER);
    let report = finish(ramson(&scratch).arg("report").arg(&foreign).args(["--budget", "2G,1ms"]));
    assert_eq!((report.status, report.remarks.len()), (1, 1), "{report:?}");
    let finding = "reading it takes more than the 0.001 s allowed";
    assert_eq!(report.remarks[0], line(foreign.to_str().unwrap(), finding));
}

#[test]
fn invalid_budget_is_refused() {
    let scratch = Scratch::new();
    for budget in ["2G", "1K,60s", "60s,2G", "16M,1ns"] {
        let outcome = finish(ramson(&scratch).args(["list", "--budget", budget]));
        assert_eq!(outcome.status, 2, "{outcome:?}");
        assert!(outcome.remarks[0].contains("as in 2G,60s"), "{outcome:?}");
    }
}

#[test]
fn foreign_history_reads_like_own() {
    let recorded = Recorded::new();
    let mut recorder = recorded.record("PID");
    recorded.good("mark PID here");
    recorded.grow(0);
    let history = recorded.database();
    let log = recorded.scratch.path("history/history.db-wal");
    // How long ago it was, in the first line, changes.
    let below_first_line = |words: &str| {
        let report = recorded.good(words);
        report.split_once('\n').unwrap().1.to_owned()
    };
    let marked = || below_first_line("report PID@mark:here --view lines");
    let before = marked();
    assert!(log.metadata().unwrap().len() > 0);
    for file in [&history, &log] {
        give(file, STRANGER);
    }
    // It goes on being written to: which moment is the last one changes.
    for _ in 0..5 {
        assert_eq!(marked(), before);
    }
    // The log stays where its writer is killed.
    recorder.signal("KILL");
    recorder.wait();
    let all = || {
        ["report PID@peak --view lines", "report PID@peak --view tree", "timeline PID --csv"]
            .map(below_first_line)
    };
    let apart = all();
    // Whose log it is counts, too.
    give(&history, 0);
    assert_eq!(all(), apart);
    give(&log, 0);
    assert_eq!(all(), apart);
    give(&history, STRANGER);
    recorded.refused("history PID", 1, "belongs to user 1501");
    // A hostile one is a line.
    fs::write(&log, b"no log").unwrap();
    File::options().write(true).open(&history).unwrap().set_len(1 << 40).unwrap();
    recorded.refused("timeline PID", 1, "more memory or time than allowed");
}
