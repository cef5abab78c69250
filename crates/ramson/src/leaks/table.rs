//! The suspects as text: verdict and reason, evidence, stack.

use super::{Findings, Suspect};
use crate::text;
use ramson_leaks::{Finding, Growth, Verdict};
use ramson_profile::format::{
    format_bytes, format_duration, format_objects, format_relative_error, format_share,
};
use ramson_profile::is_library_function;
use std::fmt::Write;

/// Frames shown of a stack.
const MAX_FRAMES: usize = 12;

/// Everything below the heading.
pub fn table(findings: &Findings, top: usize) -> String {
    let mut out = summary(findings);
    let most = if top == 0 { usize::MAX } else { top };
    for (index, suspect) in findings.suspects.iter().take(most).enumerate() {
        push_suspect(&mut out, index + 1, suspect);
    }
    if findings.suspects.len() > most {
        let _ =
            writeln!(out, "\n({} more stacks; --top 0 shows all)", findings.suspects.len() - most);
    }
    out
}

fn summary(findings: &Findings) -> String {
    let mut out = match findings.suspects.len() {
        0 => "no stack holds live memory that was sampled".to_owned(),
        1 => "1 stack holds live memory".to_owned(),
        count => format!("{} stacks hold live memory", format_objects(count as f64)),
    };
    let mut separator = ": ";
    for verdict in Verdict::ALL {
        let of = |suspect: &&Suspect| suspect.finding.verdict == verdict;
        let count = findings.suspects.iter().filter(of).count();
        if count > 0 {
            let _ = write!(out, "{separator}{count} {verdict}");
            separator = ", ";
        }
    }
    out.push('\n');
    if findings.suppressed + findings.known > 0 {
        let _ = writeln!(
            out,
            "hidden: {} by suppressions, {} growing in the baseline already",
            findings.suppressed, findings.known
        );
    }
    out
}

fn push_suspect(out: &mut String, rank: usize, suspect: &Suspect) {
    let finding = &suspect.finding;
    let names = suspect.stack.frames.iter().filter(|(frame, _)| !is_library_function(&frame.name));
    let shown = names.clone().take(MAX_FRAMES).map(|(frame, line)| match line {
        0 => ramson_profile::short_name(&frame.name),
        line => format!("{}:{line}", ramson_profile::short_name(&frame.name)),
    });
    let mut stack = shown.collect::<Vec<_>>().join(" ← ");
    if names.count() > MAX_FRAMES {
        stack.push_str(" ← …");
    }
    let lines = [
        format!("{rank}. {}: {}", finding.verdict, finding.reason),
        format!("   {}", live(finding)),
        format!("   {}", ages(suspect)),
        format!("   {stack}"),
    ];
    out.push('\n');
    for line in lines {
        let _ = writeln!(out, "{}", text::cut(&line, text::columns()));
    }
}

fn live(finding: &Finding) -> String {
    let mut out = format!(
        "live {} ({}), objects {}, samples {}",
        format_bytes(finding.inuse_space.value),
        format_relative_error(finding.inuse_space),
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
    let significance = if growth.is_significant { "significant" } else { "may be chance" };
    match (growth.is_measured, verdict) {
        (true, _) => format!("growth {rate} over {window}, {significance}"),
        (false, Verdict::Growing) => {
            format!("growth {rate} from the ages of what is kept, {significance}")
        }
        (false, _) => "growth not measured (--window, --since)".into(),
    }
}

fn ages(suspect: &Suspect) -> String {
    let (finding, history) = (&suspect.finding, &suspect.stack.history);
    let mut out = format!("first seen {} ago", format_duration(history.observed_ns()));
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
