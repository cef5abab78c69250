//! Programs that suffer from one cause each get the advice against it first, and following it saves what was said. Who holds memory back is named.

use ramson_tests::keeping::*;
use ramson_tests::servers::*;
use ramson_tests::shared_library;
use std::fs;

/// The first advice: its cause, and the bytes that it saves.
#[track_caller]
fn first_advice(json: &Json) -> (String, f64) {
    let first = &json.list("advice")[0];
    let bytes = match first.at("saving") {
        Json::Word(_) => 0.0,
        saving => saving.number("bytes"),
    };
    (first.text("cause").into(), bytes)
}

/// Fails unless the first advice is against `cause`, and saves what RSS really falls by.
#[track_caller]
fn assert_saves(json: &Json, cause: &str, before: f64, after: f64) {
    let (found, predicted) = first_advice(json);
    assert_eq!(found, cause, "{json:?}");
    let saved = before - after;
    assert!((saved / predicted - 1.0).abs() < 0.2, "saved {saved} of {predicted}: {json:?}");
}

#[test]
fn free_pages_or_fastbins_advise_trim() {
    let scratch = Scratch::new();
    for arguments in [["survivors", "64"], ["fastbins", "32"]] {
        let keeping = Keeping::plain(&scratch, &arguments);
        for options in [&[][..], &["--exact"]] {
            let json = explain_with(&scratch, keeping.pid(), options);
            let (cause, predicted) = first_advice(&json);
            assert!(cause == "trim" && predicted > 30.0 * MIB, "{json:?}");
        }
        let json = explain(&scratch, keeping.pid());
        let before = keeping.rss();
        keeping.trim();
        assert_saves(&json, "trim", before, keeping.rss());
        let (cause, _) = first_advice(&explain(&scratch, keeping.pid()));
        assert_ne!(cause, "trim");
    }
}

#[test]
fn many_arenas_advise_fewer() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["turns", "64", "4"]);
    let json = explain(&scratch, keeping.pid());
    let with = Keeping::start(&scratch, &["turns", "64", "4"], |command| {
        command.env("MALLOC_ARENA_MAX", "1");
    });
    let advice = json.list("advice").iter().find(|advice| advice.text("cause") == "arena_max");
    // Real programs save a small part of what such a program does, so that no figure is promised.
    assert_eq!(*advice.unwrap().at("saving"), Json::Word("null".into()));
    assert!(with.rss() < 0.75 * keeping.rss(), "{} {}", with.rss(), keeping.rss());
}

#[test]
fn moved_threshold_advises_fixing_it() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["drift", "32"]);
    let json = explain(&scratch, keeping.pid());
    let with = Keeping::start(&scratch, &["drift", "32"], |command| {
        command.env("MALLOC_MMAP_THRESHOLD_", "131072");
    });
    assert_saves(&json, "mmap_threshold", keeping.rss(), with.rss());
    // The threshold that somebody set is another cause of the same.
    let set = Keeping::start(&scratch, &["drift", "32"], |command| {
        command.env("MALLOC_TRIM_THRESHOLD_", "99999999").env("MALLOC_MMAP_THRESHOLD_", "33554432");
    });
    let json = explain(&scratch, set.pid());
    let with = Keeping::start(&scratch, &["drift", "32"], |command| {
        command.env("MALLOC_TRIM_THRESHOLD_", "131072").env("MALLOC_MMAP_THRESHOLD_", "33554432");
    });
    assert_saves(&json, "trim_threshold", set.rss(), with.rss());
}

#[test]
fn hoarding_threads_advise_smaller_caches() {
    let scratch = Scratch::new();
    let start = |count: &str| {
        Keeping::start(&scratch, &["tcache", "32"], |command| {
            command.env("GLIBC_TUNABLES", format!("glibc.malloc.tcache_count={count}"));
        })
    };
    let hoarding = start("65535");
    let json = explain(&scratch, hoarding.pid());
    assert!(json.list("advice")[0].text("action").ends_with("tcache_count=7"), "{json:?}");
    assert_saves(&json, "tcache", hoarding.rss(), start("7").rss());
}

#[test]
fn one_scattered_site_advises_pool() {
    let scratch = Scratch::new();
    let keeping = sampled(&scratch, &["between", "48"], "16K");
    let json = explain(&scratch, keeping.pid());
    let advice = json.list("advice");
    // Advice that an operator can follow comes first.
    assert_eq!(advice[0].text("cause"), "other_allocator", "{json:?}");
    assert_eq!(advice[0].text("needs"), "restart", "{json:?}");
    let pool = advice.last().unwrap();
    assert_eq!((pool.text("cause"), pool.text("needs")), ("pool", "code"), "{json:?}");
    assert!(pool.text("action").contains("session"), "{json:?}");
    let evidence = pool.text("evidence");
    // 46 MiB; five standard errors are 22.
    let pinned = evidence.split_once(" pin ").and_then(|(_, rest)| rest.split_once(" MiB (±"));
    let pinned: f64 = pinned.expect(evidence).0.parse().expect("a number");
    assert!((24.0..68.0).contains(&pinned), "{evidence}");
    let saved = keeping.rss() - sampled(&scratch, &["between", "48", "first"], "16K").rss();
    let predicted = pool.number("saving.bytes");
    assert!((saved / predicted - 1.0).abs() < 0.2, "saved {saved} of {predicted}: {json:?}");
}

