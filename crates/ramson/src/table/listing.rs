//! The list of profiles as text.

use super::{Table, columns, cut, most, or_dash, push_prose, push_rest, size, words_of};
use ramson_analysis::end::Cause;
use ramson_analysis::listing::{Alike, Entry, Listing};
use ramson_process::clock::unix_ns;
use ramson_profile::SampleUnit;
use ramson_profile::format::{format_amount, format_duration, format_error};
use rustix::process::getuid;

/// Longest command line, in characters. The profile's path follows it …
const MOST_COMMAND: usize = 60;
/// … if the screen has at least this many columns. The process ID finds the profile, too.
const PROFILE_FROM: usize = 140;

pub fn text(listing: &Listing, rows: usize) -> String {
    let mut out = String::new();
    let is_own = |entry: &Entry| entry.user.is_none_or(|user| user == getuid().as_raw());
    let of_several = !listing.profiles.iter().all(is_own);
    let users = if of_several { "user:<10@90|" } else { "" };
    let all = listing.rows();
    let widest = |text: fn(&Entry) -> String, least: usize| {
        let shown = all.iter().take(most(rows));
        shown.map(|row| text(row.entry).chars().count()).fold(least, usize::max)
    };
    let (state_width, when_width) = (widest(state, 5), widest(when, 4));
    let has_profile = columns().is_none_or(|columns| columns >= PROFILE_FROM);
    let last = if has_profile { "command:<30|profile" } else { "command" };
    let heads = format!(
        "pid:>8|{users}state:<{state_width}|when:>{when_width}|live:>10|±:>8@120|RSS:>10@80|{last}"
    );
    let mut table = Table::new(&mut out, &heads);
    for row in all.iter().take(most(rows)) {
        let entry = row.entry;
        let live = entry.live;
        let error = (live.value != 0.0).then(|| format_error(live, SampleUnit::Bytes));
        let user = of_several.then(|| or_dash(entry.user.map(user_name)));
        let others = [
            state(entry),
            when(entry),
            or_dash(entry.unseen.is_none().then(|| format_amount(live, SampleUnit::Bytes))),
            or_dash(error),
            or_dash(entry.rss.map(size)),
            command(row),
            entry.profile.clone(),
        ];
        let pid = or_dash(entry.sum_of.is_none().then(|| entry.pid.to_string()));
        let cells = [pid].into_iter().chain(user).chain(others);
        table.row(cells);
    }
    push_rest(&mut out, all.len(), most(rows), " rows");
    for Entry { pid, name, unseen, .. } in all.iter().take(most(rows)).map(|row| row.entry) {
        if let Some(unseen) = unseen {
            push_prose(&mut out, "", &format!("{name} (pid {pid}): {unseen}"));
        }
    }
    out
}

/// `SIGKILL, OOM killer`.
fn state(entry: &Entry) -> String {
    match entry.cause {
        Cause::OomKiller | Cause::LackOfMemory => {
            format!("{}, {}", entry.state, entry.cause.name())
        }
        Cause::None | Cause::Unknown => entry.state.clone(),
    }
}

/// Since when it is so, or when it ended, or was heard of last.
fn when(entry: &Entry) -> String {
    let ago = |time_ns| format_duration(unix_ns().saturating_sub(time_ns));
    if entry.is_running {
        format!("for {}", ago(entry.since_unix_ns))
    } else if entry.is_last_sample {
        // It ended since its last sample.
        format!("<{} ago", ago(entry.last_unix_ns))
    } else {
        format!("{} ago", ago(entry.last_unix_ns))
    }
}

fn user_name(id: u32) -> String {
    let name = uzers::get_user_by_uid(id).map(|user| user.name().to_string_lossy().into_owned());
    name.unwrap_or_else(|| id.to_string())
}

/// The name and the arguments, or the title that the program gave itself.
fn command(row: &Alike) -> String {
    let Entry { name, command, .. } = row.entry;
    if row.count > 1 {
        return format!("{name} (last of {} alike)", row.count);
    }
    let is_title = command.first().is_some_and(|first| first.contains([' ', ':']));
    let line = if is_title {
        // Spaces after the title are room that it did not need.
        command.join(" ").trim_end().to_owned()
    } else {
        words_of([name].into_iter().chain(command.iter().skip(1)))
    };
    cut(&line, Some(MOST_COMMAND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_profile::Estimate;

    fn entry(command: &[&str]) -> Entry {
        Entry {
            pid: 7,
            sum_of: None,
            name: "redis-server".into(),
            user: Some(getuid().as_raw()),
            state: "running".into(),
            is_running: true,
            cause: Cause::None,
            rss: Some(1 << 20),
            end: None,
            profile: "/p/7-8.ramson".into(),
            command: command.iter().map(|&word| word.into()).collect(),
            start_unix_ns: unix_ns() - 600_000_000_000,
            since_unix_ns: unix_ns() - 180_000_000_000,
            is_last_sample: false,
            last_unix_ns: 0,
            interval_bytes: 1,
            live: Estimate::exact(1e6),
            unseen: None,
        }
    }

    #[test]
    fn row_shows_state_and_time() {
        let running = entry(&["/usr/bin/redis-server", "--port", "6379"]);
        let cause = Cause::OomKiller;
        let dead = Entry { is_running: false, cause, state: "SIGKILL".into(), ..entry(&["x"]) };
        let dead = Entry { last_unix_ns: unix_ns() - 2_220_000_000_000, ..dead };
        let unseen = Entry { is_running: false, is_last_sample: true, ..entry(&["x"]) };
        let unseen = Entry { last_unix_ns: unix_ns() - 6_800_000_000, ..unseen };
        let profiles = vec![running, dead, unseen];
        let text = text(&Listing { profiles, left_out: 0, unreadable: vec![] }, 0);
        let rows: Vec<&str> = text.lines().skip(1).collect();
        for part in ["for 3 min", "redis-server --port 6379", "/p/7-8.ramson"] {
            assert!(rows[0].contains(part), "{part}: {text}");
        }
        assert!(
            rows[1].contains("SIGKILL, OOM killer ") && rows[1].contains(" 37 min ago "),
            "{text}"
        );
        assert!(rows[2].contains(" <6.8 s ago "), "{text}");
    }

    #[test]
    fn title_is_shown_unchanged() {
        let line = |words: &[&str]| command(&Alike { entry: &entry(words), count: 1 });
        assert_eq!(line(&["nginx: worker process", ""]), "nginx: worker process");
        assert_eq!(line(&["redis-server *:6379"]), "redis-server *:6379");
        assert_eq!(line(&["/opt/redis-server", "-p", "1"]), "redis-server -p 1");
        let empty = ["redis-server", "--save", "", "--dir", "my data"];
        assert_eq!(line(&empty), "redis-server --save '' --dir 'my data'");
        assert_eq!(line(&[]), "redis-server");
    }
}
