//! `ramson serve` as Debian's Prometheus scrapes it, and as scrapers of profiles find its processes.

use ramson_tests::servers::*;
use ramson_tests::serving::{Serving, holding, pid_of_only};
use ramson_tests::several::say;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// What Prometheus is told.
const CONFIGURATION: &str = "
scrape_configs:
- job_name: totals
  scrape_interval: 1s
  authorization: { type: Bearer, credentials: TOKEN }
  static_configs: [{ targets: ['127.0.0.1:PORT'] }]
- job_name: profiles
  scrape_interval: 1h
  authorization: { type: Bearer, credentials: TOKEN }
  http_sd_configs:
  - url: http://127.0.0.1:PORT/api/v1/targets
    refresh_interval: 1s
    authorization: { type: Bearer, credentials: TOKEN }
  relabel_configs:
  - { source_labels: [__meta_ramson_heap_path], target_label: __metrics_path__ }
";

struct Prometheus {
    _running: Running,
    port: u16,
}

impl Prometheus {
    fn start(scratch: &Scratch, serving: &Serving) -> Self {
        let configuration = CONFIGURATION.replace("TOKEN", &serving.token);
        let configuration = configuration.replace("PORT", &serving.port.to_string());
        let file = scratch.file("prometheus.yml", &configuration);
        let mut command = clean("prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", scratch.path("tsdb").display()));
        // Any that is free: its log tells which.
        command.arg("--web.listen-address=127.0.0.1:0");
        let log = scratch.path("prometheus.log");
        let said = || fs::read_to_string(&log).unwrap_or_default();
        let running = Running::start(&mut command, &log, || said().contains("Server is ready"));
        let port = said().split_once("\"Listening on\" address=127.0.0.1:").map(|(_, rest)| {
            rest.split_whitespace().next().and_then(|port| port.parse().ok()).unwrap()
        });
        Self { _running: running, port: port.unwrap_or_else(|| panic!("{}", said())) }
    }

    fn json(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// The values of a metric now, by the label that tells them apart.
    fn values(&self, metric: &str, label: &str) -> BTreeMap<String, f64> {
        let found = self.json(&format!("/api/v1/query?query={metric}"));
        let series = found["data"]["result"].as_array().unwrap().iter().map(|series| {
            let value = series["value"][1].as_str().unwrap().parse().unwrap();
            (series["metric"][label].as_str().unwrap_or_default().to_owned(), value)
        });
        series.collect()
    }
}

#[test]
fn fleet_prometheus_scrapes_serve() {
    let scratch = Scratch::new();
    let held = holding(&scratch, "holds-scraped");
    let pid = pid_of_only(&scratch);
    let serving = Serving::start(&scratch, &[&pid]);
    let prometheus = Prometheus::start(&scratch, &serving);
    wait_until("it has scraped", || !prometheus.values("ramson_age_seconds", "").is_empty());
    let only = |metric: &str| prometheus.values(metric, "pid")[&pid];
    // The program waits: its figures stay.
    let report: Value =
        serde_json::from_str(&say(&scratch, &["report", &pid, "--json", "-n", "0"]).good().text())
            .unwrap();
    let live = report["live"]["value"].as_f64().unwrap();
    assert_eq!(only("ramson_live_bytes"), live.round());
    assert_eq!(only("ramson_live_half_width_bytes"), 0.0);
    assert_eq!(prometheus.values("ramson_processes", "")[""], 1.0);
    let terms = prometheus.values("ramson_rss_term_bytes", "term");
    assert_eq!(terms.values().sum::<f64>(), only("ramson_rss_bytes"), "{terms:?}");
    let resident = report.pointer("/rss/terms/live/value").and_then(Value::as_f64).unwrap();
    assert_eq!(terms["live"], resident.round());
    let stacks = prometheus.values("ramson_stack_live_bytes", "stack");
    let rows: Vec<f64> = report["rows"].as_array().unwrap().iter().map(value_of_row).collect();
    let largest = rows.iter().copied().fold(0.0, f64::max);
    assert!(stacks.len() <= 10 && stacks.len() <= rows.len(), "{stacks:?} {rows:?}");
    assert_eq!(stacks.values().copied().fold(0.0, f64::max), largest, "{stacks:?}");
    // Every stack of it has the same names in each scrape.
    let again = prometheus.values("ramson_stack_live_bytes", "stack");
    assert_eq!(again, stacks);

    let targets = || {
        let targets = prometheus.json("/api/v1/targets?state=active");
        let all = targets["data"]["activeTargets"].as_array().unwrap().clone();
        all.into_iter().find(|target| target["labels"]["job"] == "profiles")
    };
    wait_until("the process is found", || targets().is_some());
    let target = targets().unwrap();
    assert_eq!(target["labels"]["service_name"], "holds-scraped");
    assert_eq!(target["labels"]["pid"], pid.as_str());
    let url = target["scrapeUrl"].as_str().unwrap();
    let path = format!("/p/{pid}/debug/pprof/heap");
    assert_eq!(url, format!("http://127.0.0.1:{}{path}", serving.port));
    assert_eq!(target["discoveredLabels"]["__profile_path_prefix__"], format!("/p/{pid}"));
    serving.get(&path).good();
    drop(held);
    wait_until("its end is seen", || prometheus.values("ramson_live_bytes", "pid").is_empty());
    wait_until("it is found no more", || targets().is_none());
}

