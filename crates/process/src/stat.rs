//! Facts about a process that are cheap to ask: that it is there, since when, and its resident bytes.

use crate::text;
use rustix::param::page_size;

/// A process that is there and not a zombie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Since boot, in ticks: a process ID may be in use again.
    pub start_ticks: u64,
    /// Resident bytes; 0 of a process that exits and has already freed its memory.
    pub rss: Option<u64>,
}

impl Stat {
    /// `None` if there is none, or a zombie.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&read(pid)?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let is_alive = !field(stat, 3)?.starts_with(['Z', 'X', 'x']);
        let number = |number| field(stat, number)?.parse::<u64>().ok();
        let rss = number(24).map(|pages| pages * page_size() as u64);
        is_alive.then_some(Self { start_ticks: number(22)?, rss })
    }
}

/// A number in /proc/PID/stat, by its field in proc_pid_stat(5); also of a zombie.
pub fn number(pid: u32, field_number: usize) -> Option<u64> {
    field(&read(pid)?, field_number)?.parse().ok()
}

fn read(pid: u32) -> Option<String> {
    text::read(format!("/proc/{pid}/stat")).ok()
}

/// Field 2 is a name that may contain anything; this is one behind it.
fn field(stat: &str, number: usize) -> Option<&str> {
    stat.rsplit_once(") ")?.1.split_ascii_whitespace().nth(number - 3)
}

/// Returns the value of a line `NAME: …` of a file such as /proc/PID/status.
pub fn line<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Returns the value of such a line in bytes, if the line is in kB.
pub fn bytes(status: &str, name: &str) -> Option<u64> {
    Some(line(status, name)?.strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// RSS and its maximum so far, in bytes; 0 where there is none.
pub fn rss_and_peak(pid: u32) -> (u64, u64) {
    let status = text::read(format!("/proc/{pid}/status")).unwrap_or_default();
    (bytes(&status, "VmRSS").unwrap_or(0), bytes(&status, "VmHWM").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn stat_survives_strange_names() {
        let own = Stat::of(std::process::id()).unwrap();
        assert!(own.start_ticks > 0 && own.rss.is_some_and(|rss| rss > 1 << 16), "{own:?}");
        let rest = "1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 777 9000 25 184";
        let parsed = Stat::parse(&format!("5 (a) Z b) S {rest}"));
        let rss = Some(25 * page_size() as u64);
        assert_eq!(parsed, Some(Stat { start_ticks: 777, rss }));
        assert_eq!(Stat::parse(&format!("5 (a) Z {rest}")), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn binary_name_hides_no_process() {
        let named = std::thread::spawn(|| {
            fs::write("/proc/thread-self/comm", b"caf\xc3) \xff").unwrap();
            let tid = fs::read_link("/proc/thread-self").unwrap();
            let tid = tid.file_name().unwrap().to_str().unwrap().parse().unwrap();
            (Stat::of(tid), number(tid, 4))
        });
        let (stat, parent) = named.join().unwrap();
        assert!(stat.is_some());
        assert_eq!(parent, Some(std::os::unix::process::parent_id().into()));
    }

    #[test]
    fn our_own_rss_is_known() {
        let (rss, peak) = rss_and_peak(std::process::id());
        assert!(rss > 0 && peak >= rss);
        assert_eq!(rss_and_peak(u32::MAX), (0, 0));
    }
}
