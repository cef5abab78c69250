//! The formats for people and for other viewers: each document's own rules, with names that try to break them.

use crate::profiles::{at, by_hand, random, stack};
use flate2::read::GzDecoder;
use prost::Message;
use ramson_encode::html::Page;
use ramson_encode::{collapsed, csv, heap_text, html, json, pprof, speedscope, svg};
use ramson_profile::{Estimate, Profile, SampleType, is_printable, pprof as message};
use serde_json::Value;
use std::io::{Read, Write};

const HOSTILE: &str = "</title><script>alert(1)</script>\"'&\u{0}\u{202e}\n=1+1,;";

fn text(write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Every name hostile, one of them a megabyte long.
fn hostile() -> Profile {
    let mut profile = by_hand();
    for function in &mut profile.functions {
        function.name = format!("{HOSTILE}{}", function.name).into();
        function.file = HOSTILE.into();
    }
    profile.functions[0].name = "<\u{1}".repeat(1 << 19).into();
    profile.command = HOSTILE.into();
    profile.mappings[0].path = HOSTILE.into();
    profile
}

/// Start tags and end tags as a parser would see them; panics where they do not nest.
fn elements(document: &str) -> Vec<&str> {
    let mut open = Vec::new();
    let mut seen = Vec::new();
    for piece in document.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').expect("a tag ends");
        let name = tag.split([' ', '/', '\n']).find(|part| !part.is_empty()).unwrap();
        match tag {
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "{tag}"),
            _ if tag.ends_with('/') => seen.push(name),
            _ => {
                seen.push(name);
                open.push(name);
            }
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    seen
}

#[test]
fn names_stay_on_their_lines() {
    let profile = hostile();
    let csv = text(|out| csv::write(&profile, out));
    let heap = text(|out| heap_text::write(&profile, out));
    let collapsed = text(|out| collapsed::write(&profile, out, SampleType::InuseSpace));
    let svg = text(|out| svg::write(&profile, out, SampleType::InuseSpace));
    let mut packed = Vec::new();
    pprof::write(&profile, &mut packed, SampleType::InuseSpace).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    for string in message::Profile::decode(bytes.as_slice()).unwrap().string_table {
        assert!(string.chars().all(is_printable), "{string:?}");
    }
    for (name, written) in [("csv", csv), ("heap", heap), ("collapsed", collapsed), ("svg", svg)] {
        let is_own = |letter: char| "\n\r\t".contains(letter) || is_printable(letter);
        assert!(written.chars().all(is_own), "{name}");
        assert!(!written.lines().any(|line| line.starts_with("=1+1")), "{name}");
    }
}

#[test]
fn flame_graph_escapes_names() {
    let document = text(|out| svg::write(&hostile(), out, SampleType::InuseSpace));
    let elements = elements(&document);
    assert!(
        elements.iter().all(|name| ["svg", "style", "g", "title", "rect", "text"].contains(name))
    );
    assert!(document.contains("&lt;/title&gt;&lt;script&gt;") && document.len() < 100_000);
    assert!(!document.contains(['\u{0}', '\u{1}', '\u{202e}']));
    let mut document = Vec::new();
    json::write_line(&HOSTILE, &mut document).unwrap();
    let page = Page {
        documents: vec![(HOSTILE.into(), document)],
        note: HOSTILE.into(),
        lines: vec![HOSTILE.into(); 1000],
    };
    let page = text(|out| html::write(out, HOSTILE, &page, 7));
    assert_eq!(page.matches("<script>").count(), 1, "the application");
    assert!(!page.contains("alert(1)</script>") && !page.contains(['\u{0}', '\u{202e}']));
}

#[test]
fn page_is_described_without_scripts() {
    let page = Page {
        documents: Vec::new(),
        note: "2 frames are merged".into(),
        lines: vec!["3.00 MiB main".into()],
    };
    let page = text(|out| html::write(out, "parse (pid 7) on host", &page, 7));
    assert!(page.contains("<title>parse (pid 7) on host – ramson</title>"), "{page}");
    let without_scripts =
        page.split_once("<noscript>").unwrap().1.split_once("</noscript>").unwrap().0;
    for part in ["parse (pid 7) on host", "2 frames are merged", "3.00 MiB main"] {
        assert!(without_scripts.contains(part), "{without_scripts}");
    }
}

#[test]
fn flame_graph_frames_have_intervals() {
    let mut profile = by_hand();
    profile.samples = vec![stack(&[at::MAIN], 1, 3 << 20, 1), stack(&[at::JIT], 1, 1 << 20, 1)];
    profile.samples[0].values[SampleType::InuseSpace as usize].variance = 1e10;
    let document = text(|out| svg::write(&profile, out, SampleType::InuseSpace));
    let expected =
        "<title>main\nsrc/parse.cc\n3.00 MiB (75.0%) ±6.2%, 3.00 MiB of it its own</title>";
    assert!(document.contains(expected), "{document}");
    assert!(document.contains("<text x=\"4\" y=\"13\">0x7fff00001234</text>"), "{document}");
    assert!(document.contains("parse: inuse_space 4.00 MiB ±4.7%</text>"), "{document}");
}

#[test]
fn deep_flame_graph_is_bounded() {
    let mut profile = by_hand();
    profile.samples = vec![stack(&[at::MAIN; 500], 1, 100, 1)];
    let document = text(|out| svg::write(&profile, out, SampleType::InuseSpace));
    let height = document.split("height=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(height.parse::<u32>().unwrap() < 4000);
    assert!(document.contains("(301 frames deeper: 100 B)"), "{document}");
}

/// The records of a CSV file, by the grammar of RFC 4180.
fn records(text: &str) -> Vec<Vec<String>> {
    let mut records = vec![vec![]];
    let mut rest = text;
    while !rest.is_empty() {
        let mut field = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let (part, after) = quoted.split_once('"').expect("a quote ends");
                field.push_str(part);
                match after.strip_prefix('"') {
                    Some(more) => quoted = more,
                    None => break rest = after,
                }
                field.push('"');
            }
        } else {
            let end = rest.find([',', '\r']).unwrap();
            field.push_str(&rest[..end]);
            assert!(!field.contains(['"', '\n']));
            rest = &rest[end..];
        }
        records.last_mut().unwrap().push(field);
        match rest.strip_prefix("\r\n") {
            Some(after) => {
                rest = after;
                records.push(vec![]);
            }
            None => rest = rest.strip_prefix(',').expect("a comma or the end of a record"),
        }
    }
    assert_eq!(records.pop(), Some(vec![]));
    records
}

