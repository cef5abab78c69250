use super::top::MANY_STACKS;
use super::*;
use crate::estimate::Estimate;
use crate::frames::{FrameAt, FrameId, FrameTable, STACKS_NOT_RECORDED};
use crate::model::{Function, Line, Location, Mapping, Profile, SampleType, StackSample};
use crate::pattern::Pattern;
use ramson_format::LookupAddress;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Functions `a`…`e` in `x.cc`; location 0…4 is one call site in each, 5 a second one in `a` (line 60), 6 has `a`
/// inlined into `b`, 7 has no symbol, 8 no mapping either.
fn profile(stacks: &[(&[u32], f64)]) -> Profile {
    let function =
        |name: &str| Function { name: name.into(), system_name: name.into(), file: "x.cc".into() };
    let line = |function, line| Line { function, line };
    let location = |address, lines| Location {
        mapping: Some(0),
        address: LookupAddress(address),
        lines,
        offset: None,
    };
    let mut locations: Vec<Location> =
        (0..5).map(|i| location(0x1000 + i as u64, vec![line(i, 10 * (i as u32 + 1))])).collect();
    locations.push(location(0x1060, vec![line(0, 60)]));
    locations.push(location(0x1070, vec![line(0, 70), line(1, 71)]));
    locations.push(location(0x1080, vec![]));
    locations.push(Location {
        mapping: None,
        address: LookupAddress(0xbeef),
        lines: vec![],
        offset: None,
    });
    let samples = stacks.iter().map(|&(stack, bytes)| {
        let bytes = Estimate::new(bytes, bytes.abs());
        let objects = Estimate::exact(bytes.value / 8.0);
        let values = [objects, bytes, objects, bytes];
        StackSample { locations: stack.to_vec(), values, ..StackSample::default() }
    });
    Profile {
        mappings: vec![Mapping {
            start: 0x1000,
            end: 0x2000,
            file_offset: 0,
            bias: 0x800,
            path: "/lib/libx.so".into(),
            build_id: String::new(),
            ..Mapping::default()
        }],
        locations,
        functions: ["a", "b", "c", "d", "e"].map(function).to_vec(),
        samples: samples.collect(),
        ..Profile::default()
    }
}

fn row<'a>(table: &'a TopTable, name: &str) -> &'a Row {
    table.rows.iter().find(|row| &*row.name == name).unwrap_or_else(|| panic!("no row {name}"))
}

fn top_of(stacks: &[(&[u32], f64)]) -> TopTable {
    top(&profile(stacks), SampleType::InuseSpace, Sort::Flat)
}

#[test]
fn flat_counts_leaf_and_cum_stack() {
    let table = top_of(&[(&[0, 1, 2], 80.0), (&[1, 2], 16.0)]);
    let values = |name| {
        let row = row(&table, name);
        (row.flat.value, row.cum.value, row.objects.value)
    };
    assert_eq!(values("a"), (80.0, 80.0, 10.0));
    assert_eq!(values("b"), (16.0, 96.0, 2.0));
    assert_eq!(values("c"), (0.0, 96.0, 0.0));
    assert_eq!(table.total, Estimate::new(96.0, 96.0));
    assert_eq!(row(&table, "c").cum.variance, 96.0);
}

#[test]
fn recursive_function_counts_once() {
    let table = top_of(&[(&[0, 1, 5, 1, 0], 80.0)]);
    for name in ["a", "b"] {
        assert_eq!(row(&table, name).cum, table.total);
    }
}

#[test]
fn innermost_inlined_frame_has_flat() {
    let table = top_of(&[(&[6, 2], 80.0)]);
    assert_eq!(row(&table, "a").flat.value, 80.0);
    assert_eq!(row(&table, "b").flat.value, 0.0);
    assert_eq!(row(&table, "b").cum.value, 80.0);
    assert_eq!((row(&table, "a").line, row(&table, "b").line), (70, 71));
}

