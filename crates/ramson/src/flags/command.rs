//! The command line as clap has it, from the flags: with a short help for `-h`, and with what a shell offers as values.

use super::Cli;
use super::candidates::{granularities, processes, sample_types, sources, views};
use super::words::has_peeked;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use std::ffi::OsString;
use std::iter;

/// Commands on processes that need no profile.
const ON_PROCESSES: [&str; 6] = ["explain", "trim", "attach", "detach", "set", "check"];

/// The commands in the order of the first screen. Those that only scripts use are not in it.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Profile", &["run", "attach", "detach", "set", "check"]),
    ("Look", &["report", "top", "leaks", "explain", "gc", "list"]),
    ("Compare", &["mark", "diff", "history", "timeline"]),
    ("Act", &["trim"]),
    ("Share", &["serve", "export", "symbolize", "mcp"]),
    ("Fleet", &["agent", "fleet"]),
];
/// Flags that `-h` leaves out.
const RARE: [&str; 27] = [
    "debug_path",
    "sysroot",
    "binary",
    "debuginfod",
    "demangle",
    "hide",
    "show",
    "show_from",
    "tagfocus",
    "tagignore",
    "granularity",
    "library",
    "wrapper",
    "address",
    "suppressions",
    "drop_negative",
    "old",
    "exact",
    "suspend_seccomp",
    "max_file",
    "recent_frees",
    "trim_log",
    "every_bytes",
    "max_age",
    "max_total",
    "allow_host",
    "source_root",
];

/// The one that is parsed, and that help, man pages and completions come from.
pub fn command() -> Command {
    let command = Cli::command().mut_subcommands(|command| with_values(with_short_help(command)));
    let commands = groups(&command);
    command.help_template(format!(
        "{{about-with-newline}}\nUsage: ramson COMMAND\n\n{commands}\n{{options}}{{after-help}}\n"
    ))
}

/// A line for each command, the first of a group with the group's name.
fn groups(command: &Command) -> String {
    let about = |name: &str| {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        about.map(ToString::to_string).unwrap_or_default()
    };
    let group = |(title, names): &(&str, &[&str])| {
        let titles = [*title].into_iter().chain(iter::repeat(""));
        let lines = names.iter().zip(titles);
        let line = |(name, title): (&&str, &str)| format!("{title:<9}{name:<11}{}\n", about(name));
        lines.map(line).collect::<String>()
    };
    GROUPS.iter().map(group).collect()
}

/// The first of the examples at the end of a help.
fn commonest_use(help: &str) -> Option<&str> {
    let (_, examples) = help.split_once("Examples:\n")?;
    examples.lines().next()
}

/// `-h` has the commonest use, the flags that are not rare, and the first sentence of each help; `--help` has all.
fn with_short_help(command: Command) -> Command {
    let more = format!("\"ramson {} --help\" shows all flags and examples", command.get_name());
    let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    let more = match (has("sources") || has("source"), has("focus")) {
        (true, true) => {
            format!("{more}; \"ramson help src\" explains SRC, \"ramson help filters\" the filters")
        }
        (true, false) => format!("{more}; \"ramson help src\" explains SRC"),
        _ => more,
    };
    let long = command.get_after_help().map(ToString::to_string);
    let example = long.as_deref().and_then(commonest_use);
    let template = example.map(|example| {
        format!("{{about-with-newline}}\n{example}\n\n{{usage-heading}} {{usage}}\n\n{{all-args}}{{after-help}}\n")
    });
    let command = match template {
        Some(template) => command.help_template(template),
        None => command,
    };
    let long = long.unwrap_or_else(|| "\"ramson --help\" lists the commands".into());
    let shorten = |arg: Arg| {
        // A heading that is set for some flags would go on for those behind them.
        let heading = heading_of(arg.get_id().as_str());
        let is_rare = !arg.is_positional() && RARE.contains(&arg.get_id().as_str());
        let arg = arg.help_heading(heading).hide_short_help(is_rare);
        match (arg.get_help().map(ToString::to_string), arg.get_long_help()) {
            (Some(help), None) => arg.help(first_sentence(&help).to_owned()).long_help(help),
            _ => arg,
        }
    };
    command.mut_args(shorten).after_help(more).after_long_help(long)
}

