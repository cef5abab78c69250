//! Call sites that pin free memory: those of live blocks on whose pages it is.

use super::cause;
use crate::extents::{self, Live, lost};
use crate::named::{Detail, assemble, short_frames, stack_number};
use crate::naming::Names;
use crate::rss::Rss;
use ramson_format::Kind;
use ramson_process::clock::monotonic_ns;
use ramson_process::glibc::{Arena, Statistics};
use ramson_process::{Part, ProcessMemory, beside};
use ramson_profile::{Estimate, FrameTable, OwnFrames, SampleUnit, fold_addresses};
use ramson_source::{Failure, Recording};
use serde::Serialize;
use std::collections::HashMap;

/// Frames shown of a stack.
const MOST_FRAMES: usize = 6;
/// Pinned memory that is less than this part of what a trim returns is not why memory is not returned.
const LEAST_PINNED: f64 = 0.25;

/// All that was found.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Pins {
    /// Those that pin most first, without those that cannot be told from sampling noise.
    pub sites: Vec<Site>,
    /// Live samples in arenas that were looked at.
    pub samples: usize,
    /// Free bytes that all sites pin.
    #[serde(rename = "pinned")]
    pub held: Estimate,
    /// Free bytes on pages with live blocks, as the arenas count them: what all blocks pin, those in the allocator's caches included.
    pub arenas_bytes: u64,
}

/// Whether live blocks keep much free memory from being returned, also beside what a trim returns: only then it matters which blocks do.
pub fn is_much_pinned(rss: &Rss) -> bool {
    let pinned = rss.explained.part(Part::FreeChunks).max(0) as u64;
    let returned = rss.releasable.unwrap_or_default() as f64;
    pinned >= cause::least(rss.bytes) && pinned as f64 >= LEAST_PINNED * returned
}

/// A call site whose live blocks pin free memory.
#[derive(Default, Serialize, schemars::JsonSchema)]
pub struct Site {
    /// Leaf first.
    pub frames: Vec<String>,
    /// Free bytes that share pages with its blocks and lie beside them.
    #[serde(rename = "pinned")]
    pub held: Estimate,
    /// Its live blocks.
    pub live: Estimate,
    /// Live samples, as counted.
    pub samples: usize,
    /// Median age of the live samples, in ns.
    pub median_age_ns: u64,
    /// Age of the oldest live sample, in ns.
    pub oldest_age_ns: u64,
    #[serde(skip)]
    ages_ns: Vec<u64>,
}

/// Joins live samples with the chunks around them.
pub fn pins(
    recording: &Recording,
    memory: &ProcessMemory,
    statistics: &Statistics,
    names: &Names,
    own_frames: Option<&OwnFrames>,
) -> Result<Pins, Failure> {
    let snapshot = &recording.snapshot;
    let mut named = assemble(recording, names, Detail::Numbered, Some(Kind::Heap))?;
    if let Some(own_frames) = own_frames {
        own_frames.fold(&mut named.profile);
    }
    let table = FrameTable::new(&named.profile);
    let mut frames_of: HashMap<usize, Vec<String>> = HashMap::new();
    for sample in &named.profile.samples {
        let Some(number) = stack_number(sample) else { continue };
        frames_of.insert(number, fold_addresses(short_frames(&table, sample).take(MOST_FRAMES)));
    }
    let now_ns = monotonic_ns();
    let mut sites: HashMap<&[String], Site> = HashMap::new();
    let mut samples = 0;
    let mut held = Estimate::default();
    let live: Vec<Live> = extents::live(snapshot, Some(Kind::Heap)).collect();
    let addresses: Vec<u64> = live.iter().map(|live| live.address).collect();
    for (live, beside) in live.iter().zip(beside(memory, statistics, &addresses)) {
        let Some(beside) = beside else { continue };
        let Some(frames) = frames_of.get(&live.stack) else { continue };
        samples += 1;
        let weight = live.inverse_probability;
        let value = beside.held_bytes();
        // A sample stands for itself and for blocks that were not sampled (crates/profile/src/estimate.rs).
        let holds = Estimate::new(weight * value, weight * (weight - 1.0) * value * value);
        held += holds;
        let new = || Site { frames: frames.to_vec(), ..Site::default() };
        let site = sites.entry(frames).or_insert_with(new);
        site.held += holds;
        site.live += live.estimate(SampleUnit::Bytes);
        site.samples += 1;
        site.ages_ns.push(now_ns.saturating_sub(live.monotonic_ns));
    }
    Ok(settled(recording, statistics, sites.into_values(), samples, held))
}

/// Completes the sites after all samples: together they pin at most what the arenas count.
fn settled(
    recording: &Recording,
    statistics: &Statistics,
    sites: impl Iterator<Item = Site>,
    samples: usize,
    mut held: Estimate,
) -> Pins {
    let mut sites: Vec<Site> = sites.filter(|site| site.held.value > 0.0).collect();
    if lost(&recording.snapshot, Kind::Heap) > 0 {
        held = held.as_part();
        for site in &mut sites {
            site.held = site.held.as_part();
            site.live = site.live.as_part();
        }
    }
    // An estimate from few samples may exceed what is counted.
    let arenas_bytes = statistics.sum(Arena::scattered_bytes);
    let scale = (arenas_bytes as f64 / held.value).min(1.0);
    held = held.scaled(scale);
    for site in &mut sites {
        site.held = site.held.scaled(scale);
        site.ages_ns.sort_unstable();
        site.median_age_ns = site.ages_ns[site.ages_ns.len() / 2];
        site.oldest_age_ns = site.ages_ns.last().copied().unwrap_or(0);
    }
    sites.retain(|site| site.held.is_significant());
    sites.sort_by(|a, b| {
        b.held.value.total_cmp(&a.held.value).then_with(|| a.frames.cmp(&b.frames))
    });
    Pins { sites, samples, held, arenas_bytes }
}
