//! Which profiles there are.

use crate::attachment;
use crate::end::{self, Cause, End};
use crate::extents;
use crate::summary;
use ramson_format::{Health, state};
use ramson_process::{processes, stat};
use ramson_profile::Estimate;
use ramson_source::{Discovery, Recording, list_all};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;

/// A process that ran for less is one of many alike, if it left others like it.
const SHORT_LIFE_NS: u64 = 60_000_000_000;
/// A process of fewer resident bytes that has no sample has allocated little.
const LEAST_UNSEEN: u64 = 16 << 20;

/// The answer.
#[derive(Default, Serialize, schemars::JsonSchema)]
pub struct Listing {
    /// Running ones first, by their RSS; then dead ones, the last to end first.
    pub profiles: Vec<Entry>,
    /// How many more there are that were not asked for.
    pub left_out: usize,
    /// A line for each profile that cannot be read, and for each directory that is not its user's.
    pub unreadable: Vec<String>,
}

/// One profile.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Entry {
    /// As the process is called here while it runs, as it called itself afterwards; 0 for a sum.
    pub pid: u32,
    /// How many ended processes a sum adds up; null if the profile is not a sum.
    pub sum_of: Option<u64>,
    /// The program's name.
    pub name: String,
    /// The user ID of the process, or of the file that it left; null: unknown.
    pub user: Option<u32>,
    /// `running`, `exited 0`, `SIGKILL`, `replaced`, `died` …
    pub state: String,
    /// The process runs and writes the profile.
    pub is_running: bool,
    /// Why it died.
    #[serde(skip)]
    pub cause: Cause,
    /// Resident bytes now, or as they were last seen.
    pub rss: Option<u64>,
    /// How it ended.
    pub end: Option<End>,
    /// The file, or `memory of process PID`.
    pub profile: String,
    /// Its arguments.
    pub command: Vec<String>,
    /// Nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Since when the state is what it is, while the process runs: since it started, was attached to or detached from …; nanoseconds since
    /// 1970.
    pub since_unix_ns: u64,
    /// When it ended, else when it last took a sample; nanoseconds since 1970.
    pub last_unix_ns: u64,
    /// `last_unix_ns` is the time of the last sample, because the end was not seen.
    #[serde(skip)]
    pub is_last_sample: bool,
    /// Sampling interval in force, in bytes.
    pub interval_bytes: u64,
    /// Live bytes of the heap; after a detach, those of then.
    pub live: Estimate,
    /// Why there are no samples of a running process, where that is the reason: the allocator is linked into the executable, where ramson has
    /// no hooks.
    pub unseen: Option<String>,
}

/// Which profiles are asked for: all that meet every condition.
#[derive(Clone, Default)]
pub struct Wanted {
    /// Only running processes.
    pub is_running: bool,
    /// Only this user's processes.
    pub user: Option<u32>,
    /// Each is in the name, the command line or the profile's path, or is the process ID.
    pub words: Vec<String>,
}

/// A row of the table: short-lived dead processes that differ in nothing but their arguments are one.
pub struct Alike<'a> {
    /// The last of them to end.
    pub entry: &'a Entry,
    /// How many they are.
    pub count: usize,
}

/// Returns the ID of the user with this ID or name.
pub fn user_id(text: &str) -> Result<u32, &'static str> {
    let named = || uzers::get_user_by_name(text).map(|user| user.uid());
    text.parse().ok().or_else(named).ok_or("no such user")
}

/// The profiles of this machine that this user may read, as far as they are wanted.
pub fn list(wanted: &Wanted) -> Listing {
    wanted.of(list_all(|recording| Entry::of(&recording)))
}

/// The same in parts, as they come; of each also whether it is of other users, whose profiles may keep their reader waiting. `each` is called
/// from any thread.
pub fn list_each(wanted: &Wanted, each: impl Fn(Listing, bool) + Sync) {
    let each = |part, is_of_others| each(wanted.of(part), is_of_others);
    ramson_source::list_each(|recording| Entry::of(&recording), each);
}

/// Running ones first, by their RSS; then dead ones, the last to end first.
pub fn sort(profiles: &mut [Entry]) {
    profiles.sort_by_key(|entry| {
        let size_or_end =
            if entry.is_running { entry.rss.unwrap_or(0) } else { entry.last_unix_ns };
        (!entry.is_running, Reverse(size_or_end))
    });
}

impl Wanted {
    fn of(&self, all: Discovery<Entry>) -> Listing {
        let mut profiles = all.found;
        let count = profiles.len();
        let has_words = |entry: &Entry| self.words.iter().all(|word| entry.has(word));
        profiles.retain(|entry| self.has_state_and_user(entry) && has_words(entry));
        sort(&mut profiles);
        let unreadable = all.unreadable.into_iter().chain(all.left_out).collect();
        Listing { left_out: count - profiles.len(), profiles, unreadable }
    }

    fn has_state_and_user(&self, entry: &Entry) -> bool {
        (!self.is_running || entry.is_running)
            && self.user.is_none_or(|user| entry.user == Some(user))
    }
}

impl Listing {
    /// Adds another part of the list.
    pub fn add(&mut self, other: Self) {
        self.profiles.extend(other.profiles);
        sort(&mut self.profiles);
        self.left_out += other.left_out;
        self.unreadable.extend(other.unreadable);
    }

