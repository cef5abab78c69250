//! `make fleet`: the agent with a real ClickHouse server, killed and started again on both sides.

mod clickhouse;

use clickhouse::ClickHouse;
use ramson_format::Kind;
use ramson_reader::Snapshot;
use ramson_tests::random::Random;
use ramson_tests::servers::*;
use ramson_tests::serving::Serving;
use ramson_tests::several::{json as asked, unique};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, UNIX_EPOCH};

/// Keeps a part of what it allocates, frees the rest sooner or later, and holds still while the file `hold` is there.
const PROGRAM: &str = "
import os, random, sys, time
random.seed(5)
kept, pool = [], []
print('ready', flush=True)
while True:
    if os.path.exists(sys.argv[1]):
        open(sys.argv[1] + '.held', 'w').close()
        while os.path.exists(sys.argv[1]):
            time.sleep(0.01)
    for _ in range(2000):
        block = bytes(random.choice((600, 5000, 40000, 300000)))
        if random.random() < 0.002:
            kept.append(block)
        elif random.random() < 0.05:
            pool.append(block)
            if len(pool) > 2000:
                pool[random.randrange(2000)] = pool.pop()
    time.sleep(0.01)
";

struct Fleet {
    scratch: Scratch,
    server: ClickHouse,
    /// Name of the program, which no other one has: an agent of root finds those of all tests.
    service: String,
}

impl Fleet {
    fn new() -> Self {
        let scratch = Scratch::new();
        let server = ClickHouse::start(&scratch);
        server.make_tables();
        Self { scratch, server, service: unique("shop") }
    }

    fn config(&self) -> PathBuf {
        let state = self.scratch.path("agent");
        let text = format!(
            "state = \"{}\"\nevery_seconds = 1\nhost = \"web-1\"\n[clickhouse]\nurl = \"http://127.0.0.1:{}\"\n\
             [[attach]]\nmatch = \"attached-{}\"\ninterval = \"1\"\n",
            state.display(),
            self.server.port,
            self.service
        );
        self.scratch.file("agent.toml", text)
    }

    /// Starts the program under ramson.
    fn program(&self) -> Running {
        let script = self.scratch.file("service.py", PROGRAM);
        let log = self.scratch.path("program.log");
        let program = self.scratch.path(&self.service);
        symlink(python(), &program).unwrap();
        let mut command = ramson(&self.scratch);
        command.args(["run", "--interval", "64K", "--"]).arg(program).arg(script).arg(self.hold());
        let said = log.clone();
        Running::start(&mut command, &log, || {
            fs::read_to_string(&said).is_ok_and(|said| said.contains("ready"))
        })
    }

    /// What the program has recorded.
    fn profile(&self) -> Snapshot {
        let is_its = |profile: &Snapshot| self.service.starts_with(&profile.header.comm);
        profiles(&self.scratch).into_iter().find(is_its).unwrap()
    }

    fn hold(&self) -> PathBuf {
        self.scratch.path("hold")
    }

    /// Makes the program hold still.
    fn hold_still(&self) {
        fs::write(self.hold(), "").unwrap();
        wait_until("the program holds still", || self.scratch.path("hold.held").exists());
    }

    fn agent(&self) -> Running {
        let mut command = ramson(&self.scratch);
        command.args(["agent", "--config"]).arg(self.config());
        // It is killed at any moment, also while it begins.
        Running::start(&mut command, &self.scratch.path("agent.log"), || true)
    }

    fn agent_once(&self) -> Outcome {
        finish(ramson(&self.scratch).args(["agent", "--once", "--config"]).arg(self.config()))
    }

    fn fleet(&self, words: &[&str]) -> Outcome {
        let mut command = ramson(&self.scratch);
        finish(command.arg("fleet").args(words).arg("--config").arg(self.config()))
    }

    /// The rows of an answer.
    fn question(&self, words: &[&str]) -> Vec<Value> {
        let text = self.fleet(&[words, &["--json"]].concat()).good().text();
        let answer: Value = serde_json::from_str(&text).unwrap();
        answer["rows"].as_array().unwrap().clone()
    }

