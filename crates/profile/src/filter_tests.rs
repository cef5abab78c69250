use super::*;
use crate::estimate::Estimate;
use crate::labels::Label;
use crate::model::{Function, Mapping};
use crate::view::{Sort, top};
use crate::{SampleType, StackSample};
use ramson_format::LookupAddress;

/// Functions main, a, b (files main.c, a.c, b.c); locations 0 main, 1 a, 2 b, 3 b inlined into a, 4 without a name in
/// libz.so, 5 without a name or mapping.
fn profile(stacks: &[(&[u32], f64)]) -> Profile {
    let function = |name: &str| Function {
        name: name.into(),
        system_name: name.into(),
        file: format!("{name}.c").into(),
    };
    let mapping = |path: &str| Mapping {
        start: 0,
        end: 4096,
        file_offset: 0,
        bias: 0,
        path: path.into(),
        build_id: String::new(),
        ..Mapping::default()
    };
    let line = |function| Line { function, line: 1 };
    let location = |mapping, lines: &[usize]| Location {
        mapping,
        address: LookupAddress(1),
        offset: None,
        lines: lines.iter().map(|&function| line(function)).collect(),
    };
    Profile {
        mappings: vec![mapping("/bin/prog"), mapping("/lib/libz.so")],
        functions: ["main", "a", "b"].map(function).to_vec(),
        locations: vec![
            location(Some(0), &[0]),
            location(Some(0), &[1]),
            location(Some(0), &[2]),
            location(Some(0), &[2, 1]),
            location(Some(1), &[]),
            location(None, &[]),
        ],
        samples: stacks
            .iter()
            .map(|&(stack, bytes)| StackSample {
                locations: stack.to_vec(),
                values: [Estimate::exact(bytes); 4],
                labels: [Label::block_size(bytes as u64)].into(),
            })
            .collect(),
        ..Profile::default()
    }
}

fn some(pattern: &str) -> Option<Pattern> {
    Some(Pattern::new(pattern).unwrap())
}

/// `a<main 8` is 8 bytes allocated by a, called by main.
fn stacks(filters: Filters) -> Result<Vec<String>, String> {
    let mut profile = profile(&[
        (&[1, 0], 1.0),
        (&[2, 1, 0], 2.0),
        (&[3, 0], 4.0),
        (&[4, 2, 0], 8.0),
        (&[], 16.0),
    ]);
    filters.apply(&mut profile).map_err(|step| step.to_string())?;
    let frames = crate::FrameTable::new(&profile);
    let texts = profile.samples.iter().map(|sample| {
        let names: Vec<_> = frames.stack(sample).map(|at| &*frames.name(at.frame).name).collect();
        format!("{} {}", names.join("<"), sample.values[0].value)
    });
    Ok(texts.collect())
}

#[test]
fn focus_and_ignore_choose_stacks() {
    let focus = |pattern| stacks(Filters { focus: some(pattern), ..Filters::default() }).unwrap();
    assert_eq!(focus("^b$"), ["b<a<main 2", "b<a<main 4", "libz.so+0x1<b<main 8"]);
    assert_eq!(focus("^a.c$"), ["a<main 1", "b<a<main 2", "b<a<main 4"]);
    assert_eq!(focus("libz"), ["libz.so+0x1<b<main 8"]);
    assert_eq!(focus("not recorded"), ["(stacks not recorded) 16"]);
    let ignore = |pattern| stacks(Filters { ignore: some(pattern), ..Filters::default() }).unwrap();
    assert_eq!(ignore("^b$"), ["a<main 1", "(stacks not recorded) 16"]);
    let both = Filters { focus: some("^a$"), ignore: some("^b$"), ..Filters::default() };
    assert_eq!(stacks(both).unwrap(), ["a<main 1"]);
}

#[test]
fn hide_and_show_remove_frames() {
    let hide = |pattern| stacks(Filters { hide: some(pattern), ..Filters::default() }).unwrap();
    let rest = ["b<main 8", "(stacks not recorded) 16"];
    assert_eq!(hide("libz")[3..], rest);
    assert_eq!(hide("^b$")[..3], ["a<main 1", "a<main 2", "a<main 4"]);
    assert_eq!(hide("prog"), ["libz.so+0x1 8", "(stacks not recorded) 16"]);
    let show = |pattern| stacks(Filters { show: some(pattern), ..Filters::default() }).unwrap();
    assert_eq!(show("^b$"), ["b 2", "b 4", "b 8"]);
    // An address without a name goes even where its mapping matches: pprof's rule.
    assert_eq!(show("prog|libz"), ["a<main 1", "b<a<main 2", "b<a<main 4", "b<main 8"]);
}

#[test]
fn show_from_cuts_outer_callers() {
    let from =
        |pattern| stacks(Filters { show_from: some(pattern), ..Filters::default() }).unwrap();
    assert_eq!(from("^a$"), ["a 1", "b<a 2", "b<a 4"]);
    assert_eq!(from("^b$"), ["b 2", "b 4", "libz.so+0x1<b 8"]);
    assert_eq!(from("prog").len(), 4);
}

#[test]
fn labels_choose_samples() {
    let tags = |focus: &str, ignore: Option<&str>| {
        stacks(Filters {
            tag_focus: Some(TagFilter::new(focus).unwrap()),
            tag_ignore: ignore.map(|text| TagFilter::new(text).unwrap()),
            ..Filters::default()
        })
    };
    assert_eq!(tags("4b:", None).unwrap().len(), 3);
    assert_eq!(tags("4b:", Some(":8b")).unwrap(), ["(stacks not recorded) 16"]);
}

#[test]
fn emptying_filter_is_named_and_unused() {
    let nothing = Filters { hide: some("main|a|b|libz|not recorded"), ..Filters::default() };
    assert_eq!(stacks(nothing.clone()).unwrap_err(), "--hide 'main|a|b|libz|not recorded'");
    let second = Filters { focus: some("^a$"), show_from: some("libz"), ..Filters::default() };
    assert_eq!(stacks(second).unwrap_err(), "--show-from 'libz'");
    let mut whole = profile(&[(&[1, 0], 1.0)]);
    let before = whole.clone();
    assert!(Filters { show: some("zzz"), ..Filters::default() }.apply(&mut whole).is_err());
    assert_eq!(whole, before);
    let unused = Filters { ignore: some("zzz"), ..Filters::default() };
    assert_eq!(unused.apply(&mut whole).unwrap()[0].to_string(), "--ignore 'zzz'");
    assert_eq!(whole, before);
}

#[test]
fn hidden_frames_give_to_callers() {
    let mut profile = profile(&[(&[2, 1, 0], 2.0), (&[3, 0], 4.0)]);
    Filters { hide: some("^b$"), ..Filters::default() }.apply(&mut profile).unwrap();
    let table = top(&profile, SampleType::InuseSpace, Sort::Flat);
    assert_eq!((&*table.rows[0].name, table.rows[0].flat.value), ("a", 6.0));
}
