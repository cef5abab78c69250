//! Answers of `ramson explain`: they add up, agree with the allocator's own numbers, and leave the process as it was.

use ramson_tests::keeping::*;
use ramson_tests::servers::*;
use std::fs;

#[test]
fn free_whole_pages_predict_trim() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["survivors", "128"]);
    let json = explain(&scratch, keeping.pid());
    assert_agrees(&keeping, &json);
    assert!(part(&json, "live") < 0.2 * MIB && part(&json, "free_whole_pages") > 120.0 * MIB);
    let before = keeping.rss();
    let predicted = arenas(&json, "releasable_bytes");
    keeping.trim();
    let given = before - keeping.rss();
    assert!((given / predicted - 1.0).abs() < 0.1, "{given} {predicted}");
}

#[test]
fn explain_leaves_process_unchanged() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["survivors", "64"]);
    // Trimmed pages in the middle of the heap are the ones that a reader could bring back.
    keeping.trim();
    let rss = keeping.rss();
    let pages = keeping.present_pages();
    assert!(pages.iter().filter(|(_, is_present)| !is_present).count() > 10_000);
    let json = explain(&scratch, keeping.pid());
    assert_agrees(&keeping, &json);
    assert_eq!(keeping.rss(), rss);
    assert!(keeping.present_pages() == pages, "pages came or went");
    let minor_faults = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", keeping.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(7).unwrap().to_owned()
    };
    let faults = minor_faults();
    explain(&scratch, keeping.pid());
    assert_eq!(minor_faults(), faults);
}

#[test]
fn fastbins_count_as_kept_memory() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["fastbins", "32"]);
    let json = explain(&scratch, keeping.pid());
    assert_agrees(&keeping, &json);
    assert!(part(&json, "free_fastbins") > 31.0 * MIB && part(&json, "live") < 0.1 * MIB);
    let in_map: f64 =
        json.list("statistics.map").iter().map(|cell| cell.number("free_bytes")).sum();
    assert!((in_map / arenas(&json, "free_bytes") - 1.0).abs() < 0.01, "{in_map} {json:?}");
}

#[test]
fn arena_with_every_bin_is_recognised() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["bins", "1"]);
    let json = explain(&scratch, keeping.pid());
    assert_agrees(&keeping, &json);
    assert_eq!(json.list("statistics.arenas").len(), 2);
}

#[test]
fn every_thread_s_arena_is_found() {
    let scratch = Scratch::new();
    // The last thread's share does not fit into one heap of 64 MiB.
    for (mib, threads) in [("64", "4"), ("160", "1")] {
        let keeping = Keeping::plain(&scratch, &["arenas", mib, threads]);
        let json = explain(&scratch, keeping.pid());
        assert_agrees(&keeping, &json);
        assert_eq!(json.list("statistics.arenas").len(), 1 + threads.parse::<usize>().unwrap());
        let half = mib.parse::<f64>().unwrap() / 2.0 * MIB;
        assert!((part(&json, "live") / half - 1.0).abs() < 0.05, "{json:?}");
        assert!((part(&json, "free_in_used_pages") / half - 1.0).abs() < 0.05, "{json:?}");
        assert!(part(&json, "stacks") >= 8192.0 * threads.parse::<f64>().unwrap());
    }
}

#[test]
fn unbounded_tcache_is_counted() {
    let scratch = Scratch::new();
    let keeping = Keeping::start(&scratch, &["tcache", "32"], |command| {
        command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=65535");
    });
    let json = explain(&scratch, keeping.pid());
    assert_agrees(&keeping, &json);
    assert!(part(&json, "free_tcaches") > 31.0 * MIB && part(&json, "live") < 0.1 * MIB);
    assert_eq!(json.number("statistics.parameters.tcache_count"), 65535.0);
    let tunables = json.text("allocators.environment.GLIBC_TUNABLES");
    assert_eq!(tunables, "glibc.malloc.tcache_count=65535");
}

#[test]
fn mmaps_are_told_from_large_blocks() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["maps", "32"]);
    let json = explain(&scratch, keeping.pid());
    assert_agrees(&keeping, &json);
    assert!(part(&json, "other_anonymous") >= 32.0 * MIB && part(&json, "live") == 0.0);
    let keeping = Keeping::plain(&scratch, &["large", "32"]);
    let json = explain(&scratch, keeping.pid());
    assert_agrees(&keeping, &json);
    assert!(
        part(&json, "other_anonymous") < 0.1 * MIB && part(&json, "live") > 13.0 * MIB,
        "{json:?}"
    );
}

#[test]
fn leak_counts_as_live_memory() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["leak", "32"]);
    let json = explain(&scratch, keeping.pid());
    assert_agrees(&keeping, &json);
    let live = part(&json, "live") + part(&json, "allocator_metadata");
    assert!(live > 31.9 * MIB && arenas(&json, "releasable_bytes") < 0.2 * MIB, "{json:?}");
}

