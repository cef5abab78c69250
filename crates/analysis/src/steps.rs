//! Steps of RSS: it rose or fell within a short time, and live memory did not follow.

use crate::terms::Terms;
use ramson_process::Term;
use ramson_profile::format::{format_bytes, format_duration};
use ramson_profile::{Estimate, NORMAL_QUANTILE_975};
use serde::Serialize;

/// A step is at least this share of the largest RSS, and this many bytes.
const LEAST_SHARE: f64 = 0.03;
const LEAST_BYTES: f64 = (1 << 20) as f64;
/// Live memory follows with more than this share of a step.
const FOLLOWED: f64 = 0.4;
/// A step takes no longer than this, or than this part of all the time that is looked at.
const MOST_NS: u64 = 60_000_000_000;
const MOST_PART: u64 = 50;
/// Largest share of a step that is cut off its ends.
const CUT_OFF: f64 = 0.05;
const MOST_STEPS: usize = 5;
/// More moments are thinned: every pair within a step is looked at.
const MOST_SEEN: usize = 2_000;

/// A process at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    /// Resident bytes.
    pub rss: u64,
    /// Live bytes.
    pub live: Estimate,
    /// Free in the allocator, or held by it.
    pub free: Option<Estimate>,
    /// The terms of RSS, where they were read.
    pub terms: Option<Terms>,
}

/// One of the largest steps.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Step {
    /// The moment before it, in nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// The moment after it.
    pub to_unix_ns: u64,
    /// Change of RSS, in bytes.
    pub rss: i64,
    /// Change of live bytes.
    pub live: Estimate,
    /// Change of the memory that the allocator has free or holds, in bytes; null: not known.
    pub free: Option<Estimate>,
    /// The step in words.
    pub sentence: String,
}

/// The largest steps, in their order.
pub fn steps(seen: &[Seen]) -> Vec<Step> {
    let piece = seen.len().div_ceil(MOST_SEEN).max(1);
    let seen: Vec<&Seen> =
        seen.chunks(piece).filter_map(|piece| piece.iter().max_by_key(|it| it.rss)).collect();
    let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return Vec::new() };
    let most_ns = MOST_NS.max((last.unix_ns - first.unix_ns) / MOST_PART);
    let most = seen.iter().map(|it| it.rss).max().unwrap_or(0) as f64;
    let least = LEAST_BYTES.max(LEAST_SHARE * most);
    let mut found: Vec<(usize, usize)> = Vec::new();
    for from in 0..seen.len() {
        for to in from + 1..seen.len() {
            if to > from + 1 && seen[to].unix_ns - seen[from].unix_ns > most_ns {
                break;
            }
            if is_step(seen[from], seen[to], least) {
                found.push((from, to));
            }
        }
    }
    let size = |&(from, to): &(usize, usize)| seen[to].rss.abs_diff(seen[from].rss);
    found.sort_by_key(|step| (std::cmp::Reverse(size(step)), step.1 - step.0));
    let mut chosen: Vec<(usize, usize)> = Vec::new();
    for step in found {
        if chosen.len() < MOST_STEPS && chosen.iter().all(|it| step.1 <= it.0 || it.1 <= step.0) {
            chosen.push(step);
        }
    }
    chosen.sort_unstable();
    let shortened = |step| shortened(&seen, step, least * (1.0 - CUT_OFF));
    chosen.into_iter().map(|step| Step::of(&seen, shortened(step))).collect()
}

fn change(from: &Seen, to: &Seen) -> f64 {
    to.rss as f64 - from.rss as f64
}

fn is_step(from: &Seen, to: &Seen, least: f64) -> bool {
    let rss = change(from, to);
    let live = to.live - from.live;
    // Two moments share most of their samples, so that this is rather too careful.
    let noise = NORMAL_QUANTILE_975 * live.variance.max(0.0).sqrt();
    // A change of live beyond that of RSS is no step of RSS.
    let unfollowed = (rss - live.value) * rss.signum();
    rss.abs() >= least && unfollowed > noise && unfollowed > (1.0 - FOLLOWED) * rss.abs()
}

/// Without what is nearly level before and after it.
fn shortened(seen: &[&Seen], (mut from, mut to): (usize, usize), least: f64) -> (usize, usize) {
    let whole = change(seen[from], seen[to]);
    let is_all = |from: usize, to: usize| {
        let part = change(seen[from], seen[to]) / whole;
        part >= 1.0 - CUT_OFF && is_step(seen[from], seen[to], least)
    };
    while from + 1 < to && is_all(from + 1, to) {
        from += 1;
    }
    while from + 1 < to && is_all(from, to - 1) {
        to -= 1;
    }
    (from, to)
}

impl Step {
    fn of(seen: &[&Seen], ends: (usize, usize)) -> Self {
        let (from, to) = (seen[ends.0], seen[ends.1]);
        let rss = change(from, to);
        let live = to.live - from.live;
        let free = to.free.zip(from.free).map(|(to, from)| to - from);
        Self {
            from_unix_ns: from.unix_ns,
            to_unix_ns: to.unix_ns,
            rss: rss as i64,
            live,
            free,
            sentence: sentence(
                (rss, live.value, free),
                term(seen, ends, rss),
                to.unix_ns - from.unix_ns,
            ),
        }
    }
}

/// The term that makes up most of a step, and its change. They are not read at every moment: those around the step count if RSS differs
/// between them by about as much.
fn term(seen: &[&Seen], (from, to): (usize, usize), rss: f64) -> Option<(Term, f64)> {
    let before = seen[..=from].iter().rev().find(|seen| seen.terms.is_some())?;
    let after = seen[to..].iter().find(|seen| seen.terms.is_some())?;
    let (Terms(before_terms), Terms(after_terms)) = (before.terms?, after.terms?);
    let is_same = (0.75..1.33).contains(&(change(before, after) / rss));
    let changes = before_terms.iter().zip(after_terms).map(|(from, to)| (to - from) as f64);
    let named = Term::ALL.iter().map(|&(term, _)| term).zip(changes);
    let most = named.max_by(|a, b| (a.1 / rss).total_cmp(&(b.1 / rss)))?;
    (is_same && most.1 / rss > 0.5).then_some(most)
}

