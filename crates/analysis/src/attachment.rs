//! Whether a process is sampled at present, and whether its profile knows all that it has.

use ramson_format::flags;
use ramson_process::clock;
use ramson_profile::format::format_duration;
use ramson_source::Recording;

/// How a running process is sampled that is not sampled as it was since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sampling {
    Attached,
    Ended,
    Detached,
    Off,
}

fn sampling_of(recording: &Recording) -> Option<Sampling> {
    recording.running?;
    let header = &recording.snapshot.header;
    sampling(header.flags, header.until_monotonic_ns, clock::monotonic_ns())
}

fn sampling(set: u32, until_ns: u64, now_ns: u64) -> Option<Sampling> {
    let has = |flag: u32| set & flag != 0;
    let is_over = has(flags::PAUSED) || until_ns != 0 && until_ns <= now_ns;
    match (has(flags::ATTACHED), has(flags::HOOKED), is_over) {
        (true, true, true) if has(flags::PAUSED) => Some(Sampling::Off),
        (true, true, false) => Some(Sampling::Attached),
        (true, true, true) => Some(Sampling::Ended),
        (true, false, _) => Some(Sampling::Detached),
        (false, _, true) => Some(Sampling::Off),
        (false, _, false) => None,
    }
}

/// Sampling of a running process has ended, for good or for now: how long before the recording was read.
pub fn ended_ago_ns(recording: &Recording) -> Option<u64> {
    match sampling_of(recording)? {
        Sampling::Attached => None,
        Sampling::Ended | Sampling::Off | Sampling::Detached => {
            Some(recording.read_ns.saturating_sub(ended_ns(recording)))
        }
    }
}

/// The process, running or dead, was detached from: live memory is known as it was then.
pub fn is_detached(recording: &Recording) -> bool {
    let set = recording.snapshot.header.flags;
    set & flags::ATTACHED != 0 && set & flags::HOOKED == 0
}

/// Returns when sampling ended, in ns on the clock of the recording's times. For recordings whose sampling has ended.
fn ended_ns(recording: &Recording) -> u64 {
    let header = &recording.snapshot.header;
    match header.until_monotonic_ns {
        0 => header.last_monotonic_ns,
        until_ns => until_ns,
    }
}

/// Since when a process, running or not, is or was recorded as it is or was last, on the clock of its times: since its start or the latest
/// attach, or since sampling ended.
pub fn since_ns(recording: &Recording) -> u64 {
    match sampling_of(recording) {
        None | Some(Sampling::Attached) => recording.snapshot.header.live_since_ns(),
        Some(Sampling::Ended | Sampling::Off | Sampling::Detached) => ended_ns(recording),
    }
}

/// From the start, or the latest attach, to `now_ns`, or to where sampling ended before that.
pub fn profiled_ns(recording: &Recording, now_ns: u64) -> u64 {
    let is_over = ended_ago_ns(recording).is_some();
    let end_ns = if is_over { ended_ns(recording).min(now_ns) } else { now_ns };
    end_ns.saturating_sub(recording.snapshot.header.live_since_ns())
}

/// The last moment that a running process's samples are of.
pub fn last_ns(recording: &Recording) -> u64 {
    recording.read_ns.saturating_sub(ended_ago_ns(recording).unwrap_or(0))
}

/// How a running process is sampled, in a few words; `None`: as ever.
pub fn state_of(recording: &Recording) -> Option<&'static str> {
    sampling_of(recording).map(|sampling| match sampling {
        Sampling::Attached => "attached",
        Sampling::Ended => "ended, hooks still in place",
        Sampling::Detached => "detached",
        Sampling::Off => "sampling is off",
    })
}

