//! Files of other tools whose names, addresses or shares ramson works out, and files that have no stacks.

use ramson_tests::servers::*;
use ramson_tests::{program_with, tool};
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/import").join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn shown(scratch: &Scratch, arguments: &[&str]) -> String {
    finish(ramson(scratch).args(arguments)).good().text()
}

/// heaptrack's text of a Rust program: names as they are, or as a C++ demangler leaves them, with the hash of a build.
fn heaptrack_of_rust(hash: &str) -> String {
    let strings = [
        "/srv/shop".to_owned(),
        format!(
            "_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$alloc..vec..spec_from_iter..SpecFromIter$LT$T$C$I$GT$$GT$::from_iter::h{hash}"
        ),
        format!("shop::orders::load::h{hash}"),
        "_RNvCs1234_7___rustc11___rdl_alloc".to_owned(),
        "main".to_owned(),
    ];
    let strings = strings.map(|name| format!("s {:x} {name}\n", name.len())).concat();
    format!(
        "v 10500 3\nX shop run\n{strings}i 401000 1 2\ni 402000 1 3\ni 403000 1 4\ni 404000 1 5\n\
         t 4 0\nt 2 1\nt 1 2\nt 3 2\na 1000 3\na 2000 4\n+ 0\n+ 1\n"
    )
}

#[test]
fn rust_names_have_no_hashes() {
    let scratch = Scratch::new();
    let builds = ["0123456789abcdef", "00000000000000aa"];
    let files = builds.map(|hash| scratch.file(hash, heaptrack_of_rust(hash)));
    let [old, new] = [&files[0], &files[1]].map(|file| text(file));
    let report = shown(&scratch, &["report", old]);
    assert!(report.contains("12.0 KiB    100%"), "{report}");
    assert!(report.contains("shop::orders::load ← main"), "{report}");
    let diff = shown(&scratch, &["diff", old, new]);
    assert!(diff.contains("nothing changed"), "{diff}");
}

#[test]
fn jemalloc_s_profiler_is_no_caller() {
    let scratch = Scratch::new();
    let file = golden("jemalloc_pprof.pb.gz");
    let top = shown(&scratch, &["report", text(&file), "--view", "functions", "--all-frames"]);
    let row = |name: &str| top.lines().find(|line| line.contains(name)).map(str::to_owned);
    assert!(row("shop::orders::load").is_some_and(|row| row.contains("8.00 MiB")), "{top}");
    assert!(row("shop::images::decode").is_some_and(|row| row.contains("4.00 MiB")), "{top}");
    assert_eq!(row("prof_backtrace"), None);
}

#[test]
fn shares_of_a_delta_say_of_what() {
    let scratch = Scratch::new();
    let file = golden("delta.pb.gz");
    for view in ["stacks", "functions", "tree"] {
        let report = shown(&scratch, &["report", text(&file), "--view", view]);
        assert!(report.contains("shares are of 30.0 MiB of changes"), "{report}");
    }
    let part = shown(&scratch, &["report", text(&file), "--focus", "grow"]);
    assert!(part.contains("20 MiB (±17%), 66.7% of total 10 MiB"), "{part}");
    let usual = shown(&scratch, &["report", text(&golden("go.pb.gz"))]);
    assert!(!usual.contains("of changes"), "{usual}");
}

#[test]
fn addresses_without_mappings_are_named_from_a_binary() {
    let scratch = Scratch::new();
    for (name, flag) in [("holds-fixed", "-no-pie"), ("holds-pie", "-pie")] {
        let program = program_with("real/holds.c", name, &[flag]);
        let symbols = tool("nm", &[text(&program)]);
        let hold =
            symbols.lines().find(|line| line.ends_with(" hold") || line.ends_with(" T hold"));
        let address = u64::from_str_radix(hold.unwrap().split(' ').next().unwrap(), 16).unwrap();
        let sites = format!(
            "[{{\"shard\": 0, \"allocation_sites\": [{{\"size\": 8388608, \"count\": 2, \"backtrace\": \"{:#x}\"}}]}}]",
            address + 1
        );
        let file = scratch.file(&format!("{name}.json"), sites);
        let nameless = shown(&scratch, &["report", text(&file)]);
        assert!(!nameless.contains("hold "), "{nameless}");
        let named = shown(&scratch, &["report", text(&file), "--binary", text(&program)]);
        assert!(named.contains("hold  holds.c:"), "{named}");
        let wrong = finish(ramson(&scratch).args(["report", text(&file), "--binary", "/nowhere"]));
        assert!(wrong.remarks[0].contains("--binary /nowhere: no such file"), "{wrong:?}");
        let explained = finish(ramson(&scratch).args(["explain", text(&file)]));
        assert!(explained.remarks[0].contains("of no process here"), "{explained:?}");
    }
}

#[test]
fn malloc_info_is_explained() {
    let scratch = Scratch::new();
    let file = golden("malloc_info.xml");
    let explained = shown(&scratch, &["explain", text(&file)]);
    for part in [
        "32.7 MiB taken from the system by malloc",
        "3 arenas",
        "Why   23.3 MiB (71.2%) is free memory",
        "917 chunks",
        "MALLOC_ARENA_MAX=1",
    ] {
        assert!(explained.replace("\n  ", " ").contains(part), "{part}: {explained}");
    }
    let json = Json::parse(&shown(&scratch, &["explain", text(&file), "--json"]));
    assert_eq!(json.number("arenas"), 3.0);
    let refused = finish(ramson(&scratch).args(["report", text(&file)]));
    assert!(refused.remarks[0].contains("no stacks. \"ramson explain "), "{refused:?}");
}

#[test]
fn sampling_that_was_off_is_said() {
    let scratch = Scratch::new();
    let zero = "heap profile:      0:        0 [     0:        0] @ heap_v2/0\n";
    let file = scratch.file("zero.heap", zero);
    let refused = finish(ramson(&scratch).args(["report", text(&file)]));
    assert!(
        refused.remarks[0].contains("sampling was off. Set TCMALLOC_SAMPLE_PARAMETER"),
        "{refused:?}"
    );
    let empty = "heap_v2/524288\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n";
    let file = scratch.file("empty.heap", empty);
    let report = shown(&scratch, &["report", text(&file)]);
    assert!(report.contains("prof_active") && report.contains("no stacks in it"), "{report}");
    assert!(!report.contains("--interval"), "{report}");
}
