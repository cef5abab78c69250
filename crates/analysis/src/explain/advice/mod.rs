//! Advice about a process's memory: causes with their evidence, what following the advice saves, and what it risks.
//!
//! Every saving is a sum of bytes that were counted or estimated. A saving that depends on what the program does next is an
//! upper bound and said to be one.

mod elsewhere;
mod glibc;
mod go;
pub mod growth;
mod malloc_info;
mod other;
mod saving;

pub use malloc_info::of_malloc_info;
pub use saving::{Advice, Needs, Saving};

use super::cause;
use super::finding::Finding;
use super::words::size;
use std::cmp::Reverse;

/// A cause that explains so much of what a trim would return comes before the trim: it lasts.
const EXPLAINING_SHARE: f64 = 0.8;
/// Lists what an operator can do: against growth first, then what saves most. Advice that needs a change of the code is last.
/// The list is never empty.
pub fn advice(finding: &Finding) -> Vec<Advice> {
    let least = cause::least(finding.rss.bytes);
    let mut all: Vec<Advice> = match &finding.statistics {
        Ok(statistics) => {
            let glibc = glibc::advice(finding, statistics);
            glibc.into_iter().chain(other::inside(finding, least)).collect()
        }
        Err(missing) => other::advice(finding, missing, least),
    };
    all.extend(
        [elsewhere::padding(finding), elsewhere::ended_threads(finding)].into_iter().flatten(),
    );
    all.extend(go::advice(finding));
    all.retain(|advice| advice.saving.is_none_or(|saving| saving.bytes >= least));
    if elsewhere::is_of_parent(finding) {
        // It goes with this process, whatever its allocator does.
        all.retain(|advice| !matches!(advice.cause, "other_lever" | "ask" | "unknown"));
    }
    all.sort_by_key(|advice| Reverse(advice.rank()));
    put_causes_before_trim(&mut all);
    all.splice(0..0, growth::advice(finding));
    all.extend(elsewhere::main_part(finding));
    // Beside steps, the cause's own sentence is enough.
    if all.iter().any(|advice| advice.needs != Needs::Nothing) {
        all.retain(|advice| advice.needs != Needs::Nothing);
    }
    // The order is kept among those that take the same.
    all.sort_by_key(|advice| advice.needs == Needs::Code);
    if all.is_empty() {
        all.push(if finding.is_growth_undecided() {
            later(finding, least)
        } else {
            nothing(least)
        });
    }
    all
}

/// Says that nothing which could be returned accounts for `least` bytes.
fn nothing(least: u64) -> Advice {
    let evidence = format!("no step would return {} or more", size(least));
    Advice {
        cause: "nothing",
        needs: Needs::Nothing,
        action: format!("nothing to do: {evidence}"),
        evidence,
        risk: "none",
        saving: None,
    }
}

fn later(finding: &Finding, least: u64) -> Advice {
    Advice {
        cause: "leaks",
        needs: Needs::Command,
        action: format!("check later whether it grows: ramson leaks {}", finding.object),
        ..nothing(least)
    }
}

impl Advice {
    /// Ranks expected savings before possible ones. Among those, a setting comes first if it may save half as much, and another allocator last,
    /// because it may also take more memory.
    fn rank(&self) -> (u8, u64) {
        let is_setting = matches!(self.cause, "tcache" | "other_lever");
        match self.saving {
            None => (0, 0),
            Some(saving) if !saving.is_at_most => (2, saving.bytes),
            Some(_) if self.cause == "other_allocator" => (1, 0),
            Some(saving) if is_setting => (1, saving.bytes.saturating_mul(2)),
            Some(saving) => (1, saving.bytes),
        }
    }
}

/// A trim returns what other causes keep, but only once.
fn put_causes_before_trim(all: &mut Vec<Advice>) {
    let Some(trim) = all.iter().position(|advice| advice.cause == "trim") else { return };
    let bytes = |advice: &Advice| advice.saving.map_or(0, |saving| saving.bytes) as f64;
    let explained = bytes(&all[trim]) * EXPLAINING_SHARE;
    let is_cause = |advice: &Advice| {
        matches!(advice.cause, "mmap_threshold" | "trim_threshold") && bytes(advice) >= explained
    };
    if let Some(cause) = all.iter().position(is_cause).filter(|&cause| cause > trim) {
        let cause = all.remove(cause);
        all.insert(trim, cause);
    }
}
