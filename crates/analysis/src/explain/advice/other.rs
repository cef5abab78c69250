//! Advice if the C library's statistics are not known: the settings of another allocator, with what they are worth if the
//! allocator was asked.

use super::glibc::FAULTS;
use super::saving::{Advice, Needs, Saving};
use crate::explain::finding::Finding;
use crate::explain::words::{measured, size};
use crate::owners;
use ramson_process::Part;
use ramson_process::allocators::{Allocator, Missing};
use ramson_process::identify::AllocatorKind;

pub fn advice(finding: &Finding, missing: &Missing, least: u64) -> Vec<Advice> {
    let kind = match missing {
        Missing::Unreadable(kind) => Some(*kind),
        Missing::Denied { .. } | Missing::Refused(_) => None,
    };
    let allocator = finding.allocators.other.as_ref().map(|(_, allocator)| allocator);
    let allocator = finding.inside.as_ref().or(kind.and(allocator));
    let setting = allocator.and_then(setting);
    if finding.is_divided() {
        return of_figures(finding, setting, Part::FreePages, Part::FreeChunks);
    }
    let question = question(finding);
    if finding.rss.may_hold_live || question.is_some() {
        return question.into_iter().collect();
    }
    let Some(setting) = setting else {
        let undivided = finding.part(Part::Held) + finding.part(Part::Anonymous);
        let unknown = (undivided >= least).then(|| unknown(finding, missing, undivided));
        return unknown.into_iter().collect();
    };
    vec![setting]
}

/// Advice about an allocator inside an object, whose memory malloc_trim does not return.
pub fn inside(finding: &Finding, least: u64) -> Vec<Advice> {
    let setting = finding.inside.as_ref().and_then(setting);
    if finding.rss.is_inside_divided() {
        return of_figures(finding, setting, Part::InsidePages, Part::InsideChunks);
    }
    let is_worth_it = finding.part(Part::Held) >= least;
    question(finding).or(setting).into_iter().filter(|_| is_worth_it).collect()
}

/// Advises to ask the allocator before anything else: memory that shares pages with live blocks comes back by no setting.
fn question(finding: &Finding) -> Option<Advice> {
    let allocator = finding.askable().filter(|_| finding.asked.is_none())?;
    let what = if finding.rss.may_hold_live { "live" } else { "free" };
    Some(Advice {
        cause: "ask",
        needs: Needs::Command,
        action: format!(
            "ask {allocator} how much of it is {what}: ramson explain --ask {}",
            finding.object
        ),
        evidence: format!("only {allocator} knows how much of what it holds is free"),
        risk: "one waiting thread is stopped, for up to 25 ms as measured on heaps of up to 1 GiB",
        saving: None,
    })
}

/// Advises by the figures of an allocator that was asked.
fn of_figures(
    finding: &Finding,
    setting: Option<Advice>,
    pages: Part,
    chunks: Part,
) -> Vec<Advice> {
    let unused = finding.part_estimate(pages);
    let scattered = finding.part_estimate(chunks);
    let setting = setting.map(|setting| Advice {
        action: format!("trim now: ramson trim {}; for good, {}", finding.object, setting.action),
        evidence: format!(
            "{} in free whole pages, by the allocator's own figures",
            measured(unused)
        ),
        risk: FAULTS,
        saving: Saving::at_most(unused),
        ..setting
    });
    let evidence = format!(
        "{} is free on pages that still hold live blocks, by the allocator's own figures",
        measured(scattered)
    );
    let moving = if can_defragment(finding) {
        Advice {
            cause: "scattered",
            needs: Needs::Command,
            action: "let it move its live blocks together: redis-cli CONFIG SET activedefrag yes"
                .into(),
            evidence,
            risk: "it takes CPU time of the server, up to active-defrag-cycle-max percent",
            saving: Saving::at_most(scattered),
        }
    } else {
        Advice {
            cause: "scattered",
            needs: Needs::Restart,
            action: if is_redis(finding) {
                "restart it in a maintenance window: the live blocks are then packed again, for a time. For good, run a redis that \
                 was built with its own jemalloc, and CONFIG SET activedefrag yes there"
            } else {
                "restart it in a maintenance window: the live blocks are then packed again, for a time. For good, the program has to \
                 allocate long-lived blocks apart from short-lived ones"
            }
            .into(),
            evidence,
            risk: "none",
            saving: Saving::at_most(scattered),
        }
    };
    setting.into_iter().chain([moving]).collect()
}

/// Advises how to learn more about memory of which nothing is known: "nothing to do" would be wrong.
fn unknown(finding: &Finding, missing: &Missing, undivided: u64) -> Advice {
    let Finding { pid, object, allocators, live, .. } = finding;
    let why = match missing {
        Missing::Denied { why, .. } => why.clone(),
        _ => missing.to_string(),
    };
    let seen = finding.owner.as_ref().and_then(|owner| owners::how_to_see(owner, *pid));
    let next = match missing {
        Missing::Denied { next, .. } => next.clone(),
        _ if seen.is_some() => format!("See what is in it: {}", seen.unwrap_or_default()),
        _ if allocators.inside().is_some() => {
            let reporting = allocators.inside().and_then(Allocator::reporting);
            let ask = |variable| format!("It prints its statistics at its exit with {variable}");
            reporting.map_or_else(|| "Ask the program itself".into(), ask)
        }
        _ if live.is_some() => format!("See what is live: ramson report {object}"),
        _ if allocators.glibc.is_none() || allocators.is_32_bit => "Ask the program itself".into(),
        _ => format!("See what is live: ramson attach {object}, later ramson report {object}"),
    };
    Advice {
        cause: "unknown",
        needs: Needs::Command,
        action: format!("find out what it is. {next}"),
        evidence: format!("{} of anonymous memory is not broken down: {why}", size(undivided)),
        risk: "none",
        saving: None,
    }
}

fn setting(allocator: &Allocator) -> Option<Advice> {
    Some(Advice {
        cause: "other_lever",
        needs: Needs::Restart,
        action: format!("start it with {}", allocator.returning()?),
        evidence: "its statistics cannot be read from outside; malloc_trim does nothing here"
            .into(),
        risk: "it may save nothing: how much is free in whole pages is not known. Returned pages fault in again when the program needs them",
        saving: None,
    })
}

fn is_redis(finding: &Finding) -> bool {
    const NAMES: [&str; 3] = ["redis-server", "valkey-server", "keydb-server"];
    NAMES.contains(&finding.name.as_str())
}

/// Whether the program is a redis whose own jemalloc can be told to move live blocks.
fn can_defragment(finding: &Finding) -> bool {
    let has_own_jemalloc = finding.allocators.other.as_ref().is_some_and(|(kind, allocator)| {
        *kind == AllocatorKind::InProgram && allocator.name.contains("jemalloc")
    });
    has_own_jemalloc && is_redis(finding)
}
