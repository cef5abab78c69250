//! Precision and recall on a part of the labelled set. `bench/run leaks` does the whole, over more seeds, an hour each.

use ramson_tests::simulation::{Labelled, PROGRAMS, SECOND};

const INTERVAL_BYTES: u64 = 64 << 10;
const MINUTES: u64 = 60;
const MIN_AGE_NS: u64 = 60 * SECOND;
/// Every so manieth program, which keeps it to seconds.
const PART: usize = 2;
/// A leak that has left so many samples is expected to be found.
const LEAST_SAMPLES: u64 = 80;
const LEAST_PRECISION: f64 = 0.95;
const LEAST_RECALL: f64 = 0.9;

#[test]
fn labelled_leaks_meet_precision_and_recall() {
    let mut leaks = 0;
    let mut right = 0;
    let mut wrong = Vec::new();
    let mut missed = Vec::new();
    for (index, program) in PROGRAMS.iter().enumerate().step_by(PART) {
        let mut run = Labelled::new(program, index as u64, INTERVAL_BYTES);
        run.run_until(60 * MINUTES);
        for function in run.judged(MIN_AGE_NS) {
            right += usize::from(function.is_found());
            if function.is_settled && function.false_alarms() > 0 {
                wrong.push(program.name);
            }
            if function.leaked_samples >= LEAST_SAMPLES {
                leaks += 1;
                missed.extend((!function.is_found()).then_some(program.name));
            }
        }
    }
    let precision = right as f64 / (right + wrong.len()) as f64;
    let recall = 1.0 - missed.len() as f64 / f64::from(leaks);
    assert!(leaks >= 5, "{leaks}");
    assert!(precision >= LEAST_PRECISION, "{precision}: {wrong:?}");
    assert!(recall >= LEAST_RECALL, "{recall}: {missed:?}");
}
