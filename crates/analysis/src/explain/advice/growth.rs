//! Advice about memory that grows: a leak comes before everything else.

use super::saving::{Advice, Needs, Saving};
use crate::explain::finding::Finding;
use crate::explain::leaks::Leaks;
use crate::explain::words::{site, size};
use ramson_leaks::Slope;
use ramson_process::cgroup::Limit;
use ramson_profile::Estimate;
use ramson_profile::format::{format_duration, format_per_hour, format_percent};

/// With less than this part of a limit left, it is about to be met …
const LITTLE: f64 = 0.1;
/// … by this process, if it has this part of it: a group's use counts the kernel's page cache, too.
const MAIN_SHARE: f64 = 0.5;
/// So many times the time that it was measured over, growth may go on.
const MOST_AHEAD: f64 = 60.0;
const NS_PER_HOUR: f64 = 3.6e12;
/// Beyond this a time says nothing.
const MOST_HOURS: f64 = 24.0 * 365.0;

/// Whether anything is known to grow: leak suspects, all that is live, or RSS.
pub fn grows(finding: &Finding) -> bool {
    let has_any = |leaks: &Leaks| !leaks.growing.is_empty() || !rates(finding, leaks).is_empty();
    finding.leaks.as_ref().is_some_and(has_any)
}

pub fn advice(finding: &Finding) -> Vec<Advice> {
    let limit = [filled_limit(finding), raise_limit(finding)];
    let mut all: Vec<Advice> = limit.into_iter().flatten().collect();
    let Some(leaks) = finding.leaks.as_ref() else { return all };
    let rates = rates(finding, leaks);
    let Some(&(mut what, mut rate)) = rates.first() else { return all };
    let limit = finding.limit.as_ref();
    let soonest = limit.and_then(|limit| soonest(limit, &rates));
    if let Some((of, fastest)) = soonest {
        (what, rate) = (of, fastest);
    }
    let near = limit.and_then(|limit| Some((limit, time_left(limit, rate)?)));
    let (when, evidence) = match near {
        Some((limit, time)) => (
            format!("restart it before its memory limit is reached, {time}"),
            format!(
                "{} is left of the limit of {} of control group {}",
                size(limit.left_bytes()),
                size(limit.limit_bytes),
                limit.group
            ),
        ),
        None => ("plan a restart".into(), another_gib(rate)),
    };
    let object = &finding.object;
    all.push(Advice {
        cause: "growing",
        needs: Needs::Restart,
        action: format!("{when}; until then, watch it: ramson leaks {object}"),
        evidence: format!("{what} by {}: {evidence}", format_per_hour(rate)),
        risk: "the restart returns the memory, and the growth starts over",
        saving: Saving::at_most(leaks.live()),
    });
    let Some(first) = leaks.growing.first() else { return all };
    all.push(Advice {
        cause: "growing",
        needs: Needs::Code,
        action: format!("free what {} allocates, or bound it", site(&first.frames)),
        evidence: format!(
            "ramson leaks {object} shows the evidence, of {} stacks that were judged",
            leaks.stacks
        ),
        risk: "requires a code change",
        saving: None,
    });
    all
}

/// What is known to grow, as a clause without its rate, and the rate in bytes per hour: first the leak suspects, which are a part of the
/// others.
fn rates(finding: &Finding, leaks: &Leaks) -> Vec<(&'static str, Estimate)> {
    let suspects = Some(leaks.bytes_per_hour()).filter(|_| !leaks.growing.is_empty());
    let grown = |slope: Option<Slope>| slope.filter(Slope::is_growth).map(|it| it.bytes_per_hour);
    let of_group = grown(finding.group_growth).filter(|&rate| is_near(finding, rate));
    let all = [
        ("the leak suspects grow", suspects),
        ("live memory as a whole grows", leaks.totals.live_per_hour),
        ("its RSS grows", grown(leaks.totals.rss)),
        ("the memory use of its control group grows", of_group),
    ];
    all.into_iter().filter_map(|(what, rate)| Some((what, rate?))).collect()
}

/// Looks of three seconds say what is to come within minutes, not what is to come today.
fn is_near(finding: &Finding, per_hour: Estimate) -> bool {
    let window_ns = finding.group_growth.map_or(0, |slope| slope.window_ns) as f64;
    let left_ns = |limit: &Limit| {
        let left = limit.left_bytes() as f64;
        left / per_hour.value * NS_PER_HOUR
    };
    finding.limit.as_ref().is_some_and(|limit| left_ns(limit) <= MOST_AHEAD * window_ns)
}

