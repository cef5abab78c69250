//! Call paths of one function that leak together. A leak is one finding, however many lines and callers it has: the paths are judged on
//! the samples of all of them. If a function is called for a leak and for something else, paths that are plainly something else are set
//! apart.

use crate::history::StackHistory;
use crate::verdict::{Finding, Settings, Verdict, judge};

/// Call paths that are one finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Their indices, ascending.
    pub paths: Vec<usize>,
    /// On the samples of all of them.
    pub finding: Finding,
}

/// Judges the call paths of one function, each path once. One finding, or those of the leaking paths and one of the rest.
pub fn judge_paths(paths: &[StackHistory], settings: &Settings) -> Vec<Judged> {
    let all: Vec<usize> = (0..paths.len()).collect();
    let together = judge_some(paths, all.clone(), settings);
    if paths.len() < 2 {
        return vec![together];
    }
    let alone: Vec<Verdict> = paths.iter().map(|path| judge(path, settings).verdict).collect();
    let of = |is_wanted: &dyn Fn(Verdict) -> bool| {
        let part: Vec<usize> = all.iter().copied().filter(|&path| is_wanted(alone[path])).collect();
        let is_part = !part.is_empty() && part.len() < paths.len();
        is_part.then(|| judge_some(paths, part, settings))
    };
    let without_tables = || of(&|verdict| verdict != Verdict::BuiltOnce);
    let perhaps = || of(&|verdict| matches!(verdict, Verdict::Growing | Verdict::NotEnoughData));
    let growing = || of(&|verdict| verdict == Verdict::Growing);
    let is_growing = |judged: &Judged| judged.finding.verdict == Verdict::Growing;
    if is_growing(&together) {
        return match without_tables().filter(is_growing) {
            Some(judged) => with_rest(paths, vec![judged], settings),
            None => vec![together],
        };
    }
    if let Some(judged) = perhaps().filter(is_growing).or_else(|| growing().filter(is_growing)) {
        return with_rest(paths, vec![judged], settings);
    }
    let each = all.iter().filter(|&&path| alone[path] == Verdict::Growing);
    let each: Vec<Judged> = each.map(|&path| judge_some(paths, vec![path], settings)).collect();
    if !each.is_empty() {
        return with_rest(paths, each, settings);
    }
    // Paths that are plainly no leak neither deny nor outweigh those that may become one.
    let is_hidden =
        together.finding.verdict != Verdict::NotEnoughData || alone.contains(&Verdict::BuiltOnce);
    match perhaps().filter(|judged| is_hidden && judged.finding.may_leak()) {
        Some(judged) => with_rest(paths, vec![judged], settings),
        None => vec![together],
    }
}

fn with_rest(paths: &[StackHistory], mut found: Vec<Judged>, settings: &Settings) -> Vec<Judged> {
    let is_left = |path: &usize| !found.iter().any(|judged| judged.paths.contains(path));
    let rest: Vec<usize> = (0..paths.len()).filter(is_left).collect();
    if !rest.is_empty() {
        found.push(judge_some(paths, rest, settings));
    }
    found
}

fn judge_some(all: &[StackHistory], paths: Vec<usize>, settings: &Settings) -> Judged {
    let joined = StackHistory::joined(paths.iter().map(|&path| &all[path])).unwrap_or_default();
    Judged { finding: judge(&joined, settings), paths }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LiveBlock;
    use ramson_format::lifetime_bucket;

    const SECOND: u64 = 1_000_000_000;
    const NOW: u64 = 1000 * SECOND;
    const SETTINGS: Settings = Settings { min_age_ns: 60 * SECOND, stacks: 1 };

    fn path(ages_s: impl Iterator<Item = u64>, freed: &[(u64, u64)]) -> StackHistory {
        let block = |age_s| LiveBlock::new(NOW - age_s * SECOND, 100, 5000.0);
        let live = ages_s.map(block).collect();
        let mut history = StackHistory { now_ns: NOW, live, ..StackHistory::default() };
        for &(lifetime_s, count) in freed {
            history.lifetimes[lifetime_bucket(lifetime_s * SECOND)] += count;
        }
        history
    }

    fn verdicts(paths: &[StackHistory]) -> Vec<(Vec<usize>, Verdict)> {
        let judged = judge_paths(paths, &SETTINGS).into_iter();
        judged.map(|judged| (judged.paths, judged.finding.verdict)).collect()
    }

    #[test]
    fn sparse_lines_are_one_leak() {
        let lines = [7, 11, 13].map(|offset| path((offset..1000).step_by(25), &[]));
        for line in &lines {
            assert_eq!(judge(line, &SETTINGS).verdict, Verdict::NotEnoughData);
        }
        assert_eq!(verdicts(&lines), [(vec![0, 1, 2], Verdict::Growing)]);
    }

    #[test]
    fn table_beside_leak_is_not_counted() {
        let table = path((0..5000).map(|number| 900 + number / 50), &[]);
        let leak = path((0..1000).step_by(10), &[]);
        let other = path((3..1000).step_by(200), &[]);
        let judged = judge_paths(&[table, leak, other], &SETTINGS);
        let paths: Vec<_> = judged.iter().map(|judged| judged.paths.clone()).collect();
        assert_eq!(paths, [vec![1, 2], vec![0]]);
        let verdicts: Vec<_> = judged.iter().map(|judged| judged.finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Growing, Verdict::BuiltOnce]);
        assert_eq!(judged[0].finding.samples, 105);
    }

    #[test]
    fn table_leaves_young_leak_undecided() {
        let table = path((0..50_000).map(|number| 998 + number / 25_000), &[]);
        let few = path((0..500).step_by(25), &[]);
        let few = StackHistory { first_ns: NOW - 500 * SECOND, ..few };
        let young = path(0..20, &[]);
        let young = StackHistory { first_ns: NOW - 20 * SECOND, ..young };
        for leak in [few, young] {
            let found = verdicts(&[table.clone(), leak]);
            assert_eq!(found, [(vec![1], Verdict::NotEnoughData), (vec![0], Verdict::BuiltOnce)]);
        }
    }

    #[test]
    fn function_without_leak_is_one_finding() {
        let cache = path((0..400).step_by(4), &[(400, 150)]);
        let table = path(950..1000, &[]);
        let churn = path(0..2, &[(1, 50)]);
        assert_eq!(verdicts(&[cache, table, churn]), [(vec![0, 1, 2], Verdict::Plateau)]);
    }
}
