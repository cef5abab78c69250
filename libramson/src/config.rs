//! Settings that the user asked for, by variables of the environment that the program was started with (docs/reference/commands.md has them). A value that does
//! not parse turns ramson off: recording something else than was asked for would be worse.

use crate::sampler::DEFAULT_INTERVAL_BYTES;
use crate::text::Text;
use core::ffi::{CStr, c_char};
use ramson_format::control::Request;
use ramson_format::settings::{PREFIX, Setting, setting};
use ramson_format::{DEFAULT_FILE_BYTES, DEFAULT_MAX_OVERHEAD_PPM, PAGE_BYTES};

/// The settings of one process; its forked children inherit them.
pub struct Config {
    /// `None`: record nothing.
    pub interval_bytes: Option<u64>,
    /// A value did not parse.
    pub is_unreadable: bool,
    pub directory: Option<Text>,
    pub output: Option<Text>,
    pub keep: bool,
    pub file_bytes: u64,
    /// Somebody asked for that bound.
    pub names_file_bytes: bool,
    /// Length of the ring of recent frees; 0 is none.
    pub recent_frees: u64,
    pub run_id: u64,
    /// Allocators inside the executable and libraries are hooked, too.
    pub inside: bool,
    /// `ramson run` has tried ramson under a chain of so many seccomp filters.
    pub tried_filters: Option<u64>,
    /// Bound of the overhead that was asked for, in millionths; 0 is unbounded.
    pub max_overhead_ppm: Option<u32>,
    /// From the kernel, for seeding.
    pub entropy: u64,
    /// One past the first thread's stack.
    pub main_stack_high: u64,
    /// Address of the executable's program headers; 0: not told.
    pub program_headers: u64,
    /// The program was running already.
    pub is_attached: bool,
}

