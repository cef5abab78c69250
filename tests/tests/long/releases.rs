//! `ramson explain`, `ramson trim` and the library work with older and newer C libraries as with that of this machine.
//!
//! A version that is newer than all that are known must be refused by name.

use ramson_tests::keeping::*;
use ramson_tests::releases::{RELEASES, Release};
use ramson_tests::servers::*;
use ramson_tests::surveys::{Heap, assert_covers};
use ramson_tests::trimming::{Talking, Waiting, refusal, trim};
use ramson_tests::{Run, Site, library, program, sites};
use std::fs;

/// 2.x.
const NEWEST_KNOWN: u32 = 44;
/// Also the first whose tcaches take blocks that were mapped.
const FIRST_WITHOUT_FASTBINS: u32 = 43;
/// Least bytes that `waits` keeps.
const KEPT: f64 = 30.0 * MIB;

fn known() -> impl Iterator<Item = Release> {
    RELEASES.into_iter().map(Release::of).filter(|release| release.minor() <= NEWEST_KNOWN)
}

#[track_caller]
fn keeping(scratch: &Scratch, release: &Release, arguments: &[&str]) -> Keeping {
    Keeping::start_program(scratch, release.program("keeps.c"), arguments, |_| {})
}

#[test]
fn every_known_glibc_can_be_explained() {
    let scratch = Scratch::new();
    for release in known() {
        for arguments in [
            &["survivors", "32"][..],
            &["fastbins", "16"],
            &["bins", "1"],
            &["arenas", "160", "2"],
            &["leak", "16"],
            &["large", "16"],
        ] {
            let keeping = keeping(&scratch, &release, arguments);
            let json = explain(&scratch, keeping.pid());
            let version = format!("glibc 2.{} ", release.minor());
            assert!(json.text("allocators.glibc.name").starts_with(&version), "{json:?}");
            assert_agrees(&keeping, &json);
            let kept = part(&json, "free_fastbins");
            let has_fastbins =
                arguments[0] == "fastbins" && release.minor() < FIRST_WITHOUT_FASTBINS;
            assert!(!has_fastbins || kept > 15.0 * MIB, "{json:?}");
            let threads = if arguments[0] == "arenas" { 2.0 } else { 0.0 };
            assert!(part(&json, "stacks") >= 8192.0 * threads, "{json:?}");
        }
    }
}

#[test]
fn unknown_glibc_is_refused_by_name() {
    let scratch = Scratch::new();
    // One that says it is another.
    let release = Release::of("newest");
    let mut library = fs::read(release.libc()).unwrap();
    let banner = format!("release version 2.{}.", release.minor());
    let mut places = library.windows(banner.len());
    let at = places.position(|bytes| bytes == banner.as_bytes()).unwrap();
    library[at..at + banner.len()].copy_from_slice(b"release version 2.99.");
    fs::write(scratch.path("libc.so.6"), library).unwrap();
    let program = release.program("keeps.c");
    let keeping = Keeping::start_program(&scratch, program, &["survivors", "16"], |command| {
        command.env("LD_LIBRARY_PATH", scratch.path(""));
    });
    let refused = format!(
        "ramson does not know the arenas of glibc 2.99, only those of 2.27 to 2.{NEWEST_KNOWN} on x86-64"
    );
    let json = explain(&scratch, keeping.pid());
    assert_eq!(json.text("statistics_missing"), refused);
    assert!(refusal(&scratch, keeping.pid()).contains(&refused));
}

#[test]
fn survey_finds_every_thread_cache() {
    let scratch = Scratch::new();
    for release in known() {
        for arguments in [&["survivors", "72"][..], &["arenas", "72", "2"]] {
            let keeping = keeping(&scratch, &release, arguments);
            let surveyed = explain_with(&scratch, keeping.pid(), &[]);
            assert_eq!(*surveyed.at("statistics.is_surveyed"), Json::Word("true".into()));
            let exact = explain(&scratch, keeping.pid());
            let cached = arenas(&exact, "tcaches.bytes");
            assert!(cached > 1000.0, "{exact:?}");
            assert_eq!(arenas(&surveyed, "tcaches.bytes"), cached, "{surveyed:?}");
        }
    }
}

#[test]
fn large_cached_blocks_count_if_resident() {
    let scratch = Scratch::new();
    for release in known().filter(|release| release.minor() >= FIRST_WITHOUT_FASTBINS) {
        let program = release.program("keeps.c");
        let keeping = Keeping::start_program(&scratch, program, &["cached", "1"], |command| {
            command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_max=4000000");
        });
        let json = explain(&scratch, keeping.pid());
        assert_agrees(&keeping, &json);
        let cached = arenas(&json, "tcaches.bytes");
        assert_eq!(cached, keeping.said("cached "), "{json:?}");
        let resident = part(&json, "free_tcaches");
        assert_eq!(resident, arenas(&json, "tcaches.resident_bytes"));
        assert!(resident > 2.0 * MIB && resident < cached / 4.0, "{json:?}");
        assert!(part(&json, "live") < 0.1 * MIB, "{json:?}");
        let advice = &json.list("advice")[0];
        assert_eq!(advice.text("cause"), "tcache", "{json:?}");
        assert!(advice.text("action").contains("tcache_max=1032"), "{json:?}");
    }
}

