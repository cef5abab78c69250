//! What the user asked for, from the environment that the program was started with:
//!
//! | variable | meaning |
//! |---|---|
//! | `RAMSON_INTERVAL` | sampling interval in bytes, with K, M or G; `off` records nothing; default 512K |
//! | `RAMSON_DIR` | directory of the profile files; default `/var/tmp/ramson-UID` |
//! | `RAMSON_OUTPUT` | file of the first process that is sampled; later ones add `.PID` |
//! | `RAMSON_KEEP` | `1`: keep the file after a normal exit |
//! | `RAMSON_MAX_FILE` | bound of a profile file; default 64M, 8M on Linux before 5.14 |
//! | `RAMSON_SECCOMP` | number of seccomp filters under which ramson is known to work; set by `ramson run` |
//! | `RAMSON_MAX_OVERHEAD` | bound in percent of the CPU time that samples take, 0.001 to 90; `0` or `off`: none; default 1, none if the interval is 1 |
//! | `RAMSON_FREES` | how many recent frees are remembered, 0 to 65536; default 0 |
//! | `RAMSON_RUN_ID` | set by `ramson run` |
//!
//! A value that does not parse turns ramson off: recording something else than was asked for would be worse.

use crate::sampler::{DEFAULT_INTERVAL_BYTES, MAX_INTERVAL_BYTES};
use crate::text::{Text, parse_number, parse_percent, parse_size};
use core::ffi::{CStr, c_char};
use ramson_format::{
    DEFAULT_FILE_BYTES, DEFAULT_MAX_OVERHEAD_PPM, FILE_BYTES_RANGE, MAX_OVERHEAD_PPM_RANGE,
    MAX_RECENT_FREES,
};

/// The settings of one process; its forked children inherit them.
pub struct Config {
    /// `None`: record nothing.
    pub interval_bytes: Option<u64>,
    pub directory: Option<Text>,
    pub output: Option<Text>,
    pub keep: bool,
    pub file_bytes: u64,
    /// Somebody asked for that bound.
    pub names_file_bytes: bool,
    /// Length of the ring of recent frees; 0 is none.
    pub recent_frees: u64,
    pub run_id: u64,
    /// `ramson run` has tried ramson under a chain of so many seccomp filters.
    pub tried_filters: Option<u64>,
    /// What was asked for; 0 is unbounded.
    pub max_overhead_ppm: Option<u32>,
    /// From the kernel, for seeding.
    pub entropy: u64,
    /// One past the first thread's stack.
    pub main_stack_high: u64,
}

/// More variables or auxiliary entries than the kernel would pass.
const MAX_ENTRIES: usize = 1 << 20;
const AT_SECURE: usize = 23;
const AT_RANDOM: usize = 25;

impl Config {
    /// Takes what environment and auxiliary vector say from `initial_stack`, where the kernel put argc. In place: a thread's stack may be small.
    ///
    /// # Safety
    /// `initial_stack` must be the process's initial stack pointer, and the environment there unchanged: call it before main.
    pub unsafe fn take_from_initial_stack(&mut self, initial_stack: *const usize) {
        self.main_stack_high = initial_stack as u64;
        let mut is_secure = true;
        // SAFETY: argc, argv and its null, then the environment and its null, then pairs up to AT_NULL (x86-64 ABI).
        unsafe {
            let mut entry = initial_stack.add(*initial_stack + 2);
            for _ in 0..MAX_ENTRIES {
                let variable = *entry as *const c_char;
                entry = entry.add(1);
                if variable.is_null() {
                    break;
                }
                self.take(CStr::from_ptr(variable).to_bytes());
            }
            // For each variable that was removed in place (by the loader, from a set-user-ID program) there is one more
            // null. The auxiliary vector is never empty.
            for _ in 0..MAX_ENTRIES {
                if *entry != 0 {
                    break;
                }
                entry = entry.add(1);
            }
            for _ in 0..MAX_ENTRIES {
                match *entry {
                    0 => break,
                    AT_SECURE => is_secure = *entry.add(1) != 0,
                    AT_RANDOM => self.entropy = (*entry.add(1) as *const u64).read_unaligned(),
                    _ => {}
                }
                entry = entry.add(2);
            }
        }
        if is_secure {
            self.interval_bytes = None;
        }
    }

    /// The governor's bound, 0 for none. Who asks for every allocation gets every allocation.
    pub fn max_overhead_ppm(&self) -> u32 {
        let default = if self.interval_bytes == Some(1) { 0 } else { DEFAULT_MAX_OVERHEAD_PPM };
        self.max_overhead_ppm.unwrap_or(default)
    }

