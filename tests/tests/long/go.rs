//! The heap profiles of programs of each version of Go, however they are linked.

use ramson_tests::golang::*;
use ramson_tests::servers::Scratch;

#[test]
fn heap_of_each_go_is_what_its_own_profile_has() {
    let scratch = Scratch::new();
    let with_c = with_c(SHOP);
    let external = "-ldflags=-s -w -linkmode=external";
    for version in VERSIONS {
        for (kind, source, flags) in [
            ("static", SHOP, &["-ldflags=-s -w"][..]),
            ("pie", SHOP, &["-ldflags=-s -w", "-buildmode=pie"]),
            ("not-inlined", SHOP, &["-gcflags=all=-N -l"]),
            ("c", &with_c, &["-ldflags=-s -w"]),
            ("c-pie", &with_c, &[external, "-buildmode=pie"]),
        ] {
            let name = format!("{kind}-{version}");
            let running = start(&go(version), &scratch, &name, source, flags);
            assert_equals_own(&scratch, &name, running.0.id());
        }
    }
}

#[test]
fn memory_of_each_go_is_explained() {
    VERSIONS.into_iter().for_each(assert_memory_is_explained);
}

#[test]
fn collections_of_each_go_are_read() {
    VERSIONS.into_iter().for_each(assert_collections_are_read);
}

#[test]
fn goroutines_of_each_go_are_read() {
    VERSIONS.into_iter().for_each(assert_goroutines_are_read);
}
