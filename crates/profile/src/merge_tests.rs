use super::*;
use ramson_format::LookupAddress;

/// One library of one function at `start`, with one stack of `bytes`.
fn profile(start: u64, build_id: &str, bytes: f64) -> Profile {
    Profile {
        interval_bytes: 1024 + start,
        start_unix_ns: start,
        time_unix_ns: 2 * start,
        mappings: vec![Mapping {
            start,
            end: start + 8000,
            file_offset: 0,
            bias: start,
            path: "/lib/libx.so".into(),
            build_id: build_id.into(),
            ..Mapping::default()
        }],
        functions: vec![Function { name: "f".into(), system_name: "f".into(), file: "x.c".into() }],
        locations: vec![Location {
            mapping: Some(0),
            address: LookupAddress(start + 16),
            offset: None,
            lines: vec![Line { function: 0, line: 3 }],
        }],
        samples: vec![StackSample {
            locations: vec![0],
            values: [Estimate::new(bytes, 1.0); 4],
            ..StackSample::default()
        }],
        ..Profile::default()
    }
}

#[test]
fn moved_binary_is_merged() {
    let merged = merge(vec![profile(0x1000, "aa", 3.0), profile(0x7000, "aa", 4.0)]).unwrap();
    assert_eq!((merged.mappings.len(), merged.locations.len(), merged.samples.len()), (1, 1, 1));
    assert_eq!(merged.samples[0].values[0], Estimate::new(7.0, 2.0));
    assert_eq!(merged.locations[0].address, LookupAddress(0x1010));
    assert_eq!(merged.interval_bytes, 1024 + 0x7000);
    assert_eq!((merged.time_unix_ns, merged.start_unix_ns), (0x2000, 0));
    assert_eq!(merged.check_indices(), Ok(()));
}

#[test]
fn different_builds_and_labels_stay_apart() {
    let mut labelled = profile(0x1000, "bb", 4.0);
    labelled.samples[0].labels = [Label::block_size(8)].into();
    let mut profiles = [profile(0x1000, "aa", 3.0), profile(0x1000, "bb", 4.0), labelled];
    let merged = merge(profiles.to_vec()).unwrap();
    assert_eq!((merged.mappings.len(), merged.functions.len(), merged.samples.len()), (2, 1, 3));
    assert_eq!(merged.total(SampleType::InuseSpace).value, 11.0);
    profiles.reverse();
    assert_eq!(merge(profiles.to_vec()).unwrap().total(SampleType::InuseSpace).value, 11.0);
}

#[test]
fn samples_of_nothing_go() {
    let mut nothing = profile(0x1000, "aa", 0.0);
    nothing.samples[0].values = Default::default();
    assert_eq!(merge(vec![nothing]).unwrap().samples, []);
    assert_eq!(merge(vec![]), Ok(Profile::default()));
}

#[test]
fn different_sample_types_are_not_added() {
    let mut live_only = profile(0x1000, "aa", 3.0);
    live_only.samples[0].values[SampleType::AllocSpace as usize].value = f64::NAN;
    let different = DifferentTypes { index: 1, sample_type: SampleType::AllocSpace };
    assert_eq!(merge(vec![profile(0x1000, "aa", 3.0), live_only]), Err(different));
}
