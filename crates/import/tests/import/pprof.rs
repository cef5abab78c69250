//! pprof files that no producer here writes, but the format allows.

use crate::message::{bytes, number, packed};
use crate::{read, stacks, total};
use ramson_import::{DropFrames, ImportDefect, ImportError};
use ramson_profile::SampleType::{self, AllocObjects, AllocSpace, InuseObjects, InuseSpace};

/// Positions are those of `TEXTS`.
const TEXTS: [&str; 19] = [
    "",
    "objects",
    "count",
    "space",
    "bytes",
    "main",
    "leaf",
    "cpu",
    "nanoseconds",
    "thread",
    "mall.*",
    "t1",
    "allocations",
    "alloc_space",
    "free_space",
    "inuse_objects",
    "inuse_space",
    "alloc-space",
    "heap-space",
];

fn texts() -> Vec<u8> {
    TEXTS.iter().flat_map(|text| bytes(6, text.as_bytes())).collect()
}

fn types(pairs: &[(u64, u64)]) -> Vec<u8> {
    let types =
        pairs.iter().map(|&(name, unit)| bytes(1, &[number(1, name), number(2, unit)].concat()));
    types.collect::<Vec<_>>().concat()
}

/// Functions and locations `main` (id 9) and `leaf` (id 70,000).
fn code() -> Vec<u8> {
    let one = |id: u64, name: u64| {
        let line = [number(1, id), number(2, 7)].concat();
        let location = [number(1, id), number(3, id), bytes(4, &line)].concat();
        [bytes(4, &location), bytes(5, &[number(1, id), number(2, name)].concat())].concat()
    };
    [one(9, 5), one(70_000, 6)].concat()
}

fn sample(stack: &[u64], values: &[i64]) -> Vec<u8> {
    let values: Vec<u64> = values.iter().map(|&value| value as u64).collect();
    bytes(2, &[packed(1, stack), packed(2, &values)].concat())
}

fn period(bytes_between: u64) -> Vec<u8> {
    [bytes(11, &[number(1, 3), number(2, 4)].concat()), number(12, bytes_between)].concat()
}

#[test]
fn fields_come_in_any_order() {
    let parts =
        [types(&[(1, 2), (3, 4)]), sample(&[70_000, 9], &[2, 64]), code(), texts(), period(512)];
    let expected = read(&parts.concat()).unwrap();
    assert_eq!(stacks(&expected)[0].0, ["leaf", "main"]);
    assert_eq!(total(&expected, InuseObjects), 2.0);
    assert_eq!(total(&expected, InuseSpace), 64.0);
    assert!(total(&expected, AllocSpace).is_nan());
    assert_eq!(expected.profile.interval_bytes, 512);
    for first in 0..parts.len() {
        let mut order = parts.clone();
        order.rotate_left(first);
        if order[0] != parts[4] {
            let read = read(&order.concat()).unwrap();
            assert_eq!(format!("{:?}", read.profile), format!("{:?}", expected.profile), "{first}");
        }
    }
}

#[test]
fn profile_without_its_names_is_refused() {
    let parts =
        [types(&[(1, 2), (3, 4)]), sample(&[70_000, 9], &[2, 64]), code(), texts(), period(512)];
    let whole = parts.concat();
    let last = whole.windows(4).position(|bytes| bytes == b"main").unwrap();
    let cut = read(&whole[..last]);
    assert!(matches!(cut, Err(ImportError::Nothing(Some(ImportDefect::Cut)))), "{cut:?}");
}

#[test]
fn period_of_live_bytes_is_an_interval() {
    let datadog = [bytes(11, &[number(1, 16), number(2, 4)].concat()), number(12, 512)].concat();
    let parts = [types(&[(1, 2), (3, 4)]), sample(&[9], &[2, 64]), code(), texts(), datadog];
    assert_eq!(read(&parts.concat()).unwrap().profile.interval_bytes, 512);
}

#[test]
fn unknown_fields_are_skipped() {
    let unpacked = [number(1, 70_000), number(1, 9), number(2, 3), number(2, 30), number(99, 1)];
    let file = [
        types(&[(1, 2), (3, 4)]),
        bytes(2, &unpacked.concat()),
        bytes(77, b"anything"),
        number(78, 5),
        code(),
        texts(),
    ];
    let imported = read(&file.concat()).unwrap();
    assert_eq!(total(&imported, InuseSpace), 30.0);
    assert_eq!(imported.defects, []);
    // Without a period nobody knows how it was sampled.
    assert!(imported.profile.total(InuseSpace).half_width_95().is_nan());
}

#[test]
fn negative_diff_values_stay_negative() {
    let file = [types(&[(1, 2), (3, 4)]), sample(&[9], &[-2, -64]), code(), texts(), period(1)];
    let imported = read(&file.concat()).unwrap();
    assert_eq!(total(&imported, InuseSpace), -64.0);
    assert_eq!(imported.profile.total(InuseSpace).variance, 0.0);
}

#[test]
fn equal_stacks_and_labels_are_merged() {
    let label = bytes(3, &[number(1, 9), number(2, 11)].concat());
    let labelled = bytes(2, &[packed(1, &[9]), packed(2, &[1, 8]), label].concat());
    let plain = sample(&[9], &[1, 8]);
    let file = [
        types(&[(1, 2), (3, 4)]),
        plain.clone(),
        labelled.clone(),
        plain,
        labelled,
        code(),
        texts(),
    ];
    let samples = read(&file.concat()).unwrap().profile.samples;
    assert_eq!(samples.len(), 2);
    assert!(samples.iter().all(|sample| sample.value(InuseSpace).value == 16.0));
    assert_eq!(samples[1].labels[0].to_string(), "thread=t1");
}

