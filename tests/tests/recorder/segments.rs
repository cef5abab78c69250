//! Executables whose segments have gaps between them: the loader tells of one segment where it tells of one object elsewhere.

use ramson_reader::Snapshot;
use ramson_tests::attaching::{Visited, told};
use ramson_tests::servers::*;
use ramson_tests::{Run, program_with};
use std::path::PathBuf;

/// Linked so that each segment begins at a multiple of 2 MiB.
const GAPS: [&str; 2] = ["-Wl,-z,separate-code,-z,max-page-size=0x200000", "-pthread"];

fn with_gaps(source: &str, name: &str, options: &[&str]) -> PathBuf {
    program_with(source, name, &[&GAPS[..], options].concat())
}

fn collapsed(scratch: &Scratch, source: &str) -> Vec<String> {
    let exported = finish(ramson(scratch).args(["export", source, "-f", "collapsed"]));
    exported.good().text().lines().map(str::to_owned).collect()
}

/// All of the executable is one mapping, which begins where its file does.
#[track_caller]
fn assert_is_mapped_once(snapshot: &Snapshot) {
    let name = executable(snapshot);
    let is_its = |path: &str| path.rsplit('/').next() == Some(name);
    let its: Vec<_> = snapshot.mappings.iter().filter(|mapping| is_its(&mapping.path)).collect();
    assert_eq!(its.len(), 1, "{its:?}");
    assert!(its[0].end - its[0].start > 6 << 20, "{its:?}");
}

#[test]
fn stacks_across_segment_gaps_are_whole() {
    for (name, options) in [("stacks-gaps", &["-pie"][..]), ("stacks-gaps-fixed", &["-no-pie"])] {
        let scratch = Scratch::new();
        let program = with_gaps("stacks.c", name, options);
        let run = Run::new(&program).arg("stacks").arg("4").succeed();
        let snapshot = run.snapshot();
        assert_is_mapped_once(&snapshot);
        let lines = collapsed(&scratch, run.profiles[0].to_str().unwrap());
        let of_program: Vec<_> = lines.iter().filter(|line| line.contains("keep_two")).collect();
        assert_eq!(of_program.len(), 16, "{lines:#?}");
        for line in of_program {
            assert_eq!(line.matches(";descend").count(), 5, "{line}");
            assert!(line.contains(";main;"), "{line}");
        }
    }
}

#[test]
fn attached_stacks_are_whole() {
    let scratch = Scratch::new();
    let mut visited = Visited::start_program(&with_gaps("visited.c", "visited-gaps", &[]), 0);
    told(&scratch, "attach", visited.pid(), &["--interval", "1"]);
    visited.tell("hold 40");
    let lines = collapsed(&scratch, &visited.pid().to_string());
    let held: Vec<_> = lines.iter().filter(|line| line.contains(";hold_more")).collect();
    assert_eq!(held.len(), 1, "{lines:#?}");
    assert!(held[0].starts_with("_start;") && held[0].contains(";main;"), "{held:#?}");
    told(&scratch, "detach", visited.pid(), &[]);
    assert_is_mapped_once(&profiles(&scratch)[0]);
}

/// Debian's make, whose linker left a page between its constants and its data.
#[test]
fn stacks_of_make_are_whole() {
    let scratch = Scratch::new();
    let names: String = (0..200).map(|name| format!("all: t{name}\nt{name}: ; @:\n")).collect();
    let makefile = scratch.file("Makefile", names);
    let profile = scratch.path("make.ramson");
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "1", "-o"]).arg(&profile).arg("--");
    finish(command.arg(installed("make", "make")).arg("-f").arg(&makefile)).good();
    let snapshot = ramson_tests::read(&profile).unwrap();
    let one_frame = snapshot.stacks.iter().filter(|stack| stack.frames.len() == 1).count();
    let stacks = snapshot.stacks.len();
    assert!(stacks > 100 && one_frame == 0, "{one_frame} of {stacks}");
}
