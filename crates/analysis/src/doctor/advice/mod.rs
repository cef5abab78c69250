//! What to do about a process's memory: causes with their evidence, what following the advice saves, and what it risks.
//!
//! Every saving is a sum of bytes that were counted. Where it depends on what the program does next, it is an upper bound and said to be one.

use super::Finding;
use super::pins::Site;
use ramson_process::Part;
use ramson_process::allocators::Missing;
use ramson_process::glibc::{Arena, Statistics};
use ramson_process::identify::AllocatorKind;
use ramson_profile::format::{format_bytes, format_percent, format_share};
use serde::Serialize;

mod elsewhere;

/// Less than this, and less than this share of RSS, is not worth a change.
const LEAST_BYTES: u64 = 1 << 20;
const LEAST_SHARE: f64 = 0.05;
/// A cause that explains so much of what trim would give back comes before trim: it lasts.
const EXPLAINING_SHARE: f64 = 0.8;
/// glibc's thresholds before they move.
const DEFAULT_THRESHOLD_BYTES: u64 = 128 << 10;
/// The largest block that a thread cache keeps by default; larger ones since glibc 2.42.
const DEFAULT_TCACHE_MAX_BYTES: u64 = 1032;
/// A site that pins this share of all pinned memory is worth a pool of its own.
const POOL_SHARE: f64 = 0.5;
/// So much of RSS is what the process is made of.
const MAIN_SHARE: f64 = 0.5;

/// What following an advice saves.
#[derive(Clone, Copy, Debug, Serialize, schemars::JsonSchema)]
pub struct Saving {
    /// An upper bound, or expected.
    pub bytes: u64,
    /// What is expected is so certain, in bytes.
    pub half_width_95: Option<u64>,
    /// Not more than these bytes.
    pub is_at_most: bool,
}

/// One advice.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Advice {
    /// The name in `--json`.
    pub cause: &'static str,
    /// What to do.
    pub action: String,
    /// The figures behind it.
    pub evidence: String,
    /// What it may cost; `none`.
    pub risk: &'static str,
    /// What it saves; `None`: it depends on what is found next.
    pub saving: Option<Saving>,
}

