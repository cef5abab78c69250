//! From stacks to findings: a function with all that it allocated is one, whatever its lines and its callers; where only some
//! callers leak, what is allocated for these is one of its own.

use super::groups::Below;
use super::recompiled;
use super::stacks::NamedStack;
use super::suspect::{Function, Key, LineShare, Suspect, functions, key};
use crate::question::MIN_AGE_NS;
use ramson_leaks::{Finding, Growth, Judged, Settings, StackHistory, Verdict, judge_paths};
use ramson_profile::{Estimate, FrameName, SampleUnit};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The moment that the findings are of.
#[derive(Default)]
pub struct Moment {
    /// All live bytes.
    pub live: Estimate,
    /// When it was.
    pub unix_ns: u64,
    /// Whether any of the processes runs on.
    pub is_running: bool,
}

/// The stacks of one function by their call paths.
type Paths = BTreeMap<Key, Vec<NamedStack>>;

/// Judges every function; no stack is left out.
pub fn judged(stacks: Vec<NamedStack>, min_age_ns: u64, of: &Moment) -> Vec<Suspect> {
    let mut by_function: BTreeMap<Function, Paths> = BTreeMap::new();
    for stack in stacks {
        let key = key(&stack);
        let function = key.first().cloned().unwrap_or_default();
        by_function.entry(function).or_default().entry(key).or_default().push(stack);
    }
    let settings = Settings { min_age_ns, stacks: by_function.len() };
    let of_function = |(function, paths)| JudgedFunction::of(function, paths, &settings);
    let mut functions: Vec<JudgedFunction> = by_function.into_iter().map(of_function).collect();
    let mut suspects = Vec::new();
    for (finding, members) in recompiled::leaks(&mut functions, &settings) {
        let parts = members.into_iter().flat_map(|function| function.parts);
        let (keys, stacks): (Vec<_>, Vec<_>) = parts.map(|part| (part.keys, part.stacks)).unzip();
        suspects.push(Suspect::of(finding, keys.concat(), flat(stacks), of));
    }
    for part in functions.into_iter().flat_map(|function| function.parts) {
        suspects.push(Suspect::of(part.finding, part.keys, part.stacks, of));
    }
    suspects
}

/// A function and the findings about its call paths.
pub(super) struct JudgedFunction {
    /// Name and file.
    pub function: Function,
    /// Each call path is in one of them.
    parts: Vec<JudgedPart>,
}

/// Call paths of a function that are one finding.
struct JudgedPart {
    keys: Vec<Key>,
    stacks: Vec<NamedStack>,
    finding: Finding,
}

impl JudgedFunction {
    fn of(function: Function, paths: Paths, settings: &Settings) -> Self {
        let histories: Vec<StackHistory> = paths.values().map(joined).collect();
        let mut paths: Vec<Option<(Key, Vec<NamedStack>)>> = paths.into_iter().map(Some).collect();
        let part = |Judged { paths: chosen, finding }: Judged| {
            let chosen = chosen.into_iter().filter_map(|path| paths[path].take());
            let (keys, stacks): (Vec<Key>, Vec<_>) = chosen.unzip();
            JudgedPart { keys, stacks: flat(stacks), finding }
        };
        let parts = judge_paths(&histories, settings).into_iter().map(part).collect();
        Self { function, parts }
    }

    /// Whether it may have leaked before it was compiled into its caller: what it allocated is kept, and it has stopped growing, or
    /// has too few samples.
    pub fn may_be_part(&self) -> bool {
        let may_be = |part: &JudgedPart| {
            matches!(part.finding.verdict, Verdict::Plateau | Verdict::NotEnoughData)
        };
        self.parts.iter().all(may_be)
    }

    /// All stacks whose innermost function it is.
    pub fn stacks(&self) -> impl Iterator<Item = &NamedStack> {
        self.parts.iter().flat_map(|part| &part.stacks)
    }
}

fn flat(stacks: Vec<Vec<NamedStack>>) -> Vec<NamedStack> {
    stacks.into_iter().flatten().collect()
}

/// Returns each stack's part of the growth of the leak suspect that it belongs to, in bytes per hour: together the parts are the
/// suspects' growth.
pub fn growth_parts(judged: &[Suspect], stacks: &[NamedStack]) -> Vec<Estimate> {
    let growing = judged.iter().filter(|suspect| suspect.is_growing());
    let by_key: HashMap<&Key, &Finding> = growing
        .flat_map(|suspect| suspect.keys.iter().map(move |key| (key, &suspect.finding)))
        .collect();
    let settings = Settings { min_age_ns: MIN_AGE_NS, stacks: judged.len() };
    let part = |stack: &NamedStack| {
        let seen = by_key.get(&key(stack))?.persistence.as_ref()?;
        Growth::of_kept(&stack.history, seen, &settings)
    };
    stacks
        .iter()
        .map(|stack| part(stack).map_or(Estimate::default(), |part| part.per_hour))
        .collect()
}

