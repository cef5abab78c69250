//! From stacks to findings: a function with all that it allocated is one, whatever its lines and its callers; where only some
//! callers leak, what is allocated for these is one of its own.

use super::groups::Below;
use super::stacks::NamedStack;
use super::suspect::{Function, Key, LineShare, Suspect, functions, key};
use ramson_leaks::{Finding, Growth, Judged, Settings, StackHistory, judge_paths};
use ramson_profile::{Estimate, FrameName, SampleUnit};
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
    let mut suspects = Vec::new();
    for paths in by_function.into_values() {
        let histories: Vec<StackHistory> = paths.values().map(|stacks| joined(stacks)).collect();
        let mut paths: Vec<Option<(Key, Vec<NamedStack>)>> = paths.into_iter().map(Some).collect();
        for Judged { paths: chosen, finding } in judge_paths(&histories, &settings) {
            let chosen = chosen.into_iter().filter_map(|path| paths[path].take());
            let (keys, stacks): (Vec<Key>, Vec<Vec<NamedStack>>) = chosen.unzip();
            let stacks: Vec<NamedStack> = stacks.into_iter().flatten().collect();
            suspects.push(Suspect::of(finding, keys, stacks, of));
        }
    }
    suspects
}

/// Returns each stack's part of the growth of the leak suspect that it belongs to, in bytes per hour: together the parts are the
/// suspects' growth.
pub fn growth_parts(judged: &[Suspect], stacks: &[NamedStack]) -> Vec<Estimate> {
    let growing = judged.iter().filter(|suspect| suspect.is_growing());
    let by_key: HashMap<&Key, &Finding> = growing
        .flat_map(|suspect| suspect.keys.iter().map(move |key| (key, &suspect.finding)))
        .collect();
    let part = |stack: &NamedStack| {
        let seen = by_key.get(&key(stack))?.persistence.as_ref()?;
        Growth::of_kept(&stack.history, seen, judged.len())
    };
    stacks
        .iter()
        .map(|stack| part(stack).map_or(Estimate::default(), |part| part.per_hour))
        .collect()
}

fn joined(stacks: &[NamedStack]) -> StackHistory {
    let mut joined = stacks[0].history.clone();
    stacks[1..].iter().for_each(|stack| joined.join(&stack.history));
    joined
}

