//! What the kernel tells of a process: that it is there, its resident bytes, and how its cgroup fares.

use rustix::param::page_size;
use std::fs;
use std::path::{Path, PathBuf};

/// Tasks wait for memory for this part of the last 10 s, in percent, or more: the cgroup is stalled.
const STALLED_PERCENT: f64 = 10.0;

/// A process that is there and not a zombie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Since boot, in ticks: a process ID may be in use again.
    pub start_ticks: u64,
    /// Resident bytes.
    pub rss: Option<u64>,
}

impl Process {
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The second field is a name that may contain anything.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let is_alive = !fields.first()?.starts_with(['Z', 'X', 'x']);
        let number = |field: usize| fields.get(field - 3)?.trim().parse::<u64>().ok();
        let rss = number(24).map(|pages| pages * page_size() as u64);
        is_alive.then_some(Self { start_ticks: number(22)?, rss })
    }
}

/// How a cgroup fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// How often a bound was met (memory.events).
    pub limit_events: u64,
    /// Tasks wait for memory much of the time (memory.pressure).
    pub is_stalled: bool,
}

/// The directory of a process's cgroup (version 2).
pub fn cgroup_of(pid: u32) -> Option<PathBuf> {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let directory = Path::new("/sys/fs/cgroup").join(path);
    directory.join("memory.events").exists().then_some(directory)
}

impl Pressure {
    pub fn of(cgroup: &Path) -> Self {
        let read = |name: &str| fs::read_to_string(cgroup.join(name)).unwrap_or_default();
        Self::parse(&read("memory.events"), &read("memory.pressure"))
    }

    fn parse(events: &str, pressure: &str) -> Self {
        let bounds = ["high", "max", "oom", "oom_kill"];
        let counts = events.lines().filter_map(|line| line.split_once(' '));
        let counts = counts.filter(|(name, _)| bounds.contains(name));
        let some = pressure.lines().find_map(|line| line.strip_prefix("some avg10="));
        let percent = some.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        Self {
            limit_events: counts.filter_map(|(_, count)| count.parse::<u64>().ok()).sum(),
            is_stalled: percent.is_some_and(|percent| percent >= STALLED_PERCENT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_by_its_start_also_with_a_strange_name() {
        let own = Process::of(std::process::id()).unwrap();
        assert!(own.start_ticks > 0 && own.rss.is_some_and(|rss| rss > 1 << 16), "{own:?}");
        let rest = "1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 777 9000 25 184";
        let parsed = Process::parse(&format!("5 (a) Z b) S {rest}"));
        let rss = Some(25 * page_size() as u64);
        assert_eq!(parsed, Some(Process { start_ticks: 777, rss }));
        assert_eq!(Process::parse(&format!("5 (a) Z {rest}")), None);
        assert_eq!(Process::parse(""), None);
    }

    #[test]
    fn pressure_is_bounds_that_were_met_and_time_spent_waiting() {
        let events = "low 9\nhigh 3\nmax 4\noom 1\noom_kill 1\noom_group_kill 5\n";
        let pressure = "some avg10=12.34 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n";
        let found = Pressure::parse(events, pressure);
        assert_eq!(found, Pressure { limit_events: 9, is_stalled: true });
        assert_eq!(Pressure::parse("", "some avg10=9.99 avg60=99.00\n"), Pressure::default());
    }
}