/// The history of stacks as if they were one.
pub(super) fn joined<'a>(stacks: impl IntoIterator<Item = &'a NamedStack>) -> StackHistory {
    StackHistory::joined(stacks.into_iter().map(|stack| &stack.history)).unwrap_or_default()
}

impl Suspect {
    fn of(finding: Finding, keys: Vec<Key>, stacks: Vec<NamedStack>, of: &Moment) -> Self {
        let first_seen_ns =
            stacks.iter().map(|stack| stack.history.observed_ns()).max().unwrap_or(0);
        let count = stacks.len();
        let callers = callers(&stacks);
        let mut parts = parts(stacks).into_iter();
        let (lines, frames) = parts
            .next()
            .map_or_else(Default::default, |first| (first.lines(), first.largest.frames));
        let function = frames.first().cloned().unwrap_or_default();
        let without_line = |function| FrameName { line: 0, ..function };
        let others = parts.filter_map(|part| part.largest.frames.into_iter().next());
        let compiled_together = others.map(without_line).collect();
        let share = finding.inuse_space.value / of.live.value.max(1.0);
        let since = |age_ns: u64| of.unix_ns.saturating_sub(age_ns);
        Self {
            share,
            first_seen_ns,
            first_seen_unix_ns: since(first_seen_ns),
            growing_since_unix_ns: finding.growing_for_ns.map(since),
            function: without_line(function),
            compiled_together,
            lines,
            stacks: count,
            frames,
            keys,
            callers,
            finding,
        }
    }
}

/// Part of a finding that one function allocated.
struct PartOfFunction {
    bytes: f64,
    largest: NamedStack,
    lines: BTreeMap<u32, (Estimate, u64)>,
}

/// Parts of the functions that allocated these stacks; the function with the most bytes comes first.
fn parts(stacks: Vec<NamedStack>) -> Vec<PartOfFunction> {
    let mut all: BTreeMap<Function, PartOfFunction> = BTreeMap::new();
    for stack in stacks {
        let function = functions(&stack).next().unwrap_or_default();
        let line = stack.frames.first().map_or(0, |frame| frame.line);
        let bytes = stack.history.inuse(SampleUnit::Bytes);
        let of_line = (bytes, stack.history.live.len() as u64);
        match all.entry(function) {
            Entry::Vacant(place) => {
                let lines = BTreeMap::from([(line, of_line)]);
                place.insert(PartOfFunction { bytes: bytes.value, largest: stack, lines });
            }
            Entry::Occupied(mut known) => {
                let part = known.get_mut();
                part.bytes += bytes.value;
                let (sum, samples) = part.lines.entry(line).or_default();
                *sum += of_line.0;
                *samples += of_line.1;
                if bytes.value >= part.largest.history.inuse(SampleUnit::Bytes).value {
                    part.largest = stack;
                }
            }
        }
    }
    let mut all: Vec<PartOfFunction> = all.into_values().collect();
    all.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    all
}

impl PartOfFunction {
    /// The lines that allocated, those with the most live bytes first.
    fn lines(&self) -> Vec<LineShare> {
        let share =
            |(&line, &(inuse_space, samples)): (&u32, &_)| LineShare { line, inuse_space, samples };
        let mut lines: Vec<LineShare> = self.lines.iter().map(share).collect();
        lines.sort_by(|a, b| b.inuse_space.value.total_cmp(&a.inuse_space.value));
        lines
    }
}

/// The functions below which stacks allocated, without the outermost ones, which have everything below them.
fn callers(stacks: &[NamedStack]) -> BTreeMap<Function, Below> {
    let mut callers: BTreeMap<Function, Below> = BTreeMap::new();
    for stack in stacks {
        let bytes = stack.history.inuse(SampleUnit::Bytes).value;
        let mut path: Vec<Function> = functions(stack).collect();
        path.pop();
        let mut nearest = HashSet::new();
        for (distance, function) in path.into_iter().enumerate() {
            // A function that calls itself counts once.
            if !nearest.insert(function.clone()) {
                continue;
            }
            let below = callers.entry(function).or_default();
            below.bytes += bytes;
            below.distance += bytes * distance as f64;
        }
    }
    callers
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;
