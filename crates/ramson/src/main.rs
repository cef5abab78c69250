//! The `ramson` command: start a program under the profiler, and read what profiles say.
#![forbid(unsafe_code)]

mod assemble;
mod cli;
mod export;
mod failure;
mod list;
mod places;
mod report;
mod rss;
mod run;
mod source;
mod text;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    match dispatch(Cli::parse_from(cli::join_peek(std::env::args_os()))) {
        Ok(status) => ExitCode::from(status),
        // Whoever read our output has seen enough.
        Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("ramson: {failure}");
            ExitCode::from(failure.status())
        }
    }
}

fn dispatch(cli: Cli) -> Result<u8, Failure> {
    match cli.command {
        Command::Run(options) => run::run(&options),
        Command::List(options) => list::list(&options).map(|()| 0),
        Command::Report(options) => report::report(&options).map(|()| 0),
        Command::Export(options) => export::export(&options).map(|()| 0),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "ramson", &mut script);
            text::print(&script).map(|()| 0)
        }
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            text::print(&page).map(|()| 0)
        }
    }
}