/// More variables and auxiliary entries than the kernel would pass.
const MAX_WORDS: usize = 1 << 21;
/// Address of the executable's program headers.
const AT_PHDR: usize = 3;
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
        // SAFETY: argc, argv and its null, then the environment and its null, then pairs up to AT_NULL (x86-64 ABI); each word is read when it
        // is asked for.
        let mut words = unsafe {
            let environment = initial_stack.add(*initial_stack + 2);
            (0..MAX_WORDS).map(move |index| *environment.add(index))
        };
        for variable in words.by_ref().take_while(|&word| word != 0) {
            // SAFETY: the kernel put a C string there.
            self.take(unsafe { CStr::from_ptr(variable as *const c_char) }.to_bytes());
        }
        // For each variable that was removed in place (by the loader, from a set-user-ID program) there is one more null. The auxiliary
        // vector is never empty.
        let mut kind = words.find(|&word| word != 0);
        while let Some(known @ 1..) = kind {
            match (known, words.next()) {
                (AT_PHDR, Some(address)) => self.program_headers = address as u64,
                (AT_SECURE, Some(value)) => is_secure = value != 0,
                (AT_RANDOM, Some(at)) => {
                    // SAFETY: the kernel put 16 bytes there.
                    self.entropy = unsafe { (at as *const u64).read_unaligned() };
                }
                _ => {}
            }
            kind = words.next();
        }
        if is_secure || self.is_unreadable {
            self.interval_bytes = None;
        }
    }

    /// Takes what is asked for from outside, in a program that runs; `directory` is empty for the usual one.
    pub fn take_request(&mut self, request: &Request, directory: &[u8]) {
        self.is_attached = true;
        self.interval_bytes = Some(request.interval_bytes);
        self.max_overhead_ppm = Some(request.max_overhead_ppm);
        self.tried_filters = request.tried_filters;
        self.program_headers = request.program_headers;
        self.entropy = request.entropy;
        self.apply(Setting::Directory(directory));
        self.file_bytes = request.file_bytes & !(PAGE_BYTES - 1);
    }

    /// The governor's bound, 0 for none. Who asks for every allocation gets every allocation.
    pub fn max_overhead_ppm(&self) -> u32 {
        let default = if self.interval_bytes == Some(1) { 0 } else { DEFAULT_MAX_OVERHEAD_PPM };
        self.max_overhead_ppm.unwrap_or(default)
    }

    /// Applies one `NAME=value`; other variables are ignored.
    fn take(&mut self, variable: &[u8]) {
        let Some(assignment) = variable.strip_prefix(PREFIX.as_bytes()) else { return };
        let Some(equals) = assignment.iter().position(|&byte| byte == b'=') else { return };
        let (name, value) = (&assignment[..equals], &assignment[equals + 1..]);
        match setting(name, value) {
            Some(Ok(setting)) => self.apply(setting),
            Some(Err(_)) => self.is_unreadable = true,
            None => {}
        }
    }

    fn apply(&mut self, setting: Setting) {
        let path = |path: &[u8]| {
            let mut text = Text::new();
            text.push(path);
            (!path.is_empty()).then_some(text)
        };
        match setting {
            Setting::IntervalBytes(bytes) => self.interval_bytes = bytes,
            Setting::Directory(bytes) => self.directory = path(bytes),
            Setting::Output(bytes) => self.output = path(bytes),
            Setting::Keep(keep) => self.keep = keep,
            Setting::FileBytes(bytes) => {
                self.file_bytes = bytes & !(PAGE_BYTES - 1);
                self.names_file_bytes = true;
            }
            Setting::TriedFilters(filters) => self.tried_filters = Some(filters),
            Setting::MaxOverheadPpm(ppm) => self.max_overhead_ppm = Some(ppm),
            Setting::RecentFrees(frees) => self.recent_frees = frees,
            Setting::RunId(id) => self.run_id = id,
            Setting::Inside(inside) => self.inside = inside,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interval_bytes: Some(DEFAULT_INTERVAL_BYTES),
            is_unreadable: false,
            directory: None,
            output: None,
            keep: false,
            file_bytes: DEFAULT_FILE_BYTES,
            names_file_bytes: false,
            recent_frees: 0,
            run_id: 0,
            inside: false,
            tried_filters: None,
            max_overhead_ppm: None,
            entropy: 0,
            main_stack_high: 0,
            program_headers: 0,
            is_attached: false,
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
    fn variables_are_taken() {
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

    /// The settings of a process that starts with these variables, after which `removed` others were, and this AT_SECURE.
    fn started_with(variables: &[&CStr], removed: usize, secure: Option<usize>) -> Config {
        let mut stack = vec![1, c"program".as_ptr() as usize, 0];
        stack.extend(variables.iter().map(|variable| variable.as_ptr() as usize));
        stack.extend(vec![0; 1 + removed]);
        stack.extend(secure.map(|value| [AT_SECURE, value]).iter().flatten());
        stack.extend([AT_RANDOM, b"0123456789abcdef".as_ptr() as usize, 0, 0]);
        let mut config = Config::default();
        // SAFETY: laid out as the kernel does it.
        unsafe { config.take_from_initial_stack(stack.as_ptr()) };
        config
    }

    #[test]
    fn privileged_program_is_off() {
        for removed in [0, 1, 7] {
            let config = started_with(&[c"RAMSON_INTERVAL=1"], removed, Some(0));
            assert_eq!((config.interval_bytes, config.entropy & 0xff), (Some(1), b'0' as u64));
            for secure in [Some(1), None] {
                let config = started_with(&[c"RAMSON_INTERVAL=1"], removed, secure);
                assert_eq!(config.interval_bytes, None, "{removed} {secure:?}");
            }
        }
    }

    #[test]
    fn full_recording_has_no_bound() {
        let bound = |variables: &[&str]| with(variables).max_overhead_ppm();
        assert_eq!(bound(&[]), 10_000);
        assert_eq!(bound(&["RAMSON_INTERVAL=1"]), 0);
        assert_eq!(bound(&["RAMSON_INTERVAL=1", "RAMSON_MAX_OVERHEAD=0.25"]), 2_500);
        assert_eq!(bound(&["RAMSON_MAX_OVERHEAD=off"]), 0);
        assert_eq!(bound(&["RAMSON_MAX_OVERHEAD=0"]), 0);
    }

    #[test]
    fn bad_value_turns_recording_off() {
        for wrong in [c"RAMSON_KEEP=yes", c"RAMSON_SECCOMP=12abc", c"RAMSON_INTERVAL=0"] {
            let config = started_with(&[wrong, c"RAMSON_INTERVAL=1"], 0, Some(0));
            assert_eq!(config.interval_bytes, None, "{wrong:?}");
        }
    }
}
