//! The first line of every summary: what the kernel counts as resident, and what of it the profile explains.

use crate::doctor::examine::{KeptFree, kept_free};
use crate::mapped;
use ramson_process::{Mapping, is_ramsons, read_smaps};
use ramson_profile::Estimate;
use ramson_profile::format::{format_bytes, format_relative_error};
use ramson_reader::Extent;
use serde_json::{Value, json};
use std::fs;

/// More anonymous memory than this is left to `ramson doctor`: a look at the books takes some 30 ms of CPU for a GiB.
const MOST_LOOKED_AT_BYTES: u64 = 4 << 30;

/// A process's resident memory in parts that add up to `rss`. Bytes.
#[derive(Debug, Default, PartialEq)]
pub struct Resident {
    pub rss: u64,
    /// File-backed, without ramson's.
    pub files: u64,
    /// The first thread's stack and those of threads whose stack pointer the kernel tells.
    pub stacks: u64,
    /// The library, its page filter and tables, the profile file.
    pub ramson: u64,
    /// Everything else that is anonymous: heap, kept free memory, the program's own mappings.
    pub anonymous: u64,
    /// What of it the program mapped itself, as recorded.
    pub mmap: f64,
    /// What the allocator keeps of it though the program freed it, where somebody looked.
    pub kept_free: Option<KeptFree>,
    /// Where all of it lies.
    pub anonymous_areas: Vec<Area>,
}

/// A mapping of anonymous memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Area {
    pub start: u64,
    pub end: u64,
    /// `[heap]`, a name that the program gave it, or empty.
    pub path: String,
    /// Resident bytes.
    pub rss: u64,
}

impl Resident {
    /// Of a running process; `None` where the kernel does not let us look. `profile` is the profile's file, `extents` what the
    /// program mapped itself, by address.
    pub fn of(pid: u32, profile: &str, extents: &[Extent]) -> Option<Self> {
        let stack_pointers = stack_pointers(pid);
        let mut resident = Self::default();
        let mappings = read_smaps(pid).ok()?;
        let mut previous = None;
        for mapping in &mappings {
            resident.rss += mapping.rss;
            let is_stack = mapping.path == "[stack]"
                || stack_pointers.iter().any(|&pointer| mapping.contains(pointer));
            let part = match mapping {
                _ if is_ramsons(mapping, previous, Some(profile)) => &mut resident.ramson,
                _ if is_stack => &mut resident.stacks,
                // The kernel's name for shared anonymous memory is that of a file.
                mapping
                    if mapping.path.starts_with('/') && mapping.path != "/dev/zero (deleted)" =>
                {
                    &mut resident.files
                }
                &Mapping { start, end, rss, ref path, .. } => {
                    let known = mapped::Resident { range: start..end, bytes: rss };
                    resident.mmap += mapped::resident_in(pid, &known, extents);
                    resident.anonymous_areas.push(Area { start, end, path: path.clone(), rss });
                    &mut resident.anonymous
                }
            };
            *part += mapping.rss;
            previous = Some(mapping);
        }
        (resident.rss > 0).then_some(resident)
    }

    /// The same with what the allocator keeps free, where a look at its books is soon over.
    pub fn with_kept_free(mut self, pid: u32, profile: &str) -> Self {
        if self.anonymous <= MOST_LOOKED_AT_BYTES {
            self.kept_free = kept_free(pid, profile, &mut None);
        }
        self
    }

    /// The line, with the live bytes as estimated.
    pub fn line(&self, live: Estimate) -> String {
        let kept_bytes = self.kept_free.map_or(0, |kept| kept.bytes);
        let other = self.anonymous as f64 - live.value - self.mmap - kept_bytes as f64;
        let kept = match self.kept_free {
            None => String::new(),
            Some(KeptFree { bytes, half_width_95: 0.0 }) => {
                format!(" + kept free {}", format_bytes(bytes as f64))
            }
            Some(KeptFree { bytes, half_width_95 }) => {
                let (bytes, half_width) = (format_bytes(bytes as f64), format_bytes(half_width_95));
                format!(" + kept free {bytes} (±{half_width})")
            }
        };
        let mmap = match self.mmap {
            0.0 => String::new(),
            bytes => format!(" + mmap {}", format_bytes(bytes)),
        };
        let (sign, word) =
            if other >= 0.0 { ("+", "other anonymous") } else { ("−", "live but not resident") };
        format!(
            "RSS {} = live {}{kept}{mmap} + files {} + stacks {} + ramson {} {sign} {word} {}",
            format_bytes(self.rss as f64),
            live_text(live),
            format_bytes(self.files as f64),
            format_bytes(self.stacks as f64),
            format_bytes(self.ramson as f64),
            format_bytes(other.abs()),
        )
    }