/// Best first; never empty.
pub fn advice(finding: &Finding) -> Vec<Advice> {
    let rss = finding.rss.bytes;
    let least = LEAST_BYTES.max((rss as f64 * LEAST_SHARE) as u64);
    let mut all: Vec<Advice> = match &finding.statistics {
        Ok(statistics) => of_statistics(finding, statistics),
        Err(missing) => of_other(finding, missing, least),
    };
    all.extend(elsewhere::padding(finding));
    all.retain(|advice| advice.saving.is_none_or(|saving| saving.bytes >= least));
    all.sort_by_key(|advice| std::cmp::Reverse(advice.rank()));
    put_causes_before_trim(&mut all);
    all.extend(elsewhere::main_part(finding));
    if all.is_empty() {
        all.push(Advice {
            cause: "nothing",
            action: "nothing to do".into(),
            evidence: format!("no cause holds back {} or more", size(least)),
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

    fn at_most(bytes: u64) -> Option<Self> {
        Some(Self { bytes, half_width_95: None, is_at_most: true })
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

fn of_statistics(finding: &Finding, statistics: &Statistics) -> Vec<Advice> {
    let first = [trim(finding, statistics), thresholds(statistics), tcache(statistics)];
    let then = [arena_max(statistics), scattered(finding, statistics)];
    first.into_iter().chain(then).flatten().collect()
}

/// Trim gives back what other causes keep, but only once.
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

fn trim(finding: &Finding, statistics: &Statistics) -> Option<Advice> {
    let bytes = statistics.sum(Arena::releasable_bytes);
    let joined = |arena: &Arena| arena.joined_page_bytes.saturating_sub(arena.free_page_bytes);
    let fastbins = size(statistics.sum(joined));
    let chunks = size(statistics.sum(|arena| arena.free_page_bytes));
    let mut evidence = format!(
        "{chunks} in whole pages of free chunks, {fastbins} in pages that become free when a trim merges the fastbins, the rest at the top of the main arena"
    );
    if let Some((site, share)) = first_site(finding) {
        let share = format_share(share);
        evidence += &format!("; most of it pinned by blocks of {} ({share})", name(site));
    }
    Some(Advice {
        cause: "trim",
        action: format!(
            "trim now: ramson trim {}; every time this much is free: ramson run --trim-every 30s, or malloc_trim(0) in the program",
            finding.pid
        ),
        evidence,
        risk: "the pages fault in again when the program needs them; each arena is locked meanwhile, about 0.1 s per GiB returned",
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
    let (top, trim) = (size(main.top.resident_bytes), size(parameters.trim_threshold_bytes));
    let mmap = size(parameters.mmap_threshold_bytes);
    let evidence = format!("{top} at the top of the main arena, which is cut only beyond {trim}");
    Some(if parameters.has_dynamic_thresholds {
        Advice {
            cause: "mmap_threshold",
            action: "fix the thresholds: start it with MALLOC_MMAP_THRESHOLD_=131072".into(),
            evidence: format!(
                "{evidence}; both thresholds moved when a block of {mmap} was freed: blocks up to that size come from the heap since"
            ),
            risk: "every block of 128 KiB or more is mapped and unmapped: slower where they come and go often",
            saving,
        }
    } else {
        Advice {
            cause: "trim_threshold",
            action: "lower the trim threshold: MALLOC_TRIM_THRESHOLD_=131072, or M_TRIM_THRESHOLD in the program".into(),
            evidence,
            risk: "the top is returned and grown again more often",
            saving,
        }
    })
}

fn tcache(statistics: &Statistics) -> Option<Advice> {
    let bytes = statistics.sum(|arena| arena.tcaches.resident_bytes);
    let chunks = statistics.sum(|arena| arena.tcaches.chunks);
    let parameters = &statistics.parameters;
    let (count, most) = (parameters.tcache_count, size(parameters.tcache_max_bytes));
    let smaller = match count {
        _ if parameters.tcache_max_bytes > DEFAULT_TCACHE_MAX_BYTES => {
            format!("tcache_max={DEFAULT_TCACHE_MAX_BYTES}")
        }
        0..=7 => "tcache_count=0".into(),
        _ => "tcache_count=7".into(),
    };
    Some(Advice {
        cause: "tcache",
        action: format!("smaller thread caches: GLIBC_TUNABLES=glibc.malloc.{smaller}"),
        evidence: format!(
            "{chunks} free chunks, {}, in thread caches, which keep {count} of a size up to {most}; no trim reaches them",
            size(bytes)
        ),
        risk: "malloc and free lock the arena more often: slower with many threads",
        // Outside of the caches, they may be the holes of pages in use.
        saving: Saving::at_most(bytes),
    })
}

/// In one arena, what one thread freed serves the others: of what is free, the largest arena's share would be enough.
fn arena_max(statistics: &Statistics) -> Option<Advice> {
    let free =
        |arena: &Arena| arena.free.resident_bytes + arena.top.resident_bytes + arena.fastbins.bytes;
    let used: Vec<u64> = statistics.arenas.iter().map(free).filter(|&bytes| bytes > 0).collect();
    let most = *used.iter().max()?;
    let bytes = used.iter().sum::<u64>() - most;
    (used.len() > 1).then(|| Advice {
        cause: "arena_max",
        action: "fewer arenas: start it with MALLOC_ARENA_MAX=1, or 2 where threads allocate at the same time".into(),
        evidence: format!(
            "{} arenas keep {} free, the largest of them {}: what one thread freed no other can use. Less is saved where threads need their \
             memory at the same time",
            used.len(),
            size(bytes + most),
            size(most)
        ),
        risk: "threads wait for each other in malloc",
        saving: Saving::at_most(bytes),
    })
}

/// Free memory on pages in use, which no trim gives back.
fn scattered(finding: &Finding, statistics: &Statistics) -> Option<Advice> {
    let bytes = finding.part(Part::FreeChunks);
    let resident = statistics.sum(|arena| arena.in_use.resident_bytes + arena.free.resident_bytes);
    let share = format_percent(bytes as f64, resident as f64);
    let mut evidence = format!("{} ({share}) free on pages on which something lives", size(bytes));
    let site = first_site(finding).filter(|(_, share)| *share >= POOL_SHARE);
    let Some((site, share)) = site else {
        return Some(Advice {
            cause: "other_allocator",
            action: "try an allocator that keeps sizes apart: LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=background_thread:true,dirty_decay_ms:1000".into(),
            evidence,
            risk: "another allocator has its own caches and its own speed: measure both. It saves little where blocks of one size stayed \
                 between others of that size",
            saving: Saving::at_most(bytes),
        });
    };
    let name = name(site);
    evidence += &format!("; blocks of {name} hold back {} of it", format_share(share));
    Some(Advice {
        cause: "pool",
        action: format!(
            "give the long-lived blocks of {name} a pool of their own, or allocate them before the others"
        ),
        evidence,
        risk: "a change of the program",
        saving: Saving::at_most(bytes),
    })
}

/// The one that pins most, and its share of all that is pinned.
fn first_site(finding: &Finding) -> Option<(&Site, f64)> {
    let pins = finding.pins.as_ref()?;
    let site = pins.sites.first()?;
    Some((site, site.held.value / pins.held.value.max(1.0)))
}

/// What is possible where no statistics were read: the lever of another allocator, with what it is worth if that was asked.
fn of_other(finding: &Finding, missing: &Missing, least: u64) -> Vec<Advice> {
    let part = |part| finding.part(part);
    let kind = match missing {
        Missing::Unreadable(kind) => Some(*kind),
        Missing::Denied { .. } | Missing::Refused(_) => None,
    };
    let (unused, scattered) = (part(Part::FreePages), part(Part::FreeChunks));
    let (held, pid) = (part(Part::Held), finding.pid);
    let undivided = held + part(Part::Anonymous);
    let lever = kind.and_then(lever);
    if !finding.is_divided() {
        let Some(lever) = lever else {
            let unknown = (undivided >= least).then(|| unknown(finding, missing, undivided));
            return unknown.into_iter().collect();
        };
        let action = match kind {
            Some(AllocatorKind::Jemalloc | AllocatorKind::Tcmalloc) if finding.asked.is_none() => {
                format!("ask it what it keeps: ramson doctor --ask {pid}; {}", lever.action)
            }
            _ => lever.action,
        };
        // With the profile, what lives is told from the rest of its areas.
        let saving = finding.live.and_then(|_| Saving::at_most(held));
        return vec![Advice { action, saving, ..lever }];
    }
    let scattered = Advice {
        cause: "scattered",
        action: "nothing gives it back but the program: move what lives there (redis: CONFIG SET activedefrag yes), or allocate \
                 what lives long apart"
            .into(),
        evidence: format!("{} are free on pages that are in use, by its own figures", size(scattered)),
        risk: "none",
        saving: Saving::at_most(scattered),
    };
    let lever = lever.map(|lever| Advice {
        action: format!("give it back now: ramson trim {pid}; for good, {}", lever.action),
        evidence: format!("{} in pages that hold nothing, by its own figures", size(unused)),
        saving: Saving::at_most(unused),
        ..lever
    });
    lever.into_iter().chain([scattered]).collect()
}

/// Where nothing is known of memory, nothing is not what is to be done.
fn unknown(finding: &Finding, missing: &Missing, undivided: u64) -> Advice {
    let Finding { pid, allocators, live, .. } = finding;
    let why = match missing {
        Missing::Denied { why, .. } => why.clone(),
        _ => missing.to_string(),
    };
    let next = match missing {
        Missing::Denied { next, .. } => next.clone(),
        _ if live.is_some() => format!("See what lives: ramson report {pid}"),
        _ if allocators.glibc.is_none() || allocators.is_32_bit => "Ask the program itself".into(),
        _ => "See what lives: start it with \"ramson run\", then \"ramson report PID\"".into(),
    };
    Advice {
        cause: "unknown",
        action: format!("not known from here. {next}"),
        evidence: format!("{} of anonymous memory is not divided: {why}", size(undivided)),
        risk: "none",
        saving: None,
    }
}

fn lever(kind: AllocatorKind) -> Option<Advice> {
    let action = match kind {
        AllocatorKind::Jemalloc => {
            "jemalloc's own lever: MALLOC_CONF=background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0, or mallctl arena.<i>.purge"
        }
        AllocatorKind::Tcmalloc => {
            "tcmalloc's own lever: TCMALLOC_RELEASE_RATE=10, or MallocExtension::ReleaseFreeMemory in the program"
        }
        AllocatorKind::Mimalloc => {
            "mimalloc's own lever: start the program with MIMALLOC_PURGE_DELAY=0 (before 2.1: MIMALLOC_RESET_DELAY=0)"
        }
        AllocatorKind::Musl | AllocatorKind::InProgram => return None,
    };
    Some(Advice {
        cause: "other_lever",
        action: action.into(),
        evidence: "its statistics cannot be read from outside; malloc_trim does nothing here"
            .into(),
        risk: "given-back pages fault in again",
        saving: None,
    })
}

/// Its frames next to malloc: the first one alone is often a wrapper.
fn name(site: &Site) -> String {
    const SHOWN: usize = 2;
    match &site.frames[..SHOWN.min(site.frames.len())] {
        [] => "(no frames)".into(),
        frames => frames.join(" ← "),
    }
}

fn size(bytes: u64) -> String {
    format_bytes(bytes as f64)
}
