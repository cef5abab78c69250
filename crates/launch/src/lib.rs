//! Starts a program with what this process itself was started with. A program inherits which signals are ignored and which of its first three
//! descriptors are closed, and servers depend on it: nohup(1) ignores SIGHUP, systemd SIGPIPE, a shell SIGINT of what it puts in the
//! background. Rust's runtime changes both before `main`, and whoever waits for a child and passes signals on changes more.

use std::ffi::{CString, OsStr, OsString, c_char};
use std::fs::File;
use std::io::{self, Read};
use std::iter;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

/// Signals of Linux.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

/// Runs scripts that do not say what runs them.
pub const SHELL: &str = "/bin/sh";

/// Bit N - 1: signal N was ignored.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// Bit N - 1: signal N was blocked.
static BLOCKED: AtomicU64 = AtomicU64::new(0);
/// Bit N: descriptor N was closed.
static CLOSED: AtomicU64 = AtomicU64::new(0);
/// The signal that the end of our parent sends us; 0: none.
static FROM_PARENT: AtomicI32 = AtomicI32::new(0);

/// The loader calls it before Rust's runtime begins.
#[used]
// SAFETY: an entry of .init_array is the address of a function that the C library calls once, on the first thread, after it is itself ready;
// what it passes (argc, argv, envp) need not be taken. A function of another type, or one that needs Rust's runtime, would break that.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = note_start;

extern "C" fn note_start() {
    let ignored = SIGNALS.filter(|&signal| is_ignored(signal));
    IGNORED.store(ignored.fold(0, |bits, signal| bits | bit_of(signal)), Relaxed);
    // SAFETY: a question about a number; whether it is a descriptor is what is asked.
    let is_closed = |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } == -1;
    let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
    let mut from_parent = 0;
    // SAFETY: both only ask, and have room for the answer; a set that was not filled is not read.
    unsafe {
        if libc::sigprocmask(libc::SIG_BLOCK, null(), blocked.as_mut_ptr()) == 0 {
            let is_in = |signal: &i32| libc::sigismember(blocked.as_ptr(), *signal) == 1;
            BLOCKED.store(SIGNALS.filter(is_in).fold(0, |bits, it| bits | bit_of(it)), Relaxed);
        }
        libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut from_parent);
    }
    FROM_PARENT.store(from_parent, Relaxed);
    CLOSED.store((0..3).filter(is_closed).fold(0, |bits, fd| bits | 1 << fd), Relaxed);
}

