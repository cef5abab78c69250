use super::*;
use crate::frames::FrameTable;
use crate::model::{Function, Line, Location, Profile, SampleType, StackSample};
use crate::view::{TreeRowKind, callers, tree};
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
        offset: None,
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

const ALL: Cutting = Cutting { path: &[], least_share: 0.0, most_depth: 100 };

fn calls(profile: &Profile) -> CallTree {
    CallTree::new(profile, &FrameTable::new(profile), SampleType::InuseSpace, None)
}

/// `depth name cum flat`, and the names of the path.
fn described(profile: &Profile, calls: &CallTree, cutting: &Cutting) -> (Vec<String>, Cut) {
    let frames = FrameTable::new(profile);
    let cut = calls.cut(cutting);
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
fn tree_orders_and_sums_callees() {
    let profile = profile(&[(&[0, 1], 24.0), (&[0, 2], 48.0), (&[0], 8.0), (&[3], 16.0)]);
    let (nodes, cut) = described(&profile, &calls(&profile), &ALL);
    assert_eq!(nodes, ["0 f0 80 8", "1 f2 48 48", "1 f1 24 24", "0 f3 16 16"]);
    assert_eq!((cut.total.cum.value, cut.total.objects.value), (96.0, 12.0));
    let flat: Vec<f64> =
        calls(&profile).flat(&[]).iter().map(|(_, value, _)| value.value).collect();
    assert_eq!(flat, [48.0, 24.0, 16.0, 8.0]);
}

#[test]
fn callers_begin_with_what_allocates() {
    let profile = profile(&[(&[0, 1], 24.0), (&[2, 1], 48.0)]);
    let (nodes, _) = described(&profile, &calls(&profile).callers(), &ALL);
    assert_eq!(nodes, ["0 f1 72 0", "1 f2 48 48", "1 f0 24 24"]);
    let flat = calls(&profile).callers().flat(&[id(&profile, "f1"), id(&profile, "f0")]);
    assert_eq!((flat.len(), flat[0].0, flat[0].1.value), (1, id(&profile, "f1"), 24.0));
}

#[test]
fn narrow_and_deep_frames_are_merged() {
    let profile = profile(&[(&[0], 960.0), (&[1, 2], 8.0), (&[3], 8.0), (&[0, 4, 5, 6], 24.0)]);
    let (nodes, _) = described(&profile, &calls(&profile), &Cutting { least_share: 0.01, ..ALL });
    let narrow = ["0 f0 984 960", "1 f4 24 0", "2 f5 24 0", "3 f6 24 24", "0 +3 16 0"];
    assert_eq!(nodes, narrow);
    let (nodes, _) =
        described(&profile, &calls(&profile), &Cutting { least_share: 0.01, most_depth: 2, ..ALL });
    assert_eq!(nodes, ["0 f0 984 960", "1 f4 24 0", "2 +2 24 0", "0 +3 16 0"]);
}

#[test]
fn zoom_keeps_frames_that_lead_there() {
    let profile = profile(&[(&[0, 1, 2], 24.0), (&[0, 1], 8.0), (&[0, 2], 16.0)]);
    let [f0, f1, f9] = ["f0", "f1", "f2"].map(|name| id(&profile, name));
    let (nodes, cut) = described(&profile, &calls(&profile), &Cutting { path: &[f0, f1], ..ALL });
    assert_eq!(nodes, ["0 f2 24 24"]);
    let path: Vec<(f64, f64)> =
        cut.path.iter().map(|node| (node.cum.value, node.flat.value)).collect();
    assert_eq!(path, [(48.0, 0.0), (32.0, 8.0)]);
    assert_eq!(cut.total.cum.value, 48.0);
    let (nodes, cut) =
        described(&profile, &calls(&profile), &Cutting { path: &[f0, f9, f9], ..ALL });
    assert_eq!((nodes.len(), cut.path.len()), (0, 2));
}

#[test]
fn stacks_around_function_count_once() {
    let profile = profile(&[(&[0, 1, 2, 1, 3], 24.0), (&[4, 1], 8.0), (&[5], 16.0)]);
    let begin: Vec<bool> = {
        let frames = FrameTable::new(&profile);
        frames.ids().map(|id| &*frames.name(id).name == "f1").collect()
    };
    let all = calls(&profile);
    let (callees, cut) = described(&profile, &all.around(&begin, Walk::Callees), &ALL);
    assert_eq!(callees, ["0 f1 32 8", "1 f2 24 0", "2 f1 24 0", "3 f3 24 24"]);
    assert_eq!(cut.total.cum.value, 32.0);
    let callers = all.around(&begin, Walk::Callers);
    assert_eq!(described(&profile, &callers, &ALL).0, ["0 f1 32 0", "1 f0 24 24", "1 f4 8 8"]);
}

/// Stacks that share beginnings and ends, with values that no float adds up exactly; some negative if `is_diff`.
fn many(seed: u64, is_diff: bool) -> Profile {
    let mut state = seed;
    let mut next = |most: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let mut stacks: Vec<(Vec<u32>, f64)> = Vec::new();
    let mut stack: Vec<u32> = Vec::new();
    for _ in 0..600 {
        stack.truncate(next(stack.len() as u64 + 1) as usize);
        while stack.is_empty() || next(4) > 0 {
            stack.push(next(4) as u32);
        }
        let value = (next(10_000) + 1) as f64 / 7.0;
        stacks.push((stack.clone(), if is_diff && next(3) == 0 { -value } else { value }));
    }
    let stacks: Vec<(&[u32], f64)> =
        stacks.iter().map(|(stack, value)| (&**stack, *value)).collect();
    profile(&stacks)
}

#[test]
fn numbers_agree_with_report_tree() {
    for (seed, is_diff) in [(1, false), (2, false), (3, true)] {
        let profile = many(seed, is_diff);
        let frames = FrameTable::new(&profile);
        let of_type = SampleType::InuseSpace;
        let all = calls(&profile);
        for (calls, report) in
            [(all.callers(), callers(&profile, of_type, 0.0)), (all, tree(&profile, of_type, 0.0))]
        {
            let cut = calls.cut(&ALL);
            assert_eq!(cut.nodes.len(), report.rows.len());
            let mut rows: Vec<_> = report
                .rows
                .iter()
                .map(|row| {
                    let TreeRowKind::Frame(name) = &row.kind else { panic!("merged") };
                    (row.depth, name.clone(), whole(row.cum), whole(row.flat))
                })
                .collect();
            let mut nodes: Vec<_> = cut
                .nodes
                .iter()
                .map(|node| {
                    let name = frames.name(node.frame.unwrap()).clone();
                    (node.depth, name, whole(node.cum), whole(node.flat))
                })
                .collect();
            // Siblings of one value may stand in either order.
            rows.sort();
            nodes.sort();
            assert_eq!(nodes, rows, "seed {seed}");
        }
    }
}

/// Rounds a value, which may have been added up in another order.
fn whole(estimate: Estimate) -> i64 {
    (estimate.value * 1e6).round() as i64
}

#[test]
fn shown_and_merged_add_up() {
    for (seed, is_diff) in [(4, false), (5, true)] {
        let profile = many(seed, is_diff);
        let all = calls(&profile);
        let frames = all.cut(&ALL).nodes.len();
        for (least_share, most_depth) in
            [(0.0, 100), (0.001, 100), (0.02, 100), (0.0, 3), (0.01, 7), (2.0, 1)]
        {
            let cut = all.cut(&Cutting { path: &[], least_share, most_depth });
            let shown = cut.nodes.iter().map(|node| node.merged.max(1)).sum::<usize>();
            assert_eq!(shown, frames, "{least_share} {most_depth}");
            let mut left = vec![cut.total.cum.value - cut.total.flat.value];
            for node in &cut.nodes {
                left.truncate(node.depth + 1);
                left[node.depth] -= node.cum.value;
                left.push(if node.merged == 0 { node.cum.value - node.flat.value } else { 0.0 });
            }
            assert!(left[0].abs() < 1e-6, "{least_share} {most_depth}: {} is missing", left[0]);
        }
    }
}

#[test]
fn stacks_through_function_count_once() {
    let profile = profile(&[(&[0, 1, 2, 1], 24.0), (&[4, 1], 8.0), (&[5], 16.0), (&[1], 4.0)]);
    let frames = FrameTable::new(&profile);
    let is_f1: Vec<bool> = frames.ids().map(|id| &*frames.name(id).name == "f1").collect();
    let all = calls(&profile);
    assert_eq!(all.through(&is_f1).value, 36.0);
    assert_eq!(all.callers().through(&is_f1).value, 36.0);
    assert_eq!(all.through(&vec![false; is_f1.len()]).value, 0.0);
}

#[test]
fn empty_tree_is_zero() {
    let calls = calls(&profile(&[]));
    let cut = calls.cut(&ALL);
    assert_eq!((cut.total.cum.value, cut.nodes.len(), calls.flat(&[]).len()), (0.0, 0, 0));
}

fn beside(cut: &Cut) -> Vec<f64> {
    cut.nodes.iter().map(|node| node.beside.value).collect()
}

#[test]
fn values_beside_reach_every_node() {
    let profile =
        profile(&[(&[0, 1], 24.0), (&[0, 2], 48.0), (&[0, 3], 0.0), (&[0], 8.0), (&[0, 4], 0.0)]);
    let figures = [5.0, -2.0, -9.0, 1.0, 0.0].map(|value| Estimate::new(value, value.abs()));
    let frames = FrameTable::new(&profile);
    let calls = CallTree::new(&profile, &frames, SampleType::InuseSpace, Some(&figures));
    let merging = Cutting { least_share: 0.01, ..ALL };
    let (nodes, cut) = described(&profile, &calls, &merging);
    assert_eq!(nodes, ["0 f0 80 8", "1 f2 48 48", "1 f1 24 24", "1 +1 0 0"]);
    assert_eq!(beside(&cut), [-5.0, -2.0, 5.0, -9.0]);
    assert_eq!((cut.total.beside.value, cut.total.beside.variance), (-5.0, 17.0));
    let (nodes, cut) = described(&profile, &calls.callers(), &merging);
    assert_eq!(
        nodes,
        ["0 f2 48 0", "1 f0 48 48", "0 f1 24 0", "1 f0 24 24", "0 f0 8 8", "0 +2 0 0"]
    );
    assert_eq!(beside(&cut), [-2.0, -2.0, 5.0, 5.0, 1.0, -9.0]);
    let is_f3: Vec<bool> = frames.ids().map(|id| &*frames.name(id).name == "f3").collect();
    let around = calls.around(&is_f3, Walk::Callees).cut(&ALL);
    assert_eq!((beside(&around), around.total.beside.value), (vec![-9.0], -9.0));
}

#[test]
fn nothing_beside_takes_no_memory() {
    let profile = profile(&[(&[0, 1], 24.0), (&[0], 8.0)]);
    let frames = FrameTable::new(&profile);
    let with = |beside| CallTree::new(&profile, &frames, SampleType::InuseSpace, beside).bytes();
    let plain = with(None);
    assert!(plain < with(Some(&[Estimate::exact(1.0); 2])));
    let cut = calls(&profile).cut(&ALL);
    assert!(cut.nodes.iter().all(|node| node.beside.is_nothing()));
}