    /// Asks for something of the program; `query` ends with WHERE or AND.
    fn ask(&self, query: &str) -> String {
        let answer = self.server.ask(&format!("SELECT {query} service = '{}'", self.service));
        answer.trim().to_owned()
    }

    fn number(&self, query: &str) -> f64 {
        self.ask(query).parse().unwrap()
    }

    /// Live bytes of the last day, and samples that were allocated, from the rows and from the days of stacks.
    fn sums(&self) -> [f64; 4] {
        [
            "round(sum(n * ramson_bytes(size, interval) * ramson_sign(age))) FROM heap WHERE toDate(minute) = (SELECT max(toDate(minute)) FROM heap) AND",
            "sumIf(n, age = 1) FROM heap WHERE",
            "round(sum(state + allocated - freed)) FROM stack_days WHERE day = (SELECT max(day) FROM stack_days) AND",
            "sum(samples) FROM stack_days WHERE",
        ]
        .map(|query| self.number(query))
    }

    /// The same as `ramson report` has them.
    fn reported(&self) -> [f64; 2] {
        let report = asked(&self.scratch, &["report", &format!("name:{}", self.service)]);
        let profile = self.profile();
        let of_heap = profile.stacks.iter().filter(|stack| stack.kind() == Kind::Heap);
        let samples = of_heap.map(|stack| stack.sampled_alloc_objects).sum::<u64>();
        [report.number("live_requested.value"), samples as f64]
    }

    /// Fails unless the server has what the profile has.
    fn assert_equal(&self) {
        let [live, samples] = self.reported();
        assert!(samples > 1000.0, "{samples}");
        assert_eq!(self.sums(), [live, samples, live, samples]);
    }
}

