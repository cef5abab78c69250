//! One SRC that names several processes: by their name, their parent, their unit and their control group.

use ramson_tests::cgroups::Group;
use ramson_tests::keeping::Keeping;
use ramson_tests::servers::*;
use ramson_tests::several::*;
use ramson_tests::terminal::Terminal;
use std::fs;
use std::time::Instant;

#[test]
fn name_sums_servers_on_every_surface() {
    let redises = Redises::start();
    let scratch = &redises.scratch;
    let source = redises.source.as_str();
    let report = redises.json(&["report", source, "-n", "0", "--view", "functions"]);
    assert_eq!(pids(&report), redises.profiled);
    assert_eq!(report.number("unprofiled"), 1.0);
    let paths = ["whole.value", "live.value", "live_requested.value", "rss.bytes"];
    for path in paths.into_iter().chain(["rss.terms.files.value"]) {
        assert_summed(&report, path);
    }
    let first = &report.list("processes")[0];
    assert!(first.number("rss.bytes") >= report.list("processes")[1].number("rss.bytes"));
    assert!(first.number("age_ns") > 0.0 && !first.list("command_line").is_empty());
    let live = report.number("live.value");
    assert!(live > 25_000_000.0 * 0.9, "{live}");

    // By their IDs, once more, and by their parent's they are the same.
    let [one, other] = [redises.profiled[0], redises.profiled[1]].map(|pid| pid.to_string());
    let by_id = redises.json(&["report", &one, &other, &one, "-n", "0", "--view", "functions"]);
    assert_eq!(by_id.at("whole"), report.at("whole"));
    assert_eq!(by_id.at("rows"), report.at("rows"));
    assert_eq!(by_id.number("unprofiled"), 0.0);

    // A name alone means the same, where there is no such file.
    let bare = redises.json(&[
        "report",
        source.trim_start_matches("name:"),
        "-n",
        "0",
        "--view",
        "functions",
    ]);
    assert_eq!(bare.at("rows"), report.at("rows"));

    // One of them by itself is as the same one in the sum.
    let alone = redises.json(&["report", &one, "-n", "0", "--view", "functions"]);
    let is_it = |process: &&Json| process.number("pid") == alone.number("pid");
    let in_sum = by_id.list("processes").iter().find(is_it).unwrap();
    assert_eq!((alone.at("rows"), alone.at("whole")), (in_sum.at("rows"), in_sum.at("whole")));

    let collapsed = say(scratch, &["export", source, "-f", "collapsed"]).good();
    let exported: f64 = collapsed
        .text()
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    let requested = report.number("live_requested.value");
    assert!((exported / requested - 1.0).abs() < 1e-3, "{exported} of {requested}");
    assert!(collapsed.remarks[0].contains("1 process without a profile"), "{collapsed:?}");

    let diff = redises.json(&["diff", &one, source]);
    assert_eq!(diff.number("new_total.value"), live);
    assert_eq!(diff.number("old_total.value"), alone.number("whole.value"));
    assert_eq!(diff.at("is_same_process"), &Json::Word("false".into()));
    let again = redises.json(&["diff", &one, &one]);
    assert_eq!(again.at("is_same_process"), &Json::Word("true".into()));

    let top = redises.json(&["top", source, "--once"]);
    assert_eq!(pids(&top), redises.profiled);
}

