//! A profile that lost records never passes off what is left of them as the whole.

use ramson_tests::keeping::{Keeping, assert_terms_add_up, term};
use ramson_tests::servers::*;
use ramson_tests::{library, preload};

const MIB: f64 = (1 << 20) as f64;

/// 16 MiB in blocks of 100 bytes, more of them than a profile of 1 MiB has room for.
fn start(scratch: &Scratch) -> Keeping {
    Keeping::start(scratch, &["scattered", "32"], |command| {
        let command = preload(command, "1").env("LD_PRELOAD", library());
        command.env("RAMSON_DIR", scratch.open_directory("profiles"));
        command.env("RAMSON_MAX_FILE", "1M").env("RAMSON_KEEP", "1");
    })
}

fn say(scratch: &Scratch, arguments: &[&str]) -> String {
    finish(ramson(scratch).args(arguments)).good().text()
}

fn assert_is_part(json: &Json, path: &str) {
    assert!(json.number(&format!("{path}.value")) < 14.0 * MIB, "{json:?}");
    for (key, word) in [("half_width_95", "null"), ("at_least", "true")] {
        let value = json.at(&format!("{path}.{key}"));
        assert!(matches!(value, Json::Word(found) if found == word), "{path}.{key}: {value:?}");
    }
}

#[test]
fn lost_records_show_lower_bounds() {
    let scratch = Scratch::new();
    let mut keeping = start(&scratch);
    let pid = keeping.pid().to_string();
    let report = say(&scratch, &["report", &pid, "--details"]);
    assert!(report.contains("\nlive, total ≥ "), "{report}");
    assert!(report.contains("samples are missing from the live ones"), "{report}");
    assert!(!report.contains("±0%"), "{report}");
    let json = Json::parse(&say(&scratch, &["report", &pid, "--json"]));
    for path in ["live", "total", "whole", "rss.live"] {
        assert_is_part(&json, path);
    }
    assert_terms_add_up(&json);
    // The allocator's own figures are complete.
    let not_seen = term(&json, "allocated_before_the_attach_or_not_seen");
    assert!(term(&json, "live") + not_seen > 14.0 * MIB, "{json:?}");
    for arguments in [&["leaks", &pid][..], &["top", &pid, "--once"]] {
        let text = say(&scratch, arguments);
        assert!(text.contains('≥') && !text.contains("±0%"), "{arguments:?}: {text}");
    }
    let list = say(&scratch, &["list", "-n", "0"]);
    let line = list.lines().find(|line| line.trim_start().starts_with(&format!("{pid} ")));
    assert!(line.unwrap().contains('≥'), "{list}");
    let top = Json::parse(&say(&scratch, &["top", &pid, "--once", "--json"]));
    assert_is_part(&top, "live");
    assert_is_part(&top, "total.live");
    let explain = Json::parse(&say(&scratch, &["explain", &pid, "--json"]));
    assert_is_part(&explain, "live");
    let list = Json::parse(&say(&scratch, &["list", "--json"]));
    let is_it = |entry: &&Json| entry.number("pid") == f64::from(keeping.pid());
    let entry = list.list("profiles").iter().find(is_it).unwrap();
    assert_is_part(entry, "live");
    let profile = entry.text("profile").to_owned();
    let diff = say(&scratch, &["diff", &profile, &profile]);
    assert!(diff.contains('≥'), "{diff}");
    keeping.running.signal("KILL");
    keeping.running.wait();
    let dead = say(&scratch, &["report", &profile]);
    let line = dead.lines().next().unwrap();
    assert!(line.contains("; live at exit ≥ ") && line.ends_with(" samples dropped"), "{dead}");
}

#[test]
fn library_version_mismatch_is_named() {
    use std::fs;
    use std::os::unix::fs::{FileExt, PermissionsExt};
    const VERSION_AT: u64 = 8;
    let scratch = Scratch::new();
    let keeping = start(&scratch);
    let profile = ramson_tests::profiles_in(&scratch.path("profiles")).remove(0);
    fs::set_permissions(&profile, fs::Permissions::from_mode(0o600)).unwrap();
    let file = fs::File::options().write(true).open(&profile).unwrap();
    file.write_all_at(&9_u32.to_le_bytes(), VERSION_AT).unwrap();
    let outcome = finish(ramson(&scratch).args(["report", &keeping.pid().to_string()]));
    assert_eq!(outcome.status, 1, "{outcome:?}");
    let own = ramson_format::VERSION;
    let said = format!(
        "profile format version 9; this ramson reads version {own}. Use the ramson that came with the library that wrote it"
    );
    assert!(outcome.remarks[0].contains(&said), "{outcome:?}");
}
