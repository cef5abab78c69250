//! The flags of `ramson gc`.

use super::filters::{FilterFlags, FrameFlags};
use super::source::NameFlags;
use clap::Args;
use ramson_analysis::question;

#[derive(Args)]
#[command(after_help = "\
Of a running Go program (1.21 or newer), read out of its memory, without a stop: its collections, the heap before each and what was live after it, the pauses, and which stacks allocate, so that the collector has to work. Allocations are Go's own samples, with their ±; the runtime shows them one collection late. GODEBUG and an endpoint are not needed.

Of a file, or of standard input (-): the same as far as the lines of GODEBUG=gctrace=1 tell it.

Examples:
  ramson gc 4711
  ramson gc server --window 1m -n 5
  GODEBUG=gctrace=1 ./server 2>&1 | ramson gc -
  ramson gc server.log --json")]
pub struct GcFlags {
    /// A process ID, a name, any SRC of one running process; a file with lines of gctrace, or - for
    /// standard input
    pub source: String,
    /// Watch the process for this time (ms, s, m, h or d); Ctrl-C ends it earlier
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = question::time)]
    pub window: u64,
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
