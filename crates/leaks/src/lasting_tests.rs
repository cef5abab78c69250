use super::*;
use crate::{LiveBlock, Settings, Verdict, judge};

const SECOND: u64 = 1_000_000_000;
const SETTINGS: Settings = Settings { min_age_ns: 60 * SECOND, stacks: 1 };
const INTERVAL: f64 = 131_072.0;
const RUNS: u64 = 400;

/// Uniform in (0, 1], splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::MIN_POSITIVE
    }

    /// The next time of a Poisson process with so many events in a second.
    fn after(&mut self, time_ns: u64, per_second: f64) -> u64 {
        time_ns + (-self.next().ln() / per_second * SECOND as f64) as u64
    }
}

/// A function of which each allocation is freed after 0.5 to 1 s, but for a leak that begins late: samples a second, and when it begins.
struct Late {
    churn: f64,
    leak: f64,
    begins_s: u64,
}

impl Late {
    /// As it is after so many seconds.
    fn history(&self, now_s: u64, seed: u64) -> StackHistory {
        let (mut random, now_ns) = (Random(seed), now_s * SECOND);
        let block = |time_ns| LiveBlock::new(time_ns, 100, INTERVAL / 100.0);
        let mut history = StackHistory { now_ns, ..StackHistory::default() };
        let mut time_ns = random.after(0, self.churn);
        history.first_ns = time_ns;
        while time_ns < now_ns {
            let lifetime_ns = ((0.5 + random.next() / 2.0) * SECOND as f64) as u64;
            match time_ns + lifetime_ns > now_ns {
                true => history.live.push(block(time_ns)),
                false => history.lifetimes[lifetime_bucket(lifetime_ns)] += 1,
            }
            time_ns = random.after(time_ns, self.churn);
        }
        let mut time_ns = random.after(self.begins_s * SECOND, self.leak);
        history.first_ns = history.first_ns.min(time_ns);
        while time_ns < now_ns {
            history.live.push(block(time_ns));
            time_ns = random.after(time_ns, self.leak);
        }
        history
    }
}

/// 1250 MiB/h at 128 KiB are 2.8 samples a second.
const LATE: Late = Late { churn: 50.0, leak: 2.78, begins_s: 40 };

#[test]
fn interval_covers_rate_of_late_leak() {
    for late in [LATE, Late { churn: 0.01, ..LATE }, Late { begins_s: 0, ..LATE }] {
        let truth = late.leak * INTERVAL * 3600.0;
        for now_s in [105, 120, 136, 144, 180, 300, 1000] {
            let judged = (0..RUNS).map(|seed| judge(&late.history(now_s, seed), &SETTINGS));
            let found: Vec<_> = judged.filter(|it| it.verdict == Verdict::Growing).collect();
            let is_covered = |growth: &crate::Growth| {
                (growth.interval().0..growth.interval().1).contains(&truth)
            };
            let covered =
                found.iter().filter_map(|it| it.growth.as_ref()).filter(|it| is_covered(it));
            let covered = covered.count() as f64 / found.len() as f64;
            let case = (late.churn, late.begins_s, now_s, found.len());
            assert!(found.len() as u64 > RUNS / 2, "{case:?}");
            assert!(covered >= 0.9, "{case:?}: {covered}");
            // What it grew by since then is what is live of it, within the error of both.
            let age_ns = ((now_s - late.begins_s) * SECOND) as f64;
            let since = found.iter().map(|it| it.growing_for_ns.unwrap() as f64 / age_ns);
            let since = since.fold(0.0, |sum, it| sum + it) / found.len() as f64;
            assert!((0.9..1.01).contains(&since), "{case:?}: {since}");
        }
    }
}

#[test]
fn young_leak_is_not_called_short_lived() {
    for now_s in (62..130).step_by(4) {
        for seed in 0..20 {
            let finding = judge(&LATE.history(now_s, seed), &SETTINGS);
            let may = [Verdict::NotEnoughData, Verdict::Growing];
            assert!(may.contains(&finding.verdict), "{now_s} s: {finding:?}");
        }
        let churn = Late { leak: 1e-9, ..LATE };
        assert_eq!(judge(&churn.history(now_s, 7), &SETTINGS).verdict, Verdict::Churn);
    }
}

#[test]
fn wait_is_long_enough_for_a_verdict() {
    for now_s in [5, 19, 45, 61, 80] {
        let late = Late { begins_s: 0, leak: 1.0, ..LATE };
        let mut waits: Vec<u64> = (0..50)
            .filter_map(|seed| judge(&late.history(now_s, seed), &SETTINGS).judged_in_ns)
            .collect();
        waits.sort_unstable();
        let Some(&median_ns) = waits.get(waits.len() / 2) else { panic!("{now_s} s: no wait") };
        let then_s = now_s + median_ns / SECOND;
        assert!((75..130).contains(&then_s), "{now_s} s: {then_s}");
    }
}

#[test]
fn boot_tells_no_wait() {
    for samples in [1, 2, 5] {
        let live = (0..samples).map(|at| LiveBlock::new(at * SECOND / 10, 100, INTERVAL / 100.0));
        let live: Vec<LiveBlock> = live.collect();
        for now_s in [20, 200, 3000] {
            let boot = StackHistory {
                now_ns: now_s * SECOND,
                live: live.clone(),
                ..StackHistory::default()
            };
            assert_eq!(judge(&boot, &SETTINGS).judged_in_ns, None, "{samples} {now_s}");
        }
    }
}

