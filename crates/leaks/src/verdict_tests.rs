use super::*;
use crate::{LiveBlock, MeasuredChange};
use ramson_format::lifetime_bucket;

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1000 * SECOND;
const SETTINGS: Settings = Settings { min_age_ns: 60 * SECOND, stacks: 1 };

fn history(ages_s: impl Iterator<Item = u64>, freed: &[(u64, u64)]) -> StackHistory {
    let block = |age_s| LiveBlock {
        time_ns: NOW - age_s * SECOND,
        size_bytes: 100,
        inverse_probability: 5000.0,
    };
    let live: Vec<LiveBlock> = ages_s.map(block).collect();
    let mut lifetimes = [0; _];
    for &(lifetime_s, count) in freed {
        lifetimes[lifetime_bucket(lifetime_s * SECOND)] += count;
    }
    let samples = live.len() as f64 + lifetimes.iter().sum::<u64>() as f64;
    let alloc_space = samples * 100.0 * 5000.0;
    StackHistory { now_ns: NOW, live, lifetimes, alloc_space, ..StackHistory::default() }
}

fn verdict_on(history: &StackHistory) -> Verdict {
    judge(history, &SETTINGS).verdict
}

#[test]
fn each_verdict_has_its_pattern() {
    assert_eq!(verdict_on(&history((0..1000).step_by(10), &[(1, 9900)])), Verdict::Growing);
    assert_eq!(verdict_on(&history((0..400).step_by(4), &[(400, 150)])), Verdict::Plateau);
    assert_eq!(verdict_on(&history((950..1000).step_by(2), &[])), Verdict::StartUp);
    assert_eq!(verdict_on(&history(990..993, &[])), Verdict::StartUp);
    assert_eq!(verdict_on(&history(0..5, &[(2, 1000)])), Verdict::Churn);
    assert_eq!(verdict_on(&history((0..1000).step_by(100), &[])), Verdict::NotEnoughData);
}

#[test]
fn a_stack_that_is_seen_since_a_moment_is_not_judged() {
    let young = StackHistory { first_ns: NOW - SECOND, ..history(0..1, &[]) };
    assert_eq!(verdict_on(&young), Verdict::NotEnoughData);
    assert_eq!(judge(&young, &SETTINGS).growth, None);
}

#[test]
fn two_snapshots_without_growth_take_the_verdict_back() {
    let mut leak = history((0..1000).step_by(10), &[]);
    let per_second = 0.1 * 100.0 * 5000.0;
    let window_ns = 500 * SECOND;
    let mut measure = |value: f64| {
        let change = Estimate { value, variance: 1e10 };
        leak.measured = Some(MeasuredChange { change, window_ns });
        judge(&leak, &SETTINGS)
    };
    assert_eq!(measure(0.0).verdict, Verdict::Plateau);
    let as_promised = measure(500.0 * per_second);
    assert_eq!(as_promised.verdict, Verdict::Growing);
    let growth = as_promised.growth.unwrap();
    assert!(growth.is_measured && growth.is_significant);
    assert!((growth.per_hour.value - 3600.0 * per_second).abs() < 1.0, "{growth:?}");
}

#[test]
fn without_a_second_snapshot_growth_is_the_rate_at_which_kept_bytes_were_added() {
    let leak = judge(&history((0..1000).step_by(10), &[(1, 5000)]), &SETTINGS);
    let growth = leak.growth.unwrap();
    let truth = 3600.0 * 0.1 * 100.0 * 5000.0;
    assert!(!growth.is_measured && growth.is_significant);
    assert!((growth.per_hour.value / truth - 1.0).abs() < 0.05, "{growth:?}");
}
