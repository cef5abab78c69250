//! How a profiled process ended, as far as the process itself, `ramson run` or the kernel's log reported it.

pub mod kernel_log;
pub mod sites;

use crate::attachment;
use crate::extents::lost_text;
use crate::rss::live_text;
use kernel_log::KernelLog;
use ramson_format::{Kind, state};
use ramson_profile::Estimate;
use ramson_profile::format::{format_bytes, format_duration, format_local_time, format_objects};
use ramson_reader::{End as Noted, FailedAllocation, Header, Snapshot, Way};
use ramson_source::{Recording, runs_another_program};
use serde::Serialize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Signals by which a program ends itself, or the kernel does, when something is wrong with it.
const OF_FAULTS: [u32; 8] = [4, 5, 6, 7, 8, 9, 11, 31];

/// A noted lack of memory belongs to a death that followed within this time.
const MOST_NS_BEFORE_DEATH: u64 = 5_000_000_000;

/// A program that used this much, and less than this share of it at its exit, freed most before.
const MUCH_BYTES: u64 = 64 << 20;
const LITTLE_SHARE: f64 = 0.1;

const SIGABRT: u32 = 6;

const LAST_SEEN: &str = "at last check";

/// Why a process died, in the words of tables and of `--json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It ended by itself, or exec replaced it.
    None,
    /// The kernel's log or a counter of its control group says so.
    OomKiller,
    /// It noted that it got no memory, shortly before.
    LackOfMemory,
    /// The signal came from itself or another process: which, is not known.
    Unknown,
}

impl Cause {
    /// For a column.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::OomKiller => "OOM killer",
            Self::LackOfMemory => "out of memory",
            Self::Unknown => "unknown",
        }
    }

    /// It died of memory.
    pub fn is_memory(self) -> bool {
        matches!(self, Self::OomKiller | Self::LackOfMemory)
    }
}

/// Returns how a process ended. `None`: the process runs, or its end was not seen.
pub fn end_of(source: &Recording) -> Option<Noted> {
    let header = &source.snapshot.header;
    if source.running.is_some() {
        return None;
    }
    header.end.as_deref().copied().or_else(|| {
        match (header.state, u32::try_from(header.exit_status)) {
            (state::EXITED, Ok(status)) => Some(Noted {
                realtime_ns: header.unix_ns(header.last_monotonic_ns),
                ..Noted::of(Way::Exited(status & 255))
            }),
            (state::EXITED, Err(_)) => None,
            _ if runs_another_program(header) => Some(Noted::of(Way::Replaced)),
            _ => logged(source),
        }
    })
}

/// How the kernel's log says that it ended, as it was a moment ago at most: who follows processes sees later deaths, too.
fn logged(source: &Recording) -> Option<Noted> {
    const MOST_AGE: Duration = Duration::from_secs(1);
    static LOG: Mutex<Option<(Instant, KernelLog)>> = Mutex::new(None);
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let fresh = log.take().filter(|(read, _)| read.elapsed() < MOST_AGE);
    let (_, log) = log.insert(fresh.unwrap_or_else(|| (Instant::now(), KernelLog::read())));
    in_log(source, log)
}

/// How the kernel's log says that it ended.
pub fn in_log(source: &Recording, log: &KernelLog) -> Option<Noted> {
    let Snapshot { header, live, .. } = &source.snapshot;
    log.end_of(header, |id| live.iter().any(|live| live.tid == id))
}

/// `sum of 1,234 processes`, if it is one.
fn sum_text(header: &Header) -> Option<String> {
    match header.processes {
        0 => None,
        1 => Some("sum of 1 process".into()),
        count => Some(format!("sum of {} processes", format_objects(count as f64))),
    }
}

/// One word for how the process is or how it ended.
pub fn state_of(source: &Recording) -> String {
    if source.running.is_some() {
        return attachment::state_of(source).unwrap_or("running").into();
    }
    if let Some(sum) = sum_text(&source.snapshot.header) {
        return sum;
    }
    match end_of(source).map(|end| end.way) {
        Some(Way::Exited(status)) => format!("exited {status}"),
        Some(Way::Signalled(signal)) => signal_name(signal),
        Some(Way::Replaced) => "replaced".into(),
        Some(Way::Copied) => "copy".into(),
        None if source.snapshot.header.state == state::EXITED => "exited".into(),
        None => "died".into(),
    }
}

