//! Judges simulated programs over many seeds, and prints one JSON line per program, traffic and sampling interval: `leaks_truth SEEDS [FIRST]`.
//!
//! Judged every minute from the second to the fifteenth. `found`: seeds in which the leak is a suspect at ten minutes.
//! `false_alarms`: judgements, out of `judged`, that call a stack growing that does not leak.

use ramson_leaks::Verdict;
use ramson_tests::simulation::{BUSY, Kind, Simulation};

const FOUND_BY_MINUTE: u64 = 10;
const MINUTES: std::ops::RangeInclusive<u64> = 2..=15;

/// Counts over all seeds.
#[derive(Default)]
struct Score {
    found: u64,
    judged: u64,
    false_alarms: u64,
    alarmed_seeds: u64,
}

fn main() {
    let argument = |at| std::env::args().nth(at).and_then(|number| number.parse().ok());
    let (seeds, first) = (argument(1).unwrap_or(20u64), argument(2).unwrap_or(1u64));
    for traffic in [BUSY, BUSY / 4.0, BUSY / 10.0] {
        for interval_bytes in [64 << 10, 512 << 10] {
            for kind in Kind::ALL {
                let mut score = Score::default();
                for seed in first..first + seeds {
                    score.add(Simulation::new(kind, seed, interval_bytes, traffic));
                }
                let Score { found, judged, false_alarms, alarmed_seeds } = score;
                println!(
                    "{{\"program\": \"{kind:?}\", \"traffic\": {traffic}, \"interval_bytes\": {interval_bytes}, \
                     \"leaks\": {}, \"seeds\": {seeds}, \"found\": {found}, \"judged\": {judged}, \
                     \"false_alarms\": {false_alarms}, \"alarmed_seeds\": {alarmed_seeds}}}",
                    kind.leaking_stack().is_some(),
                );
            }
        }
    }
}

impl Score {
    fn add(&mut self, mut simulation: Simulation) {
        let mut alarms = 0;
        for minute in MINUTES {
            simulation.run_until(60 * minute);
            if !simulation.is_settled() {
                continue;
            }
            for (stack, finding) in simulation.findings() {
                let is_alarm = finding.verdict == Verdict::Growing;
                if Some(stack) == simulation.kind.leaking_stack() {
                    self.found += u64::from(is_alarm && minute == FOUND_BY_MINUTE);
                } else {
                    self.judged += 1;
                    alarms += u64::from(is_alarm);
                }
            }
        }
        self.false_alarms += alarms;
        self.alarmed_seeds += u64::from(alarms > 0);
    }
}