#[test]
fn several_processes_get_rows_or_blocks() {
    let redises = Redises::start();
    let scratch = &redises.scratch;
    let source = redises.source.as_str();
    for command in ["report", "leaks"] {
        let text = say(scratch, &[command, source]).good().text();
        // The first line of leaks is the answer; the heading follows.
        let heading = text.lines().nth(usize::from(command == "leaks")).unwrap();
        assert!(
            heading.contains(" together (Pss); ") && text.contains("the sum of their RSS"),
            "{text}"
        );
        assert!(text.contains("1 more selected process has no profile"), "{text}");
        let rows = text.lines().skip_while(|line| !line.ends_with("command")).skip(1);
        let mut first: Vec<u32> = rows
            .take(2)
            .map(|row| row.split_whitespace().next().unwrap().parse().unwrap())
            .collect();
        first.sort_unstable();
        assert_eq!(first, redises.profiled, "{text}");
        let each = say(scratch, &[command, source, "--each"]).good().text();
        for pid in &redises.profiled {
            assert!(each.contains(&format!("(pid {pid}), recorded for ")), "{each}");
        }
    }
    let health = say(scratch, &["report", source, "--view", "health"]).good().text();
    assert_eq!(health.matches("\nown memory ").count(), 2, "{health}");
    let refused = say(scratch, &["report", source, "--focus", "no_such_function"]);
    assert_eq!(refused.status, 1, "{refused:?}");
}

#[test]
fn explain_and_trim_include_unprofiled() {
    let redises = Redises::start();
    let scratch = &redises.scratch;
    let source = redises.source.as_str();
    let mut all = [redises.profiled.as_slice(), &[redises.plain]].concat();
    all.sort_unstable();
    let explain = redises.json(&["explain", source]);
    assert_eq!(pids(&explain), all);
    assert_summed(&explain, "rss.bytes");
    assert_summed(&explain, "rss.terms.code_and_data.value");
    let text = say(scratch, &["explain", source]).good().text();
    assert!(text.contains("\n       sum "), "{text}");

    let trim = redises.json(&["trim", "--force", source]);
    assert_eq!(pids(&trim), all);
    for process in trim.list("processes") {
        assert!(process.number("rss_after") > 0.0, "{trim:?}");
    }
}

#[test]
fn largest_saving_comes_first() {
    let scratch = Scratch::new();
    // The second has more resident, of which a trim returns less.
    let processes =
        ["survivors", "bins"].map(|cause| Keeping::start(&scratch, &[cause, "48"], |_| {}));
    let [most, less] = processes.each_ref().map(Keeping::pid);
    let explain = json(&scratch, &["explain", &most.to_string(), &less.to_string()]);
    assert_eq!(explain.list("processes")[0].number("pid"), f64::from(less), "{explain:?}");
    let advice = explain.list("advice");
    // The same for both is said once.
    let trims = advice.iter().filter(|advice| advice.text("cause") == "trim");
    let [trim] = trims.collect::<Vec<_>>()[..] else { panic!("{explain:?}") };
    assert_eq!(pids(trim), [most.min(less), most.max(less)]);
    assert!(trim.text("action").contains(&format!("ramson trim {most} {less}")), "{trim:?}");
    let of_each = explain.list("processes").iter().map(|process| {
        let own = process.list("advice").iter().find(|advice| advice.text("cause") == "trim");
        own.unwrap().number("saving.bytes")
    });
    assert_eq!(trim.number("saving.bytes"), of_each.sum::<f64>());
    let saving = advice.iter().filter(|advice| !matches!(advice.at("saving"), Json::Word(_)));
    let savings = saving.map(|advice| advice.number("saving.bytes"));
    assert!(savings.is_sorted_by(|a, b| a >= b), "{explain:?}");
}

#[test]
fn ambiguous_source_lists_candidates() {
    let redises = Redises::start();
    let scratch = &redises.scratch;
    let source = redises.source.as_str();
    let name = source.trim_start_matches("name:");
    for command in [vec!["mark", source, "now"], vec!["symbolize", source]] {
        let refused = say(scratch, &command);
        assert_eq!((refused.status, refused.remarks.len()), (2, 1), "{refused:?}");
        for pid in &redises.profiled {
            let mut rows = refused.stderr.lines();
            let row = rows.find(|row| row.trim_start().starts_with(&format!("{pid} ")));
            let row = row.unwrap_or_else(|| panic!("{pid} in {refused:?}"));
            assert!(row.contains(" MiB ") && row.contains(name), "{row}");
        }
    }
    let refused = say(scratch, &["explain", "--ask", source]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.contains(&redises.plain.to_string()), "{refused:?}");
}