#[test]
fn fleet_has_what_reports_have() {
    let fleet = Fleet::new();
    let agent = fleet.agent();
    let attached = format!("attached-{}", fleet.service);
    let plain = fleet.scratch.path(&attached);
    symlink(python(), &plain).unwrap();
    let log = fleet.scratch.path("plain.log");
    let script = "import time\nkept = []\nprint('ready', flush=True)\nwhile True: kept.append(bytes(5000)); time.sleep(0.1)";
    let mut plain = clean(plain);
    plain.args(["-c", script]).env("PYTHONMALLOC", "malloc");
    let _plain = Running::start(&mut plain, &log, || {
        fs::read_to_string(&log).is_ok_and(|it| it.contains("ready"))
    });
    let _program = fleet.program();
    wait_until("samples are in the database", || {
        fleet.number("sumIf(n, age > 1) FROM heap WHERE") > 500.0
    });
    wait_until("the agent attaches by its rule", || {
        let rows = format!("SELECT sum(n) FROM heap WHERE service = '{attached}' AND age = 1");
        fleet.server.ask(&rows).trim().parse::<u64>().unwrap() > 0
    });
    fleet.hold_still();
    let [live, _] = fleet.reported();
    wait_until("all is sent", || fleet.sums()[0] == live);
    fleet.assert_equal();
    let is_of_it = |row: &Value| row["service"] == *fleet.service;
    let services = fleet.question(&["services"]);
    let of_it = services.iter().find(|row| is_of_it(row)).unwrap();
    assert_eq!((of_it["live_bytes"].as_f64(), &of_it["running"]), (Some(live), &json!(1)));
    let grown: Vec<Value> = fleet.question(&["grew"]).into_iter().filter(is_of_it).collect();
    assert!(grown.iter().any(|row| row["functions"].as_array().unwrap().len() > 5), "{grown:?}");
    // A stack is called the same in Prometheus.
    let serving = Serving::start(&fleet.scratch, &[&format!("name:{}", fleet.service)]);
    let metrics = serving.get("/metrics").good().text();
    let (_, stack) = metrics.split_once("stack=\"").expect("a stack of the process");
    let named = format!(
        "count() > 0 FROM heap WHERE stack = reinterpretAsUInt64(reverse(unhex('{}'))) AND",
        &stack[..16]
    );
    assert_eq!(fleet.ask(&named), "1", "{stack}");
    let process = "host, ended > 0 FROM processes FINAL WHERE";
    assert_eq!(fleet.ask(process), "web-1\t0");
    let terms = fleet.number("argMax(bytes, minute) FROM memory FINAL WHERE term = 'live' AND");
    assert!((live / 2.0..live * 2.0).contains(&terms), "{terms} {live}");
    let pid = fleet.profile().header.pid;
    let source = |choice: &str| {
        let (port, service) = (fleet.server.port, &fleet.service);
        format!("clickhouse://127.0.0.1:{port}/ramson?service={service}{choice}")
    };
    for choice in ["", &format!("&host=web-1&pid={pid}")] {
        let report = asked(&fleet.scratch, &["report", &source(choice)]);
        assert_eq!(report.number("total.value"), live);
    }
    let none = finish(ramson(&fleet.scratch).args(["report", &source("&host=web-2")]));
    assert_eq!(none.status, 5, "{none:?}");
    let diff = asked(&fleet.scratch, &["diff", &source(""), &source("")]);
    assert_eq!(diff.number("total.value"), 0.0);
    // It has allocated nothing for a while.
    sleep(Duration::from_secs(2));
    let killed = unix_seconds();
    signal(pid, "KILL");
    wait_until("the end is seen", || fleet.ask(process).ends_with('1'));
    wait_until("nothing is live", || fleet.sums()[0] == 0.0);
    assert_eq!(fleet.ask("end FROM processes FINAL WHERE"), "SIGKILL");
    let ended = fleet.number("toUnixTimestamp(ended) FROM processes FINAL WHERE");
    assert!(ended >= killed, "{ended} {killed}");
    // Its file stays, and is found again by each search.
    let counted = "groupArray((age, total)) FROM (SELECT service, age, sum(n) AS total FROM heap GROUP BY service, age ORDER BY age) WHERE";
    let counts = fleet.ask(counted);
    for later in [unique("later"), unique("last")] {
        let mut command = ramson(&fleet.scratch);
        let program = fleet.scratch.path(&later);
        symlink(python(), &program).unwrap();
        command
            .args(["run", "--interval", "64K", "--"])
            .arg(program)
            .args(["-c", "bytes(1 << 20)"]);
        finish(&mut command).good();
        wait_until("a later process is in the database", || {
            fleet
                .server
                .ask(&format!("SELECT count() FROM processes WHERE service = '{later}'"))
                .trim()
                != "0"
        });
    }
    sleep(Duration::from_secs(3));
    assert_eq!(fleet.ask(counted), counts);
    drop(agent);
}

fn unix_seconds() -> f64 {
    UNIX_EPOCH.elapsed().unwrap().as_secs() as f64
}

