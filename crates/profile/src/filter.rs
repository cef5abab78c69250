//! Which stacks, and which frames of them, are looked at: pprof's `focus`, `ignore`, `hide`, `show`, `show_from`, `tagfocus`
//! and `tagignore`, with its meaning and its order.
//!
//! An expression matches a code address if it matches the name or the file of a function there, inlined ones included, or
//! the path of the mapping. Every function and mapping is matched once, however many stacks it is in. A stack that was not
//! recorded has the one frame `STACKS_NOT_RECORDED`.

use crate::frames::STACKS_NOT_RECORDED;
use crate::model::{Line, Location, Profile, StackSample};
use crate::pattern::Pattern;
use crate::tag_filter::TagFilter;
use std::fmt;

/// All filters; each is off unless given. Applied in the order of the fields.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Stacks with a matching frame go.
    pub ignore: Option<Pattern>,
    /// Stacks without a matching frame go.
    pub focus: Option<Pattern>,
    /// Matching frames go; what they allocated counts for their callers.
    pub hide: Option<Pattern>,
    /// Frames that do not match go.
    pub show: Option<Pattern>,
    /// The callers of the matching frame next to the root go, and stacks without a matching frame.
    pub show_from: Option<Pattern>,
    /// Samples whose labels do not match go.
    pub tag_focus: Option<TagFilter>,
    /// Samples whose labels match go.
    pub tag_ignore: Option<TagFilter>,
}

/// A filter that matched nothing, and so changed nothing or left nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Name of the flag, with its dashes.
    pub flag: &'static str,
    /// Its value.
    pub value: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}'", self.flag, self.value)
    }
}

impl Filters {
    /// Applies all filters. Returns those that matched nothing, or as an error the one that would have left no stack: then
    /// the profile is as that filter found it.
    pub fn apply(&self, profile: &mut Profile) -> Result<Vec<Step>, Step> {
        let mut unmatched = Vec::new();
        let by_name: [(&'static str, &Option<Pattern>, NameFilter); 5] = [
            ("--ignore", &self.ignore, |profile, matches| {
                retain(profile, |_, sample| !matches.stack(sample))
            }),
            ("--focus", &self.focus, |profile, matches| {
                retain(profile, |_, sample| matches.stack(sample))
            }),
            ("--hide", &self.hide, hide),
            ("--show", &self.show, show),
            ("--show-from", &self.show_from, show_from),
        ];
        for (flag, pattern, filter) in by_name {
            let Some(pattern) = pattern else { continue };
            let matches = Matches::new(profile, pattern);
            let step = Step { flag, value: pattern.as_str().to_owned() };
            finish(filter(profile, &matches), matches.any(), step, &mut unmatched)?;
        }
        let by_tag =
            [("--tagfocus", &self.tag_focus, true), ("--tagignore", &self.tag_ignore, false)];
        for (flag, filter, keeps_matching) in by_tag {
            let Some(filter) = filter else { continue };
            let matches = filter.matches(profile);
            let any = matches.contains(&true);
            let step = Step { flag, value: filter.as_str().to_owned() };
            let left = retain(profile, |index, _| matches[index] == keeps_matching);
            finish(left, any, step, &mut unmatched)?;
        }
        Ok(unmatched)
    }
}

/// Changes the profile and returns true, or returns false because no stack would be left.
type NameFilter = fn(&mut Profile, &Matches) -> bool;

fn finish(left: bool, matched: bool, step: Step, unmatched: &mut Vec<Step>) -> Result<(), Step> {
    if !left {
        return Err(step);
    }
    if !matched {
        unmatched.push(step);
    }
    Ok(())
}

/// What one expression matches.
struct Matches {
    functions: Vec<bool>,
    mappings: Vec<bool>,
    locations: Vec<bool>,
    /// The frame of stacks that were not recorded.
    not_recorded: bool,
}

impl Matches {
    fn new(profile: &Profile, pattern: &Pattern) -> Matches {
        let is_match = |text: &str| pattern.is_match(text);
        let functions = profile.functions.iter();
        let mut matches = Matches {
            functions: functions
                .map(|function| is_match(&function.name) || is_match(&function.file))
                .collect(),
            mappings: profile.mappings.iter().map(|mapping| is_match(&mapping.path)).collect(),
            locations: Vec::new(),
            not_recorded: is_match(STACKS_NOT_RECORDED) || is_match(""),
        };
        let of_location = |Location { mapping, lines, .. }: &Location| {
            matches.mapping(*mapping) || lines.iter().any(|line| matches.line(line))
        };
        matches.locations = profile.locations.iter().map(of_location).collect();
        matches
    }

