//! Golden files. `holds.c` holds 100 blocks of 1,000 bytes and 50 of 500, and freed 1,000 of 2,000. `serves.go` holds 64
//! MiB.

use crate::{golden, read, stacks, total};
use ramson_import::{Format, InuseAt, import};
use ramson_profile::SampleType::{AllocObjects, AllocSpace, InuseObjects, InuseSpace};

#[test]
fn gperftools_counts_every_allocation() {
    let imported = read(&golden("gperftools.heap")).unwrap();
    assert_eq!(imported.format, Format::Gperftools);
    assert_eq!(imported.defects, []);
    assert_eq!(imported.profile.interval_bytes, 1);
    // The first line of the file: 151 objects live, 1,151 allocated (one is the buffer of standard output).
    assert_eq!(total(&imported, InuseObjects), 151.0);
    assert_eq!(total(&imported, InuseSpace), 129_096.0);
    assert_eq!(total(&imported, AllocObjects), 1_151.0);
    assert_eq!(total(&imported, AllocSpace), 2_129_096.0);
    assert_eq!(imported.profile.total(InuseSpace).variance, 0.0);
    let leaf = &imported.profile.locations[imported.profile.samples[0].locations[0] as usize];
    let mapping = &imported.profile.mappings[leaf.mapping.unwrap()];
    assert_eq!(mapping.path, "/srv/holds/holds");
}

#[test]
fn jemalloc_s_counts_are_weighted_once() {
    let imported = read(&golden("jemalloc.heap")).unwrap();
    assert_eq!(imported.format, Format::Jemalloc);
    assert_eq!(imported.defects, []);
    assert_eq!(imported.profile.interval_bytes, 1024);
    assert_eq!(imported.sample_types, [InuseObjects, InuseSpace]);
    assert!(total(&imported, AllocSpace).is_nan());
    let mut expected = [0.0; 2];
    let text = String::from_utf8(golden("jemalloc.heap")).unwrap();
    for line in text.lines().skip(3).filter_map(|line| line.strip_prefix("  t*: ")) {
        let mut numbers = line.split([':', ' ']).filter_map(|word| word.parse::<f64>().ok());
        let (objects, bytes) = (numbers.next().unwrap(), numbers.next().unwrap());
        let weight = 1.0 / (1.0 - (-(bytes / objects) / 1024.0).exp());
        expected[0] += objects * weight;
        expected[1] += bytes * weight;
    }
    assert!((total(&imported, InuseObjects) - expected[0]).abs() < 1e-6);
    assert!((total(&imported, InuseSpace) - expected[1]).abs() < 1e-6);
    assert!(imported.profile.total(InuseSpace).half_width_95() > 0.0);
}

#[test]
fn thread_sections_change_nothing() {
    let whole = read(&golden("jemalloc.heap")).unwrap();
    let without = read(&golden("jemalloc-without-threads.heap")).unwrap();
    // NaN is not equal to itself.
    assert_eq!(format!("{:?}", whole.profile), format!("{:?}", without.profile));
}

#[test]
fn heaptrack_tells_end_and_peak() {
    for name in ["heaptrack.zst", "heaptrack.gz"] {
        let end = read(&golden(name)).unwrap();
        assert_eq!(end.format, Format::Heaptrack);
        assert_eq!((&end.defects[..], &*end.profile.command), (&[][..], "holds"));
        // heaptrack itself said: 1,152 allocations, 151 leaked. One of 72,704 bytes, libstdc++'s, was freed in the end.
        assert_eq!(total(&end, AllocObjects), 1_152.0);
        assert_eq!(total(&end, InuseObjects), 151.0);
        assert_eq!(total(&end, InuseSpace), 100_000.0 + 25_000.0 + 4_096.0);
        let held = stacks(&end).into_iter().find(|(names, _)| names[0] == "hold").unwrap();
        assert_eq!(held.0[..2], ["hold", "main"]);
        let peak = import(&golden(name)[..], InuseAt::Peak).unwrap();
        assert_eq!(total(&peak, InuseSpace), 129_096.0 + 72_704.0);
        assert_eq!(total(&peak, AllocSpace), total(&end, AllocSpace));
    }
}

#[test]
fn go_values_are_kept() {
    let imported = read(&golden("go.pb.gz")).unwrap();
    assert_eq!(imported.format, Format::Pprof);
    assert_eq!(imported.defects, []);
    assert_eq!(imported.profile.interval_bytes, 512 << 10);
    assert_eq!(imported.default_sample_type, InuseSpace);
    let held = stacks(&imported).into_iter().filter(|(names, _)| names[0] == "main.hold");
    let held: Vec<f64> = held.map(|(_, values)| values[InuseSpace as usize]).collect();
    let sum: f64 = held.iter().sum();
    assert!((60e6..75e6).contains(&sum), "{held:?}");
    // Blocks of 4 MiB are certain, those of 16 KiB are not.
    let relative = |sample: &ramson_profile::StackSample| {
        let value = sample.value(InuseSpace);
        value.half_width_95() / value.value
    };
    let size = |sample: &ramson_profile::StackSample| {
        sample.value(InuseSpace).value / sample.value(InuseObjects).value
    };
    for sample in imported.profile.samples.iter().filter(|sample| size(sample) > 0.0) {
        match size(sample) as u64 {
            0x400000 => assert!(relative(sample) < 0.02),
            0x4000 => assert!(relative(sample) > 0.1),
            _ => {}
        }
    }
}

#[test]
fn collapsed_stacks_are_read_back() {
    let text =
        "main;a b;c 10\r\nmain;c 2.5\n# remark\n\nmain;a b;c 5\n (anonymous);x 0\nno number\n";
    let text = text.repeat(10).replace("no number", "x");
    let imported = read(format!("main;first 1\n{}", text.replace("x\n", "")).as_bytes()).unwrap();
    assert_eq!(imported.format, Format::Collapsed);
    assert_eq!(imported.sample_types, [InuseSpace]);
    let live: Vec<(String, f64)> = stacks(&imported)
        .into_iter()
        .map(|(names, values)| (names.join("<"), values[InuseSpace as usize]))
        .collect();
    let expected = [("first<main", 1.0), ("c<a b<main", 150.0), ("c<main", 25.0)];
    assert_eq!(live, expected.map(|(names, value)| (names.to_owned(), value)));
    let total = imported.profile.total(InuseSpace);
    assert!(total.half_width_95().is_nan() && !total.is_significant());
    assert!(imported.profile.total(InuseObjects).value.is_nan());
}
