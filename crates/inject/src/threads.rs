//! Which threads of a process may be borrowed: those that wait in a system call that the kernel can begin again, and those that run.

use crate::patience;
use std::path::Path;
use std::{fs, io};

/// Threads looked at.
const MOST_THREADS: usize = 65_536;
/// More of recv's flags: the call would return what it has got so far.
const MSG_WAITALL: u64 = 0x100;
/// A flag of recvmmsg's: the call waits for the first message alone.
const MSG_WAITFORONE: u64 = 0x1_0000;

/// A thread that may be borrowed.
#[derive(Clone, Copy)]
pub struct Candidate {
    pub tid: i32,
    /// It did when it was looked for, and may be borrowed later.
    pub runs: bool,
    /// Even if it has children: see `is_told_of_children`.
    pub may_be_parent: bool,
}

/// Signals that do nothing without a handler.
const HARMLESS: [i32; 3] = [libc::SIGURG, libc::SIGWINCH, libc::SIGCHLD];

/// System calls that wait, have no effect before they return, and are begun again after a stop as if there had been none. With their
/// rank: first those on which nothing hangs, then those whose time-out begins anew, then those that could miss a signal or say EINTR, last those that may have
/// part of what they wait for (`waits_for_more`).
const WAITING: [(i64, u32); 28] = [
    (libc::SYS_rt_sigsuspend, 0),
    (libc::SYS_rt_sigtimedwait, 3),
    (libc::SYS_nanosleep, 1),
    (libc::SYS_clock_nanosleep, 1),
    (libc::SYS_poll, 1),
    (libc::SYS_ppoll, 1),
    (libc::SYS_select, 1),
    (libc::SYS_pselect6, 1),
    (libc::SYS_accept, 1),
    (libc::SYS_accept4, 1),
    (libc::SYS_read, READ),
    (libc::SYS_readv, READ),
    (libc::SYS_recvfrom, READ),
    (libc::SYS_recvmsg, READ),
    (libc::SYS_recvmmsg, READ),
    (libc::SYS_msgrcv, 1),
    (libc::SYS_wait4, 1),
    (libc::SYS_waitid, 1),
    (libc::SYS_flock, 2),
    (libc::SYS_semop, 2),
    (libc::SYS_futex, 2),
    (libc::SYS_epoll_wait, 3),
    (libc::SYS_epoll_pwait, 3),
    (libc::SYS_epoll_pwait2, 3),
    (libc::SYS_semtimedop, 3),
    (libc::SYS_io_uring_enter, 3),
    // A signal in the microsecond before it begins again is handled, and the wait goes on.
    (libc::SYS_pause, 4),
    // If ramson is killed during the call, the thread cannot begin this again by itself: the program's call says EINTR.
    (libc::SYS_restart_syscall, 4),
];

/// The rank of those that read from a descriptor, their first argument.
const READ: u32 = 5;
/// How the kernel names what may be told to wait for more: sockets and terminals.
const PATIENT: [&str; 4] = ["socket:[", "/dev/pts/", "/dev/tty", "/dev/console"];

/// Whether a thread waits to read from what returns nothing before there is more than one byte. With part of that a stop would have it return.
pub fn waits_for_more(pid: u32, tid: i32) -> bool {
    let call = call_of(pid, tid);
    let Some((_, READ)) = parse(&call) else { return false };
    let word = call.split_whitespace().nth(1).unwrap_or_default();
    let descriptor = u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or(0);
    let link = fs::read_link(format!("/proc/{pid}/fd/{descriptor}"));
    let name = link.as_deref().map_or("", |link| link.to_str().unwrap_or_default());
    PATIENT.iter().any(|start| name.starts_with(start))
        && patience::is_patient(pid as i32, descriptor as i32)
}

