//! Anonymous memory of a running process that did not come from malloc, and its owners.
//!
//! The bytes are those of the RSS line: what is live, free in the allocator or held by it came from malloc, what the program mapped
//! itself and the rest did not.

use crate::extents;
use crate::owners::{self, Owner};
use crate::rss::Rss;
use ramson_process::Term;
use ramson_profile::format::{format_bytes, format_percent};
use ramson_reader::Snapshot;
use serde::Serialize;

/// Less memory outside of malloc is not worth a word …
const LEAST_BYTES: f64 = (16 << 20) as f64;
/// … nor is this part of the anonymous memory.
const LEAST_SHARE: f64 = 0.25;
/// If the live heap explains this part of the anonymous memory, that is enough.
const ENOUGH: f64 = 0.5;

/// How the anonymous memory divides.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Coverage {
    anonymous_bytes: u64,
    live_bytes: u64,
    /// Bytes in the allocator below the hooks: live, free, or its own.
    allocator_bytes: u64,
    /// Bytes outside the allocator. Bytes in neither figure may belong to either: ramson cannot read the allocator's statistics, and
    /// recording began when the process had memory already, or the allocator is not glibc's.
    outside_bytes: u64,
    /// Owners of the bytes outside the allocator, if the live heap explains too little.
    owners: Vec<Owner>,
    /// The same as a phrase.
    reason: Option<String>,
}

impl Coverage {
    /// Divides the anonymous memory of a running process. `None`: of a Go program, whose runtime does that.
    pub fn of(pid: u32, rss: &Rss, snapshot: &Snapshot) -> Option<Self> {
        if extents::has_go(snapshot) {
            return None;
        }
        let unnamed = || owners::unnamed(pid, snapshot);
        Some(Self::divided(pid, rss, |outside| owners::owners(pid, snapshot, outside), unnamed))
    }

    fn divided(
        pid: u32,
        rss: &Rss,
        owners: impl Fn(u64) -> Vec<Owner>,
        unnamed: impl Fn() -> String,
    ) -> Self {
        let sum = |terms: &[Term]| -> f64 { terms.iter().map(|&term| rss.term(term).value).sum() };
        let of_allocator = [Term::Live, Term::Unseen, Term::Free, Term::Metadata, Term::Held];
        let allocator = sum(&of_allocator).max(0.0);
        let mmap = sum(&[Term::Mmap]).max(0.0);
        let other = sum(&[Term::Other]).max(0.0);
        let go = sum(&[Term::GoHeap, Term::GoFree]);
        let is_earlier = rss.before.is_some() && !rss.is_live_counted;
        let is_in_doubt = rss.may_be_allocators();
        let outside = go + if is_earlier || is_in_doubt { mmap } else { mmap + other };
        let doubtful = if is_in_doubt && !is_earlier { other } else { 0.0 };
        let live = rss.term(Term::Live) + rss.term(Term::Unseen);
        let anonymous = allocator + mmap + other + go;
        let half_width = live.half_width_95();
        let seen_at_most = live.value + if live.is_part() { 0.0 } else { half_width };
        let is_little = seen_at_most < ENOUGH * anonymous;
        let least = LEAST_BYTES.max(LEAST_SHARE * anonymous);
        let is_told = |bytes: f64| is_little && outside + doubtful >= least && bytes >= LEAST_BYTES;
        let owners = if is_told(outside) { owners(outside as u64) } else { Vec::new() };
        let of_outside = is_told(outside).then(|| {
            let outside = format_bytes(outside);
            format!("{outside} is outside malloc: {}", owners::text(&owners))
        });
        let of_doubtful = is_told(doubtful).then(|| {
            let allocator = &rss.allocator;
            let tells = format!(" (ramson explain --ask {pid} tells)");
            let tells = if rss.can_be_asked() { &*tells } else { "" };
            format!("{} is {} or free in {allocator}{tells}", format_bytes(doubtful), unnamed())
        });
        let reasons: Vec<String> = of_outside.into_iter().chain(of_doubtful).collect();
        Self {
            anonymous_bytes: anonymous.round() as u64,
            live_bytes: live.value.round() as u64,
            allocator_bytes: allocator.round() as u64,
            outside_bytes: outside.round() as u64,
            owners,
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        }
    }

