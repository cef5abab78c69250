//! Advice about memory that grows: a leak comes before everything else.

use super::saving::{Advice, Needs, Saving};
use crate::explain::finding::Finding;
use crate::explain::words::{site, size};
use ramson_process::cgroup::Limit;
use ramson_profile::Estimate;
use ramson_profile::format::{format_duration, format_per_hour, format_percent};

/// With less than this part of a limit left, it is about to be met …
const LITTLE: f64 = 0.1;
/// … by this process, if it has this part of it: a group's use counts the kernel's page cache, too.
const MAIN_SHARE: f64 = 0.5;
const NS_PER_HOUR: f64 = 3.6e12;
/// Beyond this a time says nothing.
const MOST_HOURS: f64 = 24.0 * 365.0;

pub fn advice(finding: &Finding) -> Vec<Advice> {
    let growing = finding.leaks.as_ref().filter(|leaks| !leaks.growing.is_empty());
    let mut all: Vec<Advice> = raise_limit(finding).into_iter().collect();
    let Some(leaks) = growing else { return all };
    let rate = leaks.bytes_per_hour();
    let near = finding.limit.as_ref().and_then(|limit| Some((limit, time_left(limit, rate)?)));
    let (when, evidence) = match near {
        Some((limit, time)) => (
            format!("restart it before its memory limit is reached, {time}"),
            format!(
                "{} is left of the limit of {} of control group {}",
                size(limit.limit_bytes.saturating_sub(limit.used_bytes)),
                size(limit.limit_bytes),
                limit.group
            ),
        ),
        None => ("plan a restart".into(), another_gib(rate)),
    };
    let pid = finding.pid;
    let first = &leaks.growing[0];
    all.push(Advice {
        cause: "growing",
        needs: Needs::Restart,
        action: format!("{when}; until then, watch it: ramson leaks {pid}"),
        evidence: format!("it grows by {}: {evidence}", format_per_hour(rate)),
        risk: "the restart returns the memory, and the growth starts over",
        saving: Saving::at_most(leaks.live()),
    });
    all.push(Advice {
        cause: "growing",
        needs: Needs::Code,
        action: format!("free what {} allocates, or bound it", site(&first.frames)),
        evidence: format!(
            "ramson leaks {pid} shows the evidence, of {} stacks that were judged",
            leaks.stacks
        ),
        risk: "requires a code change",
        saving: None,
    });
    all
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

/// Advises to raise the memory limit if the kernel is about to kill the process.
fn raise_limit(finding: &Finding) -> Option<Advice> {
    let limit = finding.limit.as_ref()?;
    let left = limit.limit_bytes.saturating_sub(limit.used_bytes);
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
    let left = limit.limit_bytes.saturating_sub(limit.used_bytes) as f64;
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
    fn time_left_has_growth_uncertainty() {
        let limit = Limit { limit_bytes: 1000, used_bytes: 400, group: "/a".into() };
        let rate = with_half_width;
        let time = |value, half_width| time_left(&limit, rate(value, half_width));
        assert_eq!(time(200.0, 50.0).unwrap(), "in 3.0 h (2.4 h to 4.0 h)");
        assert_eq!(time(200.0, 300.0).unwrap(), "in 3.0 h (72 min or later)");
        assert_eq!(time(0.0, 300.0), None);
        assert_eq!(time_left(&limit, rate(200.0, 1.0).as_part()), None);
    }
}
