//! How fast a process grows as a whole, in a sentence each.

use ramson_analysis::summary::Subject;
use ramson_analysis::suspects::{Suspects, Totals};
use ramson_leaks::Slope;
use ramson_profile::Estimate;
use ramson_profile::format::{format_duration, format_per_hour};

/// Processes of several that are named.
const MOST_PROCESSES: usize = 3;

/// The sentences; none where all growth is that of the leak suspects.
pub fn lines(found: &Suspects) -> Vec<String> {
    let totals = &found.answer.totals;
    let suspects = found.answer.growth_per_hour;
    let live = totals.live_per_hour.filter(|&live| exceeds(live, suspects));
    let live = live.map(|live| format!("all live memory grows by {}", format_per_hour(live)));
    let rss = of_rss(totals).or_else(|| not_known(found));
    rss.into_iter().chain(of_each(found)).chain(live).collect()
}

/// The processes of several whose RSS grows, the fastest first.
fn of_each(found: &Suspects) -> impl Iterator<Item = String> {
    let rate = |of: &Suspects| {
        let totals = &of.answer.totals;
        totals.rss.or(totals.outside_malloc).map_or(0.0, |slope| slope.bytes_per_hour.value)
    };
    let mut growing: Vec<&Suspects> = found.processes.iter().map(|each| &each.answer).collect();
    growing.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let line = |of: &Suspects| {
        let Subject::Recording(summary) = &of.subject else { return None };
        Some(format!("{} (pid {}): {}", summary.name, summary.pid, of_rss(&of.answer.totals)?))
    };
    growing.into_iter().filter_map(line).take(MOST_PROCESSES).collect::<Vec<_>>().into_iter()
}

/// Whether a rate is above another one for sure.
fn exceeds(all: Estimate, part: Estimate) -> bool {
    all.value - all.half_width_95() > part.value + part.half_width_95()
}

/// `RSS grows by 1.90 GiB/h (±120 MiB) over 65 s; 1.20 GiB/h (±90 MiB) of it is outside malloc: V8's heap, whose contents ramson cannot
/// see (…)`.
fn of_rss(totals: &Totals) -> Option<String> {
    let rate = |slope: Slope| format_per_hour(slope.bytes_per_hour);
    let outside = totals.outside_malloc.filter(Slope::is_growth);
    let rss = totals.rss.filter(Slope::is_growth);
    let time = format_duration(rss.or(outside)?.window_ns);
    let owner = totals.owner.as_deref().unwrap_or("other anonymous memory");
    let advice = totals.advice.as_ref().map_or(String::new(), |advice| format!(" ({advice})"));
    let outside = outside.map(|slope| (rate(slope), owner));
    Some(match (rss, outside) {
        (Some(rss), Some((outside, owner))) => format!(
            "RSS grows by {} over {time}; {outside} of it is outside malloc: {owner}, whose contents ramson cannot see{advice}",
            rate(rss)
        ),
        (Some(rss), None) => format!("RSS grows by {} over {time}", rate(rss)),
        (None, Some((outside, owner))) => format!(
            "memory outside malloc grows by {outside} over {time}: {owner}, whose contents ramson cannot see{advice}"
        ),
        (None, None) => return None,
    })
}

/// Much memory is outside malloc, and nobody looked at it twice.
fn not_known(found: &Suspects) -> Option<String> {
    let Subject::Recording(summary) = &found.subject else { return None };
    let has_much = summary.coverage.as_ref().is_some_and(|coverage| coverage.line().is_some());
    let is_unknown = found.answer.is_running && found.answer.totals.rss.is_none() && has_much;
    is_unknown.then(|| {
        format!(
            "whether memory outside malloc grows is not known: ramson leaks {} --window 2m measures it",
            summary.pid
        )
    })
}
