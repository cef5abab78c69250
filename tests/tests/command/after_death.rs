//! Remains of a process that died, and what `ramson` says of them. The tests need root and a memory control group, as the machine of the
//! other tests has them; without it these tests fail, rather than being skipped.

use ramson_format::state;
use ramson_tests::cgroups::Group;
use ramson_tests::deaths::*;
use ramson_tests::servers::*;
use ramson_tests::{library, preload, profiles_in, program, program_with, read};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

const MIB: f64 = 1048576.0;
const LIMIT_MIB: u64 = 64;

/// A death by the OOM killer, told alike by list and report.
#[track_caller]
fn assert_told_as_oom(scratch: &Scratch) {
    let found = entry(scratch, "deaths");
    assert_eq!(found.text("state"), "SIGKILL");
    assert_eq!(found.text("end.cause"), "OOM killer");
    assert_eq!(found.number("end.signal"), 9.0);
    let rss = found.number("end.last_rss") / MIB;
    assert!((0.5 * LIMIT_MIB as f64..1.2 * LIMIT_MIB as f64).contains(&rss), "{found:?}");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as f64;
    let ago = (now - found.number("end.time_unix_ns")) / 1e9;
    assert!((-5.0..600.0).contains(&ago), "{ago} s ago: {found:?}");
    let table = say(scratch, &["list", "-n", "0"]);
    let line = table.lines().find(|line| line.contains(found.text("profile"))).unwrap();
    assert!(line.contains("SIGKILL") && line.contains("OOM killer"), "{table}");
    let report = say(scratch, &["report", found.text("profile")]);
    assert!(report.contains("died by SIGKILL of the OOM killer ("), "{report}");
    let first_row = report.lines().find(|line| line.contains("site_")).unwrap();
    assert!(first_row.contains("site_grown"), "{report}");
}

#[test]
fn oom_is_told_by_cgroup_counter() {
    let scratch = Scratch::new();
    let group = Group::new(LIMIT_MIB);
    let inner = format!("{} {} -- {}", ramson_program().display(), RUN.join(" "), deaths("grow"));
    let mut command = ramson(&scratch);
    // The environment of `ramson`, for the one inside.
    let mut shell = clean("sh");
    shell.arg("-c").arg(group.script(&inner));
    for (name, value) in command.args([""]).get_envs() {
        value.map(|value| shell.env(name, value));
    }
    let outcome = finish(&mut shell);
    assert_eq!(outcome.status, 137, "{outcome:?}");
    assert_last_words(&outcome, "SIGKILL of the OOM killer: RSS ", &["site_grown", "site_held"]);
    assert!(outcome.remarks[0].contains("limit 64.0 MiB"), "{outcome:?}");
    assert_told_as_oom(&scratch);
    let found = entry(&scratch, "deaths");
    assert!(found.number("end.cgroup_oom_kills") >= 1.0, "{found:?}");
    let name = group.0.file_name().unwrap().to_str().unwrap();
    assert!(found.text("end.cgroup").ends_with(name), "{found:?}");
}

#[test]
fn oom_in_other_cgroup_is_told() {
    let scratch = Scratch::new();
    let group = Group::new(LIMIT_MIB);
    let mut command = ramson(&scratch);
    command.args(RUN).args(["--", "sh", "-c", &group.script(&deaths("grow"))]);
    let outcome = finish(&mut command);
    assert_eq!(outcome.status, 137, "{outcome:?}");
    assert_last_words(&outcome, "SIGKILL of the OOM killer: RSS ", &["site_grown", "site_held"]);
    assert_told_as_oom(&scratch);
}

#[test]
fn oom_is_told_by_kernel_log() {
    let scratch = Scratch::new();
    let group = Group::new(LIMIT_MIB);
    let preloaded = format!("env LD_PRELOAD={} {}", library().display(), deaths("grow"));
    let mut command = clean("sh");
    command.env("RAMSON_INTERVAL", "64K").env("RAMSON_MAX_OVERHEAD", "off");
    command.env("RAMSON_DIR", scratch.open_directory("profiles"));
    let outcome = finish(command.arg("-c").arg(group.script(&preloaded)));
    assert_eq!(outcome.status, 137, "{outcome:?}");
    assert_told_as_oom(&scratch);
    assert_eq!(entry(&scratch, "deaths").at("end.kernel_log"), &Json::Word("true".into()));
}

