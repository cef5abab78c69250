//! The part of a profile that is asked for.

use ramson_profile::format::{format_objects, format_value};
use ramson_profile::view::{Sort, top};
use ramson_profile::{Filters, Granularity, LabelValue, OwnFrames, Profile, SampleType, Step};
use ramson_source::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// Names listed in a message.
const MAX_NAMES: usize = 5;

/// Filters, which frames are shown, and what one row stands for.
#[derive(Clone, Default)]
pub struct Selection {
    /// Applied in pprof's order.
    pub filters: Filters,
    /// Which frames stay, after the filters; `None`: all.
    pub own_frames: Option<OwnFrames>,
    /// `None`: the command's own default.
    pub granularity: Option<Granularity>,
}

/// The result of applying a selection to a profile.
#[derive(Default)]
pub struct Applied {
    /// Filters that matched nothing.
    pub unmatched: Vec<Step>,
    /// Frames of libraries or wrappers left the stacks.
    pub is_folded: bool,
}

impl Selection {
    /// Whether samples have to be told apart by their labels.
    pub fn uses_labels(&self) -> bool {
        self.filters.tag_focus.is_some() || self.filters.tag_ignore.is_some()
    }

    /// The same with all frames.
    pub fn with_all_frames(&self) -> Self {
        Self { own_frames: None, ..self.clone() }
    }

    /// Makes `profile` the part that is asked for. Fails if nothing is left.
    pub fn apply(
        &self,
        profile: &mut Profile,
        sample_type: SampleType,
    ) -> Result<Applied, Failure> {
        profile.granularity = self.granularity.unwrap_or(profile.granularity);
        if profile.samples.is_empty() {
            return Ok(Applied::default());
        }
        let mut unmatched = self
            .filters
            .apply(profile)
            .map_err(|step| Failure::NothingLeft(nothing_left(&step, profile, sample_type)))?;
        unmatched.extend(self.own_frames.iter().flat_map(|own| own.unmatched(profile)));
        let is_folded = self.own_frames.as_ref().is_some_and(|own| own.fold(profile));
        Ok(Applied { unmatched, is_folded })
    }
}

/// Lists the labels or frames that the filter met, so that the next attempt may hit.
fn nothing_left(step: &Step, profile: &Profile, sample_type: SampleType) -> String {
    let (kind, mut names) = if step.flag.starts_with("--tag") {
        ("labels there", labels(profile))
    } else {
        let rows = top(profile, sample_type, Sort::Flat).rows.into_iter();
        ("largest frames there", rows.map(|row| row.name.to_string()).collect())
    };
    if names.len() > MAX_NAMES {
        names.truncate(MAX_NAMES);
        names.push("…".into());
    }
    if names.is_empty() {
        names.push("none".into());
    }
    format!(
        "{step} leaves nothing of {} {} in {} stacks. The {kind}: {}",
        format_value(profile.total(sample_type).value, sample_type.unit()),
        sample_type.word(),
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
