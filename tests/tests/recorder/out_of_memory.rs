//! Deaths of programs that got no memory: what `ramson run` says of them.

use ramson_tests::deaths::*;
use ramson_tests::program;
use ramson_tests::servers::*;

#[test]
fn failed_allocation_explains_the_death() {
    let throws = program("throws.cc");
    for (command, reason) in [(deaths("huge"), ""), (throws.display().to_string(), "bad_alloc")] {
        let scratch = Scratch::new();
        let outcome = run(&scratch, &command);
        assert_eq!(outcome.status, 134, "{outcome:?}");
        assert!(outcome.stderr.contains(reason), "{outcome:?}");
        assert_last_words(
            &outcome,
            "died by SIGABRT after an allocation of 1.00 PiB had failed",
            &["site_huge", "site_held"],
        );
        let name = if reason.is_empty() { "deaths" } else { "throws" };
        let found = entry(&scratch, name);
        assert_eq!(found.text("end.cause"), "out of memory");
        assert_eq!(found.number("end.failed_allocation_bytes"), (1u64 << 50) as f64);
    }
}

/// Runs a program that gets no more blocks of 24 bytes; the interval is so long that a failed one is hardly ever a sample. Its last words
/// name the clause, and `site` in the first stack.
#[track_caller]
fn run_until_exhausted(scratch: &Scratch, program: &str, site: &str) {
    let mut command = ramson(scratch);
    command.args(["run", "--interval", "256K", "--max-overhead", "off", "--", "sh", "-c"]);
    let outcome = finish(command.arg(format!("exec {program}")));
    assert_eq!(outcome.status, 134, "{outcome:?}");
    let clauses = [
        "when 1.00 MiB more could not be allocated",
        "after an allocation of 24 B had failed",
        // The exception that is thrown then (libstdc++: __cxa_allocate_exception).
        "after an allocation of 136 B had failed",
    ];
    let is_told = |clause| outcome.remarks[0].contains(&format!("died by SIGABRT {clause}: RSS "));
    assert!(clauses.into_iter().any(is_told), "{outcome:?}");
    assert!(outcome.remarks[1].contains(site), "{outcome:?}");
    assert!(outcome.remarks[2].contains("site_"), "{outcome:?}");
}

#[test]
fn failed_operator_new_explains_the_abort() {
    let scratch = Scratch::new();
    let throws = format!("{} small", program("throws.cc").display());
    run_until_exhausted(&scratch, &throws, "site_small");
    let found = entry(&scratch, "throws");
    assert_eq!(found.text("end.cause"), "out of memory");
}

#[test]
fn abort_is_explained_only_when_exhausted() {
    let scratch = Scratch::new();
    run_until_exhausted(&scratch, &deaths("exhausted"), "main");
    let found = entry(&scratch, "deaths");
    assert_eq!(found.text("end.cause"), "out of memory");
    let scratch = Scratch::new();
    let outcome = run(&scratch, &deaths("limited-abort"));
    assert_eq!((outcome.status, outcome.remarks.len()), (134, 1), "{outcome:?}");
    assert_eq!(entry(&scratch, "deaths").text("end.cause"), "unknown");
}