#[test]
fn death_names_signal_or_status() {
    let scratch = Scratch::new();
    for (way, status, shown, cause) in [
        ("kill", 137, "SIGKILL", "unknown"),
        ("segv", 139, "SIGSEGV", "unknown"),
        ("abort", 134, "SIGABRT", "unknown"),
        ("_exit", 3, "exited 3", ""),
        // Which libramson does not know, and `run` does.
        ("exit", 7, "exited 7", ""),
        // The program coped with the failure.
        ("huge-exit", 5, "exited 5", ""),
    ] {
        let scratch = Scratch::new();
        let outcome = run(&scratch, &deaths(way));
        assert_eq!(outcome.status, status, "{outcome:?}");
        assert_eq!(outcome.remarks.len(), 1, "{outcome:?}");
        let found = entry(&scratch, "deaths");
        assert_eq!((found.text("state"), found.text("end.cause")), (shown, cause), "{way}");
        assert!(say(&scratch, &["list", "-n", "0"]).contains(shown), "{way}");
        let snapshot = read(Path::new(found.text("profile"))).unwrap();
        assert_eq!(snapshot.defects, [], "{way}");
        assert!(say(&scratch, &["report", found.text("profile")]).contains("site_held"), "{way}");
    }
    // By hand, and where nobody tells: no guess.
    let mut command = clean(program("deaths.c"));
    preload(command.arg("kill"), "64K").env("RAMSON_DIR", scratch.open_directory("profiles"));
    let mut child = command.spawn().unwrap();
    let pid = child.id().to_string();
    let is_dead = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ");
    wait_until("it is dead", is_dead);
    // As in a container without init: nobody has waited for it yet.
    let unreaped = say(&scratch, &["report", &pid]);
    child.wait().unwrap();
    let found = entry(&scratch, "deaths");
    assert_eq!((found.text("state"), found.at("end")), ("died", &Json::Word("null".into())));
    let report = say(&scratch, &["report", found.text("profile")]);
    assert!(report.contains("died; cause unknown"), "{report}");
    assert_eq!(report, unreaped);
}

#[test]
fn exec_is_not_a_death() {
    let scratch = Scratch::new();
    let output = scratch.path("out");
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "1", "-o", output.to_str().unwrap(), "--"]);
    // The shell starts another process, in which env starts cat.
    command.args(["sh", "-c", "env A=1 cat; true"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    let of_exec = || {
        let files = fs::read_dir(output.parent().unwrap()).unwrap().flatten();
        files.map(|file| file.path()).find(|path| path.to_string_lossy().ends_with(".2"))
    };
    wait_until("cat is recorded", || of_exec().is_some());
    let of_env = of_exec().unwrap().with_extension("");
    let way = || {
        let report = say(&scratch, &["report", of_env.to_str().unwrap(), "--json"]);
        Json::parse(&report).text("end.way").to_owned()
    };
    wait_until("cat runs", || {
        let pid = of_env.extension().unwrap().to_str().unwrap();
        fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() == "cat\n"
    });
    assert_eq!(way(), "replaced");
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
    assert_eq!(way(), "replaced");
}

#[test]
fn ages_are_taken_at_death() {
    let scratch = Scratch::new();
    assert_eq!(run(&scratch, &deaths("kill-later")).status, 137);
    let profile = entry(&scratch, "deaths").text("profile").to_owned();
    let report = Json::parse(&say(&scratch, &["report", &profile, "--json"]));
    assert!(report.number("ages.oldest_ns") > 1.9e9, "{report:?}");
}

#[test]
fn run_names_replaced_and_exited_images() {
    let scratch = Scratch::new();
    let output = scratch.path("out.ramson");
    let exits = program("exits.c");
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "1", "-o"]).arg(&output).arg("--").arg(&exits).arg("exec");
    let outcome = finish(&mut command);
    assert_eq!(outcome.status, 7);
    let text = outcome.remarks.concat();
    assert!(text.contains(") replaced, ") && text.contains(") exited 7, "), "{text}");
}

