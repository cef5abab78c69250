//! Random profiles: our flat and cum per function are those of `go tool pprof`.

use crate::go_tool::{Workplace, parse_top};
use crate::profiles::random;
use ramson_profile::view::{Sort, top};
use ramson_profile::{
    Function, Line, Location, LookupAddress, Profile, SampleType, drop_allocator_frames,
};
use std::collections::BTreeMap;

const PROFILES: u64 = 600;
const THREADS: u64 = 4;

#[test]
fn random_profiles_agree_with_pprof() {
    let place = &Workplace::new("differential");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for seed in (thread..PROFILES).step_by(THREADS as usize) {
                    compare(place, seed);
                }
            });
        }
    });
}

fn compare(place: &Workplace, seed: u64) {
    let mut raw = random(seed);
    // pprof drops the allocator's frames itself if we have not: every second time. It keeps a stack of such frames whole,
    // where we keep its root, so then each stack begins in the program.
    let by_pprof = seed % 8 < 4;
    if by_pprof {
        begin_in_main(&mut raw);
    }
    let mut dropped = raw.clone();
    drop_allocator_frames(&mut dropped);
    let sample_type = SampleType::ALL[seed as usize % 4];
    let sample_index = format!("-sample_index={sample_type}");
    let ours = our_rows(&dropped, sample_type);
    let written = if by_pprof { &raw } else { &dropped };
    let file = place.write(&format!("{seed}.pb.gz"), written);
    let text = place.pprof(&[
        "-top",
        "-filefunctions",
        "-unit=bytes",
        "-nodecount=0",
        "-nodefraction=0",
        "-edgefraction=0",
        &sample_index,
        &file,
    ]);
    assert_eq!(parse_top(&text), ours, "seed {seed}, {sample_type}");
}

fn begin_in_main(profile: &mut Profile) {
    let main = Function { name: "main".into(), system_name: "main".into(), file: "m.cc".into() };
    profile.functions.push(main);
    let lines = vec![Line { function: profile.functions.len() - 1, line: 1 }];
    profile.locations.push(Location {
        mapping: None,
        address: LookupAddress(1),
        lines,
        offset: None,
    });
    for sample in profile.samples.iter_mut().filter(|sample| !sample.locations.is_empty()) {
        sample.locations.push(profile.locations.len() as u32 - 1);
    }
}

/// Our rows under pprof's names: an address without a name is its binary there. Rows without a value are not shown.
fn our_rows(profile: &Profile, sample_type: SampleType) -> BTreeMap<String, (i64, i64)> {
    let mut rows = BTreeMap::new();
    for row in top(profile, sample_type, Sort::Flat).rows {
        let name = match (row.name.split_once(".so+0x"), row.file.is_empty()) {
            (Some((binary, _)), true) => format!("[{binary}.so]"),
            (_, true) => row.name.to_string(),
            (_, false) => format!("{} {}", row.name, row.file),
        };
        let values = (row.flat.value as i64, row.cum.value as i64);
        if values != (0, 0) {
            assert_eq!(rows.insert(name.clone(), values), None, "two rows {name}");
        }
    }
    rows
}