    /// Applies one `NAME=value`; other variables are ignored.
    fn take(&mut self, variable: &[u8]) {
        let Some(assignment) = variable.strip_prefix(b"RAMSON_") else { return };
        let Some(equals) = assignment.iter().position(|&byte| byte == b'=') else { return };
        let (name, value) = (&assignment[..equals], &assignment[equals + 1..]);
        let path = || {
            let mut text = Text::new();
            text.push(value);
            (!value.is_empty()).then_some(text)
        };
        match name {
            b"INTERVAL" => {
                self.interval_bytes =
                    parse_size(value).filter(|bytes| (1..=MAX_INTERVAL_BYTES).contains(bytes));
            }
            b"DIR" => self.directory = path(),
            b"OUTPUT" => self.output = path(),
            b"KEEP" => self.keep = value == b"1",
            b"MAX_FILE" => match parse_size(value) {
                Some(bytes) if (FILE_BYTES_RANGE.0..=FILE_BYTES_RANGE.1).contains(&bytes) => {
                    self.file_bytes = bytes & !4095;
                    self.names_file_bytes = true;
                }
                _ => self.interval_bytes = None,
            },
            b"SECCOMP" => self.tried_filters = parse_number(value).map(|(filters, _)| filters),
            b"MAX_OVERHEAD" => match parse_percent(value) {
                _ if value == b"off" => self.max_overhead_ppm = Some(0),
                Some(0) => self.max_overhead_ppm = Some(0),
                Some(ppm)
                    if (MAX_OVERHEAD_PPM_RANGE.0..=MAX_OVERHEAD_PPM_RANGE.1).contains(&ppm) =>
                {
                    self.max_overhead_ppm = Some(ppm);
                }
                _ => self.interval_bytes = None,
            },
            b"FREES" => match parse_number(value) {
                Some((frees, rest)) if rest == value.len() && frees <= MAX_RECENT_FREES => {
                    self.recent_frees = frees;
                }
                _ => self.interval_bytes = None,
            },
            b"RUN_ID" => self.run_id = parse_number(value).map_or(0, |(id, _)| id),
            _ => {}
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interval_bytes: Some(DEFAULT_INTERVAL_BYTES),
            directory: None,
            output: None,
            keep: false,
            file_bytes: DEFAULT_FILE_BYTES,
            names_file_bytes: false,
            recent_frees: 0,
            run_id: 0,
            tried_filters: None,
            max_overhead_ppm: None,
            entropy: 0,
            main_stack_high: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[&str]) -> Config {
        let mut config = Config::default();
        variables.iter().for_each(|variable| config.take(variable.as_bytes()));
        config
    }

    #[test]
    fn variables_are_taken_and_foreign_ones_ignored() {
        let config = with(&[
            "RAMSON_INTERVAL=64K",
            "RAMSON_KEEP=1",
            "RAMSON_MAX_FILE=8M",
            "PATH=/bin",
            "RAMSON_",
        ]);
        assert_eq!(config.interval_bytes, Some(64 << 10));
        assert_eq!((config.keep, config.file_bytes), (true, 8 << 20));
    }

    /// The settings of a process that starts with one variable, after which `removed` others were, and this AT_SECURE.
    fn started_with(variable: &CStr, removed: usize, secure: Option<usize>) -> Config {
        let mut stack = vec![1, c"program".as_ptr() as usize, 0, variable.as_ptr() as usize, 0];
        stack.extend(vec![0; removed]);
        stack.extend(secure.map(|value| [AT_SECURE, value]).iter().flatten());
        stack.extend([AT_RANDOM, b"0123456789abcdef".as_ptr() as usize, 0, 0]);
        let mut config = Config::default();
        // SAFETY: laid out as the kernel does it.
        unsafe { config.take_from_initial_stack(stack.as_ptr()) };
        config
    }

    #[test]
    fn a_program_with_another_user_s_rights_is_off_though_the_loader_has_removed_variables() {
        for removed in [0, 1, 7] {
            let config = started_with(c"RAMSON_INTERVAL=1", removed, Some(0));
            assert_eq!((config.interval_bytes, config.entropy & 0xff), (Some(1), b'0' as u64));
            for secure in [Some(1), None] {
                let config = started_with(c"RAMSON_INTERVAL=1", removed, secure);
                assert_eq!(config.interval_bytes, None, "{removed} {secure:?}");
            }
        }
    }

    #[test]
    fn everything_is_recorded_without_a_bound_unless_there_is_one() {
        let bound = |variables: &[&str]| with(variables).max_overhead_ppm();
        assert_eq!(bound(&[]), 10_000);
        assert_eq!(bound(&["RAMSON_INTERVAL=1"]), 0);
        assert_eq!(bound(&["RAMSON_INTERVAL=1", "RAMSON_MAX_OVERHEAD=0.25"]), 2_500);
        assert_eq!(bound(&["RAMSON_MAX_OVERHEAD=off"]), 0);
        assert_eq!(bound(&["RAMSON_MAX_OVERHEAD=0"]), 0);
    }

    #[test]
    fn a_value_that_does_not_parse_turns_recording_off() {
        for wrong in [
            "INTERVAL=0",
            "INTERVAL=-5",
            "INTERVAL=off",
            "INTERVAL=",
            "INTERVAL=9999T",
            "MAX_FILE=12",
            "MAX_OVERHEAD=",
            "MAX_OVERHEAD=91",
            "MAX_OVERHEAD=1%",
            "FREES=",
            "FREES=65537",
            "FREES=1K",
        ] {
            assert_eq!(with(&[&format!("RAMSON_{wrong}")]).interval_bytes, None, "{wrong}");
        }
    }
}
