use super::*;
use crate::{LiveBlock, MeasuredChange};
use ramson_format::lifetime_bucket;

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1000 * SECOND;
const SETTINGS: Settings = Settings { min_age_ns: 60 * SECOND, stacks: 1 };

fn history(ages_s: impl Iterator<Item = u64>, freed: &[(u64, u64)]) -> StackHistory {
    let block = |age_s| LiveBlock::new(NOW - age_s * SECOND, 100, 5000.0);
    let live: Vec<LiveBlock> = ages_s.map(block).collect();
    let mut lifetimes = [0; _];
    for &(lifetime_s, count) in freed {
        lifetimes[lifetime_bucket(lifetime_s * SECOND)] += count;
    }
    StackHistory { now_ns: NOW, live, lifetimes, ..StackHistory::default() }
}

fn verdict_on(history: &StackHistory) -> Verdict {
    judge(history, &SETTINGS).verdict
}

#[test]
fn each_verdict_has_its_pattern() {
    assert_eq!(verdict_on(&history((0..1000).step_by(10), &[(1, 9900)])), Verdict::Growing);
    assert_eq!(verdict_on(&history((0..400).step_by(4), &[(400, 150)])), Verdict::Plateau);
    assert_eq!(verdict_on(&history((950..1000).step_by(2), &[])), Verdict::BuiltOnce);
    assert_eq!(verdict_on(&history(990..993, &[])), Verdict::BuiltOnce);
    assert_eq!(verdict_on(&history(0..5, &[(2, 1000)])), Verdict::Churn);
    assert_eq!(verdict_on(&history((0..1000).step_by(100), &[])), Verdict::NotEnoughData);
}

#[test]
fn young_stack_is_not_judged() {
    let young = StackHistory { first_ns: NOW - SECOND, ..history(0..1, &[]) };
    assert_eq!(verdict_on(&young), Verdict::NotEnoughData);
    assert_eq!(judge(&young, &SETTINGS).growth, None);
}

#[test]
fn reason_has_lifetime_of_freed() {
    // Nothing was allocated for a quarter of an hour: live bytes over the rate of allocation would be 17 minutes.
    let after_a_burst = history(950..1000, &[(8, 400)]);
    let finding = judge(&after_a_burst, &SETTINGS);
    assert!(!finding.reason.contains("min on average"), "{}", finding.reason);
    let mixed = judge(&history((100..1000).step_by(45).chain(0..5), &[(8, 400)]), &SETTINGS);
    assert_eq!(mixed.verdict, Verdict::NotEnoughData, "{}", mixed.reason);
    let slowed = judge(&history((500..1000).step_by(5), &[(8, 400)]), &SETTINGS);
    assert_eq!(slowed.verdict, Verdict::Plateau, "{}", slowed.reason);
    assert!(slowed.reason.contains("Most is freed after 6.4 s on average"), "{}", slowed.reason);
}

#[test]
fn undecided_tells_when_it_decides() {
    let young = StackHistory { first_ns: NOW - 12 * SECOND, ..history(0..1, &[]) };
    assert_eq!(judge(&young, &SETTINGS).judged_in_ns, None, "one sample says nothing of growth");
    // A sample each 40 s: some 75 of them are there after 3,000 s.
    let slow = judge(&history((0..1000).step_by(40), &[]), &SETTINGS);
    assert!(slow.reason.starts_with("Only "), "{}", slow.reason);
    let judged_in_s = slow.judged_in_ns.unwrap() / SECOND;
    assert!((1800..2300).contains(&judged_in_s), "{judged_in_s}");
    let later = history((0..1000 + 2200).step_by(40).map(|age_s| age_s * 1000 / 3200), &[]);
    assert_eq!(verdict_on(&later), Verdict::Growing);
    assert_eq!(judge(&later, &SETTINGS).judged_in_ns, None);
}

#[test]
fn suspect_tells_time_of_growth() {
    let late = judge(&history((0..500).step_by(5), &[(1, 999)]), &SETTINGS);
    assert_eq!(late.growing_for_ns, Some(495 * SECOND));
    assert_eq!(judge(&history(0..5, &[(2, 1000)]), &SETTINGS).growing_for_ns, None);
}

