//! The one definition of commands and flags; help, man page and completions come from it.

mod diff;
mod doctor;
mod export;
mod filters;
mod leaks;
mod names;
mod profiles;
mod record;
mod report;
mod run;
mod top;
mod trim;
pub mod values;

pub use diff::DiffFlags;
pub use doctor::DoctorFlags;
pub use export::{ExportFlags, Format, MergeFlags, SnapFlags, SymbolizeFlags};
pub use filters::FilterFlags;
pub use leaks::LeaksFlags;
pub use names::{NameFlags, SearchFlags};
pub use profiles::{ListFlags, MarkFlags, TimelineFlags};
pub use record::RecordFlags;
pub use report::{ReportFlags, join_peek};
pub use run::{RunFlags, ScheduleFlags};
pub use top::TopFlags;
pub use trim::TrimFlags;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ramson_analysis::named::Kinds;
use ramson_format::Kind;
use ramson_profile::view::Sort;

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
    Run(RunFlags),
    /// List profiled processes of this user, running and dead
    List(ListFlags),
    /// Show who holds the memory
    Report(ReportFlags),
    /// Watch who holds the memory while a program runs
    Top(TopFlags),
    /// Show which stacks are suspects of a leak, with the evidence
    Leaks(LeaksFlags),
    /// Show what changed between two profiles
    Diff(DiffFlags),
    /// Keep snapshots of processes in a history, so that SRC@-1h shows the past
    Record(RecordFlags),
    /// Show what the history of a process has, moment by moment
    Timeline(TimelineFlags),
    /// Write one moment of a process to a profile file
    Snap(SnapFlags),
    /// Keep a profile as it is now under a name
    Mark(MarkFlags),
    /// Add up profiles
    Merge(MergeFlags),
    /// Explain a process's RSS, and what its allocator keeps of it
    Doctor(DoctorFlags),
    /// Have a process give back the memory that its allocator keeps free
    Trim(TrimFlags),
    /// Write a profile in another format
    Export(ExportFlags),
    /// Write the names into a profile, for reading it on another machine
    Symbolize(SymbolizeFlags),
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
pub struct SourceFlags {
    /// A process ID, name:NAME of a process, a file (ramson's, pprof, jemalloc, gperftools, heaptrack, collapsed), an
    /// http:// address of a pprof endpoint, or - for standard input. With a history (ramson record): SRC@-1h,
    /// SRC@2026-11-20T17:00, SRC@peak, SRC@mark:NAME, and ranges as SRC@-2h..-1h
    #[arg(value_name = "SRC")]
    pub source: String,
    #[command(flatten)]
    pub names: NameFlags,
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
    /// `None`: the flag was not used.
    pub fn kinds(choice: Option<Self>) -> Kinds {
        match choice {
            None => Kinds::Usual,
            Some(Self::Heap) => Kinds::Only(Kind::Heap),
            Some(Self::Mmap) => Kinds::Only(Kind::Mmap),
            Some(Self::All) => Kinds::All,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum SortBy {
    Flat,
    Cum,
    Name,
}

impl From<SortBy> for Sort {
    fn from(sort: SortBy) -> Self {
        match sort {
            SortBy::Flat => Self::Flat,
            SortBy::Cum => Self::Cum,
            SortBy::Name => Self::Name,
        }
    }
}

#[cfg(test)]
mod tests;