/// `SIGKILL`, or the number where there is no name.
pub fn signal_name(signal: u32) -> String {
    let name = i32::try_from(signal).ok().and_then(signal_hook::low_level::signal_name);
    name.map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// Why it died.
pub fn cause_of(source: &Recording) -> Cause {
    let has_exited = source.snapshot.header.state == state::EXITED;
    match end_of(source) {
        _ if source.running.is_some() => Cause::None,
        Some(end) if end.is_out_of_memory() => Cause::OomKiller,
        Some(Noted { way: Way::Exited(_) | Way::Replaced | Way::Copied, .. }) => Cause::None,
        None if has_exited => Cause::None,
        _ if Lack::of(source).is_some() => Cause::LackOfMemory,
        _ => Cause::Unknown,
    }
}

/// A lack of memory that a program itself noted shortly before it died.
#[derive(Clone, Copy)]
struct Lack {
    /// The kernel refused so much when abort was called; whether the program had asked for memory is not known. Else a
    /// request failed.
    is_at_abort: bool,
    /// How much, when and where.
    noted: FailedAllocation,
}

impl Lack {
    /// `None` if there is none, or the process ended otherwise.
    fn of(source: &Recording) -> Option<Self> {
        let header = &source.snapshot.header;
        let end = end_of(source);
        let ended_ns = match end.map_or(0, |end| end.realtime_ns) {
            0 => header.last_monotonic_ns,
            unix_ns => {
                let after_start_ns = unix_ns.saturating_sub(header.start_realtime_ns);
                header.start_monotonic_ns.saturating_add(after_start_ns)
            }
        };
        let noted = |noted: &Option<Box<FailedAllocation>>, signals: &[u32]| {
            let may_be = match end.map(|end| end.way) {
                Some(Way::Signalled(signal)) => signals.contains(&signal),
                Some(_) => false,
                None => header.state != state::EXITED,
            };
            let is_near = |noted: &FailedAllocation| {
                ended_ns.saturating_sub(noted.monotonic_ns) <= MOST_NS_BEFORE_DEATH
            };
            noted.as_deref().copied().filter(|noted| may_be && is_near(noted))
        };
        // A failure tells more: it is a request, and the place that made it.
        let failure = noted(&header.last_failure, &OF_FAULTS);
        let found = failure.or_else(|| noted(&header.last_abort, &[SIGABRT]));
        found.map(|noted| Self { is_at_abort: failure.is_none(), noted })
    }

    /// Goes on after `died by SIGABRT`.
    fn clause(self) -> String {
        let bytes = format_bytes(self.noted.size as f64);
        if self.is_at_abort {
            format!("when {bytes} more could not be allocated")
        } else {
            format!("after an allocation of {bytes} had failed")
        }
    }
}

/// Whether it ended in a way that deserves a look.
pub fn is_violent(end: &Noted) -> bool {
    matches!(end.way, Way::Signalled(signal) if OF_FAULTS.contains(&signal))
}

fn is_copy(end: Option<&Noted>) -> bool {
    end.is_some_and(|end| end.way == Way::Copied)
}

/// `RSS 62.9 MiB last seen …; live at exit 10.1 MiB`, of a process that cannot be asked.
pub fn rss_and_live_text(recording: &Recording, live: Estimate) -> String {
    let end = end_of(recording);
    let when = if is_copy(end.as_ref()) {
        "then"
    } else if attachment::is_detached(recording) {
        "at the detach"
    } else {
        "at exit"
    };
    let lost = lost_text(&recording.snapshot);
    let rss_bytes = end.as_ref().and_then(last_rss).map_or(0, |(bytes, _)| bytes);
    let most_live = live.value + live.half_width_95();
    let heap = recording.snapshot.stacks.iter().filter(|stack| stack.kind() == Kind::Heap);
    let allocated: f64 = heap.map(|stack| stack.alloc_space).sum();
    // Memory that malloc never had (a Java heap) was not freed.
    let is_little = rss_bytes >= MUCH_BYTES
        && most_live < LITTLE_SHARE * rss_bytes as f64
        && allocated > 0.5 * rss_bytes as f64;
    let freed = if is_little { "; --count allocated shows what was freed before" } else { "" };
    format!("{}; live {when} {}{lost}{freed}", rss_text(end.as_ref()), live_text(live))
}

/// RSS as it was last seen, and where that is from.
pub fn last_rss(end: &Noted) -> Option<(u64, &'static str)> {
    let last_seen = if is_copy(Some(end)) { "when it was copied" } else { LAST_SEEN };
    let known = [
        (end.killed_rss_bytes, "when the OOM killer came"),
        (end.last_rss_bytes, last_seen),
        (end.peak_rss_bytes, "at its peak"),
    ];
    known.into_iter().find(|&(bytes, _)| bytes > 0)
}

/// `died by SIGKILL of the OOM killer`, of a process whose end is known.
fn way_and_cause(source: &Recording, end: &Noted) -> String {
    let way = match end.way {
        Way::Exited(status) => format!("exited with {status}"),
        Way::Signalled(signal) => format!("died by {}", signal_name(signal)),
        Way::Replaced => "was replaced by exec".into(),
        Way::Copied => "copied while it ran".into(),
    };
    match cause_of(source) {
        Cause::OomKiller => way + " of the OOM killer",
        Cause::LackOfMemory => {
            format!("{way} {}", Lack::of(source).map_or_else(String::new, Lack::clause))
        }
        Cause::None | Cause::Unknown => way,
    }
}

/// The end of a dead process in short.
fn fate(source: &Recording) -> String {
    match end_of(source) {
        Some(end) => way_and_cause(source, &end),
        None => state_of(source),
    }
}

/// The same for the heading of a report: with evidence and time.
pub fn sentence(source: &Recording) -> String {
    let header = &source.snapshot.header;
    let Some(end) = end_of(source) else {
        let lived_ns = header.last_monotonic_ns.saturating_sub(header.start_monotonic_ns);
        let lived = format_duration(lived_ns);
        let last = format_local_time(header.unix_ns(header.last_monotonic_ns));
        if let Some(sum) = sum_text(header) {
            return format!("{sum}; the longest ran {lived}, the last ended {last}");
        }
        if header.state == state::EXITED {
            return format!("exited after {lived}");
        }
        return format!("died; cause unknown; last sample {last}, {lived} after the start");
    };
    let mut out = way_and_cause(source, &end);
    if end.is_out_of_memory() {
        out += &format!(" ({})", evidence(&end));
    }
    if end.has_dumped_core {
        out += ", core dumped";
    }
    if end.realtime_ns > 0 {
        let lived_ns = end.realtime_ns.saturating_sub(header.start_realtime_ns);
        out += &format!(
            ", {} after {}",
            format_local_time(end.realtime_ns),
            format_duration(lived_ns)
        );
    }
    out
}

/// Names the evidence that the OOM killer ended the process.
fn evidence(end: &Noted) -> String {
    let path = String::from_utf8_lossy(end.cgroup_path());
    let counter = format!("oom_kill of cgroup {path} +{}", end.oom_kills);
    match (end.is_named_in_log, end.oom_kills) {
        (true, 0) => "kernel log".into(),
        (true, _) => format!("kernel log, {counter}"),
        (false, _) => counter,
    }
}

/// `RSS 62.9 MiB when the OOM killer came, limit 64.0 MiB`, as far as it is known.
pub fn rss_text(end: Option<&Noted>) -> String {
    let is_copy = is_copy(end);
    let Some((end, (bytes, when))) = end.and_then(|end| Some((end, last_rss(end)?))) else {
        return if is_copy { "RSS unknown" } else { "RSS unknown, the process is gone" }.into();
    };
    let mut out = format!("RSS {} {when}", format_bytes(bytes as f64));
    if when == LAST_SEEN {
        out += &format!(", {} before it ended", age_text(end.last_rss_age_ns));
        if end.peak_rss_bytes > bytes {
            out += &format!(", {} at its peak", format_bytes(end.peak_rss_bytes as f64));
        }
    }
    if end.limit_bytes > 0 {
        out += &format!(", limit {}", format_bytes(end.limit_bytes as f64));
    }
    out
}

fn age_text(ns: u64) -> String {
    if ns < 1_000_000_000 { "<1 s".into() } else { format_duration(ns) }
}

/// How a process ended, as an answer.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct End {
    /// `exited`, `signalled`, `replaced` by exec, or `copied` while the process ran.
    pub way: &'static str,
    /// Status of a normal exit.
    pub exit_status: Option<u32>,
    /// Signal that ended the process.
    pub signal: Option<u32>,
    /// `OOM killer`, `out of memory`, `unknown`; empty where it ended by itself.
    pub cause: &'static str,
    /// Nanoseconds since 1970.
    pub time_unix_ns: Option<u64>,
    /// It left a core file.
    pub core_dumped: bool,
    /// Resident bytes as they were last seen …
    pub last_rss: Option<u64>,
    /// … and when that was.
    pub last_rss_is: Option<&'static str>,
    /// The most that was resident.
    pub peak_rss: Option<u64>,
    /// The kernel's log names it.
    pub kernel_log: bool,
    /// Its control group.
    pub cgroup: String,
    /// How often the OOM killer came to that group while the process ran.
    pub cgroup_oom_kills: u64,
    /// Lowest memory limit of that group and those above it, in bytes.
    pub memory_limit: Option<u64>,
    /// `allocation` or `abort`: what noted a lack of memory shortly before.
    pub lack_of_memory: Option<&'static str>,
    /// The size that failed.
    pub failed_allocation_bytes: Option<u64>,
}