/// A file of /proc. Names in it may be any bytes.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The threads of `pid` that wait, the best first. Those on which locks hang may be left out.
pub fn waiting(pid: u32, with_locks: bool) -> Vec<i32> {
    let ranked = |(tid, call): (i32, String)| {
        let (number, rank) = parse(&call)?;
        (with_locks || number != libc::SYS_futex).then_some((rank, tid))
    };
    let mut found: Vec<(u32, i32)> = calls(pid).filter_map(ranked).collect();
    // The first thread comes last among equal ones: while it is traced, any signal that the program ignores wakes another thread, as a child's end
    // does.
    found.sort_by_key(|&(rank, tid)| (rank, tid as u32 == pid));
    found.into_iter().map(|(_, tid)| tid).collect()
}

/// The first `most` of `all` that are fit, and after them the first thread of the process, if it is fit: all others may have stacks that are
/// too small for a call.
pub fn chosen(
    all: Vec<i32>,
    first: i32,
    most: usize,
    mut is_fit: impl FnMut(&i32) -> bool,
) -> Vec<i32> {
    let is_there = all.contains(&first);
    let mut chosen: Vec<i32> = all.into_iter().filter(&mut is_fit).take(most).collect();
    if is_there && !chosen.contains(&first) && is_fit(&first) {
        chosen.push(first);
    }
    chosen
}

/// Whether the end of a child would be told to this thread, while others may wait. As long as it is traced, the kernel does not drop a SIGCHLD that
/// the program ignores, but wakes one of the others for it, whose `epoll_wait` then says EINTR. Where the kernel has no list of children, this knows
/// only of a thread that waits for one. A child that is being started is in no list yet.
pub fn is_told_of_children(pid: u32, tid: i32) -> bool {
    let waits = matches!(parse(&call_of(pid, tid)), Some((libc::SYS_wait4 | libc::SYS_waitid, _)));
    let children = || text(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    (waits || !children().is_empty()) && !is_alone(pid)
}

/// Whether a thread that waited may be starting a child by now, while others may wait.
pub fn may_start_child(pid: u32, tid: i32) -> bool {
    parse(&call_of(pid, tid)).is_none() && !is_alone(pid)
}

/// What the kernel says of a thread's system call.
fn call_of(pid: u32, tid: i32) -> String {
    text(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default()
}

/// Whether a process has one thread.
pub fn is_alone(pid: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() == 1)
}

/// Those that run.
pub fn running(pid: u32) -> Vec<i32> {
    let runs = calls(pid).filter(|(_, call)| call.trim_end() == "running");
    runs.map(|(tid, _)| tid).collect()
}

/// Each thread, and what the kernel says of its system call.
pub fn calls(pid: u32) -> impl Iterator<Item = (i32, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.take(MOST_THREADS).filter_map(|task| {
        let tid = task.file_name().to_str()?.parse().ok()?;
        Some((tid, text(task.path().join("syscall")).ok()?))
    })
}

/// `0 0x3 0x7ffc… …`: number and arguments of the system call; `running` where there is none.
pub fn parse(line: &str) -> Option<(i64, u32)> {
    let mut words = line.split_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let argument = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or(0);
    let arguments: Vec<u64> = words.take(6).map(argument).collect();
    Some((number, rank(number, &arguments)?))
}

/// `None` if a thread must not be stopped in this system call.
pub fn rank(number: i64, arguments: &[u64]) -> Option<u32> {
    let argument = |index: usize| arguments.get(index).copied();
    let has_begun = match number {
        libc::SYS_recvfrom => argument(3)? & MSG_WAITALL != 0,
        libc::SYS_recvmsg => argument(2)? & MSG_WAITALL != 0,
        // It would return the messages that it has got so far.
        libc::SYS_recvmmsg => {
            let count = argument(2)? as u32;
            let flags = argument(3)?;
            flags & MSG_WAITALL != 0 || count > 1 && flags & MSG_WAITFORONE == 0
        }
        // It would return before all completions are there, and submit again what it has submitted.
        libc::SYS_io_uring_enter => argument(1)? as u32 != 0 || argument(2)? as u32 > 1,
        _ => false,
    };
    let (_, rank) = WAITING.iter().find(|(known, _)| *known == number)?;
    (!has_begun).then_some(*rank)
}

/// Whether a thread must not be stopped where it waits while its filters are not known: the kernel begins such a wait again as
/// restart_syscall, for which a filter may kill, and does so by itself if the tracer dies.
pub fn is_begun_again_by_number(pid: u32, tid: i32) -> bool {
    let call = call_of(pid, tid);
    let words: Vec<&str> = call.split_whitespace().collect();
    let argument = |index: usize| words.get(1 + index).copied().unwrap_or("0x0");
    match words.first().and_then(|number| number.parse::<i64>().ok()) {
        Some(libc::SYS_poll | libc::SYS_nanosleep) => true,
        // Only with TIMER_ABSTIME does the kernel not know the rest of the time.
        Some(libc::SYS_clock_nanosleep) => argument(1) == "0x0",
        Some(libc::SYS_futex) => argument(3) != "0x0",
        _ => false,
    }
}

/// System calls that say EINTR after any stop, without an effect: a thread that ran may just have begun one.
const REFUSING: [i64; 3] = [libc::SYS_io_getevents, libc::SYS_sendto, libc::SYS_sendmsg];

/// Whether a system call that says EINTR because of a stop can be begun again as if there had been none.
pub fn can_begin_again(number: i64) -> bool {
    REFUSING.contains(&number) || WAITING.iter().any(|(known, _)| *known == number)
}

/// System calls besides those that wait, which neither an allocator nor the loader makes without its locks.
// Hazard, never seen: a program that never waits writes a log within its own malloc (mtrace), with a lock of its own taken. ramson borrows the
// thread before that write, and the thread waits for itself.
const OTHERS: [i64; 18] = [
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
];

/// Whether a thread may do something else before it begins this system call. Fewer system calls qualify if locks are not seen.
pub fn may_come_later(number: i64, are_locks_seen: bool) -> bool {
    // The kernel keeps what restart_syscall is to wait for again, and our call might wait, too.
    let is_known = number != libc::SYS_restart_syscall;
    let waits = is_known && WAITING.iter().any(|(known, _)| *known == number);
    if are_locks_seen {
        waits || OTHERS.contains(&number)
    } else {
        waits && number != libc::SYS_futex
    }
}

/// System calls that return early after a stop, with what they have moved by then.
const MOVING: [i64; 18] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_preadv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_vmsplice,
    libc::SYS_copy_file_range,
    libc::SYS_io_uring_enter,
];

