//! The flags of `ramson agent`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Follows every profiled process of this user (for root, of all users), looks at each once a minute, and inserts what has changed into the tables of a ClickHouse server (deploy/clickhouse): samples by stack, minute, size and age, the terms of RSS, processes and their ends. While the server cannot be reached, batches wait on disk. SIGHUP reads the configuration again.

Configuration, with the defaults; url and match have none:
  state = \"/var/lib/ramson/agent\"   # what waits and what is counted: keep it
  queue_bytes = 1073741824          # of what waits; beyond, the oldest rows are dropped
  every_seconds = 60
  host = \"\"                         # the kernel's name
  go = false                        # also Go programs, by the samples of their own runtime
  [clickhouse]
  url = \"https://clickhouse.example.com:8443\"
  database = \"ramson\"
  user = \"default\"
  password_file = \"/etc/ramson/clickhouse.password\"   # mode 600; without it: no password
  [[attach]]                        # any number of them; none: it attaches to nothing
  match = \"^redis-server\"         # a regular expression on the name or the command line
  interval = \"512K\"
  inside = false                    # also allocators inside the executable and libraries

Examples:
  ramson agent --config /etc/ramson/agent.toml
  ramson agent --config agent.toml --check
  ramson agent --config agent.toml --once --dry-run")]
pub struct AgentFlags {
    /// Configuration, a TOML file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Only check the configuration, the server and its tables
    #[arg(long)]
    pub check: bool,
    /// Look once, send, and end
    #[arg(long, conflicts_with = "check")]
    pub once: bool,
    /// Print the rows, one JSON object per line, instead of sending them; nothing is kept
    #[arg(long, requires = "once")]
    pub dry_run: bool,
}
