//! Profiles of other tools.

use crate::choices::{Choices, sized};
use crate::seed::{Seed, joined};
use prost::Message;
use ramson_encode::{collapsed, svg};
use ramson_import::{Imported, InuseAt, import};
use ramson_profile::pprof::{Function, Line, Location, Profile, Sample, ValueType};
use ramson_profile::view::{Sort, top};
use std::io;

const MOST_LOCATIONS: u64 = 1 << 16;
const MOST_LINES: u64 = 1 << 17;
const MOST_STEPS: u64 = 1 << 17;
const MOST_NAME_BYTES: u64 = 1 << 16;

/// All foreign formats: which one it is, is up to the bytes.
pub fn import_any(bytes: &[u8]) {
    check(bytes);
}

/// pprof's, with a sample type, so that what follows is taken for pprof's.
pub fn import_pprof(bytes: &[u8]) {
    check(&joined(b"\x0a\x04\x08\x01\x10\x02", bytes));
}

/// jemalloc's text.
pub fn import_jemalloc(bytes: &[u8]) {
    check(&joined(b"heap_v2/512\n", bytes));
}

/// gperftools' text.
pub fn import_gperftools(bytes: &[u8]) {
    check(&joined(b"heap profile: 1: 2 [3: 4] @ heap_v2/512\n", bytes));
}

/// heaptrack's text.
pub fn import_heaptrack(bytes: &[u8]) {
    check(&joined(b"v 10400 3\n", bytes));
}

/// Collapsed stacks.
pub fn import_collapsed(bytes: &[u8]) {
    check(&joined(b"main;leaf 1\n", bytes));
}

/// A pprof file that the input describes: locations with many lines, samples that have one location many times.
pub fn pprof_messages(bytes: &[u8]) {
    check(&profile(&mut Choices(bytes)).encode_to_vec());
}

/// The reader returns a profile whose indices are valid and that can be shown, or an error that can be shown.
fn check(bytes: &[u8]) {
    let imported = match import(bytes, InuseAt::Peak) {
        Ok(imported) => imported,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let Imported { profile, sample_types, default_sample_type, defects, .. } = &imported;
    assert_eq!(profile.check_indices(), Ok(()));
    assert!(sample_types.contains(default_sample_type));
    assert!(defects.iter().all(|defect| !defect.to_string().is_empty()));
    top(profile, *default_sample_type, Sort::Flat);
    collapsed::write(profile, &mut io::sink(), *default_sample_type).expect("a sink takes all");
    svg::write(profile, &mut io::sink(), *default_sample_type).expect("a sink takes all");
}

fn profile(choices: &mut Choices) -> Profile {
    let locations = choices.size(MOST_LOCATIONS).max(1);
    let lines = choices.size(MOST_LINES / locations);
    let samples = choices.size(MOST_STEPS);
    let depth = choices.size(MOST_STEPS / samples.max(1));
    // By how much a step's location differs from that of the step before.
    let stride = u64::from(choices.byte());
    let name = "f".repeat(choices.size(MOST_NAME_BYTES) as usize);
    let functions = choices.size(MOST_LOCATIONS).max(1);
    let strings = ["", "inuse_space", "bytes", &name].map(str::to_owned);
    let line = |index: u64| Line { function_id: index % functions + 1, line: index as i64 };
    let location = |index: u64| Location {
        id: index + 1,
        address: 4096 + index,
        line: (0..lines).map(|at| line(index + at)).collect(),
        ..Location::default()
    };
    let step = |index: u64| index * stride % locations + 1;
    let sample = |index: u64| Sample {
        location_id: (0..depth).map(|at| step(index + at)).collect(),
        value: vec![4096],
        label: Vec::new(),
    };
    Profile {
        sample_type: vec![ValueType { r#type: 1, unit: 2 }],
        sample: (0..samples).map(sample).collect(),
        location: (0..locations).map(location).collect(),
        function: (0..functions)
            .map(|index| Function { id: index + 1, name: 3, ..Function::default() })
            .collect(),
        string_table: strings.to_vec(),
        ..Profile::default()
    }
}

/// Locations, lines of each, samples, depth of each; then stride, bytes of a name, functions.
fn described(sizes: [u64; 4], stride: u8, name_bytes: u64, functions: u64) -> Vec<u8> {
    let mut bytes = sizes.map(sized).concat();
    bytes.push(stride);
    bytes.extend([sized(name_bytes), sized(functions)].concat());
    bytes
}

/// Seeds of `pprof_messages`.
pub fn messages() -> Vec<Seed> {
    vec![
        Seed::new("plain", described([30, 2, 20, 10], 7, 9, 20)),
        Seed::new("one-long-name", described([100, 3, 100, 20], 1, 1 << 12, 1)),
        Seed::new("one-deep-stack", described([1000, 1, 1, 1 << 15], 1, 9, 1000)),
        Seed::of_finding(
            7,
            "one-location-of-40000-lines-40000-times",
            described([1, 40_000, 1, 40_000], 0, 9, 40_000),
        ),
    ]
}

/// Seeds of `import_pprof`.
pub fn pprof_files() -> Vec<Seed> {
    let seeds = messages().into_iter().filter(|seed| seed.finding.is_none());
    let as_file =
        |seed: Seed| Seed { bytes: profile(&mut Choices(&seed.bytes)).encode_to_vec(), ..seed };
    seeds.map(as_file).collect()
}

/// Seeds of `import_heaptrack`.
pub fn heaptrack_texts() -> Vec<Seed> {
    let text = b"X prog\nI 1000 4\ns 4 main\ns 4 leaf\ns 6 prog.c\ni 1234 1 2 4 7\ni 1238 1 3\n\
        t 1 0\nt 2 1\na 64 1\na 20 2\n+ 0\n+ 1\nc 5\nR a0\n- 0\n+ 0\n";
    vec![Seed::new("small", text.to_vec())]
}

/// Seeds of `import_collapsed`.
pub fn collapsed_texts() -> Vec<Seed> {
    vec![Seed::new("small", b"main;a;b 12\nmain;c 3\nmain;[mmap];d 4096\n".to_vec())]
}

/// Seeds of `import_any`: files of real producers.
pub fn real_files() -> Vec<Seed> {
    macro_rules! golden {
        ($($name:literal),*) => {
            vec![$(Seed::new($name, include_bytes!(concat!("../../golden/import/", $name)).to_vec())),*]
        };
    }
    golden!(
        "go.pb.gz",
        "gperftools.heap",
        "heaptrack.gz",
        "heaptrack.zst",
        "jemalloc.heap",
        "jemalloc-without-threads.heap",
        "malloc_info.xml",
        "memleak.txt",
        "redpanda.json",
        "symbolized.heap"
    )
}

/// Those in text, behind the line by which a format is recognized.
fn behind_first_line(is_wanted: fn(&str) -> bool) -> Vec<Seed> {
    let mut seeds = real_files();
    seeds.retain(|seed| is_wanted(&seed.name));
    for seed in &mut seeds {
        let line = seed.bytes.iter().position(|&byte| byte == b'\n');
        seed.bytes.drain(..=line.expect("a text"));
    }
    seeds
}

/// Seeds of `import_jemalloc`.
pub fn jemalloc_texts() -> Vec<Seed> {
    behind_first_line(|name| name.starts_with("jemalloc"))
}

/// Seeds of `import_gperftools`.
pub fn gperftools_texts() -> Vec<Seed> {
    behind_first_line(|name| name.starts_with("gperftools"))
}
