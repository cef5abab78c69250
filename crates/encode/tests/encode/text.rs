//! The formats made of text: collapsed stacks and JSON.

use crate::profiles::{at, by_hand, stack};
use ramson_encode::html::Page;
use ramson_encode::{collapsed, csv, html, json, pprof, speedscope, svg};
use ramson_profile::view::{Sort, top};
use ramson_profile::{Estimate, Profile, SampleType};
use serde_json::{Value, json};
use std::io::{self, Write};

fn collapsed_text(profile: &Profile, sample_type: SampleType) -> String {
    let mut bytes = Vec::new();
    collapsed::write(profile, &mut bytes, sample_type).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn parsed(write: impl FnOnce(&mut Vec<u8>)) -> Value {
    let mut bytes = Vec::new();
    write(&mut bytes);
    assert_eq!(bytes.last(), Some(&b'\n'));
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn collapsed_stacks_are_merged_and_sorted() {
    let mut profile = by_hand();
    profile.samples = vec![
        stack(&[at::PARSE_AGAIN, at::MAIN], 1, 10, 1),
        stack(&[], 1, 7, 1),
        stack(&[at::NAMELESS, at::MAIN], 1, 5, 1),
        stack(&[at::PARSE_AGAIN, at::MAIN], 1, 20, 1),
        stack(&[at::JIT], 1, 9, 0),
    ];
    let expected = "(stacks not recorded) 7\n\
        main;Parser::parse(std::string const&, int) 30\n\
        main;parse+0x301400 5\n";
    assert_eq!(collapsed_text(&profile, SampleType::InuseSpace), expected);
    let objects = collapsed_text(&profile, SampleType::AllocObjects);
    assert!(objects.starts_with("(stacks not recorded) 1\n0x7fff00001234 1\n"), "{objects}");
}

#[test]
fn collapsed_inlined_frames_are_root_first() {
    let mut profile = by_hand();
    profile.samples = vec![stack(&[at::PARSE, at::MAIN], 1, 10, 1)];
    let text = collapsed_text(&profile, SampleType::InuseSpace);
    let (stack, value) = text.trim_end().rsplit_once(' ').unwrap();
    let frames: Vec<&str> = stack.split(';').collect();
    assert_eq!(value, "10");
    assert_eq!(frames.len(), 3);
    assert!(frames[1].starts_with("Parser::parse") && frames[2].starts_with("std::vector"));
}

#[test]
fn separators_never_split_collapsed_stacks() {
    let mut profile = by_hand();
    profile.functions[0].name = "a;b\nc\td".into();
    profile.samples = vec![stack(&[at::MAIN], 1, 10, 1)];
    assert_eq!(collapsed_text(&profile, SampleType::InuseSpace), "a:b\u{fffd}c\u{fffd}d 10\n");
}

#[test]
fn json_profile_has_integers_and_intervals() {
    let mut profile = by_hand();
    profile.samples.truncate(1);
    profile.samples[0].values[SampleType::InuseSpace as usize].variance = 2500.0;
    let object = parsed(|out| json::write(&profile, out).unwrap());
    assert_eq!(object["ramson"], 1);
    assert_eq!(object["kind"], "profile");
    assert_eq!(object["interval_bytes"], 524_288);
    let estimate = json!({"value": 40960, "half_width_95": 98});
    assert_eq!(object["totals"]["inuse_space"], estimate);
    assert_eq!(object["totals"]["alloc_objects"], json!({"value": 100, "half_width_95": 0}));
    let stack = &object["stacks"][0];
    assert_eq!(stack["inuse_space"], estimate);
    assert_eq!(stack["frames"].as_array().unwrap().len(), 6);
    let inlined = &stack["frames"][1];
    assert_eq!((&inlined["file"], &inlined["line"]), (&json!("src/parse.cc"), &json!(1280)));
    assert_eq!(stack["frames"][5], json!({"function": "main", "file": "src/parse.cc", "line": 12}));
}

#[test]
fn json_report_has_table_rows() {
    let table = top(&by_hand(), SampleType::InuseSpace, Sort::Cum);
    let object = serde_json::to_value(&table).unwrap();
    assert_eq!(object["sample_type"], "inuse_space");
    assert_eq!(object["total"]["value"], table.total.value as i64);
    let rows = object["rows"].as_array().unwrap();
    assert_eq!(rows.len(), table.rows.len());
    assert_eq!(rows[0]["function"], "main");
    assert_eq!(rows[0]["cum"]["value"], table.rows[0].cum.value as i64);
}

#[test]
fn extreme_numbers_stay_json() {
    let mut profile = by_hand();
    profile.samples.truncate(1);
    profile.samples[0].values = [
        Estimate::new(f64::MAX, f64::MAX),
        Estimate::new(f64::NAN, f64::NAN),
        Estimate::new(f64::MIN, f64::INFINITY),
        Estimate::default(),
    ];
    let object = parsed(|out| json::write(&profile, out).unwrap());
    let values = &object["stacks"][0];
    assert_eq!(values["alloc_objects"]["value"], i64::MAX);
    assert_eq!(values["alloc_space"], json!({"value": null, "half_width_95": null}));
    let at_least = json!({"value": i64::MIN, "half_width_95": null, "at_least": true});
    assert_eq!(values["inuse_objects"], at_least);
}

/// An output whose reader has gone away.
struct ClosedPipe;

impl Write for ClosedPipe {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn closed_pipe_is_reported() {
    let profile = by_hand();
    for result in [
        pprof::write(&profile, &mut ClosedPipe, SampleType::InuseSpace),
        collapsed::write(&profile, &mut ClosedPipe, SampleType::InuseSpace),
        json::write(&profile, &mut ClosedPipe),
        csv::write(&profile, &mut ClosedPipe),
        html::write(&mut ClosedPipe, "", &Page::default(), 0),
        speedscope::write(&profile, &mut ClosedPipe, SampleType::InuseSpace),
        svg::write(&profile, &mut ClosedPipe, SampleType::InuseSpace),
    ] {
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
