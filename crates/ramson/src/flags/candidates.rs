//! Values of flags and SRCs that a shell offers.

use clap_complete::CompletionCandidate;
use clap_complete::engine::{PathCompleter, ValueCompleter};
use ramson_analysis::listing::{self, Wanted};
use ramson_analysis::question::{GRANULARITIES, Shown};
use ramson_process::identify::base_name;
use ramson_process::stat::Stat;
use ramson_process::{processes, text};
use ramson_profile::SampleType;
use std::ffi::OsStr;

/// Forms of SRC that go on with something that is not looked up.
const FORMS: [(&str, &str); 3] = [
    ("tree:", "a process and its descendants"),
    ("unit:", "the processes of a systemd unit"),
    ("cgroup:", "the processes of a control group"),
];
/// Longest command line that is shown beside a process ID.
const MOST_LETTERS: usize = 60;

/// Words of `report --view`.
pub fn views() -> Vec<CompletionCandidate> {
    Shown::WORDS.into_iter().map(CompletionCandidate::new).collect()
}

/// Words of `--granularity`.
pub fn granularities() -> Vec<CompletionCandidate> {
    GRANULARITIES.into_iter().map(|(word, _)| CompletionCandidate::new(word)).collect()
}

/// Words of `--count`.
pub fn sample_types() -> Vec<CompletionCandidate> {
    SampleType::ALL.into_iter().map(|of| CompletionCandidate::new(of.word())).collect()
}

/// Profiled processes, dead ones too, and files.
pub fn sources(current: &OsStr) -> Vec<CompletionCandidate> {
    let listing = listing::list(&Wanted::default());
    let named = listing.rows().into_iter().map(|row| {
        let command = format!("{} {}", row.entry.state, row.entry.command.join(" "));
        (row.entry.pid, row.entry.name.clone(), command)
    });
    matching(current, named.collect())
}

/// Processes that run, profiled or not, and files.
pub fn processes(current: &OsStr) -> Vec<CompletionCandidate> {
    let has_memory =
        |pid: &u32| Stat::of(*pid).is_some_and(|stat| stat.rss.is_some_and(|rss| rss > 0));
    let named = processes::all().into_iter().filter(has_memory).map(|pid| {
        let comm = text::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        (pid, comm.trim_end().to_owned(), processes::command(pid).join(" "))
    });
    matching(current, named.collect())
}

/// Those of the processes, with their names and command lines, that begin so.
fn matching(current: &OsStr, named: Vec<(u32, String, String)>) -> Vec<CompletionCandidate> {
    let wanted = current.to_string_lossy();
    let mut names: Vec<String> =
        named.iter().map(|(_, name, _)| format!("name:{}", base_name(name))).collect();
    names.sort();
    names.dedup();
    let pids = named.into_iter().map(|(pid, _, command)| {
        let command: String =
            command.chars().filter(|letter| !letter.is_control()).take(MOST_LETTERS).collect();
        (pid.to_string(), command)
    });
    let names = names.into_iter().map(|name| (name, String::new()));
    let forms = FORMS.map(|(form, what)| (form.to_owned(), what.to_owned()));
    let all = pids.chain(names).chain(forms).filter(|(word, _)| word.starts_with(&*wanted));
    let candidates = all.map(|(word, help)| {
        let help = Some(help).filter(|help| !help.is_empty());
        CompletionCandidate::new(word).help(help.map(Into::into))
    });
    candidates.chain(PathCompleter::any().complete(current)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_complete_by_id_and_name() {
        let named = vec![
            (4711, "redis-server".to_owned(), "redis-server --port 1".to_owned()),
            (4712, "redis-server".to_owned(), String::new()),
            (99, "nginx".to_owned(), String::new()),
        ];
        let words = |current: &str| -> Vec<String> {
            let found = matching(current.as_ref(), named.clone()).into_iter();
            found.map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(words("47"), ["4711", "4712"]);
        assert_eq!(words("name:"), ["name:nginx", "name:redis-server"]);
        assert_eq!(words("name:r"), ["name:redis-server"]);
        assert_eq!(words("tr"), ["tree:"]);
    }
}
