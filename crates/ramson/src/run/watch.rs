//! Watches the program of `ramson run` from outside, until the end: its RSS now and then, its control group, its status.

use super::roots::Roots;
use ramson_process::cgroup::{Group, Groups};
use ramson_process::clock::unix_ns;
use ramson_process::{stat, text};
use ramson_reader::{End, Way};
use std::collections::HashMap;
use std::fs::read_link;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A look costs the program nothing and us some microseconds: soon at first, as short programs end soon, then rarely.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Descendants are looked at in longer intervals only.
const LEAST_PAUSE_FOR_ALL: Duration = Duration::from_millis(160);

pub struct Ended {
    pub pid: u32,
    pub end: End,
    /// Field 22 of /proc/PID/stat, as profiles have it; 0 if it could not be read.
    pub start_ticks: u64,
    /// As whom it ended, if that is known.
    pub user: Option<u32>,
    /// As it was seen last; `None`: it ended before it was looked at.
    pub surroundings: Option<Surroundings>,
    /// Profiles of its descendants, and its own, in other root directories than ours.
    pub elsewhere: Vec<PathBuf>,
}

/// Which files a program sees.
pub struct Surroundings {
    /// Its root directory, if that is another one than ours.
    pub root: Option<PathBuf>,
    /// It has namespaces of its own, or forbids to be looked at.
    pub may_be_elsewhere: bool,
}

impl Surroundings {
    fn of(pid: u32) -> Self {
        let link = |pid: &str, name: &str| read_link(format!("/proc/{pid}/{name}")).ok();
        let pid = pid.to_string();
        let is_alike = |name| {
            let its = link(&pid, name);
            its.is_some() && its == link("self", name)
        };
        let root = link(&pid, "root").filter(|root| root != Path::new("/"));
        Self { root, may_be_elsewhere: !["root", "ns/mnt", "ns/user"].into_iter().all(is_alike) }
    }
}

#[derive(Default)]
pub struct Watch {
    last_rss: Option<(u64, Instant)>,
    peak_rss: u64,
    limit: u64,
    group: Option<Group>,
    surroundings: Option<Surroundings>,
    roots: Roots,
    /// Counters at the first look at each group.
    oom_kills: HashMap<String, u64>,
}

impl Watch {
    /// Before the program does: what happens before the first look counts, too. It will begin in our
    /// control group.
    pub fn begin() -> Self {
        let mut watch = Self::default();
        if let Some(group) = Groups::of(std::process::id()).of_memory()
            && let Some(count) = group.oom_kills()
        {
            watch.oom_kills.insert(group.path.clone(), count);
            watch.group = Some(group.clone());
        }
        watch
    }

    fn look(&mut self, pid: u32) {
        let surroundings = Surroundings::of(pid);
        let groups = Groups::of(pid);
        let group = groups.of_memory().map(|group| (group.oom_kills(), group.clone()));
        let limit = groups.limit().map_or(0, |limit| limit.limit_bytes);
        // Last: a process that has died meanwhile has none, and is in no group of its own, by version 1.
        let (rss, peak) = stat::rss_and_peak(pid);
        if rss == 0 {
            return;
        }
        self.surroundings = Some(surroundings);
        self.last_rss = Some((rss, Instant::now()));
        self.peak_rss = self.peak_rss.max(peak);
        if let Some((count, group)) = group {
            if let Some(count) = count {
                self.oom_kills.entry(group.path.clone()).or_insert(count);
            }
            self.limit = limit;
            self.group = Some(group);
        }
    }

    fn go_on(mut self, pid: u32, stop: &Receiver<()>) -> Self {
        let mut pause = FIRST_PAUSE;
        while stop.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            self.look(pid);
            self.roots.look(pid, pause >= LEAST_PAUSE_FOR_ALL);
            pause = (pause * 2).min(LAST_PAUSE);
        }
        self
    }

    fn tell(&self, end: &mut End) {
        if let Some((rss, at)) = self.last_rss {
            end.last_rss_bytes = rss;
            end.last_rss_age_ns = at.elapsed().as_nanos() as u64;
        }
        end.peak_rss_bytes = self.peak_rss;
        end.limit_bytes = self.limit;
        // It died before the first look, in our control group.
        if self.last_rss.is_none() && end.way != Way::Exited(0) {
            let own = Groups::of(std::process::id());
            end.limit_bytes = own.limit().map_or(0, |limit| limit.limit_bytes);
        }
        if let Some(group) = &self.group {
            end.set_cgroup(group.path.as_bytes());
            let counts = self.oom_kills.get(&group.path).zip(group.oom_kills());
            end.oom_kills = counts.map_or(0, |(before, after)| after.saturating_sub(*before));
        }
    }

    /// Waits for the program, which was started just now, and watches it. First of all calls `meanwhile`, which may return when it
    /// has ended.
    pub fn wait(self, child: Child, meanwhile: impl FnOnce(&Child)) -> io::Result<Ended> {
        let pid = child.id();
        let (stop, stopped) = channel();
        // If no further thread can start, ramson sees nothing but the end.
        let looks = move || self.go_on(pid, &stopped);
        let watcher = std::thread::Builder::new().spawn(looks).ok();
        meanwhile(&child);
        ramson_launch::wait_for_end(pid);
        let ended_ns = unix_ns();
        drop(stop);
        let looks = watcher.and_then(|watcher| watcher.join().ok()).unwrap_or_default();
        // Not reaped yet, so the ID is still its own.
        let start_ticks = start_ticks_of(pid);
        let user = user_of(pid);
        let (status, peak) = ramson_launch::reap(pid)?;
        let way = match (status.code(), status.signal()) {
            (Some(code), _) => Way::Exited(code as u32 & 255),
            (None, signal) => Way::Signalled(signal.unwrap_or(0) as u32),
        };
        let mut end = End::of(way);
        end.has_dumped_core = status.core_dumped();
        end.realtime_ns = ended_ns;
        looks.tell(&mut end);
        // A process begins with the RSS of its starter: no larger, and it is ours.
        let (_, own_peak) = stat::rss_and_peak(std::process::id());
        if peak > own_peak {
            end.peak_rss_bytes = end.peak_rss_bytes.max(peak);
        }
        let elsewhere = looks.roots.noted.into_iter().collect();
        Ok(Ended { pid, end, start_ticks, user, surroundings: looks.surroundings, elsewhere })
    }
}

/// When a process began, in clock ticks, also of a zombie; 0 if it cannot be read.
pub fn start_ticks_of(pid: u32) -> u64 {
    stat::number(pid, 22).unwrap_or(0)
}

/// The effective user of a process, also of a zombie.
fn user_of(pid: u32) -> Option<u32> {
    let status = text::read(format!("/proc/{pid}/status")).ok()?;
    stat::line(&status, "Uid")?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn end_has_status_or_signal() {
        let shell = |script: &str| {
            let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            Watch::begin().wait(child, |_| ())
        };
        assert_eq!(shell("exit 7").unwrap().end.way, Way::Exited(7));
        let ended = shell("kill -SEGV $$").unwrap();
        assert_eq!(ended.end.way, Way::Signalled(11));
        assert!(ended.start_ticks > 0 && ended.end.realtime_ns > 0);
        assert!(!ended.end.is_out_of_memory());
    }
}
