//! `ramson report`: what is using the memory.

use crate::flags::ReportFlags;
use crate::output::{hint, print, print_json_of_kind};
use crate::table::{self, symbols_hint};
use ramson_analysis::explain::examine;
use ramson_analysis::question::Question;
use ramson_analysis::report::report as answer_to;
use ramson_profile::view::Sort;
use ramson_source::{Failure, find_target, open_all};

pub fn report(flags: &ReportFlags) -> Result<(), Failure> {
    let mut members = open_all(&flags.source.sources).inspect_err(|_| {
        if !flags.json {
            say_without_profile(&flags.source.sources);
        }
    })?;
    let report = answer_to(&mut members, &flags.into())?;
    for step in &report.unmatched {
        hint(&format!("{step} matches nothing"));
    }
    if flags.json {
        print_json_of_kind(&report)?;
    } else {
        let source = flags.source.sources.join(" ");
        let shown = table::report::Shown {
            rows: flags.rows,
            is_each: flags.each,
            has_details: flags.details,
        };
        let mut text = table::report::text(&report, shown, &source);
        let has_reason = symbols_hint::push(&mut text, &report, flags.rows);
        print(&text)?;
        if !has_reason {
            symbols_hint::say(&report, flags.rows);
        }
    }
    // The end of the process frees a million stacks sooner than they free themselves.
    std::mem::forget(report);
    Ok(())
}

impl From<&ReportFlags> for Question {
    fn from(flags: &ReportFlags) -> Self {
        Self {
            sources: flags.source.sources.clone(),
            names: flags.source.names.names(),
            selection: flags.frames.selection(&flags.filters),
            kinds: flags.kind.unwrap_or_default(),
            sample_type: flags.count,
            view: flags.view.clone(),
            sort: flags.sort.unwrap_or(Sort::Flat),
            rows: flags.rows,
            address: flags.address,
            ..Self::default()
        }
    }
}

/// Prints what the RSS of a running process without a profile is, before the line that says that there is no profile.
pub fn say_without_profile(sources: &[String]) {
    let [source] = sources else { return };
    let target = find_target(source).ok().filter(|target| target.profile.is_none());
    let finding = target.and_then(|target| examine(&target, &Question::default(), None).ok());
    if let Some(finding) = finding {
        // The failure that follows has the status.
        let _ = print(&table::stacks::unprofiled(&finding, source));
    }
}
