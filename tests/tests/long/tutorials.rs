//! docs/tutorial.md and the pages of docs/how-to show what ramson prints: their commands are run on the real programs, and
//! compared.
//!
//! `make tutorials` (RAMSON_TUTORIALS=write) writes what they print now into the pages instead.

use ramson_tests::tutorials::*;
use std::fs;
use std::sync::Mutex;

/// The limit of a command that waits in a loop.
const MOST_SECONDS: u32 = 20;

/// One page at a time: what they show is of a machine with nothing else to do.
static ALONE: Mutex<()> = Mutex::new(());

fn is_to_write() -> bool {
    std::env::var_os("RAMSON_TUTORIALS").is_some_and(|what| what == "write")
}

#[track_caller]
fn check(name: &str) {
    let _alone = ALONE.lock();
    let path = directory().join(name);
    let written = pieces(&fs::read_to_string(&path).unwrap());
    let now = played(&written, &programs(), MOST_SECONDS);
    if is_to_write() {
        fs::write(&path, page(&now)).unwrap();
        return;
    }
    let pairs = steps(&written).zip(steps(&now));
    let wrong = pairs.filter(|(written, now)| !is_same(&written.output, &now.output));
    let wrong: Vec<String> = wrong.map(|(written, now)| difference(written, now)).collect();
    assert!(
        wrong.is_empty(),
        "docs/{name} does not show what its commands print; \"make tutorials\" writes it anew\n{}",
        wrong.join("\n")
    );
}

fn difference(written: &Step, now: &Step) -> String {
    let of = |step: &Step| format!("  {}", shape(&step.output).join("\n  "));
    format!("$ {}\non the page:\n{}\nnow:\n{}\n", written.command, of(written), of(now))
}

#[test]
fn tutorial_and_readme_match_output() {
    check("tutorial.md");
    let tutorial = pieces(&fs::read_to_string(directory().join("tutorial.md")).unwrap());
    let path = directory().join("../README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let mut shown = pieces(&readme);
    for step in shown.iter_mut().filter_map(Piece::steps_mut).flatten() {
        let is_it = |other: &&Step| other.command == step.command;
        *step = steps(&tutorial).find(is_it).expect("the tutorial has that command").clone();
    }
    if is_to_write() {
        fs::write(&path, page(&shown)).unwrap();
    } else {
        assert_eq!(page(&shown), readme, "README.md shows what docs/tutorial.md does not");
    }
}

#[test]
fn page_on_rss_matches_output() {
    check("how-to/rss.md");
}

#[test]
fn page_on_memory_limits_matches_output() {
    check("how-to/oom.md");
}

#[test]
fn page_on_languages_matches_output() {
    check("how-to/languages.md");
}

#[test]
fn page_on_go_matches_output() {
    check("how-to/go.md");
}

#[test]
fn every_page_with_commands_is_checked() {
    let source = include_str!("tutorials.rs");
    for name in pages() {
        assert!(source.contains(&format!("check(\"{name}\")")), "{name} is not checked");
    }
}

#[test]
fn a_page_is_its_pieces() {
    let written =
        "# Title\n\n```console\n$ true\n$ printf 'a\\nb\\n' \\\n  | cat\na\nb\n```\n\nText.\n";
    let parsed = pieces(written);
    assert_eq!(page(&parsed), written);
    let all: Vec<&Step> = steps(&parsed).collect();
    assert_eq!(all.len(), 2);
    assert_eq!(all[1].command, "printf 'a\\nb\\n' \\\n  | cat");
    assert_eq!(all[1].output, "a\nb\n");
}

#[test]
fn tutorial_commands_share_one_shell() {
    let written = pieces(
        "```console\n$ sleep 600 & name=$!\n$ ps -o pid= -p $name | wc -l\n$ ls /var/tmp /tmp\n$ pwd; ps -e | grep -c cargo\n```\n",
    );
    let now = played(&written, &[], MOST_SECONDS);
    let outputs: Vec<&str> = steps(&now).map(|step| step.output.as_str()).collect();
    assert_eq!(outputs, ["", "1\n", "/tmp:\n\n/var/tmp:\n", "/srv\n0\n"]);
}

#[test]
#[should_panic(
    expected = "until grep -qs ready server.log; do sleep 0.1; done: waited in vain\nserver.log:\nout of memory"
)]
fn vain_wait_shows_the_log() {
    let written = pieces(
        "```console\n$ echo out of memory > server.log\n$ until grep -qs ready server.log; do sleep 0.1; done\n```\n",
    );
    played(&written, &[], 1);
}

