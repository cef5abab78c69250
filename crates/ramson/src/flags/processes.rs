//! The flags of commands on processes, profiled or not: `explain`, `trim`, `attach`, `detach`, `set`.

use super::filters::FrameFlags;
use super::source::{NameFlags, PROCESSES};
use super::values::{parse_interval, parse_max_overhead};
use clap::Args;
use ramson_analysis::question;
use ramson_profile::Pattern;

#[derive(Args)]
#[command(after_help = "\
The first lines say what the memory is, one sentence per cause. Then comes advice: first what an operator can do, then what requires a code change, each with its evidence, the bytes it saves, and its risk.

Works on any process that this user may trace, profiled or not, and does not stop it, except with --ask. glibc's arenas are read from outside. Only --ask can tell how much another allocator keeps free: it reads the statistics of jemalloc and tcmalloc. For processes under ramson, this command also looks for leaks and shows the call sites that pin free memory. A file that glibc's malloc_info wrote is explained as far as it goes.

Examples:
  ramson explain 4711
  ramson explain 4711 --details
  ramson explain unit:postgresql.service
  ramson explain redis-server --json
  ramson explain malloc_info.xml")]
pub struct ExplainFlags {
    #[arg(value_name = "SRC", required = true, help = PROCESSES)]
    pub sources: Vec<String>,
    /// Read every block of glibc's arenas, however large they are: about half a second per GiB
    #[arg(long)]
    pub exact: bool,
    /// Ask jemalloc or tcmalloc for its statistics: stops one waiting thread, for up to 25 ms (measured on heaps of up to 1 GiB), as
    /// "ramson trim" does for longer. glibc's are read without that. Takes one process
    #[arg(long, conflicts_with = "each")]
    pub ask: bool,
    /// Rows of the table of call sites that pin free memory; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub rows: usize,
    /// Also show the allocator's settings, every part of RSS and the arenas, and explain their terms
    #[arg(long)]
    pub details: bool,
    #[command(flatten)]
    pub names: NameFlags,
    #[command(flatten)]
    pub frames: FrameFlags,
    /// For several processes, print a block for each instead of a row
    #[arg(long)]
    pub each: bool,
    /// One JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "\
A line that begins with ! reports something missing, and names the next step. Nothing is changed, and no thread is stopped.

Examples:
  ramson check
  ramson check 4711")]
pub struct CheckFlags {
    #[arg(value_name = "SRC", help = PROCESSES)]
    pub source: Option<String>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "\
ramson trims only when you ask: with this command, or with \"ramson run --trim-every\" or \"--trim-after\". One of the process's threads is stopped and does the trim, while the others keep running unless they need the memory that is locked: about 1 ms per 5 MiB returned, and per MiB where it lies in single pages. Several processes are trimmed one after the other; the exit status is 1 if none could be trimmed.

Examples:
  ramson trim 4711
  ramson trim tree:4711
  ramson trim my-server --json")]
pub struct TrimFlags {
    #[arg(value_name = "SRC", required = true, help = PROCESSES)]
    pub sources: Vec<String>,
    /// Suspend the process's seccomp filters during the trim, where they might forbid it. If ramson is killed meanwhile, the
    /// process may die, too
    #[arg(long)]
    pub suspend_seccomp: bool,
    /// Trim even if nothing would be returned
    #[arg(long)]
    pub force: bool,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "\
ramson stops one of the process's threads a few times, for about a millisecond each, and has it load libramson.so from memory; the pointers through which the program's binaries call malloc then lead to libramson.so. Earlier allocations are not attributed. \"ramson detach\" restores the pointers. Libraries that the program loads later are seen from the next sample on. docs/internals/attach.md explains each step.

ramson attaches only if that is safe. It refuses static, 32-bit and musl programs, which it cannot record at all. If something traces the process, or a seccomp filter might forbid the attach, start the program with \"ramson run\".

Examples:
  ramson attach 4711
  ramson attach redis-server --for 10m
  ramson attach tree:4711 --interval 64K
  sudo ramson attach --all --match '^postgres:'")]
pub struct AttachFlags {
    #[arg(value_name = "SRC", required_unless_present = "all", help = PROCESSES)]
    pub sources: Vec<String>,
    /// Attach to every running process of this user (for root, of all users) that --match selects
    #[arg(long, conflicts_with = "sources", requires = "matched")]
    pub all: bool,
    /// With --all: only processes whose name or command line matches
    #[arg(long = "match", value_name = "RE", value_parser = Pattern::new, requires = "all")]
    pub matched: Option<Pattern>,
    /// Mean number of bytes between samples (with K, M or G; 1 records every allocation except malloc(0)). Default: 512K
    #[arg(long, value_name = "SIZE", value_parser = parse_interval, allow_hyphen_values = true)]
    pub interval: Option<u64>,
    /// Target for the CPU time that sampling takes, in percent (0.001 to 90; 0 or off for none); it does nothing
    /// below 300 samples a second. Default: 1; none with --interval 1
    #[arg(long, value_name = "PCT", value_parser = parse_max_overhead, allow_hyphen_values = true)]
    pub max_overhead: Option<String>,
    /// Stop sampling after TIME (ms, s, m, h or d). The hooks stay until "ramson detach"
    #[arg(long = "for", value_name = "TIME", value_parser = question::time)]
    pub duration: Option<u64>,
    /// Also record allocators that are linked into the executable or a library (jemalloc, mimalloc, tcmalloc). All
    /// threads are stopped for a few milliseconds
    #[arg(long)]
    pub inside: bool,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "\
Each pointer that the attach changed gets its old value back. Recorded blocks are forgotten, because their frees are no longer seen; counts of allocations stay in the profile. The library stays in memory for the next \"ramson attach\".

Examples:
  ramson detach 4711
  ramson detach redis-server")]
pub struct DetachFlags {
    #[arg(value_name = "SRC", required = true, help = PROCESSES)]
    pub sources: Vec<String>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "\
Works on processes started with \"ramson run\" and on attached ones. No thread is stopped: each adopts the change at its next sample, or once it has allocated 64 MiB more. Estimates stay unbiased, because each sample keeps the weight of the interval that it was drawn with. While sampling is off, frees of recorded blocks are still seen.

Examples:
  ramson set 4711 --interval 64K
  ramson set redis-server --off
  ramson set 4711 --on --for 10m")]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true)
    .args(["interval", "max_overhead", "on", "off", "duration"]))]
pub struct SetFlags {
    #[arg(value_name = "SRC", required = true, help = PROCESSES)]
    pub sources: Vec<String>,
    /// Mean number of bytes between samples (with K, M or G; 1 records every allocation except malloc(0))
    #[arg(long, value_name = "SIZE", value_parser = parse_interval, allow_hyphen_values = true)]
    pub interval: Option<u64>,
    /// Target for the CPU time that sampling takes, in percent (0.001 to 90; 0 or off for none); it does nothing
    /// below 300 samples a second
    #[arg(long, value_name = "PCT", value_parser = parse_max_overhead, allow_hyphen_values = true)]
    pub max_overhead: Option<String>,
    /// Resume sampling
    #[arg(long, conflicts_with = "off")]
    pub on: bool,
    /// Stop sampling
    #[arg(long)]
    pub off: bool,
    /// Stop sampling after TIME (ms, s, m, h or d)
    #[arg(long = "for", value_name = "TIME", value_parser = question::time, conflicts_with = "off")]
    pub duration: Option<u64>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
