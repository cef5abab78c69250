//! The flags of commands about which profiles and moments there are: `list`, `mark`, `timeline`.

use super::source::SourceFlags;
use super::values::{parse_age, parse_total, parse_user};
use clap::{Args, ValueEnum};
use ramson_source::marks::parse_name;

#[derive(Args)]
#[command(after_help = "\
Running processes come first, by their RSS; then dead ones, the last to end first. Dead processes that ran for less than a minute and differ in nothing except their arguments are one row.

State: running, exited N, the signal that ended it, replaced (by exec), or died if nothing more is known; and the cause of a death for a lack of memory: OOM killer, or out of memory (an allocation failed just before). RSS: now, or as last seen. `ramson run` records these of its program; for others they come from the kernel's log, if this user may read it. Ports: TCP ports on which the process listens; `not read` where the processes of its user have too many files open.

Pruning removes profiles of ended processes of this user, never files with a name of their own. `ramson run` prunes when it starts.
  RAMSON_PRUNE_AGE=30d  RAMSON_PRUNE_SIZE=1G

Examples:
  ramson list
  ramson list --running
  ramson list redis 6379
  ramson list --user www-data
  ramson list --prune --max-age 7d")]
pub struct ListFlags {
    /// Only profiles with this in their name, command line or path, or with this process ID or port. Of several words, those with all
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
    /// Only running processes
    #[arg(long)]
    pub running: bool,
    /// Only processes of this user, by name or ID
    #[arg(long, value_name = "USER", value_parser = parse_user)]
    pub user: Option<u32>,
    /// Rows of the table to show; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 40)]
    pub rows: usize,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// First remove profiles of processes that ended before --max-age, then the oldest until the
    /// rest is within --max-total
    #[arg(long)]
    pub prune: bool,
    /// Largest age: a number with d, h, m or s, or off. Default: RAMSON_PRUNE_AGE, or 30d
    #[arg(long, value_name = "AGE", requires = "prune", value_parser = parse_age)]
    pub max_age: Option<u64>,
    /// Largest size of a directory's profiles on disk, or off. Default: RAMSON_PRUNE_SIZE, or 1G
    #[arg(long, value_name = "SIZE", requires = "prune", value_parser = parse_total)]
    pub max_total: Option<u64>,
}

#[derive(Args)]
#[command(after_help = "\
Prints the path of the mark's file. You may remove it at any time; ramson does not. \"leaks --since\" and \"leaks --baseline\" find a mark by its name, the other commands by its path. If \"ramson record\" keeps a history of the process, the moment is there, too: SRC@mark:NAME.

Examples:
  ramson mark name:redis-server deploy; sleep 3600; ramson leaks name:redis-server --since deploy
  ramson diff $(ramson mark 4711 before) 4711")]
pub struct MarkFlags {
    #[command(flatten)]
    pub source: SourceFlags,
    /// What to call this moment: letters, digits, dots, dashes and underscores
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Move a mark that exists
    #[arg(long)]
    pub force: bool,
    /// One JSON object instead of the path
    #[arg(long)]
    pub json: bool,
}

/// When to do what only people want.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum When {
    Auto,
    Always,
    Never,
}

#[derive(Args)]
#[command(after_help = "\
On a terminal, a chart comes first: live bytes, and the rest of RSS above them, with the marks below.

Columns: RSS and live bytes of the moment, the 95 % interval of live in percent, bytes allocated per second since the row before, live samples, and what sets the moment apart: a mark, the start, the end, memory pressure, or the highest of the rows. A line in parentheses marks a gap, where there was no snapshot for more than twice the interval: the recorder did not run, or was prevented from taking one.

Examples:
  ramson timeline name:redis-server
  ramson timeline 4711@-2h..-1h --csv > series.csv
  ramson export 4711 -f svg --view timeline -o memory.svg
  ramson timeline history.db -n 0")]
pub struct TimelineFlags {
    /// A process ID, name:NAME, or a history; with a range, as in SRC@-2h..-1h, only that range
    #[arg(value_name = "SRC")]
    pub source: String,
    /// Comma-separated values: every moment, bytes as integers
    #[arg(long)]
    pub csv: bool,
    /// One JSON object instead of a table
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Whether to draw the chart: auto is on a terminal only
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto", default_missing_value = "always", num_args = 0..=1, require_equals = true)]
    pub chart: When,
    /// Rows to show: those kept for a reason first, then evenly over time; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 40)]
    pub rows: usize,
}
