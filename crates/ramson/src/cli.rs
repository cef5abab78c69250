//! The one definition of commands and flags; help, man page and completions come from it.

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ramson_profile::{Regex, SampleType};
use std::ffi::OsString;
use std::path::PathBuf;

/// The always-on heap profiler for native Linux programs: who holds the memory, while they run and after they died.
#[derive(Parser)]
#[command(name = "ramson", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Start a server under ramson, and look at it at any time, also after it was killed:
  ramson run -- redis-server --port 6379
  ramson report name:redis-server

Exit status: 0 done, 1 failed, 2 usage, 5 not found or not profiled. `run`: that of the program.")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Start a program under ramson
    Run(RunOptions),
    /// List profiled processes of this user, running and dead
    List(ListOptions),
    /// Show who holds the memory
    Report(ReportOptions),
    /// Write a profile in another format
    Export(ExportOptions),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Print the man page, in roff
    Man,
}

/// Where a profile comes from.
#[derive(Args)]
pub struct SourceOptions {
    /// A process ID, name:NAME of a process, or a profile file
    #[arg(value_name = "SRC")]
    pub source: String,
    /// Also look for debug files in this directory (repeatable)
    #[arg(long, value_name = "DIR")]
    pub debug_path: Vec<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
The program is any dynamically linked glibc program; its output, exit status and signals pass through. What it cannot do
(a static or set-user-ID program, say) is said in one line, and the program runs without a profile.

Without this command: LD_PRELOAD=/path/to/libramson.so CMD, with these variables:
  RAMSON_INTERVAL=512K  RAMSON_DIR=DIR  RAMSON_OUTPUT=FILE  RAMSON_KEEP=1  RAMSON_MAX_FILE=64M

Exit status: the program's, 128 + N if signal N ended it; 125 ramson failed, 126 not executable, 127 not found.

Examples:
  ramson run -- redis-server --port 6379
  ramson run --interval 64K -o /tmp/build.ramson -- g++ -O2 -c big.cc")]
pub struct RunOptions {
    /// Mean bytes between samples (with K, M or G; 1 records every allocation)
    #[arg(long, value_name = "SIZE", default_value = "512K", value_parser = parse_interval, allow_hyphen_values = true)]
    pub interval: u64,
    /// Put the profile here; further processes of the program add .PID
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(short, long, requires = "output")]
    pub force: bool,
    /// Largest size of a profile file (1M to 4G)
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_max_file, allow_hyphen_values = true)]
    pub max_file: u64,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct ListOptions {
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "\
Columns: flat is the function's own allocations, cum includes those of the functions it called; ± is the 95 % interval of
the estimate, in percent of flat (of cum where flat is 0). A row whose ± is large rests on few samples.

Examples:
  ramson report name:redis-server
  ramson report 4711 --view peek createStringObject
  ramson report old.ramson --sample-index alloc_space --sort cum -n 40")]
pub struct ReportOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    /// What to count
    #[arg(long, value_name = "TYPE", default_value = "inuse_space", value_parser = parse_sample_type)]
    pub sample_index: SampleType,
    /// top: functions; tree: callers to callees; peek RE: callers and callees of functions that match RE
    #[arg(long, value_name = "top|tree|peek RE", default_value = "top", value_parser = parse_view)]
    pub view: View,
    /// Rows of the table to show (a tree shows five times as many); 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    /// Order of the rows
    #[arg(long, value_enum, default_value_t = SortBy::Flat)]
    pub sort: SortBy,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What `report` shows.
#[derive(Clone)]
pub enum View {
    Top,
    Tree,
    Peek(Regex),
}

/// `--view peek RE` as one argument, so that `--view tree SRC` does not take SRC for an expression.
pub fn join_peek(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for argument in arguments {
        let is_expression =
            matches!(joined.as_slice(), [.., flag, view] if flag == "--view" && view == "peek");
        match joined.last_mut() {
            Some(view) if is_expression => {
                view.push(" ");
                view.push(argument);
            }
            _ => joined.push(argument),
        }
    }
    joined
}

fn parse_view(text: &str) -> Result<View, String> {
    match text.split_once(' ') {
        Some(("peek", expression)) => {
            Regex::new(expression).map(View::Peek).map_err(|error| error.to_string())
        }
        None if text == "top" => Ok(View::Top),
        None if text == "tree" => Ok(View::Tree),
        None if text == "peek" => Err("which functions? Add a regular expression".into()),
        _ => Err("one of top, tree, peek RE".into()),
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum SortBy {
    Flat,
    Cum,
    Name,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ramson export 4711 -f pprof -o heap.pb.gz && go tool pprof -top heap.pb.gz
  ramson export 4711 -f collapsed | flamegraph.pl > heap.svg")]
pub struct ExportOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    /// pprof: gzip'd profile.proto; collapsed: one line per stack; json: all stacks as one object
    #[arg(short, long, value_enum)]
    pub format: Format,
    /// Write here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// What collapsed counts, and what pprof shows first
    #[arg(long, value_name = "TYPE", default_value = "inuse_space", value_parser = parse_sample_type)]
    pub sample_index: SampleType,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Format {
    Pprof,
    Collapsed,
    Json,
}

fn parse_interval(text: &str) -> Result<u64, String> {
    const MOST: u64 = 1 << 50;
    match parse_size(text) {
        Some(bytes) if (1..=MOST).contains(&bytes) => Ok(bytes),
        Some(0) => Err("0 would sample nothing; use 1 to record every allocation, or run the program without ramson".into()),
        _ => Err("not a size between 1 and 1024T; use bytes, or K, M, G as in 512K".into()),
    }
}

fn parse_max_file(text: &str) -> Result<u64, String> {
    let (least, most) = ramson_format::FILE_BYTES_RANGE;
    parse_size(text)
        .filter(|bytes| (least..=most).contains(bytes))
        .ok_or_else(|| "not a size between 1M and 4G".into())
}

/// The same sizes that libramson.so reads: a whole number with an optional K, M, G or T and an optional B or iB.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let value: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].to_ascii_uppercase();
    let shift = match unit.trim_end_matches("IB").trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    (value <= u64::MAX >> shift).then(|| value << shift)
}

fn parse_sample_type(text: &str) -> Result<SampleType, String> {
    SampleType::from_name(text)
        .ok_or_else(|| "one of inuse_space, inuse_objects, alloc_space, alloc_objects".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flag_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn peek_takes_an_expression_and_the_other_views_leave_the_source_alone() {
        let report = |line: &str| {
            let arguments = line.split(' ').map(OsString::from);
            match Cli::try_parse_from(join_peek(arguments)).map(|cli| cli.command) {
                Ok(Command::Report(options)) => Ok((options.source.source, options.view)),
                Ok(_) => unreachable!("a report was asked for"),
                Err(error) => Err(error.to_string()),
            }
        };
        assert!(
            matches!(report("ramson report --view tree 77"), Ok((source, View::Tree)) if source == "77")
        );
        let peek = report("ramson report --view peek ^main$ 77");
        assert!(
            matches!(peek, Ok((source, View::Peek(re))) if source == "77" && re.as_str() == "^main$")
        );
        assert!(report("ramson report 77 --view peek (").is_err());
        assert!(report("ramson report 77 --view peek").is_err());
        assert!(report("ramson report 77 --view flat").is_err());
    }

    #[test]
    fn sizes_are_read_as_the_library_reads_them() {
        assert_eq!(parse_size("512K"), Some(512 << 10));
        assert_eq!(parse_size("1MiB"), Some(1 << 20));
        assert_eq!(parse_size("3b"), Some(3));
        for wrong in ["", "K", "-1", "1.5M", "1X", "99999999999G", "iB"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn intervals_that_make_no_sense_are_refused() {
        for wrong in ["0", "-5", "9999T", "abc"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