#[test]
fn disk_profile_yields_memory_to_program() {
    // 3 MiB of small blocks, 16 of large ones, more than 6 of profile.
    const LIMIT_MIB: u64 = 22;
    let scratch = Scratch::new();
    let group = Group::new(LIMIT_MIB);
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "1", "--max-overhead", "off", "--", "sh", "-c"]);
    let outcome = finish(command.arg(group.script(&deaths("small-then-large 100000 165"))));
    assert_eq!(outcome.status, 0, "{outcome:?}");
    let found = entry(&scratch, "deaths");
    let snapshot = read(Path::new(found.text("profile"))).unwrap();
    assert_eq!(snapshot.header.state, state::EXITED);
    assert!(snapshot.live.len() >= 100_165, "{}", snapshot.live.len());
    let on_disk = fs::metadata(found.text("profile")).unwrap().blocks() * 512;
    let heap = 100_000 * 32 + 165 * 100_000;
    assert!(on_disk + heap > LIMIT_MIB << 20, "{on_disk} and {heap} would fit");
}

#[test]
fn names_survive_binary_replacement() {
    let scratch = Scratch::new();
    let name = format!("d{}", std::process::id());
    let other = program_with("real/names.cc", "names", &[]);
    let replace = |path: &Path| {
        fs::remove_file(path).unwrap();
        copy(&other, path);
    };
    let path = scratch.path(&name);
    copy(&program("deaths.c"), &path);
    assert_eq!(run(&scratch, &format!("{} kill", path.display())).status, 137);
    replace(&path);
    let elsewhere = Scratch::new();
    let report = |source: &str| {
        // Without the answers that `run` has put into the cache.
        let mut command = ramson(&scratch);
        command.env("XDG_CACHE_HOME", elsewhere.open_directory("cache"));
        finish(command.args(["report", source])).good().text()
    };
    let kept = report(entry(&scratch, &name).text("profile"));
    assert!(kept.contains("site_held") && !kept.contains("names are missing"), "{kept}");

    let name = format!("e{}", std::process::id());
    let path = scratch.path(&name);
    copy(&program("deaths.c"), &path);
    let mut command = clean(&path);
    preload(command.arg("kill"), "64K").env("RAMSON_DIR", scratch.open_directory("profiles"));
    assert_eq!(finish(&mut command).status, 137);
    replace(&path);
    let lost = report(entry(&scratch, &name).text("profile"));
    assert!(!lost.contains("site_held"), "{lost}");
    let said = format!("names are missing: {}", path.display());
    assert!(lost.contains(&said), "{lost}");
}

/// Makes a file as if nothing had happened to it for so long.
fn make_old(path: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 86_400);
    File::open(path).unwrap().set_modified(then).unwrap();
}

/// Profiles of processes that were killed, oldest first.
fn remains(scratch: &Scratch, count: usize) -> Vec<PathBuf> {
    let directory = scratch.open_directory("profiles");
    let mut all = Vec::new();
    for _ in 0..count {
        let mut command = clean(program("deaths.c"));
        preload(command.arg("kill"), "64K").env("RAMSON_DIR", &directory);
        finish(&mut command);
        let new = profiles_in(&directory).into_iter().find(|path| !all.contains(path));
        all.push(new.expect("it left a profile"));
    }
    all
}

