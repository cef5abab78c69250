//! The `ramson` command: start a program under the profiler, and read what profiles say.
#![forbid(unsafe_code)]

mod assemble;
mod cli;
mod coverage;
mod death;
mod diff;
mod doctor;
mod export;
mod failure;
mod foreign;
mod frees;
mod health;
mod history;
mod http;
mod labels;
mod leaks;
mod list;
mod mapped;
mod mark;
mod merge;
mod naming;
mod own;
mod places;
mod record;
mod report;
mod rss;
mod run;
mod select;
mod shared;
mod snap;
mod source;
mod symbolize;
mod tables;
mod text;
mod timeline;
mod top;
mod trim;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    ramson_launch::prepare();
    let cli = match Cli::try_parse_from(cli::join_peek(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match dispatch(cli) {
        Ok(status) => ExitCode::from(status),
        // Whoever read our output has seen enough.
        Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            text::remark(&failure);
            ExitCode::from(failure.status())
        }
    }
}

/// Help goes where it was asked for; a mistake is one line, as every failure is.
fn usage(error: &clap::Error) -> ExitCode {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        // Whoever read our output has seen enough.
        let _ = error.print();
    } else {
        let text = error.render().to_string();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let what =
            lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
        let what = what.collect::<Vec<_>>().join(" ");
        let what =
            what.trim_start_matches("error: ").trim_end_matches('.').replace(" tip:", "; tip:");
        text::remark(format_args!("{what}. \"ramson --help\" explains"));
    }
    ExitCode::from(error.exit_code() as u8)
}

fn dispatch(cli: Cli) -> Result<u8, Failure> {
    match cli.command {
        Command::Run(options) => run::run(&options),
        Command::List(options) => list::list(&options).map(|()| 0),
        Command::Report(options) => report::report(&options).map(|()| 0),
        Command::Top(options) => top::top(&options).map(|()| 0),
        Command::Leaks(options) => leaks::leaks(&options),
        Command::Diff(options) => diff::diff(&options),
        Command::Mark(options) => mark::mark(&options).map(|()| 0),
        Command::Snap(options) => snap::snap(&options).map(|()| 0),
        Command::Record(options) => record::record(&options).map(|()| 0),
        Command::Timeline(options) => timeline::timeline(&options).map(|()| 0),
        Command::Merge(options) => merge::merge(&options).map(|()| 0),
        Command::Doctor(options) => doctor::doctor(&options).map(|()| 0),
        Command::Trim(options) => trim::trim(&options).map(|()| 0),
        Command::Export(options) => export::export(&options).map(|()| 0),
        Command::Symbolize(options) => symbolize::symbolize(&options).map(|()| 0),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "ramson", &mut script);
            text::print_raw(&script).map(|()| 0)
        }
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            text::print_raw(&page).map(|()| 0)
        }
    }
}
