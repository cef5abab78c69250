//! A process that its parent has forked and that has not started another program: its memory is its parent's, copy on write.

use crate::allocators::Missing;
use crate::areas::{Area, Backing, read_outline};
use crate::stat;
use ramson_apart::proc;
use std::ops::Range;

/// Less than this is what any child has.
const LEAST_BYTES: u64 = 16 << 20;

/// Whether it is such a process. It may have been forked before anything was allocated, as daemons are.
pub fn is_forked(pid: u32) -> bool {
    // PF_FORKNOEXEC (Linux, include/linux/sched.h).
    const FORKED: u64 = 0x40;
    stat::number(pid, 9).is_some_and(|flags| flags & FORKED != 0)
}

/// The process that forked this one, if it still runs and both run one program.
pub fn parent(pid: u32) -> Option<u64> {
    let parent = stat::number(pid, 4)?;
    let executable = |pid: u64| proc::link(&format!("{pid}/exe")).ok();
    let is_same = executable(parent).is_some_and(|of| executable(pid.into()) == Some(of));
    (is_forked(pid) && is_same).then_some(parent)
}

/// The anonymous memory of a parent, which its child had from it at the fork, unless either has mapped other memory there since.
pub fn anonymous_memory(parent: u64) -> Vec<Range<u64>> {
    let areas = u32::try_from(parent).ok().and_then(|parent| read_outline(parent).ok());
    let is_its = |area: &Area| {
        area.backing() == Backing::Anonymous && matches!(area.path.as_str(), "" | "[heap]")
    };
    areas.unwrap_or_default().into_iter().filter(is_its).map(|area| area.start..area.end).collect()
}

/// Whether most of its anonymous memory is still its parent's.
pub fn is_mostly_shared(areas: &[Area], parent: Option<u64>) -> bool {
    let anonymous = areas.iter().filter(|area| area.backing() == Backing::Anonymous);
    let (rss, shared) =
        anonymous.fold((0, 0), |(rss, shared), area| (rss + area.rss, shared + area.shared));
    parent.is_some() && shared >= LEAST_BYTES && 2 * shared > rss
}

/// Why the statistics of such a process say nothing of it.
pub fn missing(parent: Option<u64>) -> Missing {
    Missing::Refused(format!(
        "most of its memory is shared copy on write with its parent, process {}, until this process ends",
        parent.unwrap_or_default()
    ))
}
