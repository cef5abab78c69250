//! Which call paths of one function leak together. A leak is one finding, however many lines and callers it has: they are
//! judged on the samples of all of them. Where a function is called for a leak and for something else, what is plainly
//! something else is set apart.

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
    if paths.len() < 2 || together.is_growing() {
        return vec![together];
    }
    let alone: Vec<Verdict> = paths.iter().map(|path| judge(path, settings).verdict).collect();
    let of = |wanted: &[Verdict]| -> Vec<usize> {
        all.iter().copied().filter(|&path| wanted.contains(&alone[path])).collect()
    };
    let growing = of(&[Verdict::Growing]);
    let perhaps = of(&[Verdict::Growing, Verdict::NotEnoughData]);
    for part in [perhaps, growing.clone()] {
        if !part.is_empty() && part.len() < paths.len() {
            let judged = judge_some(paths, part, settings);
            if judged.is_growing() {
                return with_rest(paths, vec![judged], settings);
            }
        }
    }
    if growing.is_empty() {
        return vec![together];
    }
    let each = growing.into_iter().map(|path| judge_some(paths, vec![path], settings)).collect();
    with_rest(paths, each, settings)
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
    let mut joined = all[paths[0]].clone();
    paths[1..].iter().for_each(|&path| joined.join(&all[path]));
    Judged { finding: judge(&joined, settings), paths }
}

impl Judged {
    fn is_growing(&self) -> bool {
        self.finding.verdict == Verdict::Growing
    }
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
        let block = |age_s| LiveBlock {
            time_ns: NOW - age_s * SECOND,
            size_bytes: 100,
            inverse_probability: 5000.0,
        };
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
    fn lines_of_which_none_has_enough_samples_are_one_leak_together() {
        let lines = [7, 11, 13].map(|offset| path((offset..1000).step_by(25), &[]));
        for line in &lines {
            assert_eq!(judge(line, &SETTINGS).verdict, Verdict::NotEnoughData);
        }
        assert_eq!(verdicts(&lines), [(vec![0, 1, 2], Verdict::Growing)]);
    }

    #[test]
    fn a_table_from_the_same_function_does_not_hide_a_leak_nor_count_as_its_bytes() {
        let table = path((0..5000).map(|number| 900 + number / 50), &[]);
        let leak = path((0..1000).step_by(10), &[]);
        let other = path((3..1000).step_by(200), &[]);
        let judged = judge_paths(&[table, leak, other], &SETTINGS);
        let paths: Vec<_> = judged.iter().map(|judged| judged.paths.clone()).collect();
        assert_eq!(paths, [vec![1, 2], vec![0]]);
        let verdicts: Vec<_> = judged.iter().map(|judged| judged.finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Growing, Verdict::StartUp]);
        assert_eq!(judged[0].finding.samples, 105);
    }

    #[test]
    fn without_a_leak_a_function_is_one_finding() {
        let cache = path((0..400).step_by(4), &[(400, 150)]);
        let table = path(950..1000, &[]);
        let churn = path(0..2, &[(1, 50)]);
        assert_eq!(verdicts(&[cache, table, churn]), [(vec![0, 1, 2], Verdict::Plateau)]);
    }
}
