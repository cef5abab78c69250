//! SRC, for commands that read profiles.

use super::names::NameFlags;
use clap::Args;

/// The forms that name running processes, profiled or not.
pub const PROCESSES: &str = "A process ID; name:NAME, all processes of that name; tree:PID, a process and its descendants; unit:redis.service, the processes of a systemd unit; cgroup:PATH, those of a control group and of groups below it; or the profile file of a process that runs. There may be several";
/// All forms, for commands that sum what is named.
const SOURCES: &str = "A process ID; name:NAME, all processes of that name; tree:PID, a process and its descendants; unit:redis.service, the processes of a systemd unit; cgroup:PATH, those of a control group and of groups below it; a file (ramson's, pprof, jemalloc, gperftools, heaptrack, collapsed); an http:// address of a pprof endpoint; or - for standard input. Several in a row, and all that one of them names, are summed. With a history (ramson record): SRC@-1h, SRC@2026-11-20T17:00, SRC@peak, SRC@mark:NAME, and ranges as SRC@-2h..-1h";
/// The same, for commands that take one.
const SOURCE: &str = "A process ID, a file (ramson's, pprof, jemalloc, gperftools, heaptrack, collapsed), an http:// address of a pprof endpoint, - for standard input, or name:NAME, tree:PID, unit:NAME or cgroup:PATH if that is one process. With a history (ramson record): SRC@-1h, SRC@2026-11-20T17:00, SRC@peak, SRC@mark:NAME, and ranges as SRC@-2h..-1h";

/// Where one profile comes from.
#[derive(Args)]
pub struct SourceFlags {
    #[arg(value_name = "SRC", help = SOURCE)]
    pub source: String,
    #[command(flatten)]
    pub names: NameFlags,
}

/// Where profiles that are summed come from.
#[derive(Args)]
pub struct SourcesFlags {
    #[arg(value_name = "SRC", required = true, help = SOURCES)]
    pub sources: Vec<String>,
    #[command(flatten)]
    pub names: NameFlags,
}
