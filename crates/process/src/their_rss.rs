//! RSS of another user's process, which a worker reads.

use crate::allocators::{Allocators, Missing};
use crate::asked::RSS;
use crate::details::Details;
use crate::glibc::{Effort, Statistics};
use crate::go_memory::Collector;
use crate::process_memory::ProcessMemory;
use crate::rss::{self, Explained, Reading, Request};
use crate::watched;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure};
use std::{io, ops};

/// Question for the RSS of a process. Ranges are start and end.
#[derive(BorshSerialize, BorshDeserialize)]
pub struct Asked {
    pid: u32,
    allocators: Option<Allocators>,
    effort: Effort,
    profile: Option<String>,
    extents: Vec<(u64, u64)>,
    blocks: Vec<u64>,
    blocks_inside: Vec<u64>,
    is_one_of_many: bool,
}

/// The answer.
#[derive(BorshSerialize, BorshDeserialize)]
pub struct Told {
    allocators: Option<Allocators>,
    explained: Explained,
    details: Details,
    statistics: Result<Statistics, Missing>,
    has_memory: bool,
    is_forked: bool,
    go: Option<Collector>,
}

/// The same as `rss::read`.
pub fn read_rss(
    by: &Apart,
    pid: u32,
    allocators: &mut Option<Allocators>,
    request: &Request,
) -> io::Result<Reading> {
    let asked = Asked {
        pid,
        allocators: allocators.take(),
        effort: request.effort,
        profile: request.profile.map(str::to_owned),
        extents: request.extents.iter().map(|range| (range.start, range.end)).collect(),
        blocks: request.blocks.to_vec(),
        blocks_inside: request.blocks_inside.to_vec(),
        is_one_of_many: request.is_one_of_many,
    };
    let mut told = by.ask_for::<Option<Told>>(RSS, &asked);
    if let Err(Failure::Stuck(_) | Failure::Time(_)) = told {
        // Its program may be where nobody answers: its allocator is not looked for then.
        let allocators = Some(asked.allocators.unwrap_or_default());
        told = by.ask_for(RSS, &Asked { allocators, ..asked });
    }
    let told = told.map_err(|failure| watched::noted(pid, failure))?;
    let told = told.ok_or(io::ErrorKind::NotFound)?;
    let Told { explained, details, statistics, has_memory, is_forked, go, .. } = told;
    let are_statistics_possible = statistics.as_ref().ok().is_none_or(Statistics::is_possible);
    let is_go_possible = go.as_ref().is_none_or(Collector::is_possible);
    let is_possible = explained.is_possible() && details.is_possible() && is_go_possible;
    if !is_possible || !are_statistics_possible {
        return Err(Failure::BadAnswer.into());
    }
    *allocators = told.allocators;
    let memory = has_memory.then(|| ProcessMemory::Theirs(by.clone(), pid));
    Ok(Reading { explained, details, statistics, memory, is_forked, go })
}

/// In a worker: the answer.
pub fn told(asked: Asked) -> Option<Told> {
    let Asked {
        pid,
        mut allocators,
        effort,
        profile,
        extents,
        blocks,
        blocks_inside,
        is_one_of_many,
    } = asked;
    let extents: Vec<ops::Range<u64>> =
        extents.into_iter().map(|(start, end)| start..end).collect();
    let profile = profile.as_deref();
    let request = Request {
        effort,
        profile,
        extents: &extents,
        blocks: &blocks,
        blocks_inside: &blocks_inside,
        is_one_of_many,
    };
    let Reading { explained, details, statistics, memory, is_forked, go } =
        rss::read(pid, &mut allocators, &request).ok()?;
    let has_memory = memory.is_some();
    Some(Told { allocators, explained, details, statistics, has_memory, is_forked, go })
}
