//! The flags of `ramson fleet`.

use clap::{Args, ValueEnum};
use ramson_fleet::Question;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Asks the ClickHouse server to which `ramson agent` sends what changes on each host. Bytes are as they were requested, estimated from samples; ± is at 95%. Days are of UTC; without --day it is the latest.

--sql prints the statement that is asked, from deploy/clickhouse/questions, for clickhouse-client or a Grafana panel: {day:Date} and the like are its parameters.

Configuration, a TOML file as that of the agent, with a user that may read:
  [clickhouse]
  url = \"https://clickhouse.example.com:8443\"
  user = \"ramson_reader\"
  password_file = \"/etc/ramson/reader.password\"   # mode 600; without it: no password

Examples:
  ramson fleet
  ramson fleet grew
  ramson fleet stacks checkout
  ramson fleet new checkout --since 3f0c
  ramson fleet deaths --day 2026-11-28 --json
  ramson fleet grew --sql")]
pub struct FleetFlags {
    /// What to ask
    #[arg(value_enum, value_name = "QUESTION", default_value = "services")]
    pub question: Asked,
    /// The service, for stacks, new, processes and outliers
    pub service: Option<String>,
    /// For new: the version whose stacks are known, by its first digits
    #[arg(long, value_name = "VERSION")]
    pub since: Option<String>,
    /// The day, as in 2026-11-29
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    pub day: Option<String>,
    /// Show at most N rows
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rows: u32,
    /// Configuration, a TOML file
    #[arg(long, value_name = "FILE", default_value = "/etc/ramson/fleet.toml")]
    pub config: PathBuf,
    /// Print the SQL instead of asking it
    #[arg(long, conflicts_with = "json")]
    pub sql: bool,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What is asked.
#[derive(Clone, Copy, ValueEnum)]
pub enum Asked {
    /// Which services use most
    Services,
    /// Which stacks of all services have grown by more than sampling error
    Grew,
    /// What of a service is live, by stack
    Stacks,
    /// Which stacks of a service a version never had
    New,
    /// Which processes a service has, and what is live in each
    Processes,
    /// Which processes of a service differ from the others
    Outliers,
    /// Which processes ran out of memory, and what was live in them
    Deaths,
    /// What allocators have free, which is the most that trims could return
    Free,
}

fn parse_day(text: &str) -> Result<String, String> {
    let day: Option<jiff::civil::Date> = text.parse().ok();
    day.map(|day| day.to_string()).ok_or_else(|| "not a day, as in 2026-11-29".into())
}

impl From<Asked> for Question {
    fn from(asked: Asked) -> Self {
        match asked {
            Asked::Services => Self::Services,
            Asked::Grew => Self::Grew,
            Asked::Stacks => Self::Stacks,
            Asked::New => Self::New,
            Asked::Processes => Self::Processes,
            Asked::Outliers => Self::Outliers,
            Asked::Deaths => Self::Deaths,
            Asked::Free => Self::Free,
        }
    }
}
