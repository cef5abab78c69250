//! The one definition of commands and flags; help, man page and completions come from it.

use crate::death::prune::{Bound, parse_age, parse_total};
use crate::diff::DiffOptions;
use crate::leaks::LeaksOptions;
use crate::mark::MarkOptions;
use crate::merge::MergeOptions;
use crate::naming::NameOptions;
use crate::record::RecordOptions;
use crate::select::{FilterOptions, parse_pattern};
use crate::snap::SnapOptions;
use crate::symbolize::SymbolizeOptions;
use crate::timeline::TimelineOptions;
use crate::top::TopOptions;
use crate::trim::TrimOptions;
use crate::trim::schedule::ScheduleOptions;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ramson_format::{Kind, MAX_RECENT_FREES};
use ramson_profile::{Pattern, SampleType};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

mod values;

use values::{parse_interval, parse_max_file, parse_max_overhead};
pub use values::{parse_sample_type, parse_size};

/// The always-on heap profiler for native Linux programs: who holds the memory, while they run and after they died.
#[derive(Parser)]
#[command(name = "ramson", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Start a server under ramson, and look at it at any time, also after it was killed:
  ramson run -- redis-server --port 6379
  ramson report name:redis-server

Exit status: 0 done, 1 failed, 2 usage, 3 a gate tripped (diff --fail-above, leaks --fail-on), 5 not found or not profiled. `run`: that of the program.")]
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
    /// Watch who holds the memory while a program runs
    Top(TopOptions),
    /// Show which stacks are suspects of a leak, with the evidence
    Leaks(LeaksOptions),
    /// Show what changed between two profiles
    Diff(DiffOptions),
    /// Keep snapshots of processes in a history, so that SRC@-1h shows the past
    Record(RecordOptions),
    /// Show what the history of a process has, moment by moment
    Timeline(TimelineOptions),
    /// Write one moment of a process to a profile file
    Snap(SnapOptions),
    /// Keep a profile as it is now under a name
    Mark(MarkOptions),
    /// Add up profiles
    Merge(MergeOptions),
    /// Explain a process's RSS, and what its allocator keeps of it
    Doctor(DoctorOptions),
    /// Have a process give back the memory that its allocator keeps free
    Trim(TrimOptions),
    /// Write a profile in another format
    Export(ExportOptions),
    /// Write the names into a profile, for reading it on another machine
    Symbolize(SymbolizeOptions),
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
    /// A process ID, name:NAME of a process, a file (ramson's, pprof, jemalloc, gperftools, heaptrack, collapsed), an
    /// http:// address of a pprof endpoint, or - for standard input. With a history (ramson record): SRC@-1h,
    /// SRC@2026-11-20T17:00, SRC@peak, SRC@mark:NAME, and ranges as SRC@-2h..-1h
    #[arg(value_name = "SRC")]
    pub source: String,
    #[command(flatten)]
    pub names: NameOptions,
}

/// Which kind of memory a profile is of.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum KindChoice {
    #[default]
    Heap,
    Mmap,
    All,
}

impl KindChoice {
    /// `None`: all.
    pub fn only(self) -> Option<Kind> {
        match self {
            KindChoice::Heap => Some(Kind::Heap),
            KindChoice::Mmap => Some(Kind::Mmap),
            KindChoice::All => None,
        }
    }
}

#[derive(Args)]
#[command(after_help = "\
The program is any dynamically linked glibc program; its output, exit status and signals pass through. What it cannot do
(a static or set-user-ID program, say) is said in one line, and the program runs without a profile.

Without this command: LD_PRELOAD=/path/to/libramson.so CMD, with these variables:
  RAMSON_INTERVAL=512K  RAMSON_DIR=DIR  RAMSON_OUTPUT=FILE  RAMSON_KEEP=1  RAMSON_MAX_FILE=64M
  RAMSON_MAX_OVERHEAD=1  RAMSON_FREES=1024

Before it starts, profiles of processes that ended long ago are removed (ramson list --help). If the program dies of memory, the sites
that held most of it are printed.

