//! pprof's tag filters: `[key=]expression[,expression…]` on texts, `[key=]range` on numbers.
//!
//! A range is `32kb` (equal), `4mb:` (at least), `:64kb` (at most) or `12kb:64mb`, and matches only numbers with a unit of
//! the same kind: a bare `64` does not match 64 bytes. Without a key every label is tried; a text is then matched as
//! `key:text`, and every one of the expressions has to match some label, while with a key one that matches is enough.

use crate::labels::{Label, LabelValue};
use crate::model::Profile;
use crate::pattern::{BadPattern, Pattern};
use std::collections::HashMap;
use std::sync::Arc;

/// A filter on labels.
#[derive(Clone, Debug)]
pub struct TagFilter {
    text: String,
    key: Option<String>,
    wanted: Wanted,
}

#[derive(Clone, Debug)]
enum Wanted {
    Range(Range),
    Texts(Vec<Pattern>),
}

/// In `unit`; `None`: no bound.
#[derive(Clone, Debug)]
struct Range {
    least: Option<f64>,
    most: Option<f64>,
    unit: String,
}

impl TagFilter {
    /// Reads a filter as pprof does.
    pub fn new(text: &str) -> Result<TagFilter, BadPattern> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (Some(key.to_owned()), value),
            None => (None, text),
        };
        let wanted = match Range::new(value) {
            Some(range) => Wanted::Range(range),
            None => Wanted::Texts(value.split(',').map(Pattern::new).collect::<Result<_, _>>()?),
        };
        Ok(TagFilter { text: text.to_owned(), key, wanted })
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Per sample, whether its labels match.
    pub(crate) fn matches(&self, profile: &Profile) -> Vec<bool> {
        let units = units(profile);
        // A label is matched once, however many samples have it.
        let mut known: HashMap<&Label, Vec<bool>> = HashMap::new();
        let expressions = match &self.wanted {
            Wanted::Range(_) => 1,
            Wanted::Texts(expressions) => expressions.len(),
        };
        let needed = if self.key.is_some() { 1 } else { expressions };
        let samples = profile.samples.iter().map(|sample| {
            let mut found = vec![false; expressions];
            for label in sample.labels.iter() {
                let matches = known.entry(label).or_insert_with(|| self.label(label, &units));
                found.iter_mut().zip(matches).for_each(|(found, matches)| *found |= *matches);
            }
            found.into_iter().filter(|&found| found).count() >= needed
        });
        samples.collect()
    }

    /// Which of the expressions match.
    fn label(&self, label: &Label, units: &HashMap<Arc<str>, Arc<str>>) -> Vec<bool> {
        let has_key = self.key.as_deref().is_none_or(|key| key == &*label.key);
        match (&self.wanted, &label.value) {
            (Wanted::Range(range), LabelValue::Number { value, .. }) => {
                vec![has_key && range.contains(*value, &units[&label.key])]
            }
            (Wanted::Range(_), LabelValue::Text(_)) => vec![false],
            (Wanted::Texts(patterns), LabelValue::Number { .. }) => vec![false; patterns.len()],
            (Wanted::Texts(patterns), LabelValue::Text(text)) => {
                let shown = match self.key {
                    Some(_) => text.to_string(),
                    None => format!("{}:{text}", label.key),
                };
                patterns.iter().map(|pattern| has_key && pattern.is_match(&shown)).collect()
            }
        }
    }
}

/// The unit of each key of numbers: the first one that is met, or what the key is taken for without any.
fn units(profile: &Profile) -> HashMap<Arc<str>, Arc<str>> {
    let mut units: HashMap<Arc<str>, Arc<str>> = HashMap::new();
    for label in profile.samples.iter().flat_map(|sample| sample.labels.iter()) {
        if let LabelValue::Number { unit, .. } = &label.value {
            match units.get_mut(&label.key) {
                Some(known) if known.is_empty() => *known = unit.clone(),
                Some(_) => {}
                None => {
                    units.insert(label.key.clone(), unit.clone());
                }
            }
        }
    }
    for (key, unit) in units.iter_mut().filter(|(_, unit)| unit.is_empty()) {
        *unit =
            if ["alignment", "request"].contains(&&**key) { "bytes".into() } else { key.clone() };
    }
    units
}