#[test]
fn present_rate_is_told_from_the_one_before() {
    let change = |ages_s: &mut dyn Iterator<Item = u64>| {
        let ages: Vec<u64> = ages_s.map(|age_s| age_s * SECOND).collect();
        change(&ages, 0, 0).map(|place| ages[place] / SECOND)
    };
    assert_eq!(change(&mut (1..500).step_by(5)), None);
    // A leak of 100 s, and some samples at the start; a table, and a leak since.
    assert_eq!(change(&mut (1..100).chain([497, 498, 499])), Some(99));
    assert_eq!(change(&mut (1..400).step_by(10).chain(400..500)), Some(400));
    // Bursts of one rate: at most the oldest is left out.
    let bursts = change(&mut (0..1000).map(|number| 24 + 50 * (number / 50)));
    assert!(bursts.is_none_or(|since_s| since_s > 900), "{bursts:?}");
}

/// Samples that are kept: so many a second for so many seconds, one after the other.
fn phases(phases: &[(u64, f64)], now_s: u64, seed: u64) -> StackHistory {
    let (mut random, now_ns) = (Random(seed), now_s * SECOND);
    let (mut live, mut begin_ns) = (Vec::new(), 0);
    for &(seconds, per_second) in phases {
        let end_ns = begin_ns + seconds * SECOND;
        let mut time_ns = random.after(begin_ns, per_second);
        while time_ns < end_ns.min(now_ns) {
            live.push(LiveBlock::new(time_ns, 100, INTERVAL / 100.0));
            time_ns = random.after(time_ns, per_second);
        }
        begin_ns = end_ns;
    }
    let first_ns = live.first().map_or(now_ns, |block| block.time_ns);
    StackHistory { now_ns, first_ns, live, ..StackHistory::default() }
}

/// Kept samples a second while a function grows.
const GROWS: f64 = 10.0;

/// Growth as a share of what is expected while it grows, in those of 50 runs in which it is a leak suspect; and since when, in s.
fn growing(course: &[(u64, f64)], now_s: u64) -> Vec<(crate::Growth, u64)> {
    let judged = (0..50).map(|seed| judge(&phases(course, now_s, seed), &SETTINGS));
    let found = judged.filter(|it| it.verdict == Verdict::Growing);
    found.map(|it| (it.growth.unwrap(), it.growing_for_ns.unwrap() / SECOND)).collect()
}

#[test]
fn growth_does_not_reach_over_a_standstill() {
    let truth = GROWS * INTERVAL * 3600.0;
    for (grew_s, rest) in [(60, 1e-9), (200, 0.05), (200, 0.3), (600, 1e-9), (600, 0.1)] {
        let course = [(grew_s, GROWS), (240, rest), (220, GROWS), (240, rest)];
        let again_s = grew_s + 240;
        for after_s in (60..220).step_by(10) {
            let found = growing(&course, again_s + after_s);
            let covers = |(growth, _): &&(crate::Growth, u64)| {
                (growth.interval().0..growth.interval().1).contains(&truth)
            };
            let covered = found.iter().filter(covers).count();
            let case = (grew_s, rest, after_s, found.len(), covered);
            assert!(found.len() >= 48 && covered * 100 >= found.len() * 85, "{case:?}");
            assert!(found.iter().all(|found| found.1 <= after_s + 5), "{case:?}");
        }
        for after_s in (10..240).step_by(10) {
            let found = growing(&course, again_s + 220 + after_s);
            let most = found.iter().map(|(growth, _)| growth.per_hour.value).fold(0.0, f64::max);
            assert!(
                most < truth / 10.0,
                "{grew_s} {rest} {after_s}: {} {}",
                found.len(),
                most / truth
            );
        }
    }
    for now_s in (330..600).step_by(10) {
        assert_eq!(growing(&[(300, 0.05), (20, 50.0), (300, 0.05)], now_s), [], "burst, {now_s}");
    }
}

#[test]
fn waves_are_one_rate() {
    let waves: Vec<(u64, f64)> = [(20, GROWS), (100, 1e-9)].into_iter().cycle().take(20).collect();
    let truth = GROWS * INTERVAL * 3600.0 * 20.0 / 120.0;
    for now_s in (390..1200).step_by(10) {
        let found = growing(&waves, now_s);
        assert!(found.len() >= 48, "{now_s}: {}", found.len());
        for (growth, _) in found {
            assert!((0.6..1.4).contains(&(growth.per_hour.value / truth)), "{now_s}: {growth:?}");
        }
    }
}

#[test]
fn paused_leak_is_remembered_as_long_as_it_grew() {
    let truth = GROWS * INTERVAL * 3600.0;
    let rests = |course: &[(u64, f64)], now_s| {
        let judged = (0..50).map(|seed| judge(&phases(course, now_s, seed), &SETTINGS).paused);
        judged.flatten().collect::<Vec<_>>()
    };
    for rest in [1e-9, 0.05] {
        for rested_s in (10..280).step_by(10) {
            let paused = rests(&[(300, GROWS), (300, rest)], 300 + rested_s);
            let is_right = |it: &&crate::Paused| {
                let growth = it.growth.interval();
                it.ago_ns <= (rested_s + 10) * SECOND && growth.0 < truth && growth.1 > truth * 0.9
            };
            let right = paused.iter().filter(is_right).count();
            assert!(right >= 40, "{rest} {rested_s}: {right} {:?}", paused.first());
        }
        assert_eq!(rests(&[(300, GROWS), (600, rest)], 700), [], "{rest}");
    }
    // A table that was built within the least age was no leak suspect; nor is a leak that goes on paused.
    assert_eq!(rests(&[(40, 50.0), (300, 1e-9)], 70), []);
    assert_eq!(rests(&[(300, GROWS)], 290), []);
}
