//! A collector of metrics that hoards: it keeps a histogram for each set of labels, and the ID of the request is a label.
//!
//!     rustc -O -g metricsd.rs

use std::collections::HashMap;
use std::io::Write;

mod metrics {
    use super::HashMap;

    #[derive(Default)]
    pub struct Registry {
        histograms: HashMap<String, Vec<u64>>,
    }

    impl Registry {
        pub fn observe(&mut self, labels: String, value: usize) {
            self.histograms.entry(labels).or_insert_with(|| vec![0; 64])[value % 64] += 1;
        }
    }
}

/// Names of hosts, read once.
fn resolve_hosts() -> Vec<String> {
    (0..2000).map(|host| format!("host-{host}.{}", "example.".repeat(200))).collect()
}

fn handle_request(registry: &mut metrics::Registry, hosts: &[String], request: usize) {
    let path = ["/cart", "/item", "/search"][request % 3];
    let host = &hosts[request % hosts.len()][..140];
    let labels = format!("path={path},host={host},request_id={request:032x}");
    registry.observe(labels, request * 31);
}

fn main() {
    let hosts = resolve_hosts();
    let mut registry = metrics::Registry::default();
    for request in 0..150_000 {
        handle_request(&mut registry, &hosts, request);
    }
    println!("ready");
    std::io::stdout().flush().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3600));
}