#[test]
fn comparison_masks_numbers_not_words() {
    let same = [
        (
            "76.5 MiB   70.9%    ±16%  197,653  1.0 s  a ← b ← c ← d",
            "8 KiB 1% ±1% 2 12 min 3 s a ← b ← c",
        ),
        (
            "orderd (pid 5), running for 59 s; T 64.0 KiB",
            "orderd (pid 4711), running for 1 min; T 512 KiB",
        ),
        ("died 2026-11-24T10:02:57Z after 17 s", "died 2027-01-01T00:00:00+01:00 after 2 min"),
        ("open orderd.cc:31 +2.44 GiB/h ±416 MiB/h", "open  orderd.cc:7  +9 MiB/h ±1.00 KiB/h"),
        ("node+0x13c333", "node+0xff"),
        ("<1 s before its end", "12 ms before its end"),
        ("/var/tmp/ramson-0/5-404.ramson", "/var/tmp/ramson-0/77-9.ramson"),
        ("████░░░····", "██░░····"),
        ("  1 MiB  a\n  9 KiB  in other stacks; -n 0 shows all", "  1 MiB  a"),
        ("  1 MiB  a\n  9 KiB  in other stacks", "  1 MiB  a"),
        ("a\n\n(1 more finding; -n 0 shows all)", "a"),
        (
            "RSS 9 MiB at last check, 10 MiB at its peak, limit 9 MiB",
            "RSS 9 MiB at last check, limit 9 MiB",
        ),
        ("JS:~serve app.js:3:1", "JS:*serve app.js:3:1"),
        (
            "Why   1 MiB is live: it is\n      too early",
            "Why   100 MiB is live:\n      it is too early",
        ),
        ("for 2 min 59 s longer", "for 3 s longer"),
        (
            "RSS 9 MiB = live 8 MiB + code\nand data 1 MiB + kernel 4 KiB",
            "RSS 9 MiB = live 8 MiB + code and data 1 MiB",
        ),
        ("age 6.2 s; never freed 34.0% (3…", "age 6.20 s; never freed 3% (3.1 to…"),
    ];
    for (first, second) in same {
        assert!(is_same(first, second), "{:?}\n{:?}", shape(first), shape(second));
    }
    let different = [
        ("8 MiB a ← b", "8 MiB b ← a"),
        ("utf8_decode", "utf16_decode"),
        ("1 MiB a\n2 MiB b", "2 MiB b\n1 MiB a"),
        ("1 MiB a", "1 MiB a\n1 MiB b"),
        ("growth +2 MiB/h", "growth –"),
        ("leak suspect: open", "cache or pool: open"),
        ("  1 MiB   a ← b\n  1 MiB   c", "  1 MiB   c\n  1 MiB   a ← b"),
        ("age 6.2 s; never freed 3…", "age 6.2 s; always freed 3…"),
    ];
    for (first, second) in different {
        assert!(!is_same(first, second), "{:?}\n{:?}", shape(first), shape(second));
    }
}

#[test]
fn only_large_rss_terms_are_compared() {
    let written = "RSS 100 MiB = live 80.0 MiB (±12%) + free in malloc 15.0 MiB + stacks 60.0 KiB\n  + kernel 4 KiB\n";
    let now = "RSS 90.0 MiB = live 70.0 MiB (±1%) + free in malloc 1.0 MiB\n";
    assert!(is_same(written, now));
    assert!(!is_same(written, "RSS 100 MiB = live 99.0 MiB\n"));
    let whose = |name: &str| format!("{name} (pid 7), recorded for 2 s: {now}");
    assert!(
        is_same(&whose("server"), &whose("server")) && !is_same(&whose("server"), &whose("other"))
    );
    assert!(!is_same(written, "RSS 100 MiB\n"));
}
