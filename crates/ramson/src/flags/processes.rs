//! The flags of commands on processes, profiled or not: `doctor`, `trim`.

use super::filters::FrameFlags;
use super::source::{NameFlags, PROCESSES};
use clap::Args;

#[derive(Args)]
#[command(after_help = "\
The first lines say what the memory is, one sentence per cause. Then comes advice: first what an operator can do, then what requires a code change, each with its evidence, the bytes it saves, and its risk.

Works on any process that this user may trace, profiled or not, and does not stop it, except with --ask. glibc's arenas are read from outside. Only --ask can tell how much another allocator keeps free: it reads the statistics of jemalloc and tcmalloc. For processes under ramson, doctor also looks for leaks, and shows the call sites that pin free memory.

Examples:
  ramson doctor 4711
  ramson doctor 4711 --details
  ramson doctor unit:postgresql.service
  ramson doctor name:redis-server --json")]
pub struct DoctorFlags {
    #[arg(value_name = "SRC", required = true, help = PROCESSES)]
    pub sources: Vec<String>,
    /// Read every block of glibc's arenas, however large they are: about half a second per GiB
    #[arg(long)]
    pub exact: bool,
    /// Ask jemalloc or tcmalloc for its statistics: stops one waiting thread for some milliseconds,
    /// as "ramson trim" does. glibc's are read without that. Takes one process
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
ramson trims only when you ask: with this command, or with \"ramson run --trim-every\" or \"--trim-after\". One of the process's threads is stopped and does the trim, while the others run on. Several processes are trimmed one after the other; the exit status is 1 if none could be trimmed.

Examples:
  ramson trim 4711
  ramson trim tree:4711
  ramson trim name:my-server --json")]
pub struct TrimFlags {
    #[arg(value_name = "SRC", required = true, help = PROCESSES)]
    pub sources: Vec<String>,
    /// Suspend the process's seccomp filters during the trim, where they might forbid it. If ramson is killed meanwhile, the
    /// process dies too
    #[arg(long)]
    pub suspend_seccomp: bool,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
