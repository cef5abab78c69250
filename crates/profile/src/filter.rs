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
            ("--ignore", &self.ignore, ignore),
            ("--focus", &self.focus, focus),
            ("--hide", &self.hide, hide),
            ("--show", &self.show, show),
            ("--show-from", &self.show_from, show_from),
        ];
        for (flag, pattern, filter) in by_name {
            let Some(pattern) = pattern else { continue };
            let matches = Matches::new(profile, pattern);
            let step = Step { flag, value: pattern.as_str().to_owned() };
            finish(filter(profile, &matches), matches.any(profile), step, &mut unmatched)?;
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

/// The functions and mappings that one expression matches.
struct Matches {
    functions: Vec<bool>,
    mappings: Vec<bool>,
    /// The frame of stacks that were not recorded.
    not_recorded: bool,
}

impl Matches {
    fn new(profile: &Profile, pattern: &Pattern) -> Matches {
        let is_match = |text: &str| pattern.is_match(text);
        let functions = profile.functions.iter();
        Matches {
            functions: functions
                .map(|function| is_match(&function.name) || is_match(&function.file))
                .collect(),
            mappings: profile.mappings.iter().map(|mapping| is_match(&mapping.path)).collect(),
            not_recorded: is_match(STACKS_NOT_RECORDED) || is_match(""),
        }
    }

    fn line(&self, line: &Line) -> bool {
        self.functions[line.function]
    }

    fn mapping(&self, location: &Location) -> bool {
        location.mapping.is_some_and(|mapping| self.mappings[mapping])
    }

    fn location(&self, location: &Location) -> bool {
        self.mapping(location) || location.lines.iter().any(|line| self.line(line))
    }

    fn locations(&self, profile: &Profile) -> Vec<bool> {
        profile.locations.iter().map(|location| self.location(location)).collect()
    }

    fn any(&self, profile: &Profile) -> bool {
        self.not_recorded || profile.locations.iter().any(|location| self.location(location))
    }

    fn stack(&self, sample: &StackSample, locations: &[bool]) -> bool {
        match sample.locations.as_slice() {
            [] => self.not_recorded,
            stack => stack.iter().any(|&location| locations[location as usize]),
        }
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

fn ignore(profile: &mut Profile, matches: &Matches) -> bool {
    let locations = matches.locations(profile);
    retain(profile, |_, sample| !matches.stack(sample, &locations))
}

fn focus(profile: &mut Profile, matches: &Matches) -> bool {
    let locations = matches.locations(profile);
    retain(profile, |_, sample| matches.stack(sample, &locations))
}

fn hide(profile: &mut Profile, matches: &Matches) -> bool {
    let keep = |location: &Location| -> Vec<Line> {
        let lines = location.lines.iter().filter(|line| !matches.line(line));
        lines.filter(|_| !matches.mapping(location)).cloned().collect()
    };
    // An address without a name has no line to lose: it goes if its mapping matches.
    keep_lines(profile, keep, |location| !matches.location(location), !matches.not_recorded)
}

fn show(profile: &mut Profile, matches: &Matches) -> bool {
    let keep = |location: &Location| -> Vec<Line> {
        let whole = matches.mapping(location);
        location.lines.iter().filter(|line| whole || matches.line(line)).cloned().collect()
    };
    // As in pprof, an address without a name goes even if its mapping matches.
    keep_lines(profile, keep, |_| false, matches.not_recorded)
}

/// Gives every location the lines that `keep` says. One that has none left goes from the stacks unless it `stays`, and so
/// do stacks without any frame left.
fn keep_lines(
    profile: &mut Profile,
    keep: impl Fn(&Location) -> Vec<Line>,
    stays: impl Fn(&Location) -> bool,
    keep_not_recorded: bool,
) -> bool {
    let lines: Vec<Vec<Line>> = profile.locations.iter().map(keep).collect();
    let kept: Vec<bool> = profile
        .locations
        .iter()
        .zip(&lines)
        .map(|(location, lines)| !lines.is_empty() || stays(location))
        .collect();
    let left = retain(profile, |_, sample| match sample.locations.as_slice() {
        [] => keep_not_recorded,
        stack => stack.iter().any(|&location| kept[location as usize]),
    });
    if left {
        for sample in &mut profile.samples {
            sample.locations.retain(|&location| kept[location as usize]);
        }
        for (location, lines) in profile.locations.iter_mut().zip(lines) {
            location.lines = lines;
        }
    }
    left
}

fn show_from(profile: &mut Profile, matches: &Matches) -> bool {
    let locations = matches.locations(profile);
    if !retain(profile, |_, sample| matches.stack(sample, &locations)) {
        return false;
    }
    for sample in &mut profile.samples {
        let last = sample.locations.iter().rposition(|&location| locations[location as usize]);
        sample.locations.truncate(last.map_or(0, |last| last + 1));
    }
    for location in &mut profile.locations {
        let last = location.lines.iter().rposition(|line| matches.line(line));
        if let (false, Some(last)) = (matches.mapping(location), last) {
            location.lines.truncate(last + 1);
        }
    }
    true
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
