//! `make fleet`: the agent with a real ClickHouse server, killed and started again on both sides.

mod clickhouse;

use clickhouse::ClickHouse;
use ramson_format::Kind;
use ramson_tests::random::Random;
use ramson_tests::servers::*;
use ramson_tests::several::{json, unique};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

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
            "state = \"{}\"\nevery_seconds = 1\nhost = \"web-1\"\n[clickhouse]\nurl = \"http://127.0.0.1:{}\"\n",
            state.display(),
            self.server.port
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
        let report = json(&self.scratch, &["report", &format!("name:{}", self.service)]);
        let profile = profiles(&self.scratch).remove(0);
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
    let _program = fleet.program();
    wait_until("samples are in the database", || {
        fleet.number("sumIf(n, age > 1) FROM heap WHERE") > 500.0
    });
    fleet.hold_still();
    let [live, _] = fleet.reported();
    wait_until("all is sent", || fleet.sums()[0] == live);
    fleet.assert_equal();
    let questions =
        ["services", "stacks", "grew"].map(|name| fleet.server.question(name, &fleet.service));
    assert!(questions[0].contains(&format!("{live}")), "{questions:?}");
    assert!(questions.iter().all(|answer| !answer.is_empty()), "{questions:?}");
    let process = "host, ended > 0 FROM processes FINAL WHERE";
    assert_eq!(fleet.ask(process), "web-1\t0");
    let terms = fleet.number("argMax(bytes, minute) FROM memory WHERE term = 'live' AND");
    assert!((live / 2.0..live * 2.0).contains(&terms), "{terms} {live}");
    let pid = profiles(&fleet.scratch).remove(0).header.pid;
    signal(pid, "KILL");
    wait_until("the end is seen", || fleet.ask(process).ends_with('1'));
    wait_until("nothing is live", || fleet.sums()[0] == 0.0);
    assert_eq!(fleet.ask("end FROM processes FINAL WHERE"), "SIGKILL");
    drop(agent);
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
        refused.remarks.iter().any(|line| line
            .contains("have version 7, which is newer than this agent's 1. Update this agent")),
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
    let check =
        finish(ramson(&fleet.scratch).args(["agent", "--check", "--config"]).arg(fleet.config()))
            .good();
    assert!(check.text().contains("tables of version 1"));
    drop(program);
}
