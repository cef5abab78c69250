//! `history`, `timeline`, `mark` and moments of sources, on a real program.

use ramson_tests::recorded::*;
use ramson_tests::servers::{
    Json, Running, Scratch, clean, finish, installed, python, ramson, signal, wait_until,
};
use std::fs;
use std::time::{Duration, Instant};

const STEP_BLOCKS: f64 = 400.0;
const BLOCK_BYTES: f64 = 32768.0;
/// 400 blocks that are sampled with p = 0.865 each: 4 standard errors are 1.07 MiB; and what else Python does.
#[track_caller]
fn is_one_step(grown: f64, more: f64) {
    let step = STEP_BLOCKS * BLOCK_BYTES;
    assert!((grown - step).abs() < more + 1.2e6, "{grown}, not {step}");
}

#[test]
fn mark_without_recording_is_a_moment() {
    let recorded = Recorded::new();
    recorded.refused("report PID@mark:early", 5, "no mark early, and no history");
    recorded.good("mark PID early");
    recorded.allocate(0);
    // Python maps its arenas a mebibyte at a time, and each sample of its small blocks stands for half of one.
    let live =
        |source: &str| recorded.json(&format!("report {source} --kind heap")).number("whole.value");
    is_one_step(live("PID") - live("PID@mark:early"), 1.2e6);
    let diff = recorded.json("diff PID@mark:early PID");
    assert_eq!(*diff.at("is_same_process"), Json::Word("true".into()));
}

#[track_caller]
fn what_makes_no_sense_is_refused(recorded: &Recorded) {
    recorded.refused("report PID@yesterday", 2, "not a moment");
    recorded.refused("report PID@mark:other", 5, "Known marks: before, middle");
    recorded.refused("report PID@2001-01-01", 5, "not recorded at 2001-01-01T00:00:00");
    recorded.refused("report PID@mark:middle..mark:before", 2, "ends before it begins");
    recorded.refused("report 1@-1h", 5, "not in the history");
    recorded.refused("explain PID@-1h", 2, "no memory to examine");
    recorded.refused("leaks PID@mark:before..", 2, "a range");
    recorded.refused("mark PID@mark:before.. -o x", 2, "not a range");
    recorded.refused("mark PID@mark:before x", 2, "a mark keeps the present moment");
    recorded.refused("history PID", 5, "is no longer running");
    recorded.refused("timeline PID@peak", 2, "a moment, not a range");
}

#[test]
fn past_moments_survive_the_process() {
    let recorded = Recorded::new();
    let mut recorder = recorded.record("PID");
    let whole = |source: &str, more: &str| {
        recorded.json(&format!("report {source} {more}")).number("whole.value")
    };
    recorded.good("mark PID before");
    recorded.grow(0);
    recorded.wait_for("live-peak");
    is_one_step(whole("PID@peak", "--kind heap") - whole("PID@mark:before", "--kind heap"), 3e5);
    let diff = recorded.json("diff PID@mark:before PID");
    assert_eq!(*diff.at("is_same_process"), Json::Word("true".into()));
    assert_eq!(
        finish(recorded.ramson("diff PID@mark:before PID --fail-above 5%").arg("-n1")).status,
        3
    );
    recorded.good("mark PID middle");
    recorded.grow(1);
    signal(recorded.pid, "KILL");
    assert_eq!(recorder.wait().code(), Some(0), "nothing is left to record");
    recorded.wait_for("death");

    // Waiting allocates, too.
    let allocated = |range: &str| {
        let options = "--count alloc_space --focus ByteArray";
        recorded.json(&format!("report {range} {options}")).number("total.value")
    };
    is_one_step(allocated("PID@mark:before..mark:middle"), 0.0);
    is_one_step(allocated("PID@mark:before..") - STEP_BLOCKS * BLOCK_BYTES, 5e5);
    // A state, and no sum.
    let last = recorded.json("report PID@mark:before..").number("whole.value");
    assert_eq!(
        last,
        recorded.json(&format!("report {}", recorded.database().display())).number("whole.value")
    );
    let text = recorded.good("report PID@mark:middle");
    assert!(text.contains(": RSS ") && text.contains("ago); live "), "{text}");
    assert!(text.contains("ByteArray"), "names are found later: {text}");
    recorded.good("leaks PID@mark:middle --since PID@mark:before --min-age 1ms");
    recorded.good(
        "mark PID@mark:middle -o SNAP"
            .replace("SNAP", &recorded.scratch.path("s.ramson").display().to_string())
            .as_str(),
    );
    let snap = recorded.json(&format!("report {}", recorded.scratch.path("s.ramson").display()));
    assert_eq!(
        snap.number("whole.value"),
        recorded.json("report PID@mark:middle").number("whole.value")
    );

    what_makes_no_sense_is_refused(&recorded);
}