/// The growth by which the limit is reached first.
fn soonest(limit: &Limit, rates: &[(&'static str, Estimate)]) -> Option<(&'static str, Estimate)> {
    let known = rates.iter().filter(|(_, rate)| time_left(limit, *rate).is_some());
    known.copied().max_by(|a, b| a.1.value.total_cmp(&b.1.value))
}

/// How long it takes for that much more.
fn another_gib(per_hour: Estimate) -> String {
    let hours = (1_u64 << 30) as f64 / per_hour.value.max(1.0);
    if hours < MOST_HOURS {
        format!("another GiB every {}", format_duration((hours * NS_PER_HOUR) as u64))
    } else {
        "less than a GiB in a year".into()
    }
}

/// Tells what fills a limit that is about to be met, if it is no process's heap.
fn filled_limit(finding: &Finding) -> Option<Advice> {
    let limit = finding.limit.as_ref()?;
    let shared = limit.shared_memory_bytes;
    let is_near = limit.left_bytes() as f64 <= LITTLE * limit.limit_bytes as f64;
    let is_most = shared as f64 >= MAIN_SHARE * limit.used_bytes as f64;
    (is_near && is_most).then(|| Advice {
        cause: "limit",
        needs: Needs::Command,
        action: "remove files from tmpfs (df -t tmpfs shows where they are), or shared memory (ipcs -m)".into(),
        evidence: format!(
            "{} of the {} that control group {} uses is shared memory and files in tmpfs, which are in no process's heap and which no restart frees",
            size(shared),
            size(limit.used_bytes),
            limit.group
        ),
        risk: "programs may need these files",
        saving: None,
    })
}

/// Whether shared memory is most of what a limit that is about to be met counts.
pub fn is_limit_filled(finding: &Finding) -> bool {
    filled_limit(finding).is_some()
}

/// Advises to raise the memory limit if the kernel is about to kill the process.
fn raise_limit(finding: &Finding) -> Option<Advice> {
    let limit = finding.limit.as_ref()?;
    let left = limit.left_bytes();
    let of_limit = |bytes: u64| bytes as f64 / limit.limit_bytes.max(1) as f64;
    (of_limit(left) < LITTLE && of_limit(finding.rss.bytes) >= MAIN_SHARE).then(|| Advice {
        cause: "limit",
        needs: Needs::Command,
        action: format!(
            "raise the memory limit of control group {} (systemctl set-property UNIT MemoryMax=…), or make room as below",
            limit.group
        ),
        evidence: format!(
            "{} ({}) is left of its limit of {}",
            size(left),
            format_percent(left as f64, limit.limit_bytes as f64),
            size(limit.limit_bytes)
        ),
        risk: "at its limit the kernel kills a process of the group",
        saving: None,
    })
}

/// `in 3.1 h (2.4 h to 4.4 h)`: until the limit is met if it grows on like this.
fn time_left(limit: &Limit, per_hour: Estimate) -> Option<String> {
    let left = limit.left_bytes() as f64;
    let hours = |rate: f64| Some(left / rate).filter(|hours| rate > 0.0 && *hours < MOST_HOURS);
    let text = |hours: f64| format_duration((hours * NS_PER_HOUR) as u64);
    let half_width = Some(per_hour.half_width_95()).filter(|it| it.is_finite())?;
    let soonest = text(hours(per_hour.value + half_width)?);
    let expected = text(hours(per_hour.value)?);
    Some(match hours(per_hour.value - half_width) {
        Some(latest) => format!("in {expected} ({soonest} to {})", text(latest)),
        None => format!("in {expected} ({soonest} or later)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::words::with_half_width;

    #[test]
    fn earliest_time_counts() {
        let limit =
            Limit { limit_bytes: 1000, used_bytes: 400, group: "/a".into(), ..Limit::default() };
        let rate = |value| with_half_width(value, 1.0);
        let all = [("suspects", rate(100.0)), ("live", rate(300.0)), ("group", rate(200.0))];
        assert_eq!(soonest(&limit, &all), Some(("live", rate(300.0))));
        assert_eq!(soonest(&limit, &all[..1]), Some(("suspects", rate(100.0))));
        assert_eq!(soonest(&limit, &[("live", rate(0.0))]), None);
    }

    #[test]
    fn time_left_has_growth_uncertainty() {
        let limit =
            Limit { limit_bytes: 1000, used_bytes: 400, group: "/a".into(), ..Limit::default() };
        let rate = with_half_width;
        let time = |value, half_width| time_left(&limit, rate(value, half_width));
        assert_eq!(time(200.0, 50.0).unwrap(), "in 3.0 h (2.4 h to 4.0 h)");
        assert_eq!(time(200.0, 300.0).unwrap(), "in 3.0 h (72 min or later)");
        assert_eq!(time(0.0, 300.0), None);
        assert_eq!(time_left(&limit, rate(200.0, 1.0).as_part()), None);
    }
}
