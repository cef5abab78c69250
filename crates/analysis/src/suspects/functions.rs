//! From stacks to findings: a function with all that it allocated is one, whatever its lines and its callers; where only some
//! callers leak, what is allocated for these is one of its own.

use super::stacks::NamedStack;
use super::suspect::{Function, Key, LineShare, Suspect, key};
use ramson_leaks::{Judged, Settings, StackHistory, judge_paths};
use ramson_profile::{Estimate, FrameName, SampleUnit};
use std::collections::BTreeMap;

/// What the findings are of.
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
    let mut functions: BTreeMap<Function, Paths> = BTreeMap::new();
    for stack in stacks {
        let key = key(&stack);
        let function = key.first().cloned().unwrap_or_default();
        functions.entry(function).or_default().entry(key).or_default().push(stack);
    }
    let settings = Settings { min_age_ns, stacks: functions.len() };
    let mut suspects = Vec::new();
    for paths in functions.into_values() {
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

fn joined(stacks: &[NamedStack]) -> StackHistory {
    let mut joined = stacks[0].history.clone();
    stacks[1..].iter().for_each(|stack| joined.join(&stack.history));
    joined
}

impl Suspect {
    fn of(
        finding: ramson_leaks::Finding,
        keys: Vec<Key>,
        stacks: Vec<NamedStack>,
        of: &Moment,
    ) -> Self {
        let first_seen_ns =
            stacks.iter().map(|stack| stack.history.observed_ns()).max().unwrap_or(0);
        let (lines, count) = (lines(&stacks), stacks.len());
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
            finding,
        }
    }
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
    use super::*;
    use ramson_leaks::{LiveBlock, Verdict};

    const SECOND: u64 = 1_000_000_000;

    fn stack(frames: &[(&str, u32)], ages_s: impl Iterator<Item = u64>) -> NamedStack {
        let frame = |&(name, line): &(&str, u32)| FrameName {
            name: name.into(),
            line,
            ..FrameName::default()
        };
        let block = |age_s| LiveBlock {
            time_ns: (1000 - age_s) * SECOND,
            size_bytes: 100,
            inverse_probability: 5000.0,
        };
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
    fn one_leak_is_one_finding_whose_lines_stand_below() {
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
    fn callers_that_do_not_leak_are_set_apart() {
        let found = found(vec![
            stack(&[("copy", 5), ("remember", 1)], (0..1000).step_by(8)),
            stack(&[("copy", 5), ("load", 1)], (0..4000).map(|number| 900 + number / 40)),
        ]);
        let of = |caller: &str| found.iter().find(|it| &*it.frames[1].name == caller).unwrap();
        assert_eq!(of("remember").finding.verdict, Verdict::Growing);
        assert_eq!(of("load").finding.verdict, Verdict::StartUp);
    }
}
