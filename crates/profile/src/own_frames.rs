//! Which frames are the program's own. Frames of libraries and of wrappers around malloc say how memory was asked for, not for
//! what: folded, they leave the stacks and their callers get what they allocated.

use crate::language::Language;
use crate::merge::merge_equal_samples;
use crate::model::{Function, Line, Location, Mapping, Profile};
use crate::pattern::Pattern;
use crate::short_name::short_name;
use regex::Regex;
use std::sync::{Arc, LazyLock};

/// The built-in rules, a kind and an expression on each line.
const RULES: &str = include_str!("own_frames.rules");

static OBJECTS: LazyLock<Regex> = LazyLock::new(|| rules("object"));
static FILES: LazyLock<Regex> = LazyLock::new(|| rules("file"));
static FUNCTIONS: LazyLock<Regex> = LazyLock::new(|| rules("function"));
static INTERPRETERS: LazyLock<Regex> = LazyLock::new(|| rules("interpreter"));

/// The rules that tell frames of libraries and wrappers: the built-in ones, and those that the user adds.
#[derive(Clone, Debug, Default)]
pub struct OwnFrames {
    /// Match names of functions, source files or paths of binaries.
    libraries: Vec<Pattern>,
    /// Match names of functions.
    wrappers: Vec<Pattern>,
}

/// All rules of a kind as one expression, which matches a whole text.
fn rules(kind: &str) -> Regex {
    let rule = |line: &'static str| line.strip_prefix(kind)?.strip_prefix(' ').map(str::trim);
    let rules: Vec<&str> = RULES.lines().filter_map(rule).collect();
    Regex::new(&format!("^(?:{})$", rules.join("|"))).expect("constant regexps")
}

impl OwnFrames {
    /// The built-in rules and these.
    pub fn new(libraries: Vec<Pattern>, wrappers: Vec<Pattern>) -> Self {
        Self { libraries, wrappers }
    }

    /// Takes the frames of libraries and wrappers out of all stacks, and merges the stacks that became equal. A stack without
    /// any other frame stays whole. Returns whether anything was taken.
    pub fn fold(&self, profile: &mut Profile) -> bool {
        let functions = profile.functions.iter().map(|function| self.is_function(function));
        let functions: Vec<bool> = functions.collect();
        let mappings = profile.mappings.iter().map(|mapping| self.is_object(mapping));
        let mappings: Vec<bool> = mappings.collect();
        let left = |location: &Location| -> Left {
            // Code made at run time that has no name says nothing.
            let is_unnamed = location.mapping.is_none() && location.lines.is_empty();
            if is_unnamed || location.mapping.is_some_and(|mapping| mappings[mapping]) {
                return Left::Nothing;
            }
            let own = |line: &&Line| !functions[line.function];
            match location.lines.iter().filter(own).count() {
                count if count == location.lines.len() => Left::All,
                0 => Left::Nothing,
                _ => Left::Some(location.lines.iter().filter(own).cloned().collect()),
            }
        };
        let left: Vec<Left> = profile.locations.iter().map(left).collect();
        let has_run_time = fold_run_times(profile);
        if left.iter().all(|left| matches!(left, Left::All)) && !has_run_time {
            return false;
        }
        fold(profile, left);
        true
    }

    fn is_function(&self, function: &Function) -> bool {
        let name: &Arc<str> = match function.name.is_empty() {
            true => &function.system_name,
            false => &function.name,
        };
        let is = |pattern: &Pattern| pattern.is_match(name);
        FUNCTIONS.is_match(&short_name(name))
            || FILES.is_match(&function.file)
            || self.wrappers.iter().any(is)
            || self.libraries.iter().any(|pattern| is(pattern) || pattern.is_match(&function.file))
    }

    fn is_object(&self, mapping: &Mapping) -> bool {
        OBJECTS.is_match(mapping.basename())
            || self.libraries.iter().any(|pattern| pattern.is_match(&mapping.path))
    }
}

/// Takes the frames of an interpreter or a virtual machine out of the stacks in which functions of its language have names: it
/// allocates for them. Returns whether there are any.
fn fold_run_times(profile: &mut Profile) -> bool {
    let names = |line: &Line| {
        let language = Language::of(&profile.functions[line.function].system_name);
        language.is_some()
    };
    let is_named: Vec<bool> =
        profile.locations.iter().map(|location| location.lines.iter().any(names)).collect();
    if !is_named.contains(&true) {
        return false;
    }
    let of_mapping = |mapping: &Mapping| INTERPRETERS.is_match(&mapping.path);
    let of_mapping: Vec<bool> = profile.mappings.iter().map(of_mapping).collect();
    let runs = |location: &Location| location.mapping.is_some_and(|mapping| of_mapping[mapping]);
    let runs: Vec<bool> = profile.locations.iter().map(runs).collect();
    for sample in &mut profile.samples {
        if sample.locations.iter().any(|&location| is_named[location as usize]) {
            sample.locations.retain(|&location| !runs[location as usize]);
        }
    }
    true
}

/// What is left of a location.
enum Left {
    All,
    Some(Vec<Line>),
    Nothing,
}

fn fold(profile: &mut Profile, left: Vec<Left>) {
    let is_own = |&location: &u32| !matches!(left[location as usize], Left::Nothing);
    for sample in &mut profile.samples {
        if sample.locations.iter().any(is_own) {
            sample.locations.retain(is_own);
        }
    }
    for (location, left) in profile.locations.iter_mut().zip(left) {
        if let Left::Some(lines) = left {
            location.lines = lines;
        }
    }
    merge_equal_samples(&mut profile.samples);
}

#[cfg(test)]
#[path = "own_frames_tests.rs"]
mod tests;
