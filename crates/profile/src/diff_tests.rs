use super::*;
use crate::frames::Granularity;
use crate::model::{Function, Line, Location, Mapping, StackSample};
use ramson_format::LookupAddress;

/// A process whose program is loaded at `start`, was built as `build_id`, and whose functions a, b, main are `shift` lines
/// further down: stacks of them with bytes, variance as large.
fn process(start: u64, build_id: &str, shift: u32, stacks: &[(&[u32], f64)]) -> Profile {
    let function =
        |name: &str| Function { name: name.into(), system_name: name.into(), file: "x.c".into() };
    Profile {
        mappings: vec![Mapping {
            start,
            end: start + 0x1000,
            file_offset: 0,
            bias: start,
            path: "/bin/prog".into(),
            build_id: build_id.into(),
            ..Mapping::default()
        }],
        functions: ["a", "b", "main"].map(function).to_vec(),
        locations: (0..4)
            .map(|index| Location {
                mapping: Some(0),
                address: LookupAddress(start + 16 * index as u64 + u64::from(shift)),
                offset: None,
                lines: match index {
                    // Without a name.
                    3 => vec![],
                    _ => vec![Line { function: index, line: 10 + shift }],
                },
            })
            .collect(),
        samples: stacks
            .iter()
            .map(|&(stack, bytes)| StackSample {
                locations: stack.to_vec(),
                values: [Estimate::new(bytes, bytes); 4],
                ..StackSample::default()
            })
            .collect(),
        ..Profile::default()
    }
}

fn rows(diff: &Diff) -> Vec<String> {
    let table = diff.clone().table(SampleType::InuseSpace, Sort::Flat);
    let text = |row: &DiffRow| {
        let DiffRow { change, old_flat, new_flat, .. } = row;
        let Row { name, flat, cum, .. } = change;
        let (old, new) = (old_flat.value, new_flat.value);
        format!("{name} {} ±²{} {old}→{new} cum {}", flat.value, flat.variance, cum.value)
    };
    table.rows.iter().map(text).collect()
}

#[test]
fn functions_are_matched_by_name() {
    let old = process(0x1000, "aa", 0, &[(&[0, 2], 100.0), (&[1, 2], 50.0)]);
    let new = process(0x9000, "bb", 7, &[(&[0, 2], 30.0), (&[1, 2], 250.0)]);
    let diff = Diff { old, new, ..Diff::default() };
    let expected =
        ["b 200 ±²300 50→250 cum 200", "a -70 ±²130 100→30 cum -70", "main 0 ±²0 0→0 cum 130"];
    assert_eq!(rows(&diff), expected);
    assert_eq!(diff.clone().change().samples.len(), 2);
    let table = diff.table(SampleType::InuseSpace, Sort::Flat);
    let totals = (table.old_total.value, table.new_total.value, table.change);
    assert_eq!(totals, (150.0, 280.0, Estimate::new(130.0, 430.0)));
}

#[test]
fn unchanged_function_has_no_row() {
    let [old, mut new] = [0x1000, 0x9000].map(|start| process(start, "aa", 0, &[(&[0, 2], 100.0)]));
    let same = Diff { old: old.clone(), new: new.clone(), ..Diff::default() };
    assert!(rows(&same).is_empty(), "{:?}", rows(&same));
    new.samples[0].values = [Estimate::new(100.0, f64::NAN); 4];
    assert!(rows(&Diff { old, new, ..Diff::default() }).is_empty());
}

#[test]
fn nameless_addresses_match_by_file_address() {
    let old = process(0x1000, "aa", 0, &[(&[3, 2], 10.0)]);
    let new = process(0x9000, "aa", 0, &[(&[3, 2], 40.0)]);
    let diff = Diff { old, new, ..Diff::default() };
    assert_eq!(rows(&diff)[0], "prog+0x30 30 ±²50 10→40 cum 30");
}

#[test]
fn lines_match_on_request_only() {
    let mut diff = Diff {
        old: process(0x1000, "aa", 0, &[(&[0], 10.0)]),
        new: process(0x1000, "bb", 1, &[(&[0], 30.0)]),
        ..Diff::default()
    };
    assert_eq!(rows(&diff), ["a 20 ±²40 10→30 cum 20"]);
    diff.old.granularity = Granularity::Lines;
    diff.new.granularity = Granularity::Lines;
    diff.shared.granularity = Granularity::Lines;
    assert_eq!(rows(&diff), ["a 30 ±²30 0→30 cum 30", "a -10 ±²10 10→0 cum -10"]);
}

#[test]
fn shared_samples_add_no_error() {
    let diff = Diff {
        old: process(0x1000, "aa", 0, &[(&[0], 1.0)]),
        new: process(0x1000, "aa", 0, &[(&[0], 4.0)]),
        shared: process(0x1000, "aa", 0, &[(&[0], 100.0), (&[1], 1000.0)]),
    };
    assert_eq!(rows(&diff), ["a 3 ±²5 101→104 cum 3"]);
    let table = diff.table(SampleType::InuseSpace, Sort::Flat);
    assert_eq!((table.old_total.value, table.new_total.value), (1101.0, 1104.0));
    assert_eq!(table.change, Estimate::new(3.0, 5.0));
}
