//! The flags of `ramson history`.

use super::values::{DAY_NS, size, time};
use clap::Args;
use std::path::PathBuf;

/// How long a mark is kept if no `ramson history` has said it.
pub const DEFAULT_KEEP_NS: u64 = 30 * DAY_NS;
const EVERY: &str = "not a time from 100ms to 1d, as in 10s";
const KEEP: &str = "not a time from 1m to 3660d, as in 30d";
const MAX_SIZE: &str = "not a size from 1M to 4096G, as in 4G";

#[derive(Args)]
#[command(after_help = "\
Takes a snapshot of each process every 10 s, and another when the process reaches a new peak of live bytes or RSS, is marked (ramson mark), ends, or its cgroup is short of memory. Older snapshots are thinned out: every 10 s for an hour, every minute for a day, every 10 minutes until --keep. Runs until it is interrupted, or until every process that was named by its ID has ended; for a name, unit or control group it waits for further processes.

Every reading command then takes moments and ranges: SRC@-1h, SRC@2026-11-20T17:00, SRC@peak, SRC@mark:NAME, SRC@-2h..-1h. They read the history in RAMSON_HISTORY, or the one that this command writes without -o: /var/lib/ramson/history.db for root, else history.db in $XDG_STATE_HOME/ramson (~/.local/state/ramson). docs/internals/history-format.md has the tables.

Examples:
  ramson history --all
  ramson history redis-server --every 1m -o redis.db
  ramson history unit:postgresql.service
  ramson diff redis-server@-1h redis-server
  ramson report redis.db@peak")]
pub struct HistoryFlags {
    /// Process IDs, profile files of running processes, or name:NAME, tree:PID, unit:NAME and cgroup:PATH, whose processes may
    /// come and go
    #[arg(value_name = "SRC", required_unless_present = "all")]
    pub sources: Vec<String>,
    /// Take snapshots of every profiled process of this user (for root, of all users), including those that start later
    #[arg(long, conflicts_with = "sources")]
    pub all: bool,
    /// Time between two snapshots of a process (ms, s, m, h or d)
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time(DAY_NS / 864_000..=DAY_NS, EVERY))]
    pub every: u64,
    /// Also take a snapshot each time a process has allocated about this much
    #[arg(long, value_name = "SIZE", value_parser = size(1..=u64::MAX, "not a size, as in 1G"))]
    pub every_bytes: Option<u64>,
    /// How long to keep snapshots
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = time(DAY_NS / 1440..=3660 * DAY_NS, KEEP))]
    pub keep: u64,
    /// Largest size of the history; the oldest snapshots go first
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = size(1 << 20..=4 << 40, MAX_SIZE))]
    pub max_size: u64,
    /// The history file: created if it does not exist, continued if it does
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// One JSON object per line when the history of a process begins and when it ends
    #[arg(long)]
    pub json: bool,
}