#[test]
fn top_lists_single_member_tree() {
    let redises = Redises::start();
    let mut top = ramson(&redises.scratch);
    top.args(["top", &format!("tree:{}", redises.profiled[0])]);
    let mut terminal = Terminal::start(&top, 80, 24);
    terminal.wait_for(&format!("(pid {})", redises.profiled[0]));
    terminal.press("\x1b");
    terminal.wait_for("Enter opens");
    terminal.press("q");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn nginx_tree_has_master_and_workers() {
    let nginx = Nginx::start(shell);
    let report = json(&nginx.scratch, &["report", &nginx.tree(), "-n", "0"]);
    let members = pids(&report);
    assert!(members.contains(&nginx.master.0.id()));
    assert_summed(&report, "whole.value");
    let workers = report.list("processes").iter().filter(|process| {
        matches!(&process.list("command_line")[0], Json::Text(line) if line.contains("worker process"))
    });
    assert_eq!(workers.count(), 2, "{report:?}");
    let none = say(&nginx.scratch, &["report", "tree:4194305"]);
    assert_eq!(none.status, 5, "{none:?}");
}

#[test]
fn tree_recorder_follows_new_workers() {
    let nginx = Nginx::start(shell);
    let history = nginx.scratch.path("history.db");
    let mut record = ramson(&nginx.scratch);
    record.args(["history", &nginx.tree(), "--every", "100ms", "-o"]).arg(&history);
    let mut recorder =
        Running::start(&mut record, &nginx.scratch.path("recorder"), || history.exists());
    let before = nginx.members(&nginx.tree());
    let recorded = || {
        let source = format!("{}@-0s", nginx.tree());
        let mut report = ramson(&nginx.scratch);
        report.args(["report", &source, "--json"]).env("RAMSON_HISTORY", &history);
        let outcome = finish(&mut report);
        if outcome.status == 0 { outcome.text() } else { String::new() }
    };
    let has_all = |wanted: &[u32]| {
        let text = recorded();
        wanted.iter().all(|pid| text.contains(&format!("\"pid\":{pid},")))
    };
    wait_until("all three are recorded", || has_all(&before));
    nginx.reload();
    let is_new = |pid: &&u32| !before.contains(pid);
    wait_until("new workers have profiles", || {
        nginx.members(&nginx.tree()).iter().filter(is_new).count() == 2
    });
    let after = nginx.members(&nginx.tree());
    let new: Vec<u32> = after.iter().filter(is_new).copied().collect();
    wait_until("they are recorded", || has_all(&new));
    recorder.signal("INT");
    assert!(recorder.wait().success());
    let mut timeline = ramson(&nginx.scratch);
    timeline.args(["timeline", &nginx.tree()]).env("RAMSON_HISTORY", &history);
    let refused = finish(&mut timeline);
    assert_eq!((refused.status, refused.remarks.len()), (2, 1), "{refused:?}");
    assert!(refused.remarks[0].contains("Pass one of these process IDs"), "{refused:?}");
}

#[test]
fn unit_is_found_by_cgroup() {
    let name = unique("ramson-test-");
    let group = Group::of_service(&name);
    let child = group.0.join("child");
    fs::create_dir(&child).unwrap();
    let nginx = Nginx::start(|script| {
        let mut command = clean("sh");
        command.arg("-c").arg(group.script(&format!("sh {}", script.display())));
        command
    });
    let members = nginx.members(&nginx.tree());
    // systemd lets a service make groups of its own.
    fs::write(child.join("cgroup.procs"), members[2].to_string()).unwrap();
    for source in [
        format!("unit:{name}.service"),
        format!("unit:{name}"),
        format!("cgroup:/system.slice/{name}.service"),
        format!("cgroup:{}", group.0.display()),
        format!("cgroup:{}/./../{name}.service", group.0.display()),
    ] {
        assert_eq!(nginx.members(&source), members, "{source}");
    }
    let below = say(&nginx.scratch, &["report", &format!("cgroup:{}", child.display()), "--json"]);
    assert_eq!(Json::parse(&below.good().text()).number("pid"), f64::from(members[2]));
    for (source, part) in [
        (format!("unit:no-{name}.service"), "no process of that unit"),
        (format!("cgroup:/no/{name}"), "no process in that group"),
    ] {
        let refused = say(&nginx.scratch, &["report", &source]);
        assert_eq!((refused.status, refused.remarks.len()), (5, 1), "{refused:?}");
        assert!(refused.remarks[0].contains(part), "{refused:?}");
    }
    drop(nginx);
    wait_until("the child group is empty", || fs::remove_dir(&child).is_ok());
}

#[test]
fn postmaster_tree_is_all_of_postgresql() {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let bin =
        versions.map(|entry| entry.path().join("bin")).find(|bin| bin.join("initdb").exists());
    let bin = bin.expect("PostgreSQL is missing: apt-get install postgresql postgresql-contrib");
    let scratch = Scratch::new();
    let home = scratch.open_directory("postgres");
    let data = home.join("data");
    let mut initdb = clean(bin.join("initdb"));
    initdb.arg("-D").arg(&data).args(["-U", "postgres", "--no-sync", "-A", "trust"]);
    finish(&mut as_user("postgres", &scratch, &initdb)).good();
    let way = Way { interval: Some("1K"), allocator: None, scratch: &scratch };
    let mut server = way.command(bin.join("postgres"));
    server.arg("-D").arg(&data).arg("-k").arg(&home).args(["-c", "listen_addresses="]);
    let client = |query: &str| {
        let mut client = clean(bin.join("psql"));
        client.arg("-h").arg(&home).args(["-U", "postgres", "-d", "postgres", "-c", query]);
        client
    };
    let is_ready = || finish(&mut client("select 1")).status == 0;
    let log = scratch.path("log");
    let mut server = Running::start(&mut as_user("postgres", &scratch, &server), &log, is_ready);
    // A backend that stays.
    let busy = "select count(*), pg_sleep(600) from (select md5(n::text) from generate_series(1, 1000) n) s";
    let sleeper = Running::start(&mut client(busy), &log, || true);

    let postmaster = fs::read_to_string(data.join("postmaster.pid")).unwrap();
    let postmaster = postmaster.lines().next().unwrap().to_owned();
    let tree = format!("tree:{postmaster}");
    let mut report = Json::Word("null".into());
    let start = Instant::now();
    let is_backend = |process: &Json| matches!(process.list("command_line").first(), Some(Json::Text(line)) if line.contains("SELECT"));
    while !matches!(&report, Json::Object(_)) || !report.list("processes").iter().any(is_backend) {
        assert!(start.elapsed() < MOST_TIME, "no backend in {report:?}");
        report = json(&scratch, &["report", &tree, "-n", "0"]);
    }
    for path in ["whole.value", "live.value", "rss.bytes", "rss.terms.shared_memory.value"] {
        assert_summed(&report, path);
    }
    let members = pids(&report);
    assert!(members.contains(&postmaster.parse().unwrap()) && members.len() >= 4, "{members:?}");
    // The program that `ramson run` started is the root of the tree; `ramson run` itself is not in the tree.
    let explain = json(&scratch, &["explain", &tree]);
    assert!(members.iter().all(|pid| pids(&explain).contains(pid)), "{members:?}");
    assert_summed(&explain, "rss.bytes");

    drop(sleeper);
    let mut stop = clean(bin.join("pg_ctl"));
    stop.arg("stop").arg("-D").arg(&data).args(["-m", "immediate", "-s"]);
    finish(&mut as_user("postgres", &scratch, &stop)).good();
    server.wait();
}
