//! The flags of `ramson run`.

use super::values::{parse_interval, parse_max_overhead, size};
use clap::{Args, ValueEnum};
use ramson_analysis::question;
use ramson_format::{FILE_BYTES_RANGE, MAX_RECENT_FREES};
use std::ffi::OsString;
use std::path::PathBuf;

const MAX_FILE: &str = "not a size between 1M and 4G";

#[derive(Args)]
#[command(after_help = "\
The program may be any dynamically linked glibc program. Its output and exit status stay as they are, and signals are passed on to it. If a program cannot be profiled (statically linked, set-user-ID …), ramson says why and runs it without a profile.

Without this command: LD_PRELOAD=/path/to/libramson.so CMD, with these variables:
  RAMSON_INTERVAL=512K  RAMSON_DIR=DIR  RAMSON_OUTPUT=FILE  RAMSON_KEEP=1  RAMSON_MAX_FILE=64M
  RAMSON_MAX_OVERHEAD=1  RAMSON_FREES=N  RAMSON_INSIDE=on

Before it starts, profiles of processes that ended long ago are removed (ramson list --help). If the program dies because memory ran out, ramson prints the functions that used most of it.

If systemd tracks the service by its process ID (Type=notify, WatchdogSec, socket activation), or no second process is allowed, the program replaces ramson (exec), and no summary is printed.

Exit status: the program's; if signal N ended it, ramson ends by the same signal (128 + N in a shell). 125 ramson failed, 126 not executable, 127 not found.

Examples:
  ramson run -- redis-server --port 6379
  ramson run --interval 64K -o /tmp/build.ramson -- g++ -O2 -c big.cc")]
pub struct RunFlags {
    /// Mean number of bytes between samples (with K, M or G; 1 records every allocation except malloc(0))
    #[arg(long, value_name = "SIZE", default_value = "512K", value_parser = parse_interval, allow_hyphen_values = true)]
    pub interval: u64,
    /// Target for the CPU time that sampling takes, as a percentage of the program's (0.001 to 90; 0 or off for
    /// none): if sampling takes more, ramson raises the interval. It has no effect below 300 samples a second,
    /// so a program that uses little CPU time may spend more. Default: 1; none with --interval 1
    #[arg(long, value_name = "PCT", value_parser = parse_max_overhead, allow_hyphen_values = true)]
    pub max_overhead: Option<String>,
    /// Write the profile to FILE. Other processes of the program use FILE.PID, after an exec FILE.PID.2 …
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Largest size of a profile file (1M to 4G). Default: 64M; 8M on Linux before 5.14, where a
    /// file takes up its largest size from the start
    #[arg(long, value_name = "SIZE", value_parser = size(FILE_BYTES_RANGE.0..=FILE_BYTES_RANGE.1, MAX_FILE), allow_hyphen_values = true)]
    pub max_file: Option<u64>,
    /// Remember the N latest sampled blocks that were freed, with both stacks, for `report --view
    /// frees` (0 to 65536, at most 256 for each M of --max-file). Default: 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MAX_RECENT_FREES))]
    pub recent_frees: Option<u64>,
    /// Whether to record allocators inside the executable and libraries too (jemalloc, mimalloc,
    /// tcmalloc, snmalloc), by jumps written into their functions. Default: on
    #[arg(long, value_name = "on|off")]
    pub inside: Option<Switch>,
    /// Make Python 3.12 or newer, node and Java report the names of their functions, in child processes
    /// too; ramson prints what that costs
    #[arg(long)]
    pub languages: bool,
    #[command(flatten)]
    pub trims: ScheduleFlags,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

impl Switch {
    /// The value of a variable.
    pub fn value(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

#[derive(Args)]
pub struct ScheduleFlags {
    /// Every TIME (ms, s, m, h or d), make the program and its children return their allocator's free
    /// memory to the kernel, if it is at least 4 MiB and 1/64 of RSS. Where only a trial tells and little comes back,
    /// the time is doubled, up to 64 times TIME. See "ramson trim"
    #[arg(long, value_name = "TIME", value_parser = question::time)]
    pub trim_every: Option<u64>,
    /// Trim a process each time its profile shows that SIZE more was freed
    #[arg(long, value_name = "SIZE", value_parser = size(1..=u64::MAX, "not a size, such as 512M or 1GiB"), allow_hyphen_values = true)]
    pub trim_after: Option<u64>,
    /// Append a JSON line about each trim to FILE, instead of a line to standard error
    #[arg(long, value_name = "FILE")]
    pub trim_log: Option<PathBuf>,
}
