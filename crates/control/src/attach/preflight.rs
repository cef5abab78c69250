//! Obstacles to an attach, as far as /proc tells them: each has its own message, before anything is done.

use super::loader::RESTART;
use super::object::word;
use crate::outside::refused;
use ramson_inject::Process;
use ramson_process::allocators::{Allocator, Allocators};
use ramson_process::{stat, text};
use ramson_source::{Failure, Target, gone};
use std::fs;

/// `AT_SECURE` and the others are pairs of words, this is the kind of the first (linux/auxvec.h).
const AT_PHDR: u64 = 3;
const AT_SECURE: u64 = 23;

/// Facts that are learnt on the way.
pub struct Facts {
    /// The process, as it is called in its own namespace.
    pub own_pid: u32,
    pub program_headers: u64,
    /// Filters of system calls, if there are any.
    pub filters: Option<u64>,
}

/// Refuses an allocator to which no pointer leads that ramson could redirect.
pub fn unseen(target: &Target, inside: &Allocator) -> Failure {
    let what = inside.unseen_because("the start did not record it");
    refused(target, &what, "Start it with \"ramson run --inside on\"")
}

/// Why the process cannot be recorded from now on, if so.
pub fn check(
    target: &Target,
    process: &Process,
    allocators: &Allocators,
    is_inside: bool,
) -> Result<Facts, Failure> {
    let directory = format!("/proc/{}", target.pid);
    let status = text::read(format!("{directory}/status")).map_err(|_| gone(target))?;
    let field = |name: &str| stat::line(&status, name).unwrap_or_default();
    if let Some(inside) = allocators.inside().filter(|_| !is_inside) {
        let what = inside.unseen_because("attaching reaches it with --inside only");
        return Err(refused(target, &what, &format!("ramson attach --inside {}", target.pid)));
    }
    if is_inside && field("Seccomp") != "0" {
        let why = "a seccomp filter might kill it while hooks are written into its code";
        return Err(refused(
            target,
            why,
            "Attach without --inside, or restart it under \"ramson run\"",
        ));
    }
    if fs::symlink_metadata(format!("{directory}/root/proc/self")).is_err() {
        return Err(refused(target, "there is no /proc in its root directory", RESTART));
    }
    let pairs = process.auxiliary().as_chunks::<16>().0.iter();
    let pairs = pairs.map(|pair| (word(&pair[..8]), word(&pair[8..])));
    let auxiliary =
        |wanted: u64| pairs.clone().find(|&(kind, _)| kind == wanted).map(|found| found.1);
    if auxiliary(AT_SECURE) != Some(0) {
        let why =
            "it runs with rights that its user does not have (set-user-ID, file capabilities)";
        return Err(refused(target, why, "ramson cannot record it"));
    }
    let ids = field("NSpid");
    let own_pid = ids.split_whitespace().last().and_then(|id| id.parse().ok());
    Ok(Facts {
        own_pid: own_pid.unwrap_or(target.pid),
        program_headers: auxiliary(AT_PHDR).unwrap_or(0),
        filters: field("Seccomp_filters").parse().ok().filter(|&filters| filters != 0),
    })
}
