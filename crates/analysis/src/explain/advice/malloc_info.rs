//! Advice if all that is known is a file of glibc's `malloc_info`. No saving is more than an upper bound, because the file does not say what
//! is in RSS.

use super::glibc::{FAULTS, FEWER_ARENAS, WAITING};
use super::saving::{Advice, Needs, Saving};
use crate::explain::cause;
use crate::explain::words::size;
use ramson_profile::Estimate;
use ramson_profile::format::format_objects;
use ramson_source::MallocInfo;

/// Advice for whoever runs the process that wrote the file, in which malloc had `system_bytes`.
pub fn of_malloc_info(info: &MallocInfo, system_bytes: u64) -> Vec<Advice> {
    let least = cause::least(system_bytes);
    let all = [Some(trim(info)), arena_max(info, least)];
    let mut all: Vec<Advice> = all.into_iter().flatten().collect();
    all.retain(|advice| advice.saving.is_none_or(|saving| saving.bytes >= least));
    if all.is_empty() {
        all.push(super::nothing(least));
    }
    all
}

/// A trim returns whole pages of free chunks, and the end of the main arena only.
fn trim(info: &MallocInfo) -> Advice {
    let sum = info.sum();
    let main_top = info.arenas.first().and_then(|main| main.top_bytes());
    let tops = info.arenas.iter().map(|arena| arena.top_bytes());
    let tops = tops.reduce(|sum, top| Some(sum?.saturating_add(top?))).flatten();
    // Without the sizes, any of it may be in whole pages.
    let bytes = match (main_top, tops) {
        (Some(main_top), Some(_)) => sum.large.bytes.saturating_add(main_top),
        _ => sum.free.bytes,
    };
    Advice {
        cause: "trim",
        needs: Needs::Command,
        action: "trim the process: ramson trim PID, or call malloc_trim(0) in it".into(),
        evidence: format!("{} of it is in free chunks that may contain whole pages", size(bytes)),
        risk: FAULTS,
        saving: Saving::at_most(Estimate::exact(bytes as f64)),
    }
}

/// In one arena, what one thread freed serves the others: of what is free, the largest arena's share might be enough.
fn arena_max(info: &MallocInfo, least: u64) -> Option<Advice> {
    let most = info.arenas.iter().map(|arena| arena.free.bytes).max()?;
    let free = info.sum().free.bytes;
    (free.saturating_sub(most) >= least).then(|| Advice {
        cause: "arena_max",
        needs: Needs::Restart,
        action: FEWER_ARENAS.into(),
        evidence: format!(
            "{} arenas (malloc gives threads heaps of their own) have {} free, the largest of them {}: threads of one arena cannot use what is free in another",
            format_objects(info.arenas.len() as f64),
            size(free),
            size(most)
        ),
        risk: WAITING,
        saving: None,
    })
}