fn sentence(
    (rss, live, free): (f64, f64, Option<Estimate>),
    term: Option<(Term, f64)>,
    ns: u64,
) -> String {
    let signed = |bytes: f64| {
        let sign = if bytes < 0.0 { "−" } else { "+" };
        format!("{sign}{}", format_bytes(bytes.abs()))
    };
    let moved = if rss > 0.0 { "rose" } else { "fell" };
    let where_to = match free {
        _ if let Some((term, bytes)) = term.filter(|(term, _)| *term != Term::Free) => {
            let name = Term::ALL[term as usize].1.replace('_', " ");
            format!("; {name} did ({})", signed(bytes))
        }
        Some(free) if free.value / rss > 0.5 && rss > 0.0 => {
            format!("; the allocator has {} more free memory", format_bytes(free.value))
        }
        Some(free) if free.value / rss > 0.5 => {
            format!("; the allocator has {} less free memory", format_bytes(-free.value))
        }
        Some(_) => "; nor did the allocator's free memory, so it is memory outside malloc".into(),
        None => String::new(),
    };
    format!(
        "RSS {moved} by {} in {}; live did not follow ({}){where_to}.",
        format_bytes(rss.abs()),
        format_duration(ns),
        signed(live)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MIB: f64 = (1 << 20) as f64;

    fn at(second: u64, rss: f64, live: f64, free: f64) -> Seen {
        let variance = (0.2 * MIB).powi(2);
        Seen {
            unix_ns: second * SECOND,
            rss: (rss * MIB) as u64,
            live: Estimate::new(live * MIB, variance),
            free: Some(Estimate::exact(free * MIB)),
            terms: None,
        }
    }

    #[test]
    fn moved_term_is_named() {
        let seen = |second: u64| {
            let mapped = if second < 50 { 20 } else { 80 };
            let mut terms = [0; Term::ALL.len()];
            terms[Term::Live as usize] = 90 << 20;
            terms[Term::Mmap as usize] = mapped << 20;
            let is_read = second % 10 == 5;
            Seen {
                terms: is_read.then_some(Terms(terms)),
                free: None,
                ..at(second, 90.0 + mapped as f64, 90.0, 0.0)
            }
        };
        let found = steps(&(0..100).map(seen).collect::<Vec<_>>());
        assert_eq!(
            found[0].sentence,
            "RSS rose by 60.0 MiB in 1.0 s; live did not follow (+0 B); mmap did (+60.0 MiB)."
        );
    }

    #[test]
    fn slow_rise_is_one_step() {
        let level = (0..100).map(|second| at(second, 100.0, 90.0, 5.0));
        let rise = (100..110).map(|second| at(second, 55.0 + second as f64 / 2.0, 90.0, 5.0));
        let high = (110..300).map(|second| at(second, 120.0, 90.5, 24.5));
        let all: Vec<Seen> = level.chain(rise).chain(high).collect();
        let found = steps(&all);
        assert_eq!(found.len(), 1, "{found:?}");
        let step = &found[0];
        assert!(step.from_unix_ns >= 98 * SECOND && step.to_unix_ns == 110 * SECOND, "{step:?}");
        assert!((step.rss as f64 - 20.0 * MIB).abs() <= 1.0 * MIB, "{step:?}");
        assert!(step.sentence.contains("RSS rose by "), "{}", step.sentence);
        assert!(step.sentence.contains("19.5 MiB more free memory"), "{}", step.sentence);
    }

    #[test]
    fn followed_rise_is_no_step() {
        let grows = |second: u64| at(second, 100.0 + second as f64, 90.0 + second as f64, 5.0);
        assert_eq!(steps(&(0..200).map(grows).collect::<Vec<_>>()), []);
        let wide = |second: u64| {
            let seen = at(second, if second < 50 { 100.0 } else { 110.0 }, 90.0, 5.0);
            Seen { live: Estimate { variance: (8.0 * MIB).powi(2), ..seen.live }, ..seen }
        };
        assert_eq!(steps(&(0..100).map(wide).collect::<Vec<_>>()), []);
        // Its live bytes were not known yet at first.
        let late = |second: u64| {
            let seen = at(second, 100.0 + second as f64, 90.0 + second as f64, 5.0);
            if second == 0 { Seen { live: Estimate::default(), ..seen } } else { seen }
        };
        assert_eq!(steps(&(0..100).map(late).collect::<Vec<_>>()), []);
        assert_eq!(steps(&[]), []);
    }

    #[test]
    fn fall_and_outside_memory_are_named() {
        let seen = |second: u64| match second {
            0..50 => at(second, 200.0, 90.0, 50.0),
            50..100 => at(second, 160.0, 90.0, 10.0),
            _ => at(second, 260.0, 90.0, 10.0),
        };
        let found = steps(&(0..150).map(seen).collect::<Vec<_>>());
        let sentences: Vec<&str> = found.iter().map(|step| step.sentence.as_str()).collect();
        assert_eq!(
            sentences,
            [
                "RSS fell by 40.0 MiB in 1.0 s; live did not follow (+0 B); the allocator has 40.0 MiB less free memory.",
                "RSS rose by 100 MiB in 1.0 s; live did not follow (+0 B); nor did the allocator's free memory, so it is memory outside malloc.",
            ]
        );
    }
}