fn bit_of(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// False for the two that the C library keeps to itself.
fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no new action, and room for the old one, which is read only if it was written.
    unsafe {
        libc::sigaction(signal, null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

fn treat(signal: i32, action: libc::sighandler_t) {
    // SAFETY: SIG_IGN or SIG_DFL, so no code of ours becomes a handler; a function's address would. A signal that cannot be set stays as it is.
    unsafe { libc::signal(signal, action) };
}

/// Lets this process wait for children whoever started it, and fail to write beyond a limit instead of being ended.
pub fn prepare() {
    treat(libc::SIGCHLD, libc::SIG_DFL);
    treat(libc::SIGXFSZ, libc::SIG_IGN);
}

/// Closes what whoever started this process left open beside its first three descriptors. To be called before this process opens anything.
pub fn close_inherited() {
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = names.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    // The directory itself is among them, and closed by then.
    let inherited: Vec<RawFd> = numbers.filter(|&number| number > 2).collect();
    for number in inherited {
        // SAFETY: no object of this process has a descriptor yet, so none is closed twice or used afterwards; closing one that is not open fails.
        unsafe { libc::close(number) };
    }
}

/// The program of `command` will have signals and descriptors as this process had them at its start, and the environment in the order in which
/// it was. `name` is what it is called (argv\[0\]). It must be a path: nothing is looked for. A text that the kernel cannot execute is run by
/// `SHELL`, as by execvp(3).
pub fn as_started(command: &mut Command, name: &OsStr) -> io::Result<()> {
    let texts = |texts: &mut dyn Iterator<Item = &OsStr>| {
        texts.map(|text| Ok(CString::new(text.as_bytes())?)).collect::<io::Result<Vec<_>>>()
    };
    let path = CString::new(command.get_program().as_bytes())?;
    let arguments = texts(&mut iter::once(name).chain(command.get_args()))?;
    let program = command.get_program();
    let of_script = texts(&mut [OsStr::new(SHELL), program].into_iter().chain(command.get_args()))?;
    let is_text = is_text(Path::new(program));
    let environment = environment(command);
    let environment = texts(&mut environment.iter().map(OsString::as_os_str))?;
    let [argv, script_argv, envp] = [&arguments, &of_script, &environment].map(|texts| {
        let addresses = texts.iter().map(|text| text.as_ptr() as usize);
        addresses.chain([0]).collect::<Vec<_>>()
    });
    let start = move || {
        restore();
        // Keeps the texts that the addresses point to.
        let _held = (&arguments, &of_script, &environment);
        let execute = |path: *const c_char, argv: &[usize]| {
            // SAFETY: a text, and two lists of addresses of texts that end with 0, all made before the fork and owned by this closure:
            // a list without its 0, or texts that were dropped, would break it.
            unsafe { libc::execve(path, argv.as_ptr().cast(), envp.as_ptr().cast()) };
            io::Error::last_os_error()
        };
        let error = execute(path.as_ptr(), &argv);
        Err(match error.raw_os_error() {
            Some(libc::ENOEXEC) if is_text => execute(of_script[0].as_ptr(), &script_argv),
            _ => error,
        })
    };
    // SAFETY: between fork and exec only calls are allowed that are safe in a signal handler, as another thread may hold any lock: system calls
    // and what fills a set of signals are. To allocate, or to take a lock, in `start` would break it.
    unsafe { command.pre_exec(start) };
    Ok(())
}

/// Whether a shell would take the file for a script: there is no null byte in its first line. One that cannot be read is the shell's to refuse.
fn is_text(path: &Path) -> bool {
    const MOST_BYTES: u64 = 256;
    let mut head = Vec::new();
    let is_read = File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut head));
    is_read.is_err() || !head.split(|&byte| byte == b'\n').next().unwrap_or_default().contains(&0)
}

/// `NAME=VALUE`, with the changes that `command` makes.
fn environment(command: &Command) -> Vec<OsString> {
    let changes: Vec<_> = command.get_envs().collect();
    let is_changed = |name: &OsStr| changes.iter().any(|(changed, _)| *changed == name);
    let own = std::env::vars_os().filter(|(name, _)| !is_changed(name));
    let added = changes
        .iter()
        .filter_map(|(name, value)| Some((name.to_os_string(), value.as_ref()?.to_os_string())));
    let entry = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        name
    };
    own.chain(added).map(entry).collect()
}

/// For this process, right before exec. Signals must be blocked until then: one that comes earlier would meet a handler of ours.
fn restore() {
    let ignored = IGNORED.load(Relaxed);
    for signal in SIGNALS {
        let was_ignored = ignored & bit_of(signal) != 0;
        treat(signal, if was_ignored { libc::SIG_IGN } else { libc::SIG_DFL });
    }
    let closed = CLOSED.load(Relaxed);
    for fd in (0..3).filter(|fd| closed & 1 << fd != 0) {
        // SAFETY: Rust's runtime opened this one, and nobody uses it before exec; if that fails, words to standard error are lost, no more.
        unsafe { libc::close(fd) };
    }
    // SAFETY: takes numbers only. A fork clears it, so that the program would outlive what ends us.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, FROM_PARENT.load(Relaxed) as libc::c_ulong) };
    set_blocked(BLOCKED.load(Relaxed));
}

fn set_blocked(bits: u64) {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is filled before it is used, and only this thread's mask changes.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in SIGNALS.filter(|&signal| bits & bit_of(signal) != 0) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), null_mut());
    }
}

/// Signals to this thread wait, until `unblock_signals` or a program that is started `as_started`.
pub fn block_signals() {
    set_blocked(u64::MAX);
}

/// These signals reach this thread, whatever was blocked at the start.
pub fn unblock_signals(signals: impl Iterator<Item = i32>) {
    set_blocked(signals.fold(BLOCKED.load(Relaxed), |bits, signal| bits & !bit_of(signal)));
}

/// Descriptors that this process was started with keep pipes, sockets and locks open that the program may close: all but standard error go,
/// and standard input and output are /dev/null. `inherited` are those from 3 on.
pub fn let_go(inherited: &[RawFd]) {
    // SAFETY: whoever started us opened them, and no value of ours owns one: `inherited` was read before we opened any; to read it later would close
    // what is ours. Standard input and output stay open, as something else.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null >= 0 {
            libc::dup2(null, 0);
            libc::dup2(null, 1);
            libc::close(null);
        }
        for &fd in inherited {
            libc::close(fd);
        }
    }
}