    fn line(&self, line: &Line) -> bool {
        self.functions[line.function]
    }

    fn mapping(&self, mapping: Option<usize>) -> bool {
        mapping.is_some_and(|mapping| self.mappings[mapping])
    }

    fn any(&self) -> bool {
        self.not_recorded || self.locations.contains(&true)
    }

    fn stack(&self, sample: &StackSample) -> bool {
        has_one_of(sample, &self.locations, self.not_recorded)
    }
}

fn has_one_of(sample: &StackSample, locations: &[bool], not_recorded: bool) -> bool {
    match sample.locations.as_slice() {
        [] => not_recorded,
        stack => stack.iter().any(|&location| locations[location as usize]),
    }
}

/// Keeps the samples that are wanted, unless none is.
fn retain(profile: &mut Profile, wanted: impl Fn(usize, &StackSample) -> bool) -> bool {
    let any = profile.samples.iter().enumerate().any(|(index, sample)| wanted(index, sample));
    if any {
        let mut index = 0;
        profile.samples.retain(|sample| {
            index += 1;
            wanted(index - 1, sample)
        });
    }
    any
}

fn hide(profile: &mut Profile, matches: &Matches) -> bool {
    let is_kept = |mapping, line: &Line| !matches.mapping(mapping) && !matches.line(line);
    // An address without a name has no line to lose: it goes if its mapping matches.
    keep_lines(profile, is_kept, |mapping| !matches.mapping(mapping), !matches.not_recorded)
}

fn show(profile: &mut Profile, matches: &Matches) -> bool {
    let is_kept = |mapping, line: &Line| matches.mapping(mapping) || matches.line(line);
    // As in pprof, an address without a name goes even if its mapping matches.
    keep_lines(profile, is_kept, |_| false, matches.not_recorded)
}

/// Leaves every location the lines that are kept. One that has none left goes from the stacks, and so do stacks without any
/// frame left. Lines and addresses without a name are judged with their mapping.
fn keep_lines(
    profile: &mut Profile,
    is_kept: impl Fn(Option<usize>, &Line) -> bool,
    is_nameless_kept: impl Fn(Option<usize>) -> bool,
    is_not_recorded_kept: bool,
) -> bool {
    let has_kept = |Location { mapping, lines, .. }: &Location| match lines.as_slice() {
        [] => is_nameless_kept(*mapping),
        lines => lines.iter().any(|line| is_kept(*mapping, line)),
    };
    let kept: Vec<bool> = profile.locations.iter().map(has_kept).collect();
    if !retain(profile, |_, sample| has_one_of(sample, &kept, is_not_recorded_kept)) {
        return false;
    }
    for sample in &mut profile.samples {
        sample.locations.retain(|&location| kept[location as usize]);
    }
    for Location { mapping, lines, .. } in &mut profile.locations {
        lines.retain(|line| is_kept(*mapping, line));
    }
    true
}

fn show_from(profile: &mut Profile, matches: &Matches) -> bool {
    if !retain(profile, |_, sample| matches.stack(sample)) {
        return false;
    }
    for sample in &mut profile.samples {
        let is_match = |&location: &u32| matches.locations[location as usize];
        sample
            .locations
            .truncate(sample.locations.iter().rposition(is_match).map_or(0, |at| at + 1));
    }
    for location in &mut profile.locations {
        let last = location.lines.iter().rposition(|line| matches.line(line));
        if let (false, Some(last)) = (matches.mapping(location.mapping), last) {
            location.lines.truncate(last + 1);
        }
    }
    true
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
