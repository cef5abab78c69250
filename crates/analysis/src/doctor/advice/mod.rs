//! What to do about a process's memory: causes with their evidence, what following the advice saves, and what it risks.
//!
//! Every saving is a sum of bytes that were counted or estimated. Where it depends on what the program does next, it is an
//! upper bound and said to be one.

mod elsewhere;
mod glibc;
mod growth;
mod other;

use super::Finding;
use super::causes::{LEAST_BYTES, LEAST_SHARE};
use ramson_process::identify::AllocatorKind;
use ramson_profile::Estimate;
use ramson_profile::format::format_bytes;
use serde::Serialize;
use std::cmp::Reverse;

/// A cause that explains so much of what a trim would return comes before the trim: it lasts.
const EXPLAINING_SHARE: f64 = 0.8;
/// So much of RSS is what the process is made of.
const MAIN_SHARE: f64 = 0.5;

/// What following an advice saves.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Saving {
    /// An upper bound, or expected.
    pub bytes: u64,
    /// How uncertain these bytes are; null: they were counted, and what is saved of them depends on the program.
    pub half_width_95: Option<u64>,
    /// Not more than these bytes.
    pub is_at_most: bool,
}

/// What it takes to follow an advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// A command, while the program runs on.
    Command,
    /// A setting with which the program is started again, or the restart alone.
    Restart,
    /// A change of the program's code.
    Code,
}

/// One advice.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The name in `--json`.
    pub cause: &'static str,
    /// What it takes.
    pub needs: Needs,
    /// What to do.
    pub action: String,
    /// The figures behind it.
    pub evidence: String,
    /// What it may cost; `none`.
    pub risk: &'static str,
    /// What it saves; `None`: it depends on what is found next.
    pub saving: Option<Saving>,
}

/// What an operator can do comes first: against growth, then what saves most; what needs a change of the code is last. Never
/// empty.
pub fn advice(finding: &Finding) -> Vec<Advice> {
    let rss = finding.rss.bytes;
    let least = LEAST_BYTES.max((rss as f64 * LEAST_SHARE) as u64);
    let mut all: Vec<Advice> = match &finding.statistics {
        Ok(statistics) => glibc::advice(finding, statistics),
        Err(missing) => other::advice(finding, missing, least),
    };
    all.extend(elsewhere::padding(finding));
    all.retain(|advice| advice.saving.is_none_or(|saving| saving.bytes >= least));
    all.sort_by_key(|advice| Reverse(advice.rank()));
    put_causes_before_trim(&mut all);
    all.splice(0..0, growth::advice(finding));
    all.extend(elsewhere::main_part(finding));
    // The order is kept among those that take the same.
    all.sort_by_key(|advice| advice.needs == Needs::Code);
    if all.is_empty() {
        all.push(Advice {
            cause: "nothing",
            needs: Needs::Command,
            action: "nothing to do".into(),
            evidence: format!(
                "nothing that could be returned accounts for {} or more",
                size(least)
            ),
            risk: "none",
            saving: None,
        });
    }
    all
}

impl Saving {
    fn expected(bytes: u64, half_width_95: f64) -> Option<Self> {
        let half_width_95 = Some(half_width_95.round() as u64);
        Some(Self { bytes, half_width_95, is_at_most: false })
    }

    fn at_most(bytes: Estimate) -> Option<Self> {
        let half_width = Some(bytes.half_width_95()).filter(|it| it.is_finite() && *it >= 0.5);
        let half_width_95 = half_width.map(|half_width| half_width.round() as u64);
        Some(Self { bytes: bytes.value.max(0.0) as u64, half_width_95, is_at_most: true })
    }
}

impl Advice {
    /// What is expected comes before what is only possible; of that, what only a setting takes if it may save half as much.
    fn rank(&self) -> (u8, u64) {
        let is_setting = matches!(self.cause, "arena_max" | "tcache" | "other_lever");
        match self.saving {
            None => (0, 0),
            Some(saving) if !saving.is_at_most => (2, saving.bytes),
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

fn size(bytes: u64) -> String {
    format_bytes(bytes as f64)
}
