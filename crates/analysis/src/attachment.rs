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
        (true, true, false) => Some(Sampling::Attached),
        (true, true, true) => Some(Sampling::Ended),
        (true, false, _) => Some(Sampling::Detached),
        (false, _, true) => Some(Sampling::Off),
        (false, _, false) => None,
    }
}

/// How a running process is sampled, in a few words; `None`: as ever.
pub fn state_of(recording: &Recording) -> Option<&'static str> {
    sampling_of(recording).map(|sampling| match sampling {
        Sampling::Attached => "attached",
        Sampling::Ended => "ended, hooks still in place",
        Sampling::Detached => "detached",
        Sampling::Off => "running, off",
    })
}

/// What a profile lacks because it began in a process that was running, or because sampling was switched off.
pub fn what_is_missing(recording: &Recording) -> Vec<String> {
    let header = &recording.snapshot.header;
    let mut lines = Vec::new();
    if header.flags & flags::ATTACHED != 0 {
        let ago_ns = recording.read_ns.saturating_sub(header.start_monotonic_ns);
        let ago = recording.running.map(|_| format!(", {} ago,", format_duration(ago_ns)));
        let ago = ago.unwrap_or_default();
        lines.push(format!("what was allocated before the attach{ago} is not attributed"));
    }
    let pid = recording.pid();
    lines.extend(sampling_of(recording).and_then(|sampling| match sampling {
        Sampling::Attached => None,
        Sampling::Ended => {
            Some(format!("sampling has ended, hooks are still in place: ramson detach {pid}"))
        }
        Sampling::Detached => Some("detached: which blocks are live is not known any more".into()),
        Sampling::Off => Some(format!(
            "sampling is off, what is allocated meanwhile is not recorded: ramson set {pid} --on"
        )),
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_that_outlive_their_time_and_what_is_switched_off_are_told_apart() {
        let attached = flags::ATTACHED | flags::HOOKED;
        assert_eq!(sampling(attached, 0, 5), Some(Sampling::Attached));
        assert_eq!(sampling(attached, 6, 5), Some(Sampling::Attached));
        assert_eq!(sampling(attached, 5, 5), Some(Sampling::Ended));
        assert_eq!(sampling(attached | flags::PAUSED, 0, 5), Some(Sampling::Ended));
        assert_eq!(sampling(flags::ATTACHED | flags::PAUSED, 0, 5), Some(Sampling::Detached));
        assert_eq!(sampling(flags::PAUSED, 0, 5), Some(Sampling::Off));
        assert_eq!(sampling(flags::KEEP, 0, 5), None);
    }
}
