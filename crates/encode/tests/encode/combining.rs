//! Differences and sums of random profiles: our flat and cum are those of `go tool pprof` with `-diff_base` and with several
//! files.

use crate::go_tool::Workplace;
use crate::hostile::{GRANULARITIES, for_each_seed, hostile, our_rows, pprof_rows, without_names};
use crate::profiles::Random;
use ramson_profile::{Diff, Profile, SampleType, merge};

/// The same program in another process, some time later: loaded elsewhere, with some stacks gone and some grown.
fn later(earlier: &Profile, seed: u64) -> Profile {
    const MOVED: u64 = 0x7f00_0000_0000;
    let mut random = Random(seed ^ 0x1a7e);
    let mut later = earlier.clone();
    for mapping in &mut later.mappings {
        mapping.start += MOVED;
        mapping.end += MOVED;
        mapping.bias += MOVED;
    }
    for location in later.locations.iter_mut().filter(|location| location.mapping.is_some()) {
        location.address.0 += MOVED;
    }
    later.samples.retain(|_| random.below(4) > 0);
    for value in later.samples.iter_mut().flat_map(|sample| &mut sample.values) {
        value.value += random.below(1 << 12) as f64 - 1024.0;
    }
    later
}

#[test]
fn differences_are_those_of_pprof() {
    let place = Workplace::new("diff");
    for_each_seed(200, |seed| {
        let (granularity, flag) = GRANULARITIES[seed as usize % 4];
        let mut old = hostile(seed);
        let mut new = later(&old, seed);
        // A process with other code, every third time.
        if seed % 3 == 0 {
            new = hostile(seed + 1);
        }
        let base = place.write(&format!("{seed}.old.pb.gz"), &old);
        let file = place.write(&format!("{seed}.new.pb.gz"), &new);
        old.granularity = granularity;
        new.granularity = granularity;
        let sample_type = SampleType::ALL[seed as usize / 4 % 4];
        let index = format!("-sample_index={sample_type}");
        let base = format!("-diff_base={base}");
        let change = Diff { old, new, ..Diff::default() }.change();
        let ours = without_names(our_rows(&change, sample_type), granularity);
        assert_eq!(pprof_rows(&place, &[&base, flag, &index, &file]), ours, "seed {seed}");
    });
}

#[test]
fn sums_are_those_of_pprof() {
    let place = Workplace::new("merge");
    for_each_seed(100, |seed| {
        let (granularity, flag) = GRANULARITIES[seed as usize % 4];
        let first = hostile(seed);
        let profiles = [later(&first, seed), hostile(seed + 1), first];
        let mut sum = merge(profiles.to_vec()).unwrap();
        assert_eq!(sum.check_indices(), Ok(()));
        let write = |(index, profile)| place.write(&format!("{seed}.{index}.pb.gz"), profile);
        let files: Vec<String> = profiles.iter().enumerate().map(write).collect();
        let written = place.write(&format!("{seed}.sum.pb.gz"), &sum);
        sum.granularity = granularity;
        let sample_type = SampleType::ALL[seed as usize / 4 % 4];
        let index = format!("-sample_index={sample_type}");
        let ours = without_names(our_rows(&sum, sample_type), granularity);
        let [a, b, c] = [&files[0], &files[1], &files[2]];
        assert_eq!(pprof_rows(&place, &[flag, &index, a, b, c]), ours, "seed {seed}");
        assert_eq!(pprof_rows(&place, &[flag, &index, &written]), ours, "seed {seed}, written");
    });
}