impl End {
    /// `None` while the process runs, or where nothing is known.
    pub fn of(recording: &Recording) -> Option<Self> {
        let end = end_of(recording)?;
        let known = |number: u64| (number > 0).then_some(number);
        let lack = Lack::of(recording);
        let (last_rss, last_rss_is) = last_rss(&end).unzip();
        let (way, exit_status, signal) = match end.way {
            Way::Exited(status) => ("exited", Some(status), None),
            Way::Signalled(signal) => ("signalled", None, Some(signal)),
            Way::Replaced => ("replaced", None, None),
            Way::Copied => ("copied", None, None),
        };
        Some(Self {
            way,
            exit_status,
            signal,
            cause: cause_of(recording).name(),
            time_unix_ns: known(end.realtime_ns),
            core_dumped: end.has_dumped_core,
            last_rss,
            last_rss_is,
            peak_rss: known(end.peak_rss_bytes),
            kernel_log: end.is_named_in_log,
            cgroup: String::from_utf8_lossy(end.cgroup_path()).into_owned(),
            cgroup_oom_kills: end.oom_kills,
            memory_limit: known(end.limit_bytes),
            lack_of_memory: lack.map(|it| if it.is_at_abort { "abort" } else { "allocation" }),
            failed_allocation_bytes: lack.filter(|it| !it.is_at_abort).map(|it| it.noted.size),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_names() {
        assert_eq!(signal_name(1), "SIGHUP");
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(11), "SIGSEGV");
        assert_eq!(signal_name(31), "SIGSYS");
        assert_eq!(signal_name(0), "signal 0");
        assert_eq!(signal_name(40), "signal 40");
    }

    #[test]
    fn the_nearest_look_at_rss_counts() {
        let end = Noted { peak_rss_bytes: 5, ..Noted::of(Way::Signalled(9)) };
        assert_eq!(last_rss(&end), Some((5, "at its peak")));
        let end = Noted { last_rss_bytes: 4 << 20, last_rss_age_ns: 250_000_000, ..end };
        assert_eq!(rss_text(Some(&end)), "RSS 4.00 MiB at last check, <1 s before it ended");
        let end = Noted { killed_rss_bytes: 6 << 20, limit_bytes: 8 << 20, ..end };
        assert_eq!(rss_text(Some(&end)), "RSS 6.00 MiB when the OOM killer came, limit 8.00 MiB");
        assert!(rss_text(None).contains("unknown"));
    }
}
