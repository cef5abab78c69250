use super::*;
use std::fs;
use std::os::unix::fs::symlink;

fn sums(value: f64) -> Sums {
    Sums { flat: None, cum: Estimate::exact(value) }
}

fn found(file: &str, root: &Path) -> Result<String, String> {
    match find(file, &[root.to_owned()]) {
        Ok((_, path)) => Ok(path.strip_prefix(root).unwrap().display().to_string()),
        Err(failure) => Err(failure.to_string()),
    }
}

#[test]
fn source_is_found_by_longest_suffix() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("src/deep")).unwrap();
    for file in ["src/deep/a.c", "a.c"] {
        fs::write(root.path().join(file), "x\n").unwrap();
    }
    assert_eq!(found("/build/src/deep/a.c", root.path()), Ok("src/deep/a.c".into()));
    assert_eq!(found("/elsewhere/a.c", root.path()), Ok("a.c".into()));
    let outside = found("/build/b.c", root.path()).unwrap_err();
    assert!(outside.contains("not beneath a --source-root"), "{outside}");
}

#[test]
fn links_and_parents_stay_in_root() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "s\n").unwrap();
    symlink(outside.path().join("secret"), root.path().join("link.c")).unwrap();
    symlink(outside.path(), root.path().join("folder")).unwrap();
    symlink("/proc/self/root", root.path().join("magic")).unwrap();
    for file in ["/x/link.c", "/x/folder/secret", "/x/magic/etc/passwd"] {
        let refused = found(file, root.path()).unwrap_err();
        assert!(refused.contains("symbolic link"), "{file}: {refused}");
    }
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    let climbing = found(&format!("../{name}/secret"), root.path()).unwrap_err();
    assert!(climbing.contains("with .. in it"), "{climbing}");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.path().join("fifo.c"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let fifo = found("/x/fifo.c", root.path()).unwrap_err();
    assert!(fifo.contains("a FIFO"), "{fifo}");
}

#[test]
fn heaviest_lines_come_first() {
    let texts: Vec<String> = (1..=5000).map(|number| format!("line {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let by_line: BTreeMap<u32, Sums> =
        (1..=5000).step_by(5).map(|line| (line, sums(line.into()))).collect();
    let chosen = choose(&by_line, &texts, 64 << 10);
    let bytes = serde_json::to_vec(&chosen.values().collect::<Vec<_>>()).unwrap().len();
    assert!(bytes <= 64 << 10 && bytes > 16 << 10, "{bytes}");
    assert!(chosen.contains_key(&4996) && !chosen.contains_key(&1));
    assert_eq!(chosen[&4996].text, "line 4996");
    let few: BTreeMap<u32, Sums> = [(2, sums(8.0)), (9000, sums(1.0))].into();
    let chosen = choose(&few, &texts, 64 << 10);
    let lines: Vec<u32> = chosen.keys().copied().collect();
    assert_eq!(lines, [1, 2, 3, 4, 5, 9000]);
    assert!(chosen[&1].cum.is_none() && chosen[&2].cum.is_some());
    assert_eq!(chosen[&9000].text, "");
}

#[test]
fn line_text_is_escaped_and_cut() {
    assert_eq!(shown_text("a\tb\x1b[2J\u{202e}"), "a\tb\u{fffd}[2J\\u{202e}");
    assert_eq!(shown_text(&"ö".repeat(9999)).chars().count(), MOST_LETTERS);
}
