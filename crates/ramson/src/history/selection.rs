//! Processes whose snapshots are kept.

use crate::flags::HistoryFlags;
use ramson_follow::{Scope, Search, WATCH_EVERY};
use ramson_process::clock::unix_ns;
use ramson_source::{Base, Failure, Recording, Selector, none_of, open_recording, processes_of};

pub struct Selection {
    pub search: Search,
    /// The processes that the command waits for, in words.
    pub awaited: String,
}

impl Selection {
    /// Also returns the processes that are there now. Fails if a process ID or file that the user named is not there now.
    pub fn begin(flags: &HistoryFlags) -> Result<(Self, Vec<Recording>), Failure> {
        let mut groups = Vec::new();
        let mut single = Vec::new();
        for wanted in &flags.sources {
            let selector = Selector::parse(wanted)?;
            if selector.span.is_some() {
                return Err(Failure::usage(format!(
                    "{wanted}: a history can record only the present. Pass the process without a moment"
                )));
            }
            match &selector.base {
                Base::Tree(_) if processes_of(&selector.base).is_none_or(|it| it.is_empty()) => {
                    return Err(none_of(&selector));
                }
                _ if selector.is_group() => groups.push(selector),
                _ => single.push(open(wanted)?),
            }
        }
        let names: Vec<String> = groups.iter().map(words).collect();
        let awaited = if flags.all { "a profiled process".into() } else { names.join(" or ") };
        let scope = if flags.all { Scope::Recorded } else { Scope::Named(groups) };
        let (search, found) = Search::begin(scope, WATCH_EVERY, unix_ns());
        single.extend(found);
        Ok((Self { search, awaited }, single))
    }
}

fn words(group: &Selector) -> String {
    match &group.base {
        Base::Name(name) => format!("a process named {name}"),
        Base::Unit(unit) => format!("a process of {unit}"),
        _ => format!("a process in {}", group.base_text),
    }
}

fn open(wanted: &str) -> Result<Recording, Failure> {
    let source = open_recording(wanted)?;
    match source.running {
        Some(_) => Ok(source),
        None => Err(Failure::not_found(format!(
            "{wanted}: its process is no longer running. \"ramson report {wanted}\" shows its end"
        ))),
    }
}
