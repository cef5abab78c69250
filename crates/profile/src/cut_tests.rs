use super::*;
use crate::model::{Function, Line, Location, StackSample};
use ramson_format::LookupAddress;

/// Functions `f0` … `f9`, and stacks of their numbers, root first, with bytes.
fn profile(stacks: &[(&[u32], f64)]) -> Profile {
    let function = |index| Function {
        name: format!("f{index}").into(),
        system_name: "".into(),
        file: "".into(),
    };
    let location = |function| Location {
        mapping: None,
        address: LookupAddress(1),
        lines: vec![Line { function, line: 1 }],
    };
    let samples = stacks.iter().map(|(stack, bytes)| StackSample {
        locations: stack.iter().rev().copied().collect(),
        values: [bytes / 8.0, *bytes, bytes / 8.0, *bytes].map(Estimate::exact),
        ..StackSample::default()
    });
    Profile {
        functions: (0..10).map(function).collect(),
        locations: (0..10).map(location).collect(),
        samples: samples.collect(),
        ..Profile::default()
    }
}

const ALL: Cutting = Cutting {
    sample_type: SampleType::InuseSpace,
    walk: Walk::Callees,
    begin: None,
    path: &[],
    least_share: 0.0,
    most_depth: 100,
};

/// `depth name cum flat`, and the names of the path.
fn described(profile: &Profile, cutting: &Cutting) -> (Vec<String>, Cut) {
    let frames = FrameTable::new(profile);
    let cut = cut(profile, &frames, cutting);
    let of = |node: &CutNode| {
        let name =
            node.frame.map_or(format!("+{}", node.merged), |id| frames.name(id).name.to_string());
        format!("{} {name} {} {}", node.depth, node.cum.value, node.flat.value)
    };
    (cut.nodes.iter().map(of).collect(), cut)
}

fn id(profile: &Profile, name: &str) -> FrameId {
    let frames = FrameTable::new(profile);
    frames.ids().find(|&id| &*frames.name(id).name == name).unwrap()
}

#[test]
fn a_tree_leads_from_callers_to_callees_the_largest_first_and_sums_up() {
    let profile = profile(&[(&[0, 1], 24.0), (&[0, 2], 48.0), (&[0], 8.0), (&[3], 16.0)]);
    let (nodes, cut) = described(&profile, &ALL);
    assert_eq!(nodes, ["0 f0 80 8", "1 f2 48 48", "1 f1 24 24", "0 f3 16 16"]);
    assert_eq!((cut.total.cum.value, cut.total.objects.value), (96.0, 12.0));
    let flat: Vec<f64> = cut.flat.iter().map(|(_, value, _)| value.value).collect();
    assert_eq!(flat, [48.0, 24.0, 16.0, 8.0]);
}

#[test]
fn callers_begin_with_what_allocates() {
    let profile = profile(&[(&[0, 1], 24.0), (&[2, 1], 48.0)]);
    let (nodes, cut) = described(&profile, &Cutting { walk: Walk::Callers, ..ALL });
    assert_eq!(nodes, ["0 f1 72 0", "1 f2 48 48", "1 f0 24 24"]);
    assert_eq!(cut.flat.len(), 1);
}

#[test]
fn what_is_narrow_or_deep_is_merged_and_counted() {
    let profile = profile(&[(&[0], 960.0), (&[1, 2], 8.0), (&[3], 8.0), (&[0, 4, 5, 6], 24.0)]);
    let (nodes, _) = described(&profile, &Cutting { least_share: 0.01, ..ALL });
    let narrow = ["0 f0 984 960", "1 f4 24 0", "2 f5 24 0", "3 f6 24 24", "0 +3 16 0"];
    assert_eq!(nodes, narrow);
    let (nodes, _) = described(&profile, &Cutting { least_share: 0.01, most_depth: 2, ..ALL });
    assert_eq!(nodes, ["0 f0 984 960", "1 f4 24 0", "2 +2 24 0", "0 +3 16 0"]);
}

#[test]
fn a_zoomed_frame_keeps_those_that_lead_to_it_and_what_is_not_there_ends_the_path() {
    let profile = profile(&[(&[0, 1, 2], 24.0), (&[0, 1], 8.0), (&[0, 2], 16.0)]);
    let [f0, f1, f9] = ["f0", "f1", "f2"].map(|name| id(&profile, name));
    let (nodes, cut) = described(&profile, &Cutting { path: &[f0, f1], ..ALL });
    assert_eq!(nodes, ["0 f2 24 24"]);
    let path: Vec<(f64, f64)> =
        cut.path.iter().map(|node| (node.cum.value, node.flat.value)).collect();
    assert_eq!(path, [(48.0, 0.0), (32.0, 8.0)]);
    assert_eq!(cut.total.cum.value, 48.0);
    let (nodes, cut) = described(&profile, &Cutting { path: &[f0, f9, f9], ..ALL });
    assert_eq!((nodes.len(), cut.path.len()), (0, 2));
}

#[test]
fn around_a_function_each_stack_counts_once_from_its_outermost_frame() {
    let profile = profile(&[(&[0, 1, 2, 1, 3], 24.0), (&[4, 1], 8.0), (&[5], 16.0)]);
    let begin: Vec<bool> = {
        let frames = FrameTable::new(&profile);
        frames.ids().map(|id| &*frames.name(id).name == "f1").collect()
    };
    let (callees, cut) = described(&profile, &Cutting { begin: Some(&begin), ..ALL });
    assert_eq!(callees, ["0 f1 32 8", "1 f2 24 0", "2 f1 24 0", "3 f3 24 24"]);
    assert_eq!(cut.total.cum.value, 32.0);
    let callers = Cutting { begin: Some(&begin), walk: Walk::Callers, ..ALL };
    assert_eq!(described(&profile, &callers).0, ["0 f1 32 0", "1 f0 24 24", "1 f4 8 8"]);
}
