//! Reports in the kernel's log on processes that the kernel killed, if this user may read the log.

use ramson_process::clock::{monotonic_ns, unix_ns};
use ramson_process::identify::base_name;
use ramson_reader::{End, Header, Way};
use rustix::fs::{Mode, OFlags};

/// Records of the log are no longer than that.
const MAX_RECORD_BYTES: usize = 16 << 10;
/// The kernel keeps fewer.
const MAX_RECORDS: usize = 1 << 20;
/// The log's clock and the others agree to this, and to this part of the time since the start of the machine.
const CLOCK_SLACK_NS: u64 = 1_000_000_000;
const CLOCK_DRIFT: u64 = 2000;
/// Two starts of a machine are farther apart than that.
const BOOT_SLACK_NS: u64 = 60_000_000_000;

const SIGKILL: u32 = 9;
const SIGSEGV: u32 = 11;
/// Texts that the kernel writes about a signal that nothing handles, after `traps: NAME[ID]`.
const TRAPS: [(&str, u32); 5] = [
    ("general protection", SIGSEGV),
    ("trap invalid opcode", 4),
    ("trap int3", 5),
    ("trap divide error", 8),
    ("trap stack segment", 7),
];

/// One process or thread that the kernel sent a deadly signal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    id: u32,
    /// At most 15 bytes.
    name: String,
    /// Time in ns on the log's own clock.
    since_boot_ns: u64,
    /// SIGKILL: by the OOM killer, which is the only one that the log tells of.
    signal: u32,
    /// 0 if it is not told.
    rss_bytes: u64,
}

/// The deaths in the log.
pub struct KernelLog {
    entries: Vec<Entry>,
    /// Two clocks when it was read.
    monotonic_ns: u64,
    realtime_ns: u64,
    /// This user may read it.
    pub is_readable: bool,
}

impl KernelLog {
    /// Empty where it cannot be read.
    pub fn read() -> Self {
        let records = records();
        let is_readable = records.is_some();
        let entries = records.iter().flatten().filter_map(|record| entry(record)).collect();
        Self { entries, monotonic_ns: monotonic_ns(), realtime_ns: unix_ns(), is_readable }
    }

    /// Returns the end that the log reports of the process that wrote this profile, which has one of these thread ids.
    pub fn end_of(&self, header: &Header, is_thread: impl Fn(u32) -> bool) -> Option<End> {
        let boot_ns = header.start_realtime_ns.saturating_sub(header.start_monotonic_ns);
        let own_boot_ns = self.realtime_ns.saturating_sub(self.monotonic_ns);
        let slack_ns = CLOCK_SLACK_NS + header.last_monotonic_ns / CLOCK_DRIFT;
        if boot_ns.abs_diff(own_boot_ns) > BOOT_SLACK_NS + slack_ns {
            return None;
        }
        let is_its = |entry: &&Entry| {
            entry.since_boot_ns + slack_ns >= header.last_monotonic_ns
                && names(header).any(|name| name == entry.name)
                && (entry.id == header.pid || entry.signal != SIGKILL && is_thread(entry.id))
        };
        let first = self.entries.iter().find(is_its)?;
        // The same kill may be told in two lines.
        let rss_bytes = self.entries.iter().filter(is_its).map(|entry| entry.rss_bytes).max();
        let is_oom = first.signal == SIGKILL;
        let ago_ns = self.monotonic_ns.saturating_sub(first.since_boot_ns);
        Some(End {
            is_named_in_log: is_oom,
            realtime_ns: self.realtime_ns.saturating_sub(ago_ns),
            killed_rss_bytes: rss_bytes.filter(|_| is_oom).unwrap_or(0),
            ..End::of(Way::Signalled(first.signal))
        })
    }
}

/// Names that the kernel may use for the process: of its first sampled thread, of its executable, or of its command.
fn names(header: &Header) -> impl Iterator<Item = &str> {
    let called = header.command.first().map_or("", String::as_str);
    [header.comm.as_str(), base_name(&header.exe), base_name(called)]
        .into_iter()
        .filter(|name| !name.is_empty())
        .map(|name| name.get(..15).unwrap_or(name))
}

