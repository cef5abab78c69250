//! Advice if the C library's statistics are known.

use super::saving::{Advice, Needs, Saving};
use crate::explain::cause;
use crate::explain::finding::Finding;
use crate::explain::pins::Site;
use crate::explain::words::{measured, site, size, with_half_width};
use ramson_process::Part;
use ramson_process::glibc::{Arena, Statistics};
use ramson_profile::Estimate;
use ramson_profile::format::format_percent;

/// glibc's thresholds before they move.
const DEFAULT_THRESHOLD_BYTES: u64 = 128 << 10;
/// The largest block that a thread cache keeps by default; larger ones since glibc 2.42.
const DEFAULT_TCACHE_MAX_BYTES: u64 = 1032;
/// A site that pins this share of what the arenas count as pinned is worth a pool of its own.
const POOL_SHARE: f64 = 0.5;

pub fn advice(finding: &Finding, statistics: &Statistics) -> Vec<Advice> {
    let least = cause::least(finding.rss.bytes);
    let settings = [thresholds(statistics), tcache(statistics), arena_max(statistics, least)];
    let all = [trim(finding, statistics)].into_iter().chain(settings).flatten();
    all.chain(scattered(finding, statistics)).collect()
}

/// Risk of a trim, of any allocator.
pub(super) const FAULTS: &str = "the pages fault in again when the program needs them; one thread is stopped meanwhile, and others may wait for it in malloc: \
     about 1 ms per 5 MiB returned, and per MiB where it lies in single pages";
/// What `arena_max` advises, and its risk.
pub(super) const FEWER_ARENAS: &str =
    "fewer arenas: start it with MALLOC_ARENA_MAX=1, or 2 if threads allocate at the same time";
pub(super) const WAITING: &str = "it saves nothing if the threads needed their memory at the same time: of four real programs, three saved 15% to 31% of what is \
     free in smaller arenas, one nothing. Threads wait for each other in malloc, and blocks of several threads share pages, so that it may \
     also take more memory";

fn trim(finding: &Finding, statistics: &Statistics) -> Option<Advice> {
    let bytes = statistics.sum(Arena::releasable_bytes);
    let pages = statistics.sum(|arena| arena.free_page_bytes);
    let chunks = Estimate { value: pages as f64, ..finding.part_estimate(Part::FreePages) };
    let joined = |arena: &Arena| arena.joined_page_bytes.saturating_sub(arena.free_page_bytes);
    let small = Estimate::exact(statistics.sum(joined) as f64);
    let end = Estimate::exact((bytes as f64 - chunks.value - small.value).max(0.0));
    let places = [
        (chunks, "in free whole pages"),
        (small, "in pages that become free when the trim merges small free blocks"),
        (end, "at the end of the heap"),
    ];
    let places = places.iter().filter(|(bytes, _)| bytes.value > 0.0);
    let places: Vec<String> =
        places.map(|(bytes, place)| format!("{} {place}", measured(*bytes))).collect();
    Some(Advice {
        cause: "trim",
        needs: Needs::Command,
        action: format!(
            "trim now: ramson trim {}; to repeat it, start the program with ramson run --trim-every 30s, or call malloc_trim(0) in it",
            finding.object
        ),
        evidence: places.join(", "),
        risk: FAULTS,
        saving: Saving::expected(bytes, statistics.releasable_half_width_95_bytes()),
    })
}

/// The top is cut beyond the trim threshold, in the main arena.
fn thresholds(statistics: &Statistics) -> Option<Advice> {
    let main = statistics.arenas.first()?;
    let parameters = &statistics.parameters;
    let kept = DEFAULT_THRESHOLD_BYTES + parameters.top_pad_bytes;
    let saving = Saving::expected(main.top.resident_bytes.saturating_sub(kept), 0.0);
    if parameters.trim_threshold_bytes <= DEFAULT_THRESHOLD_BYTES {
        return None;
    }
    let top = size(main.top.resident_bytes);
    let trim = size(parameters.trim_threshold_bytes);
    let mmap = size(parameters.mmap_threshold_bytes);
    let evidence = format!(
        "{top} free at the end of the heap, which malloc trims only when more than {trim} is free there"
    );
    Some(if parameters.has_dynamic_thresholds {
        Advice {
            cause: "mmap_threshold",
            needs: Needs::Restart,
            action: "fix the thresholds: start it with MALLOC_MMAP_THRESHOLD_=131072".into(),
            evidence: format!(
                "{evidence}; malloc raised both thresholds when a block of {mmap} was freed: since then blocks up to that size come from the heap"
            ),
            risk: "every block of 128 KiB or more is mapped and unmapped: slower if these are allocated and freed often",
            saving,
        }
    } else {
        Advice {
            cause: "trim_threshold",
            needs: Needs::Restart,
            action: "lower the trim threshold: start it with MALLOC_TRIM_THRESHOLD_=131072".into(),
            evidence,
            risk: "the end of the heap is returned and taken again more often",
            saving,
        }
    })
}

