//! Checks that `go tool pprof` reads our files right, without a word of complaint.

use crate::go_tool::{Workplace, number, parse_top};
use crate::profiles::{LAMBDA, NEW, PARSE, PUSH, Random, at, by_hand, stack};
use ramson_encode::pprof;
use ramson_profile::view::{Neighbour, Sort, peek, top};
use ramson_profile::{
    Estimate, Location, LookupAddress, Mapping, Pattern, Profile, STACKS_NOT_RECORDED, SampleType,
    drop_allocator_frames,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

fn dropped() -> Profile {
    let mut profile = by_hand();
    drop_allocator_frames(&mut profile);
    profile
}

/// pprof names a nameless address by its binary, and one without a binary not at all.
fn as_in_pprof(name: &str) -> &str {
    match name {
        "parse+0x301400" => "[parse]",
        "0x7fff00001234" => "<unknown>",
        _ => name,
    }
}

fn our_rows(profile: &Profile, sample_type: SampleType) -> BTreeMap<String, (i64, i64)> {
    let rows = top(profile, sample_type, Sort::Name).rows.into_iter().map(|row| {
        let values = (row.flat.value as i64, row.cum.value as i64);
        (as_in_pprof(&row.name).to_string(), values)
    });
    rows.filter(|(_, values)| *values != (0, 0)).collect()
}

const ALL_ROWS: [&str; 4] = ["-unit=bytes", "-nodecount=0", "-nodefraction=0", "-edgefraction=0"];

fn with_all_rows<'a>(first: &[&'a str], last: &[&'a str]) -> Vec<&'a str> {
    [first, &ALL_ROWS, last].concat()
}

#[test]
fn top_shows_our_flat_and_cum() {
    let place = Workplace::new("top");
    let profile = dropped();
    let file = place.write("heap.pb.gz", &profile);
    for sample_type in SampleType::ALL {
        let index = format!("-sample_index={sample_type}");
        for order in ["-flat", "-cum"] {
            let text = place.pprof(&with_all_rows(&["-top", order, &index], &[&file]));
            assert!(text.contains(&format!("Type: {sample_type}")), "{text}");
            assert_eq!(parse_top(&text), our_rows(&profile, sample_type), "{sample_type} {order}");
        }
    }
    let rows = our_rows(&profile, SampleType::InuseSpace);
    for name in [PUSH, PARSE, LAMBDA, STACKS_NOT_RECORDED] {
        assert!(rows.contains_key(name), "{name} is not among {rows:?}");
    }
    assert_eq!(rows[PARSE], (0, 43960));
}

#[test]
fn inuse_space_is_shown_by_default() {
    let place = Workplace::new("default");
    let file = place.write("heap.pb.gz", &dropped());
    assert!(place.pprof(&["-top", &file]).contains("Type: inuse_space"));
    let mut bytes = Vec::new();
    pprof::write(&dropped(), &mut bytes, SampleType::AllocSpace).unwrap();
    std::fs::write(&file, bytes).unwrap();
    assert!(place.pprof(&["-top", &file]).contains("Type: alloc_space"));
}

#[test]
fn pprof_drops_the_allocators_frames_itself() {
    let place = Workplace::new("drop");
    let raw = by_hand();
    assert!(our_rows(&raw, SampleType::InuseSpace).contains_key(NEW));
    let file = place.write("heap.pb.gz", &raw);
    let text = place.pprof(&with_all_rows(&["-top"], &[&file]));
    assert_eq!(parse_top(&text), our_rows(&dropped(), SampleType::InuseSpace));
}

#[test]
fn peek_shows_our_neighbours() {
    let place = Workplace::new("peek");
    let profile = dropped();
    let file = place.write("heap.pb.gz", &profile);
    for function in ["main", "Parser::parse", "operator", "push_back"] {
        let pattern = Pattern::new(function).unwrap();
        let peeks = peek(&profile, SampleType::AllocSpace, &pattern).functions;
        let index = "-sample_index=alloc_space";
        let peek_flag = format!("-peek={function}");
        let text = place.pprof(&with_all_rows(&[&peek_flag, index], &[&file]));
        let line =
            |n: &Neighbour| (n.value.value as i64, as_in_pprof(&n.function.name).to_string());
        let ours: BTreeSet<_> =
            peeks.iter().flat_map(|p| p.callers.iter().chain(&p.callees)).map(line).collect();
        assert_eq!(peek_neighbours(&text), ours, "{function}\n{text}");
    }
}

/// The (value, name) of all lines that are a caller or a callee.
fn peek_neighbours(text: &str) -> BTreeSet<(i64, String)> {
    let lines = text.lines().filter_map(|line| line.split_once("|   "));
    let neighbour = |(values, name): (&str, &str)| {
        let value = number(values.split_whitespace().next().expect("a value"));
        (value, name.trim_end_matches(" (inline)").to_string())
    };
    lines.filter(|(left, _)| !left.contains("calls%")).map(neighbour).collect()
}

#[test]
fn pprof_raw_shows_what_was_written() {
    let place = Workplace::new("raw");
    let file = place.write("heap.pb.gz", &dropped());
    let text = place.pprof(&["-raw", &file]);
    for expected in [
        "PeriodType: space bytes",
        "Period: 524288",
        "Time: 2023-11-14",
        "Duration: 1m0",
        "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes[dflt]",
        "bytes:[4096 bytes]",
        "0x401100 M=1",
        "src/parse.cc:1280:0 s=0(_ZNSt6vectorI3RowSaIS0_EE9push_backERKS0_)",
        "1: 0x400000/0x500000/0x1000 /nowhere/parse 00ff [FN][FL][LN][IN]",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    let samples = text.lines().skip_while(|line| !line.contains("[dflt]")).nth(1).unwrap();
    let words: Vec<&str> = samples.split_whitespace().collect();
    assert_eq!(words, ["100", "409600", "10", "40960:", "2", "3", "3", "1"], "leaf first");
}

#[test]
fn estimates_are_rounded_to_nearest() {
    let place = Workplace::new("rounding");
    let mut profile = dropped();
    profile.samples.truncate(1);
    profile.samples[0].values = [1.4, 1.6, -1.4, -1.6].map(Estimate::exact);
    let text = place.pprof(&["-raw", &place.write("heap.pb.gz", &profile)]);
    let values = text.lines().skip_while(|line| !line.contains("[dflt]")).nth(1).unwrap();
    assert!(values.trim_start().starts_with("1          2         -1         -2:"), "{values}");
}

#[test]
fn pprof_subtracts_an_earlier_profile() {
    let place = Workplace::new("diff");
    let (old, mut new) = (dropped(), dropped());
    new.samples[0] = stack(&new.samples[0].locations.clone(), 200, 4096, 30);
    new.samples.remove(1);
    let mut difference = new.clone();
    difference.samples.extend(old.samples.iter().cloned().map(|mut sample| {
        sample.values = sample.values.map(|estimate| -estimate);
        sample
    }));
    let (old, new) = (place.write("old.pb.gz", &old), place.write("new.pb.gz", &new));
    let ours = our_rows(&difference, SampleType::InuseSpace);
    assert_eq!(ours[LAMBDA], (-3000, -3000));
    for flag in ["-diff_base", "-base"] {
        let base = format!("{flag}={old}");
        let text = place.pprof(&with_all_rows(&["-top", &base], &[&new]));
        assert_eq!(parse_top(&text), ours, "{flag}");
    }
    let file = place.write("difference.pb.gz", &difference);
    let text = place.pprof(&with_all_rows(&["-top"], &[&file]));
    assert_eq!(parse_top(&text), ours, "a difference of our own");
}

/// Never called: an address with a name in this test's own binary.
#[inline(never)]
fn a_function_to_be_found_by_pprof(random: &mut Random) -> u64 {
    random.next() ^ 0x5a5a
}

#[test]
fn pprof_symbolizes_from_existing_binary() {
    let place = Workplace::new("unsymbolized");
    let address = a_function_to_be_found_by_pprof as *const () as u64;
    let mapping = own_mapping(address);
    let profile = Profile {
        interval_bytes: 1,
        mappings: vec![mapping],
        locations: vec![Location {
            mapping: Some(0),
            address: LookupAddress(address + 1),
            offset: None,
            lines: vec![],
        }],
        samples: vec![stack(&[0], 1, 64, 1)],
        ..Profile::default()
    };
    let file = place.write("heap.pb.gz", &profile);
    let text = place.pprof(&["-top", &file]);
    assert!(text.contains("a_function_to_be_found_by_pprof"), "{text}");
}

/// The executable mapping of this process around `address`, from the kernel's table.
fn own_mapping(address: u64) -> Mapping {
    let table = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-').unwrap();
        let (start, end) = (hex(start), hex(end));
        if (start..end).contains(&address) {
            let path = std::env::current_exe().unwrap().to_str().unwrap().to_string();
            let file_offset = hex(words[2]);
            return Mapping { start, end, file_offset, bias: 0, path, ..Mapping::default() };
        }
    }
    panic!("{address:#x} is in no mapping");
}

#[test]
fn pprof_accepts_twice_mapped_binary() {
    let place = Workplace::new("twice");
    let mut profile = dropped();
    let first = Mapping { start: 0x3f_0000, end: 0x40_0000, ..profile.mappings[0].clone() };
    profile.mappings.insert(0, first);
    profile.locations.iter_mut().filter_map(|l| l.mapping.as_mut()).for_each(|m| *m = 1);
    profile.locations[at::NAMELESS as usize].mapping = Some(0);
    let file = place.write("heap.pb.gz", &profile);
    place.pprof(&["-top", &file]);
}

#[test]
fn pprof_accepts_empty_profiles() {
    let place = Workplace::new("empty");
    let file = place.write("heap.pb.gz", &Profile::default());
    place.pprof(&["-top", &file]);
    let mut no_mappings = by_hand();
    no_mappings.mappings.clear();
    no_mappings.locations.iter_mut().for_each(|location| location.mapping = None);
    no_mappings.locations[at::NAMELESS as usize].lines.clear();
    let file = place.write("no-mappings.pb.gz", &no_mappings);
    place.pprof(&["-top", &file]);
}

/// pprof's web server, ended when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(place: &Workplace, file: &str) -> Server {
        let mut command = place.command(&["-http=127.0.0.1:", "-no_browser", file]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("pprof starts");
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("Serving web UI on http://");
        let address = address.unwrap_or_else(|| panic!("pprof says {line}")).to_string();
        Server { child, address }
    }

    fn get(&self, path: &str) -> String {
        // It says that it serves shortly before it listens.
        let connected = (0..100).find_map(|_| {
            let stream = TcpStream::connect(&self.address).ok();
            if stream.is_none() {
                std::thread::sleep(Duration::from_millis(50));
            }
            stream
        });
        let mut stream = connected.expect("pprof listens within 5 s");
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn pprof_serves_flame_graph() {
    let place = Workplace::new("http");
    let file = place.write("heap.pb.gz", &dropped());
    let server = Server::start(&place, &file);
    let answer = server.get("/ui/flamegraph");
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    assert!(answer.contains("Parser::parse"), "{answer}");
}