#[test]
fn cpu_profile_is_refused_by_name() {
    let cpu = [types(&[(7, 8)]), sample(&[9], &[1]), code(), texts()].concat();
    match read(&cpu) {
        Err(ImportError::NotAHeapProfile(types)) => assert_eq!(types, ["cpu/nanoseconds"]),
        other => panic!("{other:?}"),
    }
    let both = [types(&[(7, 8), (3, 4)]), sample(&[9], &[1, 64]), code(), texts()].concat();
    let imported = read(&both).unwrap();
    assert_eq!(imported.sample_types, [SampleType::InuseSpace]);
    assert_eq!(imported.defects, [ImportDefect::OtherSampleTypes(vec!["cpu/nanoseconds".into()])]);
    assert_eq!(total(&imported, InuseSpace), 64.0);
}

#[test]
fn unresolved_samples_are_counted() {
    let file = [
        types(&[(1, 2), (3, 4)]),
        sample(&[9, 12345], &[1, 8]),
        sample(&[9], &[1, 16]),
        code(),
        texts(),
    ];
    let imported = read(&file.concat()).unwrap();
    assert_eq!(total(&imported, InuseSpace), 16.0);
    assert_eq!(imported.defects, [ImportDefect::BadRecords(1)]);
}

#[test]
fn file_names_frames_to_drop() {
    let file = [types(&[(3, 4)]), sample(&[9], &[8]), code(), texts(), number(7, 10)].concat();
    match read(&file).unwrap().drop_frames {
        DropFrames::Named { drop, keep: None } => {
            assert!(drop.is_match("malloc") && !drop.is_match("my_malloc"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_unit_decides_what_is_counted() {
    let of = |unit| read(&[types(&[(12, unit)]), sample(&[9], &[64]), code(), texts()].concat());
    assert_eq!(of(4).unwrap().sample_types, [AllocSpace]);
    assert_eq!(of(2).unwrap().sample_types, [AllocObjects]);
    // inuse_space in objects.
    let contradicts = [types(&[(16, 2)]), sample(&[9], &[64]), code(), texts()].concat();
    assert!(matches!(read(&contradicts), Err(ImportError::NotAHeapProfile(_))));
}

#[test]
fn heap_types_are_found_wherever_they_stand() {
    let six = [(7, 8), (9, 2), (13, 4), (14, 2), (15, 2), (16, 4)];
    let file = [
        types(&six),
        sample(&[70_000, 9], &[5, 6, 1000, 600, 4, 400]),
        sample(&[9], &[5, 6, 5000, 1000, 4, 4000]),
        // Of the processor's time only.
        sample(&[70_000], &[7, 0, 0, 0, 0, 0]),
        // Values that are missing are 0.
        sample(&[9], &[1, 1, 8]),
        code(),
        texts(),
    ];
    let mut late_types = file.clone();
    late_types.rotate_left(1);
    for file in [file, late_types] {
        let imported = read(&file.concat()).unwrap();
        assert_eq!(imported.sample_types, [AllocSpace, InuseObjects, InuseSpace]);
        assert_eq!(imported.default_sample_type, InuseSpace);
        assert_eq!(total(&imported, AllocSpace), 6008.0);
        assert_eq!(total(&imported, InuseObjects), 8.0);
        assert_eq!(total(&imported, InuseSpace), 4400.0);
        assert_eq!(imported.profile.samples.len(), 2);
        let others = ["cpu/nanoseconds", "thread/count", "free_space/count"].map(str::to_owned);
        assert_eq!(imported.defects, [ImportDefect::OtherSampleTypes(others.into())]);
    }
}

#[test]
fn names_of_other_profilers_are_known() {
    let file = [types(&[(17, 4), (18, 4)]), sample(&[9], &[64, 8]), code(), texts()].concat();
    let imported = read(&file).unwrap();
    assert_eq!(imported.sample_types, [AllocSpace, InuseSpace]);
    assert_eq!((total(&imported, AllocSpace), total(&imported, InuseSpace)), (64.0, 8.0));
    // The file's own default, by its own name.
    let imported = read(&[file, number(14, 17)].concat()).unwrap();
    assert_eq!(imported.default_sample_type, AllocSpace);
}

#[test]
fn profiles_one_after_the_other_are_refused() {
    let parts = [types(&[(1, 2), (3, 4)]), sample(&[9], &[1, 8]), code(), texts()];
    let first = parts.concat();
    let timed = [&first[..], &number(9, 1_700_000_000)].concat();
    let mut strings_first = parts.clone();
    strings_first.rotate_left(3);
    for file in [
        [&first[..], &first].concat(),
        [&timed[..], &timed].concat(),
        [strings_first.concat(), strings_first.concat()].concat(),
        [&timed[..], &number(9, 1), &strings_first.concat()].concat(),
    ] {
        assert!(matches!(read(&file), Err(ImportError::Concatenated)));
    }
    assert!(read(&timed).is_ok());
    // Strings may be among other fields, and one of them empty.
    let split = [parts[0].clone(), bytes(6, b""), code(), texts()[2..].to_vec(), bytes(6, b"")];
    assert!(read(&[split.concat(), sample(&[9], &[1, 8])].concat()).is_ok());
}