    /// The same as an object; `other_anonymous` is negative where live memory is not resident.
    pub fn json(&self, live: Estimate) -> Value {
        let mut object = json!({
            "rss": self.rss,
            "live": { "value": live.value.round() as i64, "half_width_95": live.half_width_95().round() as i64 },
            "mmap": self.mmap.round() as i64,
            "files": self.files,
            "stacks": self.stacks,
            "ramson": self.ramson,
            "other_anonymous": self.anonymous as i64
                - live.value.round() as i64
                - self.mmap.round() as i64
                - self.kept_free.map_or(0, |kept| kept.bytes as i64),
        });
        if let Some(kept) = self.kept_free {
            object["kept_free"] = json!({
                "value": kept.bytes,
                "half_width_95": kept.half_width_95.round() as u64,
            });
        }
        object
    }
}

/// Live bytes with their interval. Without a live sample there is no estimate, only a bound that nobody knows.
pub fn live_text(live: Estimate) -> String {
    match live.value {
        0.0 => "0 B (no live samples)".into(),
        value => format!("{} ({})", format_bytes(value), format_relative_error(live)),
    }
}

/// Where the threads' stacks are, for those that the kernel tells (threads that are blocked; ptrace rights needed).
pub fn stack_pointers(pid: u32) -> Vec<u64> {
    const MOST_THREADS: usize = 4096;
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .take(MOST_THREADS)
        .filter_map(|task| {
            let call = fs::read_to_string(task.path().join("syscall")).ok()?;
            let pointer = call.split_whitespace().rev().nth(1)?;
            u64::from_str_radix(pointer.strip_prefix("0x")?, 16).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
Rss:                   8 kB
VmFlags: rd wr mr mw me ac
7f0000002000-7f0000003000 r-xp 00000000 08:01 5                          /opt/ra mson/libramson.so
Rss:                  12 kB
7f0000003000-7f0001003000 rw-p 00000000 00:00 0
Rss:                  20 kB
7f0002000000-7f0002100000 rw-p 00000000 00:00 0
Rss:                 100 kB
VmFlags: rd wr mr mw me dd nh ac
7f0003000000-7f0003100000 rw-s 00000000 08:01 7                          /var/tmp/ramson-0/1-2.ramson
Rss:                 200 kB
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
Rss:                  16 kB
";

    #[test]
    fn ramson_s_own_memory_is_told_apart() {
        let mappings = ramson_process::parse_smaps(SMAPS.as_bytes());
        let profile = Some("/var/tmp/ramson-0/1-2.ramson");
        let previous = std::iter::once(None).chain(mappings.iter().map(Some));
        let own = mappings.iter().zip(previous);
        let own = own.filter(|(mapping, previous)| is_ramsons(mapping, *previous, profile));
        let own: u64 = own.map(|(mapping, _)| mapping.rss).sum();
        assert_eq!(own, (12 + 20 + 100 + 200) * 1024);
        assert_eq!(mappings[1].path, "/opt/ra mson/libramson.so");
    }

    #[test]
    fn the_parts_of_a_real_process_add_up_to_its_rss() {
        let resident = Resident::of(std::process::id(), "", &[]).unwrap();
        let sum = resident.files + resident.stacks + resident.ramson + resident.anonymous;
        assert_eq!(sum, resident.rss);
        assert!(resident.files > 0 && resident.stacks > 0 && resident.anonymous > 0);
    }

    #[test]
    fn the_line_says_so_when_live_memory_was_never_touched() {
        let resident =
            Resident { rss: 3 << 20, files: 1 << 20, anonymous: 2 << 20, ..Resident::default() };
        let line = resident.line(Estimate::exact((10 << 20) as f64));
        assert!(line.ends_with("− live but not resident 8.00 MiB"), "{line}");
    }

    #[test]
    fn what_the_allocator_keeps_is_a_part_of_its_own_where_somebody_looked() {
        let mut resident = Resident { rss: 8 << 20, anonymous: 8 << 20, ..Resident::default() };
        let live = Estimate::exact((2 << 20) as f64);
        assert!(resident.line(live).ends_with("+ other anonymous 6.00 MiB"));
        assert_eq!(resident.json(live).get("kept_free"), None);
        for (half_width_95, text) in
            [(0.0, "+ kept free 5.00 MiB +"), (1e6, "+ kept free 5.00 MiB (±977 KiB) +")]
        {
            resident.kept_free = Some(KeptFree { bytes: 5 << 20, half_width_95 });
            let line = resident.line(live);
            assert!(line.contains(text) && line.ends_with("other anonymous 1.00 MiB"), "{line}");
        }
        let object = resident.json(live);
        assert_eq!(object["kept_free"]["value"], 5 << 20);
        assert_eq!(object["other_anonymous"], 1 << 20);
    }
}