/// Whether the kernel's line of a thread's system call is of one that moves data.
pub fn moves_data(line: &str) -> bool {
    let number = line.split_whitespace().next().and_then(|word| word.parse().ok());
    number.is_some_and(|number: i64| MOVING.contains(&number))
}

/// Whether a system call may start a process.
pub fn starts_process(number: i64) -> bool {
    [libc::SYS_fork, libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3].contains(&number)
}

/// Returns the value of the line `NAME: …` of a status file.
pub fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// One of the harmless signals for which the program has no handler.
pub fn harmless_signal(status: &str) -> Option<i32> {
    let caught = u64::from_str_radix(field(status, "SigCgt")?, 16).ok()?;
    HARMLESS.into_iter().find(|signal| caught >> (signal - 1) & 1 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_holders_are_not_postponed() {
        assert!(may_come_later(libc::SYS_read, false) && may_come_later(libc::SYS_write, true));
        assert!(may_come_later(libc::SYS_futex, true) && !may_come_later(libc::SYS_futex, false));
        for number in [libc::SYS_write, libc::SYS_restart_syscall] {
            assert!(!may_come_later(number, false), "{number}");
        }
        for number in [
            libc::SYS_mmap,
            libc::SYS_brk,
            libc::SYS_madvise,
            libc::SYS_rt_sigreturn,
            libc::SYS_execve,
            -1,
        ] {
            assert!(!may_come_later(number, true), "{number}");
        }
    }

    #[test]
    fn first_thread_is_always_chosen() {
        let all: Vec<i32> = (2..=5000).chain([1]).collect();
        assert_eq!(chosen(all.clone(), 1, 3, |_| true), [2, 3, 4, 1]);
        assert_eq!(chosen(all.clone(), 1, 3, |&tid| tid > 4), [5, 6, 7]);
        assert_eq!(chosen(vec![2, 1], 1, 3, |_| true), [2, 1]);
        assert_eq!(chosen(vec![2], 1, 3, |_| true), [2]);
    }

    #[test]
    fn only_postponable_waits_are_parsed() {
        assert_eq!(parse("0 0x3 0x7ffc 0x10 0x0 0x0 0x0 0x7ffc 0x7f00"), Some((0, READ)));
        assert_eq!(parse("232 0x5 0x7f 0x2790 0x64 0x0 0x0 0x7ffc 0x7f00"), Some((232, 3)));
        assert_eq!(parse("299 0x5 0x7f 0x8 0x10000 0x0 0x0 0x7ffc 0x7f00"), Some((299, READ)));
        assert_eq!(parse("299 0x5 0x7f 0x1 0x0 0x0 0x0 0x7ffc 0x7f00"), Some((299, READ)));
        assert_eq!(parse("426 0x5 0x0 0x1 0x1 0x0 0x8 0x7ffc 0x7f00"), Some((426, 3)));
        for line in [
            "running",
            "1 0x1 0x7ffc 0x10 0x0 0x0 0x0 0x7ffc 0x7f00",
            "45 0x1 0x7ffc 0x10 0x100 0x0 0x0 0x7ffc 0x7f00",
            "47 0x1 0x7ffc 0x140 0x0 0x0 0x0 0x7ffc 0x7f00",
            // More than one message, or completion; a submission.
            "299 0x5 0x7f 0x8 0x0 0x0 0x0 0x7ffc 0x7f00",
            "426 0x5 0x0 0x2 0x1 0x0 0x8 0x7ffc 0x7f00",
            "426 0x5 0x1 0x1 0x1 0x0 0x8 0x7ffc 0x7f00",
            "-1 0x7ffc 0x7f00",
            "",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    fn own_tid() -> i32 {
        let own = fs::read_link("/proc/thread-self").unwrap();
        own.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }

    #[test]
    fn waiting_for_child_is_told_of_children() {
        use std::process::{Command, Stdio};
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let (told, tid) = std::sync::mpsc::channel();
        // Another thread's child, which is not in its list.
        let waiter = std::thread::spawn(move || {
            told.send(own_tid()).unwrap();
            child.wait().unwrap();
        });
        let (own, tid) = (std::process::id(), tid.recv().unwrap());
        while may_start_child(own, tid) || !is_told_of_children(own, tid) {
            std::thread::yield_now();
        }
        drop(input);
        waiter.join().unwrap();
    }

    #[test]
    fn multi_byte_reads_are_known() {
        use std::io::{Read, Write};
        use std::net::{TcpListener, TcpStream};
        use std::os::fd::AsRawFd;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut near = listener.accept().unwrap().0;
        let descriptor = near.as_raw_fd();
        let (told, tid) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            told.send(own_tid()).unwrap();
            assert_eq!(near.read(&mut [0; 12]).unwrap(), 12);
            let _ = near.read(&mut [0; 12]);
        });
        let own = std::process::id();
        let tid: i32 = tid.recv().unwrap();
        let waits =
            || while parse(&text(format!("/proc/{own}/task/{tid}/syscall")).unwrap()).is_none() {};
        waits();
        assert!(!waits_for_more(own, tid) && !patience::is_patient(own as i32, descriptor));
        patience::keep_waiting_for(descriptor, 12);
        assert!(waits_for_more(own, tid));
        far.write_all(&[0; 12]).unwrap();
        patience::keep_waiting_for(descriptor, 1);
        far.write_all(&[0; 12]).unwrap();
        reader.join().unwrap();
    }
}
