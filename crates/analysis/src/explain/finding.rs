//! Findings about one process.

use super::advice::Advice;
use super::cause::Cause;
use super::leaks::Leaks;
use super::pins::{self, Pins};
use super::words::with_half_width;
use crate::goroutines::Goroutines;
use crate::members::RowGrowth;
use crate::rss::Rss;
use ramson_leaks::Slope;
use ramson_process::allocators::{Allocator, Allocators, Figures, Missing};
use ramson_process::cgroup::Limit;
use ramson_process::glibc::{Arena, Statistics};
use ramson_process::go_memory::Collector;
use ramson_process::identify::AllocatorKind;
use ramson_process::{Details, Part, Term};
use ramson_profile::Estimate;

/// Facts that were found about one process.
pub struct Finding {
    /// The process.
    pub pid: u32,
    /// How commands in advice name it: by its ID, or as one of several by their sources.
    pub object: String,
    /// The name of its first thread.
    pub name: String,
    /// Its resident memory, in terms and parts.
    pub rss: Rss,
    /// Names and counts behind the parts: files, shared memory, ended threads.
    pub details: Details,
    /// The largest variables of the binary that has most, with their bytes, where variables are a part worth a word.
    pub variables: Vec<(String, u64)>,
    /// The function that most of the ended threads began with.
    pub ended_function: Option<String>,
    /// The owner of anonymous memory that is not malloc's, where that is a part worth a word and the owner is known.
    pub owner: Option<String>,
    /// Who mapped the memory outside malloc that the profile has, as a phrase.
    pub extents_owner: Option<String>,
    /// Causes of the resident memory, in a sentence each, the largest first; never empty.
    pub causes: Vec<Cause>,
    /// Which allocators it has.
    pub allocators: Allocators,
    /// The C library's statistics, or why there are none.
    pub statistics: Result<Statistics, Missing>,
    /// An allocator inside an object that the profile tells of and that can be asked for its figures.
    pub inside: Option<Allocator>,
    /// Figures of another allocator that was asked, or why there are none; `None` if it was not to be asked.
    pub asked: Option<Result<Figures, String>>,
    /// Live bytes as every screen has them; `None` without a profile.
    pub live: Option<Estimate>,
    /// Memory limit of its control group or of one above it.
    pub limit: Option<Limit>,
    /// Growth of that group's use, by looks of just now; `None` without a limit, and where nothing grows.
    pub group_growth: Option<Slope>,
    /// Which no process's RSS contains; bytes.
    pub page_tables: Option<u64>,
    /// Call sites that pin free memory; `None` without a profile or statistics, and where little is pinned.
    pub pins: Option<Pins>,
    /// Stacks that ended early, if many bytes have them: where, and how many bytes.
    pub early_ends: Option<String>,
    /// Says of which moment `live` is; `None`: the process was not detached from.
    pub detached: Option<String>,
    /// Samples of the process are not taken any more.
    pub has_sampling_ended: bool,
    /// Whether what is live grows; `None` without a profile, and where sampling has ended.
    pub leaks: Option<Leaks>,
    /// The collector's settings and figures, if it is a Go program.
    pub go: Option<Collector>,
    /// Its goroutines, likewise.
    pub goroutines: Option<Goroutines>,
    /// Advice, best first, with what an operator can do before changes of the code; never empty.
    pub advice: Vec<Advice>,
}

impl Finding {
    /// Whether what the allocator has is told from the rest.
    pub fn is_divided(&self) -> bool {
        self.statistics.is_ok() || matches!(self.asked, Some(Ok(_)))
    }

    /// Name of the allocator that can be asked how much of its memory is free.
    pub fn askable(&self) -> Option<&str> {
        match self.statistics {
            Err(Missing::Unreadable(AllocatorKind::Jemalloc | AllocatorKind::Tcmalloc)) => {
                Some(&self.rss.allocator)
            }
            Err(Missing::Denied { .. }) => None,
            _ => self.inside.as_ref().map(|inside| &*inside.name),
        }
    }

    /// Resident bytes of a part, never negative.
    pub fn part(&self, part: Part) -> u64 {
        self.rss.explained.part(part).max(0) as u64
    }

    /// The same with its interval, where it is an estimate.
    pub fn part_estimate(&self, part: Part) -> Estimate {
        let of_releasable = || self.releasable().map_or(0.0, |bytes| bytes.variance);
        let variance = match part {
            Part::Live => self.rss.term(Term::Live).variance,
            Part::Unseen => self.rss.term(Term::Unseen).variance,
            Part::FreePages => of_releasable(),
            Part::FreeChunks => self.rss.term(Term::Free).variance,
            Part::Held => self.rss.term(Term::Held).variance,
            Part::Anonymous => self.rss.term(Term::Other).variance,
            _ => 0.0,
        };
        Estimate::new(self.part(part) as f64, variance)
    }

    /// The growth of the process in a row of a table.
    pub fn row_growth(&self) -> RowGrowth {
        let Some(leaks) = &self.leaks else { return RowGrowth::of(None, None, true) };
        let suspects = (!leaks.growing.is_empty()).then(|| leaks.bytes_per_hour());
        RowGrowth::of(leaks.totals.live_per_hour, suspects, self.is_growth_undecided())
    }

    /// Nothing is known to grow, and most of what is live cannot be judged yet.
    pub fn is_growth_undecided(&self) -> bool {
        let live = self.rss.term(Term::Live).value;
        let is_undecided = |leaks: &Leaks| leaks.undecided.value * 2.0 > live;
        self.leaks.as_ref().is_some_and(|leaks| leaks.growing.is_empty() && is_undecided(leaks))
    }

    /// Returns the bytes that a trim of glibc's arenas would return; `None` if the arenas' statistics are not known.
    pub fn releasable(&self) -> Option<Estimate> {
        let statistics = self.statistics.as_ref().ok()?;
        let bytes = statistics.sum(Arena::releasable_bytes) as f64;
        Some(with_half_width(bytes, statistics.releasable_half_width_95_bytes()))
    }

    /// Whether it matters which live blocks keep free memory from being returned.
    pub fn is_much_pinned(&self) -> bool {
        pins::is_much_pinned(&self.rss)
    }
}
