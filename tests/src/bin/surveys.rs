//! `surveys [FIRST COUNT [PIECES]]`: surveys COUNT heaps from seed FIRST on, with PIECES drawn or as many as it takes, and tells how often the
//! 95 % intervals have the truth in them; then it has each trimmed, and tells how often what that returned was as predicted. Fails below 93 %, and where
//! a walk of every chunk was more than 20 % and 4 MiB off what the trim returned.
#![forbid(unsafe_code)]

use ramson_process::glibc::{Effort, Statistics};
use ramson_tests::surveys::{FIGURES, Figures, Heap};
use std::process::ExitCode;
use std::time::Instant;

/// Heaps are larger than what is walked as a whole, and small enough for many of them.
const MIB: (u64, u64) = (70, 200);
const LEAST_COVERAGE: f64 = 0.93;
const MOST_OFF_BYTES: f64 = 4194304.0;
const MOST_OFF_SHARE: f64 = 0.2;
/// What a trim itself touches.
const STIR_BYTES: f64 = 65536.0;

fn main() -> ExitCode {
    let arguments: Vec<u64> =
        std::env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let (first, count) =
        (arguments.first().copied().unwrap_or(1), arguments.get(1).copied().unwrap_or(1000));
    let effort =
        arguments.get(2).map_or(Effort::Survey(0), |&pieces| Effort::Sample(pieces as usize));
    let mut covered = [0u64; 3];
    let (mut predicted, mut predicted_by_survey) = (0, 0);
    let mut widths: [Vec<f64>; 3] = Default::default();
    for seed in first..first + count {
        let mut heap = Heap::start(seed, MIB.0, MIB.1);
        let truth = heap.read(Effort::Exact);
        heap.assert_agrees(&truth);
        let truth = Figures::of(&truth);
        let start = Instant::now();
        let statistics: Statistics = heap.read(effort);
        let took = start.elapsed();
        let figures = Figures::of(&statistics);
        let (covers, off) = (figures.covers(&truth), figures.off(&truth));
        for index in 0..3 {
            covered[index] += u64::from(covers[index]);
            widths[index].push(figures.half_widths[index] / truth.taken);
        }
        let (walked, surveyed) = (truth.values[2], figures.values[2]);
        let returned = heap.trim();
        let is_as_walked = (returned - walked).abs() <= MOST_OFF_BYTES.max(MOST_OFF_SHARE * returned);
        let is_as_surveyed = (returned - surveyed).abs() <= figures.half_widths[2] + STIR_BYTES;
        predicted += u64::from(is_as_walked);
        predicted_by_survey += u64::from(is_as_surveyed);
        if !is_as_walked || !is_as_surveyed {
            println!("seed {seed}: a trim returned {returned:.0}; a walk said {walked:.0}, the survey {surveyed:.0} ±{:.0}", figures.half_widths[2]);
        }
        if covers != [true; 3] || std::env::var_os("VERBOSE").is_some() {
            let terms = [0, 1, 2].map(|index| {
                let (off, half_width) = (off[index], figures.half_widths[index]);
                format!("{} {:.0} off {off:.0} ±{half_width:.0}", FIGURES[index], truth.values[index])
            });
            let share = figures.read / truth.taken;
            print!("seed {seed}: {}; read {share:.2} in {took:.1?}; {}", terms.join(", "), heap.said);
        }
    }
    println!("a trim returned what a walk had predicted, within 20 % or 4 MiB, in {predicted} of {count}; what lies in the survey's interval in {predicted_by_survey}");
    let mut is_good = predicted == count && predicted_by_survey as f64 >= LEAST_COVERAGE * count as f64;
    for (index, name) in FIGURES.iter().enumerate() {
        let share = covered[index] as f64 / count as f64;
        is_good &= share >= LEAST_COVERAGE;
        widths[index].sort_by(f64::total_cmp);
        let quantile = |share: f64| widths[index][(share * (count - 1) as f64) as usize] * 100.0;
        println!(
            "{name}: the truth is in {} of {count} intervals ({:.1} %); half their width, of the heap: median {:.3} %, 95 % below {:.3} %, at most {:.3} %",
            covered[index], share * 100.0, quantile(0.5), quantile(0.95), quantile(1.0)
        );
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
