//! The command line as clap has it, from the flags: with a short help for `-h`, and with what a shell offers as values.

use super::Cli;
use super::candidates::{granularities, processes, sample_types, sources, views};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

/// Commands on processes that need no profile.
const ON_PROCESSES: [&str; 5] = ["explain", "trim", "attach", "detach", "set"];

/// The one that is parsed, and that help, man pages and completions come from.
pub fn command() -> Command {
    Cli::command().mut_subcommands(|command| with_values(with_short_help(command)))
}

/// `-h` has the first sentence of each help, `--help` all of it.
fn with_short_help(command: Command) -> Command {
    let more = format!("\"ramson {} --help\" explains more", command.get_name());
    let long = command.get_after_help().map(ToString::to_string);
    let long = long.unwrap_or_else(|| "\"ramson --help\" lists the commands".into());
    let shorten = |arg: Arg| {
        // A heading that is set for some flags would go on for those behind them.
        let heading = heading_of(arg.get_id().as_str());
        let arg = arg.help_heading(heading);
        match (arg.get_help().map(ToString::to_string), arg.get_long_help()) {
            (Some(help), None) => arg.help(first_sentence(&help).to_owned()).long_help(help),
            _ => arg,
        }
    };
    command.mut_args(shorten).after_help(more).after_long_help(long)
}

/// Names the fault in the words of a command, in one line without its full stop.
pub fn line_of(error: &clap::Error) -> String {
    // perf and heaptrack record a program; here, run does.
    let word = error.get(ContextKind::InvalidSubcommand);
    if matches!(word, Some(ContextValue::String(word)) if word == "record") {
        return "no command \"record\": did you mean run? To keep snapshots over time, use history"
            .into();
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let what =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let what = what.collect::<Vec<_>>().join(" ");
    let what = what.trim_start_matches("error: ").trim_end_matches('.').replace(" tip:", "; tip:");
    what.replace("invalid digit found in string", "not a whole number")
}

fn heading_of(id: &str) -> Option<&'static str> {
    match id {
        "focus" | "ignore" | "hide" | "show" | "show_from" | "tagfocus" | "tagignore"
        | "granularity" => Some("Filters (RE matches names of functions, files and binaries)"),
        "debug_path" | "sysroot" | "binary" | "debuginfod" | "demangle" => {
            Some("Names of functions")
        }
        _ => None,
    }
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first)
}

fn with_values(command: Command) -> Command {
    let takes_processes = ON_PROCESSES.contains(&command.get_name());
    let is_report = command.get_name() == "report";
    command.mut_args(|arg| match arg.get_id().as_str() {
        "source" | "sources" | "old" | "new" if takes_processes => {
            arg.add(ArgValueCompleter::new(processes))
        }
        "source" | "sources" | "old" | "new" => arg.add(ArgValueCompleter::new(sources)),
        "view" if is_report => arg.add(ArgValueCandidates::new(views)),
        "granularity" => arg.add(ArgValueCandidates::new(granularities)),
        "count" => arg.add(ArgValueCandidates::new(sample_types)),
        "since" | "baseline" => arg.value_hint(ValueHint::FilePath),
        _ => arg,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_help_is_shorter() {
        let mut command = command();
        command.build();
        let is_shown = |it: &&Command| !it.is_hide_set() && it.get_name() != "help";
        let shown: Vec<Command> = command.get_subcommands().filter(is_shown).cloned().collect();
        for mut command in shown {
            let name = command.get_name().to_owned();
            let short = command.render_help().to_string();
            let long = command.render_long_help().to_string();
            assert!(short.lines().count() < long.lines().count(), "{name}\n{short}");
            assert!(short.contains("explains more"), "{name}\n{short}");
            let (options, _) = short.split_once("\n\nFilters").unwrap_or((&short, ""));
            let is_of_command = command.get_arguments().any(|arg| arg.get_id() == "json");
            assert!(!is_of_command || options.contains("--json"), "{name}\n{short}");
            // In the long form the text is below the flag.
            let flag = long.lines().find(|line| line.contains("-h, --help"));
            assert!(flag.is_none_or(|flag| flag.trim() == "-h, --help"), "{name}\n{long}");
        }
    }

    #[test]
    fn sentence_ends_before_stop_and_space() {
        assert_eq!(first_sentence("To NAME.ramson, or so. Default: 1"), "To NAME.ramson, or so");
        assert_eq!(first_sentence("One"), "One");
    }
}
