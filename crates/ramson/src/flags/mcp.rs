//! The flags of `ramson mcp`.

use super::source::NameFlags;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Speaks the Model Context Protocol (2026-07-28 and older revisions) on standard input and output, until its input ends. A client such as an editor or an agent starts it; docs/mcp.md has its configuration.

Tools: list, report, leaks, diff, doctor, timeline, source. Each answers with a verdict, evidence (the document of --json, cut to 8 kB unless max_bytes asks for more), and the next call. Marks (\"ramson mark\") are resources. Nothing is changed, nothing is fetched from the network, and standard input is no SRC.

Examples:
  claude mcp add ramson -- ramson mcp
  ramson mcp --source-root ~/src/redis")]
pub struct McpFlags {
    /// Show source code beneath DIR, of files that a profile's debug information names (repeatable)
    #[arg(long, value_name = "DIR")]
    pub source_root: Vec<PathBuf>,
    #[command(flatten)]
    pub names: NameFlags,
}
