//! Most memory for reading one input: 512 MiB if it is another user's or a server's, 4 GiB if it is the caller's own.

use ramson_tests::budgets::{Cost, cost};
use ramson_tests::servers::*;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::Path;
use std::thread;

const STRANGER: u32 = 1501;
/// The budget, and what any command takes.
const MOST_BYTES: u64 = (512 + 64) << 20;

/// A server of one client that sends `head` and then `rest` again and again; its address.
fn endless(head: &'static [u8], rest: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = client.read(&mut request);
        let many = rest.repeat((1 << 20) / rest.len());
        let _ = client.write_all(b"HTTP/1.0 200 OK\r\n\r\n").and_then(|()| client.write_all(head));
        while client.write_all(&many).is_ok() {}
    });
    format!("http://{address}/debug/pprof/heap")
}

fn report(scratch: &Scratch, source: &str) -> Cost {
    let mut command = ramson(scratch);
    command.args(["report", source]);
    cost(&command)
}

#[track_caller]
fn assert_refused(cost: &Cost) {
    assert_eq!(cost.status, 1, "{cost:?}");
    assert!(cost.peak_bytes < MOST_BYTES && cost.cpu_seconds < 10.0, "{cost:?}");
    let [remark] = cost.remarks.as_slice() else { panic!("{cost:?}") };
    assert!(remark.contains("it takes more than 512 MiB to read. Save it as a file"), "{cost:?}");
}

#[test]
fn endless_body_is_refused() {
    let scratch = Scratch::new();
    let types = b"\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x05space\x32\x05bytes";
    // Strings, a field that is passed over, and a profile of ours.
    for (head, rest) in [(types, b"\x32\x05aaaaa" as &[u8]), (types, b"\x7a\x03bbb")] {
        assert_refused(&report(&scratch, &endless(head, rest)));
    }
    assert_refused(&report(&scratch, &endless(&ramson_format::MAGIC, &[0; 64])));
}

#[test]
fn foreign_file_has_smaller_budget() {
    let scratch = Scratch::new();
    let types = b"\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x05space\x32\x05bytes\x32\x01f";
    let function =
        b"\x2a\x04\x08\x01\x10\x03\x22\x06\x08\x01\x22\x02\x08\x01\x12\x06\x0a\x01\x01\x12\x01\x64";
    // A field of 600 MiB that is passed over; on the disk it is a hole.
    let field = b"\x7a\x80\x80\x80\xac\x02";
    let file = scratch.file("large.pb", [&types[..], function, field].concat());
    let length = 600 << 20;
    std::fs::File::options().write(true).open(&file).unwrap().set_len(length).unwrap();
    let shown = |file: &Path| report(&scratch, file.to_str().unwrap());
    let own = shown(&file);
    assert_eq!(own.status, 0, "{own:?}");
    chown(&file, Some(STRANGER), None).unwrap();
    assert_refused(&shown(&file));
}

#[test]
fn endless_view_in_history_is_refused() {
    const SCRIPT: &str = "import sqlite3, sys
made = sqlite3.connect(sys.argv[1])
made.executescript('''PRAGMA application_id = 0x524d5348; PRAGMA user_version = 8;
CREATE VIEW processes AS WITH RECURSIVE endless(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM endless)
SELECT i AS id, 1 AS pid, 'x' AS name, '/x' AS exe, 'x' AS comm, 1 AS start_unix_ns FROM endless;''')";
    let scratch = Scratch::new();
    let file = scratch.path("v.db");
    finish(clean(python()).args(["-c", SCRIPT]).arg(&file)).good();
    let source = file.to_str().unwrap();
    for words in [["timeline", source], ["report", &format!("{source}@peak")]] {
        let mut command = ramson(&scratch);
        let cost = cost(command.args(words));
        assert_eq!(cost.status, 1, "{words:?}: {cost:?}");
        let [remark] = cost.remarks.as_slice() else { panic!("{cost:?}") };
        assert!(remark.contains("processes differs from its schema. Pass a file that"), "{cost:?}");
        assert!(cost.cpu_seconds < 2.0, "{cost:?}");
    }
}
