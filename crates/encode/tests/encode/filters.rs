//! Random profiles through random filters, at every granularity: our flat, cum, callers and callees are those of
//! `go tool pprof`.

use crate::go_tool::{Workplace, number};
use crate::hostile::{
    GRANULARITIES, Rows, for_each_seed, hostile, name_in_pprof, our_rows, pprof_rows, pprof_text,
    without_names,
};
use crate::profiles::Random;
use ramson_profile::view::{Neighbour, peek};
use ramson_profile::{Filters, Pattern, Profile, SampleType, TagFilter};
use std::collections::BTreeMap;

/// Without `\w`, `\d` and `\b`: pprof's know ASCII only, ours know Unicode.
const EXPRESSIONS: [&str; 14] = [
    "^ns::f3",
    "f[0-5]",
    "[02]\\.cc$",
    "same",
    "lib0",
    "so$",
    "größe|日",
    r"[a-z0-9]+\.cc",
    "[^a-z]ä",
    r"\(x\)\[y]\*",
    "not recorded",
    "^$",
    "alloc|anonymous",
    "no such name",
];
const TAGS: [&str; 16] = [
    "bytes=64b:",
    "bytes=:4kb",
    "bytes=1kb:64kb",
    "64",
    "1:2",
    "-1:1b",
    "request=-1b:",
    "wait=2ms",
    "wait=:2000us",
    "thread=worker",
    "thread:main",
    "worker,7",
    "main,worker",
    "thread=main,worker",
    "thread=ä",
    "nothing",
];

#[test]
fn random_filters_agree_with_pprof() {
    let place = Workplace::new("filters");
    let emptied = std::sync::atomic::AtomicU32::new(0);
    for_each_seed(250, |seed| {
        let (ours, theirs) = filtered(&place, seed);
        emptied.fetch_add(u32::from(ours.is_empty()), std::sync::atomic::Ordering::Relaxed);
        assert_eq!(theirs, ours, "seed {seed}");
    });
    let emptied = emptied.into_inner();
    assert!(emptied < 125, "too many of the comparisons ({emptied}) were of nothing");
}

fn filtered(place: &Workplace, seed: u64) -> (Rows, Rows) {
    let mut profile = hostile(seed);
    let file = place.write(&format!("{seed}.pb.gz"), &profile);
    let mut random = Random(seed ^ 0xf17e);
    let (filters, mut arguments) = random_filters(&mut random);
    let sample_type = SampleType::ALL[random.below(4)];
    let (granularity, flag) = GRANULARITIES[random.below(4)];
    arguments.extend([flag.to_owned(), format!("-sample_index={sample_type}"), file]);
    profile.granularity = granularity;
    let ours = match filters.apply(&mut profile) {
        Ok(_) => without_names(our_rows(&profile, sample_type), granularity),
        Err(_) => Rows::new(),
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    (ours, pprof_rows(place, &arguments))
}

/// One to three filters, for us and for pprof.
fn random_filters(random: &mut Random) -> (Filters, Vec<String>) {
    let mut filters = Filters::default();
    let mut arguments = Vec::new();
    let first = random.below(7);
    for kind in (0..1 + random.below(3)).map(|step| (first + 2 * step) % 7) {
        let text = EXPRESSIONS[random.below(EXPRESSIONS.len())];
        let tag = TAGS[random.below(TAGS.len())];
        let pattern = Some(Pattern::new(text).unwrap());
        let tag_filter = Some(TagFilter::new(tag).unwrap());
        match kind {
            0 => filters.focus = pattern,
            1 => filters.ignore = pattern,
            2 => filters.hide = pattern,
            3 => filters.show = pattern,
            4 => filters.show_from = pattern,
            5 => filters.tag_focus = tag_filter,
            _ => filters.tag_ignore = tag_filter,
        }
        let flag = ["focus", "ignore", "hide", "show", "show_from", "tagfocus", "tagignore"][kind];
        arguments.push(format!("-{flag}={}", if kind < 5 { text } else { tag }));
    }
    (filters, arguments)
}

/// Each function's (flat, cum), callers and callees.
type Edges = BTreeMap<String, ((i64, i64), BTreeMap<String, i64>, BTreeMap<String, i64>)>;

#[test]
fn random_callers_agree_with_pprof() {
    let place = Workplace::new("edges");
    for_each_seed(150, |seed| {
        let mut profile = hostile(seed);
        let file = place.write(&format!("{seed}.pb.gz"), &profile);
        // Not files, of which pprof shows several under one name.
        let (granularity, flag) =
            [GRANULARITIES[0], GRANULARITIES[1], GRANULARITIES[3]][seed as usize % 3];
        profile.granularity = granularity;
        let sample_type = SampleType::ALL[seed as usize / 4 % 4];
        let index = format!("-sample_index={sample_type}");
        let text = pprof_text(&place, &["-tree", flag, &index, &file]);
        assert_eq!(parse_tree(&text), our_edges(&profile, sample_type), "seed {seed}\n{text}");
    });
}

fn our_edges(profile: &Profile, sample_type: SampleType) -> Edges {
    let neighbours = |list: &[Neighbour]| -> BTreeMap<String, i64> {
        list.iter().map(|n| (name_in_pprof(&n.function), n.value.value as i64)).collect()
    };
    let all = peek(profile, sample_type, &Pattern::new("").unwrap()).functions;
    let shown = all.iter().filter(|peek| (peek.flat.value, peek.cum.value) != (0.0, 0.0));
    shown
        .map(|peek| {
            let values = (peek.flat.value as i64, peek.cum.value as i64);
            let edges = (values, neighbours(&peek.callers), neighbours(&peek.callees));
            (name_in_pprof(&peek.function), edges)
        })
        .collect()
}

fn parse_tree(text: &str) -> Edges {
    let mut edges = Edges::new();
    let body = text.lines().skip_while(|line| !line.contains("calls%")).skip(1);
    let mut callers = BTreeMap::new();
    let mut name = None;
    for line in body {
        let Some((left, right)) = line.split_once('|') else {
            // A line between two functions.
            callers = BTreeMap::new();
            name = None;
            continue;
        };
        let values: Vec<&str> = left.split_whitespace().collect();
        let right = right.trim().trim_end_matches(" (inline)").to_owned();
        match (values.as_slice(), &name) {
            ([flat, _, _, cum, _], _) => {
                let values = (number(flat), number(cum));
                edges
                    .insert(right.clone(), (values, std::mem::take(&mut callers), BTreeMap::new()));
                name = Some(right);
            }
            ([value, ..], Some(name)) => {
                let (_, _, callees) = edges.get_mut(name).expect("inserted before");
                callees.insert(right, number(value));
            }
            ([value, ..], None) => {
                callers.insert(right, number(value));
            }
            ([], _) => {}
        }
    }
    edges
}