#[test]
fn grown_mapped_blocks_are_found() {
    let scratch = Scratch::new();
    for release in known() {
        for (how, blocks) in [("on", 1.0), ("off", 0.0)] {
            let keeping = keeping(&scratch, &release, &["resized", "16", how]);
            let json = explain(&scratch, keeping.pid());
            assert_eq!(part(&json, "changed_during_measurement"), 0.0, "{json:?}");
            assert_eq!(json.number("statistics.mapped_chunks.chunks"), blocks, "{json:?}");
            // Since 2.43, 16 bytes for each of the eight times, unless that is mended.
            let too_many = keeping.said("hblkhd ") - json.number("statistics.mapped_chunks.bytes");
            let may_be = release.minor() >= FIRST_WITHOUT_FASTBINS && too_many == 128.0;
            assert!(too_many == 0.0 || may_be, "{too_many} {json:?}");
            assert!((part(&json, "live") / MIB - 8.0 * blocks).abs() < 0.1, "{json:?}");
            let pid = keeping.pid().to_string();
            let text = finish(ramson(&scratch).args(["explain", "--details", &pid]));
            assert!(!text.good().text().contains("blocks that malloc mapped:"), "{json:?}");
        }
    }
}

#[test]
fn every_known_glibc_can_be_attached() {
    let scratch = Scratch::new();
    for release in known() {
        let mut waiting = Waiting::start_program(release.program("waits.c"), "poll", |_| {});
        waiting.until_it_waits();
        let pid = waiting.pid().to_string();
        for verb in ["attach", "detach", "attach"] {
            let mut command = ramson(&scratch);
            let said = finish(command.args([verb, &pid]).env("RAMSON_LIBRARY", library())).good();
            let said = said.text();
            let what = if verb == "attach" { "recorded from now on" } else { "detached: " };
            assert!(said.contains(what), "2.{}: {said}", release.minor());
        }
        assert_eq!(waiting.release(""), 1, "2.{}", release.minor());
    }
}

#[test]
fn every_known_glibc_can_be_trimmed() {
    let scratch = Scratch::new();
    for release in known() {
        let program = release.program("waits.c");
        // In the last two it is not the first thread that is borrowed.
        for how in ["read", "poll", "epoll", "semaphore", "condition"] {
            let mut waiting = Waiting::start_program(program.clone(), how, |_| {});
            waiting.until_it_waits();
            let said = trim(&scratch, waiting.pid());
            assert!(said.number("rss_diff") > KEPT, "2.{}, {how}: {said:?}", release.minor());
            let is_count = ["poll", "epoll", "read"].contains(&how);
            assert_eq!(waiting.release(""), i64::from(is_count), "2.{}, {how}", release.minor());
        }
        let mut talking = Talking::start(clean(&program).arg("computes"));
        assert_eq!(talking.expect("ready"), 0);
        for _ in 0..3 {
            let said = trim(&scratch, talking.pid());
            assert!(said.text("message").starts_with("malloc_trim"), "{said:?}");
        }
        talking.running.signal("USR1");
        assert_eq!(talking.expect("wrong"), 0, "2.{}", release.minor());
        assert!(talking.running.wait().success());
    }
}

#[test]
fn every_glibc_counts_malloc_family() {
    let one_of_two = |size| Site::exactly(2, 1, size);
    let expected = [
        ("site_malloc", one_of_two(1001)),
        ("site_calloc", one_of_two(7 * 143)),
        ("site_realloc_of_null", one_of_two(1002)),
        ("site_reallocarray_of_null", one_of_two(3 * 335)),
        ("site_posix_memalign", one_of_two(1006)),
        ("site_aligned_alloc", one_of_two(1024)),
        ("site_memalign", one_of_two(1008)),
        ("site_valloc", one_of_two(1009)),
        ("site_pvalloc", one_of_two(1010)),
        ("site_free_sized", Site::exactly(3, 1, 1011)),
    ];
    // Also in one that nobody knows yet: the library reads no arenas.
    for release in RELEASES.map(Release::of) {
        let program = release.program("family.c");
        let snapshot = Run::new(&program).succeed().snapshot();
        assert_eq!(snapshot.defects, []);
        let found = sites(&snapshot, &program);
        for (name, expected) in &expected {
            assert_eq!(found.get(*name), Some(expected), "2.{}, {name}", release.minor());
        }
    }
}

#[test]
fn hidden_stack_guard_causes_no_fault() {
    for release in RELEASES.map(Release::of) {
        let beside = release.program("beside.c");
        // Under a filter the library asks nobody whether memory can be read.
        let filtered = Run::new(program("seccomp.c")).arg("exec").arg("lenient").arg(&beside);
        for run in [Run::new(&beside).without("LD_PRELOAD"), Run::new(&beside), filtered] {
            let finished = run.succeed();
            assert_eq!(finished.stdout, "survived\n", "2.{}", release.minor());
        }
    }
}

#[test]
fn every_known_glibc_can_be_surveyed() {
    for release in known() {
        for seed in [5501, 5502, 5503] {
            let heap = Heap::start_program(release.program("heaps.c"), seed, (16, 48), |_| {});
            assert_covers(&heap, &format!("2.{}", release.minor()));
        }
    }
}
