//! A thread of the process is borrowed for calls of the allocator's function (crate `ramson-inject`).

use super::lever::{self, Lever};
use super::refusal::{NOTHING, denied, refused};
use crate::trim::{Trimmed, rss_of};
use ramson_inject::{Call, Called, Code, Limits, Problem, Step};
use ramson_process::allocators::Allocators;
use ramson_process::glibc::Locks;
use ramson_process::program;
use ramson_process::{Area, ProcessMemory, identify, read_smaps};
use ramson_source::{Failure, Target, gone};
use std::fs;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// For a thread that will do, and for the function to return.
const LIMITS: Limits = Limits { patience: Duration::from_secs(5), call: Duration::from_secs(60) };
/// How long to look for each lock of an arena to be free once, before any thread is stopped …
const FIRST_LOCK_LIMIT: Duration = Duration::from_millis(500);
/// … and while the borrowed one is.
const LOCK_LIMIT: Duration = Duration::from_millis(20);

/// A process that can be trimmed, and how.
pub struct Prepared<'a> {
    target: &'a Target,
    memory: ProcessMemory,
    lever: Lever,
    code: Code,
    errno_offset_at: Option<u64>,
    locks: Option<Locks>,
    /// Where the locks are seen, also a thread that computes may be borrowed.
    malloc_code: Option<Range<u64>>,
}

/// Finds out whether and how a process can be trimmed.
pub fn prepare(target: &Target) -> Result<Prepared<'_>, Failure> {
    check(target)?;
    let areas = read_smaps(target.pid).map_err(|_| gone(target))?;
    // Its files cannot be read either, if this may not.
    let memory = ProcessMemory::open(target.pid).map_err(|error| denied(target, &error))?;
    let libc = lever::library(target, &areas, identify::is_libc)
        .ok_or_else(|| refused(target, &without_libc(target, &areas), NOTHING))?;
    let allocators = Allocators::of(target.pid, &areas);
    let lever = lever::find(target, &areas, &allocators, &memory)?;
    let code = libc
        .code()
        .ok_or_else(|| refused(target, "its C library is not one that is known", NOTHING))?;
    let find_locks = || {
        let data = identify::data_of_libc(&areas);
        let version = allocators.version.unwrap_or_default();
        patiently(|| Locks::find(&memory, &data, version))
            .map_err(|why| refused(target, &why.to_string(), NOTHING))
    };
    let locks = if lever.is_glibc { Some(find_locks()?) } else { None };
    let errno_offset_at = libc.errno_offset_at();
    let malloc_code = libc.malloc_code().filter(|_| lever.is_glibc);
    Ok(Prepared { target, memory, lever, code, errno_offset_at, locks, malloc_code })
}

impl Prepared<'_> {
    /// Bytes that a trim would give back; `None` where only the allocator knows.
    pub fn gain(&self) -> Option<u64> {
        self.lever.gain
    }

    /// Has it done.
    pub fn trim(&self) -> Result<Trimmed, Failure> {
        let target = self.target;
        let are_free = |limit| match &self.locks {
            Some(locks) => locks.are_seen_free(&self.memory, limit),
            None => true,
        };
        if !are_free(FIRST_LOCK_LIMIT) {
            let why = "an arena of malloc stays locked (by a thread that died in malloc?)";
            return Err(refused(target, why, "A trim would wait for it for ever"));
        }
        let mut is_safe =
            || are_free(LOCK_LIMIT).then_some(()).ok_or_else(|| "malloc is locked".to_owned());
        let call = Call {
            function: self.lever.address,
            steps: &[self.lever.step],
            code: self.code,
            errno_offset_at: self.errno_offset_at,
            are_locks_seen: self.locks.is_some(),
            malloc_code: self.malloc_code.clone(),
        };
        let rss_before = rss_of(target.pid).ok_or_else(|| gone(target))?;
        let begin = Instant::now();
        let called = ramson_inject::call(target.pid, &call, LIMITS, &mut is_safe)
            .map_err(|problem| failure(target, problem))?;
        Ok(Trimmed {
            elapsed: begin.elapsed(),
            rss_before,
            rss_after: rss_of(target.pid).ok_or_else(|| gone(target))?,
            function: self.lever.name,
            called,
        })
    }
}

