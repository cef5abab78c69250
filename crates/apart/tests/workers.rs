//! Workers that are asked for too much, that fail, and that are ended.
//!
//! A worker is this very program: it runs the one test whose name has its argument in it.

use ramson_apart::{
    Apart, Budget, Failure, Handler, Owner, Request, bounds, for_owner, for_process, proc,
    serve_if_asked,
};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Pid, getpid, test_kill_process};
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

const ECHO: u8 = 1;
const ALLOCATE: u8 = 2;
const PANIC: u8 = 4;
const WAIT: u8 = 5;
const FORBIDDEN: u8 = 6;
const NONE: u8 = 7;
const LOOK: u8 = 8;

const MEMORY_BYTES: u64 = 64 << 20;
const TIME: Duration = Duration::from_secs(6);

/// Does what readers should not.
struct Test;

impl Handler for Test {
    fn kinds(&self) -> &'static [u8] {
        &[ECHO, ALLOCATE, PANIC, WAIT, FORBIDDEN, LOOK]
    }

    fn answer(&mut self, kind: u8, body: &[u8], files: Vec<File>) -> Option<Vec<u8>> {
        match kind {
            ECHO => Some(body.to_vec()),
            ALLOCATE => {
                let bytes = u64::from_le_bytes(body.try_into().ok()?);
                let block = black_box(vec![1_u8; bytes as usize]);
                Some(vec![block[0]])
            }
            PANIC => panic!("as asked"),
            WAIT => {
                let [mut says, mut hears] = files.try_into().ok()?;
                says.write_all(&std::process::id().to_le_bytes()).ok()?;
                hears.read_exact(&mut [0]).ok()?;
                Some(Vec::new())
            }
            LOOK => Some(seen(str::from_utf8(body).ok()?).into_bytes()),
            FORBIDDEN => Some(forbidden(body).concat().into_bytes()),
            _ => None,
        }
    }
}

/// Tries all that a worker may not do, and returns a line about each; `body` is the ID of the process that has started it.
fn forbidden(body: &[u8]) -> Vec<String> {
    let parent = str::from_utf8(body).ok().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    // SAFETY: the call takes no pointer, so no memory is at stake; were it allowed, the worker would be traced by its parent, and the test fail.
    let traced = || match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let signal = |to: Option<Pid>| Ok(to.map_or(Ok(()), test_kill_process)?);
    let socket = |family| Ok(socket(family, SocketType::STREAM, None).map(drop)?);
    let write = || File::options().write(true).open("/dev/null");
    let results: [(&str, io::Result<()>); 10] = [
        ("write", write().map(drop)),
        ("create", File::create("/dev/shm/ramson-test").map(drop)),
        ("TCP", socket(AddressFamily::INET)),
        ("TCP over IPv6", socket(AddressFamily::INET6)),
        ("Unix socket", socket(AddressFamily::UNIX)),
        ("exec", Err(Command::new("/bin/true").exec())),
        ("start", Command::new("/bin/true").spawn().map(drop)),
        ("signal to the parent", signal(parent)),
        ("signal to itself", signal(Some(getpid()))),
        ("trace", traced()),
    ];
    results
        .map(|(what, result)| {
            format!("{what}: {:?}\n", result.err().and_then(|error| error.raw_os_error()))
        })
        .to_vec()
}

/// What a worker sees of each of these paths; those of /proc begin with a process ID.
fn seen(paths: &str) -> String {
    let see = |path: &str| {
        let file = if path.starts_with('/') { File::open(path) } else { proc::open(path) };
        let text = file.and_then(io::read_to_string);
        text.unwrap_or_else(|error| format!("{:?}", error.kind()))
    };
    paths.lines().map(|path| format!("{}\n", see(path).trim())).collect()
}

/// A process of user 20,020 with mounts of its own, a file of that user's in them, and a process of root's.
struct Elsewhere {
    process: Child,
    root: Child,
    file: std::path::PathBuf,
}

impl Elsewhere {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        let script = "mount -t tmpfs none \"$0\" && echo theirs >\"$0\"/file && chmod 600 \"$0\"/file && chown 20020 \"$0\"/file \
                      && exec setpriv --reuid=20020 --regid=20020 --clear-groups cat";
        let start = |program: &str, arguments: &[&std::ffi::OsStr]| {
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped());
            let child = command.spawn().unwrap();
            while !std::fs::read(format!("/proc/{}/comm", child.id())).unwrap().starts_with(b"cat")
            {
            }
            child
        };
        let arguments = ["--mount", "sh", "-c", script].map(std::ffi::OsStr::new);
        let process = start("unshare", &[&arguments[..], &[folder.as_os_str()]].concat());
        Self { process, root: start("cat", &[]), file: folder.join("file") }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        for child in [&mut self.process, &mut self.root] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        std::fs::remove_dir(self.file.parent().unwrap()).unwrap();
    }
}

#[test]
fn worker_reads_as_its_owner() {
    worker(20_020);
    let elsewhere = Elsewhere::start();
    let (pid, root) = (elsewhere.process.id(), elsewhere.root.id());
    let worker = for_process(pid).unwrap();
    let file = elsewhere.file.display();
    let asked =
        format!("{file}\n/etc/shadow\n{pid}/comm\n{pid}/environ\n{root}/comm\n{root}/environ\n");
    let said = String::from_utf8(ask(&worker, LOOK, asked.as_bytes()).unwrap()).unwrap();
    let said: Vec<&str> = said.lines().collect();
    let [its, shadow, comm, environ, other_comm, other] = said[..] else { panic!("{said:?}") };
    assert_eq!([its, shadow, comm], ["theirs", "PermissionDenied", "cat"]);
    assert!(environ.contains("PATH="), "{environ}");
    assert_eq!([other_comm, other], ["cat", "PermissionDenied"]);
    // The file is not in our mounts.
    assert!(!elsewhere.file.exists());
}