#[test]
fn row_points_to_hottest_line() {
    let table = top_of(&[(&[0, 2], 80.0), (&[5, 2], 88.0), (&[1, 0], 800.0)]);
    assert_eq!(row(&table, "a").line, 60);
    let no_flat = top_of(&[(&[1, 0], 80.0), (&[1, 5], 88.0), (&[2, 0], 24.0)]);
    assert_eq!(row(&no_flat, "a").line, 10);
    let recursive = top_of(&[(&[1, 0, 0], 40.0), (&[1, 5], 56.0)]);
    assert_eq!(row(&recursive, "a").line, 60);
}

/// Flat, cum and line of every function, counted without any table.
fn counted(profile: &Profile) -> BTreeMap<Arc<str>, (Estimate, Estimate, u32)> {
    let frames = FrameTable::new(profile);
    let mut functions = BTreeMap::new();
    let mut lines = BTreeMap::new();
    for sample in profile.samples.iter() {
        let value = sample.value(SampleType::InuseSpace);
        let stack: Vec<FrameAt> = frames.stack(sample).collect();
        for at in stack.iter().copied().collect::<BTreeSet<FrameAt>>() {
            let line: &mut (f64, f64) = lines.entry(at).or_default();
            line.0 += if stack[0] == at { value.value } else { 0.0 };
            line.1 += value.value;
        }
        for frame in stack.iter().map(|at| at.frame).collect::<BTreeSet<FrameId>>() {
            let function: &mut (Estimate, Estimate) = functions.entry(frame).or_default();
            function.0 += if stack[0].frame == frame { value } else { Estimate::default() };
            function.1 += value;
        }
    }
    let row = |(frame, (flat, cum))| {
        let own = lines.iter().filter(|(at, _)| at.frame == frame && at.line != 0);
        let by_value = |(at, line): &(&FrameAt, &(f64, f64))| (line.0, line.1, -f64::from(at.line));
        let hottest = own.max_by(|a, b| by_value(a).partial_cmp(&by_value(b)).unwrap());
        let line = hottest.map_or(0, |(at, _)| at.line);
        (frames.name(frame).name.clone(), (flat, cum, line))
    };
    functions.into_iter().map(row).collect()
}

#[test]
fn table_agrees_with_counting() {
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    // The last is so large that two threads share the work.
    for count in (1..200).map(|seed| 1 + seed % 12).chain([MANY_STACKS]) {
        let mut stack = || (0..random(6)).map(|_| random(9) as u32).collect::<Vec<u32>>();
        let stacks: Vec<Vec<u32>> = (0..count).map(|_| stack()).collect();
        let values = stacks.iter().map(|stack| (stack.as_slice(), 8.0 * (1 + random(3)) as f64));
        let profile = profile(&values.collect::<Vec<_>>());
        let table = top(&profile, SampleType::InuseSpace, Sort::Flat);
        let rows = table.rows.into_iter().map(|row| (row.name, (row.flat, row.cum, row.line)));
        assert_eq!(rows.collect::<BTreeMap<_, _>>(), counted(&profile));
    }
}

#[test]
fn unrecorded_function_has_no_row() {
    let stacks: [(&[u32], f64); 2] = [(&[0], 0.0), (&[1], 8.0)];
    assert_eq!(top_of(&stacks).rows.len(), 1);
    assert_eq!(tree(&profile(&stacks), SampleType::InuseSpace, 0.0).rows.len(), 1);
}

#[test]
fn nameless_address_has_file_address() {
    let table = top_of(&[(&[7, 8], 8.0), (&[], 16.0)]);
    assert_eq!(row(&table, "libx.so+0x880").flat.value, 8.0);
    assert_eq!(row(&table, "0xbeef").cum.value, 8.0);
    assert_eq!(row(&table, STACKS_NOT_RECORDED).flat.value, 16.0);
    assert_eq!(table.rows.len(), 3);
}