/// Calls a function of an allocator in the file `path`, whose locks cannot be seen, once for each step.
pub fn call_unseen(
    target: &Target,
    areas: &[Area],
    path: &str,
    function: &str,
    steps: &[Step],
) -> Result<Called, Failure> {
    check(target)?;
    ProcessMemory::open(target.pid).map_err(|error| denied(target, &error))?;
    let address = lever::function(target, areas, path, function)
        .ok_or_else(|| refused(target, &format!("it exports no {function}"), NOTHING))?;
    let libc = lever::library(target, areas, identify::is_libc)
        .ok_or_else(|| refused(target, &without_libc(target, areas), NOTHING))?;
    let code = libc
        .code()
        .ok_or_else(|| refused(target, "its C library is not one that is known", NOTHING))?;
    let call = Call {
        function: address,
        steps,
        code,
        errno_offset_at: libc.errno_offset_at(),
        are_locks_seen: false,
        malloc_code: None,
    };
    ramson_inject::call(target.pid, &call, LIMITS, &mut || Ok(()))
        .map_err(|problem| failure(target, problem))
}

/// What a busy heap spoils is read again.
pub fn patiently<T, E>(mut read: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    const MOST_TRIES: u32 = 10;
    for _ in 1..MOST_TRIES {
        match read() {
            Ok(read) => return Ok(read),
            Err(_) => sleep(Duration::from_millis(2)),
        }
    }
    read()
}

/// What makes it impossible or unsafe, as /proc tells.
fn check(target: &Target) -> Result<(), Failure> {
    let status =
        fs::read_to_string(format!("/proc/{}/status", target.pid)).map_err(|_| gone(target))?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let number = |name: &str| field(name).and_then(|value| value.parse::<i32>().ok()).unwrap_or(0);
    match number("TracerPid") {
        0 => {}
        tracer => {
            let why = format!("process {tracer} traces it already (a debugger, strace?)");
            return Err(refused(target, &why, "Detach that one, or wait for it"));
        }
    }
    if field("State").is_some_and(|state| state.starts_with(['T', 't'])) {
        return Err(refused(target, "it is stopped", "Let it continue first"));
    }
    if field("x86_Thread_features").is_some_and(|features| features.contains("shstk")) {
        let why = "it has a shadow stack, which refuses calls from outside";
        return Err(refused(target, why, NOTHING));
    }
    if program::is_32_bit(format!("/proc/{}/exe", target.pid).as_ref()) {
        let next = "Only 64-bit ones can be called from outside";
        return Err(refused(target, "a 32-bit program", next));
    }
    if ramson_inject::share_memory(number("Pid"), number("PPid")) {
        let why = "it shares its memory with its parent (vfork)";
        return Err(refused(target, why, "Wait until it has started its program"));
    }
    Ok(())
}

fn without_libc(target: &Target, areas: &[Area]) -> String {
    if areas.iter().any(|area| area.path.contains("musl")) {
        return "linked with musl, whose malloc has nothing that gives memory back".into();
    }
    match program::obstacle(format!("/proc/{}/exe", target.pid).as_ref()) {
        Some(_) => "statically linked: no function of its allocator can be found in it".into(),
        None => "no C library is mapped in it".into(),
    }
}

fn failure(target: &Target, problem: Problem) -> Failure {
    let refused = |why: &str, next: &str| refused(target, why, next);
    match problem {
        Problem::Denied(error) => denied(target, &error),
        Problem::Seccomp => refused(
            "a seccomp filter might kill it for what the allocator does, and only root can suspend that",
            "Run it with sudo",
        ),
        Problem::NoThread(why) => refused(
            &format!(
                "no thread waits where it can be borrowed{}",
                why.map_or(String::new(), |why| format!(" ({why})"))
            ),
            "Try again when it waits, or start it with \"ramson run --trim-every 30s\", which tries again and again",
        ),
        Problem::Unfinished(tid) => refused(
            &format!(
                "thread {tid} is still in the call after {} s, and goes on by itself",
                LIMITS.call.as_secs()
            ),
            "Look again later with \"ramson doctor\"",
        ),
        Problem::Gone => gone(target),
        Problem::Failed(error) => refused(&error.to_string(), NOTHING),
    }
}
