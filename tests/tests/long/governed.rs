//! Estimates stay unbiased while the governor changes the interval.

use ramson_tests::{ESTIMATES, Run, estimates, program};

const RUNS: usize = 40;
/// A correct library fails less than once in 4,000 times (4 quantities, two-sided).
const STANDARD_ERRORS: f64 = 4.0;
/// Expected 0.95; 10 misses of 40 have a probability of 4 in 100,000.
const LEAST_COVERAGE: f64 = 0.75;
/// At an interval of 8 MiB all the time, 330 would do.
const MOST_RUNS: usize = 1000;

fn governed(arguments: &str) -> Run {
    let run = Run::new(program("governed.c")).env("RAMSON_INTERVAL", "4K");
    arguments.split(' ').fold(run.env("RAMSON_MAX_OVERHEAD", "1"), Run::arg)
}

/// Errors of the estimates of one quantity, over all runs.
struct Errors {
    all: Vec<f64>,
    covered: usize,
    truth: f64,
}

impl Errors {
    fn add(&mut self, (value, variance): (f64, f64), truth: f64) {
        self.truth = truth;
        self.all.push(value - truth);
        self.covered += ((value - truth).abs() <= 1.96 * variance.sqrt()) as usize;
    }

    fn mean(&self) -> f64 {
        self.all.iter().sum::<f64>() / self.all.len() as f64
    }

    fn standard_error(&self) -> f64 {
        let mean = self.mean();
        let runs = self.all.len() as f64;
        let spread: f64 = self.all.iter().map(|error| (error - mean).powi(2)).sum();
        (spread / (runs - 1.0) / runs).sqrt()
    }

    /// Small enough for the test to mean something.
    fn is_known(&self) -> bool {
        self.all.len() >= RUNS && self.standard_error() < 0.02 * self.truth
    }
}

#[test]
fn estimates_are_unbiased_while_governed() {
    let mut errors = [const { Errors { all: Vec::new(), covered: 0, truth: 0.0 } }; 4];
    while !errors.iter().all(Errors::is_known) {
        let finished = governed("mixture").succeed();
        let snapshot = finished.snapshot();
        // It rose to well above 4 KiB and came down again, with samples of every interval among the live ones.
        assert!(snapshot.header.interval_changes >= 2, "{:?}", snapshot.header);
        let weights = snapshot.live.iter().filter(|sample| sample.size == 100);
        let weights: Vec<_> = weights.map(|sample| sample.inverse_probability).collect();
        let (least, most) =
            (weights.iter().copied().reduce(f64::min), weights.iter().copied().reduce(f64::max));
        assert!(most.unwrap() > 2.0 * least.unwrap(), "{least:?} {most:?}");
        for (index, estimate) in estimates(&snapshot).into_iter().enumerate() {
            let truth = finished.number(&format!("{} ", ESTIMATES[index])) as f64;
            errors[index].add(estimate, truth);
        }
        let runs = errors[0].all.len();
        assert!(runs < MOST_RUNS, "{:?}", errors.each_ref().map(Errors::standard_error));
    }
    for (errors, name) in errors.iter().zip(ESTIMATES) {
        let (mean, standard_error) = (errors.mean(), errors.standard_error());
        // The process allocates some memory for itself, before main and for its output: at most 8 KB in a few objects.
        let own = if name.ends_with("space") { 8_000.0 } else { 4.0 };
        assert!(
            mean.abs() <= STANDARD_ERRORS * standard_error + own,
            "{name}: {mean} too much on average, standard error {standard_error}"
        );
        let covered = errors.covered as f64;
        let runs = errors.all.len() as f64;
        assert!(covered >= LEAST_COVERAGE * runs, "{name}: {covered} of {runs}");
    }
}
