//! SRC, for commands that read one profile.

use super::names::NameFlags;
use clap::Args;

/// Where a profile comes from.
#[derive(Args)]
pub struct SourceFlags {
    /// A process ID, name:NAME of a process, a file (ramson's, pprof, jemalloc, gperftools,
    /// heaptrack, collapsed), an http:// address of a pprof endpoint, or - for standard input. With
    /// a history (ramson record): SRC@-1h, SRC@2026-11-20T17:00, SRC@peak, SRC@mark:NAME, and
    /// ranges as SRC@-2h..-1h
    #[arg(value_name = "SRC")]
    pub source: String,
    #[command(flatten)]
    pub names: NameFlags,
}