    /// One line, where the live heap explains too little.
    pub fn line(&self) -> Option<String> {
        let reason = self.reason.as_ref()?;
        Some(format!(
            "live is {} ({}) of the {} that malloc and other mappings take; {reason}",
            format_bytes(self.live_bytes as f64),
            format_percent(self.live_bytes as f64, self.anonymous_bytes as f64),
            format_bytes(self.anonymous_bytes as f64),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rss::{Before, of_areas};

    const MIB: u64 = 1 << 20;

    /// Coverage of a heap of `heap` MiB, of which `live` MiB are live, and of another mapping of `other` MiB.
    fn coverage(heap: u64, live: u64, other: u64, owners: &[(&str, u64)]) -> Coverage {
        let rss = of_areas(heap, other, live);
        let owner = |&(name, mib): &(&str, u64)| Owner { name: name.into(), bytes: mib * MIB };
        let owners = |outside| {
            assert_eq!(outside, other * MIB);
            owners.iter().map(owner).collect()
        };
        Coverage::divided(42, &rss, owners, || panic!("not asked"))
    }

    #[test]
    fn well_covered_heap_has_no_line() {
        assert_eq!(coverage(60, 40, 10, &[]).line(), None);
        assert_eq!(coverage(0, 0, 15, &[]).line(), None);
    }

    #[test]
    fn allocator_memory_is_not_outside_malloc() {
        let coverage = coverage(60, 5, 10, &[]);
        assert_eq!((coverage.allocator_bytes, coverage.outside_bytes), (60 * MIB, 10 * MIB));
        assert_eq!(coverage.line(), None);
    }

    #[test]
    fn earlier_memory_is_not_outside_malloc() {
        for before in [Before::Attach, Before::Fork] {
            let rss = of_areas(0, 270, 0).since(Some(before));
            let coverage =
                Coverage::divided(42, &rss, |_| panic!("not asked"), || panic!("not asked"));
            assert_eq!(coverage.line(), None, "{before}");
            assert_eq!((coverage.anonymous_bytes, coverage.outside_bytes), (270 * MIB, 0));
        }
    }

    #[test]
    fn memory_outside_malloc_names_its_owners() {
        let line = coverage(10, 5, 90, &[("the Go heap", 90)]).line().unwrap();
        let start = "live is 5.00 MiB (5.00%) of the 100 MiB that malloc and other mappings take; 90.0 MiB is outside malloc: ";
        assert_eq!(line, format!("{start}the Go heap"));
        let two = [("jemalloc inside polars.abi3.so", 82), ("mapped by other.so", 8)];
        let line = coverage(10, 5, 90, &two).line().unwrap();
        let owners = "82.0 MiB jemalloc inside polars.abi3.so; 8.00 MiB mapped by other.so";
        assert_eq!(line, format!("{start}{owners}"));
    }

    #[test]
    fn memory_that_may_be_the_allocators_is_not_outside_malloc() {
        for (allocator, how) in [("jemalloc", " (ramson explain --ask 42 tells)"), ("mimalloc", "")]
        {
            let mut rss = of_areas(60, 90, 20);
            rss.allocator = allocator.into();
            let ruby = || "Ruby's heap pages".to_owned();
            let coverage = Coverage::divided(42, &rss, |_| panic!("not asked"), ruby);
            assert_eq!(coverage.outside_bytes, 0);
            let line = coverage.line().unwrap();
            let reason = format!("; 90.0 MiB is Ruby's heap pages or free in {allocator}{how}");
            assert!(line.ends_with(&reason), "{line}");
            let term = format!(" + other anonymous or {allocator}'s 90.0 MiB");
            assert!(rss.line().ends_with(&term), "{}", rss.line());
        }
    }
}