/// Names the fault in the words of a command, in one line without its full stop.
pub fn line_of(error: &clap::Error, words: &[OsString]) -> String {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    // perf and heaptrack record a program; here, run does.
    if named(ContextKind::InvalidSubcommand) == Some("record") {
        return "no command \"record\": did you mean run? To keep snapshots over time, use history"
            .into();
    }
    if error.kind() == ErrorKind::MissingRequiredArgument && has_peeked(words) {
        return "--view peek: a regular expression must come before SRC, as in --view peek setCommand redis-server".into();
    }
    let unknown = named(ContextKind::InvalidSubcommand)
        .map(|word| (format!("unknown command \"{word}\""), ContextKind::SuggestedSubcommand));
    let unknown = unknown.or_else(|| {
        let is_unknown = error.kind() == ErrorKind::UnknownArgument;
        let flag = named(ContextKind::InvalidArg).filter(|_| is_unknown)?;
        Some((format!("unknown option {flag}"), ContextKind::SuggestedArg))
    });
    if let Some((what, suggested)) = unknown.filter(|(what, _)| !what.ends_with("option ")) {
        let alike = suggestion(error, suggested, &what);
        return alike
            .map_or_else(|| what.clone(), |alike| format!("{what}: did you mean {alike}?"));
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let what =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let what = what.collect::<Vec<_>>().join(" ");
    let what = what.trim_start_matches("error: ").trim_end_matches('.').replace(" tip:", "; tip:");
    what.replace("invalid digit found in string", "not a whole number")
}

/// A word like the unknown one at the end of `what`; one that begins with another letter was not meant.
fn suggestion(error: &clap::Error, kind: ContextKind, what: &str) -> Option<String> {
    let initial = |word: &str| word.trim_matches(['-', '"']).chars().next();
    let unknown = initial(what.rsplit(' ').next()?);
    let alike = match error.get(kind)? {
        ContextValue::String(word) => vec![word.clone()],
        ContextValue::Strings(words) => words.clone(),
        _ => return None,
    };
    alike.into_iter().rev().find(|word| initial(word) == unknown)
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
            assert!(short.contains("shows all flags"), "{name}\n{short}");
            let (options, _) = short.split_once("\n\nFilters").unwrap_or((&short, ""));
            let is_of_command = command.get_arguments().any(|arg| arg.get_id() == "json");
            assert!(!is_of_command || options.contains("--json"), "{name}\n{short}");
            // In the long form the text is below the flag.
            let flag = long.lines().find(|line| line.contains("-h, --help"));
            assert!(flag.is_none_or(|flag| flag.trim() == "-h, --help"), "{name}\n{long}");
        }
    }

    #[test]
    fn short_help_fits_one_screen() {
        let mut command = command().term_width(80);
        command.build();
        let all = [command.clone()].into_iter().chain(command.get_subcommands().cloned());
        for mut command in all.filter(|it| !it.is_hide_set() && it.get_name() != "help") {
            let short = command.render_help().to_string();
            assert!(short.lines().count() <= 40, "{}:\n{short}", short.lines().count());
        }
    }

    #[test]
    fn first_screen_has_every_command() {
        let command = command();
        let shown: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        for name in command.get_subcommands().filter(|it| !it.is_hide_set()).map(Command::get_name)
        {
            let is_for_scripts = matches!(name, "completions" | "man" | "schema");
            assert_eq!(shown.contains(&name), !is_for_scripts, "{name}");
        }
    }

    #[test]
    fn sentence_ends_before_stop_and_space() {
        assert_eq!(first_sentence("To NAME.ramson, or so. Default: 1"), "To NAME.ramson, or so");
        assert_eq!(first_sentence("One"), "One");
    }
}
