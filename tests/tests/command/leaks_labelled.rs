//! Programs of the labelled set whose verdicts are easily wrong. `make test-long` judges a part of the set, `bench/run leaks` the whole.

use ramson_tests::simulation::{Labelled, PROGRAMS, SECOND};

const INTERVAL_BYTES: u64 = 64 << 10;
const MINUTES: u64 = 60;
const MIN_AGE_NS: u64 = 60 * SECOND;

#[test]
fn filling_cache_is_a_suspect() {
    let filling = PROGRAMS.iter().find(|program| program.name.ends_with("full after 3 h")).unwrap();
    let mut run = Labelled::new(filling, 1, INTERVAL_BYTES);
    run.run_until(60 * MINUTES);
    let function = &run.judged(MIN_AGE_NS)[0];
    assert!(!function.is_leak && !function.is_settled && function.false_alarms() == 1);
}

#[test]
fn table_does_not_deny_leak() {
    let beside_a_table = PROGRAMS.iter().filter(|program| program.name.contains("table"));
    let leaks = beside_a_table.filter(|program| program.sites.iter().any(|site| site.is_leak));
    let mut count = 0;
    for program in leaks {
        count += 1;
        let mut run = Labelled::new(program, 5, 4 << 10);
        for seconds in (15..=600).step_by(15) {
            run.run_until(seconds);
            let function = &run.judged(MIN_AGE_NS)[0];
            let name = program.name;
            let is_found = function.is_found();
            assert_eq!(function.denials, 0, "{name}, {seconds} s");
            assert!(
                is_found || seconds < 105 || (300..400).contains(&seconds),
                "{name}, {seconds} s"
            );
        }
    }
    assert_eq!(count, 5);
}
