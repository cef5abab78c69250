//! What a process's resident memory is, what its allocator has of it, and what to do: no thread is stopped.

mod advice;
mod answer;
mod pins;
mod several;

pub use advice::{Advice, Saving};
pub use pins::{Pins, Site};
pub use several::{Findings, Placed, Refusal, examine_all};

use crate::extents;
use crate::naming::Names;
use crate::rss::Rss;
use ramson_process::Part;
use ramson_process::allocators::{Allocators, Figures, Missing};
use ramson_process::cgroup::{Groups, Limit};
use ramson_process::glibc::{Effort, Statistics};
use ramson_process::rss::{self, Request};
use ramson_profile::Estimate;
use ramson_source::{Failure, Target, gone};

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
    let extents = profile.map_or(Vec::new(), |recording| extents::ranges(&recording.snapshot));
    let mut allocators = None;
    let request = Request {
        effort,
        most_anonymous_bytes: u64::MAX,
        profile: profile.map(|recording| recording.origin.as_str()),
        extents: &extents,
    };
    let reading = rss::read(target.pid, &mut allocators, &request).map_err(|_| gone(target))?;
    let allocators = allocators.ok_or_else(|| gone(target))?;
    let rss::Reading { mut explained, statistics, memory, .. } = reading;
    if let (Some(Ok(figures)), Err(_)) = (&asked, &statistics) {
        explained.divide_anonymous(&figures.parts);
    }
    let live = profile.map(|recording| extents::live_heap(&recording.snapshot));
    let pins = match (profile, &memory, &statistics) {
        (Some(recording), Some(memory), Ok(statistics)) => {
            Some(pins::pins(recording, memory, statistics, names)?)
        }
        _ => None,
    };
    let rss = Rss::of(explained, statistics.as_ref().ok(), live, Some(&allocators));
    let mut finding = Finding {
        pid: target.pid,
        name: target.name.clone(),
        rss,
        allocators,
        statistics,
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
