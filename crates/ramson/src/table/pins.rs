//! Text on the blocks that pin free memory, and on what to do about them.

use super::{Table, most, push_prose, push_rest, size};
use ramson_analysis::explain::{Advice, Finding, Needs, Saving};
use ramson_analysis::rss::live_text;
use ramson_process::Term;
use ramson_profile::format::{
    format_bytes, format_duration, format_objects, format_relative_error,
};
use std::fmt::Write;

pub fn push_pins(out: &mut String, finding: &Finding, rows: usize) {
    let Some(pins) = &finding.pins else {
        if finding.rss.term(Term::Free).value > 0.05 * finding.rss.bytes as f64 {
            let why = "not known without a profile. Start the program with \"ramson run\"";
            out.push('\n');
            push_prose(out, "pinned by: ", why);
        }
        return;
    };
    if pins.sites.is_empty() {
        return;
    }
    let samples = format_objects(pins.samples as f64);
    let _ = writeln!(
        out,
        "\nfree memory pinned by live blocks beside it, by call site ({samples} sampled blocks)"
    );
    let mut table = Table::new(
        out,
        "pins:>10|±:>8@60|live:>10@100|±:>8@120|age p50:>9@80|oldest:>9@120|allocated by",
    );
    for site in pins.sites.iter().take(most(rows)) {
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
    push_rest(out, pins.sites.len(), most(rows), " sites");
    let _ = writeln!(out, "{:>10} all sites", live_text(pins.held));
}

/// Adds advice, each behind what says where to follow it: what an operator can do, then what takes a change of the code.
pub fn push_advice<'a>(out: &mut String, advice: impl Iterator<Item = (String, &'a Advice)>) {
    let mut heading = "";
    let mut steps = 0;
    for (place, advice) in advice {
        let its = match advice.needs {
            Needs::Nothing => {
                out.push('\n');
                push_prose(out, "", &format!("{place}{}", advice.action));
                continue;
            }
            Needs::Code => "what to change in the code",
            Needs::Command | Needs::Restart => "what to do",
        };
        if its != heading {
            let _ = writeln!(out, "\n{its}");
            heading = its;
        }
        steps += 1;
        let number = format!("{steps}. ");
        push_prose(out, &number, &format!("{place}{}", advice.action));
        if let Some(saving) = advice.saving {
            push_prose(out, "   saves ", &saving_text(saving));
        }
        push_prose(out, "   why   ", &advice.evidence);
        if advice.risk != "none" {
            push_prose(out, "   risk  ", advice.risk);
        }
    }
}

fn saving_text(saving: Saving) -> String {
    let Saving { bytes, half_width_95, is_at_most } = saving;
    let bound = if is_at_most { "at most " } else { "" };
    let error = half_width_95.filter(|&bytes| bytes > 0);
    let error = error.map(|bytes| format!(" (±{})", size(bytes)));
    format!("{bound}{}{}", size(bytes), error.unwrap_or_default())
}
