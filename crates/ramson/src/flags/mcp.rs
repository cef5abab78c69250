//! The flags of `ramson mcp`.

use super::source::NameFlags;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Speaks the Model Context Protocol (2026-07-28 and older revisions) on standard input and output until its input ends. A client, such as an editor or an agent, starts it; docs/how-to/share.md shows how to configure one.

Tools: list, report, leaks, diff, explain, timeline, source. Each answers with a verdict, the evidence (what --json prints, cut to 8 kB unless max_bytes allows more), and the next calls to make. Marks (\"ramson mark\") are resources. The tools change nothing, fetch nothing from the network except debug files with --debuginfod, and do not accept - as SRC.

Examples:
  claude mcp add ramson -- ramson mcp
  ramson mcp --source-root ~/src/redis")]
pub struct McpFlags {
    /// Show source files beneath DIR that a profile's debug information names (repeatable)
    #[arg(long, value_name = "DIR")]
    pub source_root: Vec<PathBuf>,
    #[command(flatten)]
    pub names: NameFlags,
}