    /// The rows of a table, in the order of the profiles.
    pub fn rows(&self) -> Vec<Alike<'_>> {
        let mut rows: Vec<Alike> = Vec::new();
        let mut known = HashMap::new();
        for entry in &self.profiles {
            let place = entry.likeness().map(|key| *known.entry(key).or_insert(rows.len()));
            match place.and_then(|place| rows.get_mut(place)) {
                Some(row) => row.count += 1,
                None => rows.push(Alike { entry, count: 1 }),
            }
        }
        rows
    }
}

impl Entry {
    /// Describes one profile.
    pub fn of(recording: &Recording) -> Self {
        let header = &recording.snapshot.header;
        let end = End::of(recording);
        let rss = match recording.running {
            // A process that is ending shows an RSS of 0.
            Some(pid) => Some(stat::rss_and_peak(pid).0).filter(|&bytes| bytes > 0),
            None => end.as_ref().and_then(|end| end.last_rss),
        };
        let may_be_unseen =
            header.health[Health::Samples as usize] == 0 && rss >= Some(LEAST_UNSEEN);
        let end_ns = end.as_ref().and_then(|end| end.time_unix_ns);
        Self {
            pid: recording.pid(),
            sum_of: Some(header.processes).filter(|&count| count > 0),
            name: recording.name().to_owned(),
            user: match recording.running {
                Some(pid) => processes::user(pid),
                None => recording.owner.map(|owner| owner.user),
            },
            state: end::state_of(recording),
            is_running: recording.running.is_some(),
            cause: end::cause_of(recording),
            rss,
            end,
            profile: recording.origin.clone(),
            command: header.command.clone(),
            start_unix_ns: header.start_realtime_ns,
            since_unix_ns: header.unix_ns(attachment::since_ns(recording)),
            is_last_sample: end_ns.is_none() && header.state != state::EXITED,
            last_unix_ns: end_ns.unwrap_or_else(|| header.unix_ns(header.last_monotonic_ns)),
            interval_bytes: header.interval_bytes,
            live: extents::live_heap(&recording.snapshot),
            unseen: recording
                .running
                .filter(|_| may_be_unseen)
                .and_then(|pid| summary::unseen(pid, &recording.snapshot)),
        }
    }

    fn has(&self, word: &str) -> bool {
        self.name.contains(word)
            || self.profile.contains(word)
            || self.command.iter().any(|argument| argument.contains(word))
            || word.parse() == Ok(self.pid)
    }

    /// Returns the fields that short-lived dead processes of one row share. A death for a lack of memory always gets a row of its own.
    fn likeness(&self) -> Option<(&str, &str, Option<u32>)> {
        let life_ns = self.last_unix_ns.saturating_sub(self.start_unix_ns);
        let is_short = !self.is_running && self.sum_of.is_none() && life_ns < SHORT_LIFE_NS;
        (is_short && !self.cause.is_memory()).then_some((&self.name, &self.state, self.user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, state: &str, life_s: u64) -> Entry {
        Entry {
            pid: 7,
            sum_of: None,
            name: name.into(),
            user: Some(0),
            state: state.into(),
            is_running: state == "running",
            cause: Cause::None,
            rss: None,
            end: None,
            profile: "/var/tmp/7-8.ramson".into(),
            command: vec![name.into(), "--port".into(), "6379".into()],
            start_unix_ns: 1,
            since_unix_ns: 1,
            is_last_sample: false,
            last_unix_ns: 1 + life_s * 1_000_000_000,
            interval_bytes: 1,
            live: Estimate::default(),
            unseen: None,
        }
    }

    fn rows(profiles: Vec<Entry>) -> Vec<(String, usize)> {
        let listing = Listing { profiles, left_out: 0, unreadable: vec![] };
        let rows = listing.rows().into_iter();
        rows.map(|row| (format!("{} {}", row.entry.name, row.entry.state), row.count)).collect()
    }

    #[test]
    fn equal_processes_share_one_row() {
        let mut killed = [entry("sh", "SIGKILL", 1), entry("sh", "SIGKILL", 1)];
        killed.iter_mut().for_each(|entry| entry.cause = Cause::OomKiller);
        let mut all = vec![entry("server", "running", 1), entry("server", "running", 1)];
        all.extend((0..50).map(|_| entry("sh", "exited 0", 2)));
        all.push(entry("sh", "exited 1", 2));
        all.push(entry("sh", "exited 0", 3600));
        all.extend(killed);
        let expected = [
            ("server running", 1),
            ("server running", 1),
            ("sh exited 0", 50),
            ("sh exited 1", 1),
            ("sh exited 0", 1),
            ("sh SIGKILL", 1),
            ("sh SIGKILL", 1),
        ];
        assert_eq!(rows(all), expected.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn words_match_name_parts_or_numbers() {
        let entry = entry("redis-server", "running", 1);
        for word in ["redis", "--port", "/var/tmp", "7", "6379"] {
            assert!(entry.has(word), "{word}");
        }
        for word in ["memcached", "637900"] {
            assert!(!entry.has(word), "{word}");
        }
    }
}
