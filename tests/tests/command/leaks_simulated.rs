//! Suspects among programs whose truth is known, in simulated time. `make bench` does the same over many seeds.

use ramson_leaks::{Finding, Verdict};
use ramson_tests::simulation::{BUSY, Kind, Simulation};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;
const INTERVALS: [u64; 2] = [64 << 10, 512 << 10];

fn each(kind: Kind, look: impl Fn(&mut Simulation, &str)) {
    for interval_bytes in INTERVALS {
        for seed in SEEDS {
            let mut simulation = Simulation::new(kind, seed, interval_bytes, BUSY);
            look(&mut simulation, &format!("{kind:?}, interval {interval_bytes}, seed {seed}"));
        }
    }
}

fn verdict_of(findings: &[(usize, Finding)], wanted: usize) -> Option<Verdict> {
    findings.iter().find(|(stack, _)| *stack == wanted).map(|(_, finding)| finding.verdict)
}

#[test]
fn steady_leak_is_found_within_minutes() {
    for kind in [Kind::Leak, Kind::MixedLeak, Kind::ThreadLeak, Kind::ReachableLeak] {
        each(kind, |simulation, which| {
            simulation.run_until(600);
            let findings = simulation.findings();
            let leaking = kind.leaking_stack().unwrap();
            assert_eq!(verdict_of(&findings, leaking), Some(Verdict::Growing), "{which}");
            let growing =
                findings.iter().filter(|(_, finding)| finding.verdict == Verdict::Growing);
            assert_eq!(growing.count(), 1, "{which}");
        });
    }
}

#[test]
fn leak_growth_is_accurate() {
    each(Kind::Leak, |simulation, which| {
        simulation.run_until(600);
        let findings = simulation.findings();
        let (_, finding) = &findings[1];
        let growth = finding.growth.expect(which);
        let truth = 0.01 * BUSY * 3600.0;
        let error = growth.per_hour.variance.sqrt();
        assert!((growth.per_hour.value - truth).abs() < 4.0 * error, "{which}: {growth:?}");
        assert!(growth.is_significant, "{which}: {growth:?}");
    });
}

#[test]
fn harmless_sites_are_never_growing() {
    for kind in [Kind::Cache, Kind::FifoCache, Kind::BuiltOnce, Kind::Sawtooth, Kind::Fragmenting] {
        each(kind, |simulation, which| {
            let mut judged = 0;
            for seconds in (120..=600).step_by(60) {
                simulation.run_until(seconds);
                if simulation.is_settled() {
                    judged += 1;
                    for (stack, finding) in simulation.findings() {
                        let what = format!("{which}, stack {stack} at {seconds} s: {finding:?}");
                        assert_ne!(finding.verdict, Verdict::Growing, "{what}");
                    }
                }
            }
            assert!(judged > 3, "{which}: judged {judged} times");
        });
    }
}

#[test]
fn verdicts_are_right_after_ten_minutes() {
    for (kind, word) in [
        (Kind::Cache, Verdict::Plateau),
        (Kind::FifoCache, Verdict::Plateau),
        (Kind::BuiltOnce, Verdict::BuiltOnce),
    ] {
        each(kind, |simulation, which| {
            simulation.run_until(600);
            let findings = simulation.findings();
            assert_eq!(verdict_of(&findings, 0), Some(Verdict::Churn), "{which}");
            assert_eq!(verdict_of(&findings, 1), Some(word), "{which}");
        });
    }
}