/// With an interval of 1 each sample stands for itself.
#[test]
fn fleet_answers_questions() {
    let fleet = Fleet::new();
    let text = fleet.fleet(&[]).good().text();
    assert!(text.starts_with("no rows yet"), "{text}");
    // Rows of long ago are removed.
    let day = &*fleet.server.ask("SELECT toDate(now('UTC')) - 1");
    let day = day.trim();
    let processes = (11..=20).map(|process| {
        let (ended, end) = match process {
            20 => (format!("{day} 03:00:00"), "SIGKILL, OOM killer"),
            _ => ("1970-01-01".into(), ""),
        };
        format!("({process}, 'shop', 'web-1', {process}000, '{day} 04:00:00', '{ended}', '{end}')")
    });
    let heap = (11..=18).map(|process| format!("('v1', 1, {process}, '{day}', 1000000, 0, 1)"));
    let grown = [format!("('v2', 2, 19, '{day} 02:00:00', 1000000, 1, 50)")];
    let died = [(1, 7), (70, 7)]
        .map(|(age, n)| format!("('v2', 2, 20, '{day} 03:00:00', 1000000, {age}, {n})"));
    let heap: Vec<String> = heap.chain(grown).chain(died).collect();
    let heap = heap.iter().map(|row| format!("('shop', 1, {}", &row[1..]));
    for (into, rows) in [
        (
            "processes (process, service, host, pid, seen, ended, end)",
            processes.collect::<Vec<_>>(),
        ),
        ("heap (service, interval, version, stack, process, minute, size, age, n)", heap.collect()),
        ("stacks (stack, frames)", vec!["(1, [12, 13])".into(), "(2, [11, 12, 13])".into()]),
        (
            "frames (frame, function)",
            vec!["(11, 'leak')".into(), "(12, 'serve')".into(), "(13, 'main')".into()],
        ),
        (
            "memory (service, process, minute, term, bytes)",
            [
                "'shop', 11, '{day} 00:01:00', 'live', 9",
                "'shop', 11, '{day} 00:01:00', 'free_in_allocator', 4096",
                // Earlier, and of a process that has ended.
                "'shop', 11, '{day}', 'free_in_allocator', 999999",
                "'shop', 11, '{day}', 'other', 999999",
                "'shop', 20, '{day}', 'free_in_allocator', 999999",
                "'cart', 12, '{day}', 'held_by_allocator', 70",
            ]
            .map(|row| format!("({})", row.replace("{day}", day)))
            .into(),
        ),
    ] {
        fleet.server.ask(&format!("INSERT INTO {into} VALUES {}", rows.join(", ")));
    }
    for (question, first, expected) in [
        (
            &[][..],
            "shop uses most: 55.3 MiB live in 9 running processes on 1 host",
            json!([["live_bytes", 58e6], ["growth_bytes", 50e6], ["growth_bytes_half_width", 0.0]]),
        ),
        (
            &["grew"],
            "1 stack has grown by more than sampling error; the largest: leak in shop, 47.7 MiB in 1 of its processes",
            json!([["growth_bytes", 50e6], ["functions", ["leak", "serve", "main"]]]),
        ),
        (
            &["stacks", "shop"],
            "shop: leak holds most: 47.7 MiB",
            json!([["live_bytes", 50e6], ["growth_bytes", 50e6]]),
        ),
        (
            &["new", "shop", "--since", "v1"],
            "1 stack of shop that version v1 never had; the largest: leak, 47.7 MiB live",
            json!([["versions", "v2"], ["allocated_bytes", 57e6]]),
        ),
        (
            &["processes", "shop"],
            "9 processes of shop; the largest: pid 19000 on web-1, 47.7 MiB live",
            json!([["live_bytes", 50e6], ["live_bytes_half_width", 0.0]]),
        ),
        (
            &["outliers", "shop"],
            "1 process of shop differs from the others; the most: pid 19000 on web-1, 47.7 MiB live (median 977 KiB)",
            json!([["live_bytes", 50e6], ["median_bytes", 1e6]]),
        ),
        (
            &["deaths"],
            "1 process ran out of memory; the last: shop, pid 20000 on web-1, with 6.68 MiB live",
            json!([["live_bytes", 7e6], ["most_in", "leak"], ["end", "SIGKILL, OOM killer"]]),
        ),
        (
            &["free"],
            "shop has most free: 4.00 KiB in 1 process. Trims return that at most",
            json!([["free_bytes", 4096], ["rss_bytes", 4105]]),
        ),
    ] {
        let text = fleet.fleet(question).good().text();
        assert_eq!(text.lines().next(), Some(&*format!("{day}: {first}")), "{text}");
        let rows = fleet.question(question);
        for pair in expected.as_array().unwrap() {
            let (name, value) = (pair[0].as_str().unwrap(), &pair[1]);
            let is_it = rows[0][name] == *value || rows[0][name].as_f64() == value.as_f64();
            assert!(is_it && !rows[0][name].is_null(), "{question:?} {pair}: {rows:?}");
        }
    }
    let other_day = fleet.fleet(&["deaths", "--day", "2026-11-21"]).good().text();
    assert_eq!(other_day, "2026-11-21: no process ran out of memory\n");
    let sql = fleet.fleet(&["grew", "--sql"]).good().text();
    assert!(sql.contains("FROM stack_days") && sql.contains("{day:Date}"), "{sql}");
    assert!(fleet.question(&["free"])[1]["free_bytes"].is_null());
    for (words, status, part) in [
        (&["--day", "2026-13-01"][..], 2, "not a day"),
        (&["stacks", "shop", "--since", "v1"], 2, "--since: stacks takes no version"),
        (
            &["new", "shop"],
            2,
            "new needs --since VERSION. Versions of shop, the latest first: v1, v2",
        ),
        (
            &["new", "shop", "--since", "v"],
            5,
            "several versions begin with v. Its versions, the latest first: v1, v2",
        ),
        (&["new", "shop", "--since", "x"], 5, "no version begins with x"),
        (&["outliers", "cart"], 5, "no agent has sent anything of this service"),
    ] {
        let refused = fleet.fleet(words);
        assert!(refused.status == status && refused.remarks[0].contains(part), "{refused:?}");
    }
}

