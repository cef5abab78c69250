//! Phrases about parts of RSS that have names behind them: variables, files, shared memory, stacks of ended threads.

use super::finding::Finding;
use super::words::size;
use crate::rss::Before;
use ramson_process::identify::base_name;
use ramson_process::{Mapped, Term};
use ramson_profile::format::format_objects;

/// The sum is one memory in each process that has it.
const SHARED: &str = "shared memory, which counts in the RSS of each process that has touched it";

/// Returns what is said of a cause, behind its bytes.
pub fn phrase(finding: &Finding, cause: &str) -> Option<String> {
    Some(match cause {
        "variables" => format!(
            "is variables of the program and its libraries (.data and .bss){}",
            variables(finding)
        ),
        "files" => format!(
            "is code and mapped files{}: the kernel takes back pages that it can read again",
            listed(&finding.details.files)
        ),
        "shared" => shared(finding),
        "unseen" => unseen(finding),
        "mmap" => format!(
            "is memory outside malloc: {} (ramson report PID --kind mmap)",
            finding.extents_owner.as_ref()?
        ),
        "ended_stacks" => ended(finding),
        _ => return None,
    })
}

fn variables(finding: &Finding) -> String {
    let Some(first) = finding.details.variables.first() else { return String::new() };
    // A larger one is mostly not resident.
    let resident = finding.variables.iter().filter(|(_, bytes)| *bytes <= first.bytes);
    let names = resident.map(|(name, bytes)| format!("{name} {}", size(*bytes)));
    let names: Vec<String> = names.collect();
    let named = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    format!(", {} of it in {}{named}", size(first.bytes), first.path)
}

/// `: /srv/data.mdb 2.00 GiB, /usr/bin/server 30.0 MiB`.
fn listed(all: &[Mapped]) -> String {
    let named = large(all).map(|one| format!("{} {}", file_name(&one.path), size(one.bytes)));
    let named: Vec<String> = named.collect();
    if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) }
}

/// The path; of a library, only its last part.
fn file_name(path: &str) -> &str {
    let name = base_name(path);
    if name.contains(".so") { name } else { path }
}

/// Those with a tenth of them or more.
fn large(all: &[Mapped]) -> impl Iterator<Item = &Mapped> {
    let total: u64 = all.iter().map(|one| one.bytes).sum();
    all.iter().filter(move |one| one.bytes * 10 >= total)
}

/// Whether the process shares none of its shared memory that counts.
pub fn has_own_shared_memory(finding: &Finding) -> bool {
    let all = &finding.details.shared_memory;
    !all.is_empty() && all.iter().all(|one| !one.is_elsewhere)
}

fn shared(finding: &Finding) -> String {
    let of = |one: &Mapped| {
        let times = match one.times {
            0 | 1 => String::new(),
            2 => ", mapped twice here".into(),
            times => format!(", mapped {times} times here"),
        };
        format!("{} {}{times}", shared_name(&one.path), size(one.distinct_bytes))
    };
    let all: Vec<String> = large(&finding.details.shared_memory).map(of).collect();
    let names = if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) };
    if has_own_shared_memory(finding) {
        format!("is shared memory that no other process has mapped{names}")
    } else {
        format!("is {SHARED}{names}")
    }
}

/// The kernel names shared memory without a file by the way in which it was made.
fn shared_name(path: &str) -> &str {
    match path.strip_suffix(" (deleted)").unwrap_or(path) {
        "/dev/zero" => "MAP_SHARED without a file",
        name => name,
    }
}

fn unseen(finding: &Finding) -> String {
    match (finding.rss.before, finding.rss.parent) {
        (Some(Before::Fork), Some(parent)) => format!(
            "is live, but was inherited from its parent or is not seen by ramson: ramson report {parent} names what the parent allocated"
        ),
        (Some(Before::Fork), None) => {
            "is live, but was inherited from its parent or is not seen by ramson: no stack is known"
                .into()
        }
        (Some(before), _) => format!(
            "is live, but was allocated before {before} or is not seen by ramson: no stack is known"
        ),
        (None, _) if !finding.rss.term(Term::Unseen).is_significant() => format!(
            "is live by {}'s own count, beyond the estimate and within its error",
            finding.rss.holder()
        ),
        (None, _) => "is live, but in no sample: no stack is known".into(),
    }
}

fn ended(finding: &Finding) -> String {
    let threads = match finding.details.ended_threads {
        1 => "1 ended thread that was never joined".into(),
        count => {
            format!("{} ended threads that were never joined", format_objects(count as f64))
        }
    };
    let began = finding.ended_function.as_ref();
    let began =
        began.map_or(String::new(), |name| format!("; most of these threads started in {name}"));
    format!("is stacks of {threads}: pthread_join or pthread_detach returns them{began}")
}
