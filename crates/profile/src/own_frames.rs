//! Which frames are the program's own. Frames of libraries and of wrappers around malloc say how memory was asked for, not for
//! what: folded, they leave the stacks and their callers get what they allocated.

use crate::filter::Step;
use crate::language::Language;
use crate::merge::merge_equal_samples;
use crate::model::{Function, Line, Location, Mapping, Profile};
use crate::pattern::Pattern;
use crate::short_name::short_name;
use regex::Regex;
use std::sync::LazyLock;

/// The built-in rules, a kind and an expression on each line: of the standard libraries, and of all others.
const STANDARD: &str = include_str!("standard_frames.rules");
const OTHERS: &str = include_str!("own_frames.rules");

static ALL: LazyLock<Rules> = LazyLock::new(|| Rules::of(&[STANDARD, OTHERS]));
static OF_STANDARD: LazyLock<Rules> = LazyLock::new(|| Rules::of(&[STANDARD]));

/// Each matches a whole text; one without rules matches none.
struct Rules {
    objects: Regex,
    files: Regex,
    functions: Regex,
    interpreters: Regex,
}

/// The rules that tell frames of libraries and wrappers: the built-in ones, and those that the user adds.
#[derive(Clone, Debug, Default)]
pub struct OwnFrames {
    /// Match names of functions, source files or paths of binaries.
    libraries: Vec<Pattern>,
    /// Match names of functions.
    wrappers: Vec<Pattern>,
    /// Whether, of the built-in rules, only those of the standard libraries apply.
    is_standard_only: bool,
}

impl Rules {
    fn of(texts: &[&str]) -> Self {
        let of_kind = |kind: &str| {
            let rule = |line| str::strip_prefix(line, kind)?.strip_prefix(' ').map(str::trim);
            let rules: Vec<&str> =
                texts.iter().flat_map(|text| text.lines().filter_map(rule)).collect();
            // Without any, what never matches: a character that is none.
            let all = if rules.is_empty() { "[^\\s\\S]".into() } else { rules.join("|") };
            Regex::new(&format!("^(?:{all})$")).expect("constant regexps")
        };
        Self {
            objects: of_kind("object"),
            files: of_kind("file"),
            functions: of_kind("function"),
            interpreters: of_kind("interpreter"),
        }
    }
}

impl OwnFrames {
    /// The built-in rules and these.
    pub fn new(libraries: Vec<Pattern>, wrappers: Vec<Pattern>) -> Self {
        Self { libraries, wrappers, is_standard_only: false }
    }

    /// Only the rules of the C, C++ and Rust libraries.
    pub fn of_standard_libraries() -> Self {
        Self { is_standard_only: true, ..Self::default() }
    }

    fn rules(&self) -> &'static Rules {
        if self.is_standard_only { &OF_STANDARD } else { &ALL }
    }

    /// Takes the frames of libraries and wrappers out of all stacks, and merges the stacks that became equal. A stack without
    /// any other frame keeps those that have names. Returns whether anything was taken.
    pub fn fold(&self, profile: &mut Profile) -> bool {
        let functions = profile.functions.iter().map(|function| self.is_function(function));
        let functions: Vec<bool> = functions.collect();
        let mappings = profile.mappings.iter().map(|mapping| self.takes_all_of(mapping));
        let mappings: Vec<bool> = mappings.collect();
        let left = |location: &Location| -> Left {
            // Code made at run time that has no name says nothing.
            if location.mapping.is_none() && location.lines.is_empty() {
                return Left::Unnamed;
            }
            if location.mapping.is_some_and(|mapping| mappings[mapping]) {
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
        let has_run_time = fold_run_times(profile, &self.rules().interpreters);
        let is_folded = left.iter().any(|left| matches!(left, Left::Some(_) | Left::Nothing));
        if left.iter().any(|left| !matches!(left, Left::All)) {
            fold(profile, left);
        }
        is_folded || has_run_time
    }

    /// The user's own rules that match no function, source file or binary.
    pub fn unmatched(&self, profile: &Profile) -> Vec<Step> {
        let names = |pattern: &Pattern| {
            profile.functions.iter().any(|function| pattern.is_match(name_of(function)))
        };
        let has_place = |pattern: &Pattern| {
            profile.functions.iter().any(|function| pattern.is_match(&function.file))
                || profile.mappings.iter().any(|mapping| pattern.is_match(&mapping.path))
        };
        let step = |flag, pattern: &Pattern| Step { flag, value: pattern.as_str().to_owned() };
        let wrappers = self.wrappers.iter().filter(|pattern| !names(pattern));
        let libraries =
            self.libraries.iter().filter(|pattern| !names(pattern) && !has_place(pattern));
        let wrappers = wrappers.map(|pattern| step("--wrapper", pattern));
        wrappers.chain(libraries.map(|pattern| step("--library", pattern))).collect()
    }

    /// Whether a frame of this function in this binary is of a library or a wrapper.
    pub fn takes(&self, function: &Function, mapping: Option<&Mapping>) -> bool {
        self.is_function(function) || mapping.is_some_and(|mapping| self.takes_all_of(mapping))
    }

    fn is_function(&self, function: &Function) -> bool {
        let name = name_of(function);
        let is = |pattern: &Pattern| pattern.is_match(name);
        self.rules().functions.is_match(&short_name(name))
            || self.rules().files.is_match(&function.file)
            || self.wrappers.iter().any(is)
            || self.libraries.iter().any(|pattern| is(pattern) || pattern.is_match(&function.file))
    }

    /// Whether all frames in this binary are of a library.
    pub fn takes_all_of(&self, mapping: &Mapping) -> bool {
        self.rules().objects.is_match(mapping.basename())
            || self.libraries.iter().any(|pattern| pattern.is_match(&mapping.path))
    }
}

fn name_of(function: &Function) -> &str {
    if function.name.is_empty() { &function.system_name } else { &function.name }
}

/// Takes the frames of an interpreter or a virtual machine out of the stacks in which functions of its language have names: it
/// allocates for them. Returns whether there are any.
fn fold_run_times(profile: &mut Profile, interpreters: &Regex) -> bool {
    let names = |line: &Line| Language::of(&profile.functions[line.function].system_name).is_some();
    let is_named: Vec<bool> =
        profile.locations.iter().map(|location| location.lines.iter().any(names)).collect();
    if !is_named.contains(&true) {
        return false;
    }
    let of_mapping = |mapping: &Mapping| interpreters.is_match(&mapping.path);
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

/// The lines that are left of a location.
enum Left {
    All,
    Some(Vec<Line>),
    Nothing,
    Unnamed,
}

fn fold(profile: &mut Profile, left: Vec<Left>) {
    let is_own = |&location: &u32| matches!(left[location as usize], Left::All | Left::Some(_));
    let is_named = |&location: &u32| !matches!(left[location as usize], Left::Unnamed);
    for sample in &mut profile.samples {
        if sample.locations.iter().any(is_own) {
            sample.locations.retain(is_own);
        } else if sample.locations.iter().any(is_named) {
            sample.locations.retain(is_named);
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
