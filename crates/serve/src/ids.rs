//! IDs that stand for processes in addresses.
//!
//! The ID of a running process is the kernel's word. The ID of a dead one is its profile's word, which any user can write: so only
//! the caller's own profiles get it, and of these only one that has it alone. All others are called as their files are, with their
//! owners, which another user can neither take nor hide.

use ramson_analysis::listing;
use std::collections::HashMap;
use std::path::Path;

/// Most letters of a name that stands in an address.
const MOST_LETTERS: usize = 64;

/// The IDs of these profiles, in their order; `None`: the file's name is none that could stand in an address.
pub fn ids(profiles: &[listing::Entry], caller: u32) -> Vec<Option<String>> {
    let mut claims: HashMap<u32, usize> = HashMap::new();
    for profile in profiles.iter().filter(|profile| may_claim(profile, caller)) {
        *claims.entry(profile.pid).or_default() += 1;
    }
    let running: Vec<u32> = profiles.iter().filter(|it| it.is_running).map(|it| it.pid).collect();
    let id = |profile: &listing::Entry| {
        let is_only = claims.get(&profile.pid) == Some(&1) && !running.contains(&profile.pid);
        if profile.is_running || (may_claim(profile, caller) && is_only) {
            Some(profile.pid.to_string())
        } else {
            of_file(profile)
        }
    };
    profiles.iter().map(id).collect()
}

fn may_claim(profile: &listing::Entry, caller: u32) -> bool {
    !profile.is_running && profile.user == Some(caller)
}

/// `u1501-4242-77`: the owner, and the name that libramson gave the file.
fn of_file(profile: &listing::Entry) -> Option<String> {
    let stem = Path::new(&profile.profile).file_stem()?.to_str()?;
    let id = format!("u{}-{stem}", profile.user?);
    is_id(&id).then_some(id)
}

/// Whether a text may stand for a source in an address.
pub fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=MOST_LETTERS).contains(&text.len()) && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_analysis::end::Cause;
    use ramson_profile::Estimate;

    const CALLER: u32 = 1000;
    const STRANGER: u32 = 1501;

    fn profile(pid: u32, user: u32, is_running: bool, profile: &str) -> listing::Entry {
        listing::Entry {
            pid,
            sum_of: None,
            name: "x".into(),
            user: Some(user),
            state: String::new(),
            is_running,
            cause: Cause::Unknown,
            rss: None,
            end: None,
            profile: profile.into(),
            command: Vec::new(),
            start_unix_ns: 0,
            since_unix_ns: 0,
            is_last_sample: false,
            last_unix_ns: 0,
            interval_bytes: 0,
            live: Estimate::default(),
            unseen: None,
        }
    }

    fn ids_of(profiles: &[listing::Entry]) -> Vec<String> {
        ids(profiles, CALLER).into_iter().map(Option::unwrap_or_default).collect()
    }

    #[test]
    fn running_process_has_its_number() {
        let own = profile(7, CALLER, false, "/d/7-1.ramson");
        assert_eq!(ids_of(std::slice::from_ref(&own)), ["7"]);
        let running = profile(7, CALLER, true, "memory of process 7");
        assert_eq!(ids_of(&[own, running]), ["u1000-7-1", "7"]);
    }

    #[test]
    fn dead_profiles_are_distinguished_by_file() {
        let all = [
            profile(7, CALLER, false, "/d/7-1.ramson"),
            profile(7, CALLER, false, "/d/7-2.ramson"),
        ];
        assert_eq!(ids_of(&all), ["u1000-7-1", "u1000-7-2"]);
    }

    #[test]
    fn strangers_profile_takes_no_number() {
        let own = || profile(7, CALLER, false, "/var/tmp/ramson-1000/7-1.ramson");
        let before = ids_of(&[own()]);
        // Any number, the same file name, many of them.
        let forged = profile(7, STRANGER, false, "/var/tmp/ramson-1501/7-1.ramson");
        let other = profile(7, STRANGER, false, "/var/tmp/ramson-1501/7-2.ramson");
        assert_eq!(ids_of(&[forged, own(), other]), ["u1501-7-1", &*before[0], "u1501-7-2"]);
        // Also where nobody else has it.
        assert_eq!(ids_of(&[profile(9, STRANGER, false, "/d/9-1.ramson")]), ["u1501-9-1"]);
        let odd = profile(9, STRANGER, false, "/d/..%2f\"><b>.ramson");
        assert_eq!(ids(&[odd], CALLER), [None]);
    }
}