#[test]
fn killed_recorder_leaves_whole_history() {
    let recorded = Recorded::new();
    let mut last = 0;
    for round in 0..6 {
        let recorder = recorded.record("PID");
        // Somewhere in its work: reading, writing, pausing.
        std::thread::sleep(std::time::Duration::from_millis(37 * round % 101));
        let known = recorded.moments().last().unwrap().0;
        recorder.signal("KILL");
        drop(recorder);
        assert_eq!(recorded.integrity(), "[('ok',)]\n");
        let now = recorded.moments().last().unwrap().0;
        assert!(now >= known && known > last, "{now} {known} {last}");
        recorded.good("report PID@-1ms -n 1");
        last = now;
    }
    let first = recorded.record("PID");
    recorded.refused("history PID", 1, "another \"ramson history\"");
    first.signal("TERM");
}

#[test]
fn later_processes_are_found_by_name() {
    let recorded = Recorded::new();
    let name = python().file_name().unwrap().to_str().unwrap().to_owned();
    let mut recorder = recorded.record(&format!("name:{name} name:no-such-program"));
    let mut command = ramson(&recorded.scratch);
    let other = ["run", "--interval", "1", "--"];
    finish(command.args(other).arg(python()).args(["-c", "pass"])).good();
    let database = recorded.database();
    let count = || {
        let query = "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute('select count(*) from snapshots where triggers & 64').fetchone()[0])";
        let mut command = clean(installed("python3", "python3"));
        finish(command.args(["-c", query]).arg(&database))
            .good()
            .text()
            .trim()
            .parse::<u32>()
            .unwrap()
    };
    wait_until("the exit of the other", || count() > 0);
    recorder.signal("TERM");
    assert_eq!(recorder.wait().code(), Some(0));
    assert!(!database.with_file_name("history.db-wal").exists(), "its end leaves one file");
}

/// Holds the database as a disk does that takes nothing, until a file `release` is there.
const HOLD: &str = r#"
import os, sqlite3, sys, time
history, scratch = sys.argv[1:]
held = sqlite3.connect(history, isolation_level=None, timeout=60)
held.execute("BEGIN IMMEDIATE")
open(f"{scratch}/held", "w").close()
while not os.path.exists(f"{scratch}/release"):
    time.sleep(0.01)
held.execute("ROLLBACK")
"#;

#[test]
fn stalled_disk_loses_no_round() {
    let recorded = Recorded::new();
    let recorder = recorded.record("PID");
    let script = recorded.scratch.file("hold.py", HOLD);
    let mut hold = clean(python());
    hold.arg(script).arg(recorded.database()).arg(recorded.scratch.path(""));
    let is_held = || recorded.scratch.path("held").exists();
    let holder = Running::start(&mut hold, &recorded.scratch.path("holder"), is_held);
    let (start, start_ns) = (Instant::now(), now_ns());
    let errors = || fs::read_to_string(recorded.scratch.path("recorder")).unwrap();
    wait_until("a remark", || {
        errors().contains("no snapshot has been written")
            && start.elapsed() > Duration::from_secs(3)
    });
    let end_ns = now_ns();
    recorded.scratch.file("release", "");
    wait_until("the end of it", || errors().contains("all waiting snapshots are written"));
    let is_short = start.elapsed() < Duration::from_secs(8);
    drop((holder, recorder));
    let said = |what: &str| errors().matches(what).count();
    assert!(said("no snapshot has been") <= said("all waiting") + 1, "{}", errors());
    // SQLite waits for 10 s, and then the round has failed.
    assert!(!is_short || errors().contains("nothing was missed"), "{}", errors());
    let moments = recorded.moments();
    let while_held = moments.iter().filter(|moment| (start_ns..end_ns).contains(&moment.0));
    assert!(!is_short || while_held.count() > 2, "{moments:?}");
}

