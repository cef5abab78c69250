//! Go programs that run without ramson: their own heap profile, read out of their memory.

use ramson_tests::golang::*;
use ramson_tests::servers::*;
use ramson_tests::several::{json, say};
use std::os::unix::process::CommandExt;

#[test]
fn heap_of_go_is_what_its_own_profile_has() {
    let scratch = Scratch::new();
    let stripped = "-ldflags=-s -w";
    for (name, flags) in [("shop", &[][..]), ("shop-pie", &["-buildmode=pie", stripped])] {
        let running = start(&go(ONE), &scratch, name, SHOP, flags);
        // As after an upgrade.
        std::fs::remove_file(scratch.path(name)).unwrap();
        assert_equals_own(&scratch, name, running.0.id());
        let report = say(&scratch, &["report", &running.0.id().to_string()]).good().text();
        assert!(report.starts_with("RSS ") && report.contains("main.open  main.go:"), "{report}");
    }
}

#[test]
fn heap_of_another_users_go_program_is_read() {
    const USER: u32 = 1501;
    let scratch = Scratch::new();
    let program = built(&go(ONE), &scratch, "shop", SHOP, &["-ldflags=-s"]);
    let mut command = clean(program);
    let running = run(command.arg("/dev/null").uid(USER).gid(USER), &scratch.path("shop.log"));
    let stacks = rows(&scratch, &running.0.id().to_string(), "live");
    let of = |name: &str| stacks.iter().any(|(stack, _)| stack.starts_with(name));
    assert!(of("main.open main.go:") && of("main.inlined main.go:"), "{stacks:#?}");
}

#[test]
fn recorded_go_program_shows_its_own_heap() {
    let scratch = Scratch::new();
    let program = built(&go(ONE), &scratch, "shop", &with_c(SHOP), &[]);
    let mut command = ramson(&scratch);
    command.args(["run", "--"]).arg(program).arg(profile(&scratch, "shop"));
    let _running = run(&mut command, &scratch.path("shop.log"));
    let explained = json(&scratch, &["explain", "shop"]);
    let part = |name: &str| explained.number(&format!("parts.{name}"));
    assert!(part("go_live") > part("mmap"), "{explained:?}");
    let stacks = rows(&scratch, "shop", "live");
    assert!(stacks.iter().any(|(stack, _)| stack.starts_with("main.open main.go:")), "{stacks:#?}");
}

#[test]
fn go_program_without_a_profile_says_why() {
    let scratch = Scratch::new();
    let running = start(&go(ONE), &scratch, "plain", PLAIN, &[]);
    let refused = say(&scratch, &["report", &running.0.id().to_string()]);
    assert_eq!(refused.status, 5, "{refused:?}");
    assert!(refused.remarks[0].contains("Go's heap profile is off"), "{refused:?}");
}

#[test]
fn memory_of_go_is_explained() {
    assert_memory_is_explained(ONE);
}

#[test]
fn collections_of_go_are_read() {
    assert_collections_are_read(ONE);
}

#[test]
fn gc_of_others_says_what_it_takes() {
    let scratch = Scratch::new();
    let mut sleeper = clean("sleep");
    let sleeper = Running(sleeper.arg("1000").spawn().unwrap());
    let refused = say(&scratch, &["gc", &sleeper.0.id().to_string()]);
    assert_eq!(refused.status, 5, "{refused:?}");
    assert!(refused.remarks[0].contains("no Go program"), "{refused:?}");
    std::fs::write(scratch.path("log"), "gc is never here\n").unwrap();
    let refused = say(&scratch, &["gc", &scratch.path("log").display().to_string()]);
    assert!(refused.remarks[0].contains("no GODEBUG=gctrace=1 line"), "{refused:?}");
}