#[test]
fn csv_rows_add_up() {
    for profile in [by_hand(), random(7), hostile()] {
        let document = text(|out| csv::write(&profile, out));
        let records = records(&document);
        assert_eq!(records.len(), 1 + profile.samples.len());
        assert!(records.iter().all(|record| record.len() == 12));
        assert_eq!((&*records[0][9], &*records[0][11]), ("inuse_space", "stack"));
        let sum: i64 = records[1..].iter().map(|record| record[9].parse::<i64>().unwrap()).sum();
        let total = profile.total(SampleType::InuseSpace).value.round() as i64;
        assert!((sum - total).abs() <= profile.samples.len() as i64);
    }
}

#[test]
fn csv_text_is_no_formula() {
    let mut profile = by_hand();
    profile.functions[0].name = "=cmd|'/C calc'!A0".into();
    profile.functions[0].file = "@SUM(1,\"2\")".into();
    profile.samples = vec![stack(&[at::MAIN], 1, 8, 1)];
    profile.samples[0].values[0] = Estimate::new(f64::NAN, f64::NAN);
    let document = text(|out| csv::write(&profile, out));
    let row = "'=cmd|'/C calc'!A0,\"'@SUM(1,\"\"2\"\")\",12,,,8,0,1,0,8,0,'=cmd|'/C calc'!A0\r\n";
    assert!(document.ends_with(row), "{document}");
    // A control character is shown as one that starts nothing.
    for (start, shown) in [("+", "'+"), ("-", "'-"), ("\t", "\u{fffd}"), ("\r", "\u{fffd}")] {
        profile.functions[0].name = format!("{start}1").as_str().into();
        let document = text(|out| csv::write(&profile, out));
        let row = document.lines().nth(1).unwrap();
        let is_shown =
            row.starts_with(&format!("{shown}1,")) && row.ends_with(&format!(",{shown}1"));
        assert!(is_shown, "{row:?}");
    }
}

#[test]
fn speedscope_omits_negative_and_unknown_weights() {
    let mut profile = by_hand();
    profile.samples = vec![stack(&[at::MAIN], 2, 8, 1), stack(&[at::PARSE, at::MAIN], -1, 8, -1)];
    for sample in &mut profile.samples {
        sample.values[1] = Estimate::new(f64::NAN, f64::NAN);
    }
    let document = text(|out| speedscope::write(&profile, out, SampleType::InuseSpace));
    let document: Value = serde_json::from_str(&document).unwrap();
    let profiles = document["profiles"].as_array().unwrap();
    let names: Vec<_> = profiles.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["alloc_objects", "inuse_objects", "inuse_space"]);
    assert_eq!(document["activeProfileIndex"], 2);
    assert_eq!(profiles[2]["weights"], serde_json::json!([8]));
    let frame = profiles[2]["samples"][0][0].as_u64().unwrap() as usize;
    assert_eq!(document["shared"]["frames"][frame]["name"], "main");
}
