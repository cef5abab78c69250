//! A survey of a large heap: how far its figures are off, against what a walk of every chunk counts. The heaps do nothing meanwhile, and their seeds
//! are fixed: the same figures come out each time.

use ramson_process::glibc::{Effort, MOST_WALKED_BYTES};
use ramson_tests::keeping::{MIB, explain_with};
use ramson_tests::servers::*;
use ramson_tests::surveys::{Figures, Heap, PIECES, assert_covers};
use ramson_tests::{program, program_with};

#[test]
fn survey_intervals_cover_walked_figures() {
    // At least 17 of 20 intervals at 95% contain the truth in 98.4% of all draws of heaps, and in these.
    const HEAPS: u64 = 20;
    let mut covered = [0; 3];
    for seed in 5001..5001 + HEAPS {
        let heap = Heap::start(seed, 16, 48);
        let walked = heap.read(Effort::Exact);
        heap.assert_agrees(&walked);
        let surveyed = heap.read(Effort::Sample(PIECES));
        assert!(surveyed.is_surveyed());
        let covers = Figures::of(&surveyed).covers(&Figures::of(&walked));
        (0..3).for_each(|index| covered[index] += u64::from(covers[index]));
        // It reads what it says.
        assert!(surveyed.read_bytes <= walked.read_bytes);
    }
    assert!(covered.iter().all(|&covered| covered >= 17), "{covered:?}");
}

#[test]
fn reading_more_narrows_the_interval() {
    let heap = Heap::start(5100, 150, 160);
    let truth = Figures::of(&heap.read(Effort::Exact));
    let widths = [256, 1024, usize::MAX].map(|pieces| {
        let figures = Figures::of(&heap.read(Effort::Sample(pieces)));
        (figures.read, figures.half_widths[0], figures.off(&truth)[0].abs())
    });
    assert!(widths.is_sorted_by(|less, more| less.0 < more.0 && less.1 > more.1), "{widths:?}");
    assert!(widths[0].1 < 0.02 * truth.taken && widths[2].1 < 0.001 * truth.taken, "{widths:?}");
    assert!(widths[2].2 < 0.0001 * truth.taken, "{widths:?}");
}

#[test]
fn survey_predicts_trim() {
    for seed in 5201..5207 {
        let mut heap = Heap::start(seed, 16, 48);
        let walked = Figures::of(&heap.read(Effort::Exact));
        let surveyed = Figures::of(&heap.read(Effort::Sample(PIECES)));
        let returned = heap.trim();
        let off = (returned - walked.values[2]).abs();
        assert!(off <= (4.0 * MIB).min(0.2 * returned + 65536.0), "{seed}: {returned} {walked:?}");
        // Twice the interval: 6 times in 10,000 draws it does not have it.
        let off = (returned - surveyed.values[2]).abs();
        assert!(off <= 2.0 * surveyed.half_widths[2] + 65536.0, "{seed}: {returned} {surveyed:?}");
    }
}

#[test]
fn explain_states_reading_and_certainty() {
    let scratch = Scratch::new();
    let heap = Heap::start(5300, 150, 160);
    let json = explain_with(&scratch, heap.pid(), &[]);
    assert_eq!(*json.at("statistics.is_surveyed"), Json::Word("true".into()));
    let read = json.number("statistics.read_bytes");
    assert!(read > MIB && read < 100.0 * MIB, "{json:?}");
    let statistics = heap.read(Effort::Survey(MOST_WALKED_BYTES));
    let figures = Figures::of(&statistics);
    for (index, name) in ramson_tests::surveys::FIGURES.iter().enumerate() {
        let half_width = json.number(&format!("statistics.half_widths_95.{name}"));
        assert_eq!(half_width, figures.half_widths[index].ceil(), "{name}");
    }
    let text = finish(ramson(&scratch).args(["explain", "--details", &heap.pid().to_string()]))
        .good()
        .text();
    assert!(text.contains("surveyed: read ") && text.contains(" at random"), "{text}");
    let exact = explain_with(&scratch, heap.pid(), &["--exact"]);
    assert_eq!(exact.number("statistics.half_widths_95.live"), 0.0);
}

#[test]
fn malloc_settings_keep_survey_right() {
    for setting in [
        "hugetlb=1",
        "hugetlb=2",
        "tcache_count=0",
        "arena_max=1",
        "mmap_threshold=4096",
        "mmap_threshold=4096:glibc.malloc.hugetlb=2",
    ] {
        let program = program_with("heaps.c", "heaps", &["-Wno-deprecated-declarations"]);
        let tunables = format!("glibc.malloc.{setting}");
        let heap = Heap::start_program(program, 5401, (16, 48), |command| {
            command.env("GLIBC_TUNABLES", &tunables);
        });
        assert_covers(&heap, setting);
    }
}

#[test]
fn free_end_of_thread_heap_is_not_returned() {
    for (threads, mib) in [(2, 60), (4, 240)] {
        let mut heap = Heap::start_program(program("ends.c"), threads, (mib, 0), |_| {});
        let walked = Figures::of(&heap.read(Effort::Exact));
        let surveyed = Figures::of(&heap.read(Effort::Sample(PIECES)));
        let returned = heap.trim();
        let case = format!("{threads} threads: {returned} {surveyed:?} {walked:?}");
        assert!((returned - walked.values[2]).abs() <= 0.5 * MIB, "{case}");
        let most = (2.0 * surveyed.half_widths[2]).min(0.05 * returned) + 0.5 * MIB;
        assert!((returned - surveyed.values[2]).abs() <= most, "{case}");
    }
}

#[test]
fn blocked_break_keeps_survey_right() {
    for seed in 5501..5504 {
        let program = program_with("heaps.c", "heaps", &["-Wno-deprecated-declarations"]);
        let heap = Heap::start_program(program, seed, (16, 48), |command| {
            command.env("BLOCKED_BREAK", "1").env("GLIBC_TUNABLES", "glibc.malloc.arena_max=1");
        });
        assert_covers(&heap, &format!("blocked break {seed}"));
    }
}

#[test]
fn top_beside_absent_page_is_found() {
    let heap = Heap::start_program(program("top_at_page_end.c"), 0, (0, 0), |_| {});
    heap.assert_agrees(&heap.read(Effort::Exact));
}
