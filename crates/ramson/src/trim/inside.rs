//! Asking libramson inside of a profiled program: the next thread that takes a sample where that is harmless calls the allocator's
//! function (libramson/src/requests). For programs that cannot be traced, or in which no thread can be borrowed.

use super::refusal::{NOTHING, refused};
use super::request::{Answered, Asking, PAUSE};
use super::{Trimmed, Way, rss_of};
use crate::doctor::target::{Target, gone};
use crate::failure::Failure;
use crate::source::{self, Opened, Source};
use ramson_format::{Function, Looks, Outcome, Reason, flags, state};
use ramson_inject::Called;
use ramson_profile::format::format_bytes;
use std::fs;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// For a thread to come by, and for others who ask.
const PATIENCE: Duration = Duration::from_secs(5);
/// For the function to return.
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// Between two looks whether the process is still there.
const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// Whether the process of this profile serves requests.
pub fn can_be_asked(source: &Source) -> bool {
    let header = &source.snapshot.header;
    let confined = flags::CONFINED | flags::PRIVATE;
    header.state == state::RECORDING
        && header.flags & flags::SERVES_REQUESTS != 0
        && header.flags & confined == 0
        && source::is_own(source)
}

/// Asks, because a trim from outside was refused: `why`, and `next`, what to do about that.
pub fn ask(target: &Target, why: &str, next: &str) -> Result<Trimmed, Failure> {
    let not_this_way = || refused(target, why, next);
    let Ok(Opened::Own(source)) = source::open(&target.pid.to_string()) else {
        return Err(not_this_way());
    };
    if !can_be_asked(&source) {
        return Err(not_this_way());
    }
    let file = source::writable_file(&source).ok_or_else(not_this_way)?;
    let refused =
        |inside: &str, next: &str| refused(target, &format!("{why}; asked inside, {inside}"), next);
    let failed = |error: io::Error| refused(&error.to_string(), NOTHING);
    if is_confined(target.pid) {
        return Err(refused("a seccomp filter might kill it for what the allocator does", NOTHING));
    }
    let asking = Asking::lock(file, PATIENCE).map_err(failed)?;
    let mut asking = asking.ok_or_else(|| {
        refused("another ramson has just asked it and waits", "Try again when that is done")
    })?;
    let rss_before = rss_of(target.pid).ok_or_else(|| gone(target))?;
    let begin = Instant::now();
    asking.ask(PATIENCE).map_err(failed)?;
    let answered = wait(&asking, &source).map_err(failed)?;
    let elapsed = begin.elapsed();
    let rss_after = || rss_of(target.pid).ok_or_else(|| gone(target));
    match answered {
        Answered::Done { outcome: Some(Outcome::Called(function)), tid, held } => Ok(Trimmed {
            way: Way::Inside,
            rss_before,
            rss_after: rss_after()?,
            elapsed,
            function: name_of(function),
            called: called(target.pid, tid, held),
        }),
        Answered::Done { outcome: Some(Outcome::Refused(reason)), .. } => {
            Err(refused(&describe(Some(reason), &source), next_step(Some(reason))))
        }
        Answered::Taken if !source.is_still_mapped(None) => Err(gone(target)),
        Answered::Taken => {
            let seconds = CALL_LIMIT.as_secs();
            let why = format!("a thread of it is still in the call after {seconds} s");
            Err(refused(&why, "Look again later with \"ramson doctor\""))
        }
        Answered::Never(_) | Answered::NotYet(_) if !source.is_still_mapped(None) => {
            Err(gone(target))
        }
        Answered::Never(Looks { reason, .. }) | Answered::NotYet(Looks { reason, .. }) => {
            let _ = asking.withdraw();
            Err(refused(&describe(reason, &source), next_step(reason)))
        }
        Answered::Done { .. } => Err(refused("it answered too late", "Try again")),
    }
}

/// Until the process has answered, or will not.
fn wait(asking: &Asking, source: &Source) -> io::Result<Answered> {
    let begin = Instant::now();
    let mut looked = begin;
    loop {
        let answered = asking.answered()?;
        let is_over = match answered {
            Answered::Done { .. } | Answered::Never(_) => true,
            Answered::Taken => begin.elapsed() > PATIENCE + CALL_LIMIT,
            Answered::NotYet(_) => false,
        };
        if is_over {
            return Ok(answered);
        }
        if looked.elapsed() > LOOK_PERIOD {
            looked = Instant::now();
            if !source.is_still_mapped(None) {
                return asking.answered();
            }
        }
        sleep(PAUSE);
    }
}

/// Whether any thread has a filter, also one that was installed without the C library.
fn is_confined(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok()).any(|status| {
        let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        mode.is_some_and(|mode| mode.trim() != "0")
    })
}

fn name_of(function: Function) -> &'static str {
    match function {
        Function::MallocTrim => "malloc_trim",
        Function::Mallctl => "mallctl",
        Function::ReleaseFreeMemory => "MallocExtension_ReleaseFreeMemory",
    }
}

/// Of the thread that the process names as it is called there.
fn called(pid: u32, tid: u32, held: Duration) -> Called {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let task = tasks.map(|task| task.path()).find(|task| {
        let status = fs::read_to_string(task.join("status")).unwrap_or_default();
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        ids.and_then(|ids| ids.split_whitespace().last()?.parse().ok()) == Some(tid)
    });
    let name = task.as_ref().and_then(|task| fs::read_to_string(task.join("comm")).ok());
    let number = task.and_then(|task| task.file_name()?.to_str()?.parse().ok());
    Called {
        tid: number.unwrap_or(tid as i32),
        name: name.unwrap_or_default().trim_end().into(),
        stopped: held,
        called: held,
        data: Vec::new(),
    }
}

/// Why no thread served.
fn describe(reason: Option<Reason>, source: &Source) -> String {
    let Some(reason) = reason else {
        let interval = format_bytes(source.snapshot.header.interval_bytes as f64);
        let seconds = PATIENCE.as_secs();
        return format!("no thread of it took a sample within {seconds} s (one in {interval})");
    };
    match reason {
        Reason::Stack => "its threads allocate on stacks of coroutines or signals only",
        Reason::Room => "its threads allocate where their stacks have too little room left",
        Reason::Frames => {
            "its threads allocate where it cannot be told that no signal's handler runs"
        }
        Reason::Inside => "its threads allocate inside of the allocator or of fork only",
        Reason::Locked => {
            "a lock of its malloc was not seen free (by a thread that died in malloc?)"
        }
        Reason::Arenas => "its malloc is not one that is known",
        Reason::Allocator => "its allocator has no function that gives memory back",
        Reason::Confined => "a seccomp filter might kill it for what the allocator does",
    }
    .into()
}

fn next_step(reason: Option<Reason>) -> &'static str {
    match reason {
        None => "Try again when it allocates, or start it with a smaller --interval",
        Some(Reason::Arenas | Reason::Allocator | Reason::Confined) => NOTHING,
        Some(_) => "Try again when it does something else",
    }
}
