//! `ramson serve` as scrapers see it, which cannot be had here: what is sent, and what is expected, is what their code says.

use ramson_tests::servers::*;
use ramson_tests::serving::{Reply, Serving, pprof};
use ramson_tests::several::redis;
use std::fs;
use std::time::{Duration, Instant};

/// Requests of one scraper.
struct Scraper {
    name: &'static str,
    user_agent: &'static str,
    /// Path from which it takes live and allocated memory, by default.
    memory_path: &'static str,
    /// Paths of other profiles, which it asks for by default, too.
    other_paths: &'static [&'static str],
    /// How long it waits for a profile, by default.
    timeout: Duration,
}

/// github.com/parca-dev/parca: pkg/config/config.go (`DefaultScrapeConfig`: paths, an interval of 10 s; `UnmarshalYAML`: a timeout of 3 s
/// more), pkg/scrape/scrape.go (`userAgentHeader`; `scrape`: any status but 200 and an empty body are failures), pkg/scrape/target.go
/// (`targetsFromGroup`: `seconds` of the interval for the CPU profile).
const PARCA: Scraper = Scraper {
    name: "Parca",
    user_agent: "conprof/0.24.0",
    memory_path: "/debug/pprof/allocs",
    other_paths: &[
        "/debug/pprof/block",
        "/debug/pprof/goroutine",
        "/debug/pprof/mutex",
        "/debug/pprof/profile?seconds=10",
    ],
    timeout: Duration::from_secs(13),
};

/// github.com/grafana/alloy, which scrapes for Pyroscope: internal/component/pyroscope/scrape/scrape.go (`DefaultProfilingConfig`: paths;
/// `NewDefaultArguments`: a timeout of 10 s), scrape_loop.go (`fetchProfile`: any status but 2xx is a failure, told with its body).
const PYROSCOPE: Scraper = Scraper {
    name: "Alloy for Pyroscope",
    user_agent: "Alloy/v1.5.0 (linux; docker)",
    memory_path: "/debug/pprof/allocs",
    other_paths: &[
        "/debug/pprof/block",
        "/debug/pprof/goroutine",
        "/debug/pprof/mutex",
        "/debug/pprof/profile?seconds=14",
        "/debug/pprof/delta_heap",
    ],
    timeout: Duration::from_secs(10),
};

impl Scraper {
    /// As Go's net/http sends it for both: the address as Host, gzip unpacked on the way, the token from `authorization`
    /// (github.com/prometheus/common, config/http_config.go).
    fn ask(&self, serving: &Serving, path: &str, token: &str) -> Reply {
        serving.get_with(
            path,
            &[
                ("Host", &format!("127.0.0.1:{}", serving.port)),
                ("User-Agent", self.user_agent),
                ("Authorization", &format!("Bearer {token}")),
                ("Accept-Encoding", "gzip"),
            ],
        )
    }
}

/// The profile of a redis that was killed.
fn dead_redis(scratch: &Scratch) -> String {
    let server = redis(scratch, "redis-scraped", "scraped.sock", 2000, true);
    signal(server.0.id(), "KILL");
    drop(server);
    let found = fs::read_dir(scratch.path("profiles")).unwrap().next().unwrap();
    found.unwrap().path().to_str().unwrap().to_owned()
}

/// Output of `go tool pprof`, which has the same parser as the scrapers, for a profile.
#[track_caller]
fn top(scratch: &Scratch, body: &[u8], options: &[&str]) -> String {
    let file = scratch.file("scraped.pb.gz", body);
    pprof(scratch, &[&["-symbolize=none", "-top"], options, &[file.to_str().unwrap()]].concat())
        .good()
        .text()
}

#[test]
fn scrapers_parse_served_profiles() {
    let scratch = Scratch::new();
    let profile = dead_redis(&scratch);
    let serving = Serving::start(&scratch, &[&profile]);
    for scraper in [PARCA, PYROSCOPE] {
        let name = scraper.name;
        let refused = scraper.ask(&serving, scraper.memory_path, "another");
        assert_eq!(refused.status, 401, "{name}");
        let begun = Instant::now();
        let scraped = scraper.ask(&serving, scraper.memory_path, &serving.token).good();
        assert!(begun.elapsed() < scraper.timeout, "{name}: {:?}", begun.elapsed());
        // Packed as a file is, and not on the way besides: Go's client would unpack the one and the parser the other, but
        // what is stored is what the client gives.
        assert_eq!(scraped.header("content-encoding"), "", "{name}");
        assert!(scraped.body.starts_with(&[0x1f, 0x8b]), "{name}");
        // Parca keeps sample types by these names, and drops the rest (`keep_sample_type`).
        for kept in ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"] {
            let found = top(&scratch, &scraped.body, &[&format!("-sample_index={kept}")]);
            assert!(
                found.contains(&format!("Type: {kept}")) && found.contains("zmalloc"),
                "{name}: {found}"
            );
        }
        for path in scraper.other_paths {
            let none = scraper.ask(&serving, path, &serving.token);
            assert_eq!(none.status, 404, "{name} {path}");
            assert!(
                none.text().contains("use /debug/pprof/heap"),
                "{name} {path}: {}",
                none.text()
            );
        }
        // `path_prefix`, and `params` or a relabelled `__param_…`.
        let pid = serving.get("/api/v1/sources").good();
        let pid = Json::parse(&pid.text()).list("sources")[0].text("id").to_owned();
        let path = format!("/p/{pid}{}?gc=1&debug=0", scraper.memory_path);
        assert_eq!(
            scraper.ask(&serving, &path, &serving.token).good().body,
            scraped.body,
            "{name}"
        );
    }
}
