//! The one definition of commands and flags; help, man page and completions come from it.

mod diff;
mod export;
mod filters;
mod leaks;
mod processes;
mod profiles;
mod record;
mod report;
mod run;
mod source;
mod top;
pub mod values;

pub use diff::DiffFlags;
pub use export::{ExportFlags, Format, MergeFlags, SnapFlags, SymbolizeFlags};
pub use leaks::LeaksFlags;
pub use processes::{DoctorFlags, TrimFlags};
pub use profiles::{ListFlags, MarkFlags, TimelineFlags};
pub use record::{DEFAULT_KEEP_NS, RecordFlags};
pub use report::{ReportFlags, join_peek};
pub use run::{RunFlags, ScheduleFlags};
pub use top::TopFlags;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use ramson_apart::Budget;
use values::parse_budget;

/// The always-on heap profiler for native Linux programs: what is using the memory, while they run
/// and after they died
#[derive(Parser)]
#[command(name = "ramson", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Start a server under ramson, and read its profile at any time, also after it was killed:
  ramson run -- redis-server --port 6379
  ramson report name:redis-server

Exit status: 0 done, 1 failed, 2 usage, 3 a gate tripped (diff --fail-above, leaks --fail-on), 5 not found or not profiled. `run`: the program's.")]
pub struct Cli {
    /// What reading any one input may cost: memory, and time of a processor. Default: 512M,10s of what
    /// belongs to neither you nor root; 4G of other memory, without a bound of time
    #[arg(long, global = true, value_name = "SIZE,TIME", value_parser = parse_budget)]
    pub budget: Option<Budget>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Start a program under ramson
    Run(RunFlags),
    /// List profiled processes of this user, running and dead
    List(ListFlags),
    /// Show what is using the memory
    Report(ReportFlags),
    /// Watch what is using the memory while a program runs
    Top(TopFlags),
    /// Show suspected leaks, with evidence
    Leaks(LeaksFlags),
    /// Show what changed between two profiles
    Diff(DiffFlags),
    /// Keep snapshots of processes in a history, so that SRC@-1h shows the past
    Record(RecordFlags),
    /// List the moments of a process that a history has
    Timeline(TimelineFlags),
    /// Write one moment of a process to a profile file
    Snap(SnapFlags),
    /// Keep a profile as it is now under a name
    Mark(MarkFlags),
    /// Add up profiles
    Merge(MergeFlags),
    /// Explain a process's RSS, and why freed memory is not returned
    Doctor(DoctorFlags),
    /// Make a process return its allocator's free memory to the kernel
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
    /// What `top` starts for itself
    #[command(hide = true)]
    GuardTerminal,
}

#[cfg(test)]
mod tests;