Where systemd knows the program by its process ID (Type=notify, WatchdogSec, socket activation), or there may be no further process, ramson
becomes the program, and says nothing at its end.

Exit status: the program's; if signal N ended it, ramson ends by that, too (128 + N in a shell). 125 ramson failed, 126 not executable,
127 not found.

Examples:
  ramson run -- redis-server --port 6379
  ramson run --interval 64K -o /tmp/build.ramson -- g++ -O2 -c big.cc")]
pub struct RunOptions {
    /// Mean bytes between samples (with K, M or G; 1 records every allocation but malloc(0))
    #[arg(long, value_name = "SIZE", default_value = "512K", value_parser = parse_interval, allow_hyphen_values = true)]
    pub interval: u64,
    /// Bound of the CPU time that samples take, in percent (0.001 to 90; 0 or off for none): the interval is raised to stay
    /// under it. Default 1, or none with --interval 1
    #[arg(long, value_name = "PCT", value_parser = parse_max_overhead, allow_hyphen_values = true)]
    pub max_overhead: Option<String>,
    /// Put the profile here; further processes of the program add .PID, further images of one .PID.2 …
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Largest size of a profile file (1M to 4G). Default: 64M; 8M on Linux before 5.14, where a file takes all of it at once
    #[arg(long, value_name = "SIZE", value_parser = parse_max_file, allow_hyphen_values = true)]
    pub max_file: Option<u64>,
    /// Remember the N latest sampled blocks that were freed, with both stacks, for `report --view frees` (0 to 65536, at most 256 for
    /// each M of --max-file). Default: none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MAX_RECENT_FREES))]
    pub recent_frees: Option<u64>,
    #[command(flatten)]
    pub trims: ScheduleOptions,
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
#[command(after_help = "\
State: running, exited N, the signal that ended it, replaced (by exec), or died where nobody told. Cause of a death: OOM killer, out of
memory (an allocation failed just before), unknown. RSS: now, or as it was last seen. `ramson run` tells these of its program; of others
the kernel's log does, if this user may read it.

Pruning removes profiles of ended processes of this user, never files that somebody has named. `ramson run` does it at its start.
  RAMSON_PRUNE_AGE=30d  RAMSON_PRUNE_SIZE=1G

Examples:
  ramson list
  ramson list --prune --max-age 7d")]
pub struct ListOptions {
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// First remove profiles of processes that ended long ago, then the oldest until the rest takes little enough
    #[arg(long)]
    pub prune: bool,
    /// Oldest that stays: a number with d, h, m or s, or off. Default: RAMSON_PRUNE_AGE, or 30d
    #[arg(long, value_name = "AGE", requires = "prune", value_parser = parse_age)]
    pub max_age: Option<Bound<Duration>>,
    /// Most that the profiles of a directory take on disk, or off. Default: RAMSON_PRUNE_SIZE, or 1G
    #[arg(long, value_name = "SIZE", requires = "prune", value_parser = parse_total)]
    pub max_total: Option<Bound<u64>>,
}

#[derive(Args)]
#[command(after_help = "\
Columns: flat is the function's own allocations, cum includes those of the functions it called; ± is the 95 % interval of
the estimate, in percent of flat (of cum where flat is 0). A row whose ± is large rests on few samples.

Examples:
  ramson report name:redis-server
  ramson report 4711 --view peek createStringObject
  ramson report 4711 --view health
  ramson report 4711 --view callers --focus networking.c
  ramson report 4711 --view sizes --tagfocus thread=bio_
  ramson report crashed.ramson --view frees --address 0x55d0c3a2f2a0
  ramson report old.ramson --sample-index alloc_space --sort cum -n 40")]
pub struct ReportOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    /// heap: malloc and operator new; mmap: what the program mapped itself; all: both, added up. Default: heap; of another tool's
    /// file, all
    #[arg(long, value_enum)]
    pub kind: Option<KindChoice>,
    /// What to count: inuse_space, inuse_objects, alloc_space or alloc_objects; inuse_space unless a pprof file says otherwise
    #[arg(long, value_name = "TYPE", value_parser = parse_sample_type)]
    pub sample_index: Option<SampleType>,
    /// top: functions; lines: lines of functions; tree: callers to callees; callers: the same upside down; peek RE: callers and
    /// callees of functions that match RE; sizes: live blocks by size; threads: live blocks by thread; frees: sampled blocks
    /// freed of late, who allocated and who freed them; health: what recording cost, and what it lost
    #[arg(long, value_name = "VIEW", default_value = "top", value_parser = parse_view)]
    pub view: View,
    /// With --view frees: only blocks in which this address lies, also live ones
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub address: Option<u64>,
    #[command(flatten)]
    pub filters: FilterOptions,
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

#[derive(Args)]
#[command(after_help = "\
Works on any process that this user may trace, profiled or not, and does not stop it. glibc's arenas are read from outside; of other
allocators only the name is known, and what jemalloc and tcmalloc say of themselves with --ask. Who holds kept memory back is known of processes under ramson. Each advice comes with its evidence,
the bytes that it saves and its risk.

Examples:
  ramson doctor 4711
  ramson doctor name:redis-server --json")]
pub struct DoctorOptions {
    /// A process ID, name:NAME of a process, or the profile file of one that runs
    #[arg(value_name = "SRC")]
    pub source: String,
    /// Walk every chunk of glibc's arenas, also of large ones, which takes about half a second per GiB
    #[arg(long)]
    pub exact: bool,
    /// Ask jemalloc or tcmalloc for its own figures: stops one thread that waits, for some milliseconds, as "ramson trim" does. glibc's
    /// are read without
    #[arg(long)]
    pub ask: bool,
    /// Call sites shown of those that hold memory back; 0: all
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    #[command(flatten)]
    pub names: NameOptions,
    /// One JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// What `report` shows.
#[derive(Clone)]
pub enum View {
    Top,
    Lines,
    Tree,
    Callers,
    Peek(Pattern),
    Sizes,
    Threads,
    Frees,
    Health,
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
        Some(("peek", expression)) => return parse_pattern(expression).map(View::Peek),
        Some(_) => {}
        None => match text {
            "top" => return Ok(View::Top),
            "lines" => return Ok(View::Lines),
            "tree" => return Ok(View::Tree),
            "callers" => return Ok(View::Callers),
            "sizes" => return Ok(View::Sizes),
            "threads" => return Ok(View::Threads),
            "frees" => return Ok(View::Frees),
            "health" => return Ok(View::Health),
            "peek" => return Err("which functions? Add a regular expression".into()),
            _ => {}
        },
    }
    Err("one of top, tree, peek RE, callers, lines, sizes, threads, frees, health".into())
}

fn parse_address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map_err(|_| "not a hexadecimal address, as in 0x55d0c3a2f2a0".into())
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
  ramson export 4711 -f html -o heap.html
  ramson export 4711 -f svg --focus createStringObject > heap.svg")]
pub struct ExportOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    /// pprof: gzip'd profile.proto; collapsed, csv: one line per stack; svg: a flame graph; html: flame graph and table, offline; json:
    /// all stacks as one object; speedscope, firefox: for these viewers; heap_v2: jemalloc's text, for jeprof
    #[arg(short, long, value_enum)]
    pub format: Format,
    #[command(flatten)]
    pub filters: FilterOptions,
    /// Write here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// heap: malloc and operator new; mmap: what the program mapped itself; all: both, added up. Default: heap; of another tool's
    /// file, all
    #[arg(long, value_enum)]
    pub kind: Option<KindChoice>,
    /// What collapsed, svg, html and firefox count, and what pprof and speedscope show first; inuse_space unless a pprof file says otherwise
    #[arg(long, value_name = "TYPE", value_parser = parse_sample_type)]
    pub sample_index: Option<SampleType>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Format {
    Pprof,
    Collapsed,
    Speedscope,
    Firefox,
    Svg,
    Html,
    Json,
    Csv,
    #[value(name = "heap_v2")]
    HeapV2,
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
