//! Facts about a running process without a profile.

use crate::rss::Rss;
use crate::stack_table::Pointers;
use ramson_process::glibc::{Effort, MOST_WALKED_BYTES};
use ramson_process::rss::{self, Request};
use ramson_source::Target;

/// A process's memory as kernel and allocator have it.
pub struct Unprofiled {
    /// The process.
    pub pid: u32,
    /// The name of its first thread.
    pub name: String,
    /// Its resident memory, in terms.
    pub rss: Rss,
    /// Name and version of the allocator, if it is known.
    pub allocator: Option<String>,
    /// Pointers to what else there is to see.
    pub pointers: Pointers,
}

impl Unprofiled {
    /// `None` if it has a profile, or may not be looked at.
    pub fn of(target: Target) -> Option<Self> {
        if target.profile.is_some() {
            return None;
        }
        let mut allocators = None;
        let effort = Effort::Survey(MOST_WALKED_BYTES);
        let request = Request { effort, profile: None, extents: &[], blocks: &[] };
        let reading = rss::read(target.pid, &mut allocators, &request).ok()?;
        let rss = Rss::of(&reading, None, allocators.as_ref());
        let other = allocators.as_ref().and_then(|all| all.other.as_ref()).map(|(_, other)| other);
        let own = allocators.as_ref().and_then(|all| all.glibc.as_ref());
        Some(Self {
            pid: target.pid,
            name: target.name,
            allocator: other.or(own).map(|allocator| allocator.name.clone()),
            pointers: Pointers::of(Some(&rss), &[]),
            rss,
        })
    }
}