#[test]
fn equal_names_stay_two_functions() {
    let mut profile = profile(&[(&[0], 8.0), (&[1], 16.0), (&[2], 32.0)]);
    profile.functions[1] = Function { file: "y.cc".into(), ..profile.functions[0].clone() };
    profile.functions[2] = Function { system_name: "_Z1a".into(), ..profile.functions[0].clone() };
    let table = top(&profile, SampleType::InuseSpace, Sort::Name);
    let rows: Vec<_> = table.rows.iter().map(|r| (&*r.name, &*r.file, r.flat.value)).collect();
    assert_eq!(rows, [("a", "x.cc", 40.0), ("a", "y.cc", 16.0)]);
}

#[test]
fn rows_sort_as_asked() {
    let profile = profile(&[(&[0, 2], -80.0), (&[1, 2], 16.0)]);
    let names = |sort| -> String {
        let table = top(&profile, SampleType::InuseSpace, sort);
        table.rows.iter().map(|row| &*row.name).collect()
    };
    assert_eq!(names(Sort::Flat), "abc");
    assert_eq!(names(Sort::Cum), "acb");
    assert_eq!(names(Sort::Name), "abc");
    assert_eq!(top(&profile, SampleType::InuseSpace, Sort::Flat).magnitude, 96.0);
}

fn lines(tree: &Tree) -> Vec<String> {
    let text = |row: &TreeRow| {
        let name = match &row.kind {
            TreeRowKind::Frame(name) => name.name.to_string(),
            TreeRowKind::Merged { frames } => tree.merged_label(*frames, row.cum),
        };
        format!("{}{name} {} {}", "-".repeat(row.depth), row.cum.value, row.flat.value)
    };
    tree.rows.iter().map(text).collect()
}

#[test]
fn tree_lists_largest_callers_first() {
    let profile = profile(&[(&[0, 2], 8.0), (&[1, 2], 24.0), (&[2], 16.0), (&[6, 3], 100.0)]);
    let tree = tree(&profile, SampleType::InuseSpace, 0.0);
    let expected = ["d 100 0", "-b 100 0", "--a 100 100", "c 48 16", "-b 24 24", "-a 8 8"];
    assert_eq!(lines(&tree), expected);
}

#[test]
fn the_tree_states_what_it_merged() {
    let profile = profile(&[(&[0, 2], 9990.0), (&[3, 1, 2], 6.0), (&[4, 2], 2.0), (&[7], 2.0)]);
    let tree = tree(&profile, SampleType::InuseSpace, 0.001);
    let expected =
        ["c 9998 0", "-a 9990 9990", "-(3 frames < 0.10%: 8 B) 8 0", "(1 frame < 0.10%: 2 B) 2 0"];
    assert_eq!(lines(&tree), expected);
}

#[test]
fn opposite_changes_stay_visible() {
    let profile = profile(&[(&[0, 2], 500.0), (&[1, 2], -500.0), (&[3], 10.0)]);
    let tree = tree(&profile, SampleType::InuseSpace, 0.1);
    let expected = ["c 0 0", "-a 500 500", "-b -500 -500", "(1 frame < 10.0%: 10 B) 10 0"];
    assert_eq!(lines(&tree), expected);
}

#[test]
fn deep_stack_does_not_overflow() {
    let deep: Vec<u32> = (0..200_000).map(|i| i % 4).collect();
    let profile = profile(&[(&deep, 8.0)]);
    assert_eq!(tree(&profile, SampleType::InuseSpace, 0.0).rows.len(), deep.len());
}

#[test]
fn peek_lists_neighbours_with_shares() {
    let profile = profile(&[(&[0, 1, 2], 60.0), (&[3, 1, 4], 20.0), (&[1, 4], 20.0)]);
    let table = peek(&profile, SampleType::InuseSpace, &Pattern::new("^b$").unwrap());
    let [function] = table.functions.as_slice() else { panic!("{table:?}") };
    let text = |list: &[Neighbour]| -> Vec<_> {
        list.iter().map(|n| format!("{} {} {}", n.function.name, n.value.value, n.share)).collect()
    };
    assert_eq!(text(&function.callers), ["c 60 0.6", "e 40 0.4"]);
    assert_eq!(text(&function.callees), ["a 60 0.6", "d 20 0.2"]);
    assert_eq!((function.flat.value, function.cum.value), (20.0, 100.0));
}

