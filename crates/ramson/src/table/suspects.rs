//! The suspects as text: verdict and reason, evidence, stack.

use super::{blocks, columns, cut, most, push_rest, stack, subject};
use ramson_analysis::suspects::{Suspect, Suspects};
use ramson_leaks::{Finding, Growth, Verdict};
use ramson_profile::SampleUnit;
use ramson_profile::format::{
    format_bytes, format_duration, format_estimate, format_objects, format_share,
};
use std::fmt::Write;

/// Frames shown of a stack.
const MAX_FRAMES: usize = 12;

/// The whole text; at most so many stacks, 0: all. Of several processes the stacks of all, or those of each.
pub fn text(found: &Suspects, rows: usize, is_each: bool) -> String {
    if found.processes.is_empty() || !is_each {
        return block(found, rows);
    }
    let heading = subject::heading(&found.subject, &found.defects);
    blocks(&heading, &found.processes, |suspects| block(suspects, rows))
}

fn block(found: &Suspects, rows: usize) -> String {
    let mut out = subject::heading(&found.subject, &found.defects) + &summary(found);
    for (index, suspect) in found.suspects.iter().take(most(rows)).enumerate() {
        push_suspect(&mut out, index + 1, suspect);
    }
    if found.suspects.len() > most(rows) {
        out.push('\n');
    }
    push_rest(&mut out, found.suspects.len(), most(rows), " stacks");
    out
}

fn summary(found: &Suspects) -> String {
    let mut out = match found.suspects.len() {
        0 => "no stack holds live memory that was sampled".to_owned(),
        1 => "1 stack holds live memory".to_owned(),
        count => format!("{} stacks hold live memory", format_objects(count as f64)),
    };
    let of = |verdict| {
        let all = found.suspects.iter().filter(|suspect| suspect.finding.verdict == verdict);
        Some(all.count()).filter(|&count| count > 0).map(|count| format!("{count} {verdict}"))
    };
    let verdicts: Vec<String> = Verdict::ALL.into_iter().filter_map(of).collect();
    if !verdicts.is_empty() {
        let _ = write!(out, ": {}", verdicts.join(", "));
    }
    out.push('\n');
    if found.suppressed + found.known > 0 {
        let _ = writeln!(
            out,
            "hidden: {} by suppressions, {} growing in the baseline already",
            found.suppressed, found.known
        );
    }
    out
}

fn push_suspect(out: &mut String, rank: usize, suspect: &Suspect) {
    let finding = &suspect.finding;
    let stack = stack(&suspect.frames, MAX_FRAMES);
    let lines = [
        format!("{rank}. {}: {}", finding.verdict, finding.reason),
        format!("   {}", live(finding)),
        format!("   {}", ages(suspect)),
        format!("   {stack}"),
    ];
    out.push('\n');
    for line in lines {
        let _ = writeln!(out, "{}", cut(&line, columns()));
    }
}

fn live(finding: &Finding) -> String {
    let mut out = format!(
        "live {}, objects {}, samples {}",
        format_estimate(finding.inuse_space, SampleUnit::Bytes),
        format_objects(finding.inuse_objects.value),
        format_objects(finding.samples as f64),
    );
    if let Some(growth) = &finding.growth {
        let _ = write!(out, "; {}", growth_text(growth, finding.verdict));
    }
    out
}

fn growth_text(growth: &Growth, verdict: Verdict) -> String {
    let rate = format!(
        "{}/h (±{})",
        format_bytes(growth.per_hour.value),
        format_bytes(growth.per_hour.half_width_95())
    );
    let window = format_duration(growth.window_ns);
    let significance = if growth.is_significant { "significant" } else { "not significant" };
    match (growth.is_measured, verdict) {
        (true, _) => format!("growth {rate} over {window}, {significance}"),
        (false, Verdict::Growing) => {
            format!("growth {rate} from the ages of what is kept, {significance}")
        }
        (false, _) => "growth not measured (--window, --since)".into(),
    }
}

fn ages(suspect: &Suspect) -> String {
    let finding = &suspect.finding;
    let mut out = format!("first seen {} ago", format_duration(suspect.first_seen_ns));
    if let Some(ages) = finding.ages {
        let _ = write!(
            out,
            "; age p50 {}, oldest {}",
            format_duration(ages.p50_ns),
            format_duration(ages.oldest_ns)
        );
    }
    if let Some(survival) = &finding.survival {
        let (least, most) = survival.interval;
        let _ = write!(
            out,
            "; never freed {} ({} to {})",
            format_share(survival.never_freed),
            format_share(least),
            format_share(most)
        );
    }
    out
}
