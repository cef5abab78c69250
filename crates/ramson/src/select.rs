//! Which part of a profile a command looks at: pprof's filters and granularities, for every command that reads.

use crate::failure::Failure;
use crate::text;
use clap::Args;
use ramson_profile::format::{format_objects, format_value};
use ramson_profile::view::{Sort, top};
use ramson_profile::{
    Filters, Granularity, LabelValue, Pattern, Profile, SampleType, Step, TagFilter,
};
use std::collections::{BTreeMap, BTreeSet};

/// Names and labels mentioned where a filter left nothing.
const MAX_NAMES: usize = 5;

const GRANULARITIES: [(&str, Granularity); 6] = [
    ("functions", Granularity::Functions),
    ("filefunctions", Granularity::FileFunctions),
    ("files", Granularity::Files),
    ("lines", Granularity::Lines),
    ("addresses", Granularity::Addresses),
    ("mappings", Granularity::Mappings),
];

/// A filter's expression matches a function's name, its file or the path of its binary.
#[derive(Args, Clone)]
#[command(next_help_heading = "Filters (RE matches names of functions, files and binaries)")]
pub struct FilterOptions {
    /// Only stacks with a frame that matches
    #[arg(long, value_name = "RE", value_parser = parse_pattern)]
    pub focus: Option<Pattern>,
    /// No stacks with a frame that matches
    #[arg(long, value_name = "RE", value_parser = parse_pattern)]
    pub ignore: Option<Pattern>,
    /// Take matching frames out of all stacks; their callers get what they allocated
    #[arg(long, value_name = "RE", value_parser = parse_pattern)]
    pub hide: Option<Pattern>,
    /// Take all other frames out
    #[arg(long, value_name = "RE", value_parser = parse_pattern)]
    pub show: Option<Pattern>,
    /// Take the callers of the outermost matching frame out, and stacks without one
    #[arg(long, value_name = "RE", value_parser = parse_pattern)]
    pub show_from: Option<Pattern>,
    /// Only samples with a matching label: thread=RE, or bytes=RANGE of block sizes, as 1kb:64kb or 4mb:
    #[arg(long, value_name = "[KEY=]RE|RANGE", value_parser = parse_tag_filter, alias = "tag-focus")]
    pub tagfocus: Option<TagFilter>,
    /// No samples with a matching label
    #[arg(long, value_name = "[KEY=]RE|RANGE", value_parser = parse_tag_filter, alias = "tag-ignore")]
    pub tagignore: Option<TagFilter>,
    /// What one row stands for: functions (by name; default of diff, as builds may be in different directories), filefunctions
    /// (by name and file; default elsewhere), files, lines, addresses or mappings
    #[arg(long, value_name = "WHAT", value_parser = parse_granularity)]
    pub granularity: Option<Granularity>,
}

impl FilterOptions {
    /// Whether samples have to be told apart by their labels.
    pub fn use_labels(&self) -> bool {
        self.tagfocus.is_some() || self.tagignore.is_some()
    }

    /// Makes `profile` the part that is asked for. Fails if nothing is left of it.
    pub fn apply(&self, profile: &mut Profile, sample_type: SampleType) -> Result<(), Failure> {
        profile.granularity = self.granularity.unwrap_or(profile.granularity);
        let filters = Filters {
            ignore: self.ignore.clone(),
            focus: self.focus.clone(),
            hide: self.hide.clone(),
            show: self.show.clone(),
            show_from: self.show_from.clone(),
            tag_focus: self.tagfocus.clone(),
            tag_ignore: self.tagignore.clone(),
        };
        if profile.samples.is_empty() {
            return Ok(());
        }
        match filters.apply(profile) {
            Ok(unmatched) => {
                for step in unmatched {
                    text::hint(&format!("{step} matches nothing"));
                }
                Ok(())
            }
            Err(step) => Err(Failure::failed(nothing_left(&step, profile, sample_type))),
        }
    }
}

/// What the filter found, so that the next attempt may hit.
fn nothing_left(step: &Step, profile: &Profile, sample_type: SampleType) -> String {
    let (kind, mut names) = match step.flag.starts_with("--tag") {
        true => ("labels there", labels(profile)),
        false => {
            let rows = top(profile, sample_type, Sort::Flat).rows.into_iter();
            ("largest frames there", rows.map(|row| row.name.to_string()).collect())
        }
    };
    if names.len() > MAX_NAMES {
        names.truncate(MAX_NAMES);
        names.push("…".into());
    }
    if names.is_empty() {
        names.push("none".into());
    }
    format!(
        "{step} leaves nothing of {} {sample_type} in {} stacks. The {kind}: {}",
        format_value(profile.total(sample_type).value, sample_type.unit()),
        format_objects(profile.samples.len() as f64),
        names.join(", "),
    )
}

/// Numbers as the range from the least to the most of a key, then all texts.
fn labels(profile: &Profile) -> Vec<String> {
    let mut numbers: BTreeMap<(&str, &str), (i64, i64)> = BTreeMap::new();
    let mut texts: BTreeSet<String> = BTreeSet::new();
    for label in profile.samples.iter().flat_map(|sample| sample.labels.iter()) {
        match &label.value {
            LabelValue::Text(_) => {
                texts.insert(label.to_string());
            }
            LabelValue::Number { value, unit } => {
                let (least, most) = numbers.entry((&label.key, unit)).or_insert((*value, *value));
                *least = *value.min(least);
                *most = *value.max(most);
            }
        }
    }
    let ranges = numbers
        .into_iter()
        .map(|((key, unit), (least, most))| format!("{key}={least}{unit}:{most}{unit}"));
    ranges.chain(texts).collect()
}

/// For flags that are regular expressions.
pub fn parse_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text).map_err(|error| error.to_string())
}

fn parse_tag_filter(text: &str) -> Result<TagFilter, String> {
    TagFilter::new(text).map_err(|error| error.to_string())
}

fn parse_granularity(text: &str) -> Result<Granularity, String> {
    let known = GRANULARITIES.iter().find(|(name, _)| *name == text);
    known
        .map(|&(_, granularity)| granularity)
        .ok_or_else(|| format!("one of {}", GRANULARITIES.map(|(name, _)| name).join(", ")))
}