/// A program that waits, profiled by hand.
fn waiting(scratch: &Scratch) -> (Running, PathBuf) {
    let directory = scratch.open_directory("profiles");
    let before = profiles_in(&directory);
    let mut command = clean(program("deaths.c"));
    preload(command.arg("wait"), "64K").env("RAMSON_DIR", &directory);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running(piped.spawn().unwrap());
    let mut ready = [0; 6];
    std::io::Read::read_exact(running.0.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let new = profiles_in(&directory).into_iter().find(|path| !before.contains(path));
    (running, new.expect("it is profiled"))
}

/// Kills a process with SIGKILL, so that its profile stays.
fn kill(mut running: Running) {
    running.signal("KILL");
    running.wait();
}

#[test]
fn pruning_removes_only_old_own_profiles() {
    let scratch = Scratch::new();
    let [old, young, foreign] = remains(&scratch, 3).try_into().unwrap();
    let (running, its) = waiting(&scratch);
    let directory = scratch.path("profiles");
    let named = directory.join("ticket-17.ramson");
    fs::copy(&old, &named).unwrap();
    let no_profile = scratch.file("profiles/123-456.ramson", "precious");
    let emptied = scratch.file("profiles/125-456.ramson", "");
    let target = scratch.file("target", fs::read(&old).unwrap());
    let link = directory.join("124-456.ramson");
    symlink(&target, &link).unwrap();
    std::os::unix::fs::chown(&foreign, Some(65534), None).unwrap();
    for path in [&old, &its, &foreign, &named, &no_profile, &target, &emptied] {
        make_old(path, 31);
    }
    make_old(&young, 29);
    // Nothing is removed unless asked for.
    say(&scratch, &["list", "-n", "0"]);
    assert!(old.exists());
    say(&scratch, &["list", "--prune", "--max-age", "off"]);
    assert!(old.exists());
    say(&scratch, &["list", "--prune"]);
    assert!(!old.exists() && !emptied.exists());
    for path in [&young, &its, &foreign, &named, &no_profile, &target, &link] {
        assert!(path.symlink_metadata().is_ok(), "{}", path.display());
    }
    kill(running);
    make_old(&its, 31);
    // `ramson run` does it too.
    let mut command = ramson(&scratch);
    finish(command.env("RAMSON_PRUNE_AGE", "28d").args(["run", "--", "true"])).good();
    assert!(!its.exists() && !young.exists() && named.exists() && no_profile.exists());
}

#[test]
fn emptied_profile_does_not_stop_server() {
    let scratch = Scratch::new();
    let socket = scratch.path("s");
    let client = installed("redis-cli", "redis-tools");
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "64K", "--"]).arg(installed("redis-server", "redis-server"));
    command.args(["--port", "0", "--save", "", "--dir", "/tmp", "--unixsocket"]).arg(&socket);
    let log = scratch.path("log");
    let mut server = Running::start(&mut command, &log, || accepts(&socket));
    let ask = |words: &str| {
        let mut command = clean(&client);
        finish(command.arg("-s").arg(&socket).args(words.split(' '))).good().text()
    };
    ask("DEBUG POPULATE 20000 key 1000");
    let [path] = profiles_in(&scratch.path("profiles")).try_into().unwrap();
    File::create(&path).unwrap();
    ask("DEBUG POPULATE 20000 other 1000");
    ask("FLUSHALL");
    assert_eq!(ask("PING").trim(), "PONG");
    finish(clean(&client).arg("-s").arg(&socket).args(["SHUTDOWN", "NOSAVE"]));
    assert!(server.wait().success());
    let said = fs::read_to_string(&log).unwrap();
    let remark = format!("ramson: {}: the file was emptied", path.display());
    assert!(said.contains(&remark), "{said}");
}

#[test]
fn pruning_by_size_keeps_newest() {
    let scratch = Scratch::new();
    let all = remains(&scratch, 4);
    all.iter().zip([4, 3, 2, 1]).for_each(|(path, days)| make_old(path, days));
    let bytes = |path: &PathBuf| fs::metadata(path).unwrap().blocks() * 512;
    let two = bytes(&all[2]) + bytes(&all[3]);
    say(&scratch, &["list", "--prune", "--max-total", &two.to_string()]);
    let left: Vec<bool> = all.iter().map(|path| path.exists()).collect();
    assert_eq!(left, [false, false, false, true]);
    let sum = profiles_in(&scratch.path("profiles")).into_iter().find(|path| !all.contains(path));
    let sum = sum.expect("there is a sum");
    assert_eq!(read(&sum).unwrap().header.processes, 3);
    assert!(bytes(&sum) + bytes(&all[3]) <= two);
}

#[test]
fn hidden_process_keeps_its_profile() {
    let scratch = Scratch::new();
    let (running, its) = waiting(&scratch);
    make_old(&its, 31);
    // Its own /proc shows nobody of ours.
    let own = ramson(&scratch);
    let mut command = Command::new(installed("unshare", "util-linux"));
    command.args(["--pid", "--fork", "--mount-proc", "--"]).arg(own.get_program());
    command.args(["list", "--prune"]);
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    finish(&mut command).good();
    assert!(its.exists(), "it still runs");
    kill(running);
    make_old(&its, 31);
    finish(&mut command).good();
    assert!(!its.exists());
}