/// As haproxy and other daemons are: in an empty directory.
#[test]
fn worker_reads_a_jailed_process() {
    worker(20_021);
    let jail = std::env::temp_dir().join(format!("ramson-jail-{}", std::process::id()));
    std::fs::create_dir(&jail).unwrap();
    let script = "import os, sys; os.chroot(sys.argv[1]); os.chdir('/'); os.setuid(20021); print('ready', flush=True); input()";
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(&jail).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    let answer = for_process(process.id()).map(|worker| ask(&worker, ECHO, &[1]));
    let has_proc = jail.join("proc").exists();
    drop(process.stdin.take());
    process.wait().unwrap();
    std::fs::remove_dir(&jail).unwrap();
    assert_eq!(answer, Some(Ok(vec![1])));
    assert!(!has_proc);
}

#[test]
fn read_apart_runs_a_worker() {
    serve_if_asked(&mut [&mut Test], |_| ());
}

/// The worker of an owner of its own.
fn worker(owner: u32) -> Apart {
    static ENABLED: Once = Once::new();
    let budget = Budget { memory_bytes: MEMORY_BYTES, time: Some(TIME) };
    ENABLED.call_once(|| ramson_apart::enable(Some(budget), false));
    assert_eq!(bounds(true), budget);
    for_owner(Owner::of_user(owner)).expect("a worker")
}

fn ask(apart: &Apart, kind: u8, body: &[u8]) -> Result<Vec<u8>, Failure> {
    apart.ask(&Request { kind, body, files: &[] })
}

#[test]
fn worker_answers_every_question() {
    let apart = worker(20_001);
    let body = vec![7; 5 << 20];
    for _ in 0..3 {
        assert_eq!(ask(&apart, ECHO, &body).as_ref(), Ok(&body));
    }
    assert_eq!(ask(&apart, NONE, &[]), Err(Failure::BadAnswer));
    assert_eq!(ask(&apart, ECHO, &[1]), Ok(vec![1]));
}

#[test]
fn memory_excess_ends_one_worker() {
    let apart = worker(20_002);
    let allocate = |bytes: u64| ask(&apart, ALLOCATE, &bytes.to_le_bytes());
    assert_eq!(allocate(32 << 20), Ok(vec![1]));
    assert_eq!(allocate(100 << 20), Err(Failure::Memory(MEMORY_BYTES)));
    assert_eq!(allocate(32 << 20), Ok(vec![1]));
}

#[test]
fn reader_panic_is_one_failure() {
    let apart = worker(20_005);
    assert_eq!(ask(&apart, PANIC, &[]), Err(Failure::Broken));
    assert_eq!(ask(&apart, ECHO, &[1]), Ok(vec![1]));
}

/// Returns the failure of a request in whose middle the worker gets a signal; the next one is answered.
fn signalled(owner: u32, signal: rustix::process::Signal) -> Failure {
    let apart = worker(owner);
    let ((mut hears, its_mouth), (its_ear, _says)) = (io::pipe().unwrap(), io::pipe().unwrap());
    let files = [its_mouth.as_fd(), its_ear.as_fd()];
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| apart.ask(&Request { kind: WAIT, body: &[], files: &files }));
        let mut pid = [0; 4];
        hears.read_exact(&mut pid).unwrap();
        let pid = rustix::process::Pid::from_raw(i32::from_le_bytes(pid)).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        asked.join().unwrap()
    });
    assert_eq!(ask(&apart, ECHO, &[1]), Ok(vec![1]));
    answer.unwrap_err()
}

#[test]
fn signalled_worker_is_one_failure() {
    assert_eq!(signalled(20_006, rustix::process::Signal::KILL), Failure::Signal(9));
    let Failure::Stuck(time) = signalled(20_010, rustix::process::Signal::STOP) else { panic!() };
    assert!(time <= Duration::from_secs(3));
}

#[test]
fn worker_cannot_reach_outside() {
    let own_id = std::process::id().to_string();
    let said = String::from_utf8(ask(&worker(20_007), FORBIDDEN, own_id.as_bytes()).unwrap());
    let said = said.unwrap();
    assert_eq!(said.lines().count(), 10, "{said}");
    let refused = format!(": {:?}", Some(libc::EPERM));
    assert!(said.lines().all(|line| line.ends_with(&refused)), "{said}");
}

#[test]
fn owner_waiting_time_is_bounded() {
    let apart = worker(20_008);
    let mut refused = None;
    let begin = Instant::now();
    for _ in 0..100 {
        let (its_ear, _says) = io::pipe().unwrap();
        let (_hears, its_mouth) = io::pipe().unwrap();
        let files = [its_mouth.as_fd(), its_ear.as_fd()];
        let answer = apart.ask(&Request { kind: WAIT, body: &[], files: &files });
        refused = answer.err();
        if refused == Some(Failure::UsedUp) {
            break;
        }
        assert!(matches!(refused, Some(Failure::Stuck(_))), "{refused:?}");
    }
    assert_eq!(refused, Some(Failure::UsedUp));
    assert!(begin.elapsed() < Duration::from_secs(40));
    assert_eq!(ask(&worker(20_009), ECHO, &[1]), Ok(vec![1]));
}