#[test]
fn unknown_survivors_advise_other_allocator() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["between", "48"]);
    let json = explain(&scratch, keeping.pid());
    let action = json.list("advice")[0].text("action").to_owned();
    let settings = "MALLOC_CONF=background_thread:true,dirty_decay_ms:1000";
    assert!(
        action.contains("LD_PRELOAD=libjemalloc.so.2") && action.contains(settings),
        "{action}"
    );
    let with = Keeping::start(&scratch, &["between", "48"], |command| {
        let (name, value) = settings.split_once('=').unwrap();
        command.env("LD_PRELOAD", shared_library("libjemalloc.so.2")).env(name, value);
    });
    let predicted = first_advice(&json).1;
    wait_until("jemalloc has given back what it holds", || {
        keeping.rss() - with.rss() > 0.8 * predicted
    });
    assert_saves(&json, "other_allocator", keeping.rss(), with.rss());
}

#[test]
fn zero_pages_advise_no_huge_pages() {
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    // Without such pages no program can suffer from them.
    if enabled.is_ok_and(|enabled| !enabled.contains("[never]")) {
        let scratch = Scratch::new();
        let keeping = Keeping::plain(&scratch, &["huge", "64"]);
        let json = explain(&scratch, keeping.pid());
        let plain = Keeping::plain(&scratch, &["huge", "64", "off"]);
        // The kernel may have found no room for some of them.
        if part(&json, "huge_page_padding") + part(&json, "other_anonymous") > 63.0 * MIB {
            assert_saves(&json, "thp", keeping.rss(), plain.rss());
        }
        assert_eq!(part(&explain(&scratch, plain.pid()), "huge_page_padding"), 0.0);
    }
}

#[test]
fn live_memory_causes_are_told_apart() {
    let scratch = Scratch::new();
    let path = scratch.path("mapped").display().to_string();
    for (arguments, cause, words) in [
        (&["leak", "32"][..], "leaks", "ramson leaks"),
        (&["large", "64"], "leaks", "ramson leaks"),
        (&["maps", "32"], "mmaps", "--kind mmap"),
        (&["file", "32", &path], "files", "nothing to do"),
    ] {
        let keeping = Keeping::plain(&scratch, arguments);
        let json = explain(&scratch, keeping.pid());
        assert_eq!(first_advice(&json).0, cause, "{json:?}");
        assert!(json.list("advice")[0].text("action").contains(words), "{json:?}");
    }
}

fn sampled(scratch: &Scratch, arguments: &[&str], interval: &str) -> Keeping {
    Keeping::start(scratch, arguments, |command| {
        let command = ramson_tests::preload(command, interval);
        command.env("RAMSON_DIR", scratch.open_directory("profiles"));
    })
}

#[test]
fn pinning_site_is_named() {
    let scratch = Scratch::new();
    for (interval, mib) in [("1", "64"), ("2K", "128")] {
        let keeping = sampled(&scratch, &["between", mib], interval);
        let json = explain(&scratch, keeping.pid());
        let sites = json.list("pins.sites");
        let frames = sites[0].list("frames");
        let is_session = |frame: &Json| format!("{frame:?}").contains("session");
        assert!(frames.iter().any(is_session), "{json:?}");
        // Beside the survivors there are a few blocks of the C library.
        let holds = sites[0].number("pinned.value");
        let kept = part(&json, "free_in_used_pages");
        let error = sites[0].number("pinned.half_width_95") / 1.96;
        assert!((holds - kept).abs() < 0.05 * kept + 4.0 * error, "{json:?}");
        assert!(holds <= json.number("pins.arenas_bytes"), "{json:?}");
        let is_pool = |advice: &&Json| advice.text("cause") == "pool";
        let pool = json.list("advice").iter().find(is_pool).unwrap();
        assert!(pool.text("evidence").contains("session"), "{json:?}");
        assert!(pool.number("saving.bytes") <= kept, "{json:?}");
        assert!(sites[0].number("oldest_age_ns") > 0.0);
        let mut command = ramson(&scratch);
        let text = finish(command.args(["explain", &keeping.pid().to_string()])).good().text();
        assert!(
            text.contains(" of free memory is pinned by") && text.contains("session"),
            "{text}"
        );
        assert!(text.contains("heap map, ") && text.contains("░ free"), "{text}");
    }
}

/// A block of a thousand stays, between whole pages that a trim returns.
#[test]
fn what_a_trim_returns_is_not_pinned() {
    let scratch = Scratch::new();
    let keeping = sampled(&scratch, &["survivors", "64"], "2K");
    let json = explain(&scratch, keeping.pid());
    assert_eq!(first_advice(&json).0, "trim");
    assert_eq!(*json.at("pins"), Json::Word("null".into()), "{json:?}");
    assert!(json.list("advice").iter().all(|advice| advice.text("cause") != "pool"));
    let mut command = ramson(&scratch);
    let text = finish(command.args(["explain", &keeping.pid().to_string()])).good().text();
    assert!(!text.contains("pinned by"), "{text}");
    let trim = format!("trim now: ramson trim {}", keeping.pid());
    assert!(text.contains(&trim), "{text}");
}

#[test]
fn map_cells_sum_to_arenas() {
    let scratch = Scratch::new();
    for options in [&[][..], &["--exact"]] {
        let keeping = Keeping::plain(&scratch, &["turns", "96", "3"]);
        let json = explain_with(&scratch, keeping.pid(), options);
        let cells = json.list("statistics.map");
        let sum = |key: &str| cells.iter().map(|cell| cell.number(key)).sum::<f64>();
        assert!(sum("bytes") >= arenas(&json, "system_bytes"), "{json:?}");
        let free = arenas(&json, "free.resident_bytes") + arenas(&json, "top.resident_bytes");
        assert!((sum("free_bytes") / free - 1.0).abs() < 0.02, "{} {free}", sum("free_bytes"));
        assert!(cells.len() <= 1100);
        fs::remove_file(&keeping.log).unwrap();
    }
}
