//! `/debug/pprof/symbol`: names of addresses of a process, for readers that have none.

use crate::reply::{self, Reply};
use crate::sources::Entry;
use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use ramson_analysis::lookup::names_of;
use ramson_analysis::naming::Names;
use ramson_source::{Failure, open_recording};
use std::time::Duration;
use tokio::time::timeout;

/// Most bytes of a question, which hold some 50,000 addresses.
const MOST_BYTES: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the addresses in a body are not taken.
pub struct Untaken(StatusCode, &'static str);

impl Untaken {
    pub fn reply(&self) -> Reply {
        reply::error(self.0, self.1)
    }
}

/// Addresses in the body of a request.
pub async fn sent(body: Incoming) -> Result<Vec<u64>, Untaken> {
    let untaken = |status, line| Err(Untaken(status, line));
    match timeout(PATIENCE, Limited::new(body, MOST_BYTES).collect()).await {
        Err(_) => untaken(StatusCode::REQUEST_TIMEOUT, "the addresses did not arrive in time"),
        Ok(Err(_)) => {
            untaken(StatusCode::PAYLOAD_TOO_LARGE, "at most 1 MiB of addresses at a time")
        }
        Ok(Ok(body)) => Ok(addresses(&String::from_utf8_lossy(&body.to_bytes()))),
    }
}

/// Those in `0x1234+0x5678`; what is no address is left out, as Go does.
pub fn addresses(text: &str) -> Vec<u64> {
    let words = text.split(|letter: char| letter == '+' || letter.is_whitespace());
    words.filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect()
}

/// A line for each address that has a name.
pub fn reply(entry: &Entry, names: &Names, addresses: &[u64]) -> Result<Reply, Failure> {
    let mut body = "num_symbols: 1\n".to_owned();
    if !addresses.is_empty() {
        let recording = open_recording(&entry.source)?;
        for (address, name) in names_of(&recording, names, addresses)? {
            body += &format!("{address:#x} {name}\n");
        }
    }
    Ok(reply::of("text/plain; charset=utf-8", body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hexadecimal() {
        assert_eq!(addresses("0x10+0xff\n"), [16, 255]);
        assert_eq!(addresses("10+0xg++0x"), [0; 0]);
        assert_eq!(addresses("0xffffffffffffffffff+0x1"), [1]);
    }
}