impl Range {
    /// `None` if the text is no range: then it is an expression.
    fn new(text: &str) -> Option<Range> {
        let own_unit = |text| {
            let (value, unit) = measure(text)?;
            Some(scale(value, unit, unit))
        };
        let (least, most) = text.split_once(':').unwrap_or((text, text));
        if least.is_empty() {
            let (most, unit) = own_unit(most)?;
            return Some(Range { least: None, most: Some(most), unit });
        }
        let (least, unit) = own_unit(least)?;
        if most.is_empty() {
            return Some(Range { least: Some(least), most: None, unit });
        }
        let (most, most_unit) = measure(most)?;
        let (most, most_unit) = scale(most, most_unit, &unit);
        (most_unit == unit).then_some(Range { least: Some(least), most: Some(most), unit })
    }

    fn contains(&self, value: i64, unit: &str) -> bool {
        let (value, unit) = scale(value, unit, &self.unit);
        unit == self.unit
            && self.least.is_none_or(|least| value >= least)
            && self.most.is_none_or(|most| value <= most)
    }
}

/// `-12kb` as −12 and `kb`.
fn measure(text: &str) -> Option<(i64, &str)> {
    let digits_at = usize::from(text.starts_with(['+', '-']));
    let digits = text[digits_at..].bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits_at + digits);
    let is_unit = unit.bytes().all(|byte| byte.is_ascii_alphabetic());
    Some((number.parse().ok().filter(|_| is_unit)?, unit))
}

/// A unit: its name, what else it is called, and its size in the smallest one of its kind.
type Unit = (&'static str, &'static [&'static str], f64);

/// pprof's units. A value that is to be converted to a unit of another kind is given in the first one of its own.
const KINDS: [&[Unit]; 3] = [
    &[
        ("B", &["b", "byte"], 1.0),
        ("kB", &["kb", "kbyte", "kilobyte"], 1024.0),
        ("MB", &["mb", "mbyte", "megabyte"], 1048576.0),
        ("GB", &["gb", "gbyte", "gigabyte"], 1073741824.0),
        ("TB", &["tb", "tbyte", "terabyte"], 1099511627776.0),
        ("PB", &["pb", "pbyte", "petabyte"], 1125899906842624.0),
    ],
    &[
        ("s", &["s", "sec", "second"], 1e9),
        ("ns", &["ns", "nanosecond"], 1.0),
        ("us", &["μs", "us", "microsecond"], 1e3),
        ("ms", &["ms", "millisecond"], 1e6),
        ("hrs", &["hour", "hr"], 3600e9),
    ],
    &[
        ("GCU", &["gcu"], 1.0),
        ("n*GCU", &["nanogcu"], 1e-9),
        ("u*GCU", &["microgcu"], 1e-6),
        ("m*GCU", &["milligcu"], 1e-3),
        ("k*GCU", &["kilogcu"], 1e3),
        ("M*GCU", &["megagcu"], 1e6),
        ("G*GCU", &["gigagcu"], 1e9),
        ("T*GCU", &["teragcu"], 1e12),
        ("P*GCU", &["petagcu"], 1e15),
    ],
];

fn find_unit(kind: &'static [Unit], name: &str) -> Option<&'static Unit> {
    let name = name.to_lowercase();
    let singular = if name.len() > 2 { name.strip_suffix('s').unwrap_or(&name) } else { &name };
    kind.iter().find(|(_, names, _)| names.contains(&singular))
}

/// `value` in the unit `to`, and the unit's proper name. Units that pprof does not know stay as they are.
fn scale(value: i64, from: &str, to: &str) -> (f64, String) {
    for kind in KINDS {
        if let Some((_, _, from_size)) = find_unit(kind, from) {
            let (name, _, size) = find_unit(kind, to).unwrap_or(&kind[0]);
            return (value as f64 * from_size / size, (*name).to_owned());
        }
    }
    let is_plain = ["count", "sample", "unit", "minimum", "auto"].contains(&to);
    (value as f64, if is_plain { String::new() } else { to.to_owned() })
}

#[cfg(test)]
#[path = "tag_filter_tests.rs"]
mod tests;
