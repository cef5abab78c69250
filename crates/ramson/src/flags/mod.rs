//! The one definition of commands and flags; help, man page and completions come from it.

mod agent;
mod candidates;
mod command;
mod diff;
mod export;
mod filters;
mod fleet;
mod gc;
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
mod topics;
pub mod values;
mod words;

pub use agent::AgentFlags;
pub use command::{command, line_of};
pub use diff::DiffFlags;
pub use export::{ExportFlags, ExportView, Format, SymbolizeFlags};
pub use fleet::FleetFlags;
pub use gc::GcFlags;
pub use history::{DEFAULT_KEEP_NS, HistoryFlags};
pub use leaks::{Gate, LeaksFlags};
pub use mcp::McpFlags;
pub use processes::{AttachFlags, CheckFlags, DetachFlags, ExplainFlags, SetFlags, TrimFlags};
pub use profiles::{ListFlags, MarkFlags, TimelineFlags, When};
pub use report::ReportFlags;
pub use run::{RunFlags, ScheduleFlags, Switch};
pub use serve::ServeFlags;
pub use source::NameFlags;
pub use top::TopFlags;
pub use topics::topic;
pub use words::rewritten;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ramson_apart::Budget;
use std::path::PathBuf;
use values::parse_budget;

/// An always-on heap profiler for native Linux programs: shows what uses a program's memory, live or
/// after it died
#[derive(Parser)]
#[command(name = "ramson", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Begin with:
  ramson run -- redis-server --port 6379    start a server under ramson
  ramson report redis-server                its memory, even after it died

\"ramson COMMAND -h\" is short, --help complete. \"ramson help src\" explains SRC, \"ramson help filters\" the filters.")]
#[command(after_long_help = "\
Begin with:
  ramson run -- redis-server --port 6379    start a server under ramson
  ramson report redis-server                its memory, even after it died

Also: \"ramson completions\" for shells, \"ramson man\" for man pages, \"ramson schema\" for what --json prints; \"ramson help src\" explains SRC, \"ramson help filters\" the filters.

Exit status: 0 done, 1 failed, 2 usage, 3 a check failed (diff --fail-above, leaks --fail-on), 4 a check cannot tell yet (leaks --fail-on unknown), 5 not found or not profiled. `run`: the program's.")]
pub struct Cli {
    /// Limit the memory and time spent on reading each input. Default: 512M,10s for files and
    /// processes of other users; 4G and no time limit for your own and root's
    #[arg(long, global = true, hide_short_help = true, value_name = "SIZE,TIME", value_parser = parse_budget)]
    pub budget: Option<Budget>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Start a program under ramson
    Run(RunFlags),
    /// Check what works on this machine, or for one process
    Check(CheckFlags),
    /// List profiles: running processes and dead ones
    List(ListFlags),
    /// Show what is using the memory
    Report(ReportFlags),
    /// Watch what is using the memory while a program runs
    Top(TopFlags),
    /// Show suspected leaks, with evidence
    Leaks(LeaksFlags),
    /// Show what changed between two profiles
    Diff(DiffFlags),
    /// Keep past profiles, to look back (SRC@-1h)
    History(HistoryFlags),
    /// Show RSS and live bytes over time, from the history
    Timeline(TimelineFlags),
    /// Save a snapshot to compare with later
    Mark(MarkFlags),
    /// Explain where RSS goes, and why freed memory isn't returned
    #[command(alias = "doctor")]
    Explain(ExplainFlags),
    /// Show what a Go program's garbage collector does, and which stacks make it work
    Gc(GcFlags),
    /// Record a running process from now on
    Attach(AttachFlags),
    /// Undo an attach
    Detach(DetachFlags),
    /// Change a process's sampling: interval, target, on or off
    Set(SetFlags),
    /// Make a process return free memory to the kernel
    Trim(TrimFlags),
    /// Serve a web page, pprof endpoints and JSON over HTTP
    Serve(ServeFlags),
    /// Send what changes in this host's processes to ClickHouse
    Agent(AgentFlags),
    /// Ask all hosts' agents' database: which service, which stack, since when
    Fleet(FleetFlags),
    /// Answer agents over the Model Context Protocol (stdio)
    Mcp(McpFlags),
    /// Write a profile in another format
    Export(ExportFlags),
    /// Write function names into a profile, to read it elsewhere
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
    /// A command that has --json; "processes" for top without SRC, "profile" for export -f json, "sources", "source", "collections" and "moments" for the other documents of serve
    #[arg(value_name = "COMMAND", required_unless_present = "dir")]
    pub kind: Option<String>,
    /// Write every schema into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "kind")]
    pub dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
