//! One finding of the leak analysis.

use super::groups::Below;
use super::stacks::NamedStack;
use ramson_leaks::Finding;
use ramson_profile::{Estimate, FrameName, Language};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name and file of a function, which identify the function also in another process or build.
pub type Function = (Arc<str>, Arc<str>);

/// Functions of a call path, leaf first, without lines, which identify the path. For code whose compiler inlines more while the
/// program runs, only the innermost: one path has many shapes there, each of which begins and ends.
pub type Key = Vec<Function>;

/// The call path of a stack.
pub fn key(stack: &NamedStack) -> Key {
    functions(stack).take(if is_recompiled(stack) { 1 } else { usize::MAX }).collect()
}

/// Whether a run time may compile the function that allocated into its caller while the program runs.
pub fn is_recompiled(stack: &NamedStack) -> bool {
    let language = stack.frames.first().and_then(|frame| frame.language);
    language.is_some_and(Language::has_inlining_compiler)
}

/// The functions of a stack, leaf first.
pub fn functions(stack: &NamedStack) -> impl Iterator<Item = Function> {
    stack.frames.iter().map(|frame| (frame.name.clone(), frame.file.clone()))
}

/// One function of the program, judged: all that it allocated, or, where only some of its callers leak, what it allocated for
/// these.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Suspect {
    /// Verdict, reason and evidence.
    #[serde(flatten)]
    pub finding: Finding,
    /// Share of all live bytes that were judged, 0 to 1.
    pub share: f64,
    /// The first sample was taken that long ago …
    pub first_seen_ns: u64,
    /// … which was then.
    pub first_seen_unix_ns: u64,
    /// Time since which it has grown at least, in ns since 1970; null if it does not grow.
    pub growing_since_unix_ns: Option<u64>,
    /// The program's own function that allocated, line 0.
    #[serde(flatten)]
    pub function: FrameName,
    /// Further functions whose memory is part of it: the run time compiles them into their caller, or did so for some time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compiled_together: Vec<FrameName>,
    /// Its lines, those with the most live bytes first.
    pub lines: Vec<LineShare>,
    /// How many stacks they are.
    pub stacks: usize,
    /// The stack with the most live bytes, leaf first, with lines.
    pub frames: Vec<FrameName>,
    #[serde(skip)]
    pub(super) keys: Vec<Key>,
    /// The functions below which it was allocated, itself too, without the outermost ones.
    #[serde(skip)]
    pub(super) callers: BTreeMap<Function, Below>,
}

/// Live memory that one line allocated.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LineShare {
    /// 0 if unknown.
    pub line: u32,
    /// Live bytes.
    pub inuse_space: Estimate,
    /// Live samples, raw.
    pub samples: u64,
}

impl Suspect {
    pub(super) fn is_growing(&self) -> bool {
        self.finding.is_growing()
    }

    /// Records were lost: what is live is at least this.
    pub(super) fn mark_part(&mut self) {
        let finding = &mut self.finding;
        finding.inuse_objects = finding.inuse_objects.as_part();
        finding.inuse_space = finding.inuse_space.as_part();
    }

    /// Orders growing suspects first, by their growth; then those with the most live bytes.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let weight = |it: &Self| match &it.finding.growth {
            Some(growth) if it.is_growing() => growth.per_hour.value,
            _ => it.finding.inuse_space.value,
        };
        let growing_first = other.is_growing().cmp(&self.is_growing());
        growing_first.then_with(|| weight(other).total_cmp(&weight(self)))
    }
}
