use super::super::tree;
use super::*;
use crate::model::{Function, Line, Location, Profile, StackSample};
use ramson_format::LookupAddress;

/// Stacks of function numbers, leaf first, with their bytes.
fn graph(stacks: &[(&[u32], f64)], min_share: f64, most_levels: usize) -> FlameGraph {
    let functions = 1 + *stacks.iter().flat_map(|(stack, _)| *stack).max().unwrap() as usize;
    let function = |index: usize| Function {
        name: format!("f{index}").into(),
        system_name: "".into(),
        file: "".into(),
    };
    let location = |function| Location {
        mapping: None,
        address: LookupAddress(1),
        offset: None,
        lines: vec![Line { function, line: 1 }],
    };
    let samples = stacks.iter().map(|(stack, bytes)| StackSample {
        locations: stack.to_vec(),
        values: [Estimate::exact(*bytes); 4],
        ..StackSample::default()
    });
    let profile = Profile {
        functions: (0..functions).map(function).collect(),
        locations: (0..functions).map(location).collect(),
        samples: samples.collect(),
        ..Profile::default()
    };
    flame(&tree(&profile, SampleType::InuseSpace, min_share), most_levels)
}

fn described(graph: &FlameGraph) -> Vec<String> {
    let boxes = graph.boxes.iter().map(|one| {
        let name = match &one.kind {
            FlameKind::Whole => "all",
            FlameKind::Frame(name) => &name.name,
            FlameKind::Merged { label, .. } => label,
        };
        format!("{} {:.2} {:.2} {name}", one.level, one.left, one.width)
    });
    boxes.collect()
}

#[test]
fn callees_lie_within_callers() {
    let graph = graph(&[(&[1, 0], 25.0), (&[2, 0], 50.0), (&[3], 25.0)], 0.0, 9);
    let expected = ["0 0.00 1.00 all", "1 0.00 0.75 f0", "2 0.00 0.50 f2", "2 0.50 0.25 f1"];
    assert_eq!(described(&graph)[..4], expected);
    assert_eq!((described(&graph)[4].as_str(), graph.levels), ("1 0.75 0.25 f3", 3));
}

#[test]
fn narrow_frames_are_one_box() {
    let graph = graph(&[(&[0], 98.0), (&[1, 2], 1.0), (&[3], 1.0)], 0.015, 9);
    assert_eq!(described(&graph)[2], "1 0.98 0.02 (3 frames < 1.50%: 2 B)");
    assert_eq!(graph.merged(), (3, Estimate::exact(2.0)));
}

#[test]
fn deeper_frames_merge_below_callers() {
    let deep: Vec<u32> = (0..500).collect();
    let graph = graph(&[(&deep, 40.0), (&[1, 498, 499], 20.0), (&[3, 2, 7], 40.0)], 0.0, 4);
    assert_eq!(graph.levels, 4);
    let expected = [
        "1 0.00 0.60 f499",
        "2 0.00 0.60 f498",
        "3 0.00 0.60 (499 frames deeper: 60 B)",
        "1 0.60 0.40 f7",
        "2 0.60 0.40 f2",
        "3 0.60 0.40 (1 frame deeper: 40 B)",
    ];
    assert_eq!(described(&graph)[1..], expected);
}

#[test]
fn shrinking_stacks_keep_their_width() {
    let graph = graph(&[(&[0], 5.0), (&[1], -5.0)], 0.0, 9);
    assert_eq!(described(&graph)[1..], ["1 0.00 0.50 f0", "1 0.50 0.50 f1"]);
}
