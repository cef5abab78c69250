//! `ramson check`: a line for each fact, with the next step where something is missing.

use ramson_tests::program_with;
use ramson_tests::servers::*;
use ramson_tests::trimming::Talking;

/// The line about this, without its name.
fn line<'a>(text: &'a str, about: &str) -> &'a str {
    let found = text.lines().find(|line| line.split_whitespace().any(|word| word == about));
    found.unwrap_or_else(|| panic!("no line about {about}: {text}"))
}

#[test]
fn machine_is_checked() {
    let scratch = Scratch::new();
    let text = finish(ramson(&scratch).arg("check")).good().text();
    assert!(line(&text, "kernel").contains("Linux "), "{text}");
    assert!(line(&text, "library").ends_with("libramson.so"), "{text}");
    assert!(line(&text, "profiles").contains(" free"), "{text}");
    for about in ["attach", "history", "symbols"] {
        line(&text, about);
    }
    let no_library = finish(ramson(&scratch).arg("check").env("RAMSON_LIBRARY", "/no/such"));
    assert!(line(&no_library.good().text(), "library").starts_with('!'));
}

#[test]
fn process_is_checked_before_and_under_ramson() {
    let scratch = Scratch::new();
    let program = program_with("figures.c", "figures-checked", &[]);
    let check =
        |pid: u32| finish(ramson(&scratch).args(["check", "-p", &pid.to_string()])).good().text();
    let plain = Talking::start(&mut clean(&program));
    let text = check(plain.pid());
    assert!(line(&text, "allocator").contains("glibc 2."), "{text}");
    let attach = format!("not recorded. \"ramson attach {}\"", plain.pid());
    assert!(line(&text, "recording").contains(&attach), "{text}");
    drop(plain);
    let mut run = ramson(&scratch);
    let running = Talking::start(
        run.args(["run", "--interval", "1K", "--max-overhead", "off", "--"]).arg(&program),
    );
    let list = Json::parse(&finish(ramson(&scratch).args(["list", "--json"])).good().text());
    let is_its = |entry: &&Json| entry.text("name") == "figures-checked";
    let pid = list.list("profiles").iter().find(is_its).unwrap().number("pid") as u32;
    let text = check(pid);
    assert!(line(&text, "recording").contains("one sample per 1.00 KiB"), "{text}");
    drop(running);
}
