//! The flags of `ramson gc`.

use super::filters::{FilterFlags, FrameFlags};
use super::source::NameFlags;
use clap::Args;
use ramson_analysis::question;

#[derive(Args)]
#[command(after_help = "\
Shows, of a running Go program (1.21 or newer), its collections, the heap before each and what was live after it, the pauses, and the stacks that make the collector work. All is read from its memory, without a stop, GODEBUG or an endpoint. Allocations are Go's own samples, with their ±; the runtime shows them one collection late.

Of a file, or standard input (-): whatever of this its GODEBUG=gctrace=1 lines contain.

Examples:
  ramson gc 4711
  ramson gc server --window 1m -n 5
  GODEBUG=gctrace=1 ./server 2>&1 | ramson gc -
  ramson gc server.log --json")]
pub struct GcFlags {
    /// A process ID, a name, or any other SRC of one running process; a file with gctrace lines, or -
    /// for standard input
    pub source: String,
    /// Watch the process for this time (ms, s, m, h or d), and print once; Ctrl-C ends it earlier. Without
    /// it: on a terminal until you quit, elsewhere for 10 s
    #[arg(long, value_name = "TIME", value_parser = question::time)]
    pub window: Option<u64>,
    /// Stacks and collections to show; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub rows: usize,
    #[command(flatten)]
    pub names: NameFlags,
    #[command(flatten)]
    pub filters: FilterFlags,
    #[command(flatten)]
    pub frames: FrameFlags,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