#[test]
fn flat_snapshots_withdraw_verdict() {
    let mut leak = history((0..1000).step_by(10), &[]);
    let per_second = 0.1 * 100.0 * 5000.0;
    let window_ns = 500 * SECOND;
    let mut measure = |value: f64| {
        let change = Estimate::new(value, 1e10);
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
fn growth_defaults_to_kept_rate() {
    let leak = judge(&history((0..1000).step_by(10), &[(1, 5000)]), &SETTINGS);
    let growth = leak.growth.unwrap();
    let truth = 3600.0 * 0.1 * 100.0 * 5000.0;
    assert!(!growth.is_measured && growth.is_significant);
    assert!((growth.per_hour.value / truth - 1.0).abs() < 0.05, "{growth:?}");
}

/// The rate is that since the leak began, also where the stack was seen long before.
#[test]
fn leak_that_began_late_has_its_rate() {
    // One sample each 1.04 s on average, for 104 of 144 s: by chance later or earlier.
    let mut covered = 0;
    let mut sum = 0.0;
    for seed in 0..400_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut age_ns = 0.0;
        let mut live = Vec::new();
        loop {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let uniform = ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            age_ns -= uniform.ln() * 1.04e9;
            if age_ns > 104e9 {
                break;
            }
            live.push(LiveBlock::new(NOW - age_ns as u64, 100, 5000.0));
        }
        let first_ns = NOW - 144 * SECOND;
        let history = StackHistory {
            start_ns: first_ns,
            first_ns,
            now_ns: NOW,
            live,
            ..StackHistory::default()
        };
        let growth = judge(&history, &SETTINGS).growth.unwrap();
        let truth = 3600.0 / 1.04 * 100.0 * 5000.0;
        let (low, high) = growth.interval();
        covered += u64::from((low..high).contains(&truth));
        sum += growth.per_hour.value / truth;
    }
    // Horizons that show growth sooner have a few samples more than others.
    assert!((sum / 400.0 - 1.0).abs() < 0.08, "mean {}", sum / 400.0);
    assert!(covered >= 400 * 90 / 100, "{covered} of 400");
}

/// A table built at the start of `observed_s`, then a sample each `step_ms`.
fn after_a_table(observed_s: u64, step_ms: u64) -> StackHistory {
    let first_ns = NOW - observed_s * SECOND;
    let block = |time_ns| LiveBlock::new(time_ns, 100, 5000.0);
    let table = (0..5000).map(|number| first_ns + number * 4_000);
    let leak = (first_ns..NOW).step_by((step_ms * 1_000_000) as usize);
    let live = table.chain(leak).map(block).collect();
    StackHistory { start_ns: first_ns, first_ns, now_ns: NOW, live, ..StackHistory::default() }
}

#[test]
fn early_table_does_not_hide_leak() {
    for observed_s in (5..900).step_by(5) {
        let finding = judge(&after_a_table(observed_s, 400), &SETTINGS);
        let is_young = finding.verdict == Verdict::NotEnoughData && observed_s < 75;
        assert!(is_young || finding.verdict == Verdict::Growing, "{observed_s} s: {finding:?}");
        let slow = judge(&after_a_table(observed_s, 3000), &SETTINGS);
        let may = [Verdict::NotEnoughData, Verdict::Growing];
        assert!(observed_s < 60 || may.contains(&slow.verdict), "{observed_s} s: {slow:?}");
    }
    let finding = judge(&after_a_table(90, 400), &SETTINGS);
    assert!(
        finding.reason.starts_with("Apart from 2.34 GiB allocated in one go: nothing allocated"),
        "{}",
        finding.reason
    );
    let truth = 3600.0 * 2.5 * 100.0 * 5000.0;
    let growth = finding.growth.unwrap().per_hour.value;
    assert!((growth / truth - 1.0).abs() < 0.05, "{growth} {truth}");
    assert!(finding.growing_for_ns.unwrap() < 90 * SECOND);
}

#[test]
fn later_table_does_not_hide_leak() {
    let leak = |observed_s: u64| {
        let mut leak = after_a_table(observed_s, 400);
        let table = leak.live.drain(..5000).map(|block| block.time_ns + 70 * SECOND);
        let table: Vec<u64> = table.collect();
        leak.live.extend(table.into_iter().map(|time_ns| LiveBlock::new(time_ns, 100, 5000.0)));
        judge(&leak, &SETTINGS)
    };
    for observed_s in (80..900).step_by(5) {
        let finding = leak(observed_s);
        let may = [Verdict::NotEnoughData, Verdict::Growing];
        assert!(may.contains(&finding.verdict), "{observed_s} s: {finding:?}");
    }
}