/// All records; `None`: only root may read them on many machines.
fn records() -> Option<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let log = rustix::fs::open("/dev/kmsg", flags, Mode::empty()).ok()?;
    let mut buffer = vec![0; MAX_RECORD_BYTES];
    let mut records = Vec::new();
    for _ in 0..MAX_RECORDS {
        match rustix::io::read(&log, &mut buffer) {
            Ok(0) => break,
            Ok(count) => records.push(String::from_utf8_lossy(&buffer[..count]).into_owned()),
            // Records that were overwritten meanwhile are skipped.
            Err(rustix::io::Errno::PIPE | rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    Some(records)
}

/// `priority,sequence,microseconds,flags;text`, if the text tells of a death.
fn entry(record: &str) -> Option<Entry> {
    let (head, text) = record.split_once(';')?;
    let since_boot_ns = head.split(',').nth(2)?.parse::<u64>().ok()?.saturating_mul(1000);
    let text = text.lines().next()?;
    let (id, name, signal, rss_bytes) = if let Some(rest) = text.strip_prefix("oom-kill:") {
        summary(rest)?
    } else if let Some((_, rest)) = text.split_once("Killed process ") {
        victim(rest)?
    } else {
        fault(text)?
    };
    Some(Entry { id, name: name.to_owned(), since_boot_ns, signal, rss_bytes })
}

/// `…,task=NAME,pid=N,uid=U`: the last fields.
fn summary(text: &str) -> Option<(u32, &str, u32, u64)> {
    let (rest, _) = text.rsplit_once(",uid=")?;
    let (rest, id) = rest.rsplit_once(",pid=")?;
    let (_, name) = rest.rsplit_once(",task=")?;
    Some((id.parse().ok()?, name, SIGKILL, 0))
}

/// `N (NAME) total-vm:8kB, anon-rss:4kB, file-rss:2kB, shmem-rss:0kB, …`
fn victim(text: &str) -> Option<(u32, &str, u32, u64)> {
    let (id, rest) = text.split_once(" (")?;
    let (name, facts) = rest.rsplit_once(") ")?;
    let rss = facts.split(", ").filter_map(|fact| {
        let (what, size) = fact.split_once(':')?;
        let kib = size.strip_suffix("kB")?.parse::<u64>().ok()?;
        what.ends_with("-rss").then_some(kib.saturating_mul(1024))
    });
    Some((id.parse().ok()?, name, SIGKILL, rss.fold(0, u64::saturating_add)))
}

/// `NAME[ID]: segfault at …` or `traps: NAME[ID] trap divide error ip:…`
fn fault(text: &str) -> Option<(u32, &str, u32, u64)> {
    let (name_and_id, signal) = match text.strip_prefix("traps: ") {
        None => (text.split_once("]: segfault at ")?.0, SIGSEGV),
        Some(text) => TRAPS.iter().find_map(|&(what, signal)| {
            let (before, _) = text.split_once(&format!("] {what}"))?;
            Some((before, signal))
        })?,
    };
    let (name, id) = name_and_id.rsplit_once('[')?;
    Some((id.parse().ok()?, name, signal, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 wrote them.
    const OOM: &str = "6,1,866805518,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/x,task_memcg=/x,task=gr,ow (1),pid=31567,uid=0\n";
    const KILLED: &str = "3,2,866805531,-;Memory cgroup out of memory: Killed process 31567 (gr,ow (1)) total-vm:67720kB, anon-rss:65280kB, file-rss:860kB, shmem-rss:4kB, UID:0 pgtables:176kB oom_score_adj:0\n SUBSYSTEM=x\n";
    const SEGFAULT: &str =
        "6,3,900000000,-;prog[77]: segfault at 0 ip 0000 sp 0000 error 6 in prog[1139,400000+1000]";
    const DIVIDED: &str =
        "4,4,900000001,-;traps: p[q][78] trap divide error ip:4 sp:7 error:0 in p[4]";
    /// As it never writes.
    const HUGE: &str = "3,5,1,-;Killed process 7 (a) anon-rss:18446744073709551615kB, file-rss:18446744073709551615kB";

    fn log(records: &[&str]) -> KernelLog {
        KernelLog {
            entries: records.iter().filter_map(|record| entry(record)).collect(),
            monotonic_ns: 1_000_000_000_000,
            realtime_ns: 2_000_000_000_000,
            is_readable: true,
        }
    }

    fn header(pid: u32, comm: &str) -> Header {
        Header {
            pid,
            comm: comm.into(),
            start_monotonic_ns: 800_000_000_000,
            start_realtime_ns: 1_800_000_000_000,
            last_monotonic_ns: 866_000_000_000,
            ..Header::default()
        }
    }

    #[test]
    fn oom_victim_has_rss_and_time() {
        for records in [&[OOM, KILLED][..], &[KILLED]] {
            let end = log(records).end_of(&header(31567, "gr,ow (1)"), |_| false).unwrap();
            assert_eq!(end.way, Way::Signalled(9));
            assert!(end.is_named_in_log && end.is_out_of_memory());
            assert_eq!(end.killed_rss_bytes, (65280 + 860 + 4) << 10);
            assert_eq!(end.realtime_ns / 1_000_000, 1_866_805);
        }
    }

    #[test]
    fn faults_of_any_thread_are_found() {
        let log = log(&[SEGFAULT, DIVIDED]);
        let way = |pid, name: &str, tid| {
            log.end_of(&header(pid, name), |id| id == tid).map(|end| end.way)
        };
        assert_eq!(way(77, "prog", 0), Some(Way::Signalled(11)));
        assert_eq!(way(78, "p[q]", 0), Some(Way::Signalled(8)));
        assert_eq!(way(5, "prog", 77), Some(Way::Signalled(11)));
        assert_eq!(way(77, "other", 0), None);
        assert_eq!(way(79, "prog", 0), None);
    }

    #[test]
    fn reused_process_ids_are_not_matched() {
        let log = log(&[OOM, KILLED]);
        let later = Header { last_monotonic_ns: 880_000_000_000, ..header(31567, "gr,ow (1)") };
        assert_eq!(log.end_of(&later, |_| false), None);
        let other_boot =
            Header { start_realtime_ns: 1_000_000_000_000, ..header(31567, "gr,ow (1)") };
        assert_eq!(log.end_of(&other_boot, |_| false), None);
    }

    #[test]
    fn other_and_cut_records_are_skipped() {
        for record in
            ["", ";", "6,1,1,-;usb 1-1: new device", "6,1,x,-;oom-kill:,task=a,pid=1,uid=0"]
        {
            assert_eq!(entry(record), None, "{record}");
        }
        // Any beginning of one record, and any end of one behind it.
        let records = [OOM, KILLED, SEGFAULT, DIVIDED, HUGE];
        let beginnings = || records.iter().flat_map(|it| (0..=it.len()).map(|at| &it[..at]));
        let ends = || records.iter().flat_map(|it| (0..=it.len()).map(|at| &it[at..]));
        let mut told = 0;
        for beginning in beginnings() {
            for end in ends() {
                told += usize::from(entry(&[beginning, end].concat()).is_some());
            }
        }
        assert!(told > records.len());
    }
}
