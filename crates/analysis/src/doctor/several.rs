//! Several processes: what each has, what all have together, and what saves most.

use super::{Advice, Finding, examine};
use crate::members::{Each, of_process};
use crate::naming::Names;
use crate::rss::Rss;
use ramson_process::glibc::Effort;
use ramson_source::{Failure, Targets};
use serde::Serialize;
use std::cmp::Reverse;

/// What was found in several processes.
#[derive(Serialize)]
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
#[derive(Serialize)]
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
#[derive(Serialize)]
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
                let mut row = of_process(target.pid, target.name.clone());
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
    let of_one = |each: &Each<Finding>| {
        let Finding { pid, name, advice, .. } = &each.answer;
        let saving = advice.iter().filter(|advice| advice.saving.bytes().is_some());
        let placed = saving.map(|advice| (*pid, name.clone(), advice.clone()));
        placed.map(|(pid, name, advice)| Placed { pid, name, advice }).collect::<Vec<_>>()
    };
    let mut all: Vec<Placed> = processes.iter().flat_map(of_one).collect();
    all.sort_by_key(|placed| Reverse(placed.advice.saving.bytes()));
    all
}
