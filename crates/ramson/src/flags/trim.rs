//! The flags of `ramson trim`.

use clap::Args;

#[derive(Args)]
#[command(after_help = "\
Nothing is trimmed unless this command, or \"ramson run --trim-every\" or \"--trim-after\", is used. One thread does the trim; the others run on.

Examples:
  ramson trim 4711
  ramson trim name:my-server --json")]
pub struct TrimFlags {
    /// A process ID, name:NAME of a process, or the profile file of one that runs
    #[arg(value_name = "SRC")]
    pub source: String,
    /// One JSON object instead of two lines
    #[arg(long)]
    pub json: bool,
}
