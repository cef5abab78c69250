//! One trim, and what came of it.

use crate::apart;
use crate::inside::Inside;
use crate::lever::{self, Lever};
use crate::outside::{self, Callee, milliseconds, refused};
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::for_process;
use ramson_inject::Called;
use ramson_process::allocators::Allocators;
use ramson_process::{read_outline, read_smaps, stat, watched};
use ramson_source::{Failure, Target, Targets, gone};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The result of a trim.
pub struct Trimmed {
    /// Resident bytes before it.
    pub rss_before: u64,
    /// Resident bytes after it.
    pub rss_after: u64,
    /// The search for a thread included.
    pub elapsed: Duration,
    /// The allocator's function.
    pub function: String,
    /// On which thread, and for how long.
    pub called: Called,
}

/// Risks that the caller of a trim accepts.
#[derive(Clone, Copy, Default, BorshSerialize, BorshDeserialize)]
pub struct Accepts {
    /// Filters of system calls that might not let it through are lifted meanwhile; the process may die with this one.
    pub suspended_seccomp: bool,
    /// The process is stopped even if the allocator would return nothing.
    pub no_gain: bool,
}

/// Makes a process's allocator return its free memory to the kernel.
pub fn trim(target: &Target, accepts: Accepts) -> Result<Trimmed, Failure> {
    match for_process(target.pid) {
        Some(by) => apart::trim(&by, target, accepts),
        None => trim_here(target, accepts, Inside::of(target)),
    }
}

/// The same, by this process.
pub fn trim_here(
    target: &Target,
    accepts: Accepts,
    inside: Option<Inside>,
) -> Result<Trimmed, Failure> {
    let (mut callee, lever) = prepare(target, inside)?;
    if let Some(at_most) = lever.at_most.filter(|_| !accepts.no_gain) {
        let no = if at_most == 0 { "no" } else { "hardly a" };
        let why = format!("malloc has {no} free page that a trim would return");
        let next = format!("\"ramson trim --force {}\" trims the process anyway", target.pid);
        return Err(refused(target, &why, &next));
    }
    callee.suspends_seccomp = accepts.suspended_seccomp;
    pull(&callee, &lever)
}

/// Finds out whether and how a process can be trimmed.
pub fn prepare(target: &Target, inside: Option<Inside>) -> Result<(Callee<'_>, Lever), Failure> {
    let process = outside::open(target)?;
    let mut areas = read_outline(target.pid).map_err(|_| gone(target))?;
    let allocators = Allocators::of(target.pid, &areas);
    if allocators.other.is_some() {
        // Which of two has the memory is told by what is resident.
        areas = read_smaps(target.pid).map_err(|_| gone(target))?;
    }
    let callee = Callee::open(target, process, areas, allocators)?;
    let lever = lever::find(&callee, inside)?;
    Ok((callee, lever))
}

/// Has it done.
pub fn pull(callee: &Callee, lever: &Lever) -> Result<Trimmed, Failure> {
    let rss = || rss_of(callee.target.pid).ok_or_else(|| gone(callee.target));
    let rss_before = rss()?;
    let begin = Instant::now();
    let called = callee.call(&lever.steps, lever.locks.as_ref(), lever.are_locks_seen)?;
    let elapsed = begin.elapsed();
    Ok(Trimmed { rss_before, rss_after: rss()?, elapsed, function: lever.name.into(), called })
}

impl Trimmed {
    /// `malloc_trim on thread 4711 (server)`.
    pub fn message(&self) -> String {
        let called = &self.called;
        format!("{} on thread {} ({})", self.function, called.tid, called.name)
    }
}

/// A trim, or why there was none, for `--json` and logs. Absent: not known.
#[derive(Default, Serialize, schemars::JsonSchema)]
pub struct TrimAnswer {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Time since the last trim.
    pub period_ms: Option<f64>,
    /// The search for a thread included.
    pub elapsed_ms: Option<f64>,
    /// How long the thread was stopped.
    pub stopped_ms: Option<f64>,
    /// The thread.
    pub tid: Option<i32>,
    /// Resident bytes before.
    pub rss_before: Option<u64>,
    /// Resident bytes after.
    pub rss_after: Option<u64>,
    /// Before − after.
    pub rss_diff: Option<i64>,
    /// The function that was called and its thread, or why nothing was done.
    pub message: String,
}

impl TrimAnswer {
    /// `period` is the time since the last trim.
    pub fn of(
        target: &Target,
        trimmed: Result<&Trimmed, &Failure>,
        period: Option<Duration>,
    ) -> Self {
        let found = trimmed.ok();
        let difference = |of: &Trimmed| of.rss_before as i64 - of.rss_after as i64;
        Self {
            pid: target.pid,
            name: target.name.clone(),
            period_ms: period.map(milliseconds),
            elapsed_ms: found.map(|trimmed| milliseconds(trimmed.elapsed)),
            stopped_ms: found.map(|trimmed| milliseconds(trimmed.called.stopped)),
            tid: found.map(|trimmed| trimmed.called.tid),
            rss_before: found.map(|trimmed| trimmed.rss_before),
            rss_after: found.map(|trimmed| trimmed.rss_after),
            rss_diff: found.map(difference),
            message: trimmed.map_or_else(ToString::to_string, Trimmed::message),
        }
    }
}

/// Results of trimming several processes, one after the other.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Trims {
    /// In the order of their process IDs.
    pub processes: Vec<TrimAnswer>,
}

/// Trims each of them. Fails if none could be trimmed.
pub fn trim_all(targets: &Targets, accepts: Accepts) -> Result<Trims, Failure> {
    let mut first_failure = None;
    let mut processes = Vec::new();
    for target in &targets.found {
        let trimmed = trim(target, accepts);
        processes.push(TrimAnswer::of(target, trimmed.as_ref(), None));
        first_failure = first_failure.or(trimmed.err());
    }
    let is_trimmed = |answer: &TrimAnswer| answer.rss_after.is_some();
    if let (Some(failure), false) = (first_failure, processes.iter().any(is_trimmed)) {
        return Err(failure);
    }
    processes.extend(targets.refused.iter().map(|refused| TrimAnswer {
        pid: refused.pid,
        name: refused.name.clone(),
        message: refused.failure.to_string(),
        ..TrimAnswer::default()
    }));
    processes.sort_by_key(|answer| answer.pid);
    Ok(Trims { processes })
}

/// RSS in bytes, as smaps adds it up; `None` if the process is gone.
pub fn rss_of(pid: u32) -> Option<u64> {
    watched::lines(pid, "smaps_rollup").ok()?.find_map(|line| stat::bytes(&line, "Rss"))
}
