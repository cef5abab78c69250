//! The `ramson` command: start a program under the profiler, and read what profiles say.
#![forbid(unsafe_code)]

mod agent;
mod agent_rules;
mod answers;
mod attach;
mod check;
mod completions;
mod diff;
mod explain;
mod export;
mod flags;
mod fleet;
mod gc;
mod history;
mod leaks;
mod list;
mod man;
mod mark;
mod mcp;
mod open;
mod output;
mod output_file;
mod report;
mod run;
mod saved;
mod saved_diff;
mod schemas;
mod screen;
mod serve;
mod symbolize;
mod table;
mod timeline;
mod top;
mod trim;

use clap::FromArgMatches;
use clap::error::ErrorKind;
use flags::{Cli, Command};
use ramson_apart::{Handler, is_asked, serve_if_asked};
use ramson_control::Actor;
use ramson_history::HistoryReader;
use ramson_import::ForeignReader;
use ramson_process::MemoryReader;
use ramson_reader::ProfileReader;
use ramson_source::places::check_proc;
use ramson_source::{Failure, ProfileFinder};
use ramson_symbols::NameReader;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    if is_asked() {
        ramson_launch::close_inherited();
    }
    let handlers: &mut [&mut dyn Handler] = &mut [
        &mut ProfileReader,
        &mut ProfileFinder::default(),
        &mut MemoryReader::default(),
        &mut NameReader::default(),
        &mut ForeignReader,
        &mut HistoryReader::default(),
        &mut Actor,
    ];
    let acts = |budget| ramson_apart::enable(budget, false);
    if serve_if_asked(handlers, acts) {
        return ExitCode::SUCCESS;
    }
    completions::answer();
    ramson_launch::prepare();
    let words: Vec<OsString> = flags::rewritten(std::env::args_os());
    if let Some(text) = flags::topic(&words) {
        let _ = output::print_raw(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    let help = help_of(&words);
    let matches = flags::command().try_get_matches_from(&words);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &words, &help),
    };
    ramson_apart::enable(cli.budget, goes_on(&cli.command));
    let outcome = dispatch(cli);
    ramson_apart::end_all();
    match outcome {
        Ok(status) => ExitCode::from(status),
        // The reader of our output has closed it.
        Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(failure.status())
        }
    }
}

/// Help goes where it was asked for; a mistake is one line, as every failure is.
fn usage(error: &clap::Error, words: &[OsString], help: &str) -> ExitCode {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        // The reader of our output has closed it.
        let _ = error.print();
    } else {
        let what = flags::line_of(error, words);
        let stop = if what.ends_with('?') { "" } else { "." };
        output::remark(format_args!("{what}{stop} \"{help}\" explains"));
    }
    ExitCode::from(error.exit_code() as u8)
}

/// Command line that prints the help of the command that the user meant.
fn help_of(words: &[OsString]) -> String {
    let command = flags::command();
    let meant = words.iter().skip(1).find_map(|word| command.find_subcommand(word));
    match meant.map(clap::Command::get_name) {
        Some("help") | None => "ramson --help".into(),
        Some(name) => format!("ramson {name} --help"),
    }
}

/// Whether a command looks again and again.
fn goes_on(command: &Command) -> bool {
    matches!(
        command,
        Command::Top(_)
            | Command::History(_)
            | Command::Agent(_)
            | Command::Serve(_)
            | Command::Mcp(_)
            | Command::Gc(_)
    )
}

/// Whether a command looks at no process. `run` says itself what it lacks, with a status of its own.
fn prints_only(command: &Command) -> bool {
    use Command::{Completions, Fleet, GuardTerminal, Man, Run, Schema};
    matches!(command, Run(_) | Fleet(_) | Completions { .. } | GuardTerminal | Schema(_) | Man(_))
}

fn dispatch(cli: Cli) -> Result<u8, Failure> {
    if !prints_only(&cli.command) {
        check_proc().map_err(Failure::failed)?;
    }
    match cli.command {
        Command::Run(flags) => run::run(&flags),
        Command::Check(flags) => check::check(&flags).map(|()| 0),
        Command::List(flags) => list::list(&flags).map(|()| 0),
        Command::Report(flags) => report::report(&flags).map(|()| 0),
        Command::Top(flags) => top::top(&flags).map(|()| 0),
        Command::Leaks(flags) => leaks::leaks(&flags),
        Command::Diff(flags) => diff::diff(&flags),
        Command::Mark(flags) => mark::mark(&flags).map(|()| 0),
        Command::Agent(flags) => agent::agent(&flags).map(|()| 0),
        Command::Fleet(flags) => fleet::fleet(&flags).map(|()| 0),
        Command::History(flags) => history::history(&flags).map(|()| 0),
        Command::Timeline(flags) => timeline::timeline(&flags).map(|()| 0),
        Command::Explain(flags) => explain::explain(&flags).map(|()| 0),
        Command::Gc(flags) => gc::gc(&flags).map(|()| 0),
        Command::Attach(flags) => attach::attach(&flags).map(|()| 0),
        Command::Detach(flags) => attach::detach(&flags).map(|()| 0),
        Command::Set(flags) => attach::set(&flags).map(|()| 0),
        Command::Trim(flags) => trim::trim(&flags).map(|()| 0),
        Command::Serve(flags) => serve::serve(&flags).map(|()| 0),
        Command::Mcp(flags) => mcp::mcp(&flags).map(|()| 0),
        Command::Export(flags) => export::export(&flags).map(|()| 0),
        Command::Symbolize(flags) => symbolize::symbolize(&flags).map(|()| 0),
        Command::Completions { shell } => completions::completions(shell).map(|()| 0),
        Command::GuardTerminal => Ok(screen::guard().map(|()| 0)?),
        Command::Schema(flags) => schemas::schemas(&flags).map(|()| 0),
        Command::Man(flags) => man::man(&flags).map(|()| 0),
    }
}
