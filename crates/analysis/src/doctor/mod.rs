//! What a process's resident memory is, what its allocator has of it, and what to do: no thread is stopped.

mod advice;
mod answer;
mod pins;

pub use advice::{Advice, Saving};
pub use pins::{Pins, Site};

use crate::extents;
use crate::members::{Each, Row};
use crate::naming::Names;
use crate::rss::Rss;
use ramson_process::Part;
use ramson_process::allocators::{Allocators, Figures, Missing};
use ramson_process::cgroup::{Groups, Limit};
use ramson_process::glibc::{Effort, Statistics};
use ramson_process::rss::{self, Request};
use ramson_profile::Estimate;
use ramson_source::{Failure, Target, Targets, gone};
use serde::Serialize;
use std::cmp::Reverse;

/// What was found.
pub struct Finding {
    /// The process.
    pub pid: u32,
    /// The name of its first thread.
    pub name: String,
    /// Its resident memory, in terms and parts.
    pub rss: Rss,
    /// Which allocators it has.
    pub allocators: Allocators,
    /// The C library's statistics, or why there are none.
    pub statistics: Result<Statistics, Missing>,
    /// What another allocator said when it was asked, or why it was not; `None` if it was not to be.
    pub asked: Option<Result<Figures, String>>,
    /// By the profile, if there is one. Where the allocator tells nothing, it is what is live.
    pub live: Option<Estimate>,
    /// Of its control group.
    pub limit: Option<Limit>,
    /// Which no process's RSS contains; bytes.
    pub page_tables: Option<u64>,
    /// What pins free memory; `None` without a profile or statistics.
    pub pins: Option<Pins>,
    /// Best first; never empty.
    pub advice: Vec<Advice>,
}

/// Looks at a process. `asked` is what its allocator said when it was asked just before, if it was.
pub fn examine(
    target: &Target,
    effort: Effort,
    names: &Names,
    asked: Option<Result<Figures, Failure>>,
) -> Result<Finding, Failure> {
    let profile = target.profile.as_ref();
    let snapshot = profile.map(|recording| &recording.snapshot);
    let extents = snapshot.map_or(Vec::new(), extents::ranges);
    let blocks = snapshot.map_or(Vec::new(), extents::blocks);
    let mut allocators = None;
    let request = Request {
        effort,
        profile: profile.map(|recording| recording.origin.as_str()),
        extents: &extents,
        blocks: &blocks,
    };
    let mut reading = rss::read(target.pid, &mut allocators, &request).map_err(|_| gone(target))?;
    let allocators = allocators.ok_or_else(|| gone(target))?;
    if let (Some(Ok(figures)), Err(_)) = (&asked, &reading.statistics) {
        reading.explained.divide_anonymous(&figures.parts);
    }
    let live = snapshot.map(extents::live_heap);
    let pins = match (profile, &reading.memory, &reading.statistics) {
        (Some(recording), Some(memory), Ok(statistics)) => {
            Some(pins::pins(recording, memory, statistics, names)?)
        }
        _ => None,
    };
    let rss = Rss::of(&reading, snapshot, Some(&allocators));
    let mut finding = Finding {
        pid: target.pid,
        name: target.name.clone(),
        rss,
        allocators,
        statistics: reading.statistics,
        asked: asked.map(|asked| asked.map_err(|failure| failure.to_string())),
        live,
        limit: Groups::of(target.pid).limit(),
        page_tables: rss::page_tables(target.pid),
        pins,
        advice: Vec::new(),
    };
    finding.advice = advice::advice(&finding);
    Ok(finding)
}

impl Finding {
    /// Whether what the allocator has is told from the rest.
    pub fn is_divided(&self) -> bool {
        self.statistics.is_ok() || matches!(self.asked, Some(Ok(_)))
    }

    /// Resident bytes of a part, never negative.
    pub fn part(&self, part: Part) -> u64 {
        self.rss.explained.part(part).max(0) as u64
    }
}

/// What was found in several processes.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Findings {
    /// The sum of each term; pages that the processes share count in each.
    pub rss: Option<Rss>,
    /// What saves anything, the most first.
    pub advice: Vec<Placed>,
    /// Those that could not be looked at.
    pub refused: Vec<Refusal>,
    /// Those with the largest RSS first.
    pub processes: Vec<Each<Finding>>,
}

/// An advice about one of the processes.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Placed {
    /// The process.
    pub pid: u32,
    /// The name of its first thread.
    pub name: String,
    /// What to do there.
    #[serde(flatten)]
    pub advice: Advice,
}

/// A process that could not be looked at.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Refusal {
    /// The process.
    pub pid: u32,
    /// Why.
    pub reason: String,
}

/// Looks at each of them. One that ends meanwhile is refused; fails if none is left.
pub fn examine_all(targets: &Targets, effort: Effort, names: &Names) -> Result<Findings, Failure> {
    let refusal = |pid, failure: &Failure| Refusal { pid, reason: failure.to_string() };
    let refused = targets.refused.iter().map(|refused| refusal(refused.pid, &refused.failure));
    let mut refused: Vec<Refusal> = refused.collect();
    let (mut processes, mut first_failure) = (Vec::new(), None);
    for target in &targets.found {
        match examine(target, effort, names, None) {
            Ok(finding) => {
                let mut row = Row::of_process(target.pid, target.name.clone());
                row.rss = Some(finding.rss.bytes);
                processes.push(Each { row, answer: finding });
            }
            Err(failure) => {
                refused.push(refusal(target.pid, &failure));
                first_failure.get_or_insert(failure);
            }
        }
    }
    if let (true, Some(failure)) = (processes.is_empty(), first_failure) {
        return Err(failure);
    }
    processes.sort_by(|a, b| a.row.order(&b.row));
    let rss: Vec<&Rss> = processes.iter().map(|each| &each.answer.rss).collect();
    Ok(Findings { rss: Rss::sum(&rss), advice: placed(&processes), refused, processes })
}

/// Each process has its own trim and settings, so the savings are of each.
fn placed(processes: &[Each<Finding>]) -> Vec<Placed> {
    let of_each = processes.iter().flat_map(|each| {
        let Finding { pid, name, advice, .. } = &each.answer;
        let saving = advice.iter().filter(|advice| advice.saving.is_some());
        saving.map(|advice| Placed { pid: *pid, name: name.clone(), advice: advice.clone() })
    });
    let mut all: Vec<Placed> = of_each.collect();
    all.sort_by_key(|placed| Reverse(placed.advice.saving.map(|saving| saving.bytes)));
    all
}