impl Suspect {
    fn of(finding: Finding, keys: Vec<Key>, stacks: Vec<NamedStack>, of: &Moment) -> Self {
        let first_seen_ns =
            stacks.iter().map(|stack| stack.history.observed_ns()).max().unwrap_or(0);
        let lines = lines(&stacks);
        let count = stacks.len();
        let callers = callers(&stacks);
        let bytes = |stack: &NamedStack| stack.history.inuse(SampleUnit::Bytes).value;
        let largest = stacks.into_iter().max_by(|a, b| bytes(a).total_cmp(&bytes(b)));
        let frames = largest.map_or(Vec::new(), |stack| stack.frames);
        let function = frames.first().cloned().unwrap_or_default();
        let share = finding.inuse_space.value / of.live.value.max(1.0);
        let since = |age_ns: u64| of.unix_ns.saturating_sub(age_ns);
        Self {
            share,
            first_seen_ns,
            first_seen_unix_ns: since(first_seen_ns),
            growing_since_unix_ns: finding.growing_for_ns.map(since),
            function: FrameName { line: 0, ..function },
            lines,
            stacks: count,
            frames,
            keys,
            callers,
            finding,
        }
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

/// The lines of the function that allocated, those with the most live bytes first.
fn lines(stacks: &[NamedStack]) -> Vec<LineShare> {
    let mut lines: BTreeMap<u32, (Estimate, u64)> = BTreeMap::new();
    for stack in stacks {
        let line = stack.frames.first().map_or(0, |frame| frame.line);
        let (bytes, samples) = lines.entry(line).or_default();
        *bytes += stack.history.inuse(SampleUnit::Bytes);
        *samples += stack.history.live.len() as u64;
    }
    let share = |(line, (inuse_space, samples))| LineShare { line, inuse_space, samples };
    let mut lines: Vec<LineShare> = lines.into_iter().map(share).collect();
    lines.sort_by(|a, b| b.inuse_space.value.total_cmp(&a.inuse_space.value));
    lines
}

#[cfg(test)]
mod tests {
    use super::super::groups::groups;
    use super::*;
    use ramson_leaks::{LiveBlock, Verdict};
    use ramson_profile::Language;

    const SECOND: u64 = 1_000_000_000;

    fn stack(frames: &[(&str, u32)], ages_s: impl Iterator<Item = u64>) -> NamedStack {
        let frame = |&(name, line): &(&str, u32)| FrameName {
            name: name.into(),
            line,
            ..FrameName::default()
        };
        let block = |age_s| LiveBlock::new((1000 - age_s) * SECOND, 100, 5000.0);
        let live = ages_s.map(block).collect();
        let history = StackHistory { now_ns: 1000 * SECOND, live, ..StackHistory::default() };
        NamedStack { frames: frames.iter().map(frame).collect(), history }
    }

    fn found(stacks: Vec<NamedStack>) -> Vec<Suspect> {
        let live = stacks.iter().map(|stack| stack.history.inuse(SampleUnit::Bytes)).sum();
        let unix_ns = 1_800_000_000 * SECOND;
        judged(stacks, 60 * SECOND, &Moment { live, unix_ns, is_running: true })
    }

    #[test]
    fn lines_of_one_leak_are_grouped() {
        let open = |line, caller: u32, first| {
            let frames = [("open_session", line), ("serve", caller)];
            stack(&frames, (first..1000).step_by(30))
        };
        let stacks = vec![
            open(50, 9, 1),
            open(50, 8, 3),
            open(49, 9, 7),
            open(52, 9, 11),
            stack(&[("load", 3), ("main", 1)], 900..1000),
        ];
        let found = found(stacks);
        assert_eq!(found.len(), 2);
        let leak = found.iter().find(|it| &*it.function.name == "open_session").unwrap();
        assert_eq!(leak.finding.verdict, Verdict::Growing);
        let lines: Vec<_> = leak.lines.iter().map(|line| (line.line, line.samples)).collect();
        assert_eq!(lines, [(50, 68), (49, 34), (52, 33)]);
        assert_eq!((leak.stacks, leak.keys.len(), leak.finding.samples), (4, 1, 135));
        assert!((leak.share - 135.0 / 235.0).abs() < 1e-9);
        assert_eq!(leak.first_seen_unix_ns, (1_800_000_000 - 1000) * SECOND);
        assert!(leak.growing_since_unix_ns >= Some(leak.first_seen_unix_ns));
    }

    #[test]
    fn leaks_below_one_caller_are_grouped() {
        let of = |path: &[&str], first, step| {
            let frames: Vec<(&str, u32)> = path.iter().map(|&name| (name, 1)).collect();
            stack(&frames, (first..1000).step_by(step))
        };
        let mut found = found(vec![
            of(&["open", "serve", "main"], 1, 8),
            of(&["buffer", "open", "serve", "main"], 3, 8),
            of(&["node", "insert", "open", "serve", "main"], 5, 8),
            of(&["log", "serve", "main"], 7, 8),
            of(&["watch", "main"], 9, 8),
        ]);
        found.sort_by(|a, b| a.function.name.cmp(&b.function.name));
        assert!(found.iter().all(|it| it.finding.verdict == Verdict::Growing));
        let groups = groups(&found);
        assert_eq!(groups.len(), 1, "{groups:?}");
        assert_eq!(&*groups[0].caller.name, "open");
        let names: Vec<&str> =
            groups[0].suspects.iter().map(|&at| &*found[at].function.name).collect();
        assert_eq!(names, ["buffer", "node", "open"]);
        let growth = groups[0].suspects.iter().map(|&at| found[at].finding.growth.unwrap());
        let growth: Estimate = growth.map(|growth| growth.per_hour).sum();
        assert_eq!(groups[0].growth_per_hour, growth);
    }

    #[test]
    fn recursion_counts_once() {
        let of = |path: &[&str], first| {
            let frames: Vec<(&str, u32)> = path.iter().map(|&name| (name, 1)).collect();
            stack(&frames, (first..1000).step_by(16))
        };
        let mut found = found(vec![
            of(&["node", "walk", "walk", "serve", "main"], 1),
            of(&["node", "read", "serve", "main"], 3),
            of(&["name", "walk", "walk", "serve", "main"], 5),
            of(&["name", "read", "serve", "main"], 7),
        ]);
        found.sort_by(|a, b| a.function.name.cmp(&b.function.name));
        let callers: Vec<String> =
            groups(&found).iter().map(|group| group.caller.name.to_string()).collect();
        assert_eq!(callers, ["serve"]);
    }

    #[test]
    fn tables_of_other_times_stay_ungrouped() {
        let mut found = found(vec![
            stack(&[("open", 1), ("serve", 1), ("main", 1)], (1..1000).step_by(20)),
            stack(&[("late", 1), ("serve", 1), ("main", 1)], (1..250).step_by(2)),
        ]);
        found.sort_by(|a, b| a.function.name.cmp(&b.function.name));
        assert_eq!(groups(&found), []);
    }

    #[test]
    fn parts_of_growth_add_up() {
        let open = |line, first| stack(&[("open", line), ("serve", 9)], (first..1000).step_by(30));
        let all = || {
            let table = stack(&[("load", 3), ("main", 1)], 900..1000);
            vec![open(50, 1), open(50, 3), open(49, 7), table]
        };
        let found = found(all());
        let whole = found.iter().find(|it| it.is_growing()).unwrap();
        let whole = whole.finding.growth.unwrap().per_hour;
        let parts = growth_parts(&found, &all());
        let sum: Estimate = parts.iter().copied().sum();
        assert!(whole.value > 0.0 && parts[..3].iter().all(|part| part.value > 0.0));
        assert!((sum.value / whole.value - 1.0).abs() < 1e-9, "{sum:?} {whole:?}");
        assert!((sum.variance / whole.variance - 1.0).abs() < 1e-9, "{sum:?} {whole:?}");
        assert!(parts[3].is_nothing());
    }

    #[test]
    fn harmless_callers_are_separated() {
        let found = found(vec![
            stack(&[("copy", 5), ("remember", 1)], (0..1000).step_by(8)),
            stack(&[("copy", 5), ("load", 1)], (0..4000).map(|number| 900 + number / 40)),
        ]);
        let of = |caller: &str| found.iter().find(|it| &*it.frames[1].name == caller).unwrap();
        assert_eq!(of("remember").finding.verdict, Verdict::Growing);
        assert_eq!(of("load").finding.verdict, Verdict::StartUp);
    }
    #[test]
    fn jit_changed_paths_are_merged() {
        let of = |caller: &str, ages_s| {
            let mut stack = stack(&[("remember", 5), (caller, 1)], ages_s);
            stack.frames.iter_mut().for_each(|it| it.language = Some(Language::JavaScript));
            stack
        };
        // A steady leak, whose caller is inlined from some time on.
        let found =
            found(vec![of("handle", (500..1000).step_by(8)), of("next", (0..500).step_by(8))]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].finding.verdict, Verdict::Growing);
        assert_eq!((found[0].finding.samples, found[0].stacks), (126, 2));
    }
}
