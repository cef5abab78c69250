//! `ramson trim`: makes a process return its allocator's free memory to the kernel, once, and says what came of it.

use crate::flags::{ScheduleFlags, TrimFlags};
use crate::output::{print, print_json, remark};
use crate::table::{Table, or_dash, size};
use ramson_control::{Accepts, Schedule, TrimAnswer, Trimmed, Trims};
use ramson_profile::format::format_bytes;
use ramson_profile::printable;
use ramson_source::{Failure, Target, find_targets};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Child;
use std::time::Duration;

pub fn trim(flags: &TrimFlags) -> Result<(), Failure> {
    let targets = find_targets(&flags.sources)?;
    let accepts = Accepts { suspended_seccomp: flags.suspend_seccomp, no_gain: flags.force };
    if let ([target], []) = (targets.found.as_slice(), targets.refused.as_slice()) {
        let trimmed = ramson_control::trim(target, accepts)?;
        return if flags.json {
            print_json("trim", &TrimAnswer::of(target, Ok(&trimmed), None))
        } else {
            print(&text(target, &trimmed))
        };
    }
    let trims = ramson_control::trim_all(&targets, accepts)?;
    if flags.json { print_json("trim", &trims) } else { print(&table_of(&trims)) }
}

fn table_of(trims: &Trims) -> String {
    let mut out = String::new();
    let mut table =
        Table::new(&mut out, "pid:>10|RSS:>10|after:>10|back:>10|stopped:>9@90|process");
    // The row of a process that could not be trimmed says why.
    table.columns = None;
    for one in &trims.processes {
        table.row([
            one.pid.to_string(),
            or_dash(one.rss_before.map(size)),
            or_dash(one.rss_after.map(size)),
            or_dash(one.rss_diff.map(|bytes| format_bytes(bytes as f64))),
            or_dash(one.stopped_ms.map(|time| format!("{time:.1} ms"))),
            format!("{}: {}", one.name, one.message),
        ]);
    }
    out
}

fn text(target: &Target, trimmed: &Trimmed) -> String {
    let (before, after) = (trimmed.rss_before, trimmed.rss_after);
    let came = match before.checked_sub(after) {
        Some(bytes) => format!("{} returned", size(bytes)),
        None => format!("nothing returned, {} more", size(after - before)),
    };
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    format!(
        "{} (pid {}): RSS {} → {}: {came} in {}\n{}, which was stopped for {}\n",
        printable(&target.name),
        target.pid,
        size(before),
        size(after),
        milliseconds(trimmed.elapsed),
        trimmed.message(),
        milliseconds(trimmed.called.stopped),
    )
}

/// Schedule that `run --trim-every` and `--trim-after` ask for; `None` if neither is used. Fails if the log cannot be written.
pub fn schedule(flags: &ScheduleFlags) -> Result<Option<Schedule>, String> {
    if flags.trim_every.is_none() && flags.trim_after.is_none() {
        return Ok(None);
    }
    let open = |path: &std::path::PathBuf| {
        let mut options = File::options();
        options.create(true).append(true).mode(0o600);
        let opened = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path);
        opened.map_err(|error| format!("{}: {error}. Choose another FILE", path.display()))
    };
    let log = flags.trim_log.as_ref().map(open).transpose()?;
    Ok(Some(Schedule::new(flags.trim_every.map(Duration::from_nanos), flags.trim_after, log)))
}

/// Returns when the program has ended: to wait for its status before would also take the stops that trims wait for.
pub fn until_end(trims: Schedule, child: &Child) {
    let end = match pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
        Ok(end) => end,
        Err(error) => {
            return remark(format_args!(
                "--trim-every and --trim-after: ramson cannot watch the program ({error}). They need Linux 5.3 or newer"
            ));
        }
    };
    let root = child.id();
    if let Err(error) = std::thread::Builder::new().spawn(move || trims.run(root)) {
        remark(format_args!("cannot trim: {error}"));
    }
    let mut ends = [PollFd::new(&end, PollFlags::IN)];
    while poll(&mut ends, None) == Err(Errno::INTR) {}
}
