//! Files that another user put where root looks.

mod support;

use ramson_symbols::{SymbolDefect, Symbolized};
use std::sync::mpsc::channel;
use std::time::Duration;
use support::*;

/// What is said of the file at `path`, at once.
#[track_caller]
fn answer_at_once(path: &str) -> Symbolized {
    let asked = binary(path.as_ref(), "");
    let (answered, answer) = channel();
    std::thread::spawn(move || answered.send(symbolize(&asked, &[1])).unwrap());
    let answer = answer.recv_timeout(Duration::from_secs(5));
    answer.unwrap_or_else(|_| panic!("{path}: no answer"))
}

#[test]
fn a_file_that_the_kernel_makes_up_is_not_opened() {
    for path in ["/proc/kmsg", "/proc/self/maps", "/proc/version", "/sys/kernel/notes"] {
        if !std::path::Path::new(path).exists() {
            continue;
        }
        let defect = answer_at_once(path).defect;
        let Some(SymbolDefect::Unreadable { reason, .. }) = &defect else { panic!("{defect:?}") };
        assert!(reason.contains("a file of the kernel's"), "{path}: {reason}");
    }
    // What leads through a link of a process leads nowhere.
    let defect = answer_at_once("/proc/self/exe").defect;
    assert!(!matches!(defect, Some(SymbolDefect::NoSymbols { .. }) | None), "{defect:?}");
}

#[test]
fn a_device_or_a_fifo_is_not_opened() {
    let folder = Folder::new();
    folder.run("mkfifo fifo");
    folder.run("ln -s /dev/zero zeroes");
    for name in ["fifo", "zeroes"] {
        let defect = answer_at_once(folder.path(name).to_str().unwrap()).defect;
        let Some(SymbolDefect::Unreadable { reason, .. }) = &defect else { panic!("{defect:?}") };
        assert!(reason.contains("not a regular file"), "{name}: {reason}");
    }
}
