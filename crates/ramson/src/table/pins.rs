//! What pins free memory, and what to do about it, as text.

use super::push_prose;
use ramson_analysis::doctor::{Advice, Finding, Saving};
use ramson_analysis::rss::live_text;
use ramson_process::Term;
use ramson_profile::format::{
    format_bytes, format_duration, format_objects, format_relative_error,
};
use std::fmt::Write;

/// Adds the sites.
pub fn push_pins(out: &mut String, finding: &Finding, rows: usize, columns: Option<usize>) {
    let Some(pins) = &finding.pins else {
        if finding.rss.term(Term::Free).value > 0.05 * finding.rss.bytes as f64 {
            out.push('\n');
            let why = "not known without a profile. Start the program with \"ramson run\"";
            push_prose(out, "pinned by: ", why, columns);
        }
        return;
    };
    if pins.sites.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nfree memory pinned by: blocks that touch it, half for each side ({} sampled blocks)\n{:>10} {:>8} {:>10} {:>9} {:>9}  allocated by",
        format_objects(pins.samples as f64),
        "pins",
        "±",
        "live",
        "age p50",
        "oldest",
    );
    let most = if rows == 0 { usize::MAX } else { rows };
    for site in pins.sites.iter().take(most) {
        let _ = writeln!(
            out,
            "{:>10} {:>8} {:>10} {:>9} {:>9}  {}",
            format_bytes(site.held.value),
            format_relative_error(site.held).replace('±', ""),
            format_bytes(site.live.value),
            format_duration(site.median_age_ns),
            format_duration(site.oldest_age_ns),
            site.frames.join(" ← "),
        );
    }
    if pins.sites.len() > most {
        let _ = writeln!(out, "({} more sites; -n 0 shows all)", pins.sites.len() - most);
    }
    let _ = writeln!(out, "{:>10} all sites", live_text(pins.held));
}

/// Adds the advice.
pub fn push_advice(out: &mut String, advice: &[Advice], columns: Option<usize>) {
    let here: Vec<(String, &Advice)> =
        advice.iter().map(|advice| (String::new(), advice)).collect();
    push_advice_at(out, &here, columns);
}

/// Adds advice, each behind what says where to follow it.
pub fn push_advice_at(out: &mut String, advice: &[(String, &Advice)], columns: Option<usize>) {
    out.push_str("\nwhat to do\n");
    for (index, (place, advice)) in advice.iter().enumerate() {
        let saving = match advice.saving {
            None => String::new(),
            Some(Saving { bytes, half_width_95, is_at_most }) => {
                let bound = if is_at_most { "at most " } else { "" };
                let error = half_width_95.filter(|&bytes| bytes > 0);
                let error = error.map(|bytes| format!(" (±{})", format_bytes(bytes as f64)));
                let bytes = format_bytes(bytes as f64);
                format!(": saves {bound}{bytes}{}", error.unwrap_or_default())
            }
        };
        let number = format!("{}. ", index + 1);
        push_prose(out, &number, &format!("{place}{}{saving}", advice.action), columns);
        push_prose(out, "   why   ", &advice.evidence, columns);
        if advice.risk != "none" {
            push_prose(out, "   risk  ", advice.risk, columns);
        }
    }
}
