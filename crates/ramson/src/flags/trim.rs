//! The flags of `ramson trim`.

use super::source::PROCESSES;
use clap::Args;

#[derive(Args)]
#[command(after_help = "\
Nothing is trimmed unless this command, or \"ramson run --trim-every\" or \"--trim-after\", is used. One thread does the trim; the others run on. Of several processes one is trimmed after the other; the exit status is 1 if none could be.

Examples:
  ramson trim 4711
  ramson trim tree:4711
  ramson trim name:my-server --json")]
pub struct TrimFlags {
    #[arg(value_name = "SRC", required = true, help = PROCESSES)]
    pub sources: Vec<String>,
    /// One JSON object instead of two lines, or of a line for each of several processes
    #[arg(long)]
    pub json: bool,
}
