//! How a process ended, told from outside once it is gone, or that a file is a copy of a running one's: FORMAT.md's "End".

use crate::mix;

/// From the start of the file.
pub const END_OFFSET: u64 = 3584;
/// Length of the record.
pub const END_BYTES: usize = 512;
/// Longest path of a control group that is kept.
pub const CGROUP_BYTES: usize = 256;

const VERSION: u64 = 1;
const NUMBERS_AT: usize = 16;
const PATH_AT: usize = 80;
const CHECK_AT: usize = END_BYTES - 8;
const CORE_DUMPED: u32 = 1;
const NAMED_IN_LOG: u32 = 2;

/// The way out of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The argument of exit(2).
    Exited(u32),
    /// The number of the signal.
    Signalled(u32),
    /// exec(2) put another image in its place.
    Replaced,
    /// No end: the file is a copy that was made while the process ran.
    Copied,
}

/// Facts that the system told about the end of a process. 0 is "not known".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The way out.
    pub way: Way,
    /// The kernel wrote a core dump.
    pub has_dumped_core: bool,
    /// The kernel's log names the process as a victim of the OOM killer.
    pub is_named_in_log: bool,
    /// When, in ns since 1970.
    pub realtime_ns: u64,
    /// Largest RSS of the process.
    pub peak_rss_bytes: u64,
    /// RSS at the last look.
    pub last_rss_bytes: u64,
    /// How long before the end that look was.
    pub last_rss_age_ns: u64,
    /// RSS when the OOM killer came, as the kernel's log has it.
    pub killed_rss_bytes: u64,
    /// By how much the control group's `oom_kill` rose while the process ran.
    pub oom_kills: u64,
    /// The lowest memory limit of the control group and those above it.
    pub limit_bytes: u64,
    /// Bytes of `cgroup` that are used.
    pub cgroup_bytes: usize,
    /// Path of the control group below its hierarchy's root.
    pub cgroup: [u8; CGROUP_BYTES],
}

impl End {
    /// Nothing known but the way out.
    pub fn of(way: Way) -> Self {
        Self {
            way,
            has_dumped_core: false,
            is_named_in_log: false,
            realtime_ns: 0,
            peak_rss_bytes: 0,
            last_rss_bytes: 0,
            last_rss_age_ns: 0,
            killed_rss_bytes: 0,
            oom_kills: 0,
            limit_bytes: 0,
            cgroup_bytes: 0,
            cgroup: [0; CGROUP_BYTES],
        }
    }

    /// Keeps as much of a path as there is room for.
    pub fn set_cgroup(&mut self, path: &[u8]) {
        self.cgroup_bytes = path.len().min(CGROUP_BYTES);
        self.cgroup.iter_mut().zip(path).for_each(|(to, &byte)| *to = byte);
    }

    /// The path that `set_cgroup` was given.
    pub fn cgroup_path(&self) -> &[u8] {
        self.cgroup.get(..self.cgroup_bytes).unwrap_or_default()
    }

    /// The OOM killer ended it: the kernel's log says so, or a counter rose and the signal fits.
    pub fn is_out_of_memory(&self) -> bool {
        const SIGKILL: u32 = 9;
        self.way == Way::Signalled(SIGKILL) && (self.is_named_in_log || self.oom_kills > 0)
    }

