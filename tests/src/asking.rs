//! A program that can only be asked inside for its kept memory (`tests/programs/works.c`), and the words of its profile by which it is asked.

use crate::servers::*;
use crate::trimming::Talking;
use crate::{preload, profiles_in, program};
use ramson_format::{
    Answer, Header, Health, Outcome, REQUEST_OFFSET, Request, Requests, request_check,
};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File, Permissions};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

/// `works`, under the library.
pub struct Working {
    /// The program.
    pub talking: Talking,
}

impl Working {
    /// Starts it on the C library's malloc, and waits until it allocates as it is to.
    pub fn start(scratch: &Scratch, how: &str) -> Self {
        Self::over(scratch, how, None)
    }

    /// The same on another allocator.
    pub fn over(scratch: &Scratch, how: &str, allocator: Option<&Path>) -> Self {
        let mut command = clean(program("works.c"));
        preload(&mut command, "4K").env("RAMSON_DIR", scratch.open_directory("profiles")).arg(how);
        if let Some(allocator) = allocator {
            let ours = crate::library();
            command.env("LD_PRELOAD", format!("{}:{}", ours.display(), allocator.display()));
        }
        let talking = Talking::start(&mut command);
        assert_eq!(talking.expect("ready"), 0, "{how}");
        Self { talking }
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.talking.pid()
    }

    /// The words of its profile.
    pub fn words(&self, scratch: &Scratch) -> Words {
        let prefix = format!("{}-", self.pid());
        let is_its = |path: &&std::path::PathBuf| {
            path.file_name().unwrap().to_str().unwrap().starts_with(&prefix)
        };
        let paths = profiles_in(&scratch.path("profiles"));
        let path = paths.iter().find(is_its).expect("a profile");
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        Words(File::options().read(true).write(true).open(path).unwrap())
    }

    /// Ends it, and fails if any of its memory was not what it had written, or it ended otherwise.
    #[track_caller]
    pub fn end(mut self) {
        self.talking.running.signal("USR1");
        assert_eq!(self.talking.expect("wrong"), 0);
        assert!(self.talking.running.wait().success());
    }

    /// RSS in bytes.
    pub fn rss(&self) -> f64 {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid())).unwrap();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0
    }
}

/// A profile file, to be written in as `ramson trim` does, or worse.
pub struct Words(File);

impl Words {
    /// Asks with the right check; the deadline is so far from now.
    pub fn ask(&self, number: u64, patience: Duration) -> u64 {
        let deadline_ns = now_ns() + patience.as_nanos() as u64;
        self.write(number, deadline_ns, request_check(number, deadline_ns));
        deadline_ns
    }

    /// As somebody who asks does, until these words are dropped.
    pub fn lock(&self) {
        fcntl_lock(&self.0, FlockOperation::NonBlockingLockExclusive).unwrap();
    }

    /// Writes a request, the number last.
    pub fn write(&self, number: u64, deadline_ns: u64, check: u64) {
        for (offset, word) in [
            (offset_of!(Request, deadline_ns), deadline_ns),
            (offset_of!(Request, check), check),
            (offset_of!(Request, number), number),
        ] {
            self.0.write_all_at(&word.to_le_bytes(), REQUEST_OFFSET + offset as u64).unwrap();
        }
    }

    /// Samples that the process has taken.
    pub fn samples(&self) -> u64 {
        let offset = offset_of!(Header, health) + Health::Samples as usize * 8;
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, offset as u64).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// The number of the request that stands there, 0 if none does.
    pub fn number(&self) -> u64 {
        self.word(offset_of!(Request, number))
    }

    /// The last request that a thread took.
    pub fn taken(&self) -> u64 {
        self.answer(offset_of!(Answer, taken))
    }

    /// The last request that was answered.
    pub fn done(&self) -> u64 {
        self.answer(offset_of!(Answer, done))
    }

    /// How that went.
    pub fn outcome(&self) -> Option<Outcome> {
        Outcome::of(self.answer(offset_of!(Answer, outcome)) as u32)
    }

    fn answer(&self, offset: usize) -> u64 {
        self.word(offset_of!(Requests, answer) + offset)
    }

    fn word(&self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, REQUEST_OFFSET + offset as u64).unwrap();
        u64::from_le_bytes(bytes)
    }
}

/// CLOCK_MONOTONIC, as deadlines are told.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