#[test]
fn large_heap_survey_is_accurate() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["scattered", "192"]);
    let rss = keeping.rss();
    let pages = keeping.present_pages();
    let json = explain_with(&scratch, keeping.pid(), &[]);
    assert_eq!(*json.at("statistics.is_surveyed"), Json::Word("true".into()));
    let taken = keeping.said("arena ");
    assert_eq!(arenas(&json, "system_bytes"), taken);
    let free = arenas(&json, "free_bytes");
    assert!((free - keeping.said("fordblks ")).abs() < 0.01 * taken, "{free} {json:?}");
    assert!(json.number("statistics.half_width_95") > 0.0);
    assert!(part(&json, "live") > 80.0 * MIB && part(&json, "free_in_used_pages") > 80.0 * MIB);
    assert!(keeping.rss() == rss && keeping.present_pages() == pages, "pages came or went");
    assert_agrees(&keeping, &explain(&scratch, keeping.pid()));
}

#[test]
fn survey_knows_thread_caches_exactly() {
    let scratch = Scratch::new();
    for arguments in [&["survivors", "96"][..], &["leak", "160"], &["arenas", "160", "2"]] {
        let keeping = Keeping::plain(&scratch, arguments);
        let json = explain_with(&scratch, keeping.pid(), &[]);
        assert_eq!(*json.at("statistics.is_surveyed"), Json::Word("true".into()));
        let exact = explain(&scratch, keeping.pid());
        assert_agrees(&keeping, &exact);
        let free = |json: &Json| arenas(json, "free_bytes");
        let taken = arenas(&exact, "system_bytes");
        assert!((free(&json) - free(&exact)).abs() < 0.01 * taken, "{json:?} {exact:?}");
        for part in ["tcaches.bytes", "fastbins.bytes", "top.bytes", "system_bytes"] {
            assert_eq!(arenas(&json, part), arenas(&exact, part), "{part}");
        }
        let releasable = |json: &Json| arenas(json, "releasable_bytes");
        assert!((releasable(&json) - releasable(&exact)).abs() < 0.01 * taken);
    }
}

#[test]
fn changing_heap_is_mostly_walked() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["busy", "64", "4"]);
    for options in [&["--exact"][..], &[], &["--exact"], &[]] {
        // Other work on the machine may stop a reading halfway.
        let mut readings = (0..8).map(|_| explain_with(&scratch, keeping.pid(), options));
        let json = readings.find(|json| {
            let changed = part(json, "changed_during_measurement").abs();
            changed < 0.05 * json.number("rss.bytes")
        });
        let json = json.expect("a reading in which little changed");
        assert!(json.number("statistics.not_walked_share") < 0.05, "{json:?}");
        assert!(part(&json, "live") > 32.0 * MIB && part(&json, "live") < 80.0 * MIB, "{json:?}");
    }
}

#[test]
fn busy_heap_agrees_with_mallinfo() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["busy", "64", "4"]);
    let said = || {
        keeping.ask();
        ["arena ", "uordblks ", "fordblks "].map(|name| keeping.said(name))
    };
    // Each thread has filled its slots, and goes on around that: from then on the numbers stay about where they are.
    wait_until("it allocates as much as it frees", || {
        let (before, after) = (said(), said());
        before[0] == after[0] && (after[1] - before[1]).abs() < 0.002 * after[0]
    });
    let allowed = 0.01 * said()[0];
    for options in [&["--exact"][..], &[], &["--exact"], &[]] {
        let before = said();
        let json = explain_with(&scratch, keeping.pid(), options);
        let after = said();
        let headers = 4096.0 * arenas(&json, "heaps");
        let found = [
            arenas(&json, "system_bytes"),
            arenas(&json, "in_use.bytes") - arenas(&json, "fastbins.bytes"),
            arenas(&json, "free_bytes"),
        ];
        let not_walked = arenas(&json, "not_walked_bytes");
        let allowed = allowed + json.number("statistics.half_width_95");
        for ((found, before), after) in found.into_iter().zip(before).zip(after) {
            let (least, most) = (before.min(after), before.max(after));
            assert!(found < most + allowed, "{found} {before} {after} {json:?}");
            // The bytes that were not walked are stated.
            let stated = found + not_walked + headers;
            assert!(stated > least - allowed, "{found} {before} {after} {json:?}");
        }
    }
}

#[test]
fn profile_live_bytes_match_books() {
    let scratch = Scratch::new();
    let keeping = Keeping::start(&scratch, &["leak", "64"], |command| {
        ramson_tests::preload(command, "64K").env("RAMSON_DIR", scratch.open_directory("profiles"));
    });
    let json = explain(&scratch, keeping.pid());
    let live = json.number("live.value");
    assert!((live / part(&json, "live") - 1.0).abs() < 0.15, "{json:?}");
    assert!(part(&json, "ramson") > 0.0);
}