    /// As it stands in the file.
    pub fn to_bytes(&self) -> [u8; END_BYTES] {
        let (kind, value) = match self.way {
            Way::Exited(status) => (1, status),
            Way::Signalled(signal) => (2, signal),
            Way::Replaced => (3, 0),
            Way::Copied => (4, 0),
        };
        let flags = if self.has_dumped_core { CORE_DUMPED } else { 0 }
            | if self.is_named_in_log { NAMED_IN_LOG } else { 0 };
        let head = [VERSION | kind << 32, value as u64 | (flags as u64) << 32];
        let numbers = { *self }.numbers().map(|number| *number);
        let words = head.into_iter().chain(numbers).chain([self.cgroup_bytes as u64]);
        let mut out = [0; END_BYTES];
        for (to, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        out[PATH_AT..PATH_AT + CGROUP_BYTES].copy_from_slice(&self.cgroup);
        let check = check(&out);
        out[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// `None`: nobody has told, or it is not whole.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; END_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| word(bytes, at);
        let kind = (word(0) >> 32) as u32;
        let value = word(8) as u32;
        if word(0) as u32 as u64 != VERSION || word(CHECK_AT) != check(bytes) {
            return None;
        }
        let way = match kind {
            1 => Way::Exited(value),
            2 => Way::Signalled(value),
            3 => Way::Replaced,
            4 => Way::Copied,
            _ => return None,
        };
        let flags = (word(8) >> 32) as u32;
        let mut end = Self {
            has_dumped_core: flags & CORE_DUMPED != 0,
            is_named_in_log: flags & NAMED_IN_LOG != 0,
            ..Self::of(way)
        };
        let numbers = end.numbers().into_iter();
        numbers.zip((NUMBERS_AT..).step_by(8)).for_each(|(number, at)| *number = word(at));
        let path_bytes = (word(PATH_AT - 8) as usize).min(CGROUP_BYTES);
        end.set_cgroup(&bytes[PATH_AT..PATH_AT + path_bytes]);
        Some(end)
    }

    /// As they follow each other in the file.
    fn numbers(&mut self) -> [&mut u64; 7] {
        [
            &mut self.realtime_ns,
            &mut self.peak_rss_bytes,
            &mut self.last_rss_bytes,
            &mut self.last_rss_age_ns,
            &mut self.killed_rss_bytes,
            &mut self.oom_kills,
            &mut self.limit_bytes,
        ]
    }
}

fn word(bytes: &[u8; END_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(bytes.as_chunks().0[at / 8])
}

fn check(bytes: &[u8; END_BYTES]) -> u64 {
    (0..CHECK_AT).step_by(8).fold(0x656e_6420, |hash, at| mix(hash, word(bytes, at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> End {
        let mut end = End {
            has_dumped_core: true,
            is_named_in_log: true,
            realtime_ns: 1,
            peak_rss_bytes: 2,
            last_rss_bytes: 3,
            last_rss_age_ns: 4,
            killed_rss_bytes: 5,
            oom_kills: 6,
            limit_bytes: 7,
            ..End::of(Way::Signalled(9))
        };
        end.set_cgroup(b"/system.slice/redis.service");
        end
    }

    #[test]
    fn end_is_read_whole_or_refused() {
        for way in [Way::Exited(3), Way::Signalled(11), Way::Replaced, Way::Copied] {
            let end = End { way, ..full() };
            let bytes = end.to_bytes();
            assert_eq!(End::from_bytes(&bytes), Some(end));
            for at in 0..END_BYTES {
                let mut damaged = bytes;
                damaged[at] ^= 0x10;
                assert_eq!(End::from_bytes(&damaged), None, "byte {at}");
                assert_eq!(End::from_bytes(&bytes[..at]), None, "cut at {at}");
            }
        }
        assert_eq!(End::from_bytes(&[0; END_BYTES]), None);
    }

    #[test]
    fn overlong_cgroup_path_is_cut() {
        let mut end = full();
        end.set_cgroup(&[b'x'; 4 * CGROUP_BYTES]);
        assert_eq!(end.cgroup_path().len(), CGROUP_BYTES);
        end.set_cgroup(b"/");
        assert_eq!(end.cgroup_path(), b"/");
    }

    #[test]
    fn only_proven_sigkill_is_oom() {
        assert!(full().is_out_of_memory());
        assert!(End { is_named_in_log: false, ..full() }.is_out_of_memory());
        assert!(!End { is_named_in_log: false, oom_kills: 0, ..full() }.is_out_of_memory());
        assert!(!End { way: Way::Signalled(15), ..full() }.is_out_of_memory());
    }
}