/// The descriptors from 3 on. To be called before this process opens one.
pub fn inherited() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let numbers: Vec<RawFd> = numbers.filter(|&fd| fd >= 3).collect();
    // The descriptor of the directory itself is closed by now. Descriptors that outlived exec have no FD_CLOEXEC; those that a preloaded library
    // opened for itself have it.
    // SAFETY: a question about a number, by which nothing is read or written; whether it is a descriptor is what is asked.
    numbers.into_iter().filter(|&fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } == 0).collect()
}

/// Sends any signal, also a real-time one, to a process that may have ended.
pub fn send(pid: u32, signal: i32) {
    // 0 and negative numbers would mean whole groups.
    if let Some(pid) = i32::try_from(pid).ok().filter(|&pid| pid > 0) {
        // SAFETY: touches no memory of ours; if the signal is for ourselves, its action is SIG_DFL or a handler that was made for it.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Starts a process in our process group that does nothing, with every signal blocked: a signal to the whole group stays pending there.
/// It ends with the thread that calls this.
pub fn start_witness() -> io::Result<u32> {
    /// Descriptors that are closed one by one before Linux 5.9.
    const MOST_DESCRIPTORS: i32 = 1 << 16;
    let parent = std::process::id() as i32;
    // SAFETY: after the fork of a process with threads only system calls are allowed. The child makes no others and never returns; a lock or
    // an allocation there could wait for a thread that the child does not have.
    let child = unsafe { libc::fork() };
    if child != 0 {
        return if child > 0 { Ok(child as u32) } else { Err(io::Error::last_os_error()) };
    }
    set_blocked(u64::MAX);
    // SAFETY: numbers only. Nothing of this process is used any more, so every descriptor may go: pipes and locks are the program's.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) != 0 {
            for fd in 0..MOST_DESCRIPTORS {
                libc::close(fd);
            }
        }
        // It may have ended before its end was to be told.
        while libc::getppid() == parent {
            libc::pause();
        }
        libc::_exit(0)
    }
}

/// Ends this process by `signal`, as its default is. Returns if that ends nothing: the first process of a PID namespace, say.
pub fn end_by(signal: i32) {
    treat(signal, libc::SIG_DFL);
    set_blocked(0);
    // SAFETY: its action is SIG_DFL, so nothing of ours runs.
    unsafe { libc::raise(signal) };
}

/// Waits until this child has ended, and leaves its status to be read. The first process of a PID namespace (a container's, often) is given
/// every process that has lost its parent: their statuses are taken meanwhile, or they would fill the table of processes.
pub fn wait_for_end(child: u32) {
    let (kind, id) = if std::process::id() == 1 { (libc::P_ALL, 0) } else { (libc::P_PID, child) };
    loop {
        match ended(kind, id, libc::WNOWAIT) {
            Ok(pid) if pid != child => drop(ended(libc::P_PID, pid, libc::WNOHANG)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// The process ID of a child that has ended.
fn ended(kind: libc::idtype_t, id: u32, options: i32) -> io::Result<u32> {
    let mut facts = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: there is room for what is told; all zeroes, which WNOHANG may leave, are a valid value, too.
    let (result, pid) = unsafe {
        let result = libc::waitid(kind, id, facts.as_mut_ptr(), options | libc::WEXITED);
        (result, facts.assume_init().si_pid())
    };
    if result == 0 { Ok(pid as u32) } else { Err(io::Error::last_os_error()) }
}

/// Takes the status of a child that has ended, and the most bytes that it had resident at once.
pub fn reap(child: u32) -> io::Result<(ExitStatus, u64)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both have room for what the kernel writes; all zeroes are a valid value of integers.
    let (found, usage) = unsafe {
        let found = libc::wait4(child as i32, &raw mut status, 0, usage.as_mut_ptr());
        (found, usage.assume_init())
    };
    if found == -1 {
        return Err(io::Error::last_os_error());
    }
    // Linux counts in KiB.
    Ok((ExitStatus::from_raw(status), (usage.ru_maxrss as u64) << 10))
}
