//! The flags of commands about which profiles and moments there are: `list`, `mark`, `timeline`.

use super::source::SourceFlags;
use super::values::{parse_age, parse_total};
use clap::{Args, ValueEnum};
use ramson_analysis::listing::user_id;
use ramson_source::marks::parse_name;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Running processes come first, the largest RSS on top; then dead ones, the latest first. Dead processes that ran for less than a minute and differ only in their arguments share a row. Narrow terminals show fewer columns; 140 columns show all.

State: running, exited N, the signal that ended the process, replaced (by exec), or died if nothing more is known. If it died because memory ran out, the cause follows: OOM killer, or out of memory (an allocation had just failed). RSS: now, or as last seen. `ramson run` records cause and RSS for its program; for others they come from the kernel's log, if this user may read it.

Pruning removes old profiles of this user's ended processes. If the rest exceeds the size limit, the newest and the largest stay, and the others become one sum for each command line (one for an executable that has more than 32). A file that was given a name with -o always stays. `ramson run` and `ramson history` prune while they run.
  RAMSON_PRUNE_AGE=30d  RAMSON_PRUNE_SIZE=1G

Examples:
  ramson list
  ramson list --running
  ramson list redis 4711
  ramson list --user www-data
  ramson list --prune --max-age 7d")]
pub struct ListFlags {
    /// Show only profiles that have WORD in their name, command line or path, or as process ID. Several words
    /// must all match
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
    /// Show only running processes
    #[arg(long)]
    pub running: bool,
    /// Show only processes of this user (name or ID)
    #[arg(long, value_name = "USER", value_parser = user_id)]
    pub user: Option<u32>,
    /// Rows of the table to show; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 40)]
    pub rows: usize,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// First remove profiles of processes that ended more than --max-age ago, then, if the rest
    /// exceeds --max-total, keep the newest and the largest and sum the others
    #[arg(long)]
    pub prune: bool,
    /// Oldest profile to keep: a number with d, h, m or s, or off. Default: RAMSON_PRUNE_AGE, or 30d
    #[arg(long, value_name = "AGE", requires = "prune", value_parser = parse_age)]
    pub max_age: Option<u64>,
    /// Disk space that a directory's profiles may take, or off. Default: RAMSON_PRUNE_SIZE, or 1G
    #[arg(long, value_name = "SIZE", requires = "prune", value_parser = parse_total)]
    pub max_total: Option<u64>,
}

#[derive(Args)]
#[command(after_help = "\
Prints the path of the file. ramson never removes it; you can, at any time. Every command reads it, on any machine with the same binaries. \"leaks --since\" and \"leaks --baseline\" find a mark by its NAME, other commands by its path. If \"ramson history\" keeps a history of the process, the history has the mark too: SRC@mark:NAME.

Examples:
  ramson mark redis-server deploy; sleep 3600; ramson leaks redis-server --since deploy
  ramson diff $(ramson mark 4711 before) 4711
  ramson mark 4711@-1h -o before.ramson")]
pub struct MarkFlags {
    #[command(flatten)]
    pub source: SourceFlags,
    /// The mark's name: letters, digits, dots, dashes and underscores
    #[arg(value_parser = parse_name, required_unless_present = "output")]
    pub name: Option<String>,
    /// Write the profile to FILE instead of marking it; SRC may be a past moment, such as 4711@-1h
    #[arg(short, long, value_name = "FILE", conflicts_with = "name")]
    pub output: Option<PathBuf>,
    /// Replace the mark or FILE if it exists
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
On a terminal, a chart comes first: live bytes at the bottom, the rest of RSS above them, marks below the axis.

Columns: RSS and live bytes at that time, the 95% interval of live in percent, what is free in the allocator (or held by it, if it cannot be read) with its interval, bytes allocated per second since the previous row, live samples, and why the row is of interest: a mark, the start, the end, memory pressure, or a peak. A line in parentheses reports a gap: no snapshot for more than twice the interval, because the recorder did not run or could not take one.

Examples:
  ramson timeline redis-server
  ramson timeline 4711@-2h..-1h --csv > series.csv
  ramson export 4711 -f svg --view timeline -o memory.svg
  ramson timeline history.db -n 0")]
pub struct TimelineFlags {
    /// A process ID, name:NAME, or a history; with a range, as in SRC@-2h..-1h, only that range
    #[arg(value_name = "SRC")]
    pub source: String,
    /// Print comma-separated values: every snapshot, bytes as integers
    #[arg(long)]
    pub csv: bool,
    /// One JSON object instead of a table
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// When to draw the chart; auto: on a terminal
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto", default_missing_value = "always", num_args = 0..=1, require_equals = true)]
    pub chart: When,
    /// Rows to show: marks, start, end and peaks first, then others spread evenly over time; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 40)]
    pub rows: usize,
}