#[test]
fn frequent_scrapes_cost_little() {
    let scratch = Scratch::new();
    let _held = holding(&scratch, "holds-scraped-often");
    let serving = Serving::start(&scratch, &[&pid_of_only(&scratch)]);
    let mut took = Vec::new();
    let begun = Instant::now();
    for _ in 0..50 {
        let text = serving.get("/metrics").good().text();
        let line = text.lines().find_map(|line| line.strip_prefix("ramson_read_seconds "));
        took.push(line.unwrap().parse::<f64>().unwrap());
    }
    let elapsed = begun.elapsed().as_secs_f64();
    // Each but the last was followed by its pause.
    took.dedup();
    let pauses: f64 = took[..took.len() - 1].iter().map(|seconds| seconds * 50.0).sum();
    assert!(pauses <= elapsed, "{took:?} in {elapsed} s");
}

/// Allocates all the time. Before it is ready it has been sampled.
const BUSY: &str = "
import time
kept = [bytes(1000) for _ in range(10000)]
print('ready', flush=True)
while True:
    bytes(1 << 20)
    time.sleep(0.001)
";

#[test]
fn end_of_sampling_shows_in_metrics() {
    let scratch = Scratch::new();
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "64K", "--", "/usr/bin/python3", "-c", BUSY]);
    let log = scratch.path("python.log");
    let is_ready = || fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"));
    let _running = Running::start(&mut command, &log, is_ready);
    let pid = pid_of_only(&scratch);
    let serving = Serving::start(&scratch, &[&pid]);
    let is_sampled = || {
        let text = serving.get("/metrics").good().text();
        let line = text.lines().find(|line| line.starts_with("ramson_sampled{"));
        line.unwrap_or_else(|| panic!("{text}")).ends_with(" 1")
    };
    assert!(is_sampled());
    say(&scratch, &["set", &pid, "--off"]).good();
    wait_until("the end of sampling is seen", || !is_sampled());
    let text = serving.get("/metrics").good().text();
    assert!(text.contains("\nramson_live_bytes{"), "{text}");
    assert!(!text.contains("\nramson_live_growth_bytes_per_second{"), "{text}");
}

fn value_of_row(row: &Value) -> f64 {
    row["value"]["value"].as_f64().unwrap().round()
}

#[test]
fn metrics_need_the_token() {
    let scratch = Scratch::new();
    let mut held = holding(&scratch, "holds-unscraped");
    let pid = pid_of_only(&scratch);
    drop(held.0.stdin.take());
    held.wait();
    let serving = Serving::start(&scratch, &[&pid]);
    for path in ["/metrics", "/api/v1/targets"] {
        assert_eq!(serving.get_with(path, &[]).status, 401, "{path}");
        assert_eq!(serving.post(path, "").status, 405, "{path}");
    }
    // Nothing runs.
    let empty = serving.get("/metrics").good();
    assert_eq!(
        empty.header("content-type"),
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert!(empty.text().contains("\nramson_processes 0\n"), "{}", empty.text());
    assert!(empty.text().ends_with("# EOF\n"));
    assert_eq!(serving.get("/api/v1/targets").good().text(), "[]\n");
}
