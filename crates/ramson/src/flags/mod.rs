//! The one definition of commands and flags; help, man page and completions come from it.

mod candidates;
mod command;
mod diff;
mod export;
mod filters;
mod history;
mod leaks;
mod mcp;
mod processes;
mod profiles;
mod report;
mod run;
mod serve;
mod source;
mod top;
pub mod values;

pub use command::{command, line_of};
pub use diff::DiffFlags;
pub use export::{ExportFlags, ExportView, Format, SymbolizeFlags};
pub use history::{DEFAULT_KEEP_NS, HistoryFlags};
pub use leaks::{Gate, LeaksFlags};
pub use mcp::McpFlags;
pub use processes::{AttachFlags, DetachFlags, ExplainFlags, SetFlags, TrimFlags};
pub use profiles::{ListFlags, MarkFlags, TimelineFlags, When};
pub use report::{ReportFlags, join_peek};
pub use run::{RunFlags, ScheduleFlags};
pub use serve::ServeFlags;
pub use source::NameFlags;
pub use top::TopFlags;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ramson_apart::Budget;
use std::path::PathBuf;
use values::parse_budget;

/// An always-on heap profiler for native Linux programs: shows what is using their memory, while
/// they run and after they have died
#[derive(Parser)]
#[command(name = "ramson", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Start a server under ramson, and read its profile at any time, even after it was killed:
  ramson run -- redis-server --port 6379
  ramson report name:redis-server

Exit status: 0 done, 1 failed, 2 usage, 3 a check failed (diff --fail-above, leaks --fail-on), 4 a check cannot tell yet (leaks --fail-on unknown), 5 not found or not profiled. `run`: the program's.")]
pub struct Cli {
    /// Limit the memory and time spent on reading each input. Default: 512M,10s for files and
    /// processes of other users; 4G and no time limit for your own and root's
    #[arg(long, global = true, value_name = "SIZE,TIME", value_parser = parse_budget)]
    pub budget: Option<Budget>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Start a program under ramson
    Run(RunFlags),
    /// List this user's profiled processes (for root, all users'), running and dead
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
    History(HistoryFlags),
    /// Show RSS and live bytes of a process over time, from its history
    Timeline(TimelineFlags),
    /// Save a process's profile at one moment, under a name or in a file, for later comparison
    Mark(MarkFlags),
    /// Explain a process's RSS, and why freed memory is not returned
    #[command(alias = "doctor")]
    Explain(ExplainFlags),
    /// Record a running process from now on, without a restart
    Attach(AttachFlags),
    /// Stop recording an attached process, and restore what the attach changed
    Detach(DetachFlags),
    /// Change how a recorded process is sampled: interval, overhead target, on or off
    Set(SetFlags),
    /// Make a process return its allocator's free memory to the kernel
    Trim(TrimFlags),
    /// Serve profiles over HTTP: for go tool pprof and scrapers, as JSON, and as a web page
    Serve(ServeFlags),
    /// Answer agents over the Model Context Protocol, on standard input and output
    Mcp(McpFlags),
    /// Write a profile in another format
    Export(ExportFlags),
    /// Write the functions' names into a profile, so that it can be read on another machine
    Symbolize(SymbolizeFlags),
    /// Print a shell's completion script: commands, flags, their values, and processes
    #[command(after_help = "\
`make install` installs the scripts for bash, zsh and fish.

Examples:
  source <(ramson completions bash)
  ramson completions fish > ~/.config/fish/completions/ramson.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print a man page, in roff
    Man(ManFlags),
    /// Print the JSON Schema of what --json prints
    Schema(SchemaFlags),
    /// The process that `top` starts to give the terminal back
    #[command(hide = true)]
    GuardTerminal,
}

/// A shell that can complete.
#[derive(Clone, Copy, ValueEnum)]
pub enum Shell {
    Bash,
    Fish,
    Zsh,
}

impl Shell {
    /// As it calls itself.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Fish => "fish",
            Self::Zsh => "zsh",
        }
    }
}

#[derive(Args)]
#[command(after_help = "\
`make install` installs all pages.

Examples:
  ramson man report | man -l -
  ramson man --dir ~/.local/share/man/man1")]
pub struct ManFlags {
    /// The command to describe. Default: ramson itself
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
    /// Write every page into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub dir: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ramson schema list
  ramson list --json | check-jsonschema --schemafile <(ramson schema list) -")]
pub struct SchemaFlags {
    /// A command that has --json; "processes" for top without SRC, "profile" for export -f json, "sources", "source" and "moments" for the other documents of serve
    #[arg(value_name = "COMMAND", required_unless_present = "dir")]
    pub kind: Option<String>,
    /// Write every schema into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "kind")]
    pub dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
