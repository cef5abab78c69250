//! `surveys [FIRST COUNT [PIECES]]`: surveys COUNT heaps from seed FIRST on, with PIECES drawn or as many as it takes, and tells how often
//! the 95% intervals have the truth in them; then it has each trimmed, and tells how often what that returned was as predicted. Fails
//! below 93%, and where a walk of every chunk was more than 20% and 4 MiB off what the trim returned.
#![forbid(unsafe_code)]

use ramson_process::glibc::Effort;
use ramson_tests::surveys::{FIGURES, Figures, Heap};
use std::process::ExitCode;

/// Heaps are larger than what is walked as a whole, and small enough for many of them.
const MIB: (u64, u64) = (70, 200);
const LEAST_COVERAGE: f64 = 0.93;
const MOST_OFF_BYTES: f64 = 4194304.0;
const MOST_OFF_SHARE: f64 = 0.2;
/// Most bytes that a trim itself touches.
const STIR_BYTES: f64 = 65536.0;

/// Results over all heaps.
#[derive(Default)]
struct Tally {
    heaps: u64,
    covered: [u64; 3],
    /// Half the widths of the intervals, as shares of the heaps.
    widths: [Vec<f64>; 3],
    returned_as_walked: u64,
    returned_as_surveyed: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<u64> =
        std::env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let argument = |index: usize| arguments.get(index).copied();
    let effort = argument(2).map_or(Effort::Survey(0), |pieces| Effort::Sample(pieces as usize));
    let first = argument(0).unwrap_or(1);
    let mut tally = Tally::default();
    for seed in first..first + argument(1).unwrap_or(1000) {
        tally.add(seed, effort);
    }
    if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Tally {
    fn add(&mut self, seed: u64, effort: Effort) {
        let mut heap = Heap::start(seed, MIB.0, MIB.1);
        let truth = heap.read(Effort::Exact);
        heap.assert_agrees(&truth);
        let (truth, figures) = (Figures::of(&truth), Figures::of(&heap.read(effort)));
        let covers = figures.covers(&truth);
        let off = figures.off(&truth);
        self.heaps += 1;
        for index in 0..3 {
            self.covered[index] += u64::from(covers[index]);
            self.widths[index].push(figures.half_widths[index] / truth.taken);
            if !covers[index] {
                let name = FIGURES[index];
                let half_width = figures.half_widths[index];
                println!(
                    "seed {seed}: {name} is {:.0} off, ±{half_width:.0}; {}",
                    off[index],
                    heap.said.trim()
                );
            }
        }
        let (walked, surveyed) = (truth.values[2], figures.values[2]);
        let returned = heap.trim();
        let half_width = figures.half_widths[2];
        let is_as_walked =
            (returned - walked).abs() <= MOST_OFF_BYTES.max(MOST_OFF_SHARE * returned);
        let is_as_surveyed = (returned - surveyed).abs() <= half_width + STIR_BYTES;
        self.returned_as_walked += u64::from(is_as_walked);
        self.returned_as_surveyed += u64::from(is_as_surveyed);
        if !is_as_walked || !is_as_surveyed {
            println!(
                "seed {seed}: a trim returned {returned:.0}; a walk said {walked:.0}, the survey {surveyed:.0} ±{half_width:.0}"
            );
        }
    }

    /// Says what was found.
    fn is_good(&mut self) -> bool {
        let count = self.heaps as f64;
        println!(
            "a trim returned what a walk had predicted, within 20% or 4 MiB, in {} of {count}; what lies in the survey's interval in {}",
            self.returned_as_walked, self.returned_as_surveyed
        );
        for (index, name) in FIGURES.iter().enumerate() {
            let widths = &mut self.widths[index];
            widths.sort_by(f64::total_cmp);
            let quantile = |share: f64| widths[(share * (count - 1.0)) as usize] * 100.0;
            println!(
                "{name}: the truth is in {} of {count} intervals ({:.1}%); half their width, of the heap: median {:.3}%, 95% below {:.3}%, \
                 at most {:.3}%",
                self.covered[index],
                self.covered[index] as f64 / count * 100.0,
                quantile(0.5),
                quantile(0.95),
                quantile(1.0)
            );
        }
        let is_often = |times: u64| times as f64 >= LEAST_COVERAGE * count;
        self.returned_as_walked == self.heaps
            && is_often(self.returned_as_surveyed)
            && self.covered.into_iter().all(is_often)
    }
}