/// Lists what a profile lacks because it began in a process that was running, or because sampling was switched off.
pub fn what_is_missing(recording: &Recording) -> Vec<String> {
    let header = &recording.snapshot.header;
    let mut lines = Vec::new();
    if header.flags & flags::ATTACHED != 0 {
        let ago = format_duration(recording.read_ns.saturating_sub(header.live_since_ns()));
        let is_attached = header.flags & flags::HOOKED != 0 && recording.running.is_some();
        let ago = if is_attached { format!(", {ago} ago,") } else { String::new() };
        lines.push(format!("allocations before the attach{ago} are not attributed"));
    }
    if header.unsampled_ns > 0 {
        let off = format_duration(header.unsampled_ns);
        let ago = format_duration(recording.read_ns.saturating_sub(header.resumed_monotonic_ns));
        let until =
            if recording.running.is_some() { format!(" until {ago} ago") } else { String::new() };
        lines.push(format!(
            "allocations while sampling was off, for {off}{until}, are not attributed"
        ));
    }
    let pid = recording.pid();
    let ago = format_duration(ended_ago_ns(recording).unwrap_or(0));
    lines.extend(sampling_of(recording).and_then(|sampling| match sampling {
        Sampling::Attached | Sampling::Detached => None,
        Sampling::Ended => Some(format!(
            "sampling ended {ago} ago, and the hooks are still in place: ramson detach {pid}"
        )),
        Sampling::Off => Some(format!(
            "sampling has been off for {ago}; new allocations are not recorded: ramson set {pid} --on"
        )),
    }));
    lines.extend(detached_text(recording));
    lines
}

/// Says of which moment live memory is; `None`: the process was not detached from.
pub fn detached_text(recording: &Recording) -> Option<String> {
    is_detached(recording).then(|| match ended_ago_ns(recording).map(format_duration) {
        Some(ago) => format!("detached {ago} ago: live memory is shown as it was then"),
        None => "detached before it ended: live memory is shown as it was at the detach".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_reader::{Header, Snapshot};

    const SECOND: u64 = 1_000_000_000;

    /// A recording that began after 10 s, was attached to again after 70 s, and took its last sample after 80 s.
    fn recording(set: u32, until_s: u64) -> Recording {
        let header = Header {
            flags: set,
            start_monotonic_ns: 10 * SECOND,
            attached_monotonic_ns: 70 * SECOND,
            last_monotonic_ns: 80 * SECOND,
            until_monotonic_ns: until_s * SECOND,
            ..Header::default()
        };
        Recording {
            snapshot: Snapshot { header, ..Snapshot::default() },
            running: Some(1),
            read_ns: 100 * SECOND,
            origin: String::new(),
            owner: None,
            names: None,
            past: None,
        }
    }

    #[test]
    fn profiled_time_excludes_pauses() {
        let attached = flags::ATTACHED | flags::HOOKED;
        for (set, until_s, since_s, profiled_s) in [
            (attached, 0, 70, 30),
            (attached | flags::PAUSED, 0, 80, 10),
            (flags::ATTACHED | flags::PAUSED, 0, 80, 10),
            // Its time was over before it took the last sample.
            (attached, 75, 75, 5),
        ] {
            let recording = recording(set, until_s);
            assert_eq!(since_ns(&recording), since_s * SECOND, "{set} {until_s}");
            let profiled = profiled_ns(&recording, 100 * SECOND);
            assert_eq!(profiled, profiled_s * SECOND, "{set} {until_s}");
        }
    }

    #[test]
    fn sampling_states_are_distinguished() {
        let attached = flags::ATTACHED | flags::HOOKED;
        assert_eq!(sampling(attached, 0, 5), Some(Sampling::Attached));
        assert_eq!(sampling(attached, 6, 5), Some(Sampling::Attached));
        assert_eq!(sampling(attached, 5, 5), Some(Sampling::Ended));
        assert_eq!(sampling(attached | flags::PAUSED, 0, 5), Some(Sampling::Off));
        assert_eq!(sampling(flags::ATTACHED | flags::PAUSED, 0, 5), Some(Sampling::Detached));
        assert_eq!(sampling(flags::PAUSED, 0, 5), Some(Sampling::Off));
        assert_eq!(sampling(flags::KEEP, 0, 5), None);
    }
}