#[test]
fn peek_in_parts_agrees() {
    let stacks: Vec<Vec<u32>> =
        (0..200u32).map(|n| (0..n % 7).map(|depth| (n * (depth + 3) / 2) % 9).collect()).collect();
    let values = stacks.iter().map(|stack| (stack.as_slice(), 8.0 * (1 + stack.len()) as f64));
    let profile = profile(&values.collect::<Vec<_>>());
    for pattern in [".", "^[ab]$", "nothing"] {
        let pattern = Pattern::new(pattern).unwrap();
        let in_parts =
            |calls| super::peek::peek_in_parts(&profile, SampleType::InuseSpace, &pattern, calls);
        let whole = in_parts(1 << 20);
        assert_eq!(whole.functions.is_empty(), pattern.as_str() == "nothing");
        for calls in [1, 100, 400] {
            assert_eq!(in_parts(calls), whole, "{calls}");
        }
    }
}

#[test]
fn peek_counts_repeated_call_once() {
    let profile = profile(&[(&[0, 1, 0, 1, 1], 8.0)]);
    let table = peek(&profile, SampleType::InuseSpace, &Pattern::new("b").unwrap());
    let function = &table.functions[0];
    assert_eq!(function.cum.value, 8.0);
    let names = |list: &[Neighbour]| -> String {
        list.iter().map(|n| format!("{}{}", n.function.name, n.value.value)).collect()
    };
    assert_eq!((names(&function.callers), names(&function.callees)), ("a8".into(), "a8".into()));
}

#[test]
fn largest_stacks_sum_equal_frames() {
    // Location 5 is another line of `a`; 6 is `a` inlined into `b`.
    let stacks: [(&[u32], f64); 6] = [
        (&[0, 2], 30.0),
        (&[5, 2], 50.0),
        (&[0, 1, 2], 25.0),
        (&[3], 40.0),
        (&[], 8.0),
        (&[6, 1], 16.0),
    ];
    let mut profile = profile(&stacks);
    let labelled = [crate::Label::thread("x".into())].into();
    profile.samples.push(StackSample { labels: labelled, ..profile.samples[0].clone() });
    let frames = FrameTable::new(&profile);
    let largest = |most| largest_stacks(&profile, &frames, SampleType::InuseSpace, most);
    let shown = largest(9).into_iter().map(|stack| {
        let name = |at: &FrameAt| format!("{}:{}", frames.name(at.frame).name, at.line);
        let names: Vec<String> = stack.frames.iter().map(name).collect();
        assert_eq!(stack.value.variance, stack.value.value);
        (names.join(" "), stack.value.value)
    });
    let expected = [
        ("a:10 c:30", 60.0),
        ("a:60 c:30", 50.0),
        ("d:40", 40.0),
        ("a:10 b:20 c:30", 25.0),
        ("a:70 b:71 b:20", 16.0),
        ("(stacks not recorded):0", 8.0),
    ];
    let expected = expected.map(|(names, value)| (names.to_owned(), value));
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert_eq!(largest(2).len(), 2);
}

#[test]
fn requested_number_of_stacks_is_shown() {
    let mut profile = profile(&[(&[0, 2], 30.0), (&[3], 5.0), (&[0, 1, 2], 4.0), (&[5, 1], 3.0)]);
    for number in 0..6 {
        let labels = [crate::Label::thread(number.to_string().into())].into();
        profile.samples.push(StackSample { labels, ..profile.samples[0].clone() });
    }
    let frames = FrameTable::new(&profile);
    let values = |most| -> Vec<f64> {
        let stacks = largest_stacks(&profile, &frames, SampleType::InuseSpace, most);
        stacks.iter().map(|stack| stack.value.value).collect()
    };
    let all = [210.0, 5.0, 4.0, 3.0];
    for most in 1..6 {
        assert_eq!(values(most), all[..most.min(4)], "{most}");
    }
}
