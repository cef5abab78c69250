//! A Go program's memory: what other settings of its collector would save, and where its objects come from.

use super::saving::{Advice, Needs, Saving};
use crate::explain::cause;
use crate::explain::finding::Finding;
use crate::explain::go;
use crate::explain::words::size;
use ramson_process::Part;
use ramson_process::go_memory::Collector;
use ramson_profile::Estimate;
use ramson_profile::format::format_percent;

/// Objects that take this part of the limit keep the collector at work most of the time.
const CLOSE_TO_LIMIT: f64 = 0.9;
/// Stacks of goroutines that take this part of RSS are worth a look.
const MUCH: f64 = 0.1;
/// A setting of GOGC that is advised against a heap that is mostly garbage.
const LOWER_PERCENT: i32 = 50;
/// Share of a control group's limit that GOMEMLIMIT leaves to all else.
const LIMIT_SHARE: f64 = 0.9;

/// Advises on the collector's settings, and on where the objects come from.
pub fn advice(finding: &Finding) -> Vec<Advice> {
    let Some(collector) = &finding.go else { return Vec::new() };
    let all = [
        near_limit(finding, collector),
        garbage(finding, collector),
        free(finding, collector),
        control_group(finding, collector),
        objects(finding, collector),
        stacks(finding),
    ];
    all.into_iter().flatten().collect()
}

/// The limit leaves so little beside what is live that the collector has to run all the time.
fn near_limit(finding: &Finding, collector: &Collector) -> Option<Advice> {
    let limit = collector.limit?;
    let is_close = collector.live as f64 >= CLOSE_TO_LIMIT * limit as f64;
    is_close.then(|| Advice {
        cause: "go_limit",
        needs: Needs::Restart,
        action: format!(
            "raise GOMEMLIMIT, or keep less alive (ramson report {}): so close to the limit, the collector runs almost all the time",
            finding.object
        ),
        evidence: format!("{} live, GOMEMLIMIT {}", size(collector.live), size(limit)),
        risk: "more memory",
        saving: None,
    })
}

fn garbage(finding: &Finding, collector: &Collector) -> Option<Advice> {
    let [uncollected, free] = [Part::GoUncollected, Part::GoFree].map(|part| finding.part(part));
    let Collector { percent, live, limit, goal, .. } = *collector;
    let most = |percent: i32| (live as f64 * f64::from(percent) / 100.0) as u64;
    let (action, left) = match percent {
        ..0 if limit.is_none() => {
            ("let Go collect: unset GOGC, or set GOGC=100, or a GOMEMLIMIT".to_owned(), most(100))
        }
        ..=LOWER_PERCENT => return None,
        _ => (
            format!("collect more often: GOGC={LOWER_PERCENT} (or debug.SetGCPercent)"),
            most(LOWER_PERCENT),
        ),
    };
    // Bytes by which the present setting lets the heap grow beyond that; free memory may have another cause.
    let allowed = goal.map_or(u64::MAX, |goal| goal.saturating_sub(live + left));
    (allowed >= cause::least(finding.rss.bytes)).then(|| Advice {
        cause: "go_garbage",
        needs: Needs::Restart,
        action,
        evidence: format!(
            "{} dead or allocated since the last collection, and {} free; {} live",
            size(uncollected),
            size(free),
            size(live)
        ),
        risk: "more CPU time for the collector",
        saving: Saving::at_most(Estimate::exact((uncollected + free).saturating_sub(left) as f64)),
    })
}

fn free(finding: &Finding, collector: &Collector) -> Option<Advice> {
    let free = finding.part(Part::GoFree);
    (go::excess(finding, collector) > 0).then(|| Advice {
        cause: "go_free",
        needs: Needs::Command,
        action: "wait: Go returns free memory bit by bit, until the heap is at 1.1 times its goal. debug.FreeOSMemory() in the program returns it at once".into(),
        evidence: format!("{} free in Go's arenas, more than the heap grows into before its next collection", size(free)),
        risk: "a collection, and page faults afterwards",
        saving: Saving::at_most(Estimate::exact(free as f64)),
    })
}

/// The kernel kills at the group's limit, of which the collector does not know.
fn control_group(finding: &Finding, collector: &Collector) -> Option<Advice> {
    let limit = finding.limit.as_ref()?.limit_bytes;
    let is_unknown = collector.limit.is_none_or(|own| own > limit);
    let grows_to = collector.goal.map_or("any size".into(), size);
    let may_reach = collector.goal.is_none_or(|goal| goal > limit);
    (is_unknown && may_reach).then(|| Advice {
        cause: "go_limit_of_group",
        needs: Needs::Restart,
        action: format!(
            "tell Go about the limit: GOMEMLIMIT={}MiB",
            (LIMIT_SHARE * limit as f64) as u64 >> 20
        ),
        evidence: format!(
            "the limit of its control group is {}, and the heap may grow to {grows_to} before a collection ends",
            size(limit),
        ),
        risk: "more CPU time for the collector near the limit",
        saving: None,
    })
}

fn objects(finding: &Finding, collector: &Collector) -> Option<Advice> {
    let live = finding.part(Part::GoLive);
    let share = format_percent(live as f64, finding.rss.bytes as f64);
    (live * 2 >= finding.rss.bytes).then(|| Advice {
        cause: "go_objects",
        needs: if collector.interval > 0 { Needs::Command } else { Needs::Code },
        action: if collector.interval > 0 {
            format!("see what is live: ramson report {}", finding.object)
        } else {
            "import net/http/pprof to see what is live: Go's heap profile is off".into()
        },
        evidence: format!("{} ({share}) of RSS is live Go objects", size(live)),
        risk: "none",
        saving: None,
    })
}

fn stacks(finding: &Finding) -> Option<Advice> {
    let stacks = finding.part(Part::GoStacks);
    let share = format_percent(stacks as f64, finding.rss.bytes as f64);
    (stacks as f64 >= MUCH * finding.rss.bytes as f64).then(|| Advice {
        cause: "go_stacks",
        needs: Needs::Command,
        action: format!(
            "see whether its goroutines become more: ramson leaks {} --window 1m",
            finding.object
        ),
        evidence: format!("{} ({share}) of RSS is stacks of goroutines", size(stacks)),
        risk: "none",
        saving: None,
    })
}
