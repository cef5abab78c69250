//! `--languages`: language run times that publish what they call the code that they compile or interpret, in a perf map.

use crate::flags::RunFlags;
use crate::output::remark;
use ramson_process::program;
use ramson_profile::Language;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

/// The first Python that writes a perf map.
const OLDEST_PYTHON: u32 = 12;

/// A variable of a run time, and what is put there; options stand behind the user's own, a value gives way to theirs.
enum Setting {
    Value(&'static str, &'static str),
    Options(&'static str, &'static [&'static str]),
}

use Setting::{Options, Value};

/// The user's choice of Java options comes last, and so wins. A JVM that does not know one of these ignores it.
const JAVA: &[Setting] = &[Options(
    "JAVA_TOOL_OPTIONS",
    &[
        "-XX:+IgnoreUnrecognizedVMOptions",
        "-XX:+PreserveFramePointer",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:+DumpPerfMapAtExit",
    ],
)];
/// With all code instead of functions only, node would also write a log into its working directory.
const NODE: &[Setting] = &[Options(
    "NODE_OPTIONS",
    &["--perf-basic-prof-only-functions", "--interpreted-frames-native-stack"],
)];
/// pymalloc would hide what is smaller than 512 bytes.
const PYTHON: &[Setting] = &[Value("PYTHONPERFSUPPORT", "1"), Value("PYTHONMALLOC", "malloc")];

/// With `--languages`, sets what makes run times tell their names; without, says that it can be done.
pub fn say_frames(program: &Path, flags: &RunFlags, command: &mut Command) {
    let binary = program::binary_of(program);
    let run_time = Language::of_program(&binary);
    let shown = binary.display();
    if let Some(version) = too_old(&binary) {
        if flags.languages {
            remark(format_args!(
                "--languages: {shown}: Python {version} does not report the names of its functions. Use Python 3.12 or newer"
            ));
        }
        return;
    }
    if flags.languages {
        configure(command);
        remark(format_args!("--languages: {}", price(run_time)));
    } else if let Some(run_time) = run_time
        && !is_set_by_user(run_time, &flags.command[1..])
    {
        remark(format_args!(
            "{shown}: \"ramson run --languages\" shows its functions by name, too"
        ));
    }
}

/// The version of a Python that is too old, by the name of its file.
fn too_old(binary: &Path) -> Option<String> {
    let file = binary.canonicalize().ok()?;
    let name = file.file_name()?.to_str()?;
    let minor = name.strip_prefix("python3.")?;
    (minor.parse::<u32>().ok()? < OLDEST_PYTHON).then(|| format!("3.{minor}"))
}

/// Sets for all run times what they need, as children may be of others.
fn configure(command: &mut Command) {
    for setting in [PYTHON, NODE, JAVA].into_iter().flatten() {
        match *setting {
            Value(name, value) if env::var_os(name).is_none() => _ = command.env(name, value),
            Value(..) => {}
            Options(name, options) => {
                command.env(name, with_user_s(options, env::var_os(name)));
            }
        }
    }
}

/// Options that the user has not set, and then the user's.
fn with_user_s(options: &[&str], user_s: Option<OsString>) -> OsString {
    let user_s = user_s.unwrap_or_default();
    let text = user_s.to_string_lossy();
    // `--perf-basic-prof` does what `--perf-basic-prof-only-functions` does, and more.
    let is_new = |option: &&&str| !text.split_whitespace().any(|word| option.starts_with(word));
    let ours: Vec<&str> = options.iter().filter(is_new).copied().collect();
    let mut value = OsString::from(ours.join(" "));
    if !ours.is_empty() && !user_s.is_empty() {
        value.push(" ");
    }
    value.push(user_s);
    value
}

/// Names the settings that `--languages` makes for this run time, then their costs and losses.
fn price(run_time: Option<Language>) -> &'static str {
    match run_time {
        Some(Language::Python) => {
            "PYTHONPERFSUPPORT=1 and PYTHONMALLOC=malloc are set: Python takes up to 2.3 times the CPU time"
        }
        Some(Language::JavaScript) => {
            "NODE_OPTIONS is set: node writes /tmp/perf-PID.map, which grows with each function that it compiles"
        }
        Some(Language::Java) => {
            "JAVA_TOOL_OPTIONS is set: each JVM prints a line about it; a JVM that is killed leaves no function names"
        }
        None => {
            "Python 3.12 or newer, node and Java among its processes will report function names: Python takes up to 2.3 times the CPU time, and a JVM that is killed leaves no names"
        }
    }
}

/// Whether the user has set a run time to tell its names, by an argument or a variable.
fn is_set_by_user(run_time: Language, arguments: &[OsString]) -> bool {
    let (variable, signs): (_, &[&str]) = match run_time {
        Language::Python => ("PYTHONPERFSUPPORT", &["perf", "-Xperf"]),
        Language::JavaScript => {
            ("NODE_OPTIONS", &["--perf-basic-prof", "--perf-basic-prof-only-functions"])
        }
        Language::Java => ("JAVA_TOOL_OPTIONS", &["-XX:+DumpPerfMapAtExit"]),
    };
    let tells = |text: &OsStr| {
        let text = text.to_string_lossy();
        text.split_whitespace().any(|word| signs.contains(&word))
    };
    let of_variable = env::var_os(variable);
    arguments.iter().any(|argument| tells(argument))
        || of_variable.is_some_and(|value| run_time == Language::Python || tells(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_options_come_last() {
        let value = |user_s: Option<&str>| {
            with_user_s(&["--a", "--b"], user_s.map(Into::into)).into_string().unwrap()
        };
        assert_eq!(value(None), "--a --b");
        assert_eq!(value(Some("--max-old-space-size=64")), "--a --b --max-old-space-size=64");
        assert_eq!(value(Some("--b --c")), "--a --b --c");
        assert_eq!(value(Some("--b --a")), "--b --a");
        let more = with_user_s(&["--perf-all"], Some("--perf".into()));
        assert_eq!(more, "--perf", "the user's does more");
    }

    #[test]
    fn options_set_by_user_are_recognized() {
        let set = |language, arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(Into::into).collect();
            is_set_by_user(language, &arguments)
        };
        assert!(set(Language::JavaScript, &["--perf-basic-prof", "a.js"]));
        assert!(set(Language::Python, &["-X", "perf", "a.py"]));
        assert!(!set(Language::Java, &["-Xmx1g", "-jar", "a.jar"]));
    }
}