fn tcache(statistics: &Statistics) -> Option<Advice> {
    let bytes = statistics.sum(|arena| arena.tcaches.resident_bytes);
    let chunks = statistics.sum(|arena| arena.tcaches.chunks);
    let parameters = &statistics.parameters;
    let count = parameters.tcache_count;
    let most = size(parameters.tcache_max_bytes);
    let smaller = if parameters.tcache_max_bytes > DEFAULT_TCACHE_MAX_BYTES {
        format!("tcache_max={DEFAULT_TCACHE_MAX_BYTES}")
    } else if count <= 7 {
        "tcache_count=0".into()
    } else {
        "tcache_count=7".into()
    };
    Some(Advice {
        cause: "tcache",
        needs: Needs::Restart,
        action: format!(
            "smaller thread caches: start it with GLIBC_TUNABLES=glibc.malloc.{smaller}"
        ),
        evidence: format!(
            "{chunks} free blocks, {}, in per-thread caches, each of which keeps up to {count} blocks of each size up \
             to {most}; no trim empties them",
            size(bytes)
        ),
        risk: "malloc and free lock the arena more often: slower with many threads",
        // Outside of the caches, they may be the holes of pages in use.
        saving: Saving::at_most(Estimate::exact(bytes as f64)),
    })
}

/// In one arena, what one thread freed serves the others: of what is free, the largest arena's share might be enough. How much that saves
/// is not said: threads need their memory at the same time, or their blocks are mixed, in most real programs.
fn arena_max(statistics: &Statistics, least: u64) -> Option<Advice> {
    let free =
        |arena: &Arena| arena.free.resident_bytes + arena.top.resident_bytes + arena.fastbins.bytes;
    let used: Vec<u64> = statistics.arenas.iter().map(free).filter(|&bytes| bytes > 0).collect();
    let most = *used.iter().max()?;
    let all = used.iter().sum::<u64>();
    let free = with_half_width(all as f64, statistics.half_width_95_bytes());
    (all - most >= least).then(|| Advice {
        cause: "arena_max",
        needs: Needs::Restart,
        action: FEWER_ARENAS.into(),
        evidence: format!(
            "{} arenas (malloc gives threads heaps of their own) have {} free, the largest of them {}: threads of one arena cannot \
             use what is free in another",
            used.len(),
            measured(free),
            size(most)
        ),
        risk: WAITING,
        saving: None,
    })
}

/// Free memory on pages in use, which no trim returns: what a setting may do, and what the program may.
fn scattered(finding: &Finding, statistics: &Statistics) -> Vec<Advice> {
    let bytes = finding.part_estimate(Part::FreeChunks);
    let resident = statistics.sum(|arena| arena.in_use.resident_bytes + arena.free.resident_bytes);
    let of_arenas = format_percent(bytes.value, resident as f64);
    let evidence = format!(
        "{} ({of_arenas} of the arenas) is free on pages that still hold live blocks",
        measured(bytes)
    );
    let other = Advice {
        cause: "other_allocator",
        needs: Needs::Restart,
        action: "restart it when you can: that packs the live blocks again, for a time. An allocator that keeps sizes apart may do so for good, or take \
                 more memory; measure it: LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=background_thread:true,dirty_decay_ms:1000"
            .into(),
        evidence: evidence.clone(),
        risk: "another allocator helps if small blocks are left between larger ones that were freed. If blocks of one \
         size are left between freed ones of that size, it may take more memory. Of two real servers, one needed little less with it, and one more",
        saving: Saving::at_most(bytes),
    };
    let pool = first_site(finding).map(|(first, pinned)| {
        let name = site(&first.frames);
        let most = (first.held.value + first.held.half_width_95()).min(pinned as f64);
        Advice {
            cause: "pool",
            needs: Needs::Code,
            action: format!(
                "allocate {name}'s long-lived blocks from a separate pool, or before the short-lived ones; a trim then returns what is free"
            ),
            evidence: format!("{evidence}; blocks of {name} pin {} of it", measured(first.held)),
            risk: "requires a code change",
            saving: Saving::at_most(Estimate::exact(most)),
        }
    });
    [other].into_iter().chain(pool).collect()
}

/// The site that pins most of what all pin, if one does, and how much all pin.
fn first_site(finding: &Finding) -> Option<(&Site, u64)> {
    let pins = finding.pins.as_ref()?;
    let pinned = pins.arenas_bytes;
    let is_most = |site: &&Site| site.held.value >= POOL_SHARE * pinned as f64;
    Some((pins.sites.first().filter(is_most)?, pinned))
}
