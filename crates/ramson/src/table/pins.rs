//! Text on the blocks that pin free memory, and on what to do about them.

use super::{Table, most, push_prose, push_rest, size};
use ramson_analysis::explain::{Advice, Finding, Needs, Saving};
use ramson_profile::format::{
    format_bytes, format_duration, format_objects, format_relative_error,
};
use std::iter;

pub fn push_pins(out: &mut String, finding: &Finding, rows: usize) {
    // What a trim returns is pinned by nothing.
    if !finding.is_much_pinned() {
        return;
    }
    out.push('\n');
    let Some(pins) = &finding.pins else {
        let why = "not known without a profile. Start the program with \"ramson run\"";
        return push_prose(out, "pinned by: ", why);
    };
    let samples = format_objects(pins.samples as f64);
    if pins.sites.is_empty() {
        let why =
            format!("not known: {samples} sampled blocks are too few to tell call sites apart");
        return push_prose(out, "pinned by: ", &why);
    }
    let title = format!(
        "{} of free memory is pinned by live blocks on its pages, by call site ({samples} sampled blocks)",
        size(pins.arenas_bytes)
    );
    push_prose(out, "", &title);
    let mut table = Table::new(
        out,
        "pins:>10|±:>8@60|live:>10@100|±:>8@120|age p50:>9@80|oldest:>9@120|allocated by",
    );
    let mut rest = pins.arenas_bytes as f64;
    for site in pins.sites.iter().take(most(rows)) {
        rest -= site.held.value;
        table.row([
            format_bytes(site.held.value),
            format_relative_error(site.held).replace('±', ""),
            format_bytes(site.live.value),
            format_relative_error(site.live).replace('±', ""),
            format_duration(site.median_age_ns),
            format_duration(site.oldest_age_ns),
            site.frames.join(" ← "),
        ]);
    }
    if rest > 0.0 {
        table.line_across(&format!("{:>10} all others", format_bytes(rest)));
    }
    push_rest(out, pins.sites.len(), most(rows), " sites");
}

/// Width of what stands before the text: `Why`, `Now`, `Fix`.
const LABEL: usize = 6;

/// Adds why the memory is there, a sentence for each cause.
pub fn push_causes(out: &mut String, sentences: impl Iterator<Item = String>) {
    let labels = ["Why"].into_iter().chain(iter::repeat(""));
    for (label, sentence) in labels.zip(sentences) {
        push_prose(out, &format!("{label:<LABEL$}"), &sentence);
    }
}

/// Adds advice, each behind what says where to follow it: what an operator can do now, then what takes a change of the code. `has_evidence`
/// says whether the figures behind it are shown.
pub fn push_advice<'a>(
    out: &mut String,
    advice: impl Iterator<Item = (String, &'a Advice)>,
    has_evidence: bool,
) {
    let (code, now): (Vec<_>, Vec<_>) = advice.partition(|(_, it)| it.needs == Needs::Code);
    for (title, steps) in [("Now", now), ("Fix", code)] {
        let labels = [title].into_iter().chain(iter::repeat(""));
        let is_one = steps.len() == 1;
        for (number, ((place, advice), label)) in (1..).zip(steps.into_iter().zip(labels)) {
            if number == 1 {
                out.push('\n');
            }
            let number = if is_one { String::new() } else { format!("{number}. ") };
            let saves = advice.saving.map(|saving| format!(" (saves {})", saving_text(saving)));
            let action = format!("{place}{}{}", advice.action, saves.unwrap_or_default());
            push_prose(out, &format!("{label:<LABEL$}{number}"), &action);
            let below = LABEL + number.len();
            if has_evidence {
                push_prose(out, &format!("{:below$}because ", ""), &advice.evidence);
            }
            if advice.risk != "none" && title == "Now" {
                push_prose(out, &format!("{:below$}risk: ", ""), advice.risk);
            }
        }
    }
}

fn saving_text(saving: Saving) -> String {
    let Saving { bytes, half_width_95, is_at_most } = saving;
    let bound = if is_at_most { "at most " } else { "" };
    let error = half_width_95.filter(|&bytes| bytes > 0);
    let error = error.map(|bytes| format!(" ±{}", size(bytes)));
    format!("{bound}{}{}", size(bytes), error.unwrap_or_default())
}