#[test]
fn timeline_shows_gaps() {
    let recorded = Recorded::new();
    drop(recorded.record("PID --every 1s"));
    let mut history = clean(python());
    // Dates all snapshots so far back by 50 minutes.
    let earlier = "import sqlite3,sys; c = sqlite3.connect(sys.argv[1]); \
                   c.execute('update snapshots set time_ns = time_ns - 3000000000000'); c.commit()";
    finish(history.args(["-c", earlier]).arg(recorded.database())).good();
    drop(recorded.record("PID --every 1s"));
    for rows in ["0", "2"] {
        let text = recorded.good(&format!("timeline PID -n {rows}"));
        let gaps = text.lines().filter(|line| line.contains("no snapshot"));
        let minutes = gaps.filter_map(|gap| gap.strip_suffix(" min)")?.rsplit_once(' '));
        let minutes: Vec<u64> = minutes.map(|(_, minutes)| minutes.parse().unwrap()).collect();
        // Others there may be, on a machine that is busy.
        assert!(minutes.len() == 1 && (50..119).contains(&minutes[0]), "{text}");
    }
}

#[test]
fn non_history_is_refused_with_advice() {
    let scratch = Scratch::new();
    scratch.file("empty.db", "");
    scratch.file("text.db", "some words");
    let database = "import sqlite3,sys; sqlite3.connect(sys.argv[1]).execute('create table a (b)')";
    finish(clean(python()).args(["-c", database]).arg(scratch.path("other.db"))).good();
    for (file, status, finding, next) in [
        ("missing.db", 5, "no such file", "history --all -o missing.db"),
        ("empty.db", 1, "the file is empty", "history --all -o empty.db"),
        ("text.db", 1, "not a profile", "ramson profile"),
        ("other.db", 1, "not a history of ramson", "that \"ramson history\" made"),
        (".", 1, "a directory", "one of the files in it"),
    ] {
        for command in
            ["timeline FILE", "timeline FILE@-2h..-1h", "report FILE@-1h", "diff FILE@-2h FILE@-1h"]
        {
            let mut ramson = ramson(&scratch);
            ramson.current_dir(scratch.path("")).env("RAMSON_HISTORY", scratch.path("none"));
            ramson.args(command.split(' ').map(|word| word.replace("FILE", file)));
            let outcome = finish(&mut ramson);
            assert_eq!((outcome.status, outcome.remarks.len()), (status, 1), "{outcome:?}");
            let remark = &outcome.remarks[0];
            assert!(remark.contains(&format!("{file}: ")), "{command} {file}: {outcome:?}");
            assert!(
                remark.contains(finding) && remark.contains(next),
                "{command} {file}: {outcome:?}"
            );
        }
    }
}

#[test]
fn full_disk_keeps_history_and_recovers() {
    let scratch = Scratch::new();
    let full = scratch.open_directory("full");
    let script = scratch.file("grow.py", GROW);
    // Who may look at a process in /proc depends on the user namespace: all of it is in one.
    let script = format!(
        "mount -t tmpfs -o size=1500k none {full} && cd {full} && head -c 900000 /dev/zero > ballast || exit 9
         \"$0\" run --interval 16K --max-overhead off -- {python} {script} {scratch} & run=$!
         until \"$0\" report ../profiles/*.ramson --json > /dev/null 2> /dev/null; do sleep 0.05; done
         \"$0\" history ../profiles/*.ramson --every 100ms -o h.db 2> ../errors & recorder=$!
         until grep -q 'disk is full' ../errors || ! kill -0 $recorder; do sleep 0.05; done
         \"$0\" timeline h.db --csv > ../before || exit 8
         rm ballast
         until grep -q 'snapshots are written again' ../errors || ! kill -0 $recorder; do sleep 0.05; done
         kill $recorder; wait $recorder || exit 7
         \"$0\" timeline h.db --csv > ../after || exit 6
         \"$0\" report h.db --json > /dev/null || exit 5
         kill $run; wait $run; exit 0",
        full = full.display(),
        python = python().display(),
        script = script.display(),
        scratch = scratch.path("").display(),
    );
    let mut unshare = clean(installed("unshare", "util-linux"));
    let ramson = ramson(&scratch);
    unshare.args(["--mount", "--map-root-user", "sh", "-c", &script]).arg(ramson.get_program());
    unshare.envs(ramson.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let outcome = finish(&mut unshare);
    let errors = fs::read_to_string(scratch.path("errors"));
    assert_eq!(outcome.status, 0, "{outcome:?}\n{errors:?}");
    let rows = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(scratch.path(name)).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    let (before, after) = (rows("before"), rows("after"));
    assert!(before.len() > 2 && after.len() > before.len(), "{} {}", before.len(), after.len());
    assert_eq!(before, after[..before.len()]);
}
