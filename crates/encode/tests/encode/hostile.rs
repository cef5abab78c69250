//! Random profiles with what makes filters and names go wrong, and their rows under pprof's names.

use crate::go_tool::{Workplace, parse_rows};
use crate::profiles::{Random, random};
use ramson_profile::view::{Sort, top};
use ramson_profile::{
    FrameName, Function, Granularity, Label, LabelValue, Line, Location, LookupAddress, NO_MAPPING,
    Profile, STACKS_NOT_RECORDED, SampleType, drop_allocator_frames,
};
use std::collections::BTreeMap;

/// Rows by name: flat and cum.
pub type Rows = BTreeMap<String, (i64, i64)>;

pub const GRANULARITIES: [(Granularity, &str); 4] = [
    (Granularity::Functions, "-functions"),
    (Granularity::FileFunctions, "-filefunctions"),
    (Granularity::Files, "-files"),
    (Granularity::Lines, "-lines"),
];

const ALL_ROWS: [&str; 4] = ["-unit=bytes", "-nodecount=0", "-nodefraction=0", "-edgefraction=0"];

/// Beside what `random` makes: names shared by files, without a file, and beyond ASCII; labels; code in no mapping.
/// Without the allocator's frames.
pub fn hostile(seed: u64) -> Profile {
    let mut profile = random(seed);
    let mut random = Random(!seed);
    let plain = |name: &str, file: &str| Function {
        name: name.into(),
        system_name: name.into(),
        file: file.into(),
    };
    for (name, file) in [
        ("same", "0.cc"),
        ("same", "1.cc"),
        ("same", ""),
        ("größe<日本>", "ü/ä.cc"),
        ("(x)[y]*", ""),
    ] {
        profile.functions.push(plain(name, file));
        let line = |function| Line { function, line: 7 };
        let own = line(profile.functions.len() - 1);
        let lines = vec![own, line(random.below(profile.functions.len()))];
        let mapping = Some(random.below(profile.mappings.len()));
        profile.locations.push(Location {
            mapping,
            address: LookupAddress(3),
            lines,
            offset: None,
        });
    }
    profile.locations.push(Location {
        mapping: None,
        address: LookupAddress(0xbeef),
        offset: None,
        lines: vec![],
    });
    for sample in &mut profile.samples {
        for location in &mut sample.locations {
            if random.below(4) == 0 {
                *location = (profile.locations.len() - 1 - random.below(6)) as u32;
            }
        }
        sample.labels = labels(&mut random).into();
    }
    drop_allocator_frames(&mut profile);
    profile
}

fn labels(random: &mut Random) -> Vec<Label> {
    let mut labels = vec![Label::block_size(1 << random.below(20))];
    if random.below(2) == 0 {
        let name = ["main", "worker/7", "worker/8", "fäden,2"][random.below(4)];
        labels.push(Label::thread(name.into()));
    }
    if random.below(3) == 0 {
        // The format cannot tell a 0 without a unit from no label.
        let value = [-2, -1, 1, 2][random.below(4)];
        let value = LabelValue::Number { value, unit: "".into() };
        labels.push(Label { key: "request".into(), value });
    }
    if random.below(3) == 0 {
        let value = LabelValue::Number { value: random.below(5) as i64, unit: "ms".into() };
        labels.push(Label { key: "wait".into(), value });
    }
    labels
}

/// Our rows. pprof names code without a symbol by its binary, and code without a binary not at all; it does not show rows
/// without a value.
pub fn our_rows(profile: &Profile, sample_type: SampleType) -> Rows {
    let mut rows = Rows::new();
    for row in top(profile, sample_type, Sort::Flat).rows {
        let values = (row.flat.value as i64, row.cum.value as i64);
        if values != (0, 0) {
            add(&mut rows, name_in_pprof(&row.frame()), values);
        }
    }
    rows
}

/// A file is one frame per binary there and here, but has only its own name there.
pub fn name_in_pprof(frame: &FrameName) -> String {
    let FrameName { name, file, line, .. } = frame;
    let is_alone = file.is_empty() || file.starts_with("/nowhere/lib");
    match name.split_once(".so+0x") {
        Some((binary, _)) => format!("[{binary}.so]"),
        None if name.starts_with("0x") || &**name == NO_MAPPING => "<unknown>".into(),
        None if is_alone && *line == 0 => name.to_string(),
        None if *line == 0 => format!("{name} {file}"),
        None => format!("{name} {file}:{line}"),
    }
}

/// The row of stacks that were not recorded is a function in the file that we write, so where files are the frames pprof
/// has no name for it.
pub fn without_names(mut rows: Rows, granularity: Granularity) -> Rows {
    if granularity == Granularity::Files
        && let Some(values) = rows.remove(STACKS_NOT_RECORDED)
    {
        add(&mut rows, "<unknown>".into(), values);
    }
    rows
}

/// Rows of `pprof -top` with these further arguments. Its messages about expressions on standard error are not looked at.
pub fn pprof_rows(place: &Workplace, arguments: &[&str]) -> Rows {
    let mut rows = Rows::new();
    for (name, values) in parse_rows(&pprof_text(place, &[&["-top"], arguments].concat())) {
        add(&mut rows, name, values);
    }
    rows
}

pub fn pprof_text(place: &Workplace, arguments: &[&str]) -> String {
    let arguments = [&ALL_ROWS, arguments].concat();
    let output = place.command(&arguments).output().expect("pprof starts");
    assert!(output.status.success(), "pprof {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("pprof prints UTF-8")
}

fn add(rows: &mut Rows, name: String, values: (i64, i64)) {
    let sum = rows.entry(name).or_default();
    *sum = (sum.0 + values.0, sum.1 + values.1);
}

/// Runs `compare` on every seed below `seeds`, two at a time.
pub fn for_each_seed(seeds: u64, compare: impl Fn(u64) + Sync) {
    const THREADS: u64 = 2;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let compare = &compare;
            scope.spawn(move || (thread..seeds).step_by(THREADS as usize).for_each(compare));
        }
    });
}