/// Neither side loses a row or makes one twice, whenever it is killed.
#[test]
fn fleet_survives_kills_of_both_sides() {
    let mut fleet = Fleet::new();
    let program = fleet.program();
    fleet.agent_once().good();
    let mut random = Random::new(7);
    for round in 0..40 {
        let agent = fleet.agent();
        sleep(Duration::from_millis(random.below(1500)));
        drop(agent);
        if round % 5 == 4 {
            fleet.server.kill_and_start(&fleet.scratch);
        }
    }
    fleet.hold_still();
    fleet.agent_once().good();
    let [live, _] = fleet.reported();
    let [of_rows, samples, of_days, samples_of_days] = fleet.sums();
    assert_eq!((of_rows, of_days), (live, live));
    assert_eq!(samples, samples_of_days);
    drop(program);
}

#[test]
fn fleet_waits_for_its_server_and_its_tables() {
    let mut fleet = Fleet::new();
    let program = fleet.program();
    fleet.server.ask("INSERT INTO schema (version) VALUES (7)");
    let refused = fleet.agent_once();
    assert_eq!(refused.status, 1, "{refused:?}");
    assert!(
        refused.remarks.iter().any(
            |line| line.contains("have version 7, and this ramson needs 1. Update ramson here")
        ),
        "{refused:?}"
    );
    fleet.server.kill();
    assert_eq!(fleet.agent_once().status, 1);
    fleet.server.start_again(&fleet.scratch);
    assert_eq!(fleet.number("count() FROM heap WHERE"), 0.0);
    fleet.server.ask("TRUNCATE TABLE schema");
    fleet.server.ask("INSERT INTO schema (version) VALUES (1)");
    fleet.hold_still();
    fleet.agent_once().good();
    assert_eq!(fleet.sums()[0], fleet.reported()[0]);
    // What is counted is damaged: nothing is counted twice.
    let states = fs::read_dir(fleet.scratch.path("agent/states")).unwrap().flatten();
    let states = states.filter(|entry| entry.file_name() != "last");
    states.for_each(|entry| fs::write(entry.path(), "").unwrap());
    let damaged = fleet.agent_once().good();
    assert!(damaged.remarks.iter().any(|line| line.contains("was damaged")), "{damaged:?}");
    assert_eq!(fleet.sums()[0], fleet.reported()[0]);
    // It began on this day: all that is live is growth, though no agent ran then.
    let state = "sum(state) FROM stack_days WHERE day = (SELECT min(day) FROM stack_days) AND";
    assert_eq!(fleet.number(state), 0.0);
    let check =
        finish(ramson(&fleet.scratch).args(["agent", "--check", "--config"]).arg(fleet.config()))
            .good();
    assert!(check.text().contains("tables of version 1"));
    drop(program);
}
