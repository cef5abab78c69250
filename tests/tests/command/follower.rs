//! A profile that is read again and again says each time what a fresh reading of the same bytes says.

use ramson_reader::{Follower, LookupAddress, Snapshot, Stack};
use ramson_tests::servers::*;
use ramson_tests::{preload, profiles_in};
use std::fs;

/// Content of a snapshot, independent of the numbers of its stacks.
fn essence(snapshot: &Snapshot) -> impl PartialEq + std::fmt::Debug + use<> {
    let text = |stack: &Stack| format!("{stack:?}");
    let mut stacks: Vec<String> = snapshot.stacks.iter().map(text).collect();
    stacks.sort_unstable();
    let live = snapshot.live.iter().map(|live| {
        (
            live.address,
            live.size,
            live.monotonic_ns,
            live.tid,
            snapshot.stacks[live.stack].frames.clone(),
        )
    });
    let mut live: Vec<_> = live.collect();
    live.sort_unstable();
    let defects = format!("{:?}", snapshot.defects);
    (stacks, live, snapshot.mappings.clone(), defects, snapshot.header.clone())
}

#[test]
fn follower_matches_fresh_reading() {
    let scratch = Scratch::new();
    let socket = scratch.path("redis.sock");
    let mut server = clean(installed("redis-server", "redis-server"));
    server.args(["--port", "0", "--save", "", "--dir"]).arg(scratch.path(""));
    server.arg("--unixsocket").arg(&socket);
    preload(&mut server, "4K").env("RAMSON_DIR", scratch.open_directory("profiles"));
    let _server = Running::start(&mut server, &scratch.path("log"), || accepts(&socket));
    let commands = [
        "for i = 1, 3000 do redis.call('SET', 'key:' .. i, string.rep('x', 100)) end",
        "for i = 1, 3000 do redis.call('LPUSH', 'list', string.rep('x', 300)) end",
        "for i = 1, 2000 do redis.call('DEL', 'key:' .. i) end",
        "for i = 1, 3000 do redis.call('ZADD', 'set', i, 'member:' .. i) end return redis.call('FLUSHALL')",
    ];
    let mut copies = Vec::new();
    for command in commands {
        let mut client = clean(installed("redis-cli", "redis-tools"));
        finish(client.arg("-s").arg(&socket).args(["EVAL", command, "0"])).good();
        copies.push(fs::read(&profiles_in(&scratch.path("profiles"))[0]).unwrap());
    }
    let mut follower = Follower::default();
    let mut before: Vec<Vec<LookupAddress>> = Vec::new();
    for copy in &copies {
        let fresh = Snapshot::read(copy.as_slice()).unwrap();
        let followed = follower.read(copy.as_slice()).unwrap();
        assert!(essence(followed) == essence(&fresh));
        let frames: Vec<Vec<LookupAddress>> =
            followed.stacks.iter().map(|stack| stack.frames.clone()).collect();
        assert_eq!(frames[..before.len()], before, "stacks keep their numbers");
        before = frames;
    }
    assert!(before.len() > 20, "{}", before.len());
    let first = Snapshot::read(copies[0].as_slice()).unwrap();
    assert!(before.len() > first.stacks.len(), "later moments have more stacks");
}

#[test]
fn follower_reads_byte_by_byte_growth() {
    let scratch = Scratch::new();
    let path = scratch.path("echo.ramson");
    let mut run = ramson(&scratch);
    run.args(["run", "--interval", "1", "-o"]).arg(&path).args(["--", "/bin/ls", "/"]);
    finish(&mut run).good();
    let whole = fs::read(&path).unwrap();
    let mut follower = Follower::default();
    // Lengths in no step with pages or entries.
    for length in (4096..whole.len()).step_by(whole.len() / 300 + 7).chain([whole.len()]) {
        let cut = &whole[..length];
        let fresh = Snapshot::read(cut).unwrap();
        assert!(essence(follower.read(cut).unwrap()) == essence(&fresh), "{length}");
    }
}
